//! Possible savings on the used machines, each with its evidence. Without evidence there is no finding.
//!
//! - **Spot**: a job that ran on demand, and whose state has a complete checkpoint to resume from, in a place where Spot costs less now.
//! - **Hours**: an instance whose GPUs were busy only within some hours of the week, for [`SEEN_MIN`] at least, and which ran outside of them.
//! - **Smaller**: an instance of which fewer GPUs, or less of their memory, were ever used in that time. The other type must hold the
//!   peak with room to spare, and its GPU must be as fast: utilisation says that a kernel ran, not how much of the chip worked.

mod hours;
mod instance;
mod samples;
mod smaller;
mod spot;

use jiff::{SignedDuration, Timestamp};
use model::id::{Region, ResourceId, TeamName, TypeName};
use model::money::Rate;
use serde::Serialize;

pub use hours::{WeeklyHours, find_hours};
pub use instance::{dearest, is_looked_at};
pub use samples::{DeviceSamples, usage_hours};
pub use smaller::find_smaller;
pub use spot::{JobRuns, find_spot, on_demand_jobs};

/// Two weeks: every hour of the week was seen twice.
pub const SEEN_MIN: SignedDuration = SignedDuration::from_hours(14 * 24);

/// The jobs of so long are looked at.
pub const JOBS_SEEN: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Smallest share of these hours that must have samples, in percent: with fewer, an hour without samples may have been work.
pub const COVERAGE_MIN_PERCENT: usize = 90;

/// Use of one instance, hour by hour.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceUsage {
    pub region: Region,
    pub instance: ResourceId,
    pub instance_type: TypeName,
    pub team: Option<TeamName>,
    /// `true` if a tag already gives its hours.
    pub has_hours: bool,
    /// Cost of the running instance; `None` if unknown.
    pub rate: Option<Rate>,
    /// Hours in which every GPU reported, in order.
    pub hours: Vec<UsageHour>,
}

/// The GPUs of an instance in the hour that began then.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageHour {
    pub from: Timestamp,
    /// The highest utilisation of each GPU, in percent.
    pub utilization: Vec<f64>,
    /// The most memory that was held on each GPU, in MiB; empty if it is not measured.
    pub memory_mib: Vec<f64>,
}

/// Something that could cost less.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UsageFinding {
    pub kind: FindingKind,
    pub region: Region,
    /// An instance, or a job as `<team>/<job>`.
    pub resource: String,
    /// Type of the resource, such as `g5.12xlarge`.
    pub what: String,
    pub team: Option<TeamName>,
    /// Saving, in dollars a month.
    #[serde(rename = "saves_usd_per_month", serialize_with = "per_month")]
    pub saves: Rate,
    /// Observation behind the finding, with its dates.
    pub evidence: String,
    /// Step to take.
    pub action: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    Spot,
    Hours,
    Smaller,
}

impl FindingKind {
    /// Returns the name for a table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spot => "Spot",
            Self::Hours => "hours",
            Self::Smaller => "smaller",
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn per_month<S: serde::Serializer>(rate: &Rate, serializer: S) -> Result<S::Ok, S::Error> {
    model::money::as_usd_per_month(&Some(*rate), serializer)
}

/// Returns the `max` findings that save the most; a finding without a saving is left out.
#[must_use]
pub fn top_findings(mut findings: Vec<UsageFinding>, max: usize) -> Vec<UsageFinding> {
    findings.retain(|finding| finding.saves > Rate::ZERO);
    findings.sort_by(|one, other| {
        other.saves.cmp(&one.saves).then_with(|| (&one.resource, one.kind).cmp(&(&other.resource, other.kind)))
    });
    findings.truncate(max);
    findings
}

impl InstanceUsage {
    /// Returns `true` if the instance was seen for long enough, and in enough of that time.
    fn is_evident(&self) -> bool {
        let (Some(first), Some(last)) = (self.hours.first(), self.hours.last()) else { return false };
        let seen = last.from.duration_since(first.from).saturating_add(SignedDuration::from_hours(1));
        let hours = usize::try_from(seen.as_hours()).unwrap_or(0);
        seen >= SEEN_MIN && self.hours.len() * 100 >= hours * COVERAGE_MIN_PERCENT
    }

    /// `from 2026-11-01 to 2026-11-15`.
    fn seen(&self) -> String {
        let day = |hour: Option<&UsageHour>| hour.map(|hour| hour.from.strftime("%Y-%m-%d").to_string());
        let (first, last) = (day(self.hours.first()), day(self.hours.last()));
        format!("from {} to {}", first.unwrap_or_default(), last.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
