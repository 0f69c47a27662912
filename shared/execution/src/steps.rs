//! Acting on the steps that a run reaches, with the outcome of each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt, stream};
use model::id::ResourceId;
use plan::report::{FailedPart, OutcomeKind, Report, StepOutcome};
use plan::{Step, missing_members};
use ports::{Cloud, Documents};

use crate::act::{carry_out_unchecked, check};
use crate::{AT_ONCE, RESERVE, Run, answer_timeout, carry_out, catch_bug};

/// Steps that are carried out together, each with its place in the report: one, or all of a gang.
type StepGroup<'a> = Vec<(usize, &'a Step)>;

impl<C: Cloud, D: Documents> Run<'_, C, D> {
    /// Carries out the steps that `wanted` names, as long as there is time. A held step waits for a person instead.
    pub(crate) async fn act(&self, report: &mut Report, wanted: impl Fn(&Step) -> bool) {
        let reached = report.steps.iter().enumerate().filter(|(_, (step, _))| wanted(step));
        let outcomes: Vec<Vec<(usize, StepOutcome)>> =
            stream::iter(grouped(reached.map(|(place, (step, _))| (place, step))))
                .map(|group| async move {
                    let outcomes = match group.as_slice() {
                        [(place, step)] if step.gang.is_none() => {
                            let outcome = catch_bug(self.act_on(step)).await;
                            vec![(*place, outcome.unwrap_or_else(|bug| failed(&bug)))]
                        }
                        _ => self.act_on_gang(&group).await,
                    };
                    for (place, outcome) in &outcomes {
                        if let Some((_, step)) = group.iter().find(|(of_step, _)| of_step == place) {
                            (self.progress)(step, outcome);
                        }
                    }
                    outcomes
                })
                .buffer_unordered(AT_ONCE)
                .collect()
                .await;
        for (place, outcome) in outcomes.into_iter().flatten() {
            if let Some((_, before)) = report.steps.get_mut(place) {
                *before = outcome;
            }
        }
    }

    async fn act_on(&self, step: &Step) -> StepOutcome {
        match self.time_for(step) {
            Err(outcome) => outcome,
            // A call that began in time may still hang: notifying and recording must not wait for it.
            Ok(timeout) => {
                let carried_out = tokio::time::timeout(timeout, carry_out(self.cloud, step, &self.id)).await;
                carried_out.unwrap_or_else(|_| unanswered())
            }
        }
    }

    /// Carries out the policy actions on all members of a gang, or none: each is read again before the first is stopped. Steps that stop no
    /// member, such as announcements, are carried out one by one.
    async fn act_on_gang(&self, group: &StepGroup<'_>) -> Vec<(usize, StepOutcome)> {
        let steps: Vec<&Step> = group.iter().map(|(_, step)| *step).collect();
        let missing = missing_members(&steps).into_iter().flatten().next();
        let checked = async |step: &Step| match self.time_for(step) {
            Err(outcome) => Err(outcome),
            Ok(timeout) => {
                let checked = tokio::time::timeout(timeout, check(self.cloud, step, &self.id)).await;
                checked.unwrap_or_else(|_| Err(unanswered()))
            }
        };
        let checks = group.iter().map(|(place, step)| {
            let checked = &checked;
            async move {
                let outcome = catch_bug(checked(step)).await;
                (*place, step.target.resource.clone(), outcome.unwrap_or_else(|bug| Err(failed(&bug))))
            }
        });
        let checks: Vec<(usize, ResourceId, Result<(), StepOutcome>)> =
            stream::iter(checks).buffered(AT_ONCE).collect().await;
        let refusing = checks.iter().find(|(_, _, outcome)| outcome.is_err()).map(|(_, member, _)| member.clone());
        let held = missing.map(|member| format!("{member} of its gang is not stopped in this run, so it goes on"));
        let held =
            held.or_else(|| refusing.map(|member| format!("{member} of its gang is not stopped, so it goes on")));
        if let Some(why) = held {
            let outcome = |checked: Result<(), StepOutcome>| match checked {
                Ok(()) => StepOutcome::with(OutcomeKind::Changed, why.clone()),
                Err(outcome) => outcome,
            };
            return checks.into_iter().map(|(place, _, checked)| (place, outcome(checked))).collect();
        }
        let left = self.deadline.duration_since((self.clock)());
        let writes = group.iter().map(|(place, step)| async move {
            let written = tokio::time::timeout(answer_timeout(left), carry_out_unchecked(self.cloud, step, &self.id));
            let outcome = catch_bug(written).await;
            (*place, outcome.map_or_else(|bug| failed(&bug), |answer| answer.unwrap_or_else(|_| unanswered())))
        });
        stream::iter(writes).buffer_unordered(AT_ONCE).collect().await
    }

    /// The timeout of a step that may begin now; or its outcome, if it may not.
    fn time_for(&self, step: &Step) -> Result<Duration, StepOutcome> {
        if let Some(held) = &step.held {
            return Err(StepOutcome::with(OutcomeKind::NotReached, held.to_string()));
        }
        if self.halted.is_some_and(is_set) {
            return Err(StepOutcome::with(OutcomeKind::NotReached, "the run was interrupted before it came to this"));
        }
        let left = self.deadline.duration_since((self.clock)());
        if left <= RESERVE {
            return Err(StepOutcome::with(
                OutcomeKind::NotReached,
                "the run's time was over; the next run takes it up",
            ));
        }
        Ok(answer_timeout(left))
    }
}

/// The steps by gang, as far as they stop its members; every other step alone.
fn grouped<'a>(steps: impl Iterator<Item = (usize, &'a Step)>) -> Vec<StepGroup<'a>> {
    let (mut groups, mut places): (Vec<StepGroup<'a>>, BTreeMap<&'a ResourceId, usize>) = (Vec::new(), BTreeMap::new());
    for (place, step) in steps {
        let first_member = step.gang.as_ref().filter(|_| step.is_policy_action()).and_then(|gang| gang.members.first());
        let known = first_member.and_then(|member| places.get(member).copied()).and_then(|group| groups.get_mut(group));
        if let Some(group) = known {
            group.push((place, step));
            continue;
        }
        places.extend(first_member.map(|member| (member, groups.len())));
        groups.push(vec![(place, step)]);
    }
    groups
}

fn failed(bug: &impl ToString) -> StepOutcome {
    StepOutcome::failed(FailedPart::Bug, bug.to_string())
}

fn unanswered() -> StepOutcome {
    StepOutcome::failed(FailedPart::Answer, "AWS did not answer before the run's deadline; the next run looks again")
}

fn is_set(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}

/// Logs the outcome of a step, as every function does.
pub fn log(step: &Step, outcome: &StepOutcome) {
    tracing::info!(
        region = step.target.region.as_str(),
        resource = step.target.resource.as_str(),
        action = step.action.as_str(),
        rule = step.evidence.rule().as_str(),
        outcome = ?outcome.kind,
        error = outcome.error,
        "step"
    );
}
