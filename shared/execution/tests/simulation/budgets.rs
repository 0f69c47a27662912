//! Budgets as the beats leave them: spent, raised, current, stale, of last month, or unreadable.

use billing::budget::{Budget, BudgetHolder, BudgetVerdict};
use jiff::tz::TimeZone;
use model::config::OverBudget;
use model::mode::Mode;
use model::money::Amount;
use ports::{BudgetDocuments, StoreError, Versioned};

use crate::chance::{DAY, HOUR, MINUTE, RandomStream, TICK, stamp};
use crate::fault::Fault;
use crate::faults::FaultInjector;
use crate::session::{Session, refused_to_read};
use crate::settings::{SimulatedConfig, TEAMS};

/// The schedule of `enforce-budgets`.
pub(crate) const BEAT: i64 = 15 * MINUTE;
/// The teams' budgets, and the account's after them.
pub(crate) const HOLDERS: usize = 4;
pub(crate) const OF_ACCOUNT: usize = 3;

/// The last document of one budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetReading {
    verdict: BudgetVerdict,
    pub(crate) as_of: i64,
    pub(crate) month: YearMonth,
}

/// Year and month, UTC.
pub(crate) type YearMonth = (i16, i8);

pub(crate) fn month(now: i64) -> YearMonth {
    let here = stamp(now).to_zoned(TimeZone::UTC);
    (here.year(), here.month())
}

pub(crate) struct SimulatedBudgets {
    chance: RandomStream,
    month: YearMonth,
    spent: [bool; HOLDERS],
    /// When that last changed.
    pub(crate) changed_at: [i64; HOLDERS],
    left: [Option<BudgetReading>; HOLDERS],
    /// The end of a pause without beats.
    silent_until: i64,
}

/// An event of a budget.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BudgetEvent {
    Spent,
    Raised,
}

impl SimulatedBudgets {
    pub(crate) fn from_seed(seed: u64, now: i64) -> Self {
        Self {
            chance: RandomStream::from_seed(seed, 4),
            month: month(now),
            spent: [false; HOLDERS],
            changed_at: [now; HOLDERS],
            left: [None; HOLDERS],
            silent_until: now,
        }
    }

    /// A tick of that length: money is spent, budgets are raised, months begin, and beats come.
    pub(crate) fn pass(
        &mut self,
        now: i64,
        tick: i64,
        settings: &SimulatedConfig,
        faults: &mut FaultInjector,
        mut did: impl FnMut(BudgetEvent),
    ) {
        for holder in 0..HOLDERS {
            let longest = if self.spent[holder] { DAY } else { 4 * DAY };
            let turns = u32::try_from(longest / tick).unwrap_or(1);
            if self.chance.one_in(turns) {
                self.spent[holder] = !self.spent[holder];
                self.changed_at[holder] = now;
                did(if self.spent[holder] { BudgetEvent::Spent } else { BudgetEvent::Raised });
            }
        }
        if month(now) != self.month {
            self.month = month(now);
            self.spent = [false; HOLDERS];
            self.changed_at = [now; HOLDERS];
        }
        if now % BEAT != 0 {
            return;
        }
        if faults.occurs(Fault::BeatsLost, now) {
            self.silent_until = self.silent_until.max(now + self.chance.ticks(TICK, 6 * HOUR));
        } else if now < self.silent_until {
            faults.count(Fault::BeatsLost, now);
        }
        if now >= self.silent_until {
            self.left = std::array::from_fn(|holder| {
                let over_budget = settings.over_budget(holder)?;
                let verdict = match over_budget {
                    _ if !self.spent[holder] => BudgetVerdict::Ok,
                    OverBudget::Notify => BudgetVerdict::Notify,
                    OverBudget::Hold => BudgetVerdict::Hold,
                    OverBudget::Stop => BudgetVerdict::Stop,
                };
                Some(BudgetReading { verdict, as_of: now, month: self.month })
            });
        }
    }

    pub(crate) fn spent_since(&self, holder: usize) -> Option<i64> {
        self.spent[holder].then_some(self.changed_at[holder])
    }

    /// Whether a beat has written it yet.
    pub(crate) fn has_document(&self, holder: usize) -> bool {
        self.left[holder].is_some()
    }

    /// The documents that a run reads.
    pub(crate) fn read(&self, now: i64, faults: &mut FaultInjector) -> [Option<BudgetReading>; HOLDERS] {
        self.left.map(|left| left.filter(|_| !faults.occurs(Fault::BudgetUnread, now)))
    }
}

/// The budgets by which something of that team may be stopped: its team's, and the account's. A budget in observe mode has no effect beside an
/// enforced one.
pub(crate) fn stopping(team: Option<usize>, settings: &SimulatedConfig) -> impl Iterator<Item = usize> {
    let holders = team.into_iter().chain([OF_ACCOUNT]);
    let stops = move |holder: &usize| settings.over_budget(*holder) == Some(OverBudget::Stop);
    let enforced = move |holder: &usize| settings.mode_of(*holder) == Mode::Enforce;
    let any_enforced = holders.clone().any(|holder| stops(&holder) && enforced(&holder));
    holders.filter(move |holder| stops(holder) && (enforced(holder) || !any_enforced))
}

impl BudgetReading {
    /// What it says, if it is recent, and of this month.
    pub(crate) fn verdict(self, now: i64) -> Option<BudgetVerdict> {
        (now - self.as_of <= HOUR && self.month == month(now)).then_some(self.verdict)
    }

    /// The document of that month. Before the first beat of a month there is none.
    pub(crate) fn document(self, holder: &BudgetHolder, month: &str) -> Budget {
        let (year, number) = self.month;
        if format!("{year:04}-{number:02}") != month {
            return Budget::default();
        }
        let team = match holder {
            BudgetHolder::Account => None,
            BudgetHolder::Team(team) => Some(team.clone()),
        };
        Budget {
            team,
            month: month.to_owned(),
            as_of: Some(stamp(self.as_of)),
            budget_usd: Some(Amount::from_usd(100.0)),
            spent_usd: Amount::from_usd(if self.verdict == BudgetVerdict::Ok { 50.0 } else { 150.0 }),
            verdict: self.verdict,
            ..Budget::default()
        }
    }
}

impl BudgetDocuments for Session {
    async fn read_budget(&self, holder: &BudgetHolder, month: &str) -> Result<Versioned<Budget>, StoreError> {
        let account = self.account();
        let Some(place) = place_of(holder).filter(|place| account.budgets.has_document(*place)) else {
            return Ok(Versioned { value: Budget::default(), etag: None });
        };
        let left = account.oracle.budgets_of(&self.facts())[place].ok_or_else(refused_to_read)?;
        Ok(Versioned { value: left.document(holder, month), etag: None })
    }

    async fn write_budget(
        &self,
        _holder: &BudgetHolder,
        _month: &str,
        _budget: &Budget,
        _last: Option<&str>,
    ) -> Result<(), StoreError> {
        unreachable!("no reaper writes a budget")
    }
}

/// The place of a holder among all.
fn place_of(holder: &BudgetHolder) -> Option<usize> {
    match holder {
        BudgetHolder::Account => Some(OF_ACCOUNT),
        BudgetHolder::Team(team) => TEAMS.iter().position(|name| *name == team.as_str()),
    }
}
