//! What people are shown of budgets: which figures still hold, in what order, and in what words.

mod words;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{Budget, Holder, Period, STALE_AFTER, Verdict};
use crate::config::Config;
use crate::id::TeamName;
use crate::money::Amount;
use crate::news::NO_TEAM;

pub use words::Fact;

/// Whether figures still hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// They are of the last hour.
    Fresh,
    /// The month is over, and all of it is in them, but for its last minutes at most.
    Final,
    /// They are older than [`STALE_AFTER`], or ended as long before the month did.
    Stale,
    /// There are none.
    Absent,
}

/// One budget as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// `account` or `team`.
    pub of: &'static str,
    /// The team; null for the account, `untagged` for what has no team.
    pub team: Option<TeamName>,
    /// Whether the figures still hold.
    pub state: State,
    /// Whether more is spent than may be, as far as anybody knows.
    pub over: bool,
    /// What is spent, in whole percent of the budget, rounded down; null without a budget.
    pub percent: Option<u64>,
    /// The same of the forecast.
    pub forecast_percent: Option<u64>,
    /// The document; null where there is none.
    pub standing: Option<Budget>,
}

impl Row {
    fn of(holder: &Holder, standing: Option<Budget>, period: &Period, now: Timestamp) -> Self {
        let figures = standing.as_ref().filter(|budget| budget.as_of.is_some());
        let share = |amount: Amount| amount.percent_of(figures?.budget_usd?);
        let percent = figures.and_then(|budget| share(budget.spent_usd));
        Self {
            of: match holder {
                Holder::Account => "account",
                Holder::Team(_) => "team",
            },
            team: match holder {
                Holder::Account => None,
                Holder::Team(team) => Some(team.clone()),
            },
            state: state(figures.and_then(|budget| budget.as_of), period, now),
            over: figures.is_some_and(|budget| budget.verdict != Verdict::Ok)
                || percent.is_some_and(|percent| percent >= 100),
            percent,
            forecast_percent: figures.and_then(|budget| share(budget.forecast_usd?)),
            standing,
        }
    }

    /// Whether somebody said what may be spent.
    fn is_limited(&self) -> bool {
        self.standing.as_ref().is_some_and(|budget| budget.budget_usd.is_some())
    }

    /// The account first, as it has all; then whoever has a budget, the nearest to its end first; then the dearest.
    fn place(&self) -> impl Ord + use<> {
        let spent = self.standing.as_ref().map_or(Amount::ZERO, |budget| budget.spent_usd);
        (
            self.team.is_some(),
            self.state == State::Absent,
            !self.is_limited(),
            Reverse(self.percent),
            Reverse(spent),
            self.team.clone(),
        )
    }
}

fn state(as_of: Option<Timestamp>, period: &Period, now: Timestamp) -> State {
    match as_of {
        None => State::Absent,
        Some(as_of) if now < period.to && now.duration_since(as_of) <= STALE_AFTER => State::Fresh,
        // The last beat of a month may be a while before its end.
        Some(as_of) if now >= period.to && period.to.duration_since(as_of) <= STALE_AFTER => State::Final,
        Some(_) => State::Stale,
    }
}

/// What all of it comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// Every figure holds, and no budget is spent.
    Fine,
    /// Every figure holds, and somebody is over the budget.
    Over,
    /// Of some budget nobody can say.
    Unknown,
}

/// The budgets of a month, in the order in which they are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// The month.
    pub period: Period,
    /// One a budget; the account's first.
    pub rows: Vec<Row>,
    /// When they are looked at.
    pub now: Timestamp,
}

impl Overview {
    /// Of the documents that there are. `wanted` of them only, or all: then the account is among them whether it has one or not,
    /// and so is, in the present month, every team that has a budget by the configuration.
    #[must_use]
    pub fn of(
        mut documents: BTreeMap<Holder, Budget>,
        wanted: Option<&Holder>,
        config: &Config,
        period: Period,
        now: Timestamp,
    ) -> Self {
        let mut holders: Vec<Holder> = match wanted {
            Some(holder) => vec![holder.clone()],
            None => documents.keys().cloned().chain([Holder::Account]).collect(),
        };
        if wanted.is_none() && period.from <= now && now < period.to {
            let limited = config.teams.iter().filter(|(_, team)| team.monthly_budget_usd.is_some());
            holders.extend(limited.map(|(name, _)| Holder::Team(TeamName::new(name.as_str()))));
        }
        holders.sort();
        holders.dedup();
        let row = |holder: &Holder| Row::of(holder, documents.remove(holder), &period, now);
        let mut rows: Vec<Row> = holders.iter().map(row).collect();
        rows.sort_by_cached_key(Row::place);
        Self { period, rows, now }
    }

    /// What all of it comes to.
    #[must_use]
    pub fn conclusion(&self) -> Conclusion {
        if self.rows.iter().any(|row| matches!(row.state, State::Stale | State::Absent)) {
            return Conclusion::Unknown;
        }
        if self.rows.iter().any(|row| row.over) { Conclusion::Over } else { Conclusion::Fine }
    }

    /// How long ago a budget stood so; `None` where nobody can say.
    fn age(&self, row: &Row) -> Option<SignedDuration> {
        row.standing.as_ref()?.as_of.map(|as_of| self.now.duration_since(as_of).max(SignedDuration::ZERO))
    }
}

/// The holder that a person means by a team's name.
#[must_use]
pub fn holder(team: &str) -> Holder {
    Holder::Team(TeamName::new(team))
}

/// Whether that is what belongs to no team.
fn is_nobody(team: &TeamName) -> bool {
    team.as_str() == NO_TEAM
}

#[cfg(test)]
mod tests;
