//! `curfew submit --trigger`: a document that makes jobs later.

use jobs::Trigger;
use model::foreign_text::shell_word;
use store::{Documents as _, ReconcilerDocuments as _};

use super::{JobDocument, SubmitOptions, SubmitOutput, container, finish};
use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::screen;

/// Checks a trigger as `run-jobs` does, shows what one of its jobs can cost, and puts it into the folder of the team.
pub(super) async fn submit_trigger(
    context: &CommandContext,
    document: JobDocument,
    options: &SubmitOptions,
    name: &str,
) -> Result<CommandStatus, CommandError> {
    let bytes = container::pin_image(context, document.bytes).await?;
    let store = context.needs_deployed().await?.store;
    let config = store.read_config().await?;
    let team = options.team(&config)?;
    let mut output = SubmitOutput::new(document.source, &team, None);
    let bucket = (store.bucket_name(), context.aws.home());
    let (trigger, spec) = match Trigger::read(&bytes, name, Some(&team), &config, bucket, context.now) {
        Ok(legal) => legal,
        Err(mistakes) => {
            output.mistakes = mistakes;
            return Ok(finish(context, &output, CommandStatus::Findings)?.ending);
        }
    };
    if !context.global.json {
        screen::print_line(format!("{}\n", trigger.describe()));
    }
    let ending = output.preview(context, &store, &config, (&spec, trigger.text().as_bytes()), options).await;
    let of_day = output.worst_case_usd().map(|usd| usd.scaled(u64::from(trigger.max_per_day()), 1));
    if let Some(of_day) = of_day.filter(|_| !context.global.json) {
        screen::print_line(format!("\nThe jobs of a day can cost {of_day} at most together"));
    }
    if let Some(ending) = ending {
        return Ok(finish(context, &output, ending)?.ending);
    }
    if !output.is_confirmed(&spec, &config, output.worst_case_usd(), options)? {
        return Ok(finish(context, &output, CommandStatus::Findings)?.ending);
    }
    let (key, is_replaced) = store.put_trigger(&team, name, &bytes).await?;
    if !context.global.json {
        let replaced = if is_replaced { ", in place of the earlier one" } else { "" };
        screen::print_line(format!("submitted as {key}{replaced}"));
        let address = format!("s3://{}/{key}", store.bucket_name());
        screen::progress(format!("End it by deleting that object:  aws s3 rm {}", shell_word(&address)));
    }
    output.submitted = Some(key);
    Ok(finish(context, &output, CommandStatus::Success)?.ending)
}
