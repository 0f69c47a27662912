//! Every life of a box within bounds: two jobs that want it, two reconcilers that go round in [`next_home`] one step at a time, machines in two
//! zones that end whenever they like, and EC2 with its volumes and snapshots.
//!
//! Proven, within the bounds, of every reachable state: one machine at most has the home; what it finds there is everything that was written
//! before; the volume that is true is never deleted, nor is the last copy of what was written; and only the holder has a machine. Reconcilers
//! read, write by compare-and-swap, carry out an effect, and pause at each of these, for ever too, as after a crash.
//!
//! Assumed of EC2, by the pages of the calls in its API reference: a token makes one volume; a volume is attached to one machine, in its zone,
//! while that runs; a snapshot holds the volume of the moment of its call; a volume is free some time after its machine is terminated. That the
//! properties can fail is shown by faults put into the world on purpose ([`PlantedFault`]).
#![expect(clippy::unwrap_used, reason = "a test panics where something is not as it must be")]

use jiff::Timestamp;
use jobs::JobId;
use jobs::boxes::{
    BoxMachine, GpuBox, Home, HomeEffect, HomeFacts, HomeSnapshot, HomeState, HomeStep, VolumeSight, next_home,
};
use model::id::ResourceId;
use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];
const JOBS: [&str; 2] = ["vision/up-00000001", "vision/up-00000002"];

/// A world that is wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlantedFault {
    /// The box is given back although its machine still has the volume.
    ReleasedEarly,
    /// A snapshot is said to be of the newest state, whatever it holds.
    NewestSnapshot,
    /// The second attachment of a volume is not refused.
    AttachedTwice,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    gpu_box: GpuBox,
    machines: Vec<Machine>,
    volumes: Vec<Volume>,
    snapshots: Vec<Snapshot>,
    runs: Vec<Run>,
    /// Writes so far: the content of a home is the number of the last one.
    written: u8,
    faults: u8,
    /// Jobs that have had the box.
    taken: u8,
    broken: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Machine {
    job: u8,
    zone: u8,
    state: MachineState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum MachineState {
    Running,
    ShuttingDown,
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Volume {
    number: u32,
    zone: u8,
    content: u8,
    attached: Vec<u8>,
    is_deleted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Snapshot {
    of: HomeState,
    content: u8,
    is_completed: bool,
    is_deleted: bool,
}

/// The next act of a reconciler.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Run {
    Idle,
    /// About to write a home over the box that it read.
    Writing(Box<GpuBox>, Box<Home>),
    /// About to carry this out, for the box that it read.
    Acting(HomeEffect, Box<GpuBox>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Action {
    Take,
    Launch(u8),
    ShutDown(u8),
    Gone(u8),
    Detach(u8),
    Release,
    Write(u8),
    Complete(u8),
    Lose(u8),
    Decide(usize),
    Go(usize),
}

#[derive(Debug, Clone, Copy)]
struct BoxModel {
    planted: Option<PlantedFault>,
    reconcilers: usize,
    machines_max: usize,
    writes_max: u8,
    faults_max: u8,
}

fn id(kind: &str, place: usize) -> ResourceId {
    format!("{kind}-{place}").as_str().into()
}

/// The place that an id names.
fn place(id: &ResourceId) -> usize {
    id.as_str().rsplit_once('-').unwrap().1.parse().unwrap()
}

fn job(number: u8) -> JobId {
    JobId::read(JOBS[usize::from(number)]).unwrap()
}

impl World {
    fn holder(&self) -> Option<u8> {
        let holder = self.gpu_box.holder.as_ref()?;
        (0..2).find(|number| job(*number) == holder.job)
    }

    fn holder_machines(&self) -> impl Iterator<Item = (usize, &Machine)> {
        let holder = self.holder();
        self.machines.iter().enumerate().filter(move |(_, machine)| Some(machine.job) == holder)
    }

    fn facts(&self, planted: Option<PlantedFault>) -> HomeFacts {
        let running = self.holder_machines().find(|(_, machine)| machine.state == MachineState::Running);
        let machine = running.map(|(place, machine)| BoxMachine {
            instance: id("i", place),
            zone: ZONES[usize::from(machine.zone)].to_owned(),
        });
        let last = self.gpu_box.home.volume.as_ref().and_then(|volume| volume.attached_to.as_ref());
        let is_gone = |machine: &ResourceId| self.machines[place(machine)].state == MachineState::Gone;
        let volume = self.gpu_box.home.volume.as_ref().and_then(|volume| volume.id.as_ref()).map(|volume| {
            let volume = &self.volumes[place(volume)];
            match volume.attached.first() {
                _ if volume.is_deleted => VolumeSight::Lost,
                Some(machine) => VolumeSight::InUse(id("i", usize::from(*machine))),
                None => VolumeSight::Available,
            }
        });
        let newest =
            self.gpu_box.home.volume.as_ref().map(|volume| HomeState { volume: volume.number, uses: volume.uses });
        let snapshots =
            self.snapshots.iter().enumerate().filter(|(_, one)| !one.is_deleted).map(|(place, one)| HomeSnapshot {
                id: id("snap", place),
                of: newest.filter(|_| planted == Some(PlantedFault::NewestSnapshot)).unwrap_or(one.of),
                at: Timestamp::from_second(i64::try_from(place).unwrap()).unwrap(),
                completed: one.is_completed,
            });
        HomeFacts {
            machine,
            is_last_machine_gone: last.is_some_and(is_gone),
            volume,
            snapshots: Some(snapshots.collect()),
        }
    }

    fn swap(&mut self, read: &GpuBox, home: Home) {
        if *read == self.gpu_box {
            self.gpu_box.home = home;
        }
    }

    /// Carries an effect out, and answers with the home to be written, if one is.
    fn carry_out(&mut self, effect: &HomeEffect, home: &Home, planted: Option<PlantedFault>) -> Option<Home> {
        match effect {
            HomeEffect::CreateVolume => {
                let wanted = home.volume.as_ref().unwrap();
                let made = self.volumes.iter().position(|volume| volume.number == wanted.number);
                let source = wanted.from.as_ref().map(|from| &self.snapshots[place(from)]);
                if made.is_none() && source.is_some_and(|source| source.is_deleted || !source.is_completed) {
                    self.broken = Some("a volume is made from a whole snapshot");
                }
                let content = source.map_or(0, |source| source.content);
                let zone = u8::try_from(ZONES.iter().position(|zone| *zone == wanted.zone).unwrap()).unwrap();
                let made = made.unwrap_or_else(|| {
                    let number = wanted.number;
                    self.volumes.push(Volume { number, zone, content, attached: Vec::new(), is_deleted: false });
                    self.volumes.len() - 1
                });
                return home.created(wanted.number, id("vol", made), Timestamp::UNIX_EPOCH);
            }
            HomeEffect::Attach { volume, instance } => self.attach(place(volume), place(instance), planted),
            HomeEffect::CreateSnapshot { volume, of } => {
                let volume = &self.volumes[place(volume)];
                if !volume.is_deleted && self.snapshots.len() < 6 {
                    let (content, of) = (volume.content, *of);
                    self.snapshots.push(Snapshot { of, content, is_completed: false, is_deleted: false });
                }
            }
            HomeEffect::DeleteVolume(volume) => {
                let is_true = self.gpu_box.home.volume.as_ref().is_some_and(|home| home.id.as_ref() == Some(volume));
                if is_true || !self.volumes[place(volume)].attached.is_empty() {
                    self.broken = Some("the volume that is true is never deleted");
                }
                self.volumes[place(volume)].is_deleted = true;
                return Some(home.without_replaced(volume));
            }
            HomeEffect::DeleteSnapshot(snapshot) => self.snapshots[place(snapshot)].is_deleted = true,
        }
        None
    }

    fn attach(&mut self, volume: usize, machine: usize, planted: Option<PlantedFault>) {
        let (zone, state) = (self.machines[machine].zone, self.machines[machine].state);
        let attached = &mut self.volumes[volume];
        let is_free = attached.attached.is_empty() || planted == Some(PlantedFault::AttachedTwice);
        if attached.is_deleted || !is_free || attached.zone != zone || state != MachineState::Running {
            return;
        }
        attached.attached.push(u8::try_from(machine).unwrap());
        if attached.content != self.written {
            self.broken = Some("a machine finds everything that was written");
        }
    }
}

impl Model for BoxModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let gpu_box = GpuBox {
            name: "vision/up".to_owned(),
            owner: None,
            region: "us-east-1".into(),
            made_at: Timestamp::UNIX_EPOCH,
            holder: None,
            last_job: None,
            down_since: None,
            home: Home::new(200),
        };
        let (machines, volumes, snapshots) = (Vec::new(), Vec::new(), Vec::new());
        let runs = vec![Run::Idle; self.reconcilers];
        vec![World { gpu_box, machines, volumes, snapshots, runs, written: 0, faults: 0, taken: 0, broken: None }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let places = |count: usize| 0..u8::try_from(count).unwrap();
        match (world.holder(), world.holder_machines().any(|(_, machine)| machine.state != MachineState::Gone)) {
            (None, _) if usize::from(world.taken) < JOBS.len() => actions.push(Action::Take),
            (Some(_), false) => {
                actions.push(Action::Release);
                if world.machines.len() < self.machines_max {
                    actions.extend([Action::Launch(0), Action::Launch(1)]);
                }
            }
            (Some(_), true) if self.planted == Some(PlantedFault::ReleasedEarly) => actions.push(Action::Release),
            (None, _) | (Some(_), true) => {}
        }
        for machine in places(world.machines.len()) {
            match world.machines[usize::from(machine)].state {
                MachineState::Running => actions.push(Action::ShutDown(machine)),
                MachineState::ShuttingDown => actions.push(Action::Gone(machine)),
                MachineState::Gone => {}
            }
        }
        for volume in places(world.volumes.len()) {
            let Volume { attached, is_deleted, .. } = &world.volumes[usize::from(volume)];
            let state = attached.first().map(|machine| world.machines[usize::from(*machine)].state);
            match state {
                // It is being unmounted, and what was not synced still comes.
                Some(MachineState::Running | MachineState::ShuttingDown) if world.written < self.writes_max => {
                    actions.push(Action::Write(volume));
                }
                Some(MachineState::Gone) => actions.push(Action::Detach(volume)),
                None if !is_deleted && world.faults < self.faults_max => actions.push(Action::Lose(volume)),
                _ => {}
            }
        }
        let pending = places(world.snapshots.len()).filter(|one| !world.snapshots[usize::from(*one)].is_completed);
        actions.extend(pending.map(Action::Complete));
        for (place, run) in world.runs.iter().enumerate() {
            match run {
                Run::Idle => actions.push(Action::Decide(place)),
                Run::Writing(..) | Run::Acting(..) => actions.push(Action::Go(place)),
            }
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut world = before.clone();
        match action {
            Action::Take => {
                world.gpu_box = world.gpu_box.taken_by(&job(world.taken), Timestamp::UNIX_EPOCH).ok()?;
                world.taken += 1;
            }
            Action::Release => {
                let holder = job(world.holder()?);
                let released = world.gpu_box.released_by(&holder, Timestamp::UNIX_EPOCH);
                let early = GpuBox { holder: None, ..world.gpu_box.clone() };
                let is_early = self.planted == Some(PlantedFault::ReleasedEarly);
                world.gpu_box = if is_early { released.unwrap_or(early) } else { released? };
            }
            Action::Launch(zone) => {
                world.machines.push(Machine { job: world.holder()?, zone, state: MachineState::Running });
            }
            Action::ShutDown(machine) => world.machines[usize::from(machine)].state = MachineState::ShuttingDown,
            Action::Gone(machine) => world.machines[usize::from(machine)].state = MachineState::Gone,
            Action::Detach(volume) => drop(world.volumes[usize::from(volume)].attached.remove(0)),
            Action::Write(volume) => {
                world.written += 1;
                world.volumes[usize::from(volume)].content = world.written;
            }
            Action::Complete(snapshot) => world.snapshots[usize::from(snapshot)].is_completed = true,
            Action::Lose(volume) => {
                // As by reap-volumes: a snapshot of all that is in it is there.
                let content = world.volumes[usize::from(volume)].content;
                let is_kept = |one: &Snapshot| one.is_completed && !one.is_deleted && one.content == content;
                world.snapshots.iter().find(|one| is_kept(one))?;
                world.volumes[usize::from(volume)].is_deleted = true;
                world.faults += 1;
            }
            Action::Decide(run) => {
                let read = Box::new(world.gpu_box.clone());
                world.runs[run] = match next_home(&read.home, &world.facts(self.planted)) {
                    HomeStep::Write(home) => Run::Writing(read, home),
                    HomeStep::Effect(effect) => Run::Acting(effect, read),
                    HomeStep::Wait(_) | HomeStep::Attached | HomeStep::Rests => return None,
                };
            }
            Action::Go(run) => match std::mem::replace(&mut world.runs[run], Run::Idle) {
                Run::Idle => return None,
                Run::Writing(read, home) => world.swap(&read, *home),
                Run::Acting(effect, read) => {
                    let answer = world.carry_out(&effect, &read.home, self.planted);
                    world.runs[run] = answer.map_or(Run::Idle, |home| Run::Writing(read, Box::new(home)));
                }
            },
        }
        Some(world)
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.snapshots.len() <= 4 && world.volumes.len() <= 3
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one machine at most has the home", |_: &Self, world: &World| {
                world.volumes.iter().map(|volume| volume.attached.len()).sum::<usize>() <= 1
            }),
            Property::always("one machine at most is there", |_: &Self, world: &World| {
                world.machines.iter().filter(|machine| machine.state != MachineState::Gone).count() <= 1
            }),
            Property::always("nothing breaks", |_: &Self, world: &World| world.broken.is_none()),
            Property::always("what was written is somewhere", |_: &Self, world: &World| {
                let in_volume = world.volumes.iter().any(|one| !one.is_deleted && one.content == world.written);
                let in_snapshot = world.snapshots.iter().any(|one| !one.is_deleted && one.content == world.written);
                world.written == 0 || in_volume || in_snapshot
            }),
            Property::sometimes("a home moves, with everything in it", |_: &Self, world: &World| {
                world.written > 0
                    && world
                        .volumes
                        .iter()
                        .any(|one| one.number > 1 && one.content == world.written && !one.attached.is_empty())
            }),
            Property::sometimes("what was replaced is deleted", |_: &Self, world: &World| {
                world.volumes.iter().any(|one| one.is_deleted) && world.faults == 0
            }),
        ]
    }
}

/// What is found in all lives within these bounds: properties that do not hold, and those that were to be seen.
fn explore(model: BoxModel) -> Found {
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{model:?}: {} states", checker.unique_state_count());
    let mut found = Found::default();
    for (name, path) in checker.discoveries() {
        let is_seen = checker.model().property(name).expectation == Expectation::Sometimes;
        let path = if is_seen { Vec::new() } else { path.into_actions() };
        if is_seen { &mut found.seen } else { &mut found.broken }.push((name, path));
    }
    found
}

#[derive(Debug, Default)]
struct Found {
    broken: Vec<(&'static str, Vec<Action>)>,
    seen: Vec<(&'static str, Vec<Action>)>,
}

#[test]
fn every_life_of_a_box() {
    for (reconcilers, machines_max, writes_max, faults_max) in [(1, 2, 2, 1), (2, 1, 1, 0)] {
        let found = explore(BoxModel { planted: None, reconcilers, machines_max, writes_max, faults_max });
        assert!(found.broken.is_empty(), "not so: {:#?}", found.broken);
        assert_eq!(found.seen.len(), if machines_max > 1 { 2 } else { 0 }, "seen: {:?}", found.seen);
    }
}

/// More of the same, optimised.
#[test]
#[ignore = "minutes; make simulate-model runs it"]
fn simulate_two_reconcilers() {
    for (reconcilers, machines_max, writes_max, faults_max) in [(1, 3, 2, 1), (2, 2, 1, 0)] {
        let found = explore(BoxModel { planted: None, reconcilers, machines_max, writes_max, faults_max });
        assert!(found.broken.is_empty(), "not so: {:#?}", found.broken);
    }
}

#[test]
fn planted_faults_are_found() {
    let planted = [
        (PlantedFault::ReleasedEarly, (1, 2), "one machine at most is there"),
        (PlantedFault::NewestSnapshot, (1, 3), "nothing breaks"),
        (PlantedFault::AttachedTwice, (2, 1), "one machine at most has the home"),
    ];
    for (planted, (reconcilers, machines_max), property) in planted {
        let model = BoxModel { planted: Some(planted), reconcilers, machines_max, writes_max: 2, faults_max: 0 };
        let found = explore(model);
        assert!(found.broken.iter().any(|(name, _)| *name == property), "{planted:?}: {:?}", found.broken);
    }
}
