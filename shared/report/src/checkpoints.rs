//! Size of the jobs' checkpoints in the state bucket, and their cost.

use std::collections::BTreeMap;

use model::id::TeamName;
use model::money::Amount;
use serde::Serialize;

use crate::spend::team_label;

/// S3 Standard, the first 50 TB, a GB and month (Amazon S3 pricing, us-east-1, 2026-11: $0.023). S3 counts a GB as 2^30 bytes (Amazon S3
/// user guide, "Understanding your AWS billing and usage reports for Amazon S3").
const USD_MICROS_PER_GIB_MONTH: u128 = 23_000;

const GIB: u128 = 1 << 30;

/// Computes the cost of storing these bytes for a month.
pub(crate) fn storage_of_month(bytes: u64) -> Amount {
    let micros = u128::from(bytes) * USD_MICROS_PER_GIB_MONTH / GIB;
    Amount::from_usd_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// Objects below `checkpoints/`, complete or not, as S3 lists them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredCheckpoints {
    /// Bytes by team and job.
    pub bytes: BTreeMap<(TeamName, String), u64>,
    /// Teams of which not all objects were counted: there are more.
    pub incomplete: Vec<TeamName>,
}

/// The checkpoints of one team.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckpointRow {
    pub team: String,
    /// Jobs that have any.
    pub jobs: usize,
    pub bytes: u64,
    /// Part of the bytes that belongs to jobs that are over, or unknown by now.
    pub bytes_of_ended: u64,
    /// `true` if there are more than were counted.
    pub is_incomplete: bool,
    /// Cost of storing them for a month.
    #[serde(rename = "usd_per_month")]
    pub cost: Amount,
}

/// The largest first. `unfinished`: the jobs that still need theirs, as `<team>/<job>`.
pub(crate) fn checkpoint_rows(stored: &StoredCheckpoints, is_unfinished: impl Fn(&str) -> bool) -> Vec<CheckpointRow> {
    let mut rows: BTreeMap<&TeamName, CheckpointRow> = BTreeMap::new();
    for ((team, job), bytes) in &stored.bytes {
        let row = rows.entry(team).or_insert_with(|| CheckpointRow {
            team: team_label(Some(team)),
            jobs: 0,
            bytes: 0,
            bytes_of_ended: 0,
            is_incomplete: stored.incomplete.contains(team),
            cost: Amount::ZERO,
        });
        row.jobs += 1;
        row.bytes = row.bytes.saturating_add(*bytes);
        if !is_unfinished(&format!("{team}/{job}")) {
            row.bytes_of_ended = row.bytes_of_ended.saturating_add(*bytes);
        }
    }
    let cost = |row: CheckpointRow| CheckpointRow { cost: storage_of_month(row.bytes), ..row };
    let mut rows: Vec<CheckpointRow> = rows.into_values().map(cost).collect();
    rows.sort_by(|one, other| (other.bytes, &one.team).cmp(&(one.bytes, &other.team)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terabyte_costs_what_s3_takes_for_it() {
        assert_eq!(storage_of_month(1 << 40).to_string(), "$23.55");
        assert_eq!(storage_of_month(0), Amount::ZERO);
    }

    #[test]
    fn teams_are_summed_and_the_jobs_that_are_over_told_apart() {
        let stored_bytes = |team: &str, job: &str, gib: u64| ((TeamName::from(team), job.to_owned()), gib << 30);
        let stored = StoredCheckpoints {
            bytes: BTreeMap::from([
                stored_bytes("nlp", "a", 10),
                stored_bytes("vision", "b", 100),
                stored_bytes("vision", "c", 400),
            ]),
            incomplete: vec!["nlp".into()],
        };
        let rows = checkpoint_rows(&stored, |job| job == "vision/b");
        let shown = rows.iter().map(|row| (row.team.as_str(), row.jobs, row.bytes_of_ended >> 30, row.is_incomplete));
        assert_eq!(shown.collect::<Vec<_>>(), [("vision", 2, 400, false), ("nlp", 1, 10, true)]);
        assert_eq!(rows[0].cost.to_string(), "$11.50");
    }
}
