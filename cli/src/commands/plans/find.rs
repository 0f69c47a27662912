//! Finding the record that a person means, and counting those that could not be read.

use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use model::moment::{after, before};
use plan::report::{APPLIED, ApprovalStatus, RunRecord, RunTrace, folder_of};
use store::{PlanKey, StoreError};

use super::show::minute;
use crate::command_error::CommandError;
use crate::context::{CommandContext, DeployedResources};

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// A run is found by the beginning of its id in so many days.
const DAYS: i32 = 8;
/// A shorter beginning is ambiguous.
const PREFIX_MIN: usize = 4;
const DAYS_AT_ONCE: usize = 8;
/// The most ambiguous runs in a message.
const CANDIDATES_MAX: usize = 10;

/// The record that `plan` names: by its key, with or without its bucket, by the id of its run, or by the beginning of that.
pub(crate) async fn find(
    context: &CommandContext,
    deployed: &DeployedResources,
    plan: &str,
) -> Result<RunRecord, CommandError> {
    let key = match plan.strip_prefix("s3://") {
        Some(address) => match address.split_once('/') {
            Some((bucket, key)) if bucket == deployed.bucket => key.to_owned(),
            _ => {
                let problem = format!("{plan} is not in the state bucket, {}", deployed.bucket);
                return Err(CommandError::with(
                    problem,
                    "name the deployment that it belongs to: --stack, or --bucket",
                ));
            }
        },
        None if plan.starts_with("plans/") => plan.to_owned(),
        None => by_run(context, deployed, plan).await?,
    };
    let record = deployed.store.read_plan(&key).await?;
    let record = record.ok_or_else(|| nowhere(&format!("there is no record at s3://{}/{key}", deployed.bucket)))?;
    if record.key() != key {
        let problem = format!("the record at {key} claims to be {}", record.key());
        return Err(CommandError::with(problem, "no run wrote it: find out who did"));
    }
    Ok(record)
}

async fn by_run(context: &CommandContext, deployed: &DeployedResources, run: &str) -> Result<String, CommandError> {
    let legal = run.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !legal || run.len() < PREFIX_MIN {
        return Err(nowhere(&format!("{run:?} is no run: write at least {PREFIX_MIN} characters of its id")));
    }
    let days = (0..DAYS).map(|day| before(context.now, DAY.saturating_mul(day)));
    let mut found = records_of_days(deployed, days, None).await?;
    found.retain(|key| key.run.as_str().starts_with(run));
    if found.iter().any(|key| key.run.as_str() == run) {
        found.retain(|key| key.run.as_str() == run);
    }
    match found.as_slice() {
        [] => {
            let problem = format!("no run of the last {DAYS} days begins with {run}");
            let advice = "`curfew plans --all` lists runs; an older one is found by its record's key, plans/<day>/<function>/<run>.json";
            Err(CommandError::with(problem, advice))
        }
        [one] => Ok(one.key.clone()),
        several => {
            let shown = several.iter().take(CANDIDATES_MAX);
            let lines = shown.map(|key| format!("{} of {}, {}", key.run, key.function, minute(key.written_at)));
            let problem = format!("{} runs begin with {run}", several.len());
            Err(CommandError::with(
                problem,
                format!("it is ambiguous; write more of it: {}", lines.collect::<Vec<_>>().join("; ")),
            ))
        }
    }
}

/// Returns the present status of a run's actions that await approval. They are carried out within a day.
pub(super) async fn approval(
    context: &CommandContext,
    deployed: &DeployedResources,
    record: &RunRecord,
) -> Result<ApprovalStatus, StoreError> {
    let plan = RunTrace::from_record(record);
    let mut traces = Vec::new();
    if record.tally().waiting > 0 {
        let day_after = after(record.at, DAY);
        let days = [record.at, day_after].into_iter().filter(|day| folder_of(*day) <= folder_of(context.now));
        let mut keys = records_of_days(deployed, days, Some(&record.function)).await?;
        keys.retain(|key| key.run.as_str().starts_with(APPLIED));
        for PlanKey { key, .. } in keys {
            traces.extend(deployed.store.read_plan(&key).await?.as_ref().map(RunTrace::from_record));
        }
        traces.extend(
            deployed.store.newest_plan(&record.function, context.now).await?.as_ref().map(RunTrace::from_record),
        );
    }
    Ok(ApprovalStatus::from_traces(&plan, &traces))
}

/// The records of the runs that began on these days, newest first.
pub(super) async fn records_of_days(
    deployed: &DeployedResources,
    days: impl Iterator<Item = Timestamp>,
    function: Option<&str>,
) -> Result<Vec<PlanKey>, StoreError> {
    let lists = stream::iter(days).map(|day| deployed.store.list_plans(day, function));
    let listed: Vec<Vec<PlanKey>> = lists.buffered(DAYS_AT_ONCE).try_collect().await?;
    let mut keys = listed.concat();
    keys.sort_by(|one, other| other.written_at.cmp(&one.written_at).then_with(|| one.key.cmp(&other.key)));
    Ok(keys)
}

fn nowhere(problem: &str) -> CommandError {
    CommandError::with(problem, "`curfew plans` lists runs; --since 7d looks further back, --all shows quiet ones too")
}

/// An error that many records share is one warning.
#[derive(Default)]
pub(super) struct UnreadRecords {
    /// The first of each error, and the count.
    refusals: Vec<(StoreError, usize)>,
}

impl UnreadRecords {
    pub(super) fn add(&mut self, refusal: StoreError) {
        match self.refusals.iter_mut().find(|(first, _)| is_alike(first, &refusal)) {
            Some((_, count)) => *count += 1,
            None => self.refusals.push((refusal, 1)),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.refusals.iter().map(|(_, count)| count).sum()
    }

    /// `total`: how many records were to be read.
    pub(super) fn warnings(&self, total: usize) -> Vec<String> {
        let each = self.refusals.iter().map(|(first, count)| {
            let which = if *count == 1 { "" } else { ", the first of them" };
            format!("{count} of {total} records could not be read{which}: {first}")
        });
        each.collect()
    }
}

/// Returns `true` if one remedy fixes both errors. A mistake in a document concerns only that document.
fn is_alike(one: &StoreError, other: &StoreError) -> bool {
    match (one, other) {
        (
            StoreError::Call { action, advice, .. },
            StoreError::Call { action: other_action, advice: other_advice, .. },
        ) => (action, advice) == (other_action, other_advice),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(key: &str) -> StoreError {
        StoreError::call("s3:GetObject", format!("s3://b/{key}"), Some("AccessDenied"), "No")
    }

    #[test]
    fn equal_refusals_are_reported_once() {
        let mut unread = UnreadRecords::default();
        assert_eq!((unread.count(), unread.warnings(3)), (0, Vec::new()));
        unread.add(denied("plans/1"));
        assert_eq!(unread.warnings(3), [format!("1 of 3 records could not be read: {}", denied("plans/1"))]);
        unread.add(denied("plans/2"));
        let too_large = StoreError::TooLarge { address: "s3://b/plans/3".to_owned(), bytes: 2, bytes_max: 1 };
        unread.add(too_large.clone());
        let once = format!("2 of 3 records could not be read, the first of them: {}", denied("plans/1"));
        assert_eq!(unread.warnings(3), [once, format!("1 of 3 records could not be read: {too_large}")]);
        assert_eq!(unread.count(), 3);
    }
}
