//! Acting on the steps that a run reaches, with the outcome of each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt, stream};
use model::id::ResourceId;
use model::mode::Mode;
use plan::report::{FailedPart, OutcomeKind, Report, StepOutcome};
use plan::{Step, gang_key, missing_members};
use ports::{Cloud, Documents};
use tokio::sync::Semaphore;
use tokio::time::error::Elapsed;

use crate::act::{carry_out_unchecked, check};
use crate::{AT_ONCE, RESERVE, Run, answer_timeout, carry_out, catch_bug};

/// Steps that are carried out together, each with its place in the report: one, or all of a gang.
type StepGroup<'a> = Vec<(usize, &'a Step)>;

impl<C: Cloud, D: Documents> Run<'_, C, D> {
    /// Carries out the steps that `wanted` names, as long as there is time. A held step waits for a person instead.
    pub(crate) async fn act(&self, report: &mut Report, wanted: impl Fn(&Step) -> bool) {
        let reached = report.steps.iter().enumerate().filter(|(_, (step, _))| wanted(step));
        let slots = &Semaphore::new(AT_ONCE);
        let outcomes: Vec<Vec<(usize, StepOutcome)>> =
            stream::iter(grouped(reached.map(|(place, (step, _))| (place, step))))
                .map(|group| async move {
                    let outcomes = match group.as_slice() {
                        [(place, step)] if step.gang.is_none() => {
                            let call = async |timeout| {
                                tokio::time::timeout(timeout, carry_out(self.cloud, step, &self.id)).await
                            };
                            vec![(*place, self.in_time(step, slots, call).await.unwrap_or_else(|outcome| outcome))]
                        }
                        _ => self.act_on_gang(&group, slots).await,
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

    /// Carries out the policy actions on all members of a gang, or none: each is read again before the first is stopped, and what EC2 refused
    /// before is tried first. Steps that stop no member, such as announcements, are carried out one by one.
    async fn act_on_gang(&self, group: &StepGroup<'_>, slots: &Semaphore) -> Vec<(usize, StepOutcome)> {
        let steps: Vec<&Step> = group.iter().map(|(_, step)| *step).collect();
        if let Some(member) = missing_members(&steps).into_iter().flatten().next() {
            return held(group, BTreeMap::new(), member);
        }
        let check = async |step: &Step| {
            let call = async |timeout| tokio::time::timeout(timeout, check(self.cloud, step, &self.id)).await;
            self.in_time(step, slots, call).await.and_then(|checked| checked)
        };
        let checks = group.iter().map(|(place, step)| async { (*place, check(step).await) });
        let refused: BTreeMap<usize, StepOutcome> = stream::iter(checks)
            .buffered(AT_ONCE)
            .filter_map(|(place, checked)| std::future::ready(checked.err().map(|outcome| (place, outcome))))
            .collect()
            .await;
        if let Some((_, step)) = group.iter().find(|(place, _)| refused.contains_key(place)) {
            return held(group, refused, &step.target.resource);
        }
        let write = async |step: &Step| {
            let call =
                async |timeout| tokio::time::timeout(timeout, carry_out_unchecked(self.cloud, step, &self.id)).await;
            self.in_time(step, slots, call).await.unwrap_or_else(|outcome| outcome)
        };
        let (retried, first): (StepGroup<'_>, StepGroup<'_>) =
            group.iter().partition(|(_, step)| step.refused_at.is_some());
        let mut written = BTreeMap::new();
        for (place, step) in retried {
            let outcome = write(step).await;
            let is_refused = matches!(outcome.kind, OutcomeKind::Failed | OutcomeKind::NotReached);
            written.insert(place, outcome);
            if is_refused && written.len() == 1 {
                return held(group, written, &step.target.resource);
            }
        }
        let writes = first.iter().map(|(place, step)| async { (*place, write(step).await) });
        written.extend(stream::iter(writes).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await);
        written.into_iter().collect()
    }

    /// One call about a step, once there is a slot for it, if there is time by then.
    async fn in_time<T>(
        &self,
        step: &Step,
        slots: &Semaphore,
        call: impl AsyncFnOnce(Duration) -> Result<T, Elapsed>,
    ) -> Result<T, StepOutcome> {
        let _slot = slots.acquire().await;
        let timeout = self.time_for(step)?;
        // A call that began in time may still hang: notifying and recording must not wait for it.
        match catch_bug(call(timeout)).await {
            Ok(answer) => answer.map_err(|_| unanswered()),
            Err(bug) => Err(failed(&bug)),
        }
    }

    /// The timeout of a step that may begin now; or its outcome, if it may not.
    fn time_for(&self, step: &Step) -> Result<Duration, StepOutcome> {
        if let Some(held) = &step.held {
            return Err(StepOutcome::with(OutcomeKind::NotReached, held.to_string()));
        }
        // Observe mode changes nothing either, and shows what it would do.
        if let Some(reason) = self.standby_reason().filter(|_| step.mode == Mode::Enforce) {
            return Err(StepOutcome::with(OutcomeKind::NotReached, reason));
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
        let first_member = gang_key(step);
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

/// The outcomes of a gang of which `member` keeps running: none of the others is stopped.
fn held(
    group: &StepGroup<'_>,
    mut outcomes: BTreeMap<usize, StepOutcome>,
    member: &ResourceId,
) -> Vec<(usize, StepOutcome)> {
    let why = || format!("{member} of its gang is not stopped in this run, so this instance keeps running");
    let mut outcome = |place| outcomes.remove(&place).unwrap_or_else(|| StepOutcome::with(OutcomeKind::Changed, why()));
    group.iter().map(|(place, _)| (*place, outcome(*place))).collect()
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
