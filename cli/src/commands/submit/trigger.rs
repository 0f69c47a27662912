//! `curfew submit --trigger` and `curfew schedule add`: documents that make jobs later.

use std::path::Path;

use ::workdir::PackedWorkdir;
use jobs::schedule::{append_section, name_options};
use jobs::trigger::{schedule_key, trigger_key};
use jobs::{JobSpec, Schedule, SpecMistake, Trigger};
use model::config::Config;
use model::foreign_text::shell_word;
use store::{Documents as _, ReconcilerDocuments as _, Store};

use super::workdir::{add_digest, pack_directory};
use super::{JobDocument, SubmitOptions, SubmitOutput, container, finish};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;

/// The section `[schedule]` as options say it.
pub(in crate::commands) struct ScheduleTerms {
    pub(in crate::commands) cron: String,
    pub(in crate::commands) time_zone: Option<String>,
    pub(in crate::commands) max_at_once: Option<u32>,
}

/// Content of a document, or every mistake in it.
type Judged<T> = Result<T, Vec<SpecMistake>>;

/// A legal document that makes jobs later.
struct JobMaker {
    key: String,
    bytes: Vec<u8>,
    /// The document of one of its jobs.
    text: String,
    spec: JobSpec,
    description: String,
    /// The most jobs of a day, where it has such a limit.
    max_per_day: Option<u32>,
    /// The command that ends it.
    end: String,
}

/// Checks a trigger as `run-jobs` does, shows what one of its jobs can cost, and puts it into the folder of the team.
pub(super) async fn submit_trigger(
    context: &CommandContext,
    document: JobDocument,
    options: &SubmitOptions,
    name: &str,
    workdir: Option<&Path>,
) -> Result<CommandStatus, CommandError> {
    let bytes = container::pin_image(context, document.bytes).await?;
    let packed = workdir.map(pack_directory).transpose()?;
    let store = context.needs_deployed().await?.store;
    let config = store.read_config().await?;
    let team = options.team(&config)?;
    let output = SubmitOutput::new(document.source, &team, packed.as_ref());
    let bucket = (store.bucket_name(), context.aws.home());
    let read = |bytes: &[u8]| Trigger::read(bytes, name, Some(&team), &config, bucket, context.now);
    let maker = with_digest(bytes, packed.as_ref(), read).map(|((trigger, spec), bytes)| {
        let key = trigger_key(&team, name);
        let address = format!("s3://{}/{key}", store.bucket_name());
        JobMaker {
            end: format!("End it by deleting that object:  aws s3 rm {}", shell_word(&address)),
            key,
            text: trigger.text().to_owned(),
            description: trigger.describe(),
            max_per_day: Some(trigger.max_per_day()),
            bytes,
            spec,
        }
    });
    Box::pin(put(context, (&store, &config), output, (maker, packed), options)).await
}

/// Checks a schedule as `run-jobs` does, shows what one of its jobs can cost, and puts it into the folder of the team. Without `terms` the document
/// has the section.
pub(in crate::commands) async fn submit_schedule(
    context: &CommandContext,
    document: JobDocument,
    options: &SubmitOptions,
    name: &str,
    (terms, workdir): (Option<ScheduleTerms>, Option<&Path>),
) -> Result<CommandStatus, CommandError> {
    let mut bytes = container::pin_image(context, document.bytes).await?;
    let packed = workdir.map(pack_directory).transpose()?;
    let has_options = terms.is_some();
    if let Some(ScheduleTerms { cron, time_zone, max_at_once }) = terms
        && let Ok(text) = std::str::from_utf8(&bytes)
    {
        let with_section = append_section(text, &cron, time_zone.as_deref(), max_at_once);
        let double = || {
            let problem = format!("{} has a section [schedule] already", document.source);
            CommandError::with(problem, "leave out --cron, --time-zone and --max-at-once, or the section")
        };
        bytes = with_section.ok_or_else(double)?.into_bytes();
    }
    let store = context.needs_deployed().await?.store;
    let config = store.read_config().await?;
    let team = options.team(&config)?;
    let output = SubmitOutput::new(document.source, &team, packed.as_ref());
    let read = |bytes: &[u8]| Schedule::read(bytes, name, Some(&team), &config, context.aws.home(), context.now);
    let read = with_digest(bytes, packed.as_ref(), read);
    let read = read.map_err(|mistakes| if has_options { name_options(mistakes) } else { mistakes });
    let maker = read.map(|((schedule, spec), bytes)| JobMaker {
        key: schedule_key(&team, name),
        text: schedule.text().to_owned(),
        description: schedule.describe(context.now),
        max_per_day: None,
        end: format!("End it:  curfew schedule rm {} --team {}", shell_word(name), shell_word(team.as_str())),
        bytes,
        spec,
    });
    Box::pin(put(context, (&store, &config), output, (maker, packed), options)).await
}

/// The document and its bytes, with the key of the archive if there is one. The lines of mistakes are those before.
fn with_digest<T>(
    bytes: Vec<u8>,
    packed: Option<&PackedWorkdir>,
    read: impl Fn(&[u8]) -> Judged<(T, JobSpec)>,
) -> Judged<((T, JobSpec), Vec<u8>)> {
    let first = read(&bytes)?;
    let Some(packed) = packed else { return Ok((first, bytes)) };
    let bytes = add_digest(&bytes, &first.1, packed)?;
    Ok((read(&bytes)?, bytes))
}

async fn put(
    context: &CommandContext,
    (store, config): (&Store, &Config),
    mut output: SubmitOutput<'_>,
    (maker, packed): (Judged<JobMaker>, Option<PackedWorkdir>),
    options: &SubmitOptions,
) -> Result<CommandStatus, CommandError> {
    let maker = match maker {
        Ok(maker) => maker,
        Err(mistakes) => {
            output.mistakes = mistakes;
            return Ok(finish(context, &output, CommandStatus::Findings)?.ending);
        }
    };
    if !context.global.json {
        screen::print_line(format!("{}\n", maker.description));
    }
    let ending = output.preview(context, store, config, (&maker.spec, maker.text.as_bytes()), options).await;
    let day_cost = output.worst_case_usd().zip(maker.max_per_day).map(|(usd, most)| usd.scaled(u64::from(most), 1));
    if let Some(day_cost) = day_cost.filter(|_| !context.global.json) {
        screen::print_line(format!("\nThe jobs of a day can cost {day_cost} at most together"));
    }
    if let Some(ending) = ending {
        return Ok(finish(context, &output, ending)?.ending);
    }
    if !output.is_confirmed(&maker.spec, config, output.worst_case_usd(), options)? {
        return Ok(finish(context, &output, CommandStatus::Findings)?.ending);
    }
    output.bring_archive(store, &maker.spec, packed, context.now).await?;
    let is_replaced = store.put_trigger(&maker.key, &maker.bytes).await?;
    if !context.global.json {
        let replaced = if is_replaced { ", in place of the earlier one" } else { "" };
        screen::print_line(format!("submitted as {}{replaced}", maker.key));
        screen::progress(maker.end);
    }
    output.submitted = Some(maker.key);
    Ok(finish(context, &output, CommandStatus::Success)?.ending)
}
