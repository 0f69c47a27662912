//! One job, round by round.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt, stream};
use jobs::{Effect, EffectResult, Job, JobId, JobMachine, LaunchResult, next};
use model::observation::{Gap, GapKind};
use store::{StoreError, Versioned};

use super::facts::JobDocuments;
use super::find::NamedJob;
use super::{JobsRun, ReadJob};
use crate::AT_ONCE;

/// More rounds than there are candidates of a ranking: each of them has an answer of its own.
const ROUNDS_MAX: usize = 80;

/// So many jobs are ranked in a run, of which there is one a minute: EC2 lets an account launch two a second in the long run (EC2 API
/// reference, "Request throttling"), and what is asked for a ranking is asked once for all of them. The others have their turn in the next
/// run.
pub(super) const RANKINGS_MAX: usize = 120;

/// A job as it was left, and the version by which it is written next; `None` where another run has written it since.
type ProcessedJob = (Job, Option<String>);

impl JobsRun<'_> {
    /// Does for each of them what is next, several at once; those that were carried through to where nothing is left to do now.
    pub(super) async fn work_on(&self, named: Vec<NamedJob>) -> Vec<ProcessedJob> {
        let rankings = &AtomicUsize::new(0);
        let works = stream::iter(named).map(|(id, read)| async move {
            let timeout = self.time_left()?;
            if let Ok(left) = tokio::time::timeout(timeout, Box::pin(self.work(read, rankings))).await {
                return left;
            }
            // What was begun follows from the state, which the next run finds.
            self.report_late(&id);
            None
        });
        works.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await
    }

    fn report_late(&self, job: &JobId) {
        let error = format!("the run's time was over before {job} was done with; the next run takes it up");
        let region = self.run.cloud.home().clone();
        self.gap(Gap { region, call: "lambda:InvokeFunction".to_owned(), error, kind: GapKind::Part });
    }

    async fn work(&self, read: ReadJob, rankings: &AtomicUsize) -> Option<ProcessedJob> {
        let (mut job, mut etag) = (read.value?, read.etag);
        let (mut known, mut answer) = (JobDocuments::default(), None);
        for _ in 0..ROUNDS_MAX {
            if self.time_left().is_none() {
                self.report_late(&job.job);
                break;
            }
            let now = self.now();
            let facts = self.facts(&job, &mut known, answer.take(), now).await;
            let (after, effects) = next(&job, &facts, now);
            known.is_first_ask = after.awaited() != job.awaited();
            if after != job {
                match self.run.store.write_job(&after, etag.as_deref()).await {
                    Ok(written) => etag = written,
                    Err(StoreError::Lost { .. }) => {
                        tracing::info!(job = %job.job, "another run has written it since; that one goes on with it");
                        if let Some((machine, token)) = launched(&after, facts.answer.as_ref()).zip(job.awaited()) {
                            self.leave_none_behind(&job.job, machine, &token).await;
                        }
                        return None;
                    }
                    Err(error) => {
                        self.gap(error.gap(self.run.cloud.home()));
                        return None;
                    }
                }
                job = after;
            }
            if effects.contains(&Effect::Rank) && rankings.fetch_add(1, Ordering::Relaxed) >= RANKINGS_MAX {
                tracing::info!(job = %job.job, "{RANKINGS_MAX} jobs were ranked in this run; this one is in a later one");
                break;
            }
            answer = self.carry_out(&job, effects, &mut known).await;
            if answer.is_none() {
                break;
            }
        }
        let home = self.run.cloud.home();
        for news in
            known.warnings.iter().filter_map(|(attempt, trouble)| job.notify_agent_warning(*attempt, trouble, home))
        {
            self.notify(news);
        }
        // Of several one is told a day: they have one cause.
        if let Some(why) = known.refused.first() {
            tracing::warn!(job = %job.job, why, "a document of its machine is not believed");
            self.notify(job.notify_refused_document(why, home));
        }
        Some((job, etag))
    }

    /// Ends a machine that this run has launched, and that nobody waits for any more: another run was told that there is no capacity for
    /// it, and has gone on. Where that fails, the machine's own end and `reap-instances` bound it.
    async fn leave_none_behind(&self, job: &JobId, machine: &JobMachine, token: &str) {
        match self.run.store.read_job(job).await {
            Ok(Versioned { value: Some(now), .. }) => {
                if self.may_act && now.rejects_machine(machine, token) {
                    tracing::warn!(job = %job, instance = machine.instance.as_str(), "launched, and nobody waits for it");
                    // What failed is a step of the report.
                    let _ = self.terminate(&now, machine).await;
                }
            }
            Ok(Versioned { value: None, .. }) => {}
            Err(error) => self.gap(error.gap(self.run.cloud.home())),
        }
    }
}

/// The machine that was just launched, as the state that follows has it.
fn launched<'a>(after: &'a Job, answer: Option<&EffectResult>) -> Option<&'a JobMachine> {
    let Some(EffectResult::Launched(LaunchResult::Launched { instance, .. })) = answer else { return None };
    after.machine().into_iter().chain(&after.previous_attempt).find(|placed| placed.instance == *instance)
}
