//! GPU hours that were paid for, against those in which a GPU did something. Unknown hours are neither.

use std::collections::BTreeMap;

use billing::energy::hardware;
use billing::ledger::{Ledger, RunKind, TimeSpan};
use jiff::{SignedDuration, Timestamp};
use model::id::{Region, ResourceId, TypeName};
use model::moment::before;
use model::money::whole;
use recommend::usage::InstanceUsage;
use serde::Serialize;

use crate::spend::team_label;

/// Three weeks: as far back as the report reads metrics.
const SEEN: SignedDuration = SignedDuration::from_hours(21 * 24);

const SECONDS_AN_HOUR: u64 = 3_600;

/// GPU hours of the last three weeks, of EC2 instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct GpuHours {
    /// Hours of running GPUs, by the ledger, as far as a type's GPUs are known.
    pub paid: u64,
    /// Hours in which a GPU reported.
    pub measured: u64,
    /// Measured hours in which a GPU did something: one sample was not below `[idle] gpu_below_percent`.
    pub used: u64,
}

impl GpuHours {
    /// Takes the hours of one instance in, with all GPUs that reported.
    pub(crate) fn add_usage(&mut self, usage: &InstanceUsage, gpu_below_percent: f64) {
        for hour in &usage.hours {
            let used = hour.utilization.iter().filter(|percent| **percent >= gpu_below_percent).count();
            self.measured = self.measured.saturating_add(u64::try_from(hour.utilization.len()).unwrap_or_default());
            self.used = self.used.saturating_add(u64::try_from(used).unwrap_or_default());
        }
    }

    fn add(self, other: Self) -> Self {
        Self {
            paid: self.paid.saturating_add(other.paid),
            measured: self.measured.saturating_add(other.measured),
            used: self.used.saturating_add(other.used),
        }
    }
}

/// Adds the hours that were paid for to the measured ones, by team.
pub(crate) fn with_paid_hours<'a>(
    mut measured: BTreeMap<String, GpuHours>,
    ledgers: impl Iterator<Item = &'a Ledger>,
    now: Timestamp,
) -> BTreeMap<String, GpuHours> {
    let span = TimeSpan { from: before(now, SEEN), to: now };
    // A run over the turn of a month is in the ledgers of both.
    let mut runs: BTreeMap<(Option<&Region>, &ResourceId, Timestamp), BTreeMap<String, u64>> = BTreeMap::new();
    for run in ledgers.flat_map(Ledger::runs).filter(|run| run.kind() == RunKind::Instance) {
        let mut by_team: BTreeMap<String, u64> = BTreeMap::new();
        for share in run.shares(span) {
            let Some(machine) = hardware(&TypeName::from(share.what)) else { continue };
            let eighths = u64::from(machine.accelerator_eighths);
            let seconds = run.running_time(share.span).least_seconds.saturating_mul(eighths) / 8;
            let team_seconds = by_team.entry(team_label(share.team)).or_default();
            *team_seconds = team_seconds.saturating_add(seconds);
        }
        let known = runs.entry((run.region, run.resource, run.began)).or_default();
        if by_team.values().sum::<u64>() > known.values().sum::<u64>() {
            *known = by_team;
        }
    }
    let mut seconds: BTreeMap<String, u64> = BTreeMap::new();
    for (team, of_run) in runs.into_values().flatten() {
        let team_seconds = seconds.entry(team).or_default();
        *team_seconds = team_seconds.saturating_add(of_run);
    }
    for (team, seconds) in seconds {
        measured.entry(team).or_default().paid = seconds / SECONDS_AN_HOUR;
    }
    measured
}

/// `GPU hours of three weeks: 4,032 paid for; in 605 of 2,016 measured ones (30 %) a GPU did something, and 2,016 are unknown.`; `None` where
/// none is known.
pub(crate) fn describe<'a>(all: impl Iterator<Item = &'a GpuHours>) -> Option<String> {
    let GpuHours { paid, measured, used } = all.fold(GpuHours::default(), |sum, one| sum.add(*one));
    // The ledger may be younger than the metrics.
    let paid = paid.max(measured);
    if paid == 0 {
        return None;
    }
    let unknown = paid.saturating_sub(measured);
    let begin = format!("GPU hours of three weeks: {} paid for", whole(paid));
    let Some(percent) = used.saturating_mul(100).checked_div(measured) else {
        return Some(format!("{begin}; no metric says in how many of them a GPU did something."));
    };
    let rest = if unknown > 0 { format!(", and {} are unknown", whole(unknown)) } else { String::new() };
    let (used, measured) = (whole(used), whole(measured));
    Some(format!("{begin}; in {used} of {measured} measured ones ({percent} %) a GPU did something{rest}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_hours_are_neither_used_nor_unused() {
        let hours = |paid, measured, used| describe([GpuHours { paid, measured, used }].iter());
        assert_eq!(hours(0, 0, 0), None);
        assert_eq!(
            hours(4_032, 2_016, 605).unwrap(),
            "GPU hours of three weeks: 4,032 paid for; in 605 of 2,016 measured ones (30 %) a GPU did something, and 2,016 are unknown."
        );
        assert_eq!(
            hours(24, 24, 24).unwrap(),
            "GPU hours of three weeks: 24 paid for; in 24 of 24 measured ones (100 %) a GPU did something."
        );
        assert_eq!(
            hours(1_000, 0, 0).unwrap(),
            "GPU hours of three weeks: 1,000 paid for; no metric says in how many of them a GPU did something."
        );
        assert!(hours(5, 10, 1).unwrap().contains(": 10 paid for; in 1 of 10"));
    }
}
