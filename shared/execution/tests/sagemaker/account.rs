//! One account: a seed's owners, faults, configurations and runs, hour by hour.

use std::collections::BTreeMap;
use std::rc::Rc;

use model::config::Config;
use model::id::{Region, ResourceId};
use model::mode::Mode;
use model::notification_log::NotificationLog;
use model::sagemaker::{ObservedSageMaker, SageMakerResource};
use notify::Message;
use plan::report::StepOutcome;
use plan::{Plan, Skipped, Step};

use crate::adversary::{Attack, attack};
use crate::budgets::{BudgetEvent, SimulatedBudgets};
use crate::chance::{DAY, HOUR, RandomStream, stamp};
use crate::driver::debug_action;
use crate::fault::Fault;
use crate::faults::FaultInjector;
use crate::oracle::InvariantOracle;
use crate::outcomes::{ACTIONS, SPARED, name_of};
use crate::owners::{Behaviour, Owners};
use crate::schedule::{self, Scheduled};
use crate::session::Facts;
use crate::settings::SimulatedConfig;
use crate::tally::AccountSummary;
use crate::world::{LAG, SimulatedResource};

/// Monday, 2026-01-05.
const EPOCH: i64 = 1_767_571_200;

pub(crate) struct SimulatedAccount {
    pub(crate) resources: Vec<SimulatedResource>,
    pub(crate) regions: usize,
    /// The bucket: documents with their versions.
    pub(crate) notices: BTreeMap<Region, (u64, NotificationLog)>,
    pub(crate) faults: FaultInjector,
    pub(crate) oracle: InvariantOracle,
    pub(crate) settings: Rc<SimulatedConfig>,
    /// The structure of the document.
    pub(crate) config: Rc<Config>,
    pub(crate) ceiling: Mode,
    pub(crate) budgets: SimulatedBudgets,
    pub(crate) clock: i64,
    pub(crate) runs: u64,
    pub(crate) owners: RandomStream,
    adversary: RandomStream,
    /// How late `CloudWatch` is in this hour.
    pub(crate) lag: i64,
    pub(crate) an_hour_ago: Vec<SageMakerResource>,
    fleet: usize,
    next_edit: i64,
    looked_at: i64,
    summary: AccountSummary,
    /// Writes of logs that another run won.
    pub(crate) lost_swaps: u64,
    verbosity: u8,
}

/// How long a seed's account lasts.
pub(crate) fn days_of(seed: u64) -> u64 {
    u64::try_from(RandomStream::from_seed(seed, 0).between(30, 120)).unwrap_or(30)
}

pub(crate) fn live(seed: u64, days: u64, verbosity: u8) -> AccountSummary {
    let hours = i64::try_from(days).unwrap_or(0) * 24;
    let account = schedule::live(SimulatedAccount::from_seed(seed, verbosity), hours);
    AccountSummary {
        seed,
        days,
        runs: account.runs,
        lost_swaps: account.lost_swaps,
        faults: account.faults.counts().to_vec(),
        violations: account.oracle.violations,
        ..account.summary
    }
}

impl Scheduled for SimulatedAccount {
    const RUN_LATE_MAX: i64 = 3000;

    fn begin_tick(&mut self) {
        self.an_hour_ago = self.list(self.clock);
        self.clock += HOUR;
        let now = self.clock;
        self.faults.update_bursts(now);
        let is_late = self.faults.occurs(Fault::MetricsLate, now);
        self.lag = if is_late { self.owners.between(LAG, 5 * HOUR) } else { self.owners.between(0, LAG) };
        self.edit_configuration();
        self.spend();
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the method is of one lifetime, and not of any")]
        self.owners_live(now, |owners| owners.live());
        self.adversary_attacks(now, None);
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
        self.tell_oracle_of_faults();
        let Self { oracle, resources, settings, ceiling, budgets, clock, .. } = self;
        oracle.watch(resources, settings, *ceiling, budgets, *clock);
    }

    fn meddle(&mut self, interfered: &[ResourceId]) {
        if !interfered.is_empty() && self.adversary.one_in(16) {
            let id = &interfered[self.adversary.below(interfered.len())];
            let place = self.resources.iter().position(|one| one.id == *id);
            self.adversary_attacks(self.looked_at + 1, place);
        }
        if interfered.is_empty() || !self.owners.one_in(8) {
            return;
        }
        let id = &interfered[self.owners.below(interfered.len())];
        let Some(place) = self.resources.iter().position(|one| one.id == *id) else { return };
        self.owners_live(self.looked_at + 1, |owners| owners.meddle(place));
    }
}

impl SimulatedAccount {
    fn from_seed(seed: u64, verbosity: u8) -> Self {
        let mut owners = RandomStream::from_seed(seed, 1);
        let settings = Rc::new(SimulatedConfig::draw(&mut owners));
        let now = EPOCH + owners.between(0, 365) * DAY;
        let account = Self {
            resources: Vec::new(),
            regions: if owners.one_in(3) { 2 } else { 1 },
            notices: BTreeMap::new(),
            faults: FaultInjector::from_seed(seed),
            oracle: InvariantOracle::default(),
            config: config(&settings),
            settings,
            ceiling: Mode::Enforce,
            budgets: SimulatedBudgets::from_seed(seed, now),
            clock: now,
            runs: 0,
            lag: 0,
            an_hour_ago: Vec::new(),
            fleet: owners.below(16) + 2,
            next_edit: now + owners.between(DAY, 20 * DAY),
            owners,
            looked_at: now,
            summary: AccountSummary {
                behaviours: vec![0; Behaviour::ALL.len()],
                attacks: vec![0; Attack::ALL.len()],
                actions: vec![0; ACTIONS.len()],
                spared: vec![0; SPARED.len()],
                ..AccountSummary::default()
            },
            adversary: RandomStream::from_seed(seed, 4),
            lost_swaps: 0,
            verbosity,
        };
        account.log(|| format!("{:?}, {}", account.faults.fault_level, account.settings.toml().replace('\n', " ")));
        account
    }

    /// What the lists and looks of `SageMaker` show.
    pub(crate) fn list(&self, now: i64) -> Vec<SageMakerResource> {
        self.resources.iter().filter(|one| one.is_listed()).map(|one| one.describe(now)).collect()
    }

    pub(crate) fn place(&self, region: &Region, id: &str) -> Option<usize> {
        self.resources.iter().position(|one| one.region == *region && one.id.as_str() == id)
    }

    fn edit_configuration(&mut self) {
        if self.clock < self.next_edit {
            return;
        }
        self.next_edit = self.clock + self.owners.between(HOUR, 20 * DAY);
        self.oracle.configured_at = self.clock;
        if self.owners.one_in(6) || self.ceiling == Mode::Observe {
            let observes = self.ceiling == Mode::Observe;
            self.ceiling = if observes { Mode::Enforce } else { Mode::Observe };
            self.next_edit = self.clock + self.owners.between(HOUR, 4 * DAY);
            self.log(|| "CURFEW_MODE is toggled".to_owned());
        } else {
            let mut settings = SimulatedConfig::clone(&self.settings);
            settings.edit(&mut self.owners);
            (self.config, self.settings) = (config(&settings), Rc::new(settings));
            self.log(|| format!("configured {}", self.settings.toml().replace('\n', " ")));
        }
    }

    fn spend(&mut self) {
        let Self { clock, settings, faults, budgets, summary, oracle, .. } = self;
        budgets.pass(*clock, HOUR, settings, faults, |turn| {
            let behaviour = match turn {
                BudgetEvent::Spent => Behaviour::SpendBudget,
                BudgetEvent::Raised => Behaviour::RaiseBudget,
            };
            summary.behaviours[behaviour as usize] += 1;
        });
        oracle.budgets_changed_at = budgets.changed_at.into_iter().max().unwrap_or_default();
    }

    fn owners_live(&mut self, now: i64, live: impl FnOnce(&mut Owners<'_>)) {
        let Self { resources, owners, summary, verbosity, regions, fleet, .. } = self;
        let mut did = |behaviour: Behaviour, id: &str| {
            summary.behaviours[behaviour as usize] += 1;
            if *verbosity > 0 {
                println!("{} {id}: people: {}", stamp(now), behaviour.as_str());
            }
        };
        live(&mut Owners { resources, regions: *regions, fleet: *fleet, chance: owners, now, did: &mut did });
        for one in resources.iter_mut() {
            one.note_expiry(now);
        }
    }

    /// `place`: that of a resource that a run is about to change.
    fn adversary_attacks(&mut self, now: i64, place: Option<usize>) {
        let Self { resources, adversary, summary, verbosity, .. } = self;
        let attacks = place.is_some() || (!resources.is_empty() && adversary.one_in(4));
        let place = place.or_else(|| attacks.then(|| adversary.below(resources.len())));
        let Some(place) = place.filter(|place| resources[*place].gone_at.is_none()) else { return };
        if let Some(attack) = attack(resources, place, adversary, now) {
            summary.attacks[attack as usize] += 1;
            if *verbosity > 0 {
                println!("{} {}: the adversary: {}", stamp(now), resources[place].id, attack.as_str());
            }
        }
    }

    /// The budgets as a run reads them.
    pub(crate) fn read_budgets(&mut self, run: u64, now: i64) {
        let Self { oracle, budgets, faults, .. } = self;
        oracle.read(run, budgets.read(now, faults));
    }

    pub(crate) fn planned(&mut self, plan: &Plan, seen: &ObservedSageMaker, facts: &Facts) {
        self.oracle.planned(plan, seen, &self.resources, facts);
    }

    /// A message was delivered. Some owners follow its advice.
    pub(crate) fn deliver_message(&mut self, message: &Message, facts: &Facts) {
        self.summary.messages += 1;
        if self.verbosity > 0 {
            println!("{} told {}: {}", stamp(facts.now), message.team, message.body.replace('\n', "\n    "));
        }
        self.tell_oracle_of_faults();
        let announced = self.oracle.check_message(message, &self.resources, facts);
        for place in announced {
            if self.owners.one_in(8) {
                self.oracle.owner_reacts(place, facts.now);
                self.owners_live(facts.now, |owners| owners.act_randomly(place));
            }
        }
    }

    /// A run finished.
    pub(crate) fn ran(&mut self, facts: &Facts) {
        self.tell_oracle_of_faults();
        self.oracle.ran(facts, &self.resources, &self.notices);
    }

    fn tell_oracle_of_faults(&mut self) {
        self.oracle.last_fault = self.faults.last_at;
        self.oracle.last_forgotten = self.faults.forgotten_at;
    }

    pub(crate) fn log_step(&mut self, step: &Step, outcome: &StepOutcome) {
        if let Some(place) = ACTIONS.iter().position(|name| *name == name_of(step)) {
            self.summary.actions[place] += u64::from(outcome.kind == plan::report::OutcomeKind::Done);
        }
        self.log(|| {
            let (Step { target, evidence, mode, .. }, action) = (step, debug_action(step));
            format!("{} {action:?} for {} in {mode:?}: {outcome:?}", target.resource, evidence.rule())
        });
    }

    pub(crate) fn log_skipped(&mut self, plan: &Plan) {
        for Skipped { target, reason, .. } in &plan.skipped {
            if let Some(place) = SPARED.iter().position(|one| one == reason) {
                self.summary.spared[place] += 1;
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
