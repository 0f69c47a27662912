//! What is looked at of a job before the next decision: only what that decision wants.

use std::collections::{BTreeMap, BTreeSet};

use cloud::jobs::Looked;
use domain::id::{Region, ResourceId};
use domain::job::{
    Answer, Cancel, Exit, ExitReason, Facts, Head, Job, JobId, Placed, Sight, Trouble, TroubleKind, Wants, wants,
};
use domain::rule::Rule;
use futures::future::{join_all, join4};
use jiff::Timestamp;
use store::StoreError;

use super::Jobs;
use super::find::Named;

/// Instances as they were looked at in this run.
#[derive(Debug, Default)]
pub(super) struct Sights(BTreeMap<(Region, ResourceId), Seen>);

/// A machine, and the rule for which Curfew has ended it.
type Seen = (Sight, Option<Rule>);

impl Sights {
    pub(super) fn insert(&mut self, region: Region, looked: Looked) {
        self.0.insert((region, looked.instance), (looked.sight, looked.reaped));
    }

    fn of(&self, placed: &Placed) -> Option<Seen> {
        self.0.get(&(placed.region.clone(), placed.instance.clone())).cloned()
    }
}

/// What was read of one job in this run. Documents are read once: a run lasts for seconds.
#[derive(Debug, Default)]
#[expect(clippy::option_option, reason = "as in `Facts`: whether it was read, and whether there is one")]
pub(super) struct Known {
    head: Option<Option<Head>>,
    cancel: Option<Option<Cancel>>,
    /// Of this attempt.
    heartbeat: Option<(u32, Option<Timestamp>)>,
    exit: Option<(u32, Option<Exit>)>,
    /// What its owner has to hear, by attempt.
    pub(super) troubles: Vec<(u32, Trouble)>,
    /// Whether a launch was decided, and written, in this very round: nobody has asked for it yet.
    pub(super) is_first_ask: bool,
    /// Instances that were ended since they were looked at.
    pub(super) changed: BTreeSet<ResourceId>,
}

impl Jobs<'_> {
    /// Looks at the machines of all jobs at once: one call a region.
    pub(super) async fn look_at_all(&mut self, named: &[Named]) {
        let now = self.now();
        let mut by_region: BTreeMap<Region, Vec<ResourceId>> = BTreeMap::new();
        for job in named.iter().filter_map(|(_, read)| read.value.as_ref()) {
            let wants = wants(job, false, now);
            let machine = job.machine().filter(|_| wants.machine);
            let predecessor = job.predecessor.as_ref().filter(|_| wants.predecessor);
            for Placed { region, instance, .. } in machine.into_iter().chain(predecessor) {
                by_region.entry(region.clone()).or_default().push(instance.clone());
            }
        }
        let aws = self.run.aws;
        let looks = by_region.into_iter().map(|(region, ids)| async move {
            let looked = cloud::jobs::look(aws, &region, &ids, now).await;
            (region, ids, looked)
        });
        for (region, ids, looked) in join_all(looks).await {
            match looked {
                Ok(looked) => looked.into_iter().for_each(|one| self.sights.insert(region.clone(), one)),
                Err(error) => {
                    self.gap(error.gap());
                    // Asked, and not answered: nobody asks again in this run.
                    let unknown = |id| ((region.clone(), id), Seen::default());
                    self.sights.0.extend(ids.into_iter().map(unknown));
                }
            }
        }
    }

    /// What the next decision wants to know.
    pub(super) async fn facts(&self, job: &Job, known: &mut Known, answer: Option<Answer>, now: Timestamp) -> Facts {
        let warned = self.warned.as_ref().filter(|warned| job.heeds(warned));
        let wants = wants(job, warned.is_some(), now);
        let (machine, predecessor) =
            (job.machine().filter(|_| wants.machine), job.predecessor.as_ref().filter(|_| wants.predecessor));
        let (machine, reaped) = self.sight(machine, known).await;
        let (predecessor, _) = self.sight(predecessor, known).await;
        self.read_documents(job, wants, known).await;
        let of_attempt = |attempt: &u32| *attempt == job.attempt;
        Facts {
            may_act: self.may_act,
            no_progress_attempts_max: self.config.jobs.no_progress_attempts_max,
            warned: warned.cloned(),
            machine,
            reaped,
            predecessor,
            head: known.head.clone().filter(|_| wants.head),
            heartbeat: known.heartbeat.filter(|(attempt, _)| wants.heartbeat && of_attempt(attempt)).map(|(_, at)| at),
            exit: known.exit.clone().filter(|(attempt, _)| wants.exit && of_attempt(attempt)).map(|(_, exit)| exit),
            cancel: known.cancel.clone().filter(|_| wants.cancel),
            answer,
        }
    }

    async fn sight(&self, placed: Option<&Placed>, known: &Known) -> Seen {
        let Some(placed) = placed else { return Seen::default() };
        if let Some(seen) = self.sights.of(placed).filter(|_| !known.changed.contains(&placed.instance)) {
            return seen;
        }
        let id = std::slice::from_ref(&placed.instance);
        match cloud::jobs::look(self.run.aws, &placed.region, id, self.now()).await {
            Ok(looked) => looked.into_iter().next().map(|one| (one.sight, one.reaped)).unwrap_or_default(),
            Err(error) => {
                self.gap(error.gap());
                Seen::default()
            }
        }
    }

    /// Reads what is wanted and was not read yet. What could not be read stays unknown.
    async fn read_documents(&self, job: &Job, wants: Wants, known: &mut Known) {
        let (store, id, attempt) = (self.run.store, &job.job, job.attempt);
        let head = async { if wants.head && known.head.is_none() { Some(store.read_head(id).await) } else { None } };
        let cancel =
            async { if wants.cancel && known.cancel.is_none() { Some(store.read_cancel(id).await) } else { None } };
        let has_beat = known.heartbeat.is_some_and(|(of, _)| of == attempt);
        let beat =
            async { if wants.heartbeat && !has_beat { Some(store.read_heartbeat(id, attempt).await) } else { None } };
        let has_exit = known.exit.as_ref().is_some_and(|(of, _)| *of == attempt);
        let exit = async { if wants.exit && !has_exit { Some(store.read_exit(id, attempt).await) } else { None } };
        let (head, cancel, beat, exit) = Box::pin(join4(head, cancel, beat, exit)).await;
        known.head = self.known(id, head).or(known.head.take());
        known.cancel = self.known(id, cancel).or(known.cancel.take());
        if let Some(beat) = self.known(id, beat) {
            known.heartbeat = Some((attempt, beat.as_ref().map(|beat| beat.at)));
            let said = self.known(id, beat.map(|beat| beat.said));
            known.troubles.extend(said.iter().flat_map(|said| Trouble::heard(&said.trouble)).map(|one| (attempt, one)));
        }
        if let Some(exit) = self.known(id, exit) {
            let broken = exit.iter().filter(|exit| exit.reason == ExitReason::Broken);
            known.troubles.extend(broken.map(|exit| (attempt, Trouble::new(TroubleKind::Broken, &exit.why))));
            known.exit = Some((attempt, exit));
        }
    }

    fn known<T>(&self, _job: &JobId, read: Option<Result<T, StoreError>>) -> Option<T> {
        match read? {
            Ok(value) => Some(value),
            Err(error) => {
                self.gap(error.gap(self.run.aws.home()));
                None
            }
        }
    }
}
