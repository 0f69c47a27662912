//! Every life of a gang within bounds: the members of one launch, or of two stray launches of one attempt, which go round in [`next_gang_step`] one
//! step at a time, and S3.
//!
//! Proven, within the bounds, of every reachable state: a command starts only where all nodes are ready and whole; head names no step without the
//! manifests of all nodes, and a whole step is never left unnamed by those that live; a result has the exits of all nodes, and none of it is the
//! failure of a lost machine; at most one launch goes past the fence; after the stop for a loss no exit is a failure; every machine that lives ends
//! in the end. A member lists, pauses as long as it likes, and then writes on the condition of that write. Agents restart at any
//! point, machines vanish, and AWS warns; of three members only the last one, because none leads.
//!
//! Assumed: a LIST shows every finished PUT, and a conditional PUT has one winner (Amazon S3 user guide, "Data consistency model", "Conditional
//! writes"). Time is coarse: ten minutes pass at once, in which each live agent beats. That the properties can fail is shown by
//! [`PlantedFault`].
#![expect(clippy::unwrap_used, reason = "a test panics where something is not as it must be")]

use std::collections::BTreeMap;

use jiff::Timestamp;
use jobs::checkpoints::{Manifest, ManifestFile};
use jobs::node_gang::{
    DocumentSight, GangCheckpoint, GangLaunch, GangListing, GangMember, GangRound, GangStep, GangStop, Listed, Node,
    NodeEnded, NodeExit, NodeExitReason, NodeManifest, NodeReady, NodeWork, OwnEnding, OwnNode, StepCompleteness,
    committed, gang_result, next_gang_step, step_is_complete,
};
use jobs::{Checkpoint, Head, JobId};
use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

const ATTEMPT: u32 = 2;
const TICKS_MAX: u8 = 3;

/// A world that is wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlantedFault {
    /// A member takes every launch of its attempt in head for its own.
    FenceWithoutLaunch,
    /// The first exit is the result.
    ResultByFirstExit,
    /// Only node 0 names steps in head.
    CommitByNodeZero,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    ticks: u8,
    head: Head,
    launches: Vec<Launch>,
    faults: u8,
    broken: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Launch {
    listing: GangListing,
    members: Vec<Member>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Member {
    state: MemberState,
    work: NodeWork,
    ending: Option<OwnEnding>,
    /// Number of steps whose part it has put.
    parts: u8,
    pending: Option<Pending>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum MemberState {
    Alive,
    /// Its machine is gone, without another word.
    Lost,
    Left,
}

/// A write that was decided by a LIST, and is on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Pending {
    Swap(Box<Head>, Box<Head>),
    Round(u32, GangRound),
    Stop(GangStop),
    Exit(NodeExit),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Action {
    Decide(usize, Node),
    Go(usize, Node),
    Restored(usize, Node, bool),
    Ends(usize, Node, i32),
    Upload(usize, Node),
    Warn(usize, Node),
    Crash(usize, Node),
    Lose(usize, Node),
    Tick,
}

#[derive(Debug, Clone, Copy)]
struct GangModel {
    planted: Option<PlantedFault>,
    nodes: Node,
    launches: usize,
    steps_max: u8,
    faults_max: u8,
    /// `true` if ten minutes may pass at any moment, and not only where all wait.
    is_slow: bool,
}

fn at(ticks: u8, seconds: i64) -> Timestamp {
    Timestamp::from_second(i64::from(ticks) * 600 + seconds).unwrap()
}

fn launch(nodes: Node, number: usize) -> GangLaunch {
    let job = JobId::read("vision/ddp-00000001").unwrap();
    GangLaunch { job, attempt: ATTEMPT, launch: format!("{number:016x}"), nodes }
}

fn step(number: u8) -> Checkpoint {
    Checkpoint { attempt: ATTEMPT, step: 10 * u64::from(number), rewrite: 0 }
}

fn machine(number: usize, node: Node) -> GangMember {
    GangMember {
        instance: format!("i-{number}{node}").as_str().into(),
        address: [10, 0, u8::try_from(number).unwrap(), node].into(),
        interface: "ens5".to_owned(),
        gpus: 1,
        efa_cards: 0,
    }
}

/// The part of a node of a step, as by `torch.save` on each rank.
fn part(gang: &GangLaunch, node: Node, number: u8) -> NodeManifest {
    let Checkpoint { attempt, step, .. } = step(number);
    let file = ManifestFile { path: format!("{node}.pt"), bytes: 1, part_bytes: 1, sha256: vec![String::new()] };
    let part = Manifest { attempt, step, bytes: 1, files: vec![file], ..Manifest::default() };
    NodeManifest { node, nodes: gang.nodes, launch: gang.launch.clone(), part, ..NodeManifest::default() }
}

impl Launch {
    fn new(nodes: Node) -> Self {
        let member = Member { state: MemberState::Alive, work: NodeWork::Idle, ending: None, parts: 0, pending: None };
        Self { listing: GangListing::default(), members: vec![member; usize::from(nodes)] }
    }

    fn member(&mut self, node: Node) -> &mut Member {
        &mut self.members[usize::from(node)]
    }

    /// Steps that all nodes have put.
    fn whole(&self) -> u8 {
        self.members.iter().map(|member| member.parts).min().unwrap()
    }

    /// The newest whole step, as a member judges it.
    fn newest(&self, gang: &GangLaunch) -> Option<Checkpoint> {
        let highest = self.members.iter().map(|member| member.parts).max().unwrap();
        (1..=highest).rev().map(|number| (number, step(number))).find_map(|(number, checkpoint)| {
            let parts = (0..gang.nodes).filter(|node| self.members[usize::from(*node)].parts >= number);
            let parts = parts.map(|node| (node, DocumentSight::Read(part(gang, node, number))));
            let judged = GangCheckpoint { gang, checkpoint, is_first: false };
            let judged = step_is_complete(judged, &parts.collect::<BTreeMap<_, _>>());
            (judged == StepCompleteness::Complete { verified: true }).then_some(checkpoint)
        })
    }
}

impl Launch {
    fn exits(&self, reason: NodeExitReason) -> usize {
        let is_so = |exit: &&Listed<NodeExit>| exit.content.read().unwrap().reason == reason;
        self.listing.exits.values().filter(is_so).count()
    }

    fn loses_without_failure(&self) -> bool {
        let stop = self.listing.stop.as_ref().and_then(|stop| stop.content.read());
        stop.is_none_or(|stop| !stop.cause.is_loss()) || self.exits(NodeExitReason::Failed) == 0
    }
}

impl World {
    fn holder(&self, nodes: Node) -> Option<&Launch> {
        let mut all = self.launches.iter().enumerate();
        all.find(|(number, _)| self.is_held_by(&launch(nodes, *number))).map(|(_, launch)| launch)
    }

    fn has_right_result(&self, nodes: Node) -> bool {
        let (Some(result), Some(holder)) = (&self.head.result, self.holder(nodes)) else { return true };
        if result.succeeded {
            return holder.exits(NodeExitReason::Succeeded) == usize::from(nodes);
        }
        holder.exits(NodeExitReason::Interrupted) == 0 && holder.exits(NodeExitReason::Failed) > 0
    }

    /// The time at which S3 takes a document: what comes after a stop is later than it. Of other documents only the order counts.
    fn s3_time(&self, number: usize) -> Timestamp {
        at(0, if self.launches[number].listing.stop.is_some() { 2 } else { 0 })
    }

    fn is_held_by(&self, gang: &GangLaunch) -> bool {
        (self.head.attempt, &self.head.launch) == (gang.attempt, &gang.launch)
    }

    fn put<T>(at: Timestamp, content: T) -> Listed<T> {
        Listed { at, content: DocumentSight::Read(content) }
    }

    /// A decision, with what of it is carried out at once: what only its own member writes. `None`: nothing changes.
    fn decide(&mut self, model: GangModel, number: usize, node: Node) -> Option<()> {
        let gang = launch(model.nodes, number);
        let mut seen = self.head.clone();
        if model.planted == Some(PlantedFault::FenceWithoutLaunch) && seen.attempt == ATTEMPT {
            seen.launch.clone_from(&gang.launch);
        }
        let newest = self.launches[number].newest(&gang);
        let may_commit = model.planted != Some(PlantedFault::CommitByNodeZero) || node == 0;
        let forward = newest.and_then(|checkpoint| committed(&seen, &gang, checkpoint, true));
        if let (Some(next), true) = (&forward, may_commit) {
            let swap = Pending::Swap(Box::new(self.head.clone()), Box::new(next.clone()));
            self.launches[number].member(node).pending = Some(swap);
            return Some(());
        }
        let member = &self.launches[number].members[usize::from(node)];
        let own = OwnNode {
            node,
            member: machine(number, node),
            retry_of: 0,
            is_previous_over: true,
            ending: member.ending.clone(),
            work: member.work.clone(),
        };
        let listing = &self.launches[number].listing;
        if model.planted == Some(PlantedFault::ResultByFirstExit)
            && let (Some(exit), true) = (listing.exits.get(&node), self.is_held_by(&gang))
            && self.head.result.is_none()
        {
            let all = (0..model.nodes).map(|node| (node, exit.clone())).collect();
            let result = gang_result(&gang, &all, None)?;
            let next = Head { result: Some(result), ..self.head.clone() };
            let swap = Pending::Swap(Box::new(self.head.clone()), Box::new(next));
            self.launches[number].member(node).pending = Some(swap);
            return Some(());
        }
        let step = next_gang_step(&gang, &own, listing, Some(&seen), at(self.ticks, 0));
        let leaves_step = matches!(step, GangStep::Leave(_)) && forward.is_some() && self.is_held_by(&gang);
        let others = || (0..model.nodes).filter(|other| *other != node);
        let is_last =
            others().all(|other| self.launches[number].members[usize::from(other)].state != MemberState::Alive);
        if leaves_step && is_last {
            self.broken = Some("a whole step is named by those that live");
        }
        self.begin(model, number, node, step)
    }

    fn begin(&mut self, model: GangModel, number: usize, node: Node, decided: GangStep) -> Option<()> {
        let gang = launch(model.nodes, number);
        let swap = |next: Head| Pending::Swap(Box::new(self.head.clone()), Box::new(next));
        let pending = match decided {
            GangStep::Wait(_) => return None,
            GangStep::ClaimHead => {
                let mut next = self.head.clone();
                next.claim(ATTEMPT, &gang.launch);
                swap(next)
            }
            GangStep::WriteResult(result) => swap(Head { result: Some(result), ..self.head.clone() }),
            GangStep::WriteRound { round, document } => Pending::Round(round, document),
            GangStep::WriteStop(document) => Pending::Stop(document),
            GangStep::WriteExit(exit) => Pending::Exit(exit),
            own => {
                self.act(model, number, node, own);
                return Some(());
            }
        };
        self.launches[number].member(node).pending = Some(pending);
        Some(())
    }

    /// Carries out at once what concerns only the member.
    fn act(&mut self, model: GangModel, number: usize, node: Node, decided: GangStep) {
        let now = self.s3_time(number);
        let launch = &mut self.launches[number];
        match decided {
            GangStep::WriteMember => {
                launch.listing.members.insert(node, Self::put(now, machine(number, node)));
                launch.listing.beats.insert(node, at(self.ticks, 0));
            }
            GangStep::Restore { round, .. } => launch.member(node).work = NodeWork::Restoring { round },
            GangStep::WriteReady { round, ready } => {
                let rounds = launch.listing.rounds.entry(round).or_default();
                rounds.ready.entry(node).or_insert(Self::put(now, ready));
            }
            GangStep::Start { round } => {
                let ready = &launch.listing.rounds[&round].ready;
                let is_whole = |node: Node| {
                    ready.get(&node).is_some_and(|ready| ready.content.read() == Some(&NodeReady::Restored))
                };
                if !(0..model.nodes).all(is_whole) {
                    self.broken = Some("a command starts where all are ready and whole");
                }
                launch.member(node).work = NodeWork::Running { round };
            }
            GangStep::EndCommand { round } => {
                let ended = NodeEnded { code: None, at: at(0, 0), by_curfew: true, is_peer_gone: false };
                launch.member(node).work = NodeWork::Ended { round, ended, is_saved: true };
            }
            GangStep::WriteEnded { round, ended } => {
                let rounds = launch.listing.rounds.entry(round).or_default();
                rounds.ended.entry(node).or_insert(Self::put(now, ended));
            }
            GangStep::Save { .. } => {
                if let NodeWork::Ended { is_saved, .. } = &mut launch.member(node).work {
                    *is_saved = true;
                }
            }
            GangStep::Stop(_) => {
                let member = launch.member(node);
                member.work = match member.work {
                    NodeWork::Running { round } => {
                        let ended = NodeEnded { code: Some(0), at: at(0, 0), by_curfew: true, is_peer_gone: false };
                        NodeWork::Ended { round, ended, is_saved: false }
                    }
                    _ => NodeWork::Idle,
                };
            }
            GangStep::Leave(_) => {
                let member = launch.member(node);
                (member.state, member.work) = (MemberState::Left, NodeWork::Idle);
            }
            other => unreachable!("{other:?} is written later"),
        }
    }

    fn go(&mut self, number: usize, node: Node) -> Option<()> {
        let now = self.s3_time(number);
        let ticks = self.ticks;
        let launch = &mut self.launches[number];
        match launch.member(node).pending.take()? {
            Pending::Swap(read, next) => {
                if *read == self.head {
                    self.head = *next;
                }
            }
            Pending::Round(round, document) => {
                launch.listing.rounds.entry(round).or_default().round.get_or_insert(Self::put(now, document));
            }
            Pending::Stop(stop) => {
                launch.listing.stop.get_or_insert(Self::put(at(ticks, 1), stop));
            }
            Pending::Exit(exit) => {
                launch.listing.exits.entry(node).or_insert(Self::put(now, exit));
            }
        }
        Some(())
    }

    fn tick(&mut self) {
        self.ticks += 1;
        for launch in &mut self.launches {
            for (node, member) in (0..).zip(&launch.members) {
                if member.state == MemberState::Alive && launch.listing.members.contains_key(&node) {
                    launch.listing.beats.insert(node, at(self.ticks, 0));
                }
            }
        }
    }
}

impl GangModel {
    /// `true` for a fault, and for a decision to wait.
    fn is_idle(&self, world: &World, action: &Action) -> bool {
        match *action {
            Action::Crash(..) | Action::Lose(..) | Action::Warn(..) => true,
            Action::Decide(number, node) => world.clone().decide(*self, number, node).is_none(),
            _ => false,
        }
    }

    /// `true` if the machines that live have ended, or still go on without another fault.
    fn has_way_on(&self, world: &World) -> bool {
        let lives = |launch: &Launch| launch.members.iter().any(|member| member.state == MemberState::Alive);
        if world.ticks < TICKS_MAX || !world.launches.iter().any(lives) {
            return true;
        }
        let mut actions = Vec::new();
        self.actions(world, &mut actions);
        actions.retain(|action| !matches!(action, Action::Crash(..) | Action::Lose(..) | Action::Warn(..)));
        actions.into_iter().any(|action| self.next_state(world, action).is_some())
    }
}

impl Model for GangModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let checkpoint = Some(Checkpoint { attempt: 1, step: 5, rewrite: 0 });
        let head = Head { attempt: 1, launch: "f".repeat(16), checkpoint, ..Head::default() };
        let launches = vec![Launch::new(self.nodes); self.launches];
        vec![World { ticks: 0, head, launches, faults: 0, broken: None }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let may_fail = world.faults < self.faults_max;
        let mut is_busy = false;
        for (number, launch) in world.launches.iter().enumerate() {
            let has_failed = launch.members.iter().any(|member| {
                let failed = matches!(&member.work, NodeWork::Ended { ended, .. } if !ended.succeeded());
                failed || member.state != MemberState::Alive
            });
            for (node, member) in (0..).zip(&launch.members).filter(|(_, member)| member.state == MemberState::Alive) {
                // No member leads, so of three it is enough that the last one fails.
                let may_fail = may_fail && (self.nodes < 3 || node == 2);
                if may_fail {
                    actions.extend([Action::Crash(number, node), Action::Lose(number, node)]);
                    if member.ending.is_none() {
                        actions.push(Action::Warn(number, node));
                    }
                }
                let act = if member.pending.is_some() { Action::Go } else { Action::Decide };
                actions.push(act(number, node));
                is_busy |= member.pending.is_some();
                match &member.work {
                    NodeWork::Restoring { .. } => {
                        actions.push(Action::Restored(number, node, true));
                        if may_fail {
                            actions.push(Action::Restored(number, node, false));
                        }
                    }
                    NodeWork::Running { .. } => {
                        if member.parts < self.steps_max {
                            actions.push(Action::Upload(number, node));
                        } else if !has_failed {
                            actions.push(Action::Ends(number, node, 0));
                        }
                        if may_fail || has_failed {
                            actions.push(Action::Ends(number, node, 1));
                        }
                    }
                    _ => {}
                }
            }
        }
        let lives = |launch: &Launch| launch.members.iter().any(|member| member.state == MemberState::Alive);
        let passes = world.ticks < TICKS_MAX && !is_busy && world.launches.iter().any(lives);
        if passes && (self.is_slow || actions.iter().all(|action| self.is_idle(world, action))) {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut world = before.clone();
        let ticks = world.ticks;
        match action {
            Action::Decide(number, node) => world.decide(*self, number, node)?,
            Action::Go(number, node) => world.go(number, node)?,
            Action::Restored(number, node, is_whole) => {
                world.faults += u8::from(!is_whole);
                let member = world.launches[number].member(node);
                let NodeWork::Restoring { round } = member.work else { return None };
                let damaged = NodeReady::Damaged { why: String::new() };
                let ready = if is_whole { NodeReady::Restored } else { damaged };
                member.work = NodeWork::Restored { round, ready };
            }
            Action::Ends(number, node, code) => {
                let is_first = code != 0
                    && !world.launches[number].members.iter().any(|member| {
                        matches!(&member.work, NodeWork::Ended { ended, .. } if !ended.succeeded())
                            || member.state != MemberState::Alive
                    });
                world.faults += u8::from(is_first);
                let member = world.launches[number].member(node);
                let NodeWork::Running { round } = member.work else { return None };
                let ended = NodeEnded { code: Some(code), at: at(0, 0), by_curfew: false, is_peer_gone: false };
                member.work = NodeWork::Ended { round, ended, is_saved: false };
            }
            Action::Upload(number, node) => world.launches[number].member(node).parts += 1,
            Action::Warn(number, node) => {
                world.faults += 1;
                let warned = OwnEnding::Warned { at: at(ticks, 0), notice: None };
                world.launches[number].member(node).ending = Some(warned);
            }
            Action::Crash(number, node) => {
                world.faults += 1;
                let member = world.launches[number].member(node);
                member.pending = None;
                match member.work {
                    NodeWork::Running { round } => {
                        let ended = NodeEnded { code: None, at: at(0, 0), by_curfew: false, is_peer_gone: false };
                        member.work = NodeWork::Ended { round, ended, is_saved: true };
                        member.ending.get_or_insert(OwnEnding::Broken { why: String::new() });
                    }
                    NodeWork::Restoring { .. } => member.work = NodeWork::Idle,
                    _ => {}
                }
            }
            Action::Lose(number, node) => {
                world.faults += 1;
                let member = world.launches[number].member(node);
                (member.state, member.work, member.pending) = (MemberState::Lost, NodeWork::Idle, None);
            }
            Action::Tick => world.tick(),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing breaks", |_: &Self, world: &World| world.broken.is_none()),
            Property::always("one launch is past the fence", |_: &Self, world: &World| {
                world.launches.iter().filter(|launch| !launch.listing.rounds.is_empty()).count() <= 1
            }),
            Property::always("head names no step without all manifests", |model: &Self, world: &World| {
                let named = world.head.checkpoint.filter(|checkpoint| checkpoint.attempt == ATTEMPT);
                let own = world.holder(model.nodes);
                named.is_none_or(|named| own.is_some_and(|launch| named.step <= step(launch.whole()).step))
            }),
            Property::always("a result has the exits of all", |model: &Self, world: &World| {
                let all = |launch: &Launch| launch.listing.exits.len() == usize::from(model.nodes);
                world.head.result.is_none() || world.launches.iter().any(all)
            }),
            Property::always("success needs all nodes, and a loss is no failure", |model: &Self, world: &World| {
                world.has_right_result(model.nodes)
            }),
            Property::always("after the stop for a loss no exit is a failure", |_: &Self, world: &World| {
                world.launches.iter().all(Launch::loses_without_failure)
            }),
            Property::always("every machine ends in the end", |model: &Self, world: &World| model.has_way_on(world)),
            Property::sometimes("a job succeeds with its steps", |model: &Self, world: &World| {
                let is_last = world.head.checkpoint.is_some_and(|named| named == step(model.steps_max));
                is_last && world.head.result.as_ref().is_some_and(|result| result.succeeded)
            }),
            Property::sometimes("a failure is told", |_: &Self, world: &World| {
                world.head.result.as_ref().is_some_and(|result| !result.succeeded)
            }),
            Property::sometimes("a second round begins", |_: &Self, world: &World| {
                world
                    .launches
                    .iter()
                    .any(|launch| launch.listing.rounds.get(&1).is_some_and(|round| round.ready.len() > 1))
            }),
            Property::sometimes("a warned gang names a step and ends without a result", |_: &Self, world: &World| {
                let has_left = |launch: &Launch| {
                    let left = launch.members.iter().all(|member| member.state == MemberState::Left);
                    left && launch.members.iter().any(|member| member.ending.is_some())
                };
                let is_named = world.head.checkpoint.is_some_and(|named| named.attempt == ATTEMPT);
                is_named && world.head.result.is_none() && world.launches.iter().any(has_left)
            }),
        ]
    }
}

/// The properties that do not hold in all lives within these bounds, and the names of those that were to be seen.
fn explore(model: GangModel) -> (Vec<(&'static str, Vec<Action>)>, Vec<&'static str>) {
    let begun = std::time::Instant::now();
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{model:?}: {} states in {:?}", checker.unique_state_count(), begun.elapsed());
    let (mut broken, mut seen) = (Vec::new(), Vec::new());
    for (name, path) in checker.discoveries() {
        if checker.model().property(name).expectation == Expectation::Sometimes {
            seen.push(name);
        } else {
            broken.push((name, path.into_actions()));
        }
    }
    (broken, seen)
}

fn check((nodes, launches): (Node, usize), steps_max: u8, faults_max: u8, is_slow: bool, seen: usize) {
    let model = GangModel { planted: None, nodes, launches, steps_max, faults_max, is_slow };
    let (broken, found) = explore(model);
    assert!(broken.is_empty(), "not so: {broken:?}");
    assert_eq!(found.len(), seen, "seen: {found:?}");
}

#[test]
fn every_life_of_two_nodes() {
    check((2, 1), 1, 1, false, 4);
    check((2, 1), 1, 0, true, 1);
}

#[test]
fn every_life_of_three_nodes() {
    check((3, 1), 1, 0, false, 1);
    check((3, 1), 0, 1, false, 2);
}

#[test]
fn every_life_of_two_launches() {
    check((2, 2), 0, 0, false, 0);
}

/// More of the same, optimised.
#[test]
#[ignore = "a minute; make simulate-model runs it"]
fn simulate_gangs() {
    check((2, 1), 1, 2, false, 4);
    check((3, 1), 1, 1, false, 4);
    check((2, 2), 0, 1, false, 2);
}

#[test]
fn planted_faults_are_found() {
    let planted = [
        (PlantedFault::FenceWithoutLaunch, (2, 0, 0), "one launch is past the fence"),
        (PlantedFault::ResultByFirstExit, (1, 0, 0), "a result has the exits of all"),
        (PlantedFault::CommitByNodeZero, (1, 1, 1), "nothing breaks"),
    ];
    for (planted, (launches, steps_max, faults_max), property) in planted {
        let model = GangModel { planted: Some(planted), nodes: 2, launches, steps_max, faults_max, is_slow: false };
        let (broken, _) = explore(model);
        assert!(broken.iter().any(|(name, _)| *name == property), "{planted:?}: {broken:?}");
    }
}
