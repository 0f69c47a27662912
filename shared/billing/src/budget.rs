//! Budgets of a calendar month: where a team, or the account, stands, and what follows.

pub mod billed;
mod books;
mod condense;
pub mod explain;
mod fingerprint;
mod forecast;
mod observation_gap;
pub mod overview;
mod period;
mod remedy;
mod reserve;
mod shared;
mod spend;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::config::OverBudget;
use model::id::{Region, ResourceId, TeamName};
use model::known_sum::KnownSum;
use model::mode::Mode;
use model::money::{Amount, Rate};
use serde::{Deserialize, Serialize};

pub use books::{BudgetBooks, BudgetLimit, BudgetTerms, HOLDERS_MAX, needed_by_the_reaper};
pub use fingerprint::{SPENT_PERCENT, budget_fingerprint, resource_of};
pub use forecast::LOOKS_BACK;
pub use observation_gap::ObservationGap;
pub use period::{BudgetMonth, UnreadableMonth};
pub use remedy::{IdleExemption, LastUsage, MachineFacts};
pub use reserve::{ReservationOutcome, ReservationRefusal, ReservationRequest, launched, release, reserve};
pub use shared::{
    AccountShare, BUDGET_SUMS_BYTES_MAX, BudgetSums, CountedSpend, ShareProblem, SharedBudget, SharingAccount, TeamSum,
};
pub use spend::{LedgerSpends, ReservationTimes, SavingAction, Spend};

/// Age from which the figures of a budget count as stale: they neither stop anything nor allow a launch. Four beats of a quarter of an
/// hour.
pub const STALE_AFTER: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BudgetHolder {
    /// The whole account: every team, and resources without a team.
    Account,
    /// A team; what belongs to none is held under [`model::notification_log::NO_TEAM`], and has no budget.
    Team(TeamName),
}

impl BudgetHolder {
    /// The team; `None` for the account.
    #[must_use]
    pub const fn team(&self) -> Option<&TeamName> {
        match self {
            Self::Account => None,
            Self::Team(name) => Some(name),
        }
    }
}

/// Consequence of the spend for the holder of a budget. Ordered: the milder first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetVerdict {
    /// The budget is not spent, or there is no budget.
    #[default]
    Ok,
    /// The budget is spent, and people are notified.
    Notify,
    /// The budget is spent: no further job is launched.
    Hold,
    /// The budget is spent: running instances are stopped too.
    Stop,
}

/// `budgets/<team>/<yyyy-mm>.json`, and of the account `budgets/<yyyy-mm>.json`: where a budget stood at the last beat, and
/// what is reserved on it. Only the reservations are more than a cache: all else is made anew from the ledger.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// The team; absent for the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<TeamName>,
    /// The month, `yyyy-mm`, in the account's time zone.
    #[serde(default)]
    pub month: String,
    /// Time of the last beat that computed the budget. Absent if only a reservation was made so far.
    #[serde(default)]
    pub as_of: Option<Timestamp>,
    /// Budget of the month, if set.
    #[serde(default)]
    pub budget_usd: Option<Amount>,
    /// Action above the budget, if set.
    #[serde(default)]
    pub over_budget: Option<OverBudget>,
    /// Last sighting of the running resource that was not seen for the longest time, if older than a beat: its cost since then is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blind_since: Option<Timestamp>,
    /// The times without a beat for longer than an hour, the longest first; 20 at most. For the whole account.
    #[serde(rename = "unseen", default, skip_serializing_if = "Vec::is_empty")]
    pub observation_gaps: Vec<ObservationGap>,
    /// Start of the ledger, if it lies within the month: earlier stops and their cost are in no figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger_since: Option<Timestamp>,
    /// Known spend.
    #[serde(default)]
    pub spent_usd: Amount,
    /// Possible spend beyond `spent_usd`, because of stops that no beat saw.
    #[serde(default)]
    pub uncertain_usd: Amount,
    /// Money that is reserved for jobs and not spent yet.
    #[serde(default)]
    pub reserved_usd: Amount,
    /// Estimated spend at the end of the month. Absent if unknown.
    #[serde(default)]
    pub forecast_usd: Option<Amount>,
    /// Method of the forecast, in words.
    #[serde(default)]
    pub forecast_method: String,
    /// Remainder that is certain: budget less spent, uncertain and reserved, never below 0.
    #[serde(default)]
    pub remaining_usd: Option<Amount>,
    /// Rate of everything that runs now, as far as its price is known.
    #[serde(default)]
    pub usd_per_hour: f64,
    /// Consequence of the spend.
    #[serde(default)]
    pub verdict: BudgetVerdict,
    /// Mode of the action: enforced, or only reported.
    #[serde(default)]
    pub mode: Mode,
    /// Highest spenders, the most expensive first; five at most.
    #[serde(default)]
    pub top: Vec<Spender>,
    /// Number and total cost of the other spenders.
    #[serde(default)]
    pub others: OtherSpenders,
    /// Resources without a known price.
    #[serde(default)]
    pub unpriced: Vec<UnpricedResource>,
    /// The dated tables behind some of the figures, if the Price List has no price: `table of 2026-09-24`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tables: BTreeSet<String>,
    /// Spend of each team, in the document of the account. Empty in the document of a team.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub teams: BTreeMap<String, Amount>,
    /// Advice for people: the steps that would bring the holder back under its budget.
    #[serde(default)]
    pub remedy: Vec<String>,
    /// Figures of Cost Explorer, where it is enabled: shown beside the ledger's, never used to act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billed: Option<CostExplorerFigures>,
    /// Last query to Cost Explorer, with its error. Absent if Cost Explorer answered.
    #[serde(rename = "unanswered", default, skip_serializing_if = "Option::is_none")]
    pub cost_explorer_failure: Option<CostExplorerFailure>,
    /// Other accounts that share the budget, and what counts of their spend. Absent if the budget is this account's alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedBudget>,
    /// Reservations, by job `<team>/<job>`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reservations: BTreeMap<String, BudgetReservation>,
}

/// One instance or volume that money was spent on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spender {
    pub resource: ResourceId,
    pub region: Region,
    /// Type of the resource: `g5.xlarge`, `500 GiB gp3`.
    pub what: String,
    /// Its `Name` tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Spend on the resource this month.
    pub usd: Amount,
    /// Rate of a running resource, if its price is known.
    #[serde(default)]
    pub usd_per_hour: Option<f64>,
    /// `true` if the resource is still billed.
    pub running: bool,
}

/// Spenders beyond the top ones: how many of them cost at least a cent, and the cost of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct OtherSpenders {
    /// Number of spenders that cost at least a cent.
    pub count: usize,
    /// Spend on all of them.
    pub usd: Amount,
}

/// Something without a known price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpricedResource {
    pub resource: ResourceId,
    pub region: Region,
    pub what: String,
    /// Running time at an unknown price this month, in seconds.
    pub seconds: u64,
}

/// Figures of Cost Explorer for the month.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CostExplorerFigures {
    /// Amount that AWS billed in these days for instances of the types that the ledger has: unblended, without credits and taxes.
    pub usd: Amount,
    /// Amount that AWS billed for all of EC2 compute and EBS, including resources that Curfew does not observe.
    #[serde(default)]
    pub all_usd: Amount,
    /// First day of the figures, UTC, `yyyy-mm-dd`.
    #[serde(default)]
    pub from: String,
    /// Up to the beginning of this day, UTC, `yyyy-mm-dd`.
    pub until: String,
    pub asked_at: Timestamp,
    /// Excess of the ledger over Cost Explorer for the same instances and days, in USD; negative if the ledger says less.
    pub ledger_says_more_usd: f64,
}

/// A question that Cost Explorer did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostExplorerFailure {
    pub asked_at: Timestamp,
    /// Reason, in words.
    pub error: String,
}

/// Money that is set aside for a job before it is launched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetReservation {
    /// Number of this reservation among those that the job has requested; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub number: u32,
    /// The most that the job may cost from `since` on.
    pub usd: Amount,
    /// Part of the reservation that is spent, as of the document.
    #[serde(default)]
    pub spent_usd: Amount,
    /// Time of the reservation. Costs of the job's instances from then on settle it.
    pub since: Timestamp,
    /// The instances that were launched for the job; no other settles it, whatever its tags say.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub instances: BTreeSet<ResourceId>,
    /// Latest end of the job. The first beat after this drops the reservation.
    pub until: Timestamp,
    /// End of the job. The first beat after this knows all of the job's spend, and drops the reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
}

/// Budget status of every team whose instances may be stopped, and of the account, for the reaper.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BudgetStatuses(pub BTreeMap<BudgetHolder, BudgetStatus>);

/// Remainder of a budget. Uncounted spend makes it less; spend that is only possible counts as spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetRemainder {
    pub amount: Amount,
    /// `at most` or `at least`; `None` if the amount is certain.
    pub bound: Option<&'static str>,
}

/// Status of one budget.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetStatus {
    /// Consequence of the spend.
    pub verdict: BudgetVerdict,
    /// Time of the beat that computed the status.
    pub as_of: Timestamp,
    pub month: String,
    /// Spend that counts: with that of other accounts, if they share the budget.
    pub spent: Amount,
    /// Part of `spent` in other accounts.
    pub others: Amount,
    /// Money that is reserved beyond the spend.
    pub reserved: Amount,
}

/// The evidence that a budget is spent, or has reached a share for a notification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverBudgetEvidence {
    pub month: String,
    /// Holder of the budget: `team` or `account`.
    #[serde(rename = "of")]
    pub holder_kind: &'static str,
    /// Budget of the month.
    pub budget_usd: Amount,
    /// Spend that counts: with that of other accounts, if they share the budget.
    pub spent_usd: Amount,
    /// Part of `spent_usd` in other accounts.
    #[serde(skip_serializing_if = "is_nothing")]
    pub others_usd: Amount,
    /// Money that is reserved beyond the spend.
    pub reserved_usd: Amount,
    /// The spend in whole percent of the budget, rounded down.
    pub percent: u64,
    /// The reached share of those that cause a notification.
    pub threshold_percent: u16,
    /// Action above the budget.
    pub over_budget: OverBudget,
    /// Time of the beat that computed the spend.
    pub as_of: Timestamp,
    /// The notification text; not in the response.
    #[serde(skip)]
    pub text: String,
}

impl Budget {
    /// The spend, with the seconds at an unknown price that it lacks.
    #[must_use]
    pub fn spent(&self) -> KnownSum<Amount> {
        let unpriced = self.unpriced.iter().fold(0_u64, |sum, one| sum.saturating_add(one.seconds));
        KnownSum::new(self.spent_usd, unpriced)
    }

    /// Returns the rate of everything that runs now.
    #[must_use]
    pub fn burn(&self) -> Rate {
        Rate::from_usd_micros_per_hour(Amount::from_usd(self.usd_per_hour).usd_micros())
    }

    /// Spend of other accounts that counts for the budget; nothing if they do not share it.
    #[must_use]
    pub fn counted_others(&self) -> Amount {
        SharedBudget::others_of(self.shared.as_ref())
    }

    /// Spend that the budget is compared with: this account's, and that of others which share it.
    #[must_use]
    pub fn counted_usd(&self) -> Amount {
        self.spent_usd + self.counted_others()
    }

    /// `true` if something was spent that is in no figure, or may have been in an account that shares the budget.
    #[must_use]
    pub fn has_uncounted_spend(&self) -> bool {
        let is_shared_in_part = self.shared.as_ref().is_some_and(|shared| !shared.others.is_complete());
        !self.unpriced.is_empty() || self.blind_since.is_some() || is_shared_in_part
    }

    /// What is left, as far as it is known.
    #[must_use]
    pub fn remainder(&self) -> BudgetRemainder {
        let certain = self.remaining_usd.unwrap_or_default();
        let unless_uncounted =
            self.budget_usd.unwrap_or_default().saturating_sub(self.counted_usd()).saturating_sub(self.reserved_usd);
        if self.has_uncounted_spend() && unless_uncounted.is_a_cent() {
            BudgetRemainder { amount: unless_uncounted, bound: Some("at most") }
        } else {
            let is_bound = self.uncertain_usd.is_a_cent() && certain.is_a_cent();
            BudgetRemainder { amount: certain, bound: is_bound.then_some("at least") }
        }
    }

    /// Returns `true` if the document names that holder.
    #[must_use]
    pub fn belongs_to(&self, holder: &BudgetHolder) -> bool {
        match holder {
            BudgetHolder::Account => self.team.is_none(),
            BudgetHolder::Team(team) => self.team.as_ref() == Some(team),
        }
    }

    /// Returns the status that the reaper needs; `None` if nothing is known, or no budget is set.
    #[must_use]
    pub fn to_status(&self) -> Option<BudgetStatus> {
        let as_of = self.as_of.filter(|_| self.budget_usd.is_some())?;
        let (verdict, month) = (self.verdict, self.month.clone());
        let (spent, others) = (self.counted_usd(), self.counted_others());
        Some(BudgetStatus { verdict, as_of, month, spent, others, reserved: self.reserved_usd })
    }

    /// Returns the document under the present limit. If the limit has changed, the remedy is empty: only a beat can compute it.
    #[must_use]
    pub fn under(&self, limit: &BudgetLimit) -> Self {
        let was_set = (self.budget_usd, self.over_budget, self.mode);
        if was_set == (Some(limit.budget), Some(limit.over_budget), limit.mode) {
            return self.clone();
        }
        let mut document = Self {
            budget_usd: Some(limit.budget),
            over_budget: Some(limit.over_budget),
            mode: limit.mode,
            verdict: limit.verdict(self.counted_usd()),
            remedy: Vec::new(),
            ..self.clone()
        };
        document.count_reservations();
        document
    }

    /// The part of a budget that is certainly left beside these reservations.
    fn left_of(&self, budget: Amount, reserved: Amount) -> Amount {
        budget.saturating_sub(self.counted_usd()).saturating_sub(self.uncertain_usd).saturating_sub(reserved)
    }

    /// Counts anew what the reservations still hold, and what is left then.
    fn count_reservations(&mut self) {
        self.reserved_usd = self.reservations.values().map(BudgetReservation::outstanding).sum();
        self.remaining_usd = self.budget_usd.map(|budget| self.left_of(budget, self.reserved_usd));
    }
}

/// `1 other`, `2 others`.
fn others(count: usize) -> String {
    if count == 1 { "1 other".to_owned() } else { format!("{count} others") }
}

fn is_nothing(amount: &Amount) -> bool {
    *amount == Amount::ZERO
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl BudgetReservation {
    /// Returns the part of the reservation that is not known to be spent, as of the document.
    #[must_use]
    pub fn outstanding(&self) -> Amount {
        self.usd.saturating_sub(self.spent_usd)
    }

    /// Returns `true` if a beat of that moment knows all that the job spent.
    fn is_over(&self, as_of: Timestamp) -> bool {
        self.until < as_of || self.ended.is_some_and(|ended| ended < as_of)
    }
}
