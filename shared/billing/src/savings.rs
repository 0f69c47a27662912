//! Savings of a report: the cost that stopped, terminated and deleted resources would have had, by a rule that anybody can check.
//!
//! The real cost without the action is never known. [`COUNTERFACTUAL`] states the assumption instead. Where the facts are missing, it
//! assumes less: a resource without a price saves nothing, and if a resource is stopped twice without a start in between, only the first
//! stop counts.

mod starts;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::hours::{Hours, HoursPosition};
use model::id::{Region, ResourceId, TeamName};
use model::moment::after;
use model::money::{Amount, Rate};
use serde::Serialize;

pub use starts::{StartIndex, StartKey};

use crate::ledger::TimeSpan;

/// The rule for people, for the report and the documentation.
pub const COUNTERFACTUAL: &str = "A resource that Curfew stopped, terminated or deleted counts as saved until it is started again \
     or replaced, until its usual hours (curfew:hours) end the next time, or for 7 days, whichever comes first. It counts at the price \
     that it had when Curfew acted, a deleted volume less what its snapshot costs. What has no known price saves nothing.";

/// The longest time that an action saves: by then a person would have noticed.
pub const COUNTED_MAX: SignedDuration = SignedDuration::from_hours(7 * 24);

/// A standard snapshot, if every block of the volume is in use (Amazon EBS pricing, us-east-1, 2026-11: $0.05 a GB and month).
const SNAPSHOT_USD_MICROS_PER_GIB_MONTH: u64 = 50_000;

/// The highest price of the snapshot of a volume.
#[must_use]
pub const fn snapshot_rate(gib: u64) -> Rate {
    Rate::from_usd_micros_per_month(gib.saturating_mul(SNAPSHOT_USD_MICROS_PER_GIB_MONTH))
}

/// A resource that Curfew stopped, terminated or deleted, as an audit record says.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedResource {
    pub region: Region,
    pub resource: ResourceId,
    /// Type of the resource, for people: `g5.xlarge`, `500 GiB gp3`.
    pub what: String,
    pub team: Option<TeamName>,
    /// The rule that it violated, as the record names it.
    pub rule: String,
    pub action: EndingAction,
    /// Time of the action.
    pub at: Timestamp,
    /// Cost before the action; `None` if unknown, and zero if it is paid for in any case.
    pub rate: Option<Rate>,
    /// Cost after the action, such as that of the snapshot of a deleted volume.
    pub remaining_rate: Rate,
    /// Its `curfew:hours`, if it has any that can be read.
    pub hours: Option<Hours>,
    /// The key of the audit record in the state bucket.
    pub audit_key: String,
}

/// Action of Curfew on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndingAction {
    /// An instance was stopped, and can be started again.
    Stop,
    /// Another instance can replace it.
    Terminate,
    /// A volume is gone.
    Delete,
}

impl EndingAction {
    /// Reads the action of a step; `None` for what ends nothing.
    #[must_use]
    pub fn read(action: &str) -> Option<Self> {
        match action {
            "stop" => Some(Self::Stop),
            "terminate" => Some(Self::Terminate),
            "delete" => Some(Self::Delete),
            _ => None,
        }
    }

    /// Describes the action for people: `stopped`.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Stop => "stopped",
            Self::Terminate => "terminated",
            Self::Delete => "deleted",
        }
    }
}

/// Saving of one action.
#[derive(Debug, Clone, PartialEq)]
pub struct SavingLine {
    pub ended: EndedResource,
    /// Time that counts as saved, within the span of the report; empty if the action does not count.
    pub counted: TimeSpan,
    /// Reason why no longer time counts.
    pub limit: SavingLimit,
    /// `None` if the price is unknown.
    pub saved: Option<Amount>,
}

/// Reason why an action does not save more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SavingLimit {
    /// The resource was started again.
    Restarted,
    /// Another instance of its type was launched for its team.
    Replaced,
    /// Its usual hours ended.
    UsualHours,
    /// [`COUNTED_MAX`] was over.
    SevenDays,
    /// The report ends: it still counts.
    StillCounting,
    /// The resource was stopped before, and was not seen running since.
    AlreadyEnded,
}

impl SavingLimit {
    /// Describes the limit for people: `started again`.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Restarted => "started again",
            Self::Replaced => "replaced by another instance",
            Self::UsualHours => "its usual hours ended",
            Self::SevenDays => "7 days were over",
            Self::StillCounting => "still counting",
            Self::AlreadyEnded => "counted with an earlier action",
        }
    }
}

/// Savings of each action and of all together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Savings {
    /// Lines by time, then by resource.
    pub lines: Vec<SavingLine>,
    /// Sum of the lines with a price.
    pub total: Amount,
    /// Number of lines that count for nothing because their price is unknown.
    pub unpriced: usize,
}

/// Computes the savings of these actions within a span, which ends now at the latest. An action up to [`COUNTED_MAX`] before the span saves
/// in it, too.
///
/// The actions may come in any order. `starts` knows the starts that the ledgers saw.
#[must_use]
pub fn savings(ended: impl IntoIterator<Item = EndedResource>, starts: &StartIndex, span: TimeSpan) -> Savings {
    let mut by_resource: BTreeMap<(Region, ResourceId), Vec<EndedResource>> = BTreeMap::new();
    for one in ended {
        by_resource.entry((one.region.clone(), one.resource.clone())).or_default().push(one);
    }
    let mut replacements = starts.replacements();
    let mut lines = Vec::new();
    let mut all: Vec<(EndedResource, bool)> = Vec::new();
    for (_, mut of_resource) in by_resource {
        of_resource.sort_by_key(|one| one.at);
        let mut previous: Option<Timestamp> = None;
        for one in of_resource {
            let is_repeated = previous.is_some_and(|at| starts.restarted(&one, at).is_none_or(|start| start > one.at));
            if !is_repeated {
                previous = Some(one.at);
            }
            all.push((one, is_repeated));
        }
    }
    // A launch replaces the instance that was terminated first.
    all.sort_by(|(one, _), (other, _)| (one.at, &one.resource).cmp(&(other.at, &other.resource)));
    for (ended, is_repeated) in all {
        let (until, limit) = if is_repeated {
            (ended.at, SavingLimit::AlreadyEnded)
        } else {
            let restarted = starts.restarted(&ended, ended.at);
            let replaced =
                restarted.is_none().then(|| replacements.take(&ended, after(ended.at, COUNTED_MAX))).flatten();
            counted_until(&ended, restarted, replaced, span.to)
        };
        let counted = TimeSpan { from: ended.at, to: until }.within(span);
        if ended.at < span.from && counted.seconds() == 0 {
            continue;
        }
        let saved = ended.rate.map(|rate| Amount::from_rate(rate.less(ended.remaining_rate), counted.seconds()));
        lines.push(SavingLine { ended, counted, limit, saved });
    }
    lines.retain(|line| line.ended.at < span.to);
    let total = lines.iter().filter_map(|line| line.saved).sum();
    let unpriced = lines.iter().filter(|line| line.saved.is_none()).count();
    Savings { lines, total, unpriced }
}

/// Returns the end of the time that counts, and the reason for it.
fn counted_until(
    ended: &EndedResource,
    restarted: Option<Timestamp>,
    replaced: Option<Timestamp>,
    now: Timestamp,
) -> (Timestamp, SavingLimit) {
    let limits = [
        restarted.map(|at| (at, SavingLimit::Restarted)),
        replaced.map(|at| (at, SavingLimit::Replaced)),
        ended.hours.as_ref().and_then(|hours| next_end(hours, ended.at)).map(|at| (at, SavingLimit::UsualHours)),
        Some((after(ended.at, COUNTED_MAX), SavingLimit::SevenDays)),
        Some((now, SavingLimit::StillCounting)),
    ];
    limits.into_iter().flatten().min_by_key(|(at, _)| *at).unwrap_or((ended.at, SavingLimit::StillCounting))
}

/// The next end of the hours; outside of them, the end of those that begin next.
fn next_end(hours: &Hours, at: Timestamp) -> Option<Timestamp> {
    match hours.position(at) {
        HoursPosition::Inside { until, .. } => until,
        HoursPosition::Outside { until, .. } => match hours.position(until?) {
            HoursPosition::Inside { until, .. } => until,
            HoursPosition::Outside { .. } => None,
        },
    }
}

#[cfg(test)]
mod tests;
