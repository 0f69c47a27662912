//! `curfew schedule ls`.

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use jobs::schedule::{MissReason, MissedMoments, SkippedMoment};
use jobs::trigger::TriggerObject;
use jobs::{JobSpec, Schedule, SpecMistake};
use model::config::Config;
use model::id::TeamName;
use serde::Serialize;
use store::{Documents as _, ReconcilerDocuments as _, Store, TriggerDocuments as _};

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;
use crate::commands::submit::TeamOption;
use crate::context::CommandContext;
use crate::resolve_job::AT_ONCE;
use crate::screen::{self, ColumnAlignment, Table, plain};

/// List the schedules of a team, with the next moment of each, and what the last ones made
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 listed; 1 one has mistakes, or no run has looked at it yet; 2 error or incomplete result.\n\n\
                  Example:\n  curfew schedule ls --team vision"
)]
pub(crate) struct Ls {
    #[command(flatten)]
    team: TeamOption,
}

/// ```json
/// {"schema": 1, "at": "2026-11-22T05:00:00Z", "team": "vision",
///  "schedules": [{"name": "nightly", "key": "triggers/vision/schedules/nightly.toml", "cron": "0 2 * * *", "time_zone": "Europe/Berlin",
///                 "max_at_once": 1, "next_at": "2026-11-23T01:00:00Z", "is_seen": true, "submitted_at": "2026-11-22T01:00:00Z",
///                 "skipped": {"at": "2026-11-21T01:00:00Z", "unfinished": 1},
///                 "missed": {"first": "2026-11-19T01:00:00Z", "last": "2026-11-20T01:00:00Z", "count": 2}, "mistakes": []}]}
/// ```
/// `missed` has a `reason` if that is not that no run looked in time: `workdir-gone`.
/// `is_seen` says that a run has looked at it. The newest moments that made a job, skipped one and were missed are null where there is none. Of a
/// document with mistakes `cron`, `time_zone`, `max_at_once` and `next_at` are null.
#[derive(Serialize)]
struct ScheduleListOutput<'a> {
    at: Timestamp,
    team: &'a TeamName,
    schedules: Vec<ListedSchedule>,
}

#[derive(Serialize)]
struct ListedSchedule {
    name: String,
    key: String,
    cron: Option<String>,
    time_zone: Option<String>,
    max_at_once: Option<u32>,
    next_at: Option<Timestamp>,
    is_seen: bool,
    submitted_at: Option<Timestamp>,
    skipped: Option<SkippedMoment>,
    missed: Option<MissedMoments>,
    mistakes: Vec<SpecMistake>,
}

impl Ls {
    pub(super) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let store = context.needs_deployed().await?.store;
        let config = store.read_config().await?;
        let team = self.team.find_with_jobs(&config)?;
        let listed = store.list_schedules(&team).await?;
        let reads = stream::iter(listed).map(|one| read(context, &store, (&team, &config), one));
        let schedules: Vec<Option<ListedSchedule>> = reads.buffered(AT_ONCE).try_collect().await?;
        let schedules: Vec<ListedSchedule> = schedules.into_iter().flatten().collect();
        let is_fine = schedules.iter().all(|one| one.is_seen && one.mistakes.is_empty());
        let status = if is_fine { CommandStatus::Success } else { CommandStatus::Findings };
        if context.global.json {
            screen::json(&ScheduleListOutput { at: context.now, team: &team, schedules })?;
        } else {
            show(&store, &team, &schedules);
        }
        Ok(status)
    }
}

/// `None` if it was removed since it was listed.
async fn read(
    context: &CommandContext,
    store: &Store,
    (team, config): (&TeamName, &Config),
    TriggerObject { key, name, state_written_at, .. }: TriggerObject,
) -> Result<Option<ListedSchedule>, CommandError> {
    let Some(document) = store.read_trigger(&key).await? else { return Ok(None) };
    let too_large = |bytes| {
        let most = JobSpec::BYTES_MAX;
        vec![SpecMistake::for_document(format!("the document has {bytes} bytes; {most} are the most of a job"))]
    };
    let read = document
        .map_err(too_large)
        .and_then(|bytes| Schedule::read(&bytes, &name, Some(team), config, context.aws.home(), context.now));
    let (schedule, mistakes) = match read {
        Ok((schedule, _)) => (Some(schedule), Vec::new()),
        Err(mistakes) => (None, mistakes),
    };
    let (state, _) = store.read_schedule_state(&key).await?;
    let schedule = schedule.as_ref();
    Ok(Some(ListedSchedule {
        name,
        cron: schedule.map(|schedule| schedule.cron().as_str().to_owned()),
        time_zone: schedule.map(|schedule| schedule.zone_name().to_owned()),
        max_at_once: schedule.map(Schedule::max_at_once),
        next_at: schedule.and_then(|schedule| schedule.next_after(context.now)),
        is_seen: state_written_at.is_some(),
        submitted_at: state.value.submitted,
        skipped: state.value.skipped,
        missed: state.value.missed,
        key,
        mistakes,
    }))
}

fn show(store: &Store, team: &TeamName, schedules: &[ListedSchedule]) {
    if schedules.is_empty() {
        screen::print_line(format!("{team} has no schedule in s3://{}", store.bucket_name()));
        return;
    }
    let columns = ["schedule", "moments", "zone", "next", "submitted", "skipped", "missed"];
    let mut table = Table::new(columns.map(|column| (column, ColumnAlignment::Left)));
    for one in schedules {
        // In the zone in which its moments are written.
        let zone = one.time_zone.as_deref().and_then(|zone| TimeZone::get(zone).ok()).unwrap_or(TimeZone::UTC);
        let local = |at: Timestamp| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M %Z").to_string();
        let moment = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), local);
        let skipped = one.skipped.map(|skipped| skipped.at);
        let missed = one.missed.map(|missed| missed.last);
        table.row([
            plain(&one.name),
            one.cron.as_deref().map_or_else(|| "has mistakes".to_owned(), plain),
            one.time_zone.as_deref().map_or_else(|| "-".to_owned(), plain),
            moment(one.next_at),
            moment(one.submitted_at),
            moment(skipped),
            moment(missed),
        ]);
    }
    table.print();
    for one in schedules {
        if one.missed.is_some_and(|missed| missed.reason == MissReason::WorkdirGone) {
            screen::warn(format!(
                "{}: the bucket had no archive of its `workdir` when a moment was missed; if you have not since, add the schedule again with \
                 --workdir",
                one.key
            ));
        }
        for SpecMistake { line, key, problem } in &one.mistakes {
            screen::warn(format!("{}: line {line}: `{key}`: {problem}", one.key));
        }
    }
    if schedules.iter().any(|one| !one.is_seen && one.mistakes.is_empty()) {
        screen::warn(
            "no run has looked at some of these yet: run-jobs does within a minute, if the parameter Schedules of the stack is yes",
        );
    }
}
