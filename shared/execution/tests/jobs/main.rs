//! Months of jobs on a simulated account, with the product's own runs of `run-jobs` and `enforce-budgets`.
//!
//! Teams submit jobs and cancel them. EC2 launches, refuses and loses answers, and takes machines back; agents beat, checkpoint, hold the
//! fence, fail, hang and exit. Calls fail, also after they were carried out; runs are cut off at any call, and two run at once.
//!
//! Each job of a world of gangs has two machines, whose agents do a step together, and end if one is lost.
//!
//! `oracle.rs` states in other words what must never happen. Assumed: an agent that is well reads its fence at each tick; nobody tags the
//! machines; the bucket loses no document.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics where something is not as it must be, and prints what it lived through"
)]

mod account;
mod bucket;
mod oracle;
mod world;

use std::cell::RefCell;
use std::path::PathBuf;

use execution::jobs::{AgentBinaries, DeploymentSetup, EventHint, reconcile};
use execution::{Run, budgets};
use futures::future::{Either, join, select};
use jiff::{SignedDuration, Timestamp};
use jobs::{CancelRequest, Job, JobId, Phase};
use model::channels::NotificationChannels;
use model::id::{Region, ResourceId};
use model::mode::Mode;
use ports::NoHub;

use account::Account;
use world::{HOME, JobsWorld, TEAMS, TICK, Tally};

/// Budgets that a month uses up.
pub(crate) const ACCOUNT_USD: f64 = 60.0;
pub(crate) const TEAM_USD: f64 = 40.0;

fn config() -> String {
    let team = |name: &str| format!("[teams.{name}]\nmonthly_budget_usd = {TEAM_USD}\nover_budget = \"hold\"\n");
    let teams = TEAMS.map(team).concat();
    format!("mode = \"enforce\"\n[account]\nmonthly_budget_usd = {ACCOUNT_USD}\nover_budget = \"hold\"\n{teams}")
}

const LONG_JOB: &str = "command = \"train\"\nowner = \"ada\"\n[gpu]\ntypes = [\"g5.xlarge\"]\n[limits]\nmax_runtime = \"12h\"\n[checkpoint]\n";

/// No job is submitted in the last days, and nothing fails: by the end everything is over.
const CALM: SignedDuration = SignedDuration::from_hours(4 * 24);

fn spec(world: &mut JobsWorld) -> String {
    let spot = match world.chance.u32(0..3) {
        0 => "enabled = false",
        1 => "fallback_to_on_demand_after = \"2h\"",
        _ => "enabled = true",
    };
    let (hours, retries) = (world.chance.u32(2..7), world.chance.u32(0..3));
    let (nodes, network) = match world.nodes {
        1 => (String::new(), ""),
        nodes => (format!("nodes = {nodes}\n"), "[network]\nplacement = \"cluster\"\n"),
    };
    format!(
        "command = \"python train.py\"\nowner = \"ada@example.com\"\nretries = {retries}\n[gpu]\n{nodes}types = [\"g5.xlarge\"]\n\
         [spot]\n{spot}\n[limits]\nmax_runtime = \"{hours}h\"\n[checkpoint]\n{network}"
    )
}

fn channels() -> NotificationChannels {
    NotificationChannels::topic("arn:aws:sns:us-east-1:123456789012:curfew".to_owned())
}

fn setup() -> DeploymentSetup {
    // The content of the agent does not matter here.
    let agent = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    let agents = AgentBinaries::new(vec![("x86_64", agent)]);
    DeploymentSetup {
        agents,
        profile: Some("curfew-job".to_owned()),
        trigger_buckets: Vec::new(),
        runs_schedules: false,
        replica: None,
        is_restored: true,
    }
}

/// The account with the clients of one run.
struct Simulation {
    world: RefCell<JobsWorld>,
    runtime: tokio::runtime::Runtime,
    setup: DeploymentSetup,
    channels: NotificationChannels,
    runs: u64,
}

impl Simulation {
    fn new(seed: u64, from: Timestamp, config: &str, faults: u32) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let world = RefCell::new(JobsWorld::new(seed, from, config, faults));
        Self { world, runtime, setup: setup(), channels: channels(), runs: 0 }
    }

    /// One run about jobs; cut off after so many of its calls, or beside a second run.
    fn run(&mut self, hint: &EventHint, cut_after: Option<u32>, is_doubled: bool) {
        self.runs += 1;
        let now = self.world.borrow().now;
        let (account, clock) = (Account { world: &self.world, home: HOME.into() }, || now);
        let run = |id: String| self.run_of("run-jobs", &id, &account, &clock);
        let (one, other) = (run(format!("one-{}", self.runs)), run(format!("other-{}", self.runs)));
        let work = |run| Box::pin(reconcile(run, &self.setup, hint.clone(), Vec::new()));
        self.runtime.block_on(async {
            if let Some(calls) = cut_after {
                let cut = async {
                    for _ in 0..calls {
                        tokio::task::yield_now().await;
                    }
                };
                if let Either::Right(_) = select(work(&one), Box::pin(cut)).await {
                    self.world.borrow_mut().tally.cut_off += 1;
                }
            } else if is_doubled {
                let _ = join(work(&one), work(&other)).await;
            } else {
                let done = work(&one).await;
                assert!(done.is_ok() || self.world.borrow().faults > 0, "{:?}", done.err());
            }
        });
    }

    fn run_of<'a>(
        &'a self,
        function: &'static str,
        id: &str,
        account: &'a Account<'a>,
        clock: &'a dyn Fn() -> Timestamp,
    ) -> Run<'a, Account<'a>, Account<'a>> {
        let now = clock();
        Run {
            cloud: account,
            store: account,
            channels: &self.channels,
            function,
            id: id.into(),
            mode: Mode::Enforce,
            now,
            deadline: now + SignedDuration::from_mins(5),
            clock,
            chosen: None,
            progress: &|_, _| (),
            halted: None,
            metrics: None,
            home: model::home::HomeStatus::default(),
        }
    }

    fn beat(&self) {
        let now = self.world.borrow().now;
        let (account, clock) = (Account { world: &self.world, home: HOME.into() }, || now);
        let run = self.run_of("enforce-budgets", "a-beat", &account, &clock);
        let done = self.runtime.block_on(budgets::enforce(&run, None::<&NoHub>));
        assert!(done.is_ok() || self.world.borrow().faults > 0, "{:?}", done.err());
    }

    /// One tick of EC2, agents and runs.
    fn tick(&mut self, is_calm: bool) {
        {
            let mut world = self.world.borrow_mut();
            if world.is_taken_over && !is_calm && world.one_in(50) {
                world.take_over();
            }
            world.replicate();
        }
        let warned = self.world.borrow_mut().live(is_calm);
        for instance in warned {
            self.run(&warning(HOME.into(), instance), None, false);
        }
        self.beat();
        let (cut_after, is_doubled, is_lost) = {
            let mut world = self.world.borrow_mut();
            let cut_after = world.one_in(12).then(|| world.chance.u32(0..60));
            (cut_after.filter(|_| !is_calm), world.one_in(15), !is_calm && world.one_in(40))
        };
        if !is_lost {
            self.run(&EventHint::All, cut_after, is_doubled);
        }
        oracle::check(&self.world.borrow());
        let mut world = self.world.borrow_mut();
        let is_held = |(_, job): &&(u64, Job)| matches!(job.phase, Phase::Held(_));
        world.tally.held += u64::try_from(world.states.values().filter(is_held).count()).unwrap();
        world.now += TICK;
    }

    /// People submit a job in so many ticks, and cancel some.
    fn people(&self, pace: u32) {
        let mut world = self.world.borrow_mut();
        if world.one_in(pace) {
            let team = TEAMS[usize::from(world.one_in(2))];
            let (name, text) = (format!("job-{}", world.inbox.len()), spec(&mut world));
            world.submit(team, &name, &text);
        }
        if world.one_in(200) {
            let open = |(job, (_, state)): (&JobId, &(u64, Job))| (!state.is_closed()).then(|| job.clone());
            let running: Vec<JobId> = world.states.iter().filter_map(open).collect();
            if let Some(job) = running.first() {
                let at = world.now;
                world.cancels.insert(job.clone(), CancelRequest { at, by: None });
            }
        }
    }
}

fn warning(region: Region, instance: ResourceId) -> EventHint {
    EventHint::Instance { region, instance, warned: true }
}

/// Returns what happened in these months, to jobs of so many machines each.
fn live(seed: u64, (from, to): (&str, &str), pace: u32, nodes: u8) -> Tally {
    let (from, to): (Timestamp, Timestamp) = (from.parse().unwrap(), to.parse().unwrap());
    let account = Simulation::new(seed, from, &config(), 400);
    account.world.borrow_mut().nodes = nodes;
    live_until(account, to, pace).tally
}

fn live_until(mut account: Simulation, to: Timestamp, pace: u32) -> JobsWorld {
    while account.world.borrow().now < to {
        let is_calm = to.duration_since(account.world.borrow().now) < CALM;
        if is_calm {
            account.world.borrow_mut().faults = 0;
        } else {
            account.people(pace);
        }
        account.tick(is_calm);
    }
    let mut world = account.world.into_inner();
    oracle::check_end(&mut world);
    world
}

fn assert_all_happened(tally: &Tally) {
    let text = format!("{tally:?}");
    assert!(!text.contains(": 0,") && !text.contains(": 0 }"), "something never happened: {text}");
}

#[test]
fn through_the_turn_of_a_month_each_job_runs_once_and_ends() {
    let tally = live(20_261_129, ("2026-10-25T00:07:00Z", "2026-11-06T00:07:00Z"), 30, 1);
    assert_all_happened(&tally);
}

#[test]
fn a_gang_of_two_lives_and_ends_as_a_whole() {
    let tally = live(20_261_130, ("2026-10-25T00:07:00Z", "2026-11-04T00:07:00Z"), 30, 2);
    assert!(tally.succeeded > 0 && tally.interrupted > 0 && tally.silent > 0 && tally.failed > 0, "{tally:?}");
}

/// A copy is older than what runs: no job runs twice for long, or is forgotten, and no money stays reserved.
#[test]
fn a_stack_that_takes_over_keeps_what_runs() {
    let (from, to): (Timestamp, Timestamp) =
        ("2026-10-25T00:07:00Z".parse().unwrap(), "2026-11-06T00:07:00Z".parse().unwrap());
    let account = Simulation::new(20_261_131, from, &config(), 400);
    account.world.borrow_mut().is_taken_over = true;
    let world = live_until(account, to, 30);
    assert!(world.older_taken > 3 && world.searches > 20, "{} {}", world.older_taken, world.searches);
    assert!(world.tally.succeeded > 0 && world.tally.failed > 0, "{:?}", world.tally);
}

#[test]
#[ignore = "takes minutes: make simulate-jobs"]
fn through_many_months_each_job_runs_once_and_ends() {
    std::thread::scope(|scope| {
        for seed in 0..8 {
            scope.spawn(move || {
                println!("seed {seed}: {:?}", live(seed, ("2026-09-10T00:07:00Z", "2026-12-12T00:07:00Z"), 90, 1));
            });
        }
    });
}

/// A month ends while a job runs: its reservation is then in two documents, and is settled and given back in both.
#[test]
fn a_reservation_of_two_months_is_settled_and_given_back_in_both() {
    let mut account = Simulation::new(1, "2026-10-31T22:07:00Z".parse().unwrap(), &config(), 0);
    account.world.borrow_mut().is_steady = true;
    account.world.borrow_mut().submit("vision", "llama", LONG_JOB);
    account.tick(true);
    let first = account.world.borrow().machines[0].id.clone();
    for _ in 0..15 {
        account.tick(true);
    }
    let id = account.world.borrow().states.keys().next().unwrap().clone();
    let reserved = |account: &Simulation| {
        let world = account.world.borrow();
        let reservations =
            world.budgets.values().filter_map(|(_, budget)| budget.reservations.get(&id.to_string()).cloned());
        reservations.collect::<Vec<_>>()
    };
    // Of the team and of the account, in the month of the launch and in the next one.
    assert_eq!(reserved(&account).len(), 4);
    account.world.borrow_mut().interrupt(&first);
    account.run(&warning(HOME.into(), first.clone()), None, false);
    for _ in 0..3 {
        account.tick(true);
    }
    let second = account.world.borrow().machines[1].id.clone();
    for one in reserved(&account) {
        assert_eq!(one.instances, [first.clone(), second.clone()].into(), "{one:?}");
        assert_eq!(one.ended, None);
    }
    account.world.borrow_mut().finish(&second);
    account.run(&EventHint::All, None, false);
    account.run(&EventHint::All, None, false);
    let ended = reserved(&account);
    assert!(ended.len() == 4 && ended.iter().all(|one| one.ended.is_some()), "{ended:?}");
}
