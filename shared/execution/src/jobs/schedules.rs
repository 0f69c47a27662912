//! Schedules: documents of the inbox at the moments of a cron expression.
//!
//! The minute's run looks at each. It writes the state first, then the document, then the state again; a run that is cut off in between is
//! repeated by the next, and the same moment has the same document.

use jiff::Timestamp;
use jobs::inbox::submission_key;
use jobs::schedule::{MissReason, MissedMoments, ScheduleFacts, SkippedMoment};
use jobs::trigger::TriggerObject;
use jobs::{JobId, JobName, Schedule, ScheduleState, SpecMistake};
use model::digest::sha256_hex;
use model::id::TeamName;
use ports::{JobCloud, StoreError};

use super::inbox::{check_keys, describe_mistakes, too_large};
use super::{JobRunDocuments, JobsRun};

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    pub(super) async fn run_schedule(&self, one: &TriggerObject) -> Result<(), StoreError> {
        let Some(schedule) = self.read_legal_schedule(one).await? else { return Ok(()) };
        let Some((team, written_at)) = one.team.as_ref().zip(one.written_at) else { return Ok(()) };
        if !schedule.is_state_needed(one.state_written_at, self.now()) {
            return Ok(());
        }
        match Box::pin(self.advance_schedule(one, team, written_at, &schedule)).await {
            // Another run has decided about the same moment.
            Err(StoreError::Lost { .. }) => Ok(()),
            done => done,
        }
    }

    /// `None` if there is none any more, or it has mistakes; its team is notified of those.
    pub(super) async fn read_legal_schedule(&self, one: &TriggerObject) -> Result<Option<Schedule>, StoreError> {
        let Some(document) = self.run.store.read_trigger(&one.key).await? else { return Ok(None) };
        let digest = document.as_deref().map(sha256_hex).unwrap_or_default();
        match self.judge_schedule(one, document) {
            Ok(schedule) => Ok(Some(schedule)),
            Err(mistakes) => {
                let problem = describe_mistakes(&mistakes);
                self.notify_of_trouble(one, digest, &format!("{problem}. Correct it and add it again"));
                Ok(None)
            }
        }
    }

    fn judge_schedule(
        &self,
        one: &TriggerObject,
        document: Result<Vec<u8>, usize>,
    ) -> Result<Schedule, Vec<SpecMistake>> {
        let bytes = document.map_err(|bytes| vec![too_large(bytes)])?;
        let Some(team) = &one.team else {
            let problem = "it is in no team's folder; put it at triggers/<team>/schedules/<name>.toml, the team spelt as in \
                           the inbox";
            return Err(vec![SpecMistake::for_document(problem)]);
        };
        let home = self.run.cloud.home();
        let (schedule, _) = Schedule::read(&bytes, &one.name, Some(team), self.config, home, self.now())?;
        // The keys of its state and of its documents are shorter than those of its jobs.
        check_keys(&JobId { team: team.clone(), job: one.name.clone() })?;
        if !self.setup.runs_schedules {
            let problem = "schedules are off: an administrator sets the parameter Schedules of the stack to yes";
            return Err(vec![SpecMistake::for_document(problem)]);
        }
        Ok(schedule)
    }

    async fn advance_schedule(
        &self,
        one: &TriggerObject,
        team: &TeamName,
        written_at: Timestamp,
        schedule: &Schedule,
    ) -> Result<(), StoreError> {
        let (store, now) = (self.run.store, self.now());
        let (read, damage) = store.read_schedule_state(&one.key).await?;
        let mut before = read.value;
        let (mut facts, mut uploaded_at) = (ScheduleFacts::default(), None);
        if schedule.is_due(&before, written_at, now) {
            before.unanswered = self.still_unanswered(team, schedule, &before).await?;
            let active = store.unfinished_named(team, schedule.job()).await?;
            facts.unfinished = schedule.count_unfinished(&active).saturating_add(before.unanswered.len());
            if let Some(digest) = schedule.workdir() {
                uploaded_at = store.workdir_uploaded_at(team, digest).await?;
                facts.is_workdir_gone = uploaded_at.is_none();
            }
        }
        let decided = schedule.next(&before, written_at, facts, now);
        let etag = if decided.state == before && damage.is_none() {
            read.etag
        } else {
            store.write_schedule_state(&one.key, &decided.state, read.etag.as_deref()).await?
        };
        if let Some(damage) = damage {
            tracing::warn!(schedule = one.key, "its state begins anew: {damage}");
        }
        if let Some(document) = &decided.document {
            self.check_time(one)?;
            store.submit_triggered(team, document).await?;
            tracing::info!(schedule = one.key, document = document.name, "submitted by its schedule");
            store.write_schedule_state(&one.key, &decided.state.settled(), etag.as_deref()).await?;
        }
        if let Some(skipped) = decided.skipped {
            self.notify_of_skipped(one, schedule, skipped);
        }
        if let Some(missed) = decided.missed {
            self.notify_of_missed(one, missed);
        }
        if let Some(at) = uploaded_at.and_then(|uploaded_at| schedule.workdir_expires_soon(uploaded_at, now)) {
            self.notify_of_expiry(one, at);
        }
        Ok(())
    }

    /// The moments whose documents wait in the inbox: a job may still come of each.
    async fn still_unanswered(
        &self,
        team: &TeamName,
        schedule: &Schedule,
        state: &ScheduleState,
    ) -> Result<Vec<Timestamp>, StoreError> {
        let mut unanswered = Vec::new();
        for at in &state.unanswered {
            let Ok(name) = JobName::read(&schedule.document_name(*at)) else { continue };
            if self.run.store.awaits_answer(&submission_key(team, &name)).await? {
                unanswered.push(*at);
            }
        }
        Ok(unanswered)
    }

    fn notify_of_skipped(
        &self,
        one: &TriggerObject,
        schedule: &Schedule,
        SkippedMoment { at, unfinished }: SkippedMoment,
    ) {
        let jobs = if unfinished == 1 { "1 job of it is".to_owned() } else { format!("{unfinished} jobs of it are") };
        let text = format!(
            "The schedule s3://{}/{} made no job at {at}: {jobs} unfinished, and its `max_at_once` is {}. Its next \
             moment is not affected. If that is too few, raise `max_at_once`.",
            self.run.store.bucket_name(),
            one.key,
            schedule.max_at_once(),
        );
        let sentence = "{} skipped a moment";
        self.notify_of_maker(one, ("skipped", String::new()), (sentence, text));
    }

    fn notify_of_missed(&self, one: &TriggerObject, MissedMoments { first, last, count, reason }: MissedMoments) {
        let moments =
            if count == 1 { format!("a moment, {last}") } else { format!("{count} moments, {first} to {last}") };
        let (why, what) = match reason {
            MissReason::Late => (
                "no run of run-jobs looked in time. These make no job later. If you need one, submit it by hand.",
                last.to_string(),
            ),
            MissReason::WorkdirGone => (
                "the bucket does not have the archive of its `workdir`, which it deletes after 180 days. No moment makes a job until you add \
                 the schedule again: curfew schedule add --workdir.",
                "workdir".to_owned(),
            ),
        };
        let text = format!("The schedule s3://{}/{} missed {moments}: {why}", self.run.store.bucket_name(), one.key);
        let sentence = "{} missed moments";
        self.notify_of_maker(one, ("missed", what), (sentence, text));
    }

    fn notify_of_expiry(&self, one: &TriggerObject, at: Timestamp) {
        let text = format!(
            "The bucket deletes the archive of the `workdir` of the schedule s3://{}/{} after {}. Moments after that make no job. Add the \
             schedule again before: curfew schedule add --workdir.",
            self.run.store.bucket_name(),
            one.key,
            at.strftime("%Y-%m-%d %H:%M UTC"),
        );
        let (sentence, what) = ("The working directory of {} expires soon", ("workdir", at.to_string()));
        self.notify_of_maker(one, what, (sentence, text));
    }
}
