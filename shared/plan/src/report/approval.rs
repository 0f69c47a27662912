//! Later fate of the actions of a run that awaited approval, by the records of later runs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::{Region, ResourceId, RunId};
use model::known_sum::KnownSum;
use model::money::Rate;

use super::{APPLIED, OutcomeKind, RecordedStep, RunRecord};

/// The part of a record that the approval status of other runs needs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunTrace {
    function: String,
    run: RunId,
    at: Timestamp,
    /// The actions that an apply carried out; for any other run, those that await approval.
    ends: Vec<TracedAction>,
}

#[derive(Debug, Clone, PartialEq)]
struct TracedAction {
    item: (Region, ResourceId),
    saves: KnownSum<Rate>,
    outcome: OutcomeKind,
}

impl TracedAction {
    fn from_step(step: &RecordedStep) -> Self {
        Self { item: (step.region.clone(), step.resource.clone()), saves: step.saving(), outcome: step.outcome }
    }
}

impl RunTrace {
    /// Reads the trace of a record.
    #[must_use]
    pub fn from_record(record: &RunRecord) -> Self {
        let is_settled = |step: &&RecordedStep| {
            matches!(step.outcome, OutcomeKind::Done | OutcomeKind::AlreadyGone | OutcomeKind::Changed)
                && step.stops_or_deletes()
        };
        let ends = if record.is_of_apply() {
            record.steps.iter().filter(is_settled).map(TracedAction::from_step).collect()
        } else {
            record.waiting().map(TracedAction::from_step).collect()
        };
        Self { function: record.function.clone(), run: record.run.clone(), at: record.at, ends }
    }

    fn is_of_apply(&self) -> bool {
        self.run.as_str().starts_with(APPLIED)
    }

    /// Returns `true` if this run carried that plan out, or a part of it.
    fn applies(&self, plan: &Self) -> bool {
        let rest = self.run.as_str().strip_prefix(APPLIED).and_then(|rest| rest.strip_prefix(plan.run.as_str()));
        rest.is_some_and(|rest| rest.starts_with('-'))
    }
}

/// Later outcome of the actions of a run that awaited approval.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApprovalStatus {
    /// The runs that carried out some of them, the oldest first.
    pub applied_by: Vec<RunId>,
    /// The newest run of the same function, if it is later: it has found again what is still due.
    pub superseded_by: Option<RunId>,
    /// The outcome of those that no longer await approval.
    pub settled: BTreeMap<(Region, ResourceId), OutcomeKind>,
    /// Number of actions that still await approval.
    pub waiting: usize,
    /// Saving that these actions would bring.
    pub at_stake: KnownSum<Rate>,
}

impl ApprovalStatus {
    /// Computes the status of a run by the traces of others. The run's own trace may be among them.
    #[must_use]
    pub fn from_traces(plan: &RunTrace, others: &[RunTrace]) -> Self {
        let mut status = Self::default();
        if plan.is_of_apply() || plan.ends.is_empty() {
            return status;
        }
        let same_function = || others.iter().filter(|other| other.function == plan.function);
        let mut applies: Vec<&RunTrace> = same_function().filter(|other| other.is_of_apply()).collect();
        applies.sort_by_key(|apply| apply.at);
        for apply in applies {
            let own = apply.applies(plan);
            // What ended by another plan's list after this one was made is on both. What had changed since that one was made
            // has not changed since this one.
            let counts = |end: &&TracedAction| own || (apply.at >= plan.at && end.outcome != OutcomeKind::Changed);
            let ends = apply.ends.iter().filter(|end| plan.ends.iter().any(|planned| planned.item == end.item));
            let before = status.settled.len();
            for end in ends.filter(counts) {
                status.settled.entry(end.item.clone()).or_insert(end.outcome);
            }
            if status.settled.len() > before {
                status.applied_by.push(apply.run.clone());
            }
        }
        let newest = same_function().filter(|other| !other.is_of_apply()).max_by_key(|other| other.at);
        status.superseded_by = newest.filter(|newest| newest.at > plan.at).map(|newest| newest.run.clone());
        if status.superseded_by.is_none() {
            let left = plan.ends.iter().filter(|end| !status.settled.contains_key(&end.item));
            (status.waiting, status.at_stake) = (left.clone().count(), left.map(|end| end.saves).sum());
        }
        status
    }

    /// Returns the number of actions that have been carried out.
    #[must_use]
    pub fn done(&self) -> usize {
        self.settled.values().filter(|outcome| **outcome == OutcomeKind::Done).count()
    }
}

impl RunRecord {
    /// The record after these runs of `curfew apply`: what they carried out no longer awaits approval.
    #[must_use]
    pub fn after_applies(mut self, applies: &[Self]) -> Self {
        let traces: Vec<RunTrace> = applies.iter().map(RunTrace::from_record).collect();
        let settled = ApprovalStatus::from_traces(&RunTrace::from_record(&self), &traces).settled;
        self.settle(|step| settled.get(&(step.region.clone(), step.resource.clone())).copied());
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A run of a minute that says so of these instances.
    fn record(run: &str, minute: u32, outcomes: &[(&str, &str)]) -> RunRecord {
        let steps = outcomes.iter().map(|(resource, outcome)| {
            json!({
                "region": "us-east-1", "resource": resource, "action": "stop", "evidence": { "rule": "idle" },
                "saves_usd_per_hour": 1.0, "outcome": outcome,
            })
        });
        let record = json!({
            "function": "reap-instances", "run": run, "at": format!("2026-09-01T12:{minute:02}:00Z"), "mode": "enforce",
            "steps": steps.collect::<Vec<Value>>(),
        });
        serde_json::from_value(record).unwrap()
    }

    fn trace(run: &str, minute: u32, outcomes: &[(&str, &str)]) -> RunTrace {
        RunTrace::from_record(&record(run, minute, outcomes))
    }

    const HELD: [(&str, &str); 2] = [("i-1", "not-reached"), ("i-2", "not-reached")];

    /// Checks the status of the run `a`, which left two actions at 12:10: the number that wait, the number that are done, the runs that
    /// carried them out, and the run that superseded it.
    fn check(others: &[RunTrace], waiting: usize, done: usize, applied_by: &[&str], superseded_by: Option<&str>) {
        let plan = trace("a", 10, &HELD);
        let status = ApprovalStatus::from_traces(&plan, &[others, std::slice::from_ref(&plan)].concat());
        let dollars = u64::try_from(waiting).unwrap();
        assert_eq!((status.waiting, status.done()), (waiting, done));
        let at_stake = Rate::from_usd_micros_per_hour(dollars * 1_000_000);
        assert_eq!(status.at_stake, KnownSum::new(at_stake, 0));
        assert_eq!(status.applied_by.iter().map(RunId::as_str).collect::<Vec<_>>(), applied_by);
        assert_eq!(status.superseded_by.as_ref().map(RunId::as_str), superseded_by);
    }

    #[test]
    fn it_waits_until_it_is_carried_out() {
        check(&[], 2, 0, &[], None);
        check(&[trace("apply-a-1", 11, &[("i-1", "done")])], 1, 1, &["apply-a-1"], None);
        check(&[trace("apply-a-1", 11, &[("i-1", "failed"), ("i-2", "not-reached")])], 2, 0, &[], None);
        check(&[trace("apply-a-1", 11, &[("i-1", "changed"), ("i-2", "already-gone")])], 0, 0, &["apply-a-1"], None);
        let two = [trace("apply-a-2", 12, &[("i-2", "done")]), trace("apply-a-1", 11, &[("i-1", "done")])];
        check(&two, 0, 2, &["apply-a-1", "apply-a-2"], None);
        let twice = [trace("apply-a-1", 11, &[("i-1", "done")]), trace("apply-a-2", 12, &[("i-1", "already-gone")])];
        check(&twice, 1, 1, &["apply-a-1"], None);
    }

    #[test]
    fn another_plans_list_counts_where_it_was_carried_out_later() {
        check(&[trace("apply-b-1", 11, &[("i-1", "done"), ("i-9", "done")])], 1, 1, &["apply-b-1"], None);
        check(&[trace("apply-b-1", 9, &[("i-1", "done")])], 2, 0, &[], None);
        check(&[trace("apply-b-1", 11, &[("i-1", "changed")])], 2, 0, &[], None);
    }

    #[test]
    fn a_later_run_of_the_function_overtakes() {
        check(&[trace("b", 15, &HELD)], 0, 0, &[], Some("b"));
        check(&[trace("b", 15, &[]), trace("c", 20, &[])], 0, 0, &[], Some("c"));
        check(&[trace("b", 5, &HELD)], 2, 0, &[], None);
        let other = RunTrace { function: "reap-volumes".to_owned(), ..trace("b", 15, &[]) };
        check(&[other], 2, 0, &[], None);
        let applied = [trace("apply-a-1", 11, &[("i-1", "done")]), trace("b", 15, &[("i-2", "not-reached")])];
        check(&applied, 0, 1, &["apply-a-1"], Some("b"));
    }

    #[test]
    fn a_record_after_an_apply_has_its_outcomes() {
        use OutcomeKind::{Changed, Done, NotReached};
        let check = |apply: RunRecord, expect: [OutcomeKind; 2], waiting: usize| {
            let after = record("a", 10, &HELD).after_applies(&[apply]);
            assert_eq!(after.steps.iter().map(|step| step.outcome).collect::<Vec<_>>(), expect);
            assert_eq!(after.tally().waiting, waiting);
        };
        check(record("apply-a-1", 11, &[("i-1", "done")]), [Done, NotReached], 1);
        check(record("apply-b-1", 11, &[("i-2", "done")]), [NotReached, Done], 1);
        check(record("apply-a-1", 11, &[("i-1", "failed"), ("i-2", "changed")]), [NotReached, Changed], 1);
        check(record("apply-b-1", 9, &[("i-1", "done")]), [NotReached, NotReached], 2);
    }

    #[test]
    fn nothing_becomes_of_what_left_nothing() {
        for plan in [trace("a", 10, &[("i-1", "done")]), trace("apply-a-1", 11, &HELD)] {
            assert_eq!(ApprovalStatus::from_traces(&plan, &[trace("b", 15, &[])]), ApprovalStatus::default());
        }
    }
}
