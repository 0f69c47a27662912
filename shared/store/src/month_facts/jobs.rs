//! The jobs of a month: their states, the last heartbeat of each attempt, and the size of their checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use billing::ledger::{Ledger, TimeSpan};
use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use jobs::node_gang::{NODES_MIN, Node, NodeHeartbeats, merge_node_heartbeats};
use jobs::{Heartbeat, Job, JobId, JobOverview};
use model::id::TeamName;
use model::team_folder::decode_folder;
use report::{AttemptRecord, StoredCheckpoints};

use super::{AT_ONCE, Gaps};
use crate::{JobDocuments as _, MachineDocuments as _, Store, StoreError};

/// Jobs whose states are read: each is a call.
const JOBS_MAX: usize = 5_000;

/// Attempts whose heartbeats are read, of one job, the newest first.
const ATTEMPTS_OF_JOB_MAX: u32 = 100;

/// Calls for the heartbeats of all attempts: one for a single machine, and for a gang one more than it has machines.
const CALLS_MAX: usize = 10_000;

const CHECKPOINTS: &str = "checkpoints/";

const TEAMS_MAX: usize = 1_000;

/// Pages of 1,000 objects of one team: half a cent (Amazon S3 pricing, 2026-11: $0.005 for 1,000 lists). A machine writes as many objects
/// as it likes, and hides by that nothing but how much its own team has.
const PAGES_OF_TEAM_MAX: usize = 1_000;

/// Teams whose objects are listed at once.
const TEAMS_AT_ONCE: usize = 8;

#[derive(Default)]
pub(super) struct MonthJobs {
    pub(super) overviews: Vec<JobOverview>,
    /// Attempts by job, `<team>/<job>`.
    pub(super) attempts: BTreeMap<String, Vec<AttemptRecord>>,
}

impl Store {
    /// Reads the jobs that are unfinished, and those that the ledgers name.
    pub(super) async fn month_jobs(
        &self,
        ledgers: &[Ledger],
        month: TimeSpan,
        now: Timestamp,
        gaps: &mut Gaps,
    ) -> MonthJobs {
        let active = gaps.keep("the list of jobs", self.active().await).unwrap_or_default();
        let mut names: BTreeSet<JobId> = active.into_iter().collect();
        let shares = ledgers.iter().flat_map(Ledger::runs).flat_map(|run| run.shares(month));
        names.extend(shares.filter_map(|share| JobId::read(share.job?).ok()));
        if names.len() > JOBS_MAX {
            gaps.add(format!("of {} jobs the states of {JOBS_MAX} were read", names.len()));
        }
        let reads = names.into_iter().take(JOBS_MAX).map(|id| async move { self.read_job(&id).await });
        let mut reads = stream::iter(reads).buffered(AT_ONCE);
        let (mut jobs, mut attempts) = (MonthJobs::default(), Vec::new());
        while let Some(read) = reads.next().await {
            let Some(job) = gaps.keep("a job", read).and_then(|read| read.value) else { continue };
            attempts.extend(attempts_of(&job));
            jobs.overviews.push(JobOverview::from_job(&job, now));
        }
        jobs.attempts = self.month_attempts(attempts, month, gaps).await;
        jobs
    }

    /// An attempt without a heartbeat in the month belongs to another one. An untrusted document that cannot be believed does not count.
    async fn month_attempts(
        &self,
        attempts: Vec<MonthAttempt>,
        month: TimeSpan,
        gaps: &mut Gaps,
    ) -> BTreeMap<String, Vec<AttemptRecord>> {
        let mut calls = 0_usize;
        let read: Vec<&MonthAttempt> = attempts
            .iter()
            .take_while(|attempt| {
                calls = calls.saturating_add(attempt.calls());
                calls <= CALLS_MAX
            })
            .collect();
        if read.len() < attempts.len() {
            gaps.add(format!("of {} attempts the heartbeats of {} were read", attempts.len(), read.len()));
        }
        let reads = read.into_iter().map(|attempt| async move { (attempt, self.read_last_heartbeat(attempt).await) });
        let mut reads = stream::iter(reads).buffer_unordered(AT_ONCE);
        let mut found: BTreeMap<String, Vec<AttemptRecord>> = BTreeMap::new();
        while let Some((attempt, read)) = reads.next().await {
            let beat = gaps.keep("the heartbeat of an attempt", read).flatten();
            if let Some((_, heartbeat)) = beat.filter(|(at, _)| month.from <= *at && *at < month.to) {
                let record = AttemptRecord::new(heartbeat, attempt.is_latest, attempt.nodes);
                found.entry(attempt.job.to_string()).or_default().push(record);
            }
        }
        found
    }

    /// The last heartbeat of an attempt, of a gang that of all its nodes together.
    async fn read_last_heartbeat(&self, attempt: &MonthAttempt) -> Result<Option<(Timestamp, Heartbeat)>, StoreError> {
        let MonthAttempt { job, attempt, nodes, .. } = attempt;
        if *nodes < NODES_MIN {
            let beat = self.read_heartbeat(job, *attempt).await?.into_parts().0;
            return Ok(beat.map(|beat| (beat.at, beat.heartbeat)));
        }
        let Some(gang) = self.find_gang(job, *attempt, *nodes).await? else { return Ok(None) };
        let mut beats = NodeHeartbeats::new();
        for node in 0..*nodes {
            let beat = self.read_node_heartbeat(&gang, node).await?.into_parts().0;
            beats.extend(beat.map(|beat| (node, (beat.at, beat.heartbeat))));
        }
        Ok(merge_node_heartbeats(&beats))
    }

    /// Sizes of everything below `checkpoints/` now, from the list: no object is read.
    pub(super) async fn stored_checkpoints(&self, gaps: &mut Gaps) -> StoredCheckpoints {
        let folders = self.bucket.folders(CHECKPOINTS, TEAMS_MAX).await;
        let folders = gaps.keep("the list of checkpoints", folders).unwrap_or_default();
        let lists = folders.into_iter().map(|folder| async move { self.checkpoints_of_team(&folder).await });
        let mut lists = stream::iter(lists).buffer_unordered(TEAMS_AT_ONCE);
        let mut stored = StoredCheckpoints::default();
        while let Some(listed) = lists.next().await {
            let Some((team, bytes, are_all)) = gaps.keep("the checkpoints of a team", listed) else { continue };
            stored.bytes.extend(bytes.into_iter().map(|(job, bytes)| ((team.clone(), job), bytes)));
            stored.incomplete.extend((!are_all).then_some(team));
        }
        stored
    }

    async fn checkpoints_of_team(&self, folder: &str) -> Result<(TeamName, BTreeMap<String, u64>, bool), StoreError> {
        let name = folder.strip_prefix(CHECKPOINTS).and_then(|name| name.strip_suffix('/')).unwrap_or(folder);
        let team = TeamName::new(decode_folder(name).unwrap_or_else(|| name.to_owned()));
        let mut jobs: BTreeMap<String, u64> = BTreeMap::new();
        let are_all = self.bucket.each_listed(folder, PAGES_OF_TEAM_MAX, |object| {
            let job = object.key.strip_prefix(folder).and_then(|rest| rest.split('/').next()).unwrap_or_default();
            // What a machine wrote under the name of no job is counted together.
            let job = JobId::read(&format!("{team}/{job}")).map(|id| id.job).unwrap_or_default();
            let sum = jobs.entry(job).or_default();
            *sum = sum.saturating_add(object.bytes);
        });
        let are_all = are_all.await?;
        Ok((team, jobs, are_all))
    }
}

/// An attempt whose heartbeat is read.
struct MonthAttempt {
    job: JobId,
    attempt: u32,
    nodes: Node,
    /// `true` if no later one followed it.
    is_latest: bool,
}

impl MonthAttempt {
    fn calls(&self) -> usize {
        if self.nodes < NODES_MIN { 1 } else { usize::from(self.nodes).saturating_add(1) }
    }
}

/// The newest attempts of a job.
fn attempts_of(job: &Job) -> impl Iterator<Item = MonthAttempt> + use<> {
    let (id, latest, nodes) = (job.job.clone(), job.attempt, job.terms.gpu.nodes);
    let first = latest.saturating_sub(ATTEMPTS_OF_JOB_MAX).saturating_add(1);
    (first..=latest).map(move |attempt| MonthAttempt { job: id.clone(), attempt, nodes, is_latest: attempt == latest })
}
