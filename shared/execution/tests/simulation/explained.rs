//! The explanation of an instance equals the run's step, and the order in which EC2 lists instances changes nothing.

use execution::Planned;
use execution::instances::InstancesObservation;
use jiff::Timestamp;
use model::instance::InstanceState;
use model::mode::Mode;
use model::observation::Observation;
use model::rule::Rule;
use plan::{Announcement, SkipReason, Step};
use reaping::explain::{Explanation, PlanDecision, RuleVerdict};
use reaping::instances::{decide, explain_among};

/// One run in so many decides again, on the same instances in another order.
const SHUFFLED_RUN: usize = 16;

/// A difference between the plan and the explanation of one instance, another one in each run.
pub(crate) fn find_contradiction(planned: &Planned<InstancesObservation>, run: u64, now: Timestamp) -> Option<String> {
    let Planned { plan, observation, .. } = planned;
    let run = usize::try_from(run).unwrap_or(0);
    let instances = &observation.instances.items;
    if run.is_multiple_of(SHUFFLED_RUN) {
        let items = instances.iter().rev().cloned().collect();
        let shuffled = Observation { items, gaps: observation.instances.gaps.clone() };
        if decide(&shuffled, &observation.usages, &observation.recalled.memory, &observation.policy, now) != *plan {
            return Some("the plan depends on the order of the instances".to_owned());
        }
    }
    let instance = instances.get(run.checked_rem(instances.len())?)?;
    let log = observation.recalled.memory.get(&instance.region)?;
    let explained = explain_among(instance, instances, &observation.usages, log, &observation.policy, now)?;
    let step = plan.steps.iter().find(|step| step.target.resource == instance.id);
    let skipped = plan.skipped.iter().find(|skipped| skipped.target.resource == instance.id);
    let agrees = match (&explained.decision, step, skipped) {
        // The limits count all instances, and an explanation knows one.
        (PlanDecision::Step(said), Some(step), None) => {
            Step { held: None, ..Step::clone(said) } == Step { held: None, ..step.clone() }
                && explains(&explained, step, now)
        }
        (PlanDecision::Skipped(said), None, Some(skipped)) => {
            let is_announced = explained.rules.iter().any(|row| row.announced);
            **said == *skipped && (skipped.reason != SkipReason::Marked || is_announced)
        }
        // Of refused actions a run tries as many as the limits allow.
        (PlanDecision::Step(said), None, Some(skipped)) => {
            said.refused_at.is_some() && skipped.reason == SkipReason::Refused
        }
        _ => false,
    };
    let is_running = instance.state == InstanceState::Running;
    let says_all = explained.rules.iter().map(|row| row.rule).eq(Rule::RUNNING)
        && explained.rules.iter().all(|row| !row.evidence.is_empty() && !row.when.is_empty())
        && (is_running || explained.rules.iter().all(|row| row.verdict == RuleVerdict::NotJudged));
    (!agrees || !says_all).then(|| {
        let planned = step.map(|step| (&step.action, &step.evidence));
        format!("{}: {planned:?} {skipped:?} is explained as {:?}", instance.id, explained.rules)
    })
}

/// Whether the rows of the rules agree with the step.
fn explains(explained: &Explanation, step: &Step, now: Timestamp) -> bool {
    let find = |rule: Rule| explained.rules.iter().find(|row| row.rule == rule);
    match step.action.announcement() {
        Some(Announcement::Mark(mark)) => mark.iter().all(|(rule, announced)| {
            find(*rule).is_some_and(|row| {
                let said = (row.action, row.deadline) == (Some(announced.ending.as_str()), Some(announced.deadline));
                // What was announced before a job claimed the machine stays, unjudged.
                let stays = row.verdict == RuleVerdict::NotJudged && row.announced;
                let is_due_then = row.deadline == Some(announced.deadline);
                row.mode.mode != step.mode
                    || said && (row.announced || row.verdict == RuleVerdict::Violated)
                    || stays && is_due_then
            })
        }),
        None if step.action.stops_or_deletes() => find(step.evidence.rule()).is_some_and(|row| {
            let is_repeated = step.evidence.is_repeated();
            let verdict = if is_repeated { RuleVerdict::Unknown } else { RuleVerdict::Violated };
            (row.verdict, row.deadline, row.mode.mode) == (verdict, step.deadline, step.mode)
                && (row.announced || row.rule == Rule::Expired)
                && row.deadline.is_some_and(|deadline| deadline <= now)
                && row.when.contains("by the next run") == (step.mode == Mode::Enforce)
        }),
        Some(Announcement::Notify) => find(step.evidence.rule()).is_some_and(|row| {
            let said = (row.verdict, row.notify_only, row.mode.mode);
            said == (RuleVerdict::Violated, step.notify_only, step.mode)
        }),
        _ => true,
    }
}
