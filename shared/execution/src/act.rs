//! Carrying out one step: read the resource again, ask whether the reason still stands, then write.
//!
//! One call is about one resource: a batch with one bad id, or one protected instance, would shield the others (EC2 API
//! reference, `TerminateInstances`).

mod instance;
mod snapshot;
mod volume;

use std::fmt::Display;

use jiff::Timestamp;
use model::curfew_tags::MARKED;
use model::mode::Mode;
use plan::report::{OutcomeKind, StepOutcome};
use plan::{Action, ObservedResource, StaleStep, Step, Target, still_holds};
use ports::{CallError, CallErrorKind, Cloud, Ec2Write};

/// A tag that is written.
type Tag = (&'static str, String);

/// Carries one step out. Whether it is held, or too late, is for the caller to say.
pub async fn carry_out(cloud: &impl Cloud, step: &Step) -> StepOutcome {
    let resource = StepResource { cloud, step };
    // What is only observed, and was told, is said of every run anew: nothing hangs on a second look.
    let repeats_itself = step.mode == Mode::Observe && step.already_notified;
    if !matches!(step.action, Action::Notify | Action::Hold)
        && !repeats_itself
        && let Err(outcome) = resource.still_holds().await
    {
        return outcome;
    }
    match step.mode {
        Mode::Observe => StepOutcome::from_kind(OutcomeKind::Observed),
        Mode::Enforce => resource.write().await,
    }
}

/// What a step is about, with what to read and write it by.
struct StepResource<'a, C> {
    cloud: &'a C,
    step: &'a Step,
}

impl<C: Cloud> StepResource<'_, C> {
    fn target(&self) -> &Target {
        &self.step.target
    }

    /// The resource as it is now.
    async fn read_again(&self) -> Result<ObservedResource, CallError> {
        self.cloud.describe_again(&self.step.seen).await
    }

    async fn call(&self, write: Ec2Write<'_>) -> Result<(), CallError> {
        self.cloud.write(&self.target().region, write).await
    }

    /// Whether the step is to be carried out, by the resource as it is now, and by what its end must wait for.
    async fn still_holds(&self) -> Result<(), StepOutcome> {
        let fresh = match self.read_again().await {
            Ok(fresh) => fresh,
            Err(error) if is_gone(&error, self.step) => return Err(StepOutcome::from_kind(OutcomeKind::AlreadyGone)),
            Err(error) => return Err(StepOutcome::with(OutcomeKind::Failed, error.to_string())),
        };
        match still_holds(self.step, &fresh) {
            Ok(()) => {}
            Err(StaleStep::AlreadyGone) => return Err(StepOutcome::from_kind(OutcomeKind::AlreadyGone)),
            Err(StaleStep::Changed) => return Err(StepOutcome::from_kind(OutcomeKind::Changed)),
        }
        match (&self.step.seen, &self.step.action) {
            (ObservedResource::Volume(volume), Action::Delete { safety: Some(safety), .. }) => {
                self.is_safe(volume, safety).await
            }
            (ObservedResource::Snapshot(snapshot), _) => self.is_outlived(snapshot).await,
            _ => Ok(()),
        }
    }

    /// The only place that changes a resource.
    async fn write(&self) -> StepOutcome {
        let done = Ok(StepOutcome::from_kind(OutcomeKind::Done));
        let written = match &self.step.action {
            // What holds jobs is the budget document, which is written with every beat.
            Action::Notify | Action::Hold => done,
            Action::Mark(mark) => self.tag([tag(MARKED, mark)].into_iter().chain(self.first_sight()).collect()).await,
            Action::Date { key, at } => self.date(key, *at).await,
            Action::Unmark { remaining, also } => {
                let marked = remaining.as_ref().map(|mark| tag(MARKED, mark));
                let gone = marked.is_none().then_some(MARKED).into_iter().chain(*also);
                let gone = gone.filter(|key| self.step.seen.tags().contains_key(*key)).collect();
                self.retag(marked, gone).await
            }
            Action::Stop { mark, stopped } => self.stop(mark.as_ref(), stopped).await,
            Action::Terminate { mark } => self.terminate(mark.as_ref()).await,
            Action::Start => self.start().await,
            Action::Snapshot { tags } => self.snapshot(tags).await,
            Action::Delete { expiring, at, .. } => match &self.step.seen {
                ObservedResource::Snapshot(_) => self.delete_snapshot().await,
                ObservedResource::Volume(_) | ObservedResource::Instance(_) | ObservedResource::Budget { .. } => {
                    self.delete_volume(expiring, *at).await
                }
            },
        };
        written.unwrap_or_else(|error| outcome_of(&error, self.step))
    }

    async fn tag(&self, tags: Vec<Tag>) -> Result<StepOutcome, CallError> {
        let resources = std::slice::from_ref(&self.target().resource);
        self.call(Ec2Write::CreateTags { resources, tags: &tags })
            .await
            .map(|()| StepOutcome::from_kind(OutcomeKind::Done))
    }

    /// Once it is dated, no later run tells of it.
    async fn date(&self, key: &'static str, at: Timestamp) -> Result<StepOutcome, CallError> {
        let answer = self.tag(vec![tag(key, &at)]).await.map(drop);
        self.accept_if_already_applied(answer, |fresh| fresh.tags().get(key) == Some(&at.to_string())).await?;
        Ok(StepOutcome::from_kind(OutcomeKind::Done))
    }

    /// Removes these keys, whatever their values; where there are none, nothing.
    async fn untag(&self, keys: Vec<&str>) -> Result<(), CallError> {
        if keys.is_empty() {
            return Ok(());
        }
        let answer = self.call(Ec2Write::DeleteTags { resource: &self.target().resource, keys: &keys }).await;
        self.accept_if_already_applied(answer, |fresh| keys.iter().all(|key| !fresh.tags().contains_key(*key))).await
    }

    async fn retag(&self, kept: Option<Tag>, gone: Vec<&str>) -> Result<StepOutcome, CallError> {
        if let Some(kept) = kept {
            self.tag(vec![kept]).await?;
        }
        self.untag(gone).await?;
        Ok(StepOutcome::from_kind(OutcomeKind::Done))
    }

    /// What was done and not answered is done: no later run would tell of it.
    async fn accept_if_already_applied(
        &self,
        answer: Result<(), CallError>,
        is_so: impl Fn(&ObservedResource) -> bool,
    ) -> Result<(), CallError> {
        let error = match answer {
            Err(error) if error.kind == CallErrorKind::Unanswered => error,
            answer => return answer,
        };
        match self.read_again().await {
            Ok(fresh) if is_so(&fresh) => Ok(()),
            _ => Err(error),
        }
    }

    /// The same of what has to be gone. The SDK repeats a call: its last try may have been refused for what an earlier one,
    /// unanswered, has done. But what EC2 does not find at once may be there (EC2 API reference, "Eventual consistency"), and
    /// would be told to be deleted.
    async fn accept_if_already_gone(&self, answer: Result<(), CallError>) -> Result<(), CallError> {
        use CallErrorKind::{NotFound, Throttled, Unanswered, WrongState};
        let error = match answer {
            Err(error) if matches!(error.kind, NotFound | Unanswered | Throttled | WrongState) => error,
            answer => return answer,
        };
        match self.read_again().await {
            Err(gone) if gone.kind == NotFound => Ok(()),
            Ok(fresh) if still_holds(self.step, &fresh) == Err(StaleStep::AlreadyGone) => Ok(()),
            _ => Err(error),
        }
    }
}

/// An instance that EC2 does not know may be running all the same; a volume was listed a moment ago.
fn is_gone(error: &CallError, step: &Step) -> bool {
    error.kind == CallErrorKind::NotFound && step.seen.instance().is_none()
}

fn outcome_of(error: &CallError, step: &Step) -> StepOutcome {
    match error.kind {
        _ if is_gone(error, step) => StepOutcome::from_kind(OutcomeKind::AlreadyGone),
        CallErrorKind::WrongState => StepOutcome::with(OutcomeKind::Changed, error.to_string()),
        // Somebody has attached it since the look.
        CallErrorKind::InUse if matches!(step.seen, ObservedResource::Volume(_)) => {
            StepOutcome::with(OutcomeKind::Changed, error.to_string())
        }
        CallErrorKind::Capacity if step.action == Action::Start => {
            let said = format!("{} failed in {}: {}", error.call, error.region, error.message);
            StepOutcome::with(OutcomeKind::Failed, format!("{said}; every run within its hours tries again"))
        }
        _ => StepOutcome::with(OutcomeKind::Failed, error.to_string()),
    }
}

fn tag(key: &'static str, value: &(impl Display + ?Sized)) -> Tag {
    (key, value.to_string())
}
