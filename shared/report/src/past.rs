//! Earlier spend, to compare that of the month with.

use std::collections::BTreeMap;
use std::fmt;

use billing::ledger::{Ledger, RunCost, TimeSpan};
use jiff::{SignedDuration, Timestamp};
use model::known_sum::{self, KnownSum};
use model::moment::{after, before};
use model::money::Amount;
use serde::Serialize;

use crate::MonthFacts;
use crate::spend::team_label;

const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Longest time without a ledger at the beginning of a month that is still compared.
pub(crate) const BLIND_MAX: SignedDuration = SignedDuration::from_hours(24);

/// Spend of a span, as far as prices are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PastSpend {
    #[serde(rename = "spent_usd", serialize_with = "known_sum::serialize_known")]
    pub amount: KnownSum<Amount>,
    /// Seconds that resources ran at an unknown price.
    pub unpriced_seconds: u64,
}

/// `$12.00`, or `at least $12.00` if a price is unknown, or `unknown`.
impl fmt::Display for PastSpend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.amount.fmt(f)
    }
}

impl From<RunCost> for PastSpend {
    fn from(cost: RunCost) -> Self {
        Self { amount: cost.priced_sum(), unpriced_seconds: cost.unpriced_seconds }
    }
}

/// Spends to compare with; each `None` if no ledger covers its span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PastSpends {
    /// Spend of the previous month until the same time of it; all of it for a month that is over.
    pub previous_month: Option<PastSpend>,
    /// Spend of the last seven days; `None` for a month that is over.
    pub last_week: Option<PastSpend>,
    /// Spend of the seven days before these.
    pub previous_week: Option<PastSpend>,
}

/// The same by team.
#[derive(Debug, Default)]
pub(crate) struct PastSpendsByTeam {
    previous_month: Option<SpendsByTeam>,
    last_week: Option<SpendsByTeam>,
    previous_week: Option<SpendsByTeam>,
}

/// Spend by team within a span.
#[derive(Debug)]
struct SpendsByTeam {
    teams: BTreeMap<String, RunCost>,
    /// Ledgers of the span that could not be read: every sum lacks them.
    unread_ledgers: u64,
}

impl PastSpendsByTeam {
    pub(crate) fn from_facts(facts: &MonthFacts, span: TimeSpan, is_over: bool) -> Self {
        let previous = facts.month.previous().span();
        let to = if is_over { previous.to } else { after(previous.from, span.duration()).min(previous.to) };
        let same_time = TimeSpan { to, ..previous };
        let both = || facts.ledgers.iter().chain(&facts.previous_ledgers);
        let week_ago = before(span.to, WEEK);
        let last_week = TimeSpan { from: week_ago, to: span.to };
        let previous_week = TimeSpan { from: before(week_ago, WEEK), to: week_ago };
        let week = |window: TimeSpan| (!is_over).then(|| covered(both(), window, window.from)).flatten();
        // A span lacks the ledgers of the months that it reaches into.
        let with_gaps = |teams: Option<BTreeMap<String, RunCost>>, window: TimeSpan| {
            let before = if window.from < previous.to { facts.unread_previous_ledgers } else { 0 };
            let since = if window.to > previous.to { facts.unread_ledgers } else { 0 };
            let unread_ledgers = u64::try_from(before.saturating_add(since)).unwrap_or(u64::MAX);
            teams.map(|teams| SpendsByTeam { teams, unread_ledgers })
        };
        let same_time_before = covered(facts.previous_ledgers.iter(), same_time, after(previous.from, BLIND_MAX));
        Self {
            previous_month: with_gaps(same_time_before, same_time),
            last_week: with_gaps(week(last_week), last_week),
            previous_week: with_gaps(week(previous_week), previous_week),
        }
    }

    pub(crate) fn of_team(&self, team: &str) -> PastSpends {
        self.map(|by_team| by_team.get(team).copied().unwrap_or_default())
    }

    pub(crate) fn of_account(&self) -> PastSpends {
        self.map(|by_team| by_team.values().copied().sum())
    }

    fn map(&self, cost: impl Fn(&BTreeMap<String, RunCost>) -> RunCost) -> PastSpends {
        let spend = |spends: &Option<SpendsByTeam>| {
            let SpendsByTeam { teams, unread_ledgers } = spends.as_ref()?;
            let spend = PastSpend::from(cost(teams));
            Some(PastSpend { amount: spend.amount + KnownSum::new(Amount::ZERO, *unread_ledgers), ..spend })
        };
        PastSpends {
            previous_month: spend(&self.previous_month),
            last_week: spend(&self.last_week),
            previous_week: spend(&self.previous_week),
        }
    }
}

/// Spend by team within a span; `None` if no ledger was kept by then.
fn covered<'a>(
    ledgers: impl Iterator<Item = &'a Ledger> + Clone,
    span: TimeSpan,
    by: Timestamp,
) -> Option<BTreeMap<String, RunCost>> {
    ledgers.clone().filter_map(Ledger::since).min().filter(|since| *since <= by)?;
    let mut by_team: BTreeMap<String, RunCost> = BTreeMap::new();
    let mut add = |team: String, cost: RunCost| {
        let sum = by_team.entry(team).or_default();
        *sum = *sum + cost;
    };
    for ledger in ledgers {
        let within = span.within(ledger.span());
        for run in ledger.runs() {
            for share in run.shares(within) {
                add(team_label(share.team), run.spent(share.span));
            }
        }
        let folded = ledger.folded().filter(|(key, _)| within.from <= key.day && key.day < within.to);
        folded.for_each(|(key, sum)| add(team_label(key.team.as_ref()), sum.spent));
    }
    Some(by_team)
}
