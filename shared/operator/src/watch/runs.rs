//! The newest runs: whether they come, what they left for approval, and what they could not see.

use std::collections::BTreeSet;

use jiff::Timestamp;
use model::duration;
use model::id::{Region, RunId};
use model::instance::Instance;
use model::known_sum::KnownSum;
use model::mode::Mode;
use model::money::Rate;
use plan::report::{OutcomeKind, RecordedStep, RunRecord};
use serde::Serialize;

use crate::doctor::runs::{FUNCTIONS, RecordPolicy, ScheduledFunction};
use crate::review::has_instance_ended;

pub(super) const OF_INSTANCES: &str = "reap-instances";

/// The functions whose newest record is read: those that leave one in every run.
pub fn functions_to_read() -> impl Iterator<Item = ScheduledFunction> {
    FUNCTIONS.into_iter().filter(|scheduled| scheduled.records == RecordPolicy::EveryRun)
}

/// One function and its newest run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunLine {
    pub function: String,
    pub run: RunId,
    pub at: Timestamp,
    pub mode: Mode,
    pub seen: usize,
    pub gaps: usize,
    /// `true` if the next run should have come by now.
    pub is_late: bool,
}

/// The actions that a run left for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AwaitingApproval {
    pub function: String,
    pub run: RunId,
    pub actions: usize,
    /// Saving by these actions.
    #[serde(flatten)]
    pub saves: KnownSum<Rate>,
}

impl RunLine {
    pub(super) fn from_record(record: &RunRecord, now: Timestamp) -> Self {
        Self {
            function: record.function.clone(),
            run: record.run.clone(),
            at: record.at,
            mode: record.mode,
            seen: record.seen,
            gaps: record.gaps.len(),
            is_late: is_late(record, now),
        }
    }
}

/// Returns the most that reap-instances may do. Without a confirmed subscription it only observes, whatever its mode.
pub(super) fn ceiling(runs: &[RunRecord]) -> Option<Mode> {
    let newest = runs.iter().find(|run| run.function == OF_INSTANCES)?;
    let may_notify = !newest.gaps.iter().any(|gap| gap.call == "sns:ListSubscriptionsByTopic");
    Some(if may_notify { newest.mode } else { Mode::Observe })
}

/// Settles what awaits approval by the instances as they are now: the action on one that was stopped, or is gone, needs none.
pub(super) fn settle_by_state(runs: &mut [RunRecord], seen: &SeenInstances<'_>) {
    for run in runs.iter_mut().filter(|run| run.function == OF_INSTANCES) {
        run.settle(|step| seen.has_ended(step).then_some(OutcomeKind::AlreadyGone));
    }
}

/// The instances that were just read.
pub(super) struct SeenInstances<'a> {
    pub(super) instances: &'a [Instance],
    pub(super) regions: &'a [Region],
    pub(super) incomplete_regions: &'a BTreeSet<Region>,
}

impl SeenInstances<'_> {
    fn has_ended(&self, step: &RecordedStep) -> bool {
        let is_target = |one: &&Instance| one.id == step.resource && one.region == step.region;
        match self.instances.iter().find(is_target) {
            Some(instance) => has_instance_ended(step, instance),
            None => self.regions.contains(&step.region) && !self.incomplete_regions.contains(&step.region),
        }
    }
}

pub(super) fn awaiting_approval(runs: &[RunRecord]) -> Vec<AwaitingApproval> {
    let awaiting = runs.iter().map(|run| {
        let tally = run.tally();
        let (function, run) = (run.function.clone(), run.run.clone());
        AwaitingApproval { function, run, actions: tally.waiting, saves: tally.at_stake }
    });
    awaiting.filter(|one| one.actions > 0).collect()
}

/// Functions that are late, and what the newest runs could not see.
pub(super) fn problems(runs: &[RunRecord], now: Timestamp) -> Vec<String> {
    let mut problems = Vec::new();
    for ScheduledFunction { function, .. } in functions_to_read() {
        match runs.iter().find(|run| run.function == function) {
            None => problems.push(format!("{function} left no record since yesterday: curfew doctor says why")),
            Some(run) if is_late(run, now) => {
                let ago = duration::format_duration(now.duration_since(run.at));
                problems.push(format!("{function} ran last {ago} ago: curfew doctor says why"));
            }
            Some(_) => {}
        }
    }
    for run in runs {
        let gaps = run.gaps.iter();
        problems.extend(gaps.map(|gap| format!("{}: {} in {}: {}", run.function, gap.call, gap.region, gap.error)));
    }
    problems
}

fn is_late(record: &RunRecord, now: Timestamp) -> bool {
    let scheduled = FUNCTIONS.iter().find(|scheduled| scheduled.function == record.function);
    scheduled.is_some_and(|scheduled| now.duration_since(record.at) > scheduled.alive_within())
}
