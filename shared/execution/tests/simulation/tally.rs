//! The totals of many accounts, and whether they pass.

use std::time::Duration;

use model::rule::Rule;

use crate::adversary::Attack;
use crate::chance::{HOUR, stamp};
use crate::fault::Fault;
use crate::oracle::IdleShare;
use crate::owners::Behaviour;

/// From this number of account-days on, every possible event must have happened.
const DAYS_FOR_EVERYTHING: u64 = 4_000;
/// In fewer account-days one machine that somebody kept from its stop decides the share of recovered hours.
const DAYS_FOR_SHARE: u64 = 200;
const RECOVERED_MIN_PERCENT: f64 = 95.0;
const VIOLATIONS_PRINTED_MAX: usize = 20;

pub(crate) struct AccountSummary {
    pub(crate) seed: u64,
    pub(crate) days: u64,
    pub(crate) runs: u64,
    pub(crate) messages: u64,
    pub(crate) lost_swaps: u64,
    pub(crate) ends: [[u64; 2]; Rule::RUNNING.len()],
    pub(crate) faults: Vec<u64>,
    pub(crate) behaviours: Vec<u64>,
    pub(crate) attacks: Vec<u64>,
    pub(crate) violations: Vec<(i64, String)>,
    pub(crate) share: IdleShare,
    pub(crate) clean: bool,
}

#[derive(Default)]
pub(crate) struct SimulationTally {
    accounts: u64,
    days: u64,
    runs: u64,
    messages: u64,
    lost_swaps: u64,
    ends: [[u64; 2]; Rule::RUNNING.len()],
    faults: Vec<u64>,
    behaviours: Vec<u64>,
    attacks: Vec<u64>,
    violations: Vec<(u64, u64, i64, String)>,
    overall: IdleShare,
    clean: IdleShare,
}

impl SimulationTally {
    pub(crate) fn add(&mut self, life: AccountSummary) {
        self.accounts += 1;
        self.days += life.days;
        self.runs += life.runs;
        self.messages += life.messages;
        self.lost_swaps += life.lost_swaps;
        for (sum, more) in self.ends.as_flattened_mut().iter_mut().zip(life.ends.as_flattened()) {
            *sum += more;
        }
        add(&mut self.faults, &life.faults);
        add(&mut self.behaviours, &life.behaviours);
        add(&mut self.attacks, &life.attacks);
        let (seed, days) = (life.seed, life.days);
        self.violations.extend(life.violations.into_iter().map(|(at, what)| (seed, days, at, what)));
        self.overall.add(life.share);
        if life.clean {
            self.clean.add(life.share);
        }
    }

    /// Prints all of it. Returns whether it passes.
    pub(crate) fn print(mut self, took: Duration) -> bool {
        println!(
            "{} accounts, {} account-days, {} runs, {} messages, {} swaps lost",
            self.accounts, self.days, self.runs, self.messages, self.lost_swaps
        );
        let ends = Rule::RUNNING.iter().zip(self.ends);
        let ends =
            ends.map(|(rule, [stops, terminations])| format!("{rule} {stops} stopped + {terminations} terminated"));
        println!("actions: {}", ends.collect::<Vec<_>>().join(", "));
        println!("faults: {}", counted(Fault::ALL.iter().map(|fault| fault.as_str()), &self.faults));
        println!("owners: {}", counted(Behaviour::ALL.iter().map(|one| one.as_str()), &self.behaviours));
        println!("attacks: {}", counted(Attack::ALL.iter().map(|one| one.as_str()), &self.attacks));
        let mut passes = self.everything_happened();
        for (name, share) in [("all", self.overall), ("clean", self.clean)] {
            let percent = percent(share);
            let (recovered, lost) = (share.recovered / HOUR, share.lost / HOUR);
            println!(
                "avoidable idle hours recovered, {name} accounts: {percent:.2} % ({recovered} h, {lost} h were lost)"
            );
            passes &= percent >= RECOVERED_MIN_PERCENT || self.days < DAYS_FOR_SHARE;
        }
        self.violations.sort();
        println!("{} violations", self.violations.len());
        for (seed, days, at, what) in self.violations.iter().take(VIOLATIONS_PRINTED_MAX) {
            println!("  {} seed {seed}: {what}", stamp(*at));
            println!("    make simulate-instances ARGS=\"--seed {seed} --days {days}\"");
        }
        println!("{:.1} s", took.as_secs_f64());
        passes && self.violations.is_empty()
    }

    /// A check that cannot fail is a defect, and so is a fault that never occurs.
    fn everything_happened(&self) -> bool {
        if self.days < DAYS_FOR_EVERYTHING {
            return true;
        }
        let never = |names: &[&'static str], counts: &[u64]| -> Vec<&'static str> {
            names.iter().zip(counts).filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect()
        };
        let faults: Vec<&str> = Fault::ALL.iter().map(|fault| fault.as_str()).collect();
        let behaviours: Vec<&str> = Behaviour::ALL.iter().map(|one| one.as_str()).collect();
        let attacks: Vec<&str> = Attack::ALL.iter().map(|one| one.as_str()).collect();
        let rules: Vec<&str> = Rule::RUNNING.iter().map(|rule| rule.as_str()).collect();
        let ends = self.ends.map(|[stops, terminations]| stops + terminations);
        let never: Vec<&str> = [
            never(&faults, &self.faults),
            never(&behaviours, &self.behaviours),
            never(&attacks, &self.attacks),
            never(&rules, &ends),
            never(&["swap lost"], &[self.lost_swaps]),
        ]
        .concat();
        if !never.is_empty() {
            println!("NEVER HAPPENED: {}", never.join(", "));
        }
        never.is_empty()
    }
}

fn add(sums: &mut Vec<u64>, more: &[u64]) {
    sums.resize(more.len(), 0);
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

fn counted(names: impl Iterator<Item = &'static str>, counts: &[u64]) -> String {
    names.zip(counts).map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "a share in percent, of far fewer than 2^52 seconds")]
fn percent(share: IdleShare) -> f64 {
    let all = share.recovered + share.lost;
    if all == 0 { 100.0 } else { share.recovered as f64 * 100.0 / all as f64 }
}
