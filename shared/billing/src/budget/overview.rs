//! Budgets as people are shown them: the validity of the figures, their order, and the text.

mod words;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::id::TeamName;
use model::money::Amount;
use model::notification_log::{NO_TEAM, NO_TEAM_LABEL};
use serde::Serialize;

use super::{Budget, BudgetHolder, BudgetMonth, BudgetVerdict, HOLDERS_MAX, STALE_AFTER};

pub use words::{BudgetFigure, shown};

/// Validity of the figures of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetDataState {
    /// The figures are of the last hour.
    Fresh,
    /// The month is over, and all of it is in them, except for its last minutes at most.
    Final,
    /// The figures are older than [`STALE_AFTER`], or ended longer than that before the month did.
    Stale,
    /// There are none.
    Absent,
    /// The figures are old, and no newer ones will come: neither the configuration nor the ledger has the team any more.
    Gone,
}

/// One budget as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BudgetRow {
    /// `account` or `team`.
    #[serde(rename = "of")]
    pub holder_kind: &'static str,
    /// The team; null for the account, `untagged` for what has no team.
    pub team: Option<TeamName>,
    /// Validity of the figures.
    pub state: BudgetDataState,
    /// `true` if the spend exceeds the budget, as far as known.
    pub over: bool,
    /// Spend in whole percent of the budget, rounded down, with that of accounts that share it; null without a budget.
    pub percent: Option<u64>,
    /// Forecast in whole percent of the budget, rounded down; null without a budget.
    pub forecast_percent: Option<u64>,
    /// `true` if the spend may be higher than the figures say, because a price or a stop is unknown.
    pub at_least: bool,
    /// The document; null if there is none.
    pub budget: Option<Budget>,
}

impl BudgetRow {
    fn from_document(holder: &BudgetHolder, budget: Option<Budget>, period: &BudgetMonth, now: Timestamp) -> Self {
        let figures = budget.as_ref().filter(|budget| budget.as_of.is_some());
        let share = |amount: Amount| amount.percent_of(figures?.budget_usd?);
        let percent = figures.and_then(|budget| share(budget.counted_usd()));
        Self {
            holder_kind: match holder {
                BudgetHolder::Account => "account",
                BudgetHolder::Team(_) => "team",
            },
            team: match holder {
                BudgetHolder::Account => None,
                BudgetHolder::Team(team) => Some(team.clone()),
            },
            state: state(figures.and_then(|budget| budget.as_of), period, now),
            over: figures.is_some_and(|budget| budget.verdict != BudgetVerdict::Ok)
                || percent.is_some_and(|percent| percent >= 100),
            percent,
            forecast_percent: figures.and_then(|budget| share(budget.forecast_usd? + budget.counted_others())),
            at_least: figures.is_some_and(is_incomplete),
            budget,
        }
    }

    /// Returns `true` if there is a budget.
    fn is_limited(&self) -> bool {
        self.budget.as_ref().is_some_and(|budget| budget.budget_usd.is_some())
    }

    /// The account first; then the teams with a budget, the nearest to its end first; then the dearest.
    fn place(&self) -> impl Ord + use<> {
        let spent = self.budget.as_ref().map_or(Amount::ZERO, |budget| budget.spent_usd);
        (
            self.team.is_some(),
            self.state == BudgetDataState::Gone,
            self.state == BudgetDataState::Absent,
            !self.is_limited(),
            Reverse(self.percent),
            Reverse(spent),
            self.team.clone(),
        )
    }
}

/// Returns `true` if the ledger has something whose cost is not wholly in the spend.
fn is_incomplete(budget: &Budget) -> bool {
    has_unpriced(budget) || has_uncertain(budget) || budget.blind_since.is_some()
}

fn has_unpriced(budget: &Budget) -> bool {
    !budget.unpriced.is_empty()
}

/// Returns `true` from one cent on: less would be shown as $0.00.
fn has_uncertain(budget: &Budget) -> bool {
    budget.uncertain_usd >= Amount::from_usd(0.01)
}

fn state(as_of: Option<Timestamp>, period: &BudgetMonth, now: Timestamp) -> BudgetDataState {
    match as_of {
        None => BudgetDataState::Absent,
        Some(as_of) if now < period.to && now.duration_since(as_of) <= STALE_AFTER => BudgetDataState::Fresh,
        // The last beat of a month may be a while before its end.
        Some(as_of) if now >= period.to && period.to.duration_since(as_of) <= STALE_AFTER => BudgetDataState::Final,
        Some(_) => BudgetDataState::Stale,
    }
}

/// Overall result of the overview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetConclusion {
    /// Every figure holds, and no budget is spent.
    WithinBudget,
    /// Every figure is complete, and a budget is exceeded.
    OverBudget,
    /// The state of some budget is unknown.
    Unknown,
}

/// The budgets of a month, in the order in which they are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetOverview {
    pub period: BudgetMonth,
    /// One a budget; the account's first.
    pub rows: Vec<BudgetRow>,
    /// Time of the overview.
    pub now: Timestamp,
}

impl BudgetOverview {
    /// Builds the overview from the existing documents: of `wanted` only, or of all. All includes the account even without a document and,
    /// in the present month, every team to which the configuration gives a budget.
    #[must_use]
    pub fn from_documents(
        mut documents: BTreeMap<BudgetHolder, Budget>,
        wanted: Option<&BudgetHolder>,
        config: &Config,
        period: BudgetMonth,
        now: Timestamp,
    ) -> Self {
        let mut holders: Vec<BudgetHolder> = match wanted {
            Some(holder) => vec![holder.clone()],
            None => documents.keys().cloned().chain([BudgetHolder::Account]).collect(),
        };
        if wanted.is_none() && period.from <= now && now < period.to {
            let limited = config.teams.iter().filter(|(_, team)| team.monthly_budget_usd.is_some());
            holders.extend(limited.map(|(name, _)| BudgetHolder::Team(TeamName::new(name.as_str()))));
        }
        holders.sort();
        holders.dedup();
        let ledger = KnownTeams::from_documents(&documents, &period, now);
        let is_gone = |row: &BudgetRow| {
            let team = row.team.as_ref().filter(|_| row.state == BudgetDataState::Stale);
            team.is_some_and(|team| {
                ledger.as_ref().is_some_and(|ledger| ledger.is_unknown(team))
                    && (config.team(team).is_none() || period.to <= now)
            })
        };
        let row = |holder: &BudgetHolder| {
            let row = BudgetRow::from_document(holder, documents.remove(holder), &period, now);
            if is_gone(&row) { BudgetRow { state: BudgetDataState::Gone, over: false, ..row } } else { row }
        };
        let mut rows: Vec<BudgetRow> = holders.iter().map(row).collect();
        rows.sort_by_cached_key(BudgetRow::place);
        Self { period, rows, now }
    }

    /// Returns the overall result.
    #[must_use]
    pub fn conclusion(&self) -> BudgetConclusion {
        if self.rows.iter().any(|row| matches!(row.state, BudgetDataState::Stale | BudgetDataState::Absent)) {
            return BudgetConclusion::Unknown;
        }
        if self.rows.iter().any(|row| row.over) { BudgetConclusion::OverBudget } else { BudgetConclusion::WithinBudget }
    }

    fn age(&self, row: &BudgetRow) -> Option<SignedDuration> {
        row.budget.as_ref()?.as_of.map(|as_of| self.now.duration_since(as_of).max(SignedDuration::ZERO))
    }
}

/// The spending teams, by the account's document; only from complete figures.
#[derive(Debug)]
struct KnownTeams(BTreeSet<String>);

impl KnownTeams {
    /// `None` if the spending teams are unknown.
    fn from_documents(
        documents: &BTreeMap<BudgetHolder, Budget>,
        period: &BudgetMonth,
        now: Timestamp,
    ) -> Option<Self> {
        let account = documents.get(&BudgetHolder::Account)?;
        let holds = matches!(state(account.as_of, period, now), BudgetDataState::Fresh | BudgetDataState::Final);
        // Above this number some may be left out.
        (holds && account.teams.len() < HOLDERS_MAX).then(|| Self(account.teams.keys().cloned().collect()))
    }

    fn is_unknown(&self, team: &TeamName) -> bool {
        !self.0.contains(team.as_str())
    }
}

/// Returns `true` if the account's document is needed to say why a holder has no document, or only an old one.
#[must_use]
pub fn needs_account(holder: &BudgetHolder, document: Option<&Budget>, period: &BudgetMonth, now: Timestamp) -> bool {
    let state = state(document.and_then(|budget| budget.as_of), period, now);
    *holder != BudgetHolder::Account && matches!(state, BudgetDataState::Absent | BudgetDataState::Stale)
}

/// The error for a team that neither the configuration nor the ledger has; `None` if one of them has it, or that is unknown.
#[must_use]
pub fn unknown_team_message(
    wanted: &BudgetHolder,
    documents: &BTreeMap<BudgetHolder, Budget>,
    config: &Config,
    period: &BudgetMonth,
    now: Timestamp,
) -> Option<String> {
    let BudgetHolder::Team(team) = wanted else { return None };
    let ledger = KnownTeams::from_documents(documents, period, now)?;
    if documents.contains_key(wanted) || config.team(team).is_some() || !ledger.is_unknown(team) {
        return None;
    }
    Some(words::describe_unknown_team(
        team,
        config.teams.keys().map(ToString::to_string).chain(ledger.0).collect(),
        &period.month,
    ))
}

/// The holder that a person means by a team's name, or by what stands for one in the table.
#[must_use]
pub fn holder(team: &str) -> BudgetHolder {
    match team {
        words::ACCOUNT => BudgetHolder::Account,
        NO_TEAM_LABEL => BudgetHolder::Team(TeamName::new(NO_TEAM)),
        team => BudgetHolder::Team(TeamName::new(team)),
    }
}

/// Returns `true` for the name under which resources without a team are held.
fn is_no_team(team: &TeamName) -> bool {
    team.as_str() == NO_TEAM
}

#[cfg(test)]
mod tests;
