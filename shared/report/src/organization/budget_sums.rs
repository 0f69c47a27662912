//! Budgets that accounts of an organization share: what each has spent, summed in the hub for each of them.

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::{AccountShare, BudgetSums, ShareProblem, TeamSum};
use billing::ledger::CalendarMonth;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use model::account::AccountId;
use model::config::{Config, SHARING_ACCOUNTS_MAX};
use model::id::TeamName;
use model::known_sum::KnownSum;
use model::moment::{after, before};
use model::money::Amount;

use super::AccountFigures;

/// Offset of the zone in which a day begins first, and of the one in which it begins last.
const FIRST_ZONE: SignedDuration = SignedDuration::from_hours(14);
const LAST_ZONE: SignedDuration = SignedDuration::from_hours(12);

/// Spend of the teams with a shared budget that one account has published about a month.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedSpend {
    as_of: Timestamp,
    teams: BTreeMap<TeamName, KnownSum<Amount>>,
    /// `true` if all teams that are not named have spent nothing.
    names_all: bool,
}

impl PublishedSpend {
    /// Spend of these teams in figures that count.
    #[must_use]
    pub fn from_figures(figures: &AccountFigures, shared: &SharedBudgets) -> Self {
        let teams = figures.teams.iter().map(|row| (TeamName::new(row.team.as_str()), row.figures.spent));
        Self {
            as_of: figures.as_of,
            teams: teams.filter(|(team, _)| shared.0.contains_key(team)).collect(),
            names_all: figures.other_teams.is_none(),
        }
    }

    fn share(&self, account: &AccountId, team: &TeamName, now: Timestamp) -> AccountShare {
        match self.teams.get(team) {
            Some(spent) => AccountShare::new(account.clone(), *spent, self.as_of, now),
            None if self.names_all => AccountShare::new(account.clone(), KnownSum::default(), self.as_of, now),
            None => AccountShare::unknown(account.clone(), ShareProblem::Unnamed),
        }
    }
}

/// The shared budgets of a configuration in force: teams, each with its accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedBudgets(BTreeMap<TeamName, BTreeSet<AccountId>>);

impl SharedBudgets {
    /// `None` if no budget is shared.
    #[must_use]
    pub fn from_config(config: &Config) -> Option<Self> {
        let shared = &config.shared_budgets;
        (!shared.is_empty()).then(|| Self(shared.clone()))
    }

    /// The accounts that share any budget.
    pub fn accounts(&self) -> impl Iterator<Item = AccountId> {
        let accounts: BTreeSet<AccountId> = self.0.values().flatten().cloned().collect();
        accounts.into_iter().take(SHARING_ACCOUNTS_MAX)
    }

    /// The document of each account, from what all of them have published about a month. `Err` is what one has published that does not count.
    #[must_use]
    pub fn sums(
        &self,
        month: &CalendarMonth,
        published: &BTreeMap<AccountId, Result<PublishedSpend, ShareProblem>>,
        now: Timestamp,
    ) -> Vec<BudgetSums> {
        let share = |account: &AccountId, team: &TeamName| match published.get(account) {
            Some(Ok(spend)) => spend.share(account, team, now),
            Some(Err(problem)) => AccountShare::unknown(account.clone(), *problem),
            None => AccountShare::unknown(account.clone(), ShareProblem::Unpublished),
        };
        let sum = |(team, accounts): (&TeamName, &BTreeSet<AccountId>)| {
            let shares: Vec<AccountShare> = accounts.iter().map(|account| share(account, team)).collect();
            TeamSum { team: team.clone(), total: shares.iter().map(|share| share.spent).sum(), shares }
        };
        let sums: Vec<(&BTreeSet<AccountId>, TeamSum)> = self.0.iter().map(|one| (one.1, sum(one))).collect();
        let document = |account: AccountId| {
            let teams = sums.iter().filter(|(accounts, _)| accounts.contains(&account)).map(|(_, sum)| sum.clone());
            BudgetSums { teams: teams.collect(), account, month: month.to_string(), made_at: now }
        };
        self.accounts().map(document).collect()
    }
}

/// The present month of every account, whatever its time zone: two for some hours around the end of a month.
#[must_use]
pub fn present_months(now: Timestamp) -> Vec<CalendarMonth> {
    let mut months = [before(now, LAST_ZONE), now, after(now, FIRST_ZONE)]
        .map(|at| CalendarMonth::containing(at, &TimeZone::UTC))
        .to_vec();
    months.dedup();
    months
}

#[cfg(test)]
mod tests;
