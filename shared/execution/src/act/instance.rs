//! Stopping, terminating and starting an instance.

use model::curfew_tags::{HOURS, MARKED, STOPPED};
use model::instance::{Instance, InstanceState};
use model::mark::Mark;
use model::refusal::RefusalReason;
use model::rule::Rule;
use plan::InstanceAction;
use plan::report::{OutcomeKind, StepOutcome};
use ports::{CallError, Cloud, Ec2Write};

use super::{StepResource, root_cause, tag};

impl<C: Cloud> StepResource<'_, C, Instance> {
    pub(super) async fn write_instance(&self, action: &InstanceAction) -> Result<StepOutcome, CallError> {
        match action {
            InstanceAction::Announce(announcement) => self.announce(announcement, None).await,
            InstanceAction::Stop { mark, stopped } => self.stop(mark.as_ref(), stopped).await,
            InstanceAction::Terminate { mark } => self.terminate(mark.as_ref()).await,
            InstanceAction::Start => self.start().await,
        }
    }

    /// The labels come first, because the role may stop only what carries one of them, or the tag of its owner's moment.
    async fn stop(&self, mark: Option<&Mark>, stopped: &str) -> Result<StepOutcome, CallError> {
        let marked = mark.map(|mark| tag(MARKED, mark));
        let unlabelled = self.label_before(std::iter::once(tag(STOPPED, stopped)).chain(marked).collect()).await?;
        // IAM asks for that label in the morning. Only for its number of tags there is room then: the mark is gone.
        let starts_again =
            matches!(self.step.evidence.rule(), Rule::Hours | Rule::Idle) && self.seen.tags.contains_key(HOURS);
        if let Some(error) = unlabelled.as_ref().filter(|error| error.refusal() != Some(RefusalReason::TooManyTags))
            && starts_again
        {
            return Err(error.clone());
        }
        let is_marked = (mark.is_some() && unlabelled.is_none()) || self.seen.tags.contains_key(MARKED);
        let answer = self.call(Ec2Write::StopInstance(&self.target().resource)).await;
        self.accept_if_already_applied(answer, |fresh| {
            is_in(fresh, &[InstanceState::Stopping, InstanceState::Stopped])
        })
        .await
        .map_err(|error| root_cause(unlabelled, error))?;
        Ok(self.unmark_stopped(is_marked).await)
    }

    async fn terminate(&self, mark: Option<&Mark>) -> Result<StepOutcome, CallError> {
        let unlabelled = self.label_before(mark.map(|mark| tag(MARKED, mark)).into_iter().collect()).await?;
        let answer = self.call(Ec2Write::TerminateInstance(&self.target().resource)).await;
        self.accept_if_already_applied(answer, |fresh| {
            is_in(fresh, &[InstanceState::ShuttingDown, InstanceState::Terminated])
        })
        .await
        .map_err(|error| root_cause(unlabelled, error))?;
        Ok(StepOutcome::from_kind(OutcomeKind::Done))
    }

    /// IAM asks for the label, which somebody may have removed.
    async fn start(&self) -> Result<StepOutcome, CallError> {
        if let Some(stopped) = self.step.memory.record.carried_out.filter(|_| !self.seen.tags.contains_key(STOPPED)) {
            self.tag(vec![tag(STOPPED, &format!("{} {}", stopped.rule, stopped.at))]).await?;
        }
        let answer = self.call(Ec2Write::StartInstance(&self.target().resource)).await;
        self.accept_if_already_applied(answer, |fresh| is_in(fresh, &[InstanceState::Pending, InstanceState::Running]))
            .await?;
        Ok(StepOutcome::from_kind(OutcomeKind::Done))
    }
}

fn is_in(fresh: &Instance, states: &[InstanceState]) -> bool {
    states.contains(&fresh.state)
}
