//! EC2, S3 and an agent, as far as a job meets them, with what goes wrong: drawn by chance from a seed.

use std::collections::BTreeMap;

use model::instance::InstanceState;
use model::money::{Amount, Rate};

use super::fixture::*;
use crate::*;

/// Terminated instances stay visible for about so long.
const VISIBLE: i64 = HOUR;

#[expect(clippy::struct_excessive_bools, reason = "each goes wrong by itself")]
pub(super) struct JobWorld {
    pub(super) now: i64,
    pub(super) job: Job,
    pub(super) machines: Vec<WorldMachine>,
    /// Whether anything goes wrong.
    pub(super) faults: bool,
    chance: fastrand::Rng,
    asked: BTreeMap<String, LaunchRequest>,
    head: Option<Head>,
    cancelled: bool,
    observing: bool,
    /// How many commands have failed.
    failures: u32,
    /// Nowhere is there any capacity.
    drought: bool,
    log: Vec<String>,
}

pub(super) struct WorldMachine {
    id: String,
    token: String,
    attempt: u32,
    launched_at: i64,
    /// Its own timer ends it then.
    ends_at: i64,
    warned_at: Option<i64>,
    candidate: Candidate,
    /// When its heartbeats stopped; it may never have sent one.
    last_heartbeat_lost_at: Option<i64>,
    ended: Option<(i64, &'static str)>,
}

impl WorldMachine {
    fn runs(&self) -> bool {
        self.ended.is_none()
    }

    /// When it ends at the latest, and why: EC2 takes back what it has warned, and its own timer ends it.
    fn end(&self) -> (i64, &'static str) {
        let ends_at = self.ends_at.max(self.launched_at);
        let by_itself = match self.warned_at.map(|at| at + 2 * MINUTE) {
            Some(at) if at < ends_at => (at, "Server.SpotInstanceTermination"),
            _ => (ends_at, "Client.InstanceInitiatedShutdown"),
        };
        self.ended.unwrap_or(by_itself)
    }

    fn seconds(&self) -> u64 {
        u64::try_from(self.end().0 - self.launched_at).unwrap_or(0)
    }

    /// What it cost at most. One that EC2 never brought up has transferred no checkpoint.
    fn usd(&self) -> Amount {
        let Candidate { rate_max, transfer, .. } = self.candidate;
        let transfer = transfer.filter(|_| self.seconds() > 0);
        let rate = rate_max + transfer.map(|one| one.usd_per_hour).unwrap_or_default();
        Amount::from_rate(rate, self.seconds()) + transfer.map(|one| one.usd_per_machine).unwrap_or_default()
    }
}

/// Where a run of the reconciler stopped short.
struct Crash;

impl JobWorld {
    pub(super) fn new(seed: u64) -> Self {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut job = submitted().job;
        job.terms.max_runtime_seconds = chance.i64(15 * MINUTE..12 * HOUR);
        job.terms.max_usd = chance.bool().then(|| Amount::from_usd(0.25 + 20.0 * chance.f64()));
        job.terms.bucket_region = (seed % 2 == 1).then(|| "us-west-2".into());
        job.terms.retries = chance.u32(0..4);
        job.terms.finish_by = chance.bool().then(|| noon_plus(chance.i64(HOUR..48 * HOUR)));
        Self {
            now: 0,
            job,
            machines: Vec::new(),
            faults: true,
            chance,
            asked: BTreeMap::new(),
            head: None,
            cancelled: false,
            observing: false,
            failures: 0,
            drought: false,
            log: Vec::new(),
        }
    }

    /// In every other world the checkpoints of the second candidate go to another region.
    fn ranking(&self) -> Ranking {
        let mut ranking = ranking(noon_plus(self.now));
        ranking.candidates[1].transfer = self.job.terms.bucket_region.as_ref().map(|_| TransferCost {
            usd_per_hour: Rate::from_usd_micros_per_hour(300_000),
            usd_per_machine: Amount::from_usd(0.2),
        });
        ranking
    }

    fn happens(&mut self, percent: u32) -> bool {
        self.faults && self.chance.u32(0..100) < percent
    }

    /// Some time passes, and the reconciler runs.
    pub(super) fn live(&mut self) {
        self.now += if self.happens(5) { self.chance.i64(0..6 * HOUR) } else { self.chance.i64(20..5 * MINUTE) };
        self.observing = self.happens(3) || (self.observing && self.happens(80));
        self.drought = self.happens(1) || (self.drought && self.happens(95));
        self.cancelled |= self.faults && self.chance.u32(0..5_000) == 0;
        let mut warned = None;
        for number in 0..self.machines.len() {
            self.end_by_time(number);
            if !self.machines[number].runs() {
                continue;
            }
            let fault = if self.faults { self.chance.u32(0..100) } else { 100 };
            if fault < 3 {
                self.machines[number].warned_at.get_or_insert(self.now);
                warned = Some(self.machines[number].id.clone());
            } else if fault < 4 {
                let reasons = ["Server.SpotInstanceTermination", "Client.InstanceInitiatedShutdown", "Client.Strange"];
                self.machines[number].ended = Some((self.now, reasons[self.chance.usize(0..3)]));
            } else if fault < 5 {
                self.machines[number].last_heartbeat_lost_at.get_or_insert(self.now);
            } else if fault < 15 {
                self.checkpoint(number);
            } else if fault < 16 && self.job.terms.retries > 0 {
                self.fail(number);
            }
        }
        // A warning may be lost, and come late, again, and of a machine before.
        if self.happens(20) {
            let mut all = self.machines.iter().filter(|machine| machine.warned_at.is_some());
            warned = all.next().map(|machine| machine.id.clone());
        }
        if !self.happens(30) {
            let _ = self.reconcile(warned.as_deref());
        }
    }

    fn end_by_time(&mut self, number: usize) {
        let machine = &mut self.machines[number];
        let (at, reason) = machine.end();
        if machine.runs() && at <= self.now {
            machine.ended = Some((at, reason));
        }
    }

    /// The fence, if that machine may write it.
    fn claim_head(&mut self, number: usize) -> Option<&mut Head> {
        let WorldMachine { attempt, token, .. } = &self.machines[number];
        let head = self.head.get_or_insert_default();
        if !head.admits(*attempt, token, self.asked[token].retry_of) {
            return None;
        }
        head.claim(*attempt, token);
        Some(head)
    }

    fn checkpoint(&mut self, number: usize) {
        if let Some(head) = self.claim_head(number) {
            let step = head.checkpoint.map_or(0, |checkpoint| checkpoint.step) + 1;
            head.checkpoint = Some(Checkpoint { attempt: head.attempt, step, rewrite: 0 });
        }
    }

    /// Its command fails; one machine in two does not shut down.
    fn fail(&mut self, number: usize) {
        let at = noon_plus(self.now);
        if let Some(head) = self.claim_head(number) {
            head.result = Some(HeadResult { succeeded: false, code: Some(1), why: String::new(), at, is_final: false });
            self.failures += 1;
            self.machines[number].ended = self.chance.bool().then_some((self.now, "Client.InstanceInitiatedShutdown"));
        }
    }

    /// Drives the product's loop, which may stop short at each step.
    fn reconcile(&mut self, warned: Option<&str>) -> Result<(), Crash> {
        let now = noon_plus(self.now);
        let mut next = Reconciliation::begin(Box::new(self.job.clone()), warned.map(Into::into));
        for _ in 0..200 {
            next = match next {
                Reconciliation::Observe(decision) => {
                    let facts = self.observe(decision.needed_facts(now));
                    decision.decide(facts, now)
                }
                Reconciliation::Write(decided) => {
                    self.may_crash()?;
                    self.job = decided.job().as_ref().clone();
                    self.log.push(format!("{now} {}", line(&self.job, decided.effects())));
                    decided.written()
                }
                Reconciliation::CarryOut(effect, owed) => {
                    self.may_crash()?;
                    let answer = self.act(&effect)?;
                    owed.carried_out(answer)
                }
                Reconciliation::Done(_) => return Ok(()),
                other => panic!("no other run writes the state: {other:?}"),
            };
        }
        panic!("no end of rounds: {:#?}", self.log)
    }

    fn may_crash(&mut self) -> Result<(), Crash> {
        if self.happens(4) { Err(Crash) } else { Ok(()) }
    }

    /// What is asked for; of that, anything may be unknown.
    fn observe(&mut self, needed: NeededFacts) -> JobFacts {
        let machine = self.job.machine().map(|placed| placed.instance.to_string());
        let previous_attempt = self.job.previous_attempt.as_ref().map(|placed| placed.instance.to_string());
        let beat = machine.as_ref().and_then(|id| self.machines.iter().find(|one| one.id == *id)).map(|machine| {
            let (ended_at, _) = machine.ended.unwrap_or((self.now, ""));
            let last = ended_at.min(machine.last_heartbeat_lost_at.unwrap_or(i64::MAX)).min(self.now);
            (last > machine.launched_at + MINUTE).then(|| noon_plus(last))
        });
        let head = self.head.clone();
        let cancel = self.cancelled.then(|| CancelRequest { at: noon_plus(self.now), by: None });
        JobFacts {
            may_act: !self.observing,
            no_progress_attempts_max: 3,
            machine: if needed.machine { self.sight(machine.as_deref()) } else { MachineSight::Unknown },
            previous_attempt: if needed.previous_attempt {
                self.sight(previous_attempt.as_deref())
            } else {
                MachineSight::Unknown
            },
            head: (needed.head && !self.happens(5)).then_some(head),
            heartbeat: beat.filter(|_| needed.heartbeat && !self.happens(5)),
            exit: (needed.exit && !self.happens(5)).then_some(None),
            cancel: (needed.cancel && !self.happens(5)).then_some(cancel),
            ..JobFacts::default()
        }
    }

    fn sight(&mut self, id: Option<&str>) -> MachineSight {
        if self.happens(5) {
            return MachineSight::Unknown;
        }
        let Some(machine) = self.machines.iter().find(|machine| Some(machine.id.as_str()) == id) else {
            return MachineSight::Absent;
        };
        let is_new = self.now - machine.launched_at < 5 * MINUTE;
        let (state, reason) = match machine.ended {
            None => (InstanceState::Running, None),
            Some((at, _)) if self.now - at > VISIBLE => return MachineSight::Absent,
            Some((_, reason)) => (InstanceState::Terminated, Some(reason.to_owned())),
        };
        if is_new && self.happens(20) { MachineSight::Absent } else { MachineSight::Seen { state, reason } }
    }

    fn act(&mut self, effect: &Effect) -> Result<Option<EffectResult>, Crash> {
        let answer = match effect {
            Effect::Rank if self.happens(5) => EffectResult::Ranked(Err(LaunchObstacle::new("no price"))),
            Effect::Rank => EffectResult::Ranked(Ok(self.ranking())),
            Effect::Reserve { .. } if self.happens(5) => {
                EffectResult::Reserved(ReserveResult::Refused("spent".to_owned()))
            }
            Effect::Reserve { .. } => EffectResult::Reserved(ReserveResult::Granted),
            Effect::Launch(launch) => EffectResult::Launched(self.launch(launch)),
            Effect::Terminate(placed) => {
                let done = !self.happens(10);
                let machine = self.machines.iter_mut().find(|machine| placed.instance.as_str() == machine.id);
                if let Some(machine) = machine.filter(|machine| done && machine.runs()) {
                    machine.ended = Some((self.now, "Client.UserInitiatedShutdown"));
                }
                EffectResult::Terminated
            }
            Effect::Release(_) => EffectResult::Released(!self.happens(10)),
            Effect::MakeGroup(group) => EffectResult::GroupMade(group.clone()),
            Effect::DeleteGroup(group) => EffectResult::GroupDeleted(group.clone()),
            Effect::Settle(_) | Effect::Forget | Effect::Record(_) => return Ok(None),
        };
        // The effect is done, and its result is lost.
        self.may_crash()?;
        Ok(Some(answer))
    }

    fn launch(&mut self, launch: &LaunchRequest) -> LaunchResult {
        let whole = LaunchRequest { only_find: false, ..launch.clone() };
        let before = self.asked.insert(launch.token.clone(), whole.clone());
        assert!(before.is_none_or(|before| before == whole), "a token with other words: {:#?}", self.log);
        let known = self.machines.iter().position(|machine| machine.token == launch.token);
        if known.is_none() && launch.only_find {
            return LaunchResult::NoCapacity("nothing is there".to_owned());
        }
        if known.is_none() && self.happens(10) {
            return LaunchResult::Unknown("it never arrived".to_owned());
        }
        if known.is_none() && (self.drought || self.happens(30)) {
            return LaunchResult::NoCapacity("no capacity".to_owned());
        }
        if known.is_none() && self.happens(10) {
            return LaunchResult::Quota("too many".to_owned(), None);
        }
        let number = known.unwrap_or_else(|| self.begin(launch));
        if self.happens(10) {
            return LaunchResult::Unknown("it was launched, and the answer was lost".to_owned());
        }
        let machine = &self.machines[number];
        LaunchResult::Launched {
            instance: machine.id.as_str().into(),
            members: Vec::new(),
            launched_at: noon_plus(machine.launched_at),
        }
    }

    fn begin(&mut self, launch: &LaunchRequest) -> usize {
        // Those of the same moment have not ended by their own clocks yet.
        (0..self.machines.len()).for_each(|number| self.end_by_time(number));
        let others = self.machines.iter().filter(|machine| machine.runs() && machine.warned_at.is_none());
        let others: Vec<&str> = others.map(|machine| machine.id.as_str()).collect();
        assert!(others.is_empty(), "two at once, {others:?}: {:#?}", self.log);
        let last_heartbeat_lost_at = self.happens(5).then_some(self.now);
        let ended = self.happens(5).then_some((self.now, "Server.InsufficientInstanceCapacity"));
        self.machines.push(WorldMachine {
            id: format!("i-{}", self.machines.len() + 1),
            token: launch.token.clone(),
            attempt: launch.attempt,
            launched_at: self.now,
            ends_at: launch.ends_at.as_second() - noon_plus(0).as_second(),
            warned_at: None,
            candidate: launch.candidate.clone(),
            last_heartbeat_lost_at,
            ended,
        });
        self.machines.len() - 1
    }

    /// What all machines took, and took at most.
    pub(super) fn judge_limits(&self) {
        let seconds: u64 = self.machines.iter().map(WorldMachine::seconds).sum();
        let usd: Amount = self.machines.iter().map(WorldMachine::usd).sum();
        let max = u64::try_from(self.job.terms.max_runtime_seconds).unwrap();
        assert!(seconds <= max, "{seconds} of {max} seconds: {:#?}", self.log);
        assert!(self.job.terms.max_usd.is_none_or(|max| usd <= max), "{usd}: {:#?}", self.log);
        let finish_by = self.job.terms.finish_by.map_or(i64::MAX, |by| by.as_second() - noon_plus(0).as_second());
        let retried = self.job.retries.used;
        assert!(
            retried <= self.failures.min(self.job.terms.retries),
            "{retried} of {}: {:#?}",
            self.failures,
            self.log
        );
        assert!(self.machines.iter().all(|one| one.ends_at <= finish_by), "past {finish_by}: {:#?}", self.log);
    }

    pub(super) fn log(&self) -> &[String] {
        &self.log
    }

    pub(super) fn running(&self) -> usize {
        self.machines.iter().filter(|machine| machine.runs()).count()
    }
}
