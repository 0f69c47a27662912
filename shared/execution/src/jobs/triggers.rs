//! Triggers: documents of the inbox for what arrives in other buckets.
//!
//! The state of a trigger is written first, then the documents, and a crash in between repeats both: the queue brings an event back, and a trigger
//! that waits for quiet keeps its arrival until its document is written.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use jiff::SignedDuration;
use jobs::trigger::{TriggerListing, TriggerObject};
use jobs::{Arrival, JobId, SpecMistake, Trigger, backlog, is_index_search_due};
use model::digest::sha256_hex;
use model::id::TeamName;
use model::notification_log::HeadlineObject;
use ports::{JobCloud, StoreError};

use super::inbox::{check_keys, describe_mistakes, too_large};
use super::{JobRunDocuments, JobsRun};
use crate::AT_ONCE;

/// Age up to which a trigger's state may have something pending: `quiet` is at most 24 hours, and so is the wait for another day. The
/// remaining time is for runs that failed.
const PENDING_FOR: SignedDuration = SignedDuration::from_hours(27);

/// A state that other runs write at the same time is read again this often. At most three runs do.
const TRIES: u32 = 5;

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// Records what arrived, and puts documents into the inbox. Without arrivals it looks only at the triggers that may wait for quiet, and once
    /// an hour at all.
    ///
    /// # Errors
    /// If an arrival was not recorded, unless that is the trouble of one trigger: the team of that one is notified, and no other waits.
    pub(super) async fn run_triggers(&self, arrivals: &[Arrival]) -> Result<(), StoreError> {
        if self.setup.trigger_buckets.is_empty() && !self.setup.runs_schedules {
            return Ok(());
        }
        let is_of_all = !arrivals.is_empty() || is_index_search_due(self.run.now);
        let TriggerListing { triggers: mut listed, cut_off } = match self.run.store.list_triggers().await {
            Ok(listing) => listing,
            Err(error) => {
                self.gap(error.gap(self.run.cloud.home()));
                return if arrivals.is_empty() { Ok(()) } else { Err(error) };
            }
        };
        self.notify_of_cut_off(&cut_off);
        let may_wait = |one: &TriggerObject| {
            let is_recent = one.state_written_at.is_some_and(|at| self.now().duration_since(at) < PENDING_FOR);
            is_of_all || is_recent
        };
        let is_on = |one: &TriggerObject| {
            if one.is_schedule {
                self.setup.runs_schedules
            } else {
                !self.setup.trigger_buckets.is_empty() && may_wait(one)
            }
        };
        listed.retain(is_on);
        // A team with very many triggers does not delay those of the others.
        let mut by_team: BTreeMap<_, Vec<TriggerObject>> = BTreeMap::new();
        for one in listed {
            by_team.entry(one.team.clone()).or_default().push(one);
        }
        let listed = backlog::interleave(by_team.into_values().collect());
        let runs = stream::iter(&listed).map(|one| {
            let run = async { self.run_trigger(one, arrivals, is_of_all).await.err() };
            self.or_gap(&one.key, Box::pin(run))
        });
        let done: Vec<Option<StoreError>> = runs.buffered(AT_ONCE).collect().await;
        let failed: Vec<_> = listed.iter().zip(done).filter_map(|(one, done)| Some((one, done?))).collect();
        let is_trouble_of_all = failed.len() == listed.len();
        let mut recorded = Ok(());
        for (one, error) in failed {
            self.report_failure(one, &error);
            // Only what arrived is lost without its event; the next run looks at a schedule again.
            let concerns_arrivals = !arrivals.is_empty() && !one.is_schedule;
            if concerns_arrivals && (is_trouble_of_all || !error.is_of_one_object()) {
                recorded = Err(error);
            }
        }
        recorded
    }

    /// Notifies the teams of the mistakes in triggers that were just written.
    pub(super) async fn judge_written(&self, written: &[TriggerObject]) {
        let judged = stream::iter(written).map(|one| async move {
            let read = async {
                if one.is_schedule {
                    return self.read_legal_schedule(one).await.err();
                }
                self.read_legal_trigger(one).await.err()
            };
            (one, self.or_gap(&one.key, Box::pin(read)).await)
        });
        for (one, failed) in judged.buffered(AT_ONCE).collect::<Vec<_>>().await {
            if let Some(error) = failed {
                self.report_failure(one, &error);
            }
        }
    }

    async fn run_trigger(&self, one: &TriggerObject, arrivals: &[Arrival], is_of_all: bool) -> Result<(), StoreError> {
        self.check_time(one)?;
        if one.is_schedule {
            return self.run_schedule(one).await;
        }
        if !is_of_all {
            let (state, damage) = self.run.store.read_trigger_state(&one.key).await?;
            if !state.value.has_pending() && damage.is_none() {
                return Ok(());
            }
        }
        let Some(trigger) = self.read_legal_trigger(one).await? else { return Ok(()) };
        if !trigger.is_quiet() && !arrivals.iter().any(|arrival| trigger.concerns(arrival)) {
            return Ok(());
        }
        if let Some((team, digest)) = one.team.as_ref().zip(trigger.workdir())
            && self.run.store.workdir_uploaded_at(team, digest).await?.is_none()
        {
            let problem = "the bucket does not have the archive of its `workdir`, which it deletes after 180 days; submit the trigger \
                           again, with --workdir";
            self.notify_of_trouble(one, format!("workdir {digest}"), problem);
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

    /// `None` if there is none any more, or it has mistakes; its team is notified of those.
    async fn read_legal_trigger(&self, one: &TriggerObject) -> Result<Option<Trigger>, StoreError> {
        let Some(document) = self.run.store.read_trigger(&one.key).await? else { return Ok(None) };
        let digest = document.as_deref().map(sha256_hex).unwrap_or_default();
        match self.judge_trigger(one, document) {
            Ok(trigger) => Ok(Some(trigger)),
            Err(mistakes) => {
                let problem = describe_mistakes(&mistakes);
                self.notify_of_trouble(one, digest, &format!("{problem}. Correct it and upload it again"));
                Ok(None)
            }
        }
    }

    fn judge_trigger(
        &self,
        one: &TriggerObject,
        document: Result<Vec<u8>, usize>,
    ) -> Result<Trigger, Vec<SpecMistake>> {
        let bytes = document.map_err(|bytes| vec![too_large(bytes)])?;
        let Some(team) = &one.team else {
            let problem =
                "it is in no team's folder; put it at triggers/<team>/<name>.toml, the team spelt as in the inbox";
            return Err(vec![SpecMistake::for_document(problem)]);
        };
        let bucket = (self.run.store.bucket_name(), self.run.cloud.home());
        let (trigger, _) = Trigger::read(&bytes, &one.name, Some(team), self.config, bucket, self.now())?;
        // The keys of its state and of its documents are shorter than those of its jobs.
        check_keys(&JobId { team: team.clone(), job: one.name.clone() })?;
        if !self.setup.trigger_buckets.iter().any(|name| name == trigger.bucket()) {
            return Err(vec![SpecMistake::for_document(format!(
                "no event comes from s3://{}: an administrator adds it to the parameter TriggerBuckets of the stack",
                trigger.bucket()
            ))]);
        }
        Ok(trigger)
    }

    async fn advance(&self, one: &TriggerObject, trigger: &Trigger, arrivals: &[Arrival]) -> Result<(), StoreError> {
        let Some(team) = &one.team else { return Ok(()) };
        let (store, now) = (self.run.store, self.now());
        let (read, damage) = store.read_trigger_state(&one.key).await?;
        let (state, documents) = trigger.next(&read.value, arrivals, now);
        let etag = if state == read.value && damage.is_none() {
            read.etag
        } else {
            store.write_trigger_state(&one.key, &state, read.etag.as_deref()).await?
        };
        if let Some(damage) = damage {
            self.notify_of_lost_state(one, &damage);
        }
        for document in &documents {
            self.check_time(one)?;
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

    /// # Errors
    /// If it is too late in this run: what is left is repeated, as after any failure.
    pub(super) fn check_time(&self, one: &TriggerObject) -> Result<(), StoreError> {
        let address = || format!("s3://{}/{}", self.run.store.bucket_name(), one.key);
        let late = || StoreError::unreached("s3:PutObject", address(), "the run had no time left for its jobs");
        self.time_left().map(drop).ok_or_else(late)
    }

    fn report_failure(&self, one: &TriggerObject, error: &StoreError) {
        if error.is_of_one_object() {
            self.notify_of_trouble(one, "unread".to_owned(), &error.to_string());
        } else {
            self.gap(error.gap(self.run.cloud.home()));
        }
    }

    /// `what`: another one is notified at once, the same once a day.
    pub(super) fn notify_of_trouble(&self, one: &TriggerObject, what: String, problem: &str) {
        let address = format!("s3://{}/{}", self.run.store.bucket_name(), one.key);
        let text = if one.is_schedule {
            format!("The schedule {address} makes no jobs: {problem}. Moments until then make no job.")
        } else {
            format!("The trigger {address} makes no jobs: {problem}. What arrives until then may get no job.")
        };
        self.notify_of_maker(one, ("trigger", what), ("Curfew rejects {}", text));
    }

    fn notify_of_lost_state(&self, one: &TriggerObject, damage: &StoreError) {
        tracing::warn!(trigger = one.key, "its state begins anew: {damage}");
        let text = format!(
            "The state of the trigger s3://{}/{} could not be understood, so Curfew began it anew: the jobs of the day are counted anew, \
             and what waited for quiet is forgotten. If something did, write one more object below its `from`. Only Curfew writes \
             such a state; find out who else did.",
            self.run.store.bucket_name(),
            one.key,
        );
        let sentence = "Curfew began the state of {} anew";
        self.notify_of_maker(one, ("state", String::new()), (sentence, text));
    }

    fn notify_of_cut_off(&self, folders: &[(Option<TeamName>, String)]) {
        for (team, folder) in folders {
            let text = format!(
                "s3://{}/{folder} has more than 1,000 objects, and Curfew reads the first 1,000: the triggers after these make no \
                 jobs. Delete what is not needed.",
                self.run.store.bucket_name(),
            );
            let sentence = "Curfew leaves out triggers of {}";
            self.notify(self.daily_notification(
                team.as_ref(),
                (HeadlineObject::Folder, folder),
                ("triggers", String::new()),
                (sentence, text),
            ));
        }
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
        let sentence = "{} made as many jobs today as allowed";
        self.notify_of_maker(one, ("max_per_day", String::new()), (sentence, text));
    }

    /// Notifies the team of a trigger or a schedule, once a day of each topic.
    pub(super) fn notify_of_maker(
        &self,
        one: &TriggerObject,
        (topic, what): (&str, String),
        words: (&'static str, String),
    ) {
        let object = if one.is_schedule { HeadlineObject::Schedule } else { HeadlineObject::Trigger };
        self.notify(self.daily_notification(one.team.as_ref(), (object, &one.key), (topic, what), words));
    }
}
