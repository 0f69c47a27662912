//! Ending and starting a resource of `SageMaker`, whose calls are refused for what has the wanted state already: after such a refusal, or no
//! answer, the resource is read again.

use model::curfew_tags::{MARKED, STOPPED};
use model::mark::Mark;
use model::sagemaker::{SageMakerKind, SageMakerResource, SageMakerStatus};
use plan::SageMakerAction;
use plan::report::{OutcomeKind, StepOutcome};
use ports::{CallError, CallErrorKind, Cloud, SageMakerWrite};

use super::{StepResource, root_cause, tag};

impl<C: Cloud> StepResource<'_, C, SageMakerResource> {
    pub(super) async fn write_sagemaker(&self, action: &SageMakerAction) -> Result<StepOutcome, CallError> {
        match action {
            SageMakerAction::Announce(announcement) => self.announce(announcement, None).await,
            SageMakerAction::Stop { mark, stopped } => self.stop(mark.as_ref(), stopped).await,
            SageMakerAction::Delete { mark } => self.delete(mark.as_ref()).await,
            SageMakerAction::Start => self.start().await,
        }
    }

    /// The labels come first, because the role may stop only what carries a mark.
    async fn stop(&self, mark: Option<&Mark>, stopped: &str) -> Result<StepOutcome, CallError> {
        let is_notebook = matches!(self.seen.kind, SageMakerKind::NotebookInstance);
        let labels = is_notebook.then(|| tag(STOPPED, stopped)).into_iter().chain(mark.map(|mark| tag(MARKED, mark)));
        let unlabelled = self.label_before(labels.collect()).await?;
        let is_marked = (mark.is_some() && unlabelled.is_none()) || self.seen.tags.contains_key(MARKED);
        let answer = self.refusal_of(SageMakerWrite::Stop).await.map_err(|error| root_cause(unlabelled, error))?;
        if let Some(error) = answer {
            let is_stopped = |fresh: &SageMakerResource| {
                matches!(fresh.status, SageMakerStatus::Stopping | SageMakerStatus::Stopped)
            };
            self.accept_if_so_now(error, is_stopped).await?;
        }
        // A job never runs again, and its mark is of no more use to anybody.
        let can_run_again = !matches!(self.seen.kind, SageMakerKind::Job(_));
        Ok(self.unmark_stopped(is_marked && can_run_again).await)
    }

    async fn delete(&self, mark: Option<&Mark>) -> Result<StepOutcome, CallError> {
        let unlabelled = self.label_before(mark.map(|mark| tag(MARKED, mark)).into_iter().collect()).await?;
        let answer = self.refusal_of(SageMakerWrite::Delete).await.map_err(|error| root_cause(unlabelled, error))?;
        if let Some(error) = answer {
            self.accept_if_gone_now(error).await?;
        }
        Ok(StepOutcome::from_kind(OutcomeKind::Done))
    }

    /// IAM asks for the label, which somebody may have removed.
    async fn start(&self) -> Result<StepOutcome, CallError> {
        if let Some(stopped) = self.step.memory.record.carried_out.filter(|_| !self.seen.tags.contains_key(STOPPED)) {
            self.tag(vec![tag(STOPPED, &format!("{} {}", stopped.rule, stopped.at))]).await?;
        }
        if let Some(error) = self.refusal_of(SageMakerWrite::Start).await? {
            let is_started =
                |fresh: &SageMakerResource| matches!(fresh.status, SageMakerStatus::Pending | SageMakerStatus::Running);
            self.accept_if_so_now(error, is_started).await?;
        }
        Ok(StepOutcome::from_kind(OutcomeKind::Done))
    }

    /// Returns the error of a refused or unanswered call whose effect may exist already. A call that is not permitted or not supported had
    /// no effect, so its error is returned as `Err`.
    async fn refusal_of(&self, write: SageMakerWrite<'_>) -> Result<Option<CallError>, CallError> {
        match self.cloud.write_sagemaker(self.seen, write).await {
            Ok(()) => Ok(None),
            Err(error) if matches!(error.kind, CallErrorKind::Denied { .. } | CallErrorKind::Unsupported) => Err(error),
            Err(error) => Ok(Some(error)),
        }
    }
}
