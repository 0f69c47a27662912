//! Reviews a list that a person approved: each item is judged again, and carried out only if
//!
//! - its region was observed completely;
//! - the resource exists, and was not stopped or deleted since;
//! - the present plan, without the limits, has an enforced step for it,
//! - with the same action, for the same rule.
//!
//! Nothing that is not on the list is carried out.

use model::id::Region;
use model::instance::{Instance, InstanceState};
use model::mode::Mode;
use model::observation::{Gap, GapKind, ObservedResource};
use model::sagemaker::SageMakerStatus;
use model::volume::VolumeState;
use plan::report::{OutcomeKind, RecordedStep, StepOutcome};
use plan::{Action, Announcement, Plan, SkipReason, Skipped, Step, Target, VolumeAction};

/// The list's resources as they are now, and the plan for them now.
#[derive(Debug, Clone, PartialEq)]
pub struct CurrentState {
    /// The regions that were observed.
    pub regions: Vec<Region>,
    /// The resources as they are.
    pub seen: Vec<ObservedResource>,
    /// The plan that a run would make now.
    pub plan: Plan,
}

/// A list, judged again.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewResult {
    /// The steps to carry out, and no others. None of them is held: the limits ask for a review, and this is it.
    pub plan: Plan,
    /// The items that are not carried out, with the reason.
    pub left: Vec<(RecordedStep, StepOutcome)>,
}

/// Judges a list again.
#[must_use]
pub fn review(items: &[RecordedStep], fresh: CurrentState) -> ReviewResult {
    let CurrentState { regions, seen, plan } = fresh;
    let (mut steps, mut left) = (Vec::new(), Vec::new());
    for item in items {
        match judge(item, &regions, &seen, &plan) {
            Ok(step) => steps.push(Step { held: None, ..step.clone() }),
            Err(outcome) => left.push((item.clone(), outcome)),
        }
    }
    ReviewResult { plan: Plan { steps, skipped: Vec::new(), ..plan }, left }
}

fn judge<'a>(
    item: &RecordedStep,
    regions: &[Region],
    seen: &[ObservedResource],
    plan: &'a Plan,
) -> Result<&'a Step, StepOutcome> {
    let is_observed = regions.contains(&item.region);
    let gaps_in_region = || plan.gaps.iter().filter(|gap| gap.region == item.region);
    let region_gap = gaps_in_region().find(|gap| gap.kind.hides_region());
    let unknown_regions_gap = plan.gaps.iter().find(|gap| !is_observed && gap.kind == GapKind::OtherRegions);
    if let Some(gap) = region_gap.or(unknown_regions_gap) {
        return Err(not_checked(gap));
    }
    if !is_observed {
        return Err(changed(format!("{} is no longer enabled, or no longer in `regions`", item.region)));
    }
    let is_target = |target: &Target| target.region == item.region && target.resource == item.resource;
    let found = seen.iter().find(|one| is_same_resource(item, one));
    if found.is_some_and(|found| has_ended(item, found)) {
        return Err(StepOutcome::with(OutcomeKind::AlreadyGone, "it was already stopped or deleted"));
    }
    if let Some(step) = plan.steps.iter().find(|step| is_target(&step.target)) {
        return if is_as_reviewed(item, step) { Ok(step) } else { Err(changed(describe_current_step(step))) };
    }
    if let Some(skipped) = plan.skipped.iter().find(|one| is_target(&one.target)) {
        return Err(changed(reason(skipped)));
    }
    if found.is_some() {
        return Err(changed("nothing is due for it now".to_owned()));
    }
    match gaps_in_region().find(|gap| gap.kind.hides_resources()) {
        Some(half_seen) => Err(not_checked(half_seen)),
        None => Err(StepOutcome::with(OutcomeKind::AlreadyGone, "it is gone")),
    }
}

fn not_checked(gap: &Gap) -> StepOutcome {
    let error = format!("it could not be checked again, because {} failed: {}", gap.call, gap.error);
    StepOutcome::with(OutcomeKind::NotReached, error)
}

fn is_same_resource(item: &RecordedStep, seen: &ObservedResource) -> bool {
    *seen.region() == item.region && *seen.id() == item.resource
}

/// Returns `true` if the resource already has the state that the item asks for. A stopped instance does not count as terminated.
fn has_ended(item: &RecordedStep, seen: &ObservedResource) -> bool {
    match seen {
        ObservedResource::Instance(instance) => has_instance_ended(item, instance),
        ObservedResource::Volume(volume) => matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted),
        ObservedResource::Snapshot(_) => false,
        ObservedResource::SageMaker(resource) => match resource.status {
            SageMakerStatus::Deleting | SageMakerStatus::Deleted => true,
            SageMakerStatus::Stopping | SageMakerStatus::Stopped => item.action == "stop",
            SageMakerStatus::Running
            | SageMakerStatus::Pending
            | SageMakerStatus::Changing
            | SageMakerStatus::Other => false,
        },
    }
}

/// Returns `true` if the instance already has the state that the item asks for.
pub(crate) fn has_instance_ended(item: &RecordedStep, instance: &Instance) -> bool {
    match instance.state {
        InstanceState::ShuttingDown | InstanceState::Terminated => true,
        InstanceState::Stopping | InstanceState::Stopped => item.action == "stop",
        InstanceState::Pending | InstanceState::Running | InstanceState::Unknown => false,
    }
}

fn is_as_reviewed(item: &RecordedStep, step: &Step) -> bool {
    step.mode == Mode::Enforce
        && step.action.stops_or_deletes()
        && step.action.as_str() == item.action
        && step.evidence.rule().as_str() == item.evidence.rule
}

fn changed(why: String) -> StepOutcome {
    StepOutcome::with(OutcomeKind::Changed, why)
}

/// Describes the step that a run would take now, which was not reviewed.
fn describe_current_step(step: &Step) -> String {
    let rule = step.evidence.rule();
    let action = step.action.as_str();
    match (step.action.announcement(), &step.action) {
        _ if step.mode == Mode::Observe => format!("it is in observe mode now: {action} for {rule}"),
        (Some(Announcement::Notify), _) => {
            let why = step.notify_only.map(|why| format!(": {}", why.explain())).unwrap_or_default();
            format!("notify only now{why}")
        }
        (Some(Announcement::Mark(_)), _) => format!("the action is not announced; the next run would mark it ({rule})"),
        (Some(Announcement::Unmark { .. }), _) => format!("the announced action ({rule}) is called off"),
        (None, Action::Volume(_, VolumeAction::Snapshot { .. })) => {
            "it has no complete snapshot to restore it from".to_owned()
        }
        _ => format!("another action is due now: {action} for {rule}"),
    }
}

fn reason(skipped: &Skipped) -> String {
    match skipped.reason {
        SkipReason::Marked => "its action is announced, and is not due yet".to_owned(),
        SkipReason::SnapshotPending => "its snapshot is not complete yet".to_owned(),
        because => {
            let name = serde_json::to_value(because).ok();
            let name = name.as_ref().and_then(serde_json::Value::as_str).unwrap_or("skipped");
            format!("skipped now: {name}")
        }
    }
}

#[cfg(test)]
mod tests;
