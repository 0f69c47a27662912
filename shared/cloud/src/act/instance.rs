//! Stopping, terminating and starting an instance.

use domain::instance::{Instance, State};
use domain::mark::Mark;
use domain::plan::{Seen, Target};
use domain::report::{Outcome, OutcomeKind};
use domain::vocabulary::{MARKED, STOPPED};

use super::{Resource, tag};
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::{CallError, CallErrorKind};

impl Resource<'_> {
    pub(super) async fn instance(&self) -> Result<Instance, CallError> {
        let Target { region, resource, .. } = self.target();
        let call = self.ec2.describe_instances().instance_ids(resource.as_str());
        let page = describe::page(call, region).await?;
        page.described.into_iter().next().map(|one| one.instance).ok_or_else(|| CallError {
            call: DESCRIBE_INSTANCES,
            region: region.clone(),
            kind: CallErrorKind::NotFound,
            message: format!("EC2 answered without {resource}"),
        })
    }

    /// The tags come first, so that a run that is cut off leaves a trace, and because the role may stop only what carries
    /// one of them.
    pub(super) async fn stop(&self, mark: Option<&Mark>, stopped: &str) -> Result<Outcome, CallError> {
        let Target { region, resource, .. } = self.target();
        let is_marked = mark.is_some() || self.step.seen.tags().contains_key(MARKED);
        let marked = mark.map(|mark| tag(MARKED, mark));
        self.tag(std::iter::once(tag(STOPPED, stopped)).chain(marked).collect()).await?;
        let answer = self.ec2.stop_instances().instance_ids(resource.as_str()).send().await;
        let answer = answer.map(drop).map_err(|error| CallError::of("ec2:StopInstances", region, &error));
        self.or_so_it_is(answer, |fresh| is_in(fresh, &[State::Stopping, State::Stopped])).await?;
        match if is_marked { self.untag(vec![MARKED]).await } else { Ok(()) } {
            Ok(()) => Ok(Outcome::of(OutcomeKind::Done)),
            // Once the instance runs again its mark is of an earlier life, and the next run removes it.
            Err(error) => Ok(Outcome::with(OutcomeKind::Done, format!("stopped, but the mark stayed: {error}"))),
        }
    }

    pub(super) async fn terminate(&self, mark: Option<&Mark>) -> Result<Outcome, CallError> {
        let Target { region, resource, .. } = self.target();
        if let Some(mark) = mark {
            self.tag(vec![tag(MARKED, mark)]).await?;
        }
        let answer = self.ec2.terminate_instances().instance_ids(resource.as_str()).send().await;
        let answer = answer.map(drop).map_err(|error| CallError::of("ec2:TerminateInstances", region, &error));
        self.or_so_it_is(answer, |fresh| is_in(fresh, &[State::ShuttingDown, State::Terminated])).await?;
        Ok(Outcome::of(OutcomeKind::Done))
    }

    pub(super) async fn start(&self) -> Result<Outcome, CallError> {
        let Target { region, resource, .. } = self.target();
        let answer = self.ec2.start_instances().instance_ids(resource.as_str()).send().await;
        let answer = answer.map(drop).map_err(|error| CallError::of("ec2:StartInstances", region, &error));
        self.or_so_it_is(answer, |fresh| is_in(fresh, &[State::Pending, State::Running])).await?;
        Ok(Outcome::of(OutcomeKind::Done))
    }
}

fn is_in(fresh: &Seen, states: &[State]) -> bool {
    fresh.instance().is_some_and(|instance| states.contains(&instance.state))
}
