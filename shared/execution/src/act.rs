//! Carrying out one step: read the resource again, ask whether the reason still stands, then write.
//!
//! One call is about one resource: a batch with one bad id, or one protected instance, would shield the others (EC2 API
//! reference, `TerminateInstances`).

mod instance;
mod sagemaker;
mod volume;

use std::fmt::Display;

use model::curfew_tags::MARKED;
use model::id::{Region, ResourceId, RunId};
use model::instance::{Instance, Tags};
use model::mark::Mark;
use model::mode::Mode;
use model::sagemaker::SageMakerResource;
use model::volume::{Snapshot, Volume};
use plan::report::{FailedPart, OutcomeKind, StepOutcome};
use plan::{Action, Announcement, InstanceAction, SnapshotAction, StaleStep, Step, StillHolds, Target, VolumeAction};
use ports::{CallError, CallErrorKind, Cloud, Ec2Write, SageMakerWrite};

/// A tag that is written.
type Tag = (&'static str, String);

/// Carries one step of a run out. Whether it is held, or too late, is for the caller to say.
pub async fn carry_out(cloud: &impl Cloud, step: &Step, run: &RunId) -> StepOutcome {
    match check(cloud, step, run).await {
        Ok(()) => carry_out_unchecked(cloud, step, run).await,
        Err(outcome) => outcome,
    }
}

/// Checks whether a step may still be carried out. The error is its outcome.
pub(crate) async fn check(cloud: &impl Cloud, step: &Step, run: &RunId) -> Result<(), StepOutcome> {
    // Observe mode lists an already notified step in every run. It changes nothing, so the resource is not read again.
    let repeats_itself = step.mode == Mode::Observe && step.already_notified;
    if step.action.announcement() == Some(&Announcement::Notify) || repeats_itself {
        return Ok(());
    }
    still_holds(cloud, step, run).await
}

/// Carries out a step that was just checked.
pub(crate) async fn carry_out_unchecked(cloud: &impl Cloud, step: &Step, run: &RunId) -> StepOutcome {
    match step.mode {
        Mode::Observe => StepOutcome::from_kind(OutcomeKind::Observed),
        Mode::Enforce => write(cloud, step, run).await.unwrap_or_else(|error| outcome_of(&error, step)),
    }
}

/// Checks whether the step still holds for the resource as it is now, and for what its end must wait for.
async fn still_holds(cloud: &impl Cloud, step: &Step, run: &RunId) -> Result<(), StepOutcome> {
    match &step.action {
        Action::Instance(seen, _) => StepResource { cloud, step, run, seen }.still_holds().await,
        Action::Volume(seen, action) => {
            let volume = StepResource { cloud, step, run, seen };
            volume.still_holds().await?;
            match action {
                VolumeAction::Delete { safety: Some(safety), .. } => volume.is_safe(safety).await,
                _ => Ok(()),
            }
        }
        Action::Snapshot(seen, action) => {
            let snapshot = StepResource { cloud, step, run, seen };
            snapshot.still_holds().await?;
            match action {
                SnapshotAction::DeleteFailed { .. } => Ok(()),
                SnapshotAction::AnnounceExpiry(_) | SnapshotAction::Delete => snapshot.is_outlived().await,
            }
        }
        Action::SageMaker(seen, _) => StepResource { cloud, step, run, seen }.still_holds().await,
        Action::Budget(_) => Ok(()),
    }
}

/// The only place that changes a resource.
async fn write(cloud: &impl Cloud, step: &Step, run: &RunId) -> Result<StepOutcome, CallError> {
    match &step.action {
        Action::Instance(seen, action) => StepResource { cloud, step, run, seen }.write_instance(action).await,
        Action::Volume(seen, action) => StepResource { cloud, step, run, seen }.write_volume(action).await,
        Action::Snapshot(seen, action) => StepResource { cloud, step, run, seen }.write_snapshot(*action).await,
        Action::SageMaker(seen, action) => StepResource { cloud, step, run, seen }.write_sagemaker(action).await,
        // What holds jobs is the budget document, which is written with every beat.
        Action::Budget(_) => Ok(StepOutcome::from_kind(OutcomeKind::Done)),
    }
}

/// A resource that can be read again.
trait ReadAgain: StillHolds + Sized {
    async fn read_again(&self, cloud: &impl Cloud) -> Result<Self, CallError>;
    fn tags(&self) -> &Tags;
    fn place(&self) -> (&Region, &ResourceId);

    async fn write_tags(&self, cloud: &impl Cloud, tags: &[Tag]) -> Result<(), CallError> {
        let (region, id) = self.place();
        cloud.write(region, Ec2Write::CreateTags { resources: std::slice::from_ref(id), tags }).await
    }

    async fn remove_tags(&self, cloud: &impl Cloud, keys: &[&str]) -> Result<(), CallError> {
        let (region, resource) = self.place();
        cloud.write(region, Ec2Write::DeleteTags { resource, keys }).await
    }
}

impl ReadAgain for Instance {
    async fn read_again(&self, cloud: &impl Cloud) -> Result<Self, CallError> {
        cloud.describe_instance(&self.region, &self.id).await
    }

    fn tags(&self) -> &Tags {
        &self.tags
    }

    fn place(&self) -> (&Region, &ResourceId) {
        (&self.region, &self.id)
    }
}

impl ReadAgain for Volume {
    async fn read_again(&self, cloud: &impl Cloud) -> Result<Self, CallError> {
        cloud.describe_volume(&self.region, &self.id).await
    }

    fn tags(&self) -> &Tags {
        &self.tags
    }

    fn place(&self) -> (&Region, &ResourceId) {
        (&self.region, &self.id)
    }
}

impl ReadAgain for Snapshot {
    async fn read_again(&self, cloud: &impl Cloud) -> Result<Self, CallError> {
        cloud.describe_snapshot(&self.region, &self.id).await
    }

    fn tags(&self) -> &Tags {
        &self.tags
    }

    fn place(&self) -> (&Region, &ResourceId) {
        (&self.region, &self.id)
    }
}

impl ReadAgain for SageMakerResource {
    async fn read_again(&self, cloud: &impl Cloud) -> Result<Self, CallError> {
        cloud.describe_sagemaker(self).await
    }

    fn tags(&self) -> &Tags {
        &self.tags
    }

    fn place(&self) -> (&Region, &ResourceId) {
        (&self.region, &self.id)
    }

    async fn write_tags(&self, cloud: &impl Cloud, tags: &[Tag]) -> Result<(), CallError> {
        cloud.write_sagemaker(self, SageMakerWrite::AddTags(tags)).await
    }

    async fn remove_tags(&self, cloud: &impl Cloud, keys: &[&str]) -> Result<(), CallError> {
        cloud.write_sagemaker(self, SageMakerWrite::DeleteTags(keys)).await
    }
}

/// The resource that a step changes, as it was seen, with what to read and write it by.
struct StepResource<'a, C, R> {
    cloud: &'a C,
    step: &'a Step,
    run: &'a RunId,
    seen: &'a R,
}

impl<C: Cloud, R: ReadAgain> StepResource<'_, C, R> {
    fn target(&self) -> &Target {
        &self.step.target
    }

    async fn call(&self, write: Ec2Write<'_>) -> Result<(), CallError> {
        self.cloud.write(&self.target().region, write).await
    }

    async fn still_holds(&self) -> Result<(), StepOutcome> {
        let fresh = match self.seen.read_again(self.cloud).await {
            Ok(fresh) => fresh,
            Err(error) if is_gone(&error, self.step) => return Err(StepOutcome::from_kind(OutcomeKind::AlreadyGone)),
            Err(error) => return Err(StepOutcome::failed(FailedPart::Check, error.to_string())),
        };
        self.seen.still_holds(&fresh).map_err(|stale| {
            StepOutcome::from_kind(match stale {
                StaleStep::AlreadyGone => OutcomeKind::AlreadyGone,
                StaleStep::Changed => OutcomeKind::Changed,
            })
        })
    }

    /// `with_mark` is written in the same call as a mark.
    async fn announce(&self, announcement: &Announcement, with_mark: Option<Tag>) -> Result<StepOutcome, CallError> {
        match announcement {
            Announcement::Mark(actions) => {
                let mark = Mark::earliest(actions.iter().map(|(rule, action)| (*rule, *action)));
                let mark = mark.map(|mark| tag(MARKED, &mark));
                let has_more = with_mark.is_some();
                match self.tag(mark.clone().into_iter().chain(with_mark).collect()).await {
                    // No action needs the other label.
                    Err(error) if has_more && error.refusal().is_some() => self.tag(mark.into_iter().collect()).await,
                    answer => answer,
                }
            }
            Announcement::Unmark { remaining, also } => {
                if let Some(mark) = remaining {
                    self.tag(vec![tag(MARKED, mark)]).await?;
                }
                let gone = remaining.is_none().then_some(MARKED).into_iter().chain(*also);
                self.untag(gone.filter(|key| self.seen.tags().contains_key(*key)).collect()).await?;
                Ok(StepOutcome::from_kind(OutcomeKind::Done))
            }
            Announcement::Notify => Ok(StepOutcome::from_kind(OutcomeKind::Done)),
        }
    }

    async fn tag(&self, tags: Vec<Tag>) -> Result<StepOutcome, CallError> {
        self.seen.write_tags(self.cloud, &tags).await.map(|()| StepOutcome::from_kind(OutcomeKind::Done))
    }

    /// Writes labels before an action. Where AWS refuses them for good, the refusal: IAM decides whether the action may do without.
    async fn label_before(&self, labels: Vec<Tag>) -> Result<Option<CallError>, CallError> {
        if labels.is_empty() {
            return Ok(None);
        }
        match self.tag(labels).await {
            Ok(_) => Ok(None),
            Err(error) if error.refusal().is_some() => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }

    async fn label(&self, labels: Vec<Tag>) -> Result<StepOutcome, CallError> {
        let answer = self.tag(labels.clone()).await.map(drop);
        let is_written = |fresh: &R| labels.iter().all(|(key, value)| fresh.tags().get(*key) == Some(value));
        self.accept_if_already_applied(answer, is_written).await?;
        Ok(StepOutcome::from_kind(OutcomeKind::Done))
    }

    /// Removes these keys, whatever their values; where there are none, nothing.
    async fn untag(&self, keys: Vec<&str>) -> Result<(), CallError> {
        if keys.is_empty() {
            return Ok(());
        }
        let answer = self.seen.remove_tags(self.cloud, &keys).await;
        self.accept_if_already_applied(answer, |fresh| keys.iter().all(|key| !fresh.tags().contains_key(*key))).await
    }

    /// Removes the mark of an earlier run or of this one after a stop.
    async fn unmark_stopped(&self, is_marked: bool) -> StepOutcome {
        match if is_marked { self.untag(vec![MARKED]).await } else { Ok(()) } {
            Ok(()) => StepOutcome::from_kind(OutcomeKind::Done),
            // Once it runs again its mark is of an earlier life, and the next run removes it.
            Err(error) => StepOutcome::with(OutcomeKind::Done, format!("stopped, but the mark stayed: {error}")),
        }
    }

    /// Counts an unanswered call as done if the resource shows its effect: no later run would report it.
    async fn accept_if_already_applied(
        &self,
        answer: Result<(), CallError>,
        is_so: impl Fn(&R) -> bool,
    ) -> Result<(), CallError> {
        match answer {
            Err(error) if error.kind.is_unanswered() => self.accept_if_so_now(error, is_so).await,
            answer => answer,
        }
    }

    /// Counts a refused call as done if the resource shows its effect. The SDK repeats a call, and its last try may have been refused for
    /// what an earlier, unanswered one has done.
    async fn accept_if_so_now(&self, error: CallError, is_so: impl Fn(&R) -> bool) -> Result<(), CallError> {
        match self.seen.read_again(self.cloud).await {
            Ok(fresh) if is_so(&fresh) => Ok(()),
            _ => Err(error),
        }
    }

    /// Counts a failed deletion as done if the resource is gone. A resource that EC2 does not find at first may still be there (EC2 API
    /// reference, "Eventual consistency"), and a message would say that it was deleted.
    async fn accept_if_already_gone(&self, answer: Result<(), CallError>) -> Result<(), CallError> {
        use CallErrorKind::{NotFound, Throttled, WrongState};
        match answer {
            Err(error) if error.kind.is_unanswered() || matches!(error.kind, NotFound | Throttled | WrongState) => {
                self.accept_if_gone_now(error).await
            }
            answer => answer,
        }
    }

    async fn accept_if_gone_now(&self, error: CallError) -> Result<(), CallError> {
        match self.seen.read_again(self.cloud).await {
            Err(gone) if gone.kind == CallErrorKind::NotFound => Ok(()),
            Ok(fresh) if self.seen.still_holds(&fresh) == Err(StaleStep::AlreadyGone) => Ok(()),
            _ => Err(error),
        }
    }
}

/// An instance that EC2 does not know may be running all the same; a volume was listed a moment ago.
fn is_gone(error: &CallError, step: &Step) -> bool {
    error.kind == CallErrorKind::NotFound && !matches!(step.action, Action::Instance(..))
}

fn outcome_of(error: &CallError, step: &Step) -> StepOutcome {
    match error.kind {
        _ if is_gone(error, step) => StepOutcome::from_kind(OutcomeKind::AlreadyGone),
        CallErrorKind::WrongState => StepOutcome::with(OutcomeKind::Changed, error.to_string()),
        // Somebody has attached it since it was observed.
        CallErrorKind::InUse if matches!(step.action, Action::Volume(..)) => {
            StepOutcome::with(OutcomeKind::Changed, error.to_string())
        }
        CallErrorKind::Capacity if matches!(step.action, Action::Instance(_, InstanceAction::Start)) => {
            let (call, region, message) = (error.call, &error.region, error.message.trim_end_matches('.'));
            let error = format!("{call} failed in {region}: {message}; every run within its hours tries again");
            StepOutcome::with(OutcomeKind::Failed, error)
        }
        _ => {
            StepOutcome { refusal: error.refusal(), ..StepOutcome::failed(failed_part(error, step), error.to_string()) }
        }
    }
}

fn failed_part(error: &CallError, step: &Step) -> FailedPart {
    let is_label = matches!(error.call, "ec2:CreateTags" | "sagemaker:AddTags");
    let is_action = step.action.stops_or_deletes() || step.action.is_start();
    if is_label && is_action { FailedPart::Label } else { FailedPart::Call }
}

/// The reason why an action failed: IAM denies it without its label, which could not be written.
fn root_cause(label_error: Option<CallError>, error: CallError) -> CallError {
    match label_error {
        Some(label_error) if matches!(error.kind, CallErrorKind::Denied { .. }) => label_error,
        _ => error,
    }
}

fn tag(key: &'static str, value: &(impl Display + ?Sized)) -> Tag {
    (key, value.to_string())
}

#[cfg(test)]
mod tests {
    use model::fixture::instance;
    use model::rule::Rule;
    use plan::{AnnouncedActions, Evidence};

    use super::*;

    #[test]
    fn a_label_that_fails_is_told_from_the_action_behind_it() {
        let failed_part = |action: InstanceAction, call| {
            let seen = instance().build();
            let target = Target::bare(&seen.region, &seen.id);
            let step =
                Step::bare(target, Action::Instance(seen, action), Evidence::resolved(Rule::Idle), Mode::Enforce);
            let region = step.target.region.clone();
            outcome_of(&CallError::new(call, &region, CallErrorKind::Throttled, "slow"), &step).failed_part
        };
        let stop = || InstanceAction::Stop { mark: None, stopped: String::new() };
        assert_eq!(failed_part(stop(), "ec2:CreateTags"), FailedPart::Label);
        assert_eq!(failed_part(stop(), "ec2:StopInstances"), FailedPart::Call);
        let mark = InstanceAction::Announce(Announcement::Mark(AnnouncedActions::new()));
        assert_eq!(failed_part(mark, "ec2:CreateTags"), FailedPart::Call);
    }
}
