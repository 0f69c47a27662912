//! Sweeps: all members of one are begun before it is accepted, and one message says when all are over.
//!
//! Names and states of members follow from `sweep.json`, so a run that continues after a crash begins the same. The sweep comes on the index of
//! unfinished jobs after its last member: while it is there, a member that is not on the index is over. If that entry is lost, it is made anew,
//! once an hour, while any member is unfinished.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use futures::{StreamExt, TryStreamExt, stream};
use jobs::{Job, JobId, JobOverview, ParameterSweep, Sweep, is_index_search_due, parameter_sweep};
use model::notification_log::{NotificationKey, NotificationKind, RepeatPolicy};
use ports::{JobCloud, StoreError};

use super::{JobRunDocuments, JobsRun};
use crate::AT_ONCE;

/// The most members that a run begins: three writes each. A larger rest waits for the next run, a minute later.
const BEGUN_MAX: usize = 2 * ParameterSweep::MEMBERS_MAX as usize;

/// The most sweeps of which a run reads all members at their end.
const ENDED_MAX: usize = 2;

#[derive(Debug, Default)]
pub(super) struct KnownSweeps {
    /// The sweeps on the index.
    listed: Mutex<BTreeSet<JobId>>,
    /// The sweeps with a member that this run reads.
    busy: BTreeSet<JobId>,
    /// The unfinished members of some; `None` if they could not be listed.
    unfinished: tokio::sync::Mutex<BTreeMap<JobId, Option<BTreeSet<u32>>>>,
    /// The number of members that this run has begun.
    begun: AtomicUsize,
}

impl KnownSweeps {
    pub(super) fn add_listed(&self, sweeps: impl Iterator<Item = JobId>) {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).extend(sweeps);
    }

    pub(super) fn add_busy<'a>(&mut self, jobs: impl Iterator<Item = &'a Job>) {
        self.busy.extend(jobs.filter_map(Job::sweep_id));
    }

    fn is_listed(&self, sweep: &JobId) -> bool {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).contains(sweep)
    }
}

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// Begins all members of a sweep that are not there yet. Returns how many it has; `None` if the rest is left to another run.
    pub(super) async fn begin_sweep(&self, sweep: &Sweep, text: &[u8]) -> Result<Option<u32>, StoreError> {
        let (sweep, is_new) = self.run.store.begin_sweep(sweep, text).await?;
        let there = if is_new { BTreeSet::new() } else { self.run.store.unfinished_members(&sweep.sweep).await? };
        let begins = stream::iter(sweep.numbers().filter(|number| !there.contains(number))).map(|number| {
            let member = Box::new(sweep.member(number));
            async move {
                if self.time_left().is_none() || self.sweeps.begun.fetch_add(1, Ordering::Relaxed) >= BEGUN_MAX {
                    return Ok(false);
                }
                Box::pin(self.begin(&member, &parameter_sweep::member_document(text, number))).await.map(|_| true)
            }
        });
        let mut all = true;
        let mut begins = begins.buffered(AT_ONCE).boxed_local();
        while let Some(has_begun) = begins.try_next().await? {
            all &= has_begun;
        }
        if !all {
            tracing::info!(sweep = %sweep.sweep, "not all members have begun; the next run continues");
            return Ok(None);
        }
        // An event and the schedule may begin it at once. The run that puts it on the index tells its team, and then answers the document. If it
        // was cut off before, the document is unanswered when it must have ended, and a later run does both: twice is better than never. Once a
        // day, for it may be the answer that cannot be written.
        let mut accepted = sweep.notify_accepted(self.run.cloud.home());
        if let Some(begun_at) = self.run.store.remember_sweep(&sweep.sweep, &self.run.id).await? {
            let run_lasts = self.run.deadline.duration_since(self.run.now);
            if self.now().duration_since(begun_at) <= run_lasts {
                return Ok(None);
            }
            let topic = NotificationKey::named(format!("accepted {}", sweep.sweep));
            // The log keeps what is of no resource until the day is over.
            accepted.resource = None;
            accepted.kind = NotificationKind::State { topic, what: String::new(), repeat: RepeatPolicy::Daily };
        }
        self.notify(accepted);
        Ok(Some(sweep.plan.members()))
    }

    /// Puts sweeps with unfinished members that are missing on the index there again, once an hour.
    pub(super) async fn restore_sweeps(&self) {
        if !is_index_search_due(self.run.now) {
            return;
        }
        for sweep in self.sweeps.busy.iter().filter(|sweep| !self.sweeps.is_listed(sweep)) {
            if self.time_left().is_none() {
                return;
            }
            let restored = async { Some(self.restore_sweep(sweep).await) };
            match self.or_gap(sweep, Box::pin(restored)).await {
                Some(Ok(true)) => self.sweeps.add_listed(std::iter::once(sweep.clone())),
                Some(Ok(false)) | None => {}
                Some(Err(error)) => self.gap(error.gap(self.run.cloud.home())),
            }
        }
    }

    /// Puts a sweep on the index, after each unfinished member that is missing there. Returns whether it is there: not while it is still being
    /// begun, when some member has no state.
    async fn restore_sweep(&self, id: &JobId) -> Result<bool, StoreError> {
        let store = self.run.store;
        // Of a team with very many jobs a run does not list all.
        if store.is_remembered(id).await? {
            return Ok(true);
        }
        let Some(sweep) = store.read_sweep(id).await? else { return Ok(false) };
        let there = store.unfinished_members(id).await?;
        let others = stream::iter(sweep.numbers().filter(|number| !there.contains(number)));
        let looks = others.map(|number| async move { self.index(&id.member(number)).await });
        let mut looks = looks.buffered(AT_ONCE).boxed_local();
        while let Some(is_unfinished) = looks.try_next().await? {
            if is_unfinished.is_none() {
                return Ok(false);
            }
        }
        if store.remember_sweep(id, &self.run.id).await?.is_none() {
            tracing::warn!(sweep = %id, "it is not over, and was not on the index; it was put there again");
        }
        Ok(true)
    }

    /// Counts the unfinished earlier members of the job's sweep; `None` if unknown, for example while not all members have begun.
    pub(super) async fn count_earlier_members(&self, job: &Job) -> Option<u32> {
        let (sweep, number) = job.job.as_member()?;
        if !self.sweeps.is_listed(&sweep) {
            return None;
        }
        let mut known = self.sweeps.unfinished.lock().await;
        if !known.contains_key(&sweep) {
            let listed = self.list_unfinished(&sweep).await;
            known.insert(sweep.clone(), listed);
        }
        let unfinished = known.get(&sweep)?.as_ref()?;
        u32::try_from(unfinished.range(..number).count()).ok()
    }

    async fn list_unfinished(&self, sweep: &JobId) -> Option<BTreeSet<u32>> {
        let listed = self.run.store.unfinished_members(sweep).await;
        listed.map_err(|error| self.gap(error.gap(self.run.cloud.home()))).ok()
    }

    /// Finds the sweeps whose members are all over, each with its notification. They stay on the index until that was sent.
    pub(super) async fn find_ended_sweeps(&self) {
        let listed = std::mem::take(&mut *self.sweeps.listed.lock().unwrap_or_else(PoisonError::into_inner));
        let quiet = listed.into_iter().filter(|sweep| !self.sweeps.busy.contains(sweep));
        let mut read = 0;
        for sweep in quiet {
            if read >= ENDED_MAX || self.time_left().is_none() {
                return;
            }
            // Of a team with very many jobs a run does not read all.
            if self.list_unfinished(&sweep).await.is_none_or(|unfinished| !unfinished.is_empty()) {
                continue;
            }
            let ended = async {
                let results = self.read_results(&sweep).await;
                let notify =
                    |(of, members): (Sweep, Vec<JobOverview>)| of.notify_ended(&members, self.run.cloud.home());
                Some(results.map(|found| found.map(notify)))
            };
            match self.or_gap(&sweep, Box::pin(ended)).await {
                Some(Ok(Some(notification))) => {
                    // One that cannot be read keeps no other from its turn.
                    read += 1;
                    self.with_findings(|found| found.ended_sweeps.push((sweep, notification)));
                }
                Some(Ok(None)) | None => {}
                Some(Err(error)) => self.gap(error.gap(self.run.cloud.home())),
            }
        }
    }

    /// A sweep with where each of its members stands. `None` if it is gone: then its entry is removed.
    async fn read_results(&self, sweep: &JobId) -> Result<Option<(Sweep, Vec<JobOverview>)>, StoreError> {
        let store = self.run.store;
        let Some(of) = store.read_sweep(sweep).await? else {
            store.forget_sweep(sweep).await?;
            return Ok(None);
        };
        let now = self.now();
        let reads = of.numbers().map(|number| async move {
            let job = store.read_job(&sweep.member(number)).await?.value;
            Ok::<_, StoreError>(job.map(|job| JobOverview::from_job(&job, now)))
        });
        let members: Vec<Option<JobOverview>> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
        Ok(Some((of, members.into_iter().flatten().collect())))
    }
}
