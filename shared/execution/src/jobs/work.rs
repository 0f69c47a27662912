//! One job, round by round.

use std::sync::atomic::{AtomicUsize, Ordering};

use domain::job::{Answer, Effect, Job, JobId, LaunchAnswer, Placed, next};
use domain::observed::{Gap, GapKind};
use futures::{StreamExt, stream};
use store::{StoreError, Versioned};

use super::facts::Known;
use super::find::Named;
use super::{Jobs, Read};
use crate::AT_ONCE;

/// More rounds than there are candidates of a ranking: each of them has an answer of its own.
const ROUNDS_MAX: usize = 80;

/// So many jobs are ranked in a run, of which there is one a minute: EC2 lets an account launch two a second in the long run (EC2 API
/// reference, "Request throttling"), and what is asked for a ranking is asked once for all of them. The others have their turn in the next
/// run.
pub(super) const RANKINGS_MAX: usize = 120;

/// A job as it was left, and the version by which it is written next; `None` where another run has written it since.
type Left = (Job, Option<String>);

impl Jobs<'_> {
    /// Does for each of them what is next, several at once; those that were carried through to where nothing is left to do now.
    pub(super) async fn work_on(&self, named: Vec<Named>) -> Vec<Left> {
        let rankings = &AtomicUsize::new(0);
        let works = stream::iter(named).map(|(id, read)| async move {
            let patience = self.time_left()?;
            if let Ok(left) = tokio::time::timeout(patience, Box::pin(self.work(read, rankings))).await {
                return left;
            }
            // What was begun follows from the state, which the next run finds.
            self.late(&id);
            None
        });
        works.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await
    }

    fn late(&self, job: &JobId) {
        let error = format!("the run's time was over before {job} was done with; the next run takes it up");
        let region = self.run.aws.home().clone();
        self.gap(Gap { region, call: "lambda:InvokeFunction".to_owned(), error, kind: GapKind::Part });
    }

    async fn work(&self, read: Read, rankings: &AtomicUsize) -> Option<Left> {
        let (mut job, mut etag) = (read.value?, read.etag);
        let (mut known, mut answer) = (Known::default(), None);
        for _ in 0..ROUNDS_MAX {
            if self.time_left().is_none() {
                self.late(&job.job);
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
                        self.gap(error.gap(self.run.aws.home()));
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
        let home = self.run.aws.home();
        for news in known.troubles.iter().filter_map(|(attempt, trouble)| job.says_trouble(*attempt, trouble, home)) {
            self.say(news);
        }
        Some((job, etag))
    }

    /// Ends a machine that this run has launched, and that nobody waits for any more: another run was told that there is no capacity for
    /// it, and has gone on. Where that fails, the machine's own end and `reap-instances` bound it.
    async fn leave_none_behind(&self, job: &JobId, machine: &Placed, token: &str) {
        match self.run.store.read_job(job).await {
            Ok(Versioned { value: Some(now), .. }) => {
                if self.may_act && now.disowns(machine, token) {
                    tracing::warn!(job = %job, instance = machine.instance.as_str(), "launched, and nobody waits for it");
                    // What failed is a step of the report.
                    let _ = self.terminate(&now, machine).await;
                }
            }
            Ok(Versioned { value: None, .. }) => {}
            Err(error) => self.gap(error.gap(self.run.aws.home())),
        }
    }
}

/// The machine that was just launched, as the state that follows has it.
fn launched<'a>(after: &'a Job, answer: Option<&Answer>) -> Option<&'a Placed> {
    let Some(Answer::Launched(LaunchAnswer::Launched { instance, .. })) = answer else { return None };
    after.machine().into_iter().chain(&after.predecessor).find(|placed| placed.instance == *instance)
}
