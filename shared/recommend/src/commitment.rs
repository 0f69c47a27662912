//! The Savings Plan that costs the least, for a curve of hourly spend on demand.
//!
//! A Savings Plan is a commitment to pay so much for every hour of its term, used or not (Savings Plans user guide, "How Savings
//! Plans apply to your usage"). Usage up to it is billed at the plan's rates, the rest on demand. With one discount for all usage, covering
//! `x` of on-demand spend an hour costs `x * (1 - discount)` in every hour, and `max(0, spend - x)` in each. That is convex and has its
//! corners at the spend of the hours, so trying these is exact.
//!
//! Real discounts differ by type, and AWS covers what has the largest one first: with the mean of the types that run, the answer is close.

mod curve;
mod existing;

use jiff::Timestamp;
use model::money::{Amount, Rate};
use serde::Serialize;

pub use curve::{SpendCurve, UsageCurve};
pub use existing::{CapacityBlock, ExistingCommitments, PlanChoice, PlanScope, ReservedInstances, SavingsPlan};

const MILLION: u128 = 1_000_000;

/// Spend on demand in the hour that begins at `from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HourSpend {
    pub from: Timestamp,
    #[serde(rename = "usd")]
    pub spent: Amount,
}

/// Discount of the plan's rates, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanDiscount(u32);

impl PlanDiscount {
    /// From 0.0001 to 99.9999 percent; `None` for everything else.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it lies between 0 and a million")]
    pub fn from_percent(percent: f64) -> Option<Self> {
        let millionths = (0.0..=100.0).contains(&percent).then(|| (percent * 10_000.0).round() as u32)?;
        (1..1_000_000).contains(&millionths).then_some(Self(millionths))
    }

    /// The rate behind the discount, rounded up.
    #[must_use]
    pub fn reduce(self, rate: Rate) -> Rate {
        let micros = (u128::from(rate.usd_micros_per_hour()) * self.paid_millionths()).div_ceil(MILLION);
        Rate::from_usd_micros_per_hour(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    const fn paid_millionths(self) -> u128 {
        MILLION - self.0 as u128
    }
}

/// The commitment that costs the least, and what it would have cost in these hours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Commitment {
    /// Payment for each hour; zero if no commitment saves anything.
    #[serde(rename = "usd_per_hour")]
    pub rate: Rate,
    /// Spend on demand that the plan covers in an hour.
    #[serde(rename = "covers_usd_per_hour")]
    pub covered: Rate,
    pub hours: usize,
    /// Cost of all hours on demand.
    #[serde(rename = "on_demand_usd")]
    pub on_demand: Amount,
    /// Cost that all hours would have had with the plan.
    #[serde(rename = "cost_usd")]
    pub cost: Amount,
    #[serde(rename = "saved_usd")]
    pub saved: Amount,
    /// Share of the commitment that would have been used.
    pub used_percent: u64,
    /// The hours in which all of it would have been used.
    pub full_hours: usize,
    /// Share of the commitment below which the plan costs more than on demand.
    pub used_percent_min: u64,
}

/// The cheapest for these hours; of two that cost the same the smaller one.
#[must_use]
pub fn best_commitment(hours: &[HourSpend], discount: PlanDiscount) -> Commitment {
    let mut spends: Vec<u64> = hours.iter().map(|hour| hour.spent.usd_micros()).collect();
    spends.sort_unstable();
    let total: u128 = spends.iter().map(|spent| u128::from(*spent)).sum();
    let count = spends.len();
    let paid = discount.paid_millionths();
    // In millionths of a micro-dollar, so that nothing is rounded before the choice.
    let mut best = (total * MILLION, 0_u64, 0_u128);
    let mut below = 0_u128;
    for (place, covered) in spends.iter().copied().enumerate() {
        let above = count - place;
        let uncovered = (total - below) - u128::from(covered) * above as u128;
        let cost = u128::from(covered) * paid * count as u128 + uncovered * MILLION;
        if cost < best.0 {
            best = (cost, covered, below + u128::from(covered) * above as u128);
        }
        below += u128::from(covered);
    }
    let (cost, covered, used) = best;
    let committed = u128::from(covered) * count as u128;
    let amount = |micros: u128| Amount::from_usd_micros(u64::try_from(micros).unwrap_or(u64::MAX));
    let (on_demand, cost) = (amount(total), amount(cost.div_ceil(MILLION)));
    let rate = u64::try_from((u128::from(covered) * paid).div_ceil(MILLION)).unwrap_or(u64::MAX);
    Commitment {
        rate: Rate::from_usd_micros_per_hour(rate),
        covered: Rate::from_usd_micros_per_hour(covered),
        hours: count,
        on_demand,
        cost,
        saved: on_demand.saturating_sub(cost),
        used_percent: percent(used, committed),
        full_hours: if covered == 0 { 0 } else { spends.iter().filter(|spent| **spent >= covered).count() },
        used_percent_min: percent(paid, MILLION),
    }
}

fn percent(part: u128, whole: u128) -> u64 {
    (part * 100).checked_div(whole).and_then(|percent| u64::try_from(percent).ok()).unwrap_or(0)
}

const COLUMNS: usize = 60;
const ROWS: usize = 10;

/// One line each, from the top; nothing if nothing was spent.
#[must_use]
pub fn draw_commitment(hours: &[HourSpend], commitment: &Commitment) -> Vec<String> {
    let mut spends: Vec<u64> = hours.iter().map(|hour| hour.spent.usd_micros()).collect();
    spends.sort_unstable_by(|one, other| other.cmp(one));
    let top = spends.first().copied().unwrap_or_default();
    if top == 0 {
        return Vec::new();
    }
    let columns = COLUMNS.min(spends.len());
    // Each column shows the mean of its hours.
    let heights: Vec<u64> = (0..columns).map(|column| mean(part(&spends, column, columns))).collect();
    let covered = commitment.covered.usd_micros_per_hour();
    let mut lines = Vec::new();
    for row in (0..ROWS).rev() {
        let (floor, ceiling) = (level(top, row), level(top, row + 1));
        let middle = floor.midpoint(ceiling);
        let bars: String = heights.iter().map(|height| if *height > middle { '█' } else { ' ' }).collect();
        let is_line = covered > floor && covered <= ceiling;
        let mark =
            if is_line { format!("{bars:columns$}  <- covered by the commitment") } else { bars.trim_end().to_owned() };
        let label = Rate::from_usd_micros_per_hour(ceiling).to_string();
        lines.push(format!("{label:>12} |{mark}"));
    }
    lines.push(format!("{:>12} +{}", "", "-".repeat(columns)));
    lines.push(format!("{:>12}  {} hours, the dearest first", "", spends.len()));
    lines
}

fn level(top: u64, row: usize) -> u64 {
    let rows = ROWS as u64;
    u64::try_from(u128::from(top) * row as u128 / u128::from(rows)).unwrap_or(u64::MAX)
}

fn part(spends: &[u64], column: usize, columns: usize) -> &[u64] {
    let at = |column: usize| spends.len() * column / columns;
    spends.get(at(column)..at(column + 1)).unwrap_or_default()
}

fn mean(spends: &[u64]) -> u64 {
    let sum: u128 = spends.iter().map(|spent| u128::from(*spent)).sum();
    sum.checked_div(spends.len() as u128).and_then(|mean| u64::try_from(mean).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
