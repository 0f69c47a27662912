//! The facts of a job before the next decision: only those that the decision wants.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join_all, join4};
use jiff::Timestamp;
use jobs::boxes::{BoxFacts, BoxReport, ExtendRequest};
use jobs::node_gang::{GangReport, GangSight, gang_sight, previous_gang_sight};
use jobs::takeover::NewerMachines;
use jobs::{
    AgentWarning, AgentWarningKind, CancelRequest, ExitReason, ExitRecord, Head, Heartbeat, HeartbeatSigns, Job,
    JobFacts, JobMachine, MachineHold, MachineObservation, MachineSight, NeededFacts, PendingDecision, needed_facts,
};
use model::id::{Region, ResourceId};
use model::rule::Rule;
use ports::{JobCloud, MachineDocument, StoreError};

use super::find::NamedJob;
use super::{JobRunDocuments, JobsRun};

/// The function that stops instances.
const REAPER: &str = "reap-instances";

/// The instances that this run described.
#[derive(Debug, Default)]
pub(super) struct MachineSightings(BTreeMap<(Region, ResourceId), MachineSighting>);

/// A machine, and the tag that protects it.
type MachineSighting = (MachineSight, Option<MachineHold>);

/// The machines of an attempt, by node.
#[derive(Debug, Default)]
struct AttemptSighting {
    seen: Vec<MachineSight>,
    /// A tag on one of them holds all.
    hold: Option<MachineHold>,
}

impl AttemptSighting {
    fn from_machines(machines: Vec<MachineSighting>) -> Self {
        let hold = machines.iter().find_map(|(_, hold)| hold.clone());
        Self { seen: machines.into_iter().map(|(seen, _)| seen).collect(), hold }
    }
}

impl MachineSightings {
    pub(super) fn insert(&mut self, region: Region, machine: MachineObservation) {
        self.0.insert((region, machine.instance), (machine.sight, machine.hold));
    }

    /// The tag that holds a machine of an attempt, as far as they were described.
    fn find_hold(&self, placed: &JobMachine) -> Option<MachineHold> {
        placed.instances().find_map(|instance| self.0.get(&(placed.region.clone(), instance.clone()))?.1.clone())
    }

    /// The machines of an attempt, by node; `None` unless all were described.
    fn find(&self, placed: &JobMachine) -> Option<Vec<MachineSighting>> {
        let find = |instance: &ResourceId| self.0.get(&(placed.region.clone(), instance.clone())).cloned();
        placed.instances().map(find).collect()
    }
}

/// The documents of one job that this run has read. Each is read once, because a run takes seconds.
#[derive(Debug, Default)]
#[expect(clippy::option_option, reason = "as in `Facts`: whether it was read, and whether there is one")]
pub(super) struct KnownDocuments {
    head: Option<Option<Head>>,
    cancel: Option<Option<CancelRequest>>,
    extend: Option<Option<ExtendRequest>>,
    /// The job's box, after what was done for it in this run.
    pub(super) gpu_box: Option<BoxFacts>,
    /// The report of its agent about the box, with the attempt.
    box_report: Option<(u32, BoxReport)>,
    pub(super) heartbeat: Option<(u32, Option<Timestamp>)>,
    pub(super) exit: Option<(u32, Option<ExitRecord>)>,
    /// The words of the nodes of a gang, with the attempt.
    pub(super) gang_report: Option<(u32, GangReport)>,
    /// The attempt whose command runs, by the heartbeat.
    pub(super) command_runs: Option<u32>,
    /// The agent's warnings, by attempt.
    pub(super) warnings: Vec<(u32, AgentWarning)>,
    /// The signs of work in the last heartbeat.
    pub(super) signs: Option<HeartbeatSigns>,
    /// The reasons why documents of the job's machine are not believed.
    pub(super) refused: Vec<String>,
    /// `true` if this round decided and wrote a launch, so that no earlier run requested it.
    pub(super) is_first_ask: bool,
    /// Instances that were terminated since they were described.
    pub(super) changed: BTreeSet<ResourceId>,
}

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// Describes the machines of all jobs at once: one call a region.
    pub(super) async fn describe_machines(&mut self, named: &[NamedJob]) {
        let now = self.now();
        let mut by_region: BTreeMap<Region, Vec<ResourceId>> = BTreeMap::new();
        for job in named.iter().filter_map(|(_, read)| read.value.as_ref()) {
            let wants = needed_facts(job, false, now);
            let machine = job.machine().filter(|_| wants.machine);
            let previous_attempt = job.previous_attempt.as_ref().filter(|_| wants.previous_attempt);
            for placed in machine.into_iter().chain(previous_attempt) {
                by_region.entry(placed.region.clone()).or_default().extend(placed.instances().cloned());
            }
        }
        let cloud = self.run.cloud;
        let looks = by_region.into_iter().map(|(region, ids)| async move {
            let observed = cloud.observe_machines(&region, &ids, now).await;
            (region, ids, observed)
        });
        for (region, ids, observed) in join_all(looks).await {
            match observed {
                Ok(machines) => machines.into_iter().for_each(|one| self.sights.insert(region.clone(), one)),
                Err(error) => {
                    self.gap(error.gap());
                    // A query without an answer is not repeated in this run.
                    let unknown = |id| ((region.clone(), id), MachineSighting::default());
                    self.sights.0.extend(ids.into_iter().map(unknown));
                }
            }
        }
    }

    /// The facts that the next decision wants.
    pub(super) async fn facts(
        &self,
        decision: &PendingDecision<Box<Job>>,
        known: &mut KnownDocuments,
        now: Timestamp,
    ) -> JobFacts {
        let (job, wants) = (decision.job(), decision.needed_facts(now));
        let unsettled = self.takeover.as_ref().filter(|takeover| job.is_unsettled(takeover));
        let newer = match unsettled.filter(|_| decision.warned().is_none()) {
            Some(takeover) => Box::pin(self.find_newer_machines(job, takeover)).await,
            None => NewerMachines::default(),
        };
        let wants = NeededFacts { head: wants.head || newer != NewerMachines::Unknown, ..wants };
        let (machine, previous_attempt) =
            (job.machine().filter(|_| wants.machine), job.previous_attempt.as_ref().filter(|_| wants.previous_attempt));
        // After a warning its instance was already described to find the job.
        let at_warning = job.machine().filter(|_| decision.warned().is_some());
        let held_at_warning = at_warning.and_then(|placed| self.sights.find_hold(placed));
        let AttemptSighting { seen, hold: machine_hold } = self.sight(machine, known).await;
        let gang = machine.filter(|_| job.terms.is_gang()).map(|placed| {
            let machines: Vec<_> = placed.instances().cloned().zip(seen.iter().cloned()).collect();
            GangSight::from_machines(&machines)
        });
        let (machine, reaped) = self.find_reaper(machine, gang.as_ref(), gang_sight(&seen)).await;
        let gpu_box = if wants.gpu_box { Box::pin(self.box_facts(job, &machine, known, now)).await } else { None };
        let previous_attempt = previous_gang_sight(&self.sight(previous_attempt, known).await.seen);
        Box::pin(self.read_documents(job, wants, known)).await;
        let dependencies =
            if wants.dependencies { Box::pin(self.observe_dependencies(job)).await } else { BTreeMap::new() };
        let earlier_members = if wants.earlier_members { self.count_earlier_members(job).await } else { None };
        let is_current = |attempt: &u32| *attempt == job.machine_attempt();
        let box_report = known.box_report.as_ref().filter(|(attempt, _)| is_current(attempt)).map(|(_, report)| report);
        JobFacts {
            may_act: self.may_act(job),
            no_progress_attempts_max: self.config.jobs.no_progress_attempts_max,
            machine,
            gang,
            gang_report: known.gang_report.clone().filter(|(attempt, _)| is_current(attempt)).map(|(_, report)| report),
            machine_hold: machine_hold.or(held_at_warning),
            reaped,
            previous_attempt,
            head: known.head.clone().filter(|_| wants.head),
            heartbeat: known.heartbeat.filter(|(attempt, _)| wants.heartbeat && is_current(attempt)).map(|(_, at)| at),
            command_runs: wants.heartbeat && known.command_runs == Some(job.machine_attempt()),
            exit: known.exit.clone().filter(|(attempt, _)| wants.exit && is_current(attempt)).map(|(_, exit)| exit),
            cancel: known.cancel.clone().filter(|_| wants.cancel),
            dependencies,
            earlier_members,
            gpu_box,
            box_in_use_at: box_report.map(|report| report.in_use_at),
            box_synced_at: box_report.and_then(|report| report.synced_at),
            extend: known.extend.clone().filter(|_| wants.extend),
            takeover: self.takeover.clone(),
            newer,
            ..JobFacts::default()
        }
    }

    async fn sight(&self, placed: Option<&JobMachine>, known: &KnownDocuments) -> AttemptSighting {
        let Some(placed) = placed else { return AttemptSighting::default() };
        if let Some(seen) = self.sights.find(placed).filter(|_| !known.changed.contains(&placed.instance)) {
            return AttemptSighting::from_machines(seen);
        }
        let ids: Vec<ResourceId> = placed.instances().cloned().collect();
        match self.run.cloud.observe_machines(&placed.region, &ids, self.now()).await {
            Ok(machines) => {
                AttemptSighting::from_machines(machines.into_iter().map(|one| (one.sight, one.hold)).collect())
            }
            Err(error) => {
                self.gap(error.gap());
                AttemptSighting::from_machines(ids.iter().map(|_| MachineSighting::default()).collect())
            }
        }
    }

    /// The rule by which `reap-instances` ended a machine: EC2 reports that like an action of a person. While its log cannot be read, how the
    /// machine ended is unknown.
    async fn find_reaper(
        &self,
        placed: Option<&JobMachine>,
        gang: Option<&GangSight>,
        sight: MachineSight,
    ) -> (MachineSight, Option<Rule>) {
        let Some(placed) = placed.filter(|_| sight.was_ended_by_hand()) else { return (sight, None) };
        let gone = gang.and_then(|gang| gang.gone.as_ref()).unwrap_or(&placed.instance);
        match self.run.store.read_notices(REAPER, &placed.region).await {
            Ok(log) => {
                let record = log.value.record(gone);
                let carried_out = record.and_then(|record| record.carried_out);
                (sight, carried_out.map(|carried_out| carried_out.rule))
            }
            Err(error) => {
                self.gap(error.gap(self.run.cloud.home()));
                (MachineSight::Unknown, None)
            }
        }
    }

    /// Reads the wanted facts that were not read yet. A failed read leaves the fact unknown.
    async fn read_documents(&self, job: &Job, wants: NeededFacts, known: &mut KnownDocuments) {
        let (store, id, attempt) = (self.run.store, &job.job, job.machine_attempt());
        let gang = job.machine().filter(|_| job.terms.is_gang()).and_then(|placed| placed.gang(id));
        if let Some(gang) = gang.as_ref().filter(|_| wants.heartbeat || wants.exit) {
            self.read_gang(gang, known).await;
        }
        // Each node of a gang has documents of its own.
        let is_single = !job.terms.is_gang();
        let head = async { if wants.head && known.head.is_none() { Some(store.read_head(id).await) } else { None } };
        let cancel =
            async { if wants.cancel && known.cancel.is_none() { Some(store.read_cancel(id).await) } else { None } };
        let has_beat = known.heartbeat.is_some_and(|(of, _)| of == attempt);
        let beat = async {
            if is_single && wants.heartbeat && !has_beat { Some(store.read_heartbeat(id, attempt).await) } else { None }
        };
        let has_exit = known.exit.as_ref().is_some_and(|(of, _)| *of == attempt);
        let exit = async {
            if is_single && wants.exit && !has_exit { Some(store.read_exit(id, attempt).await) } else { None }
        };
        let (head, cancel, beat, exit) = Box::pin(join4(head, cancel, beat, exit)).await;
        known.head = self.believe_or_report(known, head).or(known.head.take());
        known.cancel = self.read_or_report(cancel).or(known.cancel.take());
        if wants.extend && known.extend.is_none() {
            known.extend = self.read_or_report(Some(store.read_extend(id).await));
        }
        if let Some(beat) = self.believe_or_report(known, beat) {
            known.heartbeat = Some((attempt, beat.as_ref().map(|beat| beat.at)));
            known.box_report = beat.as_ref().and_then(|beat| Some((attempt, beat.heartbeat.gpu_box.clone()?)));
            let runs = beat.as_ref().is_some_and(|beat| beat.heartbeat.doing == Heartbeat::RUNNING);
            known.command_runs = runs.then_some(attempt).or(known.command_runs);
            let now = self.now();
            let signs =
                beat.as_ref().map(|beat| HeartbeatSigns { attempt, signs: beat.heartbeat.work, at: beat.at, now });
            known.signs = signs.or(known.signs);
            known.warnings.extend(beat.into_iter().flat_map(|beat| beat.heartbeat.warnings).map(|one| (attempt, one)));
        }
        if let Some(exit) = self.believe_or_report(known, exit) {
            let broken = exit.iter().filter(|exit| exit.reason == ExitReason::Broken);
            known.warnings.extend(broken.map(|exit| (attempt, AgentWarning::new(AgentWarningKind::Broken, &exit.why))));
            known.exit = Some((attempt, exit));
        }
    }

    /// Reads a document of a machine, as far as it can be believed. The job's owner is notified why not, rather than the account.
    #[expect(clippy::option_option, reason = "as in `Facts`: whether it was read, and whether there is one")]
    fn believe_or_report<T>(
        &self,
        known: &mut KnownDocuments,
        read: Option<Result<MachineDocument<T>, StoreError>>,
    ) -> Option<Option<T>> {
        let (believed, refused) = self.read_or_report(read)?.into_parts();
        known.refused.extend(refused.map(|why| why.to_string()));
        Some(believed)
    }

    pub(super) fn read_or_report<T>(&self, read: Option<Result<T, StoreError>>) -> Option<T> {
        match read? {
            Ok(value) => Some(value),
            Err(error) => {
                self.gap(error.gap(self.run.cloud.home()));
                None
            }
        }
    }
}
