//! One account: a seed's owners, faults, configurations and runs, hour by hour.

use std::collections::BTreeMap;
use std::rc::Rc;

use model::config::Config;
use model::id::{Region, ResourceId};
use model::mode::Mode;
use model::notification_log::NotificationLog;
use model::volume::{SNAPSHOT_DESCRIPTION_BEGINS, Snapshot, Volume};
use notify::Message;
use plan::report::StepOutcome;
use plan::{Plan, Skipped, Step};

use crate::adversary::{Adversary, Attack};
use crate::chance::{DAY, HOUR, RandomStream, stamp};
use crate::driver::debug_action;
use crate::fault::Fault;
use crate::faults::FaultInjector;
use crate::oracle::{InvariantOracle, UndoCommand};
use crate::outcomes::{ACTIONS, SPARED};
use crate::owners::{Behaviour, Owners};
use crate::schedule::{self, Scheduled};
use crate::session::Facts;
use crate::settings::SimulatedConfig;
use crate::tally::AccountSummary;
use crate::world::{SimulatedVolume, SimulatedWorld};

/// Monday, 2026-01-05.
const EPOCH: i64 = 1_767_571_200;

pub(crate) struct SimulatedAccount {
    pub(crate) world: SimulatedWorld,
    pub(crate) regions: usize,
    /// The bucket: documents with their versions.
    pub(crate) notices: BTreeMap<Region, (u64, NotificationLog)>,
    pub(crate) faults: FaultInjector,
    pub(crate) oracle: InvariantOracle,
    pub(crate) settings: Rc<SimulatedConfig>,
    /// The structure of the document.
    pub(crate) config: Rc<Config>,
    pub(crate) ceiling: Mode,
    pub(crate) clock: i64,
    pub(crate) runs: u64,
    pub(crate) owners: RandomStream,
    adversary: RandomStream,
    fleet: usize,
    next_edit: i64,
    /// The longest between two edits of the configuration.
    edited_within: i64,
    /// The lists of an hour ago.
    pub(crate) an_hour_ago: (Vec<Volume>, Vec<Snapshot>),
    looked_at: i64,
    undos: Vec<(i64, UndoCommand)>,
    /// Volumes whose owners were just notified of an announcement.
    warned: Vec<usize>,
    behaviours: Vec<u64>,
    attacks: Vec<u64>,
    actions: Vec<u64>,
    spared: Vec<u64>,
    messages: u64,
    /// Writes of logs that another run won.
    pub(crate) lost_swaps: u64,
    verbosity: u8,
}

/// How long a seed's account lasts.
pub(crate) fn days_of(seed: u64) -> u64 {
    u64::try_from(RandomStream::from_seed(seed, 0).between(60, 180)).unwrap_or(60)
}

pub(crate) fn live(seed: u64, days: u64, verbosity: u8) -> AccountSummary {
    let hours = i64::try_from(days).unwrap_or(0) * 24;
    let account = schedule::live(SimulatedAccount::from_seed(seed, verbosity), hours);
    AccountSummary {
        seed,
        days,
        runs: account.runs,
        messages: account.messages,
        lost_swaps: account.lost_swaps,
        faults: account.faults.counts().to_vec(),
        behaviours: account.behaviours,
        attacks: account.attacks,
        actions: account.actions,
        spared: account.spared,
        violations: account.oracle.violations,
    }
}

impl Scheduled for SimulatedAccount {
    const RUN_LATE_MAX: i64 = 3000;

    fn begin_tick(&mut self) {
        self.an_hour_ago = self.lists();
        self.clock += HOUR;
        let now = self.clock;
        self.faults.update_bursts(now);
        if self.world.settle(now) {
            self.faults.count(Fault::SnapshotFailed, now);
        }
        self.edit_configuration();
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is of one lifetime, and not of any")]
        self.owners_live(now, |owners| owners.live());
        self.adversary_attacks(now, None);
        self.follow_advice();
        self.undo();
        if self.faults.occurs(Fault::LogLost, now) {
            self.notices.clear();
            self.oracle.notices_are_lost(now);
            self.log(|| "the notification log is lost".to_owned());
        }
    }

    fn begin_run(&mut self, now: i64) {
        self.looked_at = now;
    }

    fn end_tick(&mut self) {
        self.oracle.last_fault = self.faults.last_at;
        self.oracle.last_forgotten = self.faults.forgotten_at;
        let Self { oracle, world, settings, ceiling, clock, .. } = self;
        oracle.watch(world, settings, *ceiling, *clock);
    }

    fn meddle(&mut self, interfered: &[ResourceId]) {
        let places: Vec<usize> = interfered.iter().filter_map(|id| self.world.disk(id.as_str())).collect();
        if !places.is_empty() && self.adversary.one_in(16) {
            let place = places[self.adversary.below(places.len())];
            self.adversary_attacks(self.looked_at + 1, Some(place));
        }
        if places.is_empty() || !self.owners.one_in(8) {
            return;
        }
        let place = places[self.owners.below(places.len())];
        let now = self.looked_at + 1;
        self.owners_live(now, |owners| owners.meddle(place));
    }
}

impl SimulatedAccount {
    fn from_seed(seed: u64, verbosity: u8) -> Self {
        let mut owners = RandomStream::from_seed(seed, 1);
        let settings = Rc::new(SimulatedConfig::draw(&mut owners));
        let now = EPOCH + owners.between(0, 365) * DAY;
        let fleet = owners.below(16) + 2;
        let edited_within = owners.pick(&[3 * DAY, 10 * DAY, 50 * DAY]);
        let account = Self {
            world: SimulatedWorld::default(),
            regions: if owners.one_in(3) { 2 } else { 1 },
            notices: BTreeMap::new(),
            faults: FaultInjector::from_seed(seed),
            oracle: InvariantOracle::default(),
            config: config(&settings),
            settings,
            ceiling: Mode::Enforce,
            clock: now,
            runs: 0,
            fleet,
            next_edit: now + owners.between(HOUR, edited_within),
            edited_within,
            owners,
            an_hour_ago: (Vec::new(), Vec::new()),
            looked_at: now,
            undos: Vec::new(),
            warned: Vec::new(),
            behaviours: vec![0; Behaviour::ALL.len()],
            adversary: RandomStream::from_seed(seed, 4),
            attacks: vec![0; Attack::ALL.len()],
            actions: vec![0; ACTIONS.len()],
            spared: vec![0; SPARED.len()],
            messages: 0,
            lost_swaps: 0,
            verbosity,
        };
        account.log(|| format!("the fault_level is {:?}", account.faults.fault_level));
        account
    }

    /// What the lists of EC2 show.
    pub(crate) fn lists(&self) -> (Vec<Volume>, Vec<Snapshot>) {
        let disks = self.world.disks.iter().filter(|disk| disk.is_listed());
        let snaps = self.world.snaps.iter().filter(|snap| snap.exists());
        let described = snaps.filter(|snap| snap.ec2.description.starts_with(SNAPSHOT_DESCRIPTION_BEGINS));
        (disks.map(|disk| disk.ec2.clone()).collect(), described.map(|snap| snap.ec2.clone()).collect())
    }

    fn edit_configuration(&mut self) {
        if self.clock < self.next_edit {
            return;
        }
        self.next_edit = self.clock + self.owners.between(HOUR, self.edited_within);
        self.oracle.configured_at = self.clock;
        if self.owners.one_in(5) || self.ceiling == Mode::Observe {
            let observes = self.ceiling == Mode::Observe;
            self.ceiling = if observes { Mode::Enforce } else { Mode::Observe };
            self.next_edit = self.clock + self.owners.between(HOUR, 8 * DAY);
            self.log(|| "CURFEW_MODE is toggled".to_owned());
        } else {
            let mut settings = SimulatedConfig::clone(&self.settings);
            settings.edit(&mut self.owners);
            self.config = config(&settings);
            self.settings = Rc::new(settings);
            let text = self.settings.toml().replace('\n', " ");
            self.log(|| format!("configured {text}"));
        }
    }

    fn owners_live(&mut self, now: i64, live: impl FnOnce(&mut Owners<'_>)) {
        let Self { world, owners, behaviours, verbosity, regions, fleet, looked_at, .. } = self;
        let mut did = |behaviour: Behaviour, id: &str| {
            behaviours[behaviour as usize] += 1;
            if *verbosity > 0 {
                println!("{} {id}: people: {}", stamp(now), behaviour.as_str());
            }
        };
        let (regions, fleet, looked_at) = (*regions, *fleet, *looked_at);
        live(&mut Owners { world, regions, fleet, chance: owners, now, looked_at, did: &mut did });
    }

    /// `volume`: one that a run is about to change.
    fn adversary_attacks(&mut self, now: i64, volume: Option<usize>) {
        let Self { world, adversary, attacks, verbosity, .. } = self;
        let mut did = |attack: Attack, id: &str| {
            attacks[attack as usize] += 1;
            if *verbosity > 0 {
                println!("{} {id}: the adversary: {}", stamp(now), attack.as_str());
            }
        };
        let mut adversary = Adversary { world, chance: adversary, now, did: &mut did };
        match volume {
            Some(place) => adversary.attack_volume(place),
            None => adversary.live(),
        }
    }

    /// Some owners follow a message's advice to keep a volume.
    fn follow_advice(&mut self) {
        let now = self.clock;
        for place in std::mem::take(&mut self.warned) {
            let disk = &mut self.world.disks[place];
            let behaviour = match self.owners.below(16) {
                0 | 1 => {
                    disk.says.kept_until = Some(now + self.owners.between(HOUR, 8 * DAY));
                    Behaviour::KeepUntil
                }
                2 => {
                    disk.says.protected = true;
                    Behaviour::Protect
                }
                _ => continue,
            };
            if !disk.exists() {
                continue;
            }
            disk.retag(now);
            self.behaviours[behaviour as usize] += 1;
            let id = disk.id().to_owned();
            self.log(|| format!("{id}: its subscribers were notified: {}", behaviour.as_str()));
        }
    }

    /// A person runs the command of a message.
    fn undo(&mut self) {
        let now = self.clock;
        let Some(place) = self.undos.iter().position(|(at, _)| *at <= now) else { return };
        let (_, undo) = self.undos.swap_remove(place);
        let Some(source) = self.world.snap(&undo.snapshot) else { return };
        if !self.world.snaps[source].is_whole() {
            return;
        }
        let gone = &self.world.disks[undo.disk];
        let number = self.world.disks.len();
        let mut disk = SimulatedVolume::new(number, 1, gone.says.clone(), now, &mut self.owners);
        disk.keeper = None;
        disk.source = Some(source);
        disk.snapshot_takes = gone.snapshot_takes;
        disk.ec2 = Volume {
            id: disk.ec2.id,
            created_at: stamp(now),
            from_snapshot: Some(undo.snapshot.as_str().into()),
            ..undo.volume
        };
        self.log(|| format!("{} is restored as {}", self.world.disks[undo.disk].id(), disk.id()));
        self.behaviours[Behaviour::Undo as usize] += 1;
        self.world.disks.push(disk);
    }

    /// A colleague attaches a volume between the second read and the call.
    pub(crate) fn attach_at_the_call(&mut self, place: usize, now: i64) {
        if !self.owners.one_in(20) {
            return;
        }
        self.behaviours[Behaviour::AttachAtTheCall as usize] += 1;
        self.oracle.meddled_at_the_call = now;
        self.owners_live(now, |owners| owners.attach(place));
    }

    /// A message was delivered.
    pub(crate) fn deliver_message(&mut self, message: &Message, facts: &Facts) {
        self.messages += 1;
        if self.verbosity > 0 {
            println!("{} told {}: {}", stamp(facts.now), message.team, message.body.replace('\n', "\n    "));
        }
        self.oracle.last_fault = self.faults.last_at;
        let of_announcements = message.body.split("\n\n").filter(|paragraph| paragraph.contains(" It will be "));
        let ids = of_announcements.filter_map(|paragraph| Some(paragraph.split_once(" (")?.0));
        self.warned.extend(ids.filter_map(|id| self.world.disk(id)));
        for undo in self.oracle.check_message(message, &self.world, facts) {
            if self.owners.one_in(5) {
                self.undos.push((facts.now + self.owners.between(HOUR, 8 * DAY), undo));
            }
        }
    }

    /// A run finished.
    pub(crate) fn ran(&mut self, facts: &Facts) {
        self.oracle.last_fault = self.faults.last_at;
        self.oracle.ran(facts, &self.world, &self.notices);
    }

    pub(crate) fn log_step(&mut self, step: &Step, outcome: &StepOutcome) {
        if let Some(place) = ACTIONS.iter().position(|name| *name == crate::outcomes::name_of(step)) {
            self.actions[place] += u64::from(outcome.kind == plan::report::OutcomeKind::Done);
        }
        self.log(|| {
            let (Step { target, evidence, mode, .. }, action) = (step, debug_action(step));
            format!("{} {action:?} for {} in {mode:?}: {outcome:?}", target.resource, evidence.rule())
        });
    }

    pub(crate) fn log_skipped(&mut self, plan: &Plan) {
        for Skipped { target, reason, .. } in &plan.skipped {
            if let Some(place) = SPARED.iter().position(|one| one == reason) {
                self.spared[place] += 1;
            }
            if self.verbosity > 1 {
                println!("{} {} is spared: {reason:?}", stamp(self.clock), target.resource);
            }
        }
    }

    pub(crate) fn log(&self, what: impl FnOnce() -> String) {
        if self.verbosity > 0 {
            println!("{} {}", stamp(self.clock), what());
        }
    }
}

/// The document is written by the simulation: a refusal is a defect of its own.
fn config(settings: &SimulatedConfig) -> Rc<Config> {
    match Config::read(&settings.toml()) {
        Ok(config) => Rc::new(config),
        Err(error) => unreachable!("{error}"),
    }
}
