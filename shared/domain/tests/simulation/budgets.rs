//! Budgets as the beats leave them: spent and raised, in time, old, of last month, or unread.

use domain::budget::{Holder, Standing, Standings, Verdict};
use domain::config::OverBudget;
use domain::money::Amount;
use jiff::tz::TimeZone;

use crate::chance::{Chance, DAY, HOUR, MINUTE, TICK, stamp};
use crate::fault::Fault;
use crate::faults::Faults;
use crate::settings::{Settings, TEAMS};

/// The schedule of `enforce-budgets`.
pub(crate) const BEAT: i64 = 15 * MINUTE;
/// The teams' budgets, and the account's after them.
pub(crate) const HOLDERS: usize = 4;
pub(crate) const OF_ACCOUNT: usize = 3;

/// What the last beat wrote of one budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) verdict: Verdict,
    pub(crate) as_of: i64,
    pub(crate) month: Month,
}

/// Year and month, UTC.
pub(crate) type Month = (i16, i8);

pub(crate) fn month(now: i64) -> Month {
    let here = stamp(now).to_zoned(TimeZone::UTC);
    (here.year(), here.month())
}

pub(crate) struct Budgets {
    chance: Chance,
    month: Month,
    spent: [bool; HOLDERS],
    /// When that changed last.
    pub(crate) changed_at: [i64; HOLDERS],
    left: [Option<Left>; HOLDERS],
    /// Until then no beat comes.
    silent_until: i64,
}

/// What happened to a budget.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Turn {
    Spent,
    Raised,
}

impl Budgets {
    pub(crate) fn of(seed: u64, now: i64) -> Self {
        Self {
            chance: Chance::of(seed, 4),
            month: month(now),
            spent: [false; HOLDERS],
            changed_at: [now; HOLDERS],
            left: [None; HOLDERS],
            silent_until: now,
        }
    }

    /// A tick: money is spent, budgets are raised, months begin, and beats come.
    pub(crate) fn pass(&mut self, now: i64, settings: &Settings, faults: &mut Faults, mut did: impl FnMut(Turn)) {
        for holder in 0..HOLDERS {
            let longest = if self.spent[holder] { DAY } else { 4 * DAY };
            let turns = u32::try_from(longest / TICK).unwrap_or(1);
            if self.chance.one_in(turns) {
                self.spent[holder] = !self.spent[holder];
                self.changed_at[holder] = now;
                did(if self.spent[holder] { Turn::Spent } else { Turn::Raised });
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
        if faults.strikes(Fault::BeatsLost, now) {
            self.silent_until = self.silent_until.max(now + self.chance.ticks(TICK, 6 * HOUR));
        } else if now < self.silent_until {
            faults.count(Fault::BeatsLost, now);
        }
        if now >= self.silent_until {
            self.left = std::array::from_fn(|holder| {
                let over_budget = settings.over_budget(holder)?;
                let verdict = match over_budget {
                    _ if !self.spent[holder] => Verdict::Ok,
                    OverBudget::Notify => Verdict::Notify,
                    OverBudget::Hold => Verdict::Hold,
                    OverBudget::Stop => Verdict::Stop,
                };
                Some(Left { verdict, as_of: now, month: self.month })
            });
        }
    }

    /// Since when one is spent, where it is.
    pub(crate) fn spent_since(&self, holder: usize) -> Option<i64> {
        self.spent[holder].then_some(self.changed_at[holder])
    }

    /// What a run reads of them.
    pub(crate) fn read(&self, now: i64, faults: &mut Faults) -> [Option<Left>; HOLDERS] {
        self.left.map(|left| left.filter(|_| !faults.strikes(Fault::BudgetUnread, now)))
    }
}

/// The same, as the domain takes it.
pub(crate) fn standings(read: &[Option<Left>; HOLDERS]) -> Standings {
    let holders = TEAMS.iter().map(|team| Holder::Team((*team).into())).chain([Holder::Account]);
    let of = |(holder, left): (Holder, &Option<Left>)| {
        let Left { verdict, as_of, month: (year, month) } = (*left)?;
        let spent = Amount::from_usd(if verdict == Verdict::Ok { 50.0 } else { 150.0 });
        let month = format!("{year:04}-{month:02}");
        Some((holder, Standing { verdict, as_of: stamp(as_of), month, spent, reserved: Amount::ZERO }))
    };
    Standings(holders.zip(read).filter_map(of).collect())
}
