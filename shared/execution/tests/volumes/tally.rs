//! The totals of many accounts, and whether they pass.

use std::time::Duration;

use crate::adversary::Attack;
use crate::chance::stamp;
use crate::fault::Fault;
use crate::outcomes::{ACTIONS, MAKE_TARGET, SPARED};
use crate::owners::Behaviour;

/// From this number of account-days on, every possible event must have happened.
const DAYS_FOR_EVERYTHING: u64 = 4_000;
const VIOLATIONS_PRINTED_MAX: usize = 20;

/// The totals of one account.
#[derive(Default)]
pub(crate) struct AccountSummary {
    pub(crate) seed: u64,
    pub(crate) days: u64,
    pub(crate) runs: u64,
    pub(crate) messages: u64,
    pub(crate) lost_swaps: u64,
    pub(crate) faults: Vec<u64>,
    pub(crate) behaviours: Vec<u64>,
    pub(crate) attacks: Vec<u64>,
    pub(crate) actions: Vec<u64>,
    pub(crate) spared: Vec<u64>,
    pub(crate) violations: Vec<(i64, String)>,
}

#[derive(Default)]
pub(crate) struct SimulationTally {
    accounts: u64,
    days: u64,
    runs: u64,
    messages: u64,
    lost_swaps: u64,
    faults: Vec<u64>,
    behaviours: Vec<u64>,
    attacks: Vec<u64>,
    actions: Vec<u64>,
    spared: Vec<u64>,
    violations: Vec<(u64, u64, i64, String)>,
}

impl SimulationTally {
    pub(crate) fn add(&mut self, life: AccountSummary) {
        self.accounts += 1;
        self.days += life.days;
        self.runs += life.runs;
        self.messages += life.messages;
        self.lost_swaps += life.lost_swaps;
        add(&mut self.faults, &life.faults);
        add(&mut self.behaviours, &life.behaviours);
        add(&mut self.attacks, &life.attacks);
        add(&mut self.actions, &life.actions);
        add(&mut self.spared, &life.spared);
        let (seed, days) = (life.seed, life.days);
        self.violations.extend(life.violations.into_iter().map(|(at, what)| (seed, days, at, what)));
    }

    /// Prints all of it. Returns whether it passes.
    pub(crate) fn print(mut self, took: Duration) -> bool {
        println!(
            "{} accounts, {} account-days, {} runs, {} messages, {} swaps lost",
            self.accounts, self.days, self.runs, self.messages, self.lost_swaps
        );
        let mut never = Vec::new();
        for (title, names, counts) in [
            ("done", ACTIONS.map(str::to_owned).to_vec(), &self.actions),
            ("skipped", SPARED.map(|one| format!("{one:?}")).to_vec(), &self.spared),
            ("faults", Fault::ALL.iter().map(|one| one.as_str().to_owned()).collect(), &self.faults),
            ("people", Behaviour::ALL.iter().map(|one| one.as_str().to_owned()).collect(), &self.behaviours),
            ("attacks", Attack::ALL.iter().map(|one| one.as_str().to_owned()).collect(), &self.attacks),
        ] {
            let counted = names.iter().zip(counts).map(|(name, count)| format!("{name} {count}"));
            println!("{title}: {}", counted.collect::<Vec<_>>().join(", "));
            never.extend(names.iter().zip(counts).filter(|(_, count)| **count == 0).map(|(name, _)| name.clone()));
        }
        self.violations.sort();
        println!("{} violations", self.violations.len());
        for (seed, days, at, what) in self.violations.iter().take(VIOLATIONS_PRINTED_MAX) {
            println!("  {} seed {seed}: {what}", stamp(*at));
            println!("    make {MAKE_TARGET} ARGS=\"--seed {seed} --days {days}\"");
        }
        println!("{:.1} s", took.as_secs_f64());
        // A check that cannot fail is a defect, and so is a fault that never occurs.
        let everything_happened = self.days < DAYS_FOR_EVERYTHING || never.is_empty();
        if !everything_happened {
            println!("NEVER HAPPENED: {}", never.join(", "));
        }
        everything_happened && self.violations.is_empty()
    }
}

fn add(sums: &mut Vec<u64>, more: &[u64]) {
    sums.resize(more.len(), 0);
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}
