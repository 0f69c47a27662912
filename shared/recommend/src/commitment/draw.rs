//! The curve of hourly spend in characters: the hours from the dearest to the cheapest, and the line up to which a commitment covers them.

use model::money::Rate;

use super::{Commitment, HourSpend};

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
