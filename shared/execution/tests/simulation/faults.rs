//! How often faults occur: in bursts, with none in between.

use crate::chance::{HOUR, RandomStream, TICK};
use crate::fault::{BURST_MAX, CALM_MAX, Fault};

/// How frequent the faults of an account are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultLevel {
    Clean,
    Mild,
    Harsh,
}

pub(crate) struct FaultInjector {
    pub(crate) fault_level: FaultLevel,
    chance: RandomStream,
    rates: Vec<f64>,
    burst_until: i64,
    calm_until: i64,
    counts: Vec<u64>,
    /// The last one of any kind.
    pub(crate) last_at: i64,
    /// The last one by which a run may forget what it still owes.
    pub(crate) forgotten_at: i64,
}

impl FaultInjector {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut chance = RandomStream::from_seed(seed, 3);
        let fault_level = match chance.below(10) {
            0..3 => FaultLevel::Clean,
            3..7 => FaultLevel::Mild,
            _ => FaultLevel::Harsh,
        };
        let kinds = Fault::ALL.len();
        Self {
            fault_level,
            chance,
            rates: vec![0.0; kinds],
            burst_until: 0,
            calm_until: 0,
            counts: vec![0; kinds],
            last_at: 0,
            forgotten_at: 0,
        }
    }

    /// Begins and ends bursts at this tick.
    pub(crate) fn update_bursts(&mut self, now: i64) {
        if self.fault_level == FaultLevel::Clean || now < self.burst_until || now < self.calm_until {
            return;
        }
        if self.calm_until > self.burst_until {
            let worst = if self.fault_level == FaultLevel::Harsh { 0.3 } else { 0.05 };
            for rate in &mut self.rates {
                let common = self.chance.pick(&[0.0, 0.0, 0.01, 0.1, 1.0]);
                *rate = worst * common;
            }
            self.burst_until = now + self.chance.ticks(TICK, BURST_MAX);
        } else {
            let longest = CALM_MAX[usize::from(self.fault_level == FaultLevel::Harsh)];
            self.rates.fill(0.0);
            self.calm_until = now + self.chance.ticks(HOUR, longest);
        }
    }

    /// Whether it occurs now.
    pub(crate) fn occurs(&mut self, fault: Fault, now: i64) -> bool {
        if self.rate(fault, now) <= 0.0 {
            return false;
        }
        let struck = self.chance.happens(self.rate(fault, now));
        if struck {
            self.count(fault, now);
        }
        struck
    }

    /// Its probability now.
    pub(crate) fn rate(&self, fault: Fault, now: i64) -> f64 {
        if now < self.burst_until { self.rates[fault as usize] } else { 0.0 }
    }

    pub(crate) fn count(&mut self, fault: Fault, now: i64) {
        self.counts[fault as usize] += 1;
        self.last_at = self.last_at.max(now);
        if fault.is_forgetful() {
            self.forgotten_at = self.forgotten_at.max(now);
        }
    }

    pub(crate) fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// After which effect the run is cut off.
    pub(crate) fn effects_before_cut(&mut self) -> u32 {
        u32::try_from(self.chance.below(12)).unwrap_or(0)
    }
}
