//! One job, round by round: the loop is in `jobs`, and this drives it.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt, stream};
use jobs::{Effect, Job, JobId, Reconciliation};
use model::observation::{Gap, GapKind};
use ports::{JobCloud, StoreError};

use super::facts::KnownDocuments;
use super::find::NamedJob;
use super::{JobRunDocuments, JobsRun, ReadJob};
use crate::AT_ONCE;

/// More rounds than a ranking has candidates: each candidate can be refused.
const ROUNDS_MAX: usize = 80;

/// The most jobs that a run ranks, one run a minute: EC2 lets an account launch two a second in the long run (EC2 API reference, "Request
/// throttling"), and the queries for a ranking are made once for all of them. The others wait for the next run.
pub(super) const RANKINGS_MAX: usize = 120;

/// A job after its last round, and the version to write it over; `None` if another run has written it since.
type ProcessedJob = (Job, Option<String>);

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// Reconciles each of them, several at once; returns those that have nothing left to do now.
    pub(super) async fn reconcile_all(&self, named: Vec<NamedJob>) -> Vec<ProcessedJob> {
        let rankings = &AtomicUsize::new(0);
        let works = stream::iter(named).map(|(id, read)| async move {
            let timeout = self.time_left()?;
            // After a bug as after a time-out, the state has what was begun, and the next run continues it.
            let work = self.or_gap(&id, Box::pin(self.work(read, rankings)));
            tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| {
                self.report_late(&id);
                None
            })
        });
        works.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await
    }

    fn report_late(&self, job: &JobId) {
        let error = format!("the run's time was over before {job} was reconciled; the next run continues");
        self.gap(Gap::new(self.run.cloud.home(), "lambda:InvokeFunction", error, GapKind::Part));
    }

    async fn work(&self, read: ReadJob, rankings: &AtomicUsize) -> Option<ProcessedJob> {
        let (home, mut etag) = (self.run.cloud.home(), read.etag);
        let (mut known, mut rounds) = (KnownDocuments::default(), 0..ROUNDS_MAX);
        let mut next = Reconciliation::begin(Box::new(read.value?), self.warned.clone());
        let job = loop {
            next = match next {
                Reconciliation::Observe(decision) => {
                    let is_late = self.time_left().is_none();
                    if is_late {
                        self.report_late(&decision.job().job);
                    }
                    if is_late || rounds.next().is_none() {
                        break decision.into_job();
                    }
                    let now = self.now();
                    let facts = self.facts(&decision, &mut known, now).await;
                    known.is_first_ask = false;
                    decision.decide(facts, now)
                }
                Reconciliation::Write(decided) => {
                    match self.run.store.write_job(decided.job(), etag.as_deref()).await {
                        Ok(written) => {
                            etag = written;
                            known.is_first_ask = decided.is_first_ask();
                            decided.written()
                        }
                        Err(StoreError::Lost { .. }) => {
                            let job = &decided.job().job;
                            tracing::info!(job = %job, "another run has written it since, and continues with it");
                            decided.lost()
                        }
                        Err(error) => {
                            self.gap(error.gap(home));
                            return None;
                        }
                    }
                }
                Reconciliation::CarryOut(Effect::Rank, owed)
                    if rankings.fetch_add(1, Ordering::Relaxed) >= RANKINGS_MAX =>
                {
                    let job = &owed.job().job;
                    tracing::info!(job = %job, "{RANKINGS_MAX} jobs were ranked in this run; this one is in a later one");
                    break owed.into_job();
                }
                Reconciliation::CarryOut(effect, owed) => {
                    let answer = self.carry_out(owed.job(), &effect, &mut known).await;
                    owed.carried_out(answer)
                }
                Reconciliation::ReadAgain(launched) => match self.run.store.read_job(launched.job()).await {
                    Ok(now) => launched.compare(now.value.map(Box::new)),
                    Err(error) => {
                        self.gap(error.gap(home));
                        return None;
                    }
                },
                Reconciliation::Terminate(machine, now) => {
                    tracing::warn!(job = %now.job, instance = machine.instance.as_str(), "launched, but its job no longer wants it");
                    // A failure is a step of the report; the machine's own timer and `reap-instances` bound its cost.
                    self.terminate(&now, &machine).await;
                    return None;
                }
                Reconciliation::Lost => return None,
                Reconciliation::Done(job) => break job,
            }
        };
        self.notify_of_documents(&job, &known);
        if let Some(notification) = job.notify_of_members(home) {
            self.notify(notification);
        }
        Some((*job, etag))
    }

    /// Notifies the owner of warnings in documents of the job's machine, and of documents that are not believed.
    fn notify_of_documents(&self, job: &Job, known: &KnownDocuments) {
        let home = self.run.cloud.home();
        let (signs, idle_after) = (known.signs.as_ref(), self.config.idle_after(&job.job.team));
        // Whether a box is idle, its agent judges by more than its GPUs.
        let idle_after = idle_after.filter(|_| job.gpu_box.is_none());
        let warning = |(attempt, warning): &(u32, _)| job.notify_agent_warning(*attempt, warning, signs, home);
        let idle = signs.zip(idle_after).and_then(|(signs, after)| job.notify_idle(signs, after, home));
        for mut notification in known.warnings.iter().filter_map(warning).chain(idle) {
            // In observe mode no request to keep a box is answered.
            notification.facts.ending_box.take_if(|_| !self.may_act(job));
            self.notify(notification);
        }
        // One of them a day is enough: they have one cause.
        if let Some(why) = known.refused.first() {
            tracing::warn!(job = %job.job, why, "a document of its machine is not believed");
            self.notify(job.notify_refused_document(why, home));
        }
    }
}
