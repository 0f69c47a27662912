//! One simulated account: a seed's owners, faults, configurations and runs, tick by tick.

use std::collections::BTreeMap;
use std::rc::Rc;

use model::config::Config;
use model::curfew_tags::{MARKED, STOPPED};
use model::id::{Region, ResourceId};
use model::instance::InstanceState;
use model::mode::Mode;
use model::notification_log::NotificationLog;
use model::usage::ActivityCache;
use notify::Message;
use plan::report::StepOutcome;
use plan::{Plan, Skipped, Step};

use crate::adversary::Attack;
use crate::budgets::{BudgetEvent, BudgetReading, HOLDERS, SimulatedBudgets};
use crate::chance::{DAY, HOUR, RandomStream, TICK, stamp};
use crate::driver::debug_action;
use crate::fault::Fault;
use crate::faults::{FaultInjector, FaultLevel};
use crate::jobs::{JobReading, SimulatedJobs, says_of};
use crate::listing::Listing;
use crate::metrics::{PublishResult, PublishingDelays};
use crate::oracle::InvariantOracle;
use crate::owners::{Behaviour, first_tags};
use crate::schedule::{self, Scheduled};
use crate::session::Facts;
use crate::settings::SimulatedConfig;
use crate::tally::AccountSummary;
use crate::world::SimulatedMachine;

const EPOCH: i64 = 1_767_571_200; // Monday, 2026-01-05

pub(crate) struct SimulatedAccount {
    pub(crate) machines: Vec<SimulatedMachine>,
    pub(crate) regions: usize,
    pub(crate) notices: BTreeMap<Region, (u64, NotificationLog)>,
    pub(crate) activity: BTreeMap<Region, (u64, ActivityCache)>,
    pub(crate) faults: FaultInjector,
    pub(crate) budgets: SimulatedBudgets,
    pub(crate) jobs: SimulatedJobs,
    pub(crate) oracle: InvariantOracle,
    pub(crate) settings: Rc<SimulatedConfig>,
    pub(crate) config: Rc<Config>,
    pub(crate) ceiling: Mode,
    pub(crate) clock: i64,
    pub(crate) runs: u64,
    pub(crate) owners: RandomStream,
    pub(crate) adversary: RandomStream,
    pub(crate) fleet: usize,
    launched: u32,
    next_edit: i64,
    edit_interval_max: i64,
    next_launch: i64,
    pub(crate) listing: Listing,
    behaviours: Vec<u64>,
    pub(crate) attacks: Vec<u64>,
    pub(crate) messages: u64,
    pub(crate) calls: CallCounts,
    pub(crate) lost_swaps: u64,
    pub(crate) verbosity: u8,
}

#[derive(Default)]
pub(crate) struct CallCounts {
    pub(crate) metrics: u64,
    pub(crate) lists: u64,
}

pub(crate) fn days_of(seed: u64) -> u64 {
    u64::try_from(RandomStream::from_seed(seed, 0).between(30, 90)).unwrap_or(30)
}

pub(crate) fn live(seed: u64, days: u64, verbosity: u8) -> AccountSummary {
    let ticks = i64::try_from(days).unwrap_or(0) * DAY / TICK;
    let account = schedule::live(SimulatedAccount::from_seed(seed, verbosity), ticks);
    AccountSummary {
        seed,
        days,
        runs: account.runs,
        messages: account.messages,
        lost_swaps: account.lost_swaps,
        ends: account.oracle.ends,
        faults: account.faults.counts().to_vec(),
        behaviours: account.behaviours,
        attacks: account.attacks,
        violations: account.oracle.violations,
        share: account.oracle.share,
        clean: account.faults.fault_level == FaultLevel::Clean,
    }
}

impl Scheduled for SimulatedAccount {
    const RUN_LATE_MAX: i64 = 280;

    fn begin_tick(&mut self) {
        self.clock += TICK;
        let now = self.clock;
        self.listing.refresh(&self.machines);
        self.faults.update_bursts(now);
        self.pass_time();
        self.edit_configuration();
        self.spend();
        self.jobs_go_on();
        self.owners_live();
        self.adversary_attacks(now, None);
        self.lose_documents();
    }

    fn end_tick(&mut self) {
        let now = self.clock;
        self.oracle.last_fault = self.faults.last_at;
        self.oracle.last_forgotten = self.faults.forgotten_at;
        let Self { machines, oracle, settings, ceiling, budgets, jobs, verbosity, .. } = self;
        let jobs = jobs.truth();
        for machine in machines.iter() {
            if oracle.watch(machine, settings, *ceiling, budgets, &jobs, now) && *verbosity > 1 {
                println!("{} {} runs idle for too long", stamp(now), machine.id());
            }
        }
    }

    fn meddle(&mut self, interfered: &[ResourceId]) {
        if self.fleet > 0 && !interfered.is_empty() && self.adversary.one_in(16) {
            let id = &interfered[self.adversary.below(interfered.len())];
            self.adversary_attacks(self.clock + 8, Some(id));
        }
        // An account without its own fleet has no colleagues either.
        if self.fleet == 0 || interfered.is_empty() || !self.owners.one_in(8) {
            return;
        }
        let id = &interfered[self.owners.below(interfered.len())];
        let now = self.clock + 8;
        let Self { machines, owners, behaviours, .. } = &mut *self;
        if let Some(machine) = machines.iter_mut().find(|machine| machine.ec2.id == *id) {
            behaviours[Behaviour::Meddle as usize] += 1;
            machine.change_mind(now, owners, |behaviour| behaviours[behaviour as usize] += 1);
        }
    }
}

impl SimulatedAccount {
    fn from_seed(seed: u64, verbosity: u8) -> Self {
        let mut owners = RandomStream::from_seed(seed, 1);
        let settings = Rc::new(SimulatedConfig::draw(&mut owners));
        let now = EPOCH + owners.between(0, 365) * DAY;
        let fleet = owners.below(16) + 1;
        let edit_interval_max = owners.pick(&[DAY, 5 * DAY, 15 * DAY]);
        Self {
            machines: Vec::new(),
            regions: if owners.one_in(3) { 2 } else { 1 },
            notices: BTreeMap::new(),
            activity: BTreeMap::new(),
            faults: FaultInjector::from_seed(seed),
            budgets: SimulatedBudgets::from_seed(seed, now),
            jobs: SimulatedJobs::from_seed(seed),
            oracle: InvariantOracle::default(),
            config: config(&settings),
            settings,
            ceiling: Mode::Enforce,
            clock: now,
            runs: 0,
            fleet,
            launched: 0,
            next_edit: now + owners.ticks(HOUR, edit_interval_max),
            edit_interval_max,
            next_launch: now,
            owners,
            listing: Listing::default(),
            behaviours: vec![0; Behaviour::ALL.len()],
            adversary: RandomStream::from_seed(seed, 4),
            attacks: vec![0; Attack::ALL.len()],
            messages: 0,
            calls: CallCounts::default(),
            lost_swaps: 0,
            verbosity,
        }
    }

    /// One machine in one region, without faults and without changes by people.
    pub(crate) fn from_parts(config: &str, machine: SimulatedMachine, now: i64) -> Self {
        let account = Self::from_seed(0, 0);
        let mut faults = account.faults;
        faults.fault_level = FaultLevel::Clean;
        let config = match Config::read(config) {
            Ok(config) => Rc::new(config),
            Err(error) => unreachable!("{error}"),
        };
        Self {
            machines: vec![machine],
            regions: 1,
            config,
            faults,
            clock: now,
            next_edit: i64::MAX,
            fleet: 0,
            ..account
        }
    }

    /// Machines work, and EC2 continues its pending changes.
    fn pass_time(&mut self) {
        let now = self.clock;
        let publishing = PublishingDelays {
            missing: self.faults.rate(Fault::SampleMissing, now),
            late: self.faults.rate(Fault::SampleLate, now),
        };
        for machine in &mut self.machines {
            if machine.is(InstanceState::Running) {
                match machine.work_a_period(now, publishing, &mut self.owners) {
                    PublishResult::InTime => {}
                    PublishResult::Missing => self.faults.count(Fault::SampleMissing, now),
                    PublishResult::Late => self.faults.count(Fault::SampleLate, now),
                }
            }
            machine.settle(now);
        }
        // EC2 shows a terminated instance for an hour.
        self.machines.retain(|machine| now - machine.gone_at < HOUR);
    }

    fn edit_configuration(&mut self) {
        if self.clock < self.next_edit {
            return;
        }
        self.next_edit = self.clock + self.owners.ticks(HOUR, self.edit_interval_max);
        self.oracle.configured_at = self.clock;
        if self.owners.one_in(4) || self.ceiling == Mode::Observe {
            let observes = self.ceiling == Mode::Observe;
            self.ceiling = if observes { Mode::Enforce } else { Mode::Observe };
            self.next_edit = self.clock + self.owners.ticks(HOUR, 2 * DAY);
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

    fn spend(&mut self) {
        let Self { clock, settings, faults, budgets, behaviours, oracle, .. } = self;
        budgets.pass(*clock, TICK, settings, faults, |turn| {
            let behaviour = match turn {
                BudgetEvent::Spent => Behaviour::SpendBudget,
                BudgetEvent::Raised => Behaviour::RaiseBudget,
            };
            behaviours[behaviour as usize] += 1;
        });
        oracle.budgets_changed_at = budgets.changed_at.into_iter().max().unwrap_or_default();
    }

    fn jobs_go_on(&mut self) {
        let Self { clock, jobs, machines, behaviours, .. } = self;
        jobs.pass(*clock, machines, |behaviour| behaviours[behaviour as usize] += 1);
    }

    pub(crate) fn read_jobs(&mut self, now: i64) -> JobReading {
        self.jobs.read(now, &mut self.faults)
    }

    pub(crate) fn read_budgets(&mut self, now: i64) -> [Option<BudgetReading>; HOLDERS] {
        self.budgets.read(now, &mut self.faults)
    }

    fn owners_live(&mut self) {
        let now = self.clock;
        let living = self.machines.iter().filter(|machine| machine.is_listed()).count();
        if living < self.fleet && now >= self.next_launch {
            self.launch();
            self.next_launch = now + self.owners.ticks(TICK, 12 * HOUR);
        }
        if !self.machines.is_empty() && self.owners.one_in(2000) {
            let place = self.owners.below(self.machines.len());
            let mut machine = self.machines.swap_remove(place);
            self.copy_tags_to(&mut machine);
            self.machines.push(machine);
        }
        for place in 0..self.machines.len() {
            let Self { machines, owners, behaviours, verbosity, .. } = &mut *self;
            let machine = &mut machines[place];
            if !machine.is_listed() || machine.is(InstanceState::ShuttingDown) {
                continue;
            }
            let id = machine.id().to_owned();
            let mut did = |behaviour: Behaviour| {
                behaviours[behaviour as usize] += 1;
                if *verbosity > 0 {
                    println!("{} {id}: its owner: {}", stamp(now), behaviour.as_str());
                }
            };
            let team = machine.says.team();
            machine.follow_plan(now, owners, &mut did);
            if now >= machine.next_random_action {
                machine.act_randomly(now, owners, &mut did);
            }
            if machine.retagged_at == now {
                machine.team_before = team;
            }
        }
    }

    fn launch(&mut self) {
        let now = self.clock;
        self.launched += 1;
        let of_job = self.jobs.wants_one();
        let (says, tags_at, behaviour) = if of_job {
            (says_of(self.jobs.next(), now, &mut self.owners), None, Behaviour::LaunchJob)
        } else {
            first_tags(now, &mut self.owners)
        };
        let mut machine = SimulatedMachine::launch(self.launched, self.regions, says, now, &mut self.owners);
        machine.tags_at = tags_at;
        self.behaviours[behaviour as usize] += 1;
        self.behaviours[Behaviour::Launch as usize] += 1;
        if of_job {
            self.jobs.launched(&machine, now);
        } else if self.owners.one_in(4) {
            self.copy_tags_to(&mut machine);
        }
        let text = format!("{:?} {:?}", machine.ec2.tags, machine.ec2.machine);
        self.log(|| format!("{} is launched: {text}", machine.id()));
        self.machines.push(machine);
    }

    /// Copies the tags of another machine, a marked one if there is any, with Curfew's own.
    fn copy_tags_to(&mut self, machine: &mut SimulatedMachine) {
        let is_marked = |other: &&SimulatedMachine| other.ec2.tags.contains_key(MARKED) && other.id() != machine.id();
        let marked: Vec<&SimulatedMachine> = self.machines.iter().filter(is_marked).collect();
        let of_all: Vec<&SimulatedMachine> = self.machines.iter().collect();
        let others = if marked.is_empty() { of_all } else { marked };
        if others.is_empty() {
            return;
        }
        let other = others[self.owners.below(others.len())];
        let written = [MARKED, STOPPED].map(|key| other.ec2.tags.get(key).cloned());
        self.behaviours[Behaviour::CopyTags as usize] += 1;
        self.behaviours[Behaviour::CopyJob as usize] += u64::from(other.says.job.is_some());
        self.behaviours[Behaviour::CopyMark as usize] += u64::from(written[0].is_some());
        machine.copy_tags(&other.says, written, self.clock);
    }

    fn lose_documents(&mut self) {
        if self.faults.occurs(Fault::LogLost, self.clock) {
            // A run that found no log, version 0, writes the first one, also after such a loss.
            let written = std::mem::take(&mut self.notices).into_iter().filter(|(_, (version, _))| *version > 0);
            self.oracle.notices_are_lost(written.map(|(region, _)| region), self.clock);
            self.log(|| "the notification log is lost".to_owned());
        }
        if self.faults.occurs(Fault::ActivityLost, self.clock) {
            self.activity.clear();
        }
    }

    pub(crate) fn deliver_message(&mut self, message: &Message, facts: &Facts) {
        self.messages += 1;
        if self.verbosity > 0 {
            println!("{} told {}: {}", stamp(facts.now), message.team, message.body.replace('\n', "\n    "));
        }
        self.oracle.last_fault = self.faults.last_at;
        self.oracle.check_message(message, &self.machines, facts);
    }

    pub(crate) fn ran(&mut self, facts: &Facts) {
        self.oracle.ran(facts, &self.machines, self.faults.last_at);
    }

    pub(crate) fn log_step(&mut self, step: &Step, outcome: &StepOutcome) {
        self.log(|| {
            let (Step { target, evidence, mode, .. }, action) = (step, debug_action(step));
            format!("{} {action:?} for {} in {mode:?}: {outcome:?}", target.resource, evidence.rule())
        });
    }

    pub(crate) fn log_skipped(&self, plan: &Plan) {
        if self.verbosity > 1 {
            for Skipped { target, reason, .. } in &plan.skipped {
                println!("{} {} is spared: {reason:?}", stamp(self.clock), target.resource);
            }
        }
    }

    fn log(&self, what: impl FnOnce() -> String) {
        if self.verbosity > 0 {
            println!("{} {}", stamp(self.clock), what());
        }
    }
}

fn config(settings: &SimulatedConfig) -> Rc<Config> {
    match Config::read(&settings.toml()) {
        Ok(config) => Rc::new(config),
        Err(error) => unreachable!("{error}"),
    }
}
