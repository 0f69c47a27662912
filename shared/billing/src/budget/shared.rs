//! A team's budget that several accounts of an organization share: the hub's sums of what each has spent, and what an account makes of them.
//!
//! The hub's account makes the sums from what the accounts publish, and each account reads its own document. What another account has spent is
//! that account's word. Its spend of a month only grows, so an old share counts as a lower bound; a share that is missing counts for nothing, so
//! that nothing is held or stopped by what is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use model::account::AccountId;
use model::duration::format_duration;
use model::id::TeamName;
use model::known_sum::KnownSum;
use model::moment::{CLOCK_SKEW_MAX, after};
use model::money::{Amount, USD_MAX};
use serde::{Deserialize, Serialize};

use super::STALE_AFTER;

/// The largest document of sums that is read: the lists of a configuration of 256 KiB, with a line for each share.
pub const BUDGET_SUMS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// `sums/<account>/<yyyy-mm>.json` in the hub: for one account the shared budgets that it has a part in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetSums {
    /// The account that reads it.
    pub account: AccountId,
    /// `yyyy-mm`.
    pub month: String,
    pub made_at: Timestamp,
    pub teams: Vec<TeamSum>,
}

/// Spend of one team in all accounts that share its budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TeamSum {
    pub team: TeamName,
    /// Sum of the shares: a lower bound if one of them is old or missing.
    pub total: KnownSum<Amount>,
    /// One for each account that shares the budget.
    pub shares: Vec<AccountShare>,
}

/// Spend of a team in one account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccountShare {
    pub account: AccountId,
    /// Unknown without figures; of old ones a lower bound.
    pub spent: KnownSum<Amount>,
    /// Time up to which the account's figures are known; absent: there are none that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Timestamp>,
    /// Age of these figures when the sum was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_old: Option<u64>,
    /// Reason for an unknown share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<ShareProblem>,
}

/// Reason why the share of an account is unknown. It repeats nothing that the account wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareProblem {
    /// No figures of this month are published.
    Unpublished,
    /// Its document does not count, or cannot be read.
    Refused,
    /// The account has so many teams that it names only the dearest, and this one is not among them.
    Unnamed,
}

impl BudgetSums {
    /// Key of the document in the hub.
    #[must_use]
    pub fn key(account: &AccountId, month: &str) -> String {
        format!("sums/{account}/{month}.json")
    }
}

impl AccountShare {
    /// Share of an account whose figures are as of that time.
    #[must_use]
    pub fn new(account: AccountId, spent: KnownSum<Amount>, as_of: Timestamp, now: Timestamp) -> Self {
        let age = now.duration_since(as_of).max(SignedDuration::ZERO);
        // It may have spent more since.
        let unknown = KnownSum::new(Amount::ZERO, u64::from(age > STALE_AFTER));
        let seconds_old = u64::try_from(age.as_secs()).ok();
        Self { account, spent: spent + unknown, as_of: Some(as_of), seconds_old, problem: None }
    }

    /// Share of which nothing is known.
    #[must_use]
    pub fn unknown(account: AccountId, problem: ShareProblem) -> Self {
        Self { account, spent: KnownSum::unknown(), as_of: None, seconds_old: None, problem: Some(problem) }
    }
}

/// Spend that counts for a shared budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountedSpend {
    /// The account's own present spend, and that of the others by the hub's sum.
    Sum,
    /// The account's own alone.
    Own,
}

/// A budget that this account shares with others, in its document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedBudget {
    pub counts: CountedSpend,
    /// Reason why the account's own spend counts alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of accounts that share the budget, this one among them.
    pub accounts: usize,
    /// Time of the hub's sum, if that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_at: Option<Timestamp>,
    /// Spend of the other accounts; unknown where the own spend counts alone.
    pub others: KnownSum<Amount>,
    /// Shares of the other accounts, if the hub's sum counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<AccountShare>,
}

impl SharedBudget {
    /// Budget for which the account's own spend counts alone.
    #[must_use]
    pub fn own_alone(accounts: usize, reason: String) -> Self {
        let (counts, others) = (CountedSpend::Own, KnownSum::unknown());
        Self { counts, reason: Some(reason), accounts, made_at: None, others, shares: Vec::new() }
    }

    /// Spend of the other accounts that counts: what is known of it.
    #[must_use]
    pub fn counted_others(&self) -> Amount {
        match self.counts {
            CountedSpend::Sum => self.others.known().unwrap_or_default(),
            CountedSpend::Own => Amount::ZERO,
        }
    }

    /// Spend of the other accounts that counts for a budget; nothing if no others share it.
    #[must_use]
    pub fn others_of(shared: Option<&Self>) -> Amount {
        shared.map(Self::counted_others).unwrap_or_default()
    }

    /// The spend that counts, and the reason, in one sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { accounts, others, .. } = self;
        let count = accounts.saturating_sub(1);
        let noun = if count == 1 { "account" } else { "accounts" };
        if let Some(reason) = &self.reason {
            return format!("{accounts} accounts share the budget, and only this one counts: {reason}");
        }
        let made_at = self.made_at.map(|at| format!(", by the hub's sum of {at}")).unwrap_or_default();
        let mut text =
            format!("{accounts} accounts share the budget; the {count} other {noun} spent {others}{made_at}");
        let old = self.shares.iter().filter_map(|share| Some((share, share.seconds_old?)));
        let old: Vec<String> = old.filter(|(_, seconds)| !is_fresh(*seconds)).map(describe_old).collect();
        let missing = self.shares.iter().filter_map(|share| Some((share, share.problem?)));
        let missing: Vec<String> =
            missing.map(|(share, problem)| format!("{} {}", share.account, problem.describe())).collect();
        for problem in old.into_iter().chain(missing).take(NAMED_MAX) {
            let _ = write!(text, "; {problem}");
        }
        text
    }
}

/// The most accounts whose old or missing share is described.
const NAMED_MAX: usize = 5;

fn is_fresh(seconds: u64) -> bool {
    i64::try_from(seconds).is_ok_and(|seconds| SignedDuration::from_secs(seconds) <= STALE_AFTER)
}

fn describe_old((share, seconds): (&AccountShare, u64)) -> String {
    let age = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    format!("the share of {} was {} old, and may be more", share.account, format_duration(age))
}

impl ShareProblem {
    const fn describe(self) -> &'static str {
        match self {
            Self::Unpublished => "has published nothing about this month: its share is unknown",
            Self::Refused => "has published what does not count: its share is unknown",
            Self::Unnamed => "does not name the team among its dearest: its share is unknown",
        }
    }
}

/// The part that one account has in shared budgets.
#[derive(Debug, Clone, Copy)]
pub struct SharingAccount<'a> {
    pub account: &'a AccountId,
    /// `yyyy-mm`.
    pub month: &'a str,
    pub now: Timestamp,
}

impl SharingAccount<'_> {
    /// The shared budgets of this account, by what its document in the hub says; or by why there is none that can be read.
    #[must_use]
    pub fn budgets(
        self,
        shared: &BTreeMap<TeamName, BTreeSet<AccountId>>,
        sums: Result<Option<BudgetSums>, String>,
    ) -> BTreeMap<TeamName, SharedBudget> {
        let sums = self.checked(sums);
        let own = shared.iter().filter(|(_, accounts)| accounts.contains(self.account));
        own.map(|(team, accounts)| (team.clone(), self.budget(team, accounts, sums.as_ref()))).collect()
    }

    fn checked(self, sums: Result<Option<BudgetSums>, String>) -> Result<BudgetSums, String> {
        let Some(sums) = sums? else {
            return Err(format!("the hub has no sum of {} for this account yet", self.month));
        };
        if sums.account != *self.account || sums.month != self.month {
            return Err("the hub's sum is of another account or month".to_owned());
        }
        if sums.made_at > after(self.now, CLOCK_SKEW_MAX) {
            return Err(format!("the hub's sum is of the future: {}", sums.made_at));
        }
        let age = self.now.duration_since(sums.made_at);
        if age > STALE_AFTER {
            return Err(format!("the hub's sum is of {}, more than an hour ago", sums.made_at));
        }
        Ok(sums)
    }

    fn budget(
        self,
        team: &TeamName,
        accounts: &BTreeSet<AccountId>,
        sums: Result<&BudgetSums, &String>,
    ) -> SharedBudget {
        let count = accounts.len();
        let sums = match sums {
            Ok(sums) => sums,
            Err(reason) => return SharedBudget::own_alone(count, reason.clone()),
        };
        let Some(sum) = sums.teams.iter().find(|sum| sum.team == *team) else {
            return SharedBudget::own_alone(count, "the hub's sum does not have this team yet".to_owned());
        };
        let is_possible =
            |share: &AccountShare| share.spent.known().is_none_or(|spent| spent <= Amount::from_usd(USD_MAX));
        if !sum.shares.iter().all(is_possible) {
            return SharedBudget::own_alone(count, "the hub's sum has more than any account can spend".to_owned());
        }
        // The list of this account's configuration counts: an account that is not in it has no share.
        let shares = accounts.iter().filter(|account| *account != self.account).map(|account| {
            let share = sum.shares.iter().find(|share| share.account == *account);
            share.cloned().unwrap_or_else(|| AccountShare::unknown(account.clone(), ShareProblem::Unpublished))
        });
        let shares: Vec<AccountShare> = shares.collect();
        let others = shares.iter().map(|share| share.spent).sum();
        let (counts, made_at) = (CountedSpend::Sum, Some(sums.made_at));
        SharedBudget { counts, reason: None, accounts: count, made_at, others, shares }
    }
}

#[cfg(test)]
mod tests;
