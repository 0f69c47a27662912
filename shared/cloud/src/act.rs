//! Carrying out one step: read the resource again, ask whether the reason still stands, then write.
//!
//! One call is about one resource: a batch with one bad id, or one protected instance, would shield the others (EC2 API
//! reference, `TerminateInstances`).

mod instance;
mod snapshot;
mod volume;

use std::fmt::Display;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::Tag;
use domain::mode::Mode;
use domain::plan::{Action, NoLonger, Seen, Step, Target, still_holds};
use domain::report::{Outcome, OutcomeKind};
use domain::vocabulary::MARKED;
use jiff::Timestamp;

use crate::aws::Aws;
use crate::describe;
use crate::error::{CallError, CallErrorKind};

/// Carries one step out. Whether it is held, or too late, is for the caller to say.
pub async fn carry_out(aws: &Aws, step: &Step) -> Outcome {
    let ec2 = aws.ec2(&step.target.region);
    let resource = Resource { ec2: &ec2, step };
    // What is only observed, and was told, is said of every run anew: nothing hangs on a second look.
    let repeats_itself = step.mode == Mode::Observe && step.told_before;
    if !matches!(step.action, Action::Notify | Action::Hold)
        && !repeats_itself
        && let Err(outcome) = resource.still_holds().await
    {
        return outcome;
    }
    match step.mode {
        Mode::Observe => Outcome::of(OutcomeKind::Observed),
        Mode::Enforce => resource.write().await,
    }
}

/// What a step is about, with what to read and write it by.
#[derive(Clone, Copy)]
struct Resource<'a> {
    ec2: &'a Client,
    step: &'a Step,
}

impl Resource<'_> {
    fn target(&self) -> &Target {
        &self.step.target
    }

    /// The resource as it is now.
    async fn read_again(&self) -> Result<Seen, CallError> {
        let Target { region, resource, .. } = self.target();
        Ok(match &self.step.seen {
            Seen::Instance(_) => Seen::Instance(self.instance().await?),
            Seen::Volume(_) => Seen::Volume(describe::volume(self.ec2, region, resource).await?),
            Seen::Snapshot(_) => Seen::Snapshot(describe::snapshot(self.ec2, region, resource).await?),
            Seen::Budget { .. } => self.step.seen.clone(),
        })
    }

    /// Whether the step is to be carried out, by the resource as it is now, and by what its end must wait for.
    async fn still_holds(&self) -> Result<(), Outcome> {
        let fresh = match self.read_again().await {
            Ok(fresh) => fresh,
            Err(error) if is_gone(&error, self.step) => return Err(Outcome::of(OutcomeKind::AlreadyGone)),
            Err(error) => return Err(Outcome::with(OutcomeKind::Failed, error.to_string())),
        };
        match still_holds(self.step, &fresh) {
            Ok(()) => {}
            Err(NoLonger::AlreadyGone) => return Err(Outcome::of(OutcomeKind::AlreadyGone)),
            Err(NoLonger::Changed) => return Err(Outcome::of(OutcomeKind::Changed)),
        }
        match (&self.step.seen, &self.step.action) {
            (Seen::Volume(volume), Action::Delete { safety: Some(safety), .. }) => self.is_safe(volume, safety).await,
            (Seen::Snapshot(snapshot), _) => self.is_outlived(snapshot).await,
            _ => Ok(()),
        }
    }

    /// The only place that changes a resource.
    async fn write(&self) -> Outcome {
        let done = Ok(Outcome::of(OutcomeKind::Done));
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
                Seen::Snapshot(_) => self.delete_snapshot().await,
                Seen::Volume(_) | Seen::Instance(_) | Seen::Budget { .. } => self.delete_volume(expiring, *at).await,
            },
        };
        written.unwrap_or_else(|error| outcome_of(&error, self.step))
    }

    async fn tag(&self, tags: Vec<Tag>) -> Result<Outcome, CallError> {
        let Target { region, resource, .. } = self.target();
        let call = self.ec2.create_tags().resources(resource.as_str()).set_tags(Some(tags));
        let answer = call.send().await;
        answer.map(|_| Outcome::of(OutcomeKind::Done)).map_err(|error| CallError::of("ec2:CreateTags", region, &error))
    }

    /// Once it is dated, no later run tells of it.
    async fn date(&self, key: &str, at: Timestamp) -> Result<Outcome, CallError> {
        let answer = self.tag(vec![tag(key, &at)]).await.map(drop);
        self.or_so_it_is(answer, |fresh| fresh.tags().get(key) == Some(&at.to_string())).await?;
        Ok(Outcome::of(OutcomeKind::Done))
    }

    /// Removes these keys, whatever their values. Without any key `DeleteTags` would remove all tags (EC2 API reference),
    /// so then it is not called.
    async fn untag(&self, keys: Vec<&str>) -> Result<(), CallError> {
        if keys.is_empty() {
            return Ok(());
        }
        let Target { region, resource, .. } = self.target();
        let tags = keys.iter().map(|key| Tag::builder().key(*key).build()).collect();
        let call = self.ec2.delete_tags().resources(resource.as_str()).set_tags(Some(tags));
        let answer = call.send().await.map(drop).map_err(|error| CallError::of("ec2:DeleteTags", region, &error));
        self.or_so_it_is(answer, |fresh| keys.iter().all(|key| !fresh.tags().contains_key(*key))).await
    }

    async fn retag(&self, kept: Option<Tag>, gone: Vec<&str>) -> Result<Outcome, CallError> {
        if let Some(kept) = kept {
            self.tag(vec![kept]).await?;
        }
        self.untag(gone).await?;
        Ok(Outcome::of(OutcomeKind::Done))
    }

    /// What was done and not answered is done: no later run would tell of it.
    async fn or_so_it_is(&self, answer: Result<(), CallError>, is_so: impl Fn(&Seen) -> bool) -> Result<(), CallError> {
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
    async fn or_it_is_gone(&self, answer: Result<(), CallError>) -> Result<(), CallError> {
        use CallErrorKind::{NotFound, Throttled, Unanswered, WrongState};
        let error = match answer {
            Err(error) if matches!(error.kind, NotFound | Unanswered | Throttled | WrongState) => error,
            answer => return answer,
        };
        match self.read_again().await {
            Err(gone) if gone.kind == NotFound => Ok(()),
            Ok(fresh) if still_holds(self.step, &fresh) == Err(NoLonger::AlreadyGone) => Ok(()),
            _ => Err(error),
        }
    }
}

/// An instance that EC2 does not know may be running all the same; a volume was listed a moment ago.
fn is_gone(error: &CallError, step: &Step) -> bool {
    error.kind == CallErrorKind::NotFound && step.seen.instance().is_none()
}

fn outcome_of(error: &CallError, step: &Step) -> Outcome {
    match error.kind {
        _ if is_gone(error, step) => Outcome::of(OutcomeKind::AlreadyGone),
        CallErrorKind::WrongState => Outcome::with(OutcomeKind::Changed, error.to_string()),
        // Somebody has attached it since the look.
        CallErrorKind::InUse if matches!(step.seen, Seen::Volume(_)) => {
            Outcome::with(OutcomeKind::Changed, error.to_string())
        }
        CallErrorKind::Capacity if step.action == Action::Start => {
            let said = format!("{} failed in {}: {}", error.call, error.region, error.message);
            Outcome::with(OutcomeKind::Failed, format!("{said}; every run within its hours tries again"))
        }
        _ => Outcome::with(OutcomeKind::Failed, error.to_string()),
    }
}

fn tag(key: &str, value: &(impl Display + ?Sized)) -> Tag {
    Tag::builder().key(key).value(value.to_string()).build()
}

#[cfg(test)]
mod tests;
