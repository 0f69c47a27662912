//! Actions of the reapers on one day, condensed from their audit records.
//!
//! A month has about 9,400 records of the reapers, most of which repeat one another. Condensed as they are read they need little memory: a
//! record of 10,000 instances has a megabyte.

use std::collections::BTreeMap;

use billing::savings::{EndedResource, EndingAction, snapshot_rate};
use jiff::Timestamp;
use model::hours::Hours;
use model::id::{Region, ResourceId, TeamName};
use model::money::Rate;
use plan::report::OutcomeKind;

use crate::outline::{RunOutline, StepOutline, Text};

/// Different actions of one day that are kept: about 2 MB. An account with more is told how many are missing.
pub const ACTIONS_MAX: usize = 5_000;

/// One action on one resource, however many runs of the day repeated it.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedAction {
    pub region: Region,
    pub resource: ResourceId,
    /// Type of the resource, for people: `g5.xlarge`.
    pub what: Option<String>,
    pub name: Option<String>,
    pub team: Option<TeamName>,
    /// Action as in responses: `stop`.
    pub action: String,
    pub rule: String,
    pub outcome: OutcomeKind,
    /// Times of the first and the last run of the day that did it.
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// Saving of the action; `None` if unknown.
    pub saves_usd_per_hour: Option<Rate>,
    /// Its `curfew:hours`, where they were the reason.
    pub hours: Option<String>,
    /// The size of a volume.
    pub size_gib: Option<u64>,
    /// The key of the audit record of the first run.
    pub audit_key: String,
}

/// Actions of the reapers on a day, UTC.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DayActions {
    pub actions: Vec<RecordedAction>,
    /// Number of actions that are left out.
    pub omitted: usize,
}

/// Condenses the records of a day, one after the other, in any order.
#[derive(Debug, Default)]
pub struct DayCondenser(BTreeMap<ResourceId, Vec<CondensedAction>>);

/// An action with when it was done, if each time counts.
#[derive(Debug)]
struct CondensedAction {
    done_at: Option<Timestamp>,
    action: RecordedAction,
}

impl DayCondenser {
    pub fn add(&mut self, record: &RunOutline<'_>) {
        for step in &record.steps {
            // What was done can be done again later in the day, and counts again. What only would have been is one thing, and so is a
            // notification, which changes nothing.
            let is_done = step.outcome == OutcomeKind::Done && step.action != "notify";
            let done_at = is_done.then_some(record.at);
            // Most steps repeat those of the run before: nothing is allocated for these.
            let known = self.0.get_mut(step.resource.as_ref());
            let same =
                known.into_iter().flatten().find(|one| one.done_at == done_at && one.action.is_same_action(step));
            if let Some(CondensedAction { action, .. }) = same {
                action.repeat(step, record);
            } else {
                let action = RecordedAction::from_step(step, record);
                self.0.entry(action.resource.clone()).or_default().push(CondensedAction { done_at, action });
            }
        }
    }

    #[must_use]
    pub fn finish(self) -> DayActions {
        let mut actions: Vec<RecordedAction> = self.0.into_values().flatten().map(|one| one.action).collect();
        let omitted = actions.len().saturating_sub(ACTIONS_MAX);
        // What changed something counts most, and then what it saves.
        actions.sort_by_key(|action| {
            (action.outcome != OutcomeKind::Done, std::cmp::Reverse(action.saves_usd_per_hour), action.first_at)
        });
        actions.truncate(ACTIONS_MAX);
        actions.sort_by(|one, other| (one.first_at, &one.resource).cmp(&(other.first_at, &other.resource)));
        DayActions { actions, omitted }
    }
}

impl DayActions {
    /// Returns the resources that were stopped, terminated or deleted on that day, once for each time.
    pub fn ended(&self) -> impl Iterator<Item = EndedResource> + '_ {
        self.actions.iter().filter_map(RecordedAction::to_ended)
    }
}

impl RecordedAction {
    fn from_step(step: &StepOutline<'_>, record: &RunOutline<'_>) -> Self {
        let owned = |text: &Option<Text<'_>>| text.as_ref().map(|text| text.0.to_string());
        Self {
            region: step.region.as_ref().into(),
            resource: step.resource.as_ref().into(),
            what: owned(&step.what),
            name: owned(&step.name),
            team: step.team.as_ref().map(|team| TeamName::from(team.0.as_ref())),
            action: step.action.to_string(),
            rule: step.evidence.rule.to_string(),
            outcome: step.outcome,
            first_at: record.at,
            last_at: record.at,
            saves_usd_per_hour: step.saves_usd_per_hour,
            hours: owned(&step.evidence.hours),
            size_gib: step.evidence.size_gib,
            audit_key: record.key(),
        }
    }

    fn is_same_action(&self, step: &StepOutline<'_>) -> bool {
        self.action == step.action && self.rule == step.evidence.rule
    }

    /// Another run did the same. Its outcome counts if it is the last, all else if it is the first.
    fn repeat(&mut self, step: &StepOutline<'_>, record: &RunOutline<'_>) {
        if record.at >= self.last_at {
            (self.last_at, self.outcome) = (record.at, step.outcome);
        }
        if record.at < self.first_at {
            *self = Self { last_at: self.last_at, outcome: self.outcome, ..Self::from_step(step, record) };
        }
    }

    /// Returns the highest cost of the snapshot of a deleted volume.
    fn snapshot_rate(&self) -> Rate {
        self.size_gib.filter(|_| self.action == "delete").map(snapshot_rate).unwrap_or_default()
    }

    /// A job of `SageMaker` ends by itself, at a time that Curfew does not know, and no ledger says when an inference component has copies again:
    /// to stop these counts as no saving.
    fn has_unknown_end(&self) -> bool {
        let kind = self.resource.as_str().split_once('/').map(|(kind, _)| kind);
        kind.is_some_and(|kind| kind.ends_with("-job") || kind == "inference-component")
    }

    fn to_ended(&self) -> Option<EndedResource> {
        let action = EndingAction::read(&self.action).filter(|_| self.outcome == OutcomeKind::Done)?;
        // The expiry of a snapshot deletes what Curfew itself made.
        if self.resource.as_str().starts_with("snap-") {
            return None;
        }
        Some(EndedResource {
            region: self.region.clone(),
            resource: self.resource.clone(),
            what: self.what.clone().unwrap_or_default(),
            team: self.team.clone(),
            rule: self.rule.clone(),
            action,
            at: self.first_at,
            rate: self.saves_usd_per_hour.filter(|_| !self.has_unknown_end()),
            remaining_rate: self.snapshot_rate(),
            hours: self.hours.as_deref().and_then(|hours| Hours::read(hours).ok()),
            audit_key: self.audit_key.clone(),
        })
    }
}
