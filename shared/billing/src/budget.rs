//! Budgets of a calendar month: where a team, or the account, stands, and what follows.

pub mod billed;
mod books;
mod condense;
pub mod explain;
mod fingerprint;
mod forecast;
mod observation_gap;
pub mod overview;
mod past;
mod period;
mod reserve;
mod spend;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::config::OverBudget;
use model::id::{Region, ResourceId, TeamName};
use model::mode::Mode;
use model::money::{Amount, Rate};
use serde::{Deserialize, Serialize};

pub use books::{BudgetBooks, BudgetLimit, HOLDERS_MAX, needed_by_the_reaper};
pub use fingerprint::{SPENT_PERCENT, budget_fingerprint, resource_of};
pub use forecast::LOOKS_BACK;
pub use observation_gap::ObservationGap;
pub use period::{BudgetMonth, UnreadableMonth};
pub use reserve::{ReservationOutcome, ReservationRefusal, ReservationRequest, launched, release, reserve};
pub use spend::{LedgerSpends, ReservationTimes, SavingAction, Spend};

/// What is older says nothing any more: it neither ends anything nor allows a launch. Four beats of a quarter of an hour.
pub const STALE_AFTER: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BudgetHolder {
    /// All teams together, and what belongs to none.
    Account,
    /// A team; what belongs to none is held under [`model::notification_log::NO_TEAM`], and has no budget.
    Team(TeamName),
}

/// What follows from where a budget stands. Ordered: the milder first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetVerdict {
    /// It is not spent, or there is none.
    #[default]
    Ok,
    /// It is spent, and people are notified.
    Notify,
    /// It is spent: no further job is launched.
    Hold,
    /// It is spent: running instances end too.
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
    /// When it stood so; absent if only a reservation was made yet.
    #[serde(default)]
    pub as_of: Option<Timestamp>,
    /// What may be spent in the month, if set.
    #[serde(default)]
    pub budget_usd: Option<Amount>,
    /// What happens above it, if set.
    #[serde(default)]
    pub over_budget: Option<OverBudget>,
    /// Until when something that ran was last seen, where that is not as young as `as_of`: what it cost since is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blind_since: Option<Timestamp>,
    /// The times without a beat for longer than an hour, the longest first; 20 at most. For the whole account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<ObservationGap>,
    /// When the ledger began, where that was within the month: what ended before is in no figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger_since: Option<Timestamp>,
    /// What is known to be spent.
    #[serde(default)]
    pub spent_usd: Amount,
    /// By how much more it may be: unseen ends.
    #[serde(default)]
    pub uncertain_usd: Amount,
    /// What is reserved for jobs and not spent yet.
    #[serde(default)]
    pub reserved_usd: Amount,
    /// What will be spent by the end of the month, and how that is estimated; absent if unknown.
    #[serde(default)]
    pub forecast_usd: Option<Amount>,
    /// How the forecast is made, in words.
    #[serde(default)]
    pub forecast_method: String,
    /// What is certainly left: budget less spent, uncertain and reserved, never below 0.
    #[serde(default)]
    pub remaining_usd: Option<Amount>,
    /// What runs now costs, as far as its price is known.
    #[serde(default)]
    pub usd_per_hour: f64,
    /// What follows.
    #[serde(default)]
    pub verdict: BudgetVerdict,
    /// Whether the action is enforced, or only reported.
    #[serde(default)]
    pub mode: Mode,
    /// What the most was spent on, the dearest first; five at most.
    #[serde(default)]
    pub top: Vec<Spender>,
    /// How many more there are, and what they cost together.
    #[serde(default)]
    pub others: OtherSpenders,
    /// What has no known price.
    #[serde(default)]
    pub unpriced: Vec<UnpricedResource>,
    /// The dated tables behind some of the figures, if the Price List has no price: `table of 2026-09-24`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tables: BTreeSet<String>,
    /// Of the account: each team's spend. Those of a team: empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub teams: BTreeMap<String, Amount>,
    /// What would bring the holder back under its budget, for people.
    #[serde(default)]
    pub remedy: Vec<String>,
    /// What Cost Explorer says, where it is enabled: shown beside, never used to act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billed: Option<CostExplorerFigures>,
    /// When Cost Explorer was asked the last time and did not answer; absent if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<CostExplorerFailure>,
    /// What is reserved, by job `<team>/<job>`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reservations: BTreeMap<String, BudgetReservation>,
}

/// One instance or volume that money was spent on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spender {
    pub resource: ResourceId,
    pub region: Region,
    /// What it is: `g5.xlarge`, `500 GiB gp3`.
    pub what: String,
    /// Its `Name` tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What was spent on it this month.
    pub usd: Amount,
    /// What it costs while it runs on, where it does and the price is known.
    #[serde(default)]
    pub usd_per_hour: Option<f64>,
    /// Whether it is still billed.
    pub running: bool,
}

/// All spenders but the top: how many cost a cent at least, and what all of them cost.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct OtherSpenders {
    /// How many.
    pub count: usize,
    /// What was spent on them.
    pub usd: Amount,
}

/// Something without a known price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpricedResource {
    pub resource: ResourceId,
    pub region: Region,
    pub what: String,
    /// For how long it ran at an unknown price this month, in seconds.
    pub seconds: u64,
}

/// What Cost Explorer says of the month.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CostExplorerFigures {
    /// What AWS billed until then for instances of the types that the ledger has: unblended, without credits and taxes.
    pub usd: Amount,
    /// The same for all of EC2 compute and EBS, whether Curfew looks at it or not.
    #[serde(default)]
    pub all_usd: Amount,
    /// From the beginning of this day, UTC, `yyyy-mm-dd`.
    #[serde(default)]
    pub from: String,
    /// Up to the beginning of this day, UTC, `yyyy-mm-dd`.
    pub until: String,
    pub asked_at: Timestamp,
    /// By how much the ledger says more of the same instances (or less, where negative), in USD, of the same days.
    pub ledger_says_more_usd: f64,
}

/// A question that Cost Explorer did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostExplorerFailure {
    pub asked_at: Timestamp,
    /// Why, in words.
    pub error: String,
}

/// Money that is set aside for a job before it is launched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetReservation {
    /// How many the job has asked for, with this one; 0 if that is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub number: u32,
    /// The most that the job may cost from `since` on.
    pub usd: Amount,
    /// What of it is spent, as of the document.
    #[serde(default)]
    pub spent_usd: Amount,
    /// When it was made: what the job's instances cost from then on settles it.
    pub since: Timestamp,
    /// The instances that were launched for the job; no other settles it, whatever its tags say.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub instances: BTreeSet<ResourceId>,
    /// When the job ends at the latest: the first beat after this forgets it.
    pub until: Timestamp,
    /// When the job ended: the first beat after this, which knows all that it spent, forgets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
}

/// What the reaper knows of budgets: of every team that may be stopped, and of the account.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BudgetStatuses(pub BTreeMap<BudgetHolder, BudgetStatus>);

/// What is known of one budget.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetStatus {
    /// What follows.
    pub verdict: BudgetVerdict,
    /// When it stood so.
    pub as_of: Timestamp,
    pub month: String,
    pub spent: Amount,
    /// What is reserved besides.
    pub reserved: Amount,
}

/// The evidence that a budget is spent, or has reached a share for a notification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverBudgetEvidence {
    pub month: String,
    /// When it began: what was announced before that was of another budget. Not in the response.
    #[serde(skip)]
    pub month_began: Timestamp,
    /// Whose budget it is: `team` or `account`.
    pub of: &'static str,
    /// What may be spent.
    pub budget_usd: Amount,
    pub spent_usd: Amount,
    /// What is reserved besides.
    pub reserved_usd: Amount,
    /// The spend in whole percent of the budget, rounded down.
    pub percent: u64,
    /// The reached share of those that cause a notification.
    pub threshold_percent: u16,
    /// What follows above the budget.
    pub over_budget: OverBudget,
    /// When it stood so.
    pub as_of: Timestamp,
    /// The notification text; not in the response.
    #[serde(skip)]
    pub text: String,
}

impl Budget {
    /// What runs now costs, as a rate.
    #[must_use]
    pub fn burn(&self) -> Rate {
        Rate::from_usd_micros_per_hour(Amount::from_usd(self.usd_per_hour).usd_micros())
    }

    /// Whether it says that it is of that holder.
    #[must_use]
    pub fn is_of(&self, holder: &BudgetHolder) -> bool {
        match holder {
            BudgetHolder::Account => self.team.is_none(),
            BudgetHolder::Team(team) => self.team.as_ref() == Some(team),
        }
    }

    /// What the reaper needs to know of it; `None` if nothing is known, or nothing is set.
    #[must_use]
    pub fn to_status(&self) -> Option<BudgetStatus> {
        let as_of = self.as_of.filter(|_| self.budget_usd.is_some())?;
        let (verdict, month) = (self.verdict, self.month.clone());
        Some(BudgetStatus { verdict, as_of, month, spent: self.spent_usd, reserved: self.reserved_usd })
    }

    /// As it is by what is set now. What would bring its holder back under another budget, only a beat can say.
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
            verdict: limit.verdict(self.spent_usd),
            remedy: Vec::new(),
            ..self.clone()
        };
        document.count_reservations();
        document
    }

    /// The part of a budget that is certainly left beside these reservations.
    fn left_of(&self, budget: Amount, reserved: Amount) -> Amount {
        budget.saturating_sub(self.spent_usd).saturating_sub(self.uncertain_usd).saturating_sub(reserved)
    }

    /// Counts anew what the reservations still hold, and what is left then.
    fn count_reservations(&mut self) {
        self.reserved_usd = self.reservations.values().map(BudgetReservation::outstanding).sum();
        self.remaining_usd = self.budget_usd.map(|budget| self.left_of(budget, self.reserved_usd));
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl BudgetReservation {
    /// What it still holds, as of the document: what of it is not known to be spent.
    #[must_use]
    pub fn outstanding(&self) -> Amount {
        self.usd.saturating_sub(self.spent_usd)
    }

    /// Whether a beat of that moment knows all that the job spent.
    fn is_over(&self, as_of: Timestamp) -> bool {
        self.until < as_of || self.ended.is_some_and(|ended| ended < as_of)
    }
}
