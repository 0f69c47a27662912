//! The actions that observe mode left out in a period, by resource: what enforce mode would have done, by the audit records of the reapers.
//!
//! In observe mode every run lists a due action again. So an action is due from the first run that lists it until a run says otherwise: the
//! resource is in use, complies, is kept, does not run, or is gone. Its price in between, from each run that lists it to the next, is the cost
//! that enforce mode would have saved; what has no known price counts nothing, and the sum says so. The time after the last such run does not
//! count, nor does the time of the grace.

mod summary;

use std::collections::BTreeMap;

use billing::savings::snapshot_rate;
use jiff::Timestamp;
use model::id::{Region, ResourceId};
use model::money::{Amount, Rate};
use model::rule::Rule;
use plan::report::{OutcomeKind, RecordedStep, RunRecord};
use serde::Serialize;

pub use summary::{ObservedSummary, ScratchTotal};

/// The functions whose records are read.
pub const FUNCTIONS: [&str; 3] = ["reap-instances", "reap-volumes", "reap-sagemaker"];

/// The most records that are read, the newest: two months of runs as often as by default. Each is a call of `s3:GetObject`.
pub const RECORDS_MAX: usize = 20_000;

/// The most resources that are kept: about 5 MB.
const RESOURCES_MAX: usize = 10_000;

/// One resource, and the action that enforce mode would have carried out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObservedActionRow {
    pub region: Region,
    pub resource: ResourceId,
    /// Description for people: `g5.xlarge`.
    pub what: Option<String>,
    pub name: Option<String>,
    pub team: Option<String>,
    /// The first action that was due, as records name it: `stop`.
    pub action: String,
    /// The rule that asked for it.
    pub rule: String,
    pub due_since: Timestamp,
    /// Time in which it was due, as far as it is counted.
    pub due_seconds: u64,
    /// Cost in that time; null if its price is unknown for a part of it.
    #[serde(rename = "would_have_saved_usd")]
    pub saved: Option<Amount>,
    /// The latest state, and the time of the run that found it.
    pub state: DueState,
    pub state_at: Timestamp,
    /// Time of the first run that found it in use after the action was due.
    pub used_again_at: Option<Timestamp>,
}

/// The state of a resource after an action was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DueState {
    /// The last run that judged it found the action due.
    StillDue,
    UsedAgain,
    /// It violates the rule no longer.
    Complies,
    /// Its owner keeps it by a tag, or it belongs to a job.
    Kept,
    /// Somebody stopped it.
    Stopped,
    Gone,
    /// Curfew carried out an action later.
    CarriedOut,
}

impl DueState {
    fn from_skip_reason(reason: &str) -> Option<Self> {
        match reason {
            // A running resource is young once it was started again.
            "busy" | "attached" | "young" => Some(Self::UsedAgain),
            "compliant" => Some(Self::Complies),
            "kept" | "protected" | "live-job" => Some(Self::Kept),
            "not-running" | "not-available" => Some(Self::Stopped),
            _ => None,
        }
    }

    /// The state after an announcement for the rule was called off.
    fn after_unmark(rule: &str) -> Self {
        match Rule::read(rule) {
            Some(Rule::Idle | Rule::Orphaned) => Self::UsedAgain,
            _ => Self::Complies,
        }
    }
}

/// The actions of a period. Records are added in the order of time.
#[derive(Debug, Default)]
pub struct ObservedActions {
    /// By id, which two regions of `SageMaker` may share.
    resources: BTreeMap<ResourceId, Vec<TrackedResource>>,
    tracked: usize,
    /// `true` if resources were left out.
    is_truncated: bool,
    /// The number of announced actions that were not due yet, of the newest run of each function.
    not_due_yet: BTreeMap<String, usize>,
    /// The machines that only notify because a stop would lose their scratch, with their price.
    scratch: BTreeMap<(Region, ResourceId), Option<Rate>>,
}

#[derive(Debug)]
struct TrackedResource {
    row: ObservedActionRow,
    function: String,
    /// The rule of the action that is due now.
    rule: String,
    /// Price in the time from the last run that listed the action.
    rate: Option<Rate>,
    listed_at: Timestamp,
    /// Time of the last run that named it.
    named_at: Timestamp,
}

impl ObservedActions {
    /// Takes in the record of a later run than all before.
    pub fn add(&mut self, record: &RunRecord) {
        for step in record.steps.iter().filter(|step| !step.resource.as_str().starts_with("snap-")) {
            self.add_step(step, record);
        }
        for step in record.withheld_by_local_disk().take(RESOURCES_MAX.saturating_sub(self.scratch.len())) {
            self.scratch.insert((step.region.clone(), step.resource.clone()), step.saves_usd_per_hour);
        }
        if record.is_of_apply() {
            return;
        }
        let is_not_due = |step: &&RecordedStep| {
            is_observed_mark(step) && step.evidence.deadline.is_some_and(|deadline| deadline > record.at)
        };
        self.not_due_yet.insert(record.function.clone(), record.steps.iter().filter(is_not_due).count());
        for (reason, resources) in &record.skipped {
            let state = DueState::from_skip_reason(reason);
            let known = &mut self.resources;
            for resource in resources {
                let tracked = known.get_mut(resource).into_iter().flatten();
                // What has a step is not skipped: that is a resource of the same name in another region.
                for one in tracked.filter(|one| one.function == record.function && one.named_at != record.at) {
                    one.named_at = record.at;
                    if let Some(state) = state {
                        one.find_in(state, record.at);
                    }
                }
            }
        }
        self.find_gone(record);
    }

    fn add_step(&mut self, step: &RecordedStep, record: &RunRecord) {
        let is_due = step.stops_or_deletes() || step.action == "snapshot";
        if is_due && step.outcome == OutcomeKind::Observed {
            self.list(step, record);
            return;
        }
        let Some(tracked) = self.find(step) else { return };
        tracked.named_at = record.at;
        let is_same_rule = tracked.rule == step.evidence.rule;
        let is_announced_anew =
            is_observed_mark(step) && step.evidence.deadline.is_some_and(|deadline| deadline > record.at);
        if is_due && step.outcome == OutcomeKind::Done {
            tracked.find_in(DueState::CarriedOut, record.at);
        } else if is_same_rule && (step.action == "unmark" || is_announced_anew) {
            tracked.find_in(DueState::after_unmark(&step.evidence.rule), record.at);
        }
    }

    fn list(&mut self, step: &RecordedStep, record: &RunRecord) {
        if let Some(tracked) = self.find(step) {
            tracked.list(step, record.at);
        } else if self.tracked < RESOURCES_MAX {
            self.tracked += 1;
            self.resources.entry(step.resource.clone()).or_default().push(TrackedResource::from_step(step, record));
        } else {
            self.is_truncated = true;
        }
    }

    fn find(&mut self, step: &RecordedStep) -> Option<&mut TrackedResource> {
        self.resources.get_mut(&step.resource)?.iter_mut().find(|tracked| tracked.row.region == step.region)
    }

    /// A run names everything that it sees, so what it does not name is gone, unless it could not see everything.
    fn find_gone(&mut self, record: &RunRecord) {
        let is_seen =
            |region: &Region| record.regions.contains(region) && !record.gaps.iter().any(|gap| gap.region == *region);
        for tracked in self.resources.values_mut().flatten() {
            let is_named = tracked.named_at == record.at || tracked.function != record.function;
            if !is_named && tracked.row.state == DueState::StillDue && is_seen(&tracked.row.region) {
                tracked.find_in(DueState::Gone, record.at);
            }
        }
    }
}

impl TrackedResource {
    fn from_step(step: &RecordedStep, record: &RunRecord) -> Self {
        let due_before = step.evidence.deadline.filter(|deadline| *deadline < record.at);
        let row = ObservedActionRow {
            region: step.region.clone(),
            resource: step.resource.clone(),
            what: step.what.clone(),
            name: step.name.clone(),
            team: step.team.clone(),
            action: step.action.clone(),
            rule: step.evidence.rule.clone(),
            due_since: due_before.unwrap_or(record.at),
            due_seconds: 0,
            saved: price(step).map(|_| Amount::ZERO),
            state: DueState::StillDue,
            state_at: record.at,
            used_again_at: None,
        };
        let (function, rule) = (record.function.clone(), step.evidence.rule.clone());
        Self { row, function, rule, rate: price(step), listed_at: record.at, named_at: record.at }
    }

    /// Another run lists the action.
    fn list(&mut self, step: &RecordedStep, at: Timestamp) {
        if self.row.state == DueState::StillDue {
            let seconds = u64::try_from(at.duration_since(self.listed_at).as_secs()).unwrap_or_default();
            self.row.due_seconds = self.row.due_seconds.saturating_add(seconds);
            let cost = self.rate.map(|rate| Amount::from_rate(rate, seconds));
            self.row.saved = self.row.saved.zip(cost).map(|(saved, cost)| saved + cost);
        }
        self.rule.clone_from(&step.evidence.rule);
        (self.rate, self.listed_at, self.named_at) = (price(step), at, at);
        (self.row.state, self.row.state_at) = (DueState::StillDue, at);
    }

    fn find_in(&mut self, state: DueState, at: Timestamp) {
        if state == DueState::UsedAgain {
            self.row.used_again_at.get_or_insert(at);
        }
        // The time of the first run that found it so.
        if self.row.state != state {
            (self.row.state, self.row.state_at) = (state, at);
        }
    }
}

fn is_observed_mark(step: &RecordedStep) -> bool {
    step.action == "mark" && step.outcome == OutcomeKind::Observed
}

/// The saving by a step: a volume's price less the highest price of the snapshot that is made first.
fn price(step: &RecordedStep) -> Option<Rate> {
    let size_gib = step.evidence.details.get("size_gib").and_then(serde_json::Value::as_u64);
    let snapshot = size_gib.filter(|_| step.action == "snapshot").map(snapshot_rate).unwrap_or_default();
    step.saves_usd_per_hour.map(|rate| rate.less(snapshot))
}

#[cfg(test)]
mod tests;
