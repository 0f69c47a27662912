//! A job whose deadline decides, in the product's loop, while an adversary says when Spot can be had and when it goes.

mod measured;

use model::instance::InstanceState;
use proptest::prelude::*;

use super::fixture::*;
use crate::*;

/// The agent ends the command so long before `finish_by`.
const AGENT_ENDS: i64 = 5 * MINUTE;

/// From the launch to the command.
const BOOT: i64 = 4 * MINUTE;

/// Spot that comes and goes as an adversary wants.
struct AdversaryWorld {
    now: i64,
    job: Job,
    estimated: i64,
    machines: Vec<SimulatedMachine>,
    head: Option<Head>,
    /// The job says each 15 minutes, and may write fewer.
    checkpoint_every: i64,
    /// What the newest checkpoint holds.
    saved: i64,
    finished_at: Option<i64>,
    has_spot: bool,
    has_on_demand: bool,
    chance: fastrand::Rng,
    /// In thousandths, each minute: that Spot comes or goes, and that the machine goes with it.
    turns: u32,
    /// Whether a launch on Spot was accepted since this was last cleared; `None`: none was asked for.
    spot_launch: Option<bool>,
    log: Vec<String>,
}

struct SimulatedMachine {
    id: String,
    attempt: u32,
    lifecycle: Lifecycle,
    launched_at: i64,
    restored: i64,
    ended: Option<(i64, &'static str)>,
}

impl AdversaryWorld {
    /// With so many seconds more than the work, a start and an interval.
    fn new(seed: u64, estimated: i64, spare: i64, total_steps: Option<u64>) -> Self {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut terms = terms();
        terms.spot = Some(SpotSpec { max_rate: None, fallback_to_on_demand_after_seconds: None });
        terms.max_runtime_seconds = 7 * 24 * HOUR;
        terms.estimated_runtime_seconds = Some(estimated);
        terms.finish_by = Some(noon_plus(estimated + 10 * MINUTE + AGENT_ENDS + 5 * MINUTE + spare));
        terms.checkpoint.iter_mut().for_each(|checkpoint| checkpoint.total_steps = total_steps);
        let job = Job::submitted(JobId::read("vision/llama-1a2b3c4d").unwrap(), None, terms, noon_plus(0));
        let (has_spot, turns) = (chance.bool(), chance.u32(0..=12).pow(2));
        let checkpoint_every = chance.i64(10..60) * MINUTE;
        Self {
            now: 0,
            job,
            estimated,
            machines: Vec::new(),
            head: None,
            checkpoint_every,
            saved: 0,
            finished_at: None,
            has_spot,
            has_on_demand: true,
            chance,
            turns,
            spot_launch: None,
            log: Vec::new(),
        }
    }

    fn running(&mut self) -> Option<&mut SimulatedMachine> {
        self.machines.iter_mut().find(|machine| machine.ended.is_none())
    }

    fn live(&mut self) {
        self.now += self.chance.i64(45..75);
        self.work();
        let mut warned = None;
        if self.chance.u32(0..1_000) < self.turns {
            self.has_spot = !self.has_spot;
            let (now, has_warning) = (self.now, self.chance.bool());
            let taken = self.running().filter(|machine| machine.lifecycle == Lifecycle::Spot);
            if let Some(machine) = taken {
                warned = has_warning.then(|| machine.id.clone());
                machine.ended = Some((now, "Server.SpotInstanceTermination"));
            }
        }
        self.reconcile(warned);
    }

    fn work(&mut self) {
        let (now, estimated, every) = (self.now, self.estimated, self.checkpoint_every);
        let steps = self.job.terms.checkpoint.as_ref().and_then(|checkpoint| checkpoint.total_steps);
        let Some(machine) = self.running() else { return };
        let (attempt, worked) = (machine.attempt, now - machine.launched_at - BOOT);
        if worked < 0 {
            return;
        }
        if machine.restored + worked >= estimated {
            self.finished_at = Some(now);
            return;
        }
        // It takes two minutes until head names it.
        let held = (worked - 2 * MINUTE).max(0) / every * every;
        let saved = machine.restored + held;
        if held > 0 && saved > self.saved {
            self.saved = saved;
            let share = |total: u64| u64::try_from(saved).unwrap() * total / u64::try_from(estimated).unwrap();
            let step = steps.map_or(u64::try_from(saved).unwrap(), share);
            let checkpoint = Some(Checkpoint { attempt, step, rewrite: 0 });
            self.head = Some(Head { attempt, checkpoint, ..Head::default() });
        }
    }

    fn reconcile(&mut self, warned: Option<String>) {
        let now = noon_plus(self.now);
        let mut next = Reconciliation::begin(Box::new(self.job.clone()), warned.map(|id| id.as_str().into()));
        for _ in 0..50 {
            next = match next {
                Reconciliation::Observe(decision) => {
                    let facts = self.observe(decision.needed_facts(now));
                    decision.decide(facts, now)
                }
                Reconciliation::Write(decided) => {
                    self.job = decided.job().as_ref().clone();
                    self.log.push(format!("{now} {}", line(&self.job, decided.effects())));
                    decided.written()
                }
                Reconciliation::CarryOut(effect, owed) => {
                    let answer = self.act(&effect);
                    owed.carried_out(answer)
                }
                Reconciliation::Done(_) => return,
                other => panic!("no other run writes the state: {other:?}"),
            };
        }
        panic!("no end of rounds: {:#?}", self.log)
    }

    fn observe(&self, needed: NeededFacts) -> JobFacts {
        let sight = |placed: Option<&JobMachine>| {
            let machine = placed.and_then(|placed| self.machines.iter().find(|one| placed.instance.as_str() == one.id));
            machine.map_or(MachineSight::Unknown, |machine| MachineSight::Seen {
                state: if machine.ended.is_some() { InstanceState::Terminated } else { InstanceState::Running },
                reason: machine.ended.map(|(_, reason)| reason.to_owned()),
            })
        };
        let machine =
            self.job.machine().and_then(|placed| self.machines.iter().find(|one| one.attempt == placed.attempt));
        let begun = machine.is_some_and(|machine| self.now >= machine.launched_at + BOOT);
        JobFacts {
            may_act: true,
            no_progress_attempts_max: 0,
            machine: sight(self.job.machine()),
            previous_attempt: sight(self.job.previous_attempt.as_ref()),
            head: needed.head.then(|| self.head.clone()),
            heartbeat: needed.heartbeat.then(|| begun.then(|| noon_plus(self.now))),
            command_runs: begun,
            exit: needed.exit.then_some(None),
            cancel: needed.cancel.then_some(None),
            ..JobFacts::default()
        }
    }

    fn act(&mut self, effect: &Effect) -> Option<EffectResult> {
        Some(match effect {
            Effect::Rank => EffectResult::Ranked(Ok(ranking(noon_plus(self.now)))),
            Effect::Reserve { .. } => EffectResult::Reserved(ReserveResult::Granted),
            Effect::Release(_) => EffectResult::Released(true),
            Effect::Launch(launch) => EffectResult::Launched(self.launch(launch)),
            Effect::Terminate(placed) => {
                let now = self.now;
                let ended = self.machines.iter_mut().find(|machine| placed.instance.as_str() == machine.id);
                ended.unwrap().ended.get_or_insert((now, "Client.UserInitiatedShutdown"));
                EffectResult::Terminated
            }
            _ => return None,
        })
    }

    fn launch(&mut self, launch: &LaunchRequest) -> LaunchResult {
        let replaces = matches!(&self.job.phase, Phase::Launching(launching) if launching.replaces.is_some());
        assert!(replaces || self.running().is_none(), "two at once: {:#?}", self.log);
        let lifecycle = launch.candidate.lifecycle;
        let is_there = if lifecycle == Lifecycle::Spot { self.has_spot } else { self.has_on_demand };
        if lifecycle == Lifecycle::Spot {
            self.spot_launch = Some(is_there);
        }
        if !is_there {
            return LaunchResult::NoCapacity("no capacity".to_owned());
        }
        let id = format!("i-{}", self.machines.len() + 1);
        let (attempt, restored, launched_at) = (launch.attempt, self.saved, self.now);
        self.machines.push(SimulatedMachine { id: id.clone(), attempt, lifecycle, launched_at, restored, ended: None });
        LaunchResult::Launched { instance: id.as_str().into(), members: Vec::new(), launched_at: noon_plus(self.now) }
    }

    /// Until the work is done, or the agent would end the command.
    fn run(&mut self) {
        let end = self.job.terms.finish_by.unwrap().as_second() - noon_plus(0).as_second() - AGENT_ENDS;
        while self.finished_at.is_none() && self.now < end {
            self.live();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn is_never_late_while_on_demand_can_be_had(
        seed in any::<u64>(),
        estimated in 20 * MINUTE..8 * HOUR,
        spare in 0..5 * HOUR,
        has_steps in any::<bool>(),
    ) {
        let mut world = AdversaryWorld::new(seed, estimated, spare, has_steps.then_some(10_000));
        world.run();
        prop_assert!(world.finished_at.is_some(), "late: {:#?}", world.log);
    }
}

#[test]
fn these_lives_cover_every_decision_of_a_deadline() {
    let mut met = String::new();
    let (mut spot, mut on_demand) = (0, 0);
    for seed in 0..24 {
        let spare = if seed % 2 == 0 { 45 * MINUTE } else { 6 * HOUR };
        let mut world = AdversaryWorld::new(seed, 6 * HOUR, spare, None);
        world.run();
        met += &world.log.join("\n");
        spot += world.machines.iter().filter(|machine| machine.lifecycle == Lifecycle::Spot).count();
        on_demand += world.machines.iter().filter(|machine| machine.lifecycle == Lifecycle::OnDemand).count();
    }
    assert!(spot > 24 && on_demand > 4, "{spot} {on_demand}");
    for kind in ["waiting after", "Reclaimed", "Deadline", "ReturnedToSpot"] {
        assert!(met.contains(kind), "never {kind}");
    }
}

#[test]
fn an_impossible_deadline_is_held_with_the_missing_time() {
    let mut world = AdversaryWorld::new(1, 6 * HOUR, 0, None);
    world.job.terms.finish_by = Some(noon_plus(5 * HOUR));
    world.live();
    let Phase::Held(held) = &world.job.phase else { panic!("{:?}", world.job.phase) };
    assert_eq!((&held.by, held.until), (&HoldReason::Deadline, noon_plus(5 * HOUR)));
    assert!(held.why.contains("needs 6h, 10m to start and 5m to end in order"), "{}", held.why);
    assert!(held.why.contains("until its finish_by, 2026-09-01T17:00:00Z, 4h58m"), "{}", held.why);
    assert!(held.why.contains("which is 1h16m"), "{}", held.why);
    let notification = world.job.notification().unwrap();
    assert!(
        notification.notification.text.contains("Cancel it, and submit it with a later deadline."),
        "{}",
        notification.notification.text
    );
    world.now = 4 * HOUR;
    world.live();
    assert_eq!(world.job.notification().unwrap().fingerprint, notification.fingerprint);
    world.now = 5 * HOUR - 10 * MINUTE;
    world.live();
    assert!(
        matches!(&world.job.phase, Phase::Ended(ended) if ended.result == JobResult::Expired),
        "{:?}",
        world.job.phase
    );
}

#[test]
fn without_on_demand_spot_is_taken_and_kept() {
    let mut world = AdversaryWorld::new(1, 6 * HOUR, 0, None);
    (world.has_spot, world.has_on_demand, world.turns) = (true, false, 0);
    world.run();
    assert!(world.finished_at.is_some() && world.machines.len() == 1, "{:#?}", world.log);
}

/// A job of ten hours whose command began an hour ago, and the work that is left of it.
fn check_work_left(total_steps: Option<u64>, step: u64, expect: i64) {
    let given = running().checkpoint(1, step).job(|job| {
        let checkpoint = Checkpoint { attempt: 1, step, rewrite: 0 };
        job.terms.estimated_runtime_seconds = Some(10 * HOUR);
        job.terms.finish_by = Some(noon_plus(24 * HOUR));
        job.terms.max_runtime_seconds = 48 * HOUR;
        job.terms.checkpoint.iter_mut().for_each(|checkpoint| checkpoint.total_steps = total_steps);
        let (command_since, checkpoint) = (Some(noon_plus(HOUR)), Some((checkpoint, noon_plus(3 * HOUR + 5 * MINUTE))));
        job.deadline = Some(JobDeadline { command_since, checkpoint, ..JobDeadline::default() });
    });
    let job = given.at_time(4 * HOUR).next().job;
    let left = crate::next::situation(&job, true, noon_plus(4 * HOUR)).unwrap().work_left_seconds;
    assert_eq!(left, expect, "{total_steps:?} {step}");
}

#[test]
fn the_work_left_is_the_unsaved_work_or_more_if_the_steps_show_it() {
    check_work_left(None, 7, 8 * HOUR);
    check_work_left(Some(100), 20, 8 * HOUR);
    // Two hours for ten steps of a hundred.
    check_work_left(Some(100), 10, 18 * HOUR);
    // Its machine ran for four hours, and did no more than that.
    for step in [90, 100, 101, u64::MAX] {
        check_work_left(Some(100), step, 6 * HOUR);
    }
    check_work_left(Some(u64::MAX), 1, i64::MAX);
    check_work_left(Some(0), 0, 6 * HOUR);
}

/// `i-1` runs on demand, and has just completed a checkpoint.
fn on_demand() -> JobInput {
    let given = running().checkpoint(1, 5).at_time(2 * HOUR).heartbeat_at(2 * HOUR);
    given.facts(|facts| facts.command_runs = true).job(|job| {
        job.phase = Phase::Running(JobMachine { lifecycle: Lifecycle::OnDemand, ..placed("i-1", 1) });
        job.terms.max_runtime_seconds = 48 * HOUR;
        job.terms.estimated_runtime_seconds = Some(4 * HOUR);
        job.terms.finish_by = Some(noon_plus(24 * HOUR));
        job.reserved = job.reserved.map(|reserved| JobReservation { until: noon_plus(48 * HOUR), ..reserved });
        job.deadline = Some(JobDeadline { command_since: Some(noon_plus(HOUR)), ..JobDeadline::default() });
    })
}

#[test]
fn it_leaves_on_demand_once_spot_is_there() {
    let asked = on_demand();
    check(asked.clone(), "launching 2.1.0: launch g6.xlarge until 12:00:00");
    let asked = asked.next();
    assert_eq!(asked.job.machine().map(|machine| machine.instance.as_str()), Some("i-1"));
    assert_eq!(asked.job.notification(), None);
    let launched = asked.launched("i-2", 2 * HOUR);
    let effects = "note launched i-2, note lost i-1 ReturnedToSpot, terminate i-1, settle i-2";
    check(launched.clone(), &format!("running i-2: {effects}"));
    let job = launched.next().job;
    assert_eq!(
        job.previous_attempt.map(|machine| (machine.instance.to_string(), machine.ends_at)),
        Some(("i-1".to_owned(), noon_plus(2 * HOUR)))
    );
    assert_eq!((job.attempt, job.progress.attempts_without), (2, 0));
}

#[test]
fn the_on_demand_machine_keeps_running_if_spot_is_refused() {
    let second = on_demand().next().no_capacity();
    check(second.clone(), "launching 2.1.1: launch g5.xlarge until 12:00:00");
    let back = second.next().no_capacity();
    check(back.clone(), "running i-1");
    let back = back.next();
    assert_eq!((back.job.attempt, back.job.machine_attempt()), (2, 1));
    // Its own record counts, and another try has another token.
    check(back.clone().exit(Some(ExitReason::Succeeded)), "succeeded with i-1: note over, release");
    check_nothing(back.clone());
    let later = back.clone().checkpoint(1, 6).at_time(4 * HOUR).heartbeat_at(4 * HOUR);
    check(later, "launching 2.2.0: launch g6.xlarge until 12:00:00");
    check_nothing(back.at_time(2 * HOUR + 3 * MINUTE).heartbeat_at(2 * HOUR + 3 * MINUTE));
    let denied = LaunchResult::Denied("no".to_owned());
    check(on_demand().next().answered(EffectResult::Launched(denied)), "running i-1");
    let unknown = on_demand().next().answered(EffectResult::Launched(LaunchResult::Unknown("?".to_owned())));
    check(unknown, "launching 2.1.0");
}

#[test]
fn without_time_for_restarts_or_a_fresh_checkpoint_it_stays_on_demand() {
    let stays = |given: JobInput| {
        let (job, effects) = given.turn();
        assert!(matches!(job.job.phase, Phase::Running(_)) && effects.is_empty(), "{effects:?}");
    };
    stays(on_demand().job(|job| job.terms.finish_by = Some(noon_plus(6 * HOUR))));
    stays(on_demand().job(|job| job.terms.estimated_runtime_seconds = None));
    stays(on_demand().head_unknown());
    stays(on_demand().observing());
    stays(on_demand().facts(|facts| facts.machine_hold = Some(MachineHold::Protected)));
    stays(on_demand().job(|job| job.reserved = None));
}
