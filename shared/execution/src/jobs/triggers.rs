//! Triggers: documents of the inbox for what arrives in other buckets.
//!
//! The state of a trigger is written first, then the documents, and a crash in between repeats both: the queue brings an event back, and a trigger
//! that waits for quiet keeps its arrival until its document is written.

use futures::{StreamExt, stream};
use jiff::SignedDuration;
use jobs::{Arrival, SpecMistake, Trigger, is_sweep};
use store::{StoreError, TriggerObject};

use super::JobsRun;
use super::inbox::{describe_mistakes, too_large};
use crate::AT_ONCE;

/// How long a state may have something pending: `quiet` is 24 hours at most, and so is the wait for another day. The rest is for runs that failed.
const PENDING_FOR: SignedDuration = SignedDuration::from_hours(27);

/// A state that other runs write at the same time is read again this often. At most three runs do.
const TRIES: u32 = 5;

impl JobsRun<'_> {
    /// Records what arrived, and puts documents into the inbox. Without arrivals it looks only at the triggers that may wait for quiet, and once
    /// an hour at all.
    ///
    /// # Errors
    /// If an arrival was not recorded.
    pub(super) async fn run_triggers(&self, arrivals: &[Arrival]) -> Result<(), StoreError> {
        if self.trigger_buckets.is_empty() {
            return Ok(());
        }
        let is_of_all = !arrivals.is_empty() || is_sweep(self.now());
        let mut listed = match self.run.store.list_triggers().await {
            Ok(listed) => listed,
            Err(error) => {
                self.gap(error.gap(self.run.cloud.home()));
                return if arrivals.is_empty() { Ok(()) } else { Err(error) };
            }
        };
        let may_wait =
            |one: &TriggerObject| one.state_written_at.is_some_and(|at| self.now().duration_since(at) < PENDING_FOR);
        listed.retain(|one| is_of_all || may_wait(one));
        let runs = stream::iter(&listed).map(|one| self.run_trigger(one, arrivals, is_of_all));
        let done: Vec<Result<(), StoreError>> = runs.buffered(AT_ONCE).collect().await;
        let mut recorded = Ok(());
        for error in done.into_iter().filter_map(Result::err) {
            self.gap(error.gap(self.run.cloud.home()));
            if !arrivals.is_empty() {
                recorded = Err(error);
            }
        }
        recorded
    }

    async fn run_trigger(&self, one: &TriggerObject, arrivals: &[Arrival], is_of_all: bool) -> Result<(), StoreError> {
        let store = self.run.store;
        if !is_of_all && !store.read_trigger_state(&one.key).await?.value.has_pending() {
            return Ok(());
        }
        let Some(document) = store.read_trigger(&one.key).await? else { return Ok(()) };
        let trigger = match self.judge_trigger(one, document) {
            Ok(trigger) => trigger,
            Err(mistakes) => {
                self.notify_of_mistakes(one, &mistakes);
                return Ok(());
            }
        };
        if !trigger.is_quiet() && !arrivals.iter().any(|arrival| trigger.concerns(arrival)) {
            return Ok(());
        }
        let mut tries = 1..TRIES;
        loop {
            match self.advance(one, &trigger, arrivals).await {
                Err(StoreError::Lost { .. }) if tries.next().is_some() => {}
                done => return done,
            }
        }
    }

    fn judge_trigger(
        &self,
        one: &TriggerObject,
        document: Result<Vec<u8>, usize>,
    ) -> Result<Trigger, Vec<SpecMistake>> {
        let whole = |problem: String| vec![SpecMistake { line: 0, key: String::new(), problem }];
        let bytes = document.map_err(|bytes| vec![too_large(bytes)])?;
        if one.team.is_none() {
            let problem =
                "it is in no team's folder; put it at triggers/<team>/<name>.toml, the team spelt as in the inbox";
            return Err(whole(problem.to_owned()));
        }
        let bucket = (self.run.store.bucket_name(), self.run.cloud.home());
        let (trigger, _) = Trigger::read(&bytes, &one.name, one.team.as_ref(), self.config, bucket, self.now())?;
        if !self.trigger_buckets.iter().any(|name| name == trigger.bucket()) {
            return Err(whole(format!(
                "no event comes from s3://{}: an administrator adds it to the parameter TriggerBuckets of the stack",
                trigger.bucket()
            )));
        }
        Ok(trigger)
    }

    async fn advance(&self, one: &TriggerObject, trigger: &Trigger, arrivals: &[Arrival]) -> Result<(), StoreError> {
        let Some(team) = &one.team else { return Ok(()) };
        let (store, now) = (self.run.store, self.now());
        let read = store.read_trigger_state(&one.key).await?;
        let (state, documents) = trigger.next(&read.value, arrivals, now);
        let etag = if state == read.value {
            read.etag
        } else {
            store.write_trigger_state(&one.key, &state, read.etag.as_deref()).await?
        };
        for document in &documents {
            store.submit_triggered(team, document).await?;
            tracing::info!(trigger = one.key, document = document.name, "submitted for what arrived");
        }
        let settled = state.settled(&documents);
        if settled != state {
            store.write_trigger_state(&one.key, &settled, etag.as_deref()).await?;
        }
        if state.refused_on(now) > 0 {
            self.notify_of_refused(one, trigger, state.refused_on(now));
        }
        Ok(())
    }

    fn notify_of_mistakes(&self, one: &TriggerObject, mistakes: &[SpecMistake]) {
        let text = format!(
            "The trigger s3://{}/{} makes no jobs: {}. Correct it and upload it again.",
            self.run.store.bucket_name(),
            one.key,
            describe_mistakes(mistakes)
        );
        let sentence = "Curfew rejects the trigger {}";
        self.notify(self.daily_notification(one.team.as_ref(), &one.key, "trigger", (sentence, text)));
    }

    fn notify_of_refused(&self, one: &TriggerObject, trigger: &Trigger, refused: u64) {
        let what = if trigger.is_quiet() {
            "what arrived since waits until midnight UTC".to_owned()
        } else {
            format!("{refused} further arrivals got no job so far, and get none")
        };
        let text = format!(
            "The trigger s3://{}/{} has made {} jobs today, as many as its `max_per_day` allows; {what}. If that is too few, raise \
             `max_per_day`.",
            self.run.store.bucket_name(),
            one.key,
            trigger.max_per_day()
        );
        let sentence = "The trigger {} has made its jobs of the day";
        self.notify(self.daily_notification(one.team.as_ref(), &one.key, "max_per_day", (sentence, text)));
    }
}
