//! Carrying out one step: read the resource again, ask whether the reason still stands, then write.
//!
//! One call is about one instance: a batch with one bad id, or one protected instance, would shield the others (EC2 API
//! reference, `TerminateInstances`).

use std::fmt::Display;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::Tag;
use domain::instance::{Instance, State};
use domain::mode::Mode;
use domain::plan::{Action, NoLonger, Step, Target, still_holds};
use domain::report::{Outcome, OutcomeKind};
use domain::vocabulary::{MARKED, STOPPED};

use crate::aws::Aws;
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::{CallError, CallErrorKind};

/// Carries one step out. Whether it is held, or too late, is for the caller to say.
pub async fn carry_out(aws: &Aws, step: &Step) -> Outcome {
    let ec2 = aws.ec2(&step.target.region);
    // What is only observed, and was told, is said of every run anew: nothing hangs on a second look.
    let repeats_itself = step.mode == Mode::Observe && step.told_before;
    if step.action != Action::Notify && !repeats_itself {
        let fresh = match read_again(&ec2, &step.target).await {
            Ok(fresh) => fresh,
            Err(error) => return Outcome::with(OutcomeKind::Failed, error.to_string()),
        };
        match still_holds(step, &fresh) {
            Ok(()) => {}
            Err(NoLonger::AlreadyGone) => return Outcome::of(OutcomeKind::AlreadyGone),
            Err(NoLonger::Changed) => return Outcome::of(OutcomeKind::Changed),
        }
    }
    match step.mode {
        Mode::Observe => Outcome::of(OutcomeKind::Observed),
        Mode::Enforce => write(&ec2, step).await,
    }
}

async fn read_again(ec2: &Client, target: &Target) -> Result<Instance, CallError> {
    let call = ec2.describe_instances().instance_ids(target.resource.as_str());
    let page = describe::page(call, &target.region).await?;
    page.described.into_iter().next().map(|one| one.instance).ok_or_else(|| CallError {
        call: DESCRIBE_INSTANCES,
        region: target.region.clone(),
        kind: CallErrorKind::NotFound,
        message: format!("EC2 answered without {}", target.resource),
    })
}

/// The only place that changes an instance.
async fn write(ec2: &Client, step: &Step) -> Outcome {
    let instance = Writer { ec2, target: &step.target };
    let written = match &step.action {
        Action::Notify => Ok(Outcome::of(OutcomeKind::Done)),
        Action::Mark(mark) => instance.tag(vec![tag(MARKED, mark)]).await.map(|()| Outcome::of(OutcomeKind::Done)),
        Action::Unmark { remaining, clear_stopped } => {
            let marked = remaining.as_ref().map(|mark| tag(MARKED, mark));
            let gone = [(MARKED, marked.is_none()), (STOPPED, *clear_stopped)];
            let gone = gone.into_iter().filter(|(key, goes)| *goes && step.seen.tags.contains_key(*key));
            instance.retag(marked, gone.map(|(key, _)| key).collect()).await
        }
        Action::Stop { mark, stopped } => {
            let marked = mark.as_ref().map(|mark| tag(MARKED, mark));
            let is_marked = marked.is_some() || step.seen.tags.contains_key(MARKED);
            instance.stop(std::iter::once(tag(STOPPED, stopped)).chain(marked).collect(), is_marked).await
        }
        Action::Terminate { mark } => instance.terminate(mark.as_ref().map(|mark| tag(MARKED, mark))).await,
        Action::Start => instance.start().await,
    };
    written.unwrap_or_else(|error| outcome_of(&error, &step.action))
}

fn outcome_of(error: &CallError, action: &Action) -> Outcome {
    match error.kind {
        CallErrorKind::WrongState => Outcome::with(OutcomeKind::Changed, error.to_string()),
        CallErrorKind::Capacity if *action == Action::Start => {
            let said = format!("{} failed in {}: {}", error.call, error.region, error.message);
            Outcome::with(OutcomeKind::Failed, format!("{said}; every run within its hours tries again"))
        }
        _ => Outcome::with(OutcomeKind::Failed, error.to_string()),
    }
}

fn tag(key: &str, value: &impl Display) -> Tag {
    Tag::builder().key(key).value(value.to_string()).build()
}

/// Writes to one instance.
struct Writer<'a> {
    ec2: &'a Client,
    target: &'a Target,
}

impl Writer<'_> {
    async fn tag(&self, tags: Vec<Tag>) -> Result<(), CallError> {
        let call = self.ec2.create_tags().resources(self.target.resource.as_str()).set_tags(Some(tags));
        let answer = call.send().await;
        answer.map(drop).map_err(|error| CallError::of("ec2:CreateTags", &self.target.region, &error))
    }

    /// Removes these keys, whatever their values. Without any key `DeleteTags` would remove all tags (EC2 API reference),
    /// so then it is not called.
    async fn untag(&self, keys: Vec<&str>) -> Result<(), CallError> {
        if keys.is_empty() {
            return Ok(());
        }
        let tags = keys.iter().map(|key| Tag::builder().key(*key).build()).collect();
        let call = self.ec2.delete_tags().resources(self.target.resource.as_str()).set_tags(Some(tags));
        let answer = call.send().await;
        let answer = answer.map(drop).map_err(|error| CallError::of("ec2:DeleteTags", &self.target.region, &error));
        self.or_so_it_is(answer, |fresh| keys.iter().all(|key| !fresh.tags.contains_key(*key))).await
    }

    async fn retag(&self, kept: Option<Tag>, gone: Vec<&str>) -> Result<Outcome, CallError> {
        if let Some(kept) = kept {
            self.tag(vec![kept]).await?;
        }
        self.untag(gone).await?;
        Ok(Outcome::of(OutcomeKind::Done))
    }

    /// The tags come first, so that a run that is cut off leaves a trace, and because the role may stop only what carries
    /// one of them.
    async fn stop(&self, tags: Vec<Tag>, is_marked: bool) -> Result<Outcome, CallError> {
        self.tag(tags).await?;
        let answer = self.ec2.stop_instances().instance_ids(self.target.resource.as_str()).send().await;
        let answer = answer.map(drop).map_err(|error| CallError::of("ec2:StopInstances", &self.target.region, &error));
        self.or_so_it_is(answer, |fresh| matches!(fresh.state, State::Stopping | State::Stopped)).await?;
        match if is_marked { self.untag(vec![MARKED]).await } else { Ok(()) } {
            Ok(()) => Ok(Outcome::of(OutcomeKind::Done)),
            // Once the instance runs again its mark is of an earlier life, and the next run removes it.
            Err(error) => Ok(Outcome::with(OutcomeKind::Done, format!("stopped, but the mark stayed: {error}"))),
        }
    }

    async fn terminate(&self, marked: Option<Tag>) -> Result<Outcome, CallError> {
        if let Some(marked) = marked {
            self.tag(vec![marked]).await?;
        }
        let answer = self.ec2.terminate_instances().instance_ids(self.target.resource.as_str()).send().await;
        let answer =
            answer.map(drop).map_err(|error| CallError::of("ec2:TerminateInstances", &self.target.region, &error));
        self.or_so_it_is(answer, |fresh| matches!(fresh.state, State::ShuttingDown | State::Terminated)).await?;
        Ok(Outcome::of(OutcomeKind::Done))
    }

    async fn start(&self) -> Result<Outcome, CallError> {
        let answer = self.ec2.start_instances().instance_ids(self.target.resource.as_str()).send().await;
        let answer = answer.map(drop).map_err(|error| CallError::of("ec2:StartInstances", &self.target.region, &error));
        self.or_so_it_is(answer, |fresh| matches!(fresh.state, State::Pending | State::Running)).await?;
        Ok(Outcome::of(OutcomeKind::Done))
    }

    /// What was done and not answered is done: no later run would tell of it.
    async fn or_so_it_is(
        &self,
        answer: Result<(), CallError>,
        is_so: impl Fn(&Instance) -> bool,
    ) -> Result<(), CallError> {
        let error = match answer {
            Err(error) if error.kind == CallErrorKind::Unanswered => error,
            answer => return answer,
        };
        match read_again(self.ec2, self.target).await {
            Ok(fresh) if is_so(&fresh) => Ok(()),
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
