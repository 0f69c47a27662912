//! What was read of a month.

use std::collections::BTreeMap;

use billing::budget::{Budget, BudgetHolder};
use billing::ledger::{CalendarMonth, Ledger};
use billing::price::PriceBook;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use jobs::JobOverview;
use model::moment::after;
use plan::report::RunRecord;

use crate::{AttemptRecord, DayActions, FunctionRuns, StoredCheckpoints, UsageFacts};

/// Everything that a report is made from.
#[derive(Debug)]
pub struct MonthFacts {
    pub month: CalendarMonth,
    /// The account's time zone: its days are those of the report.
    pub zone: TimeZone,
    pub now: Timestamp,
    /// Of the month, one a region.
    pub ledgers: Vec<Ledger>,
    /// Of the month before: what was stopped in its last days may have started again in it.
    pub previous_ledgers: Vec<Ledger>,
    pub budgets: BTreeMap<BudgetHolder, Budget>,
    /// By which Spot is compared with on-demand.
    pub prices: PriceBook,
    /// Of the month, and of the seven days before it: what was stopped then still saves.
    pub days: Vec<DayActions>,
    /// Curfew's own runs of the month, by function.
    pub runs: BTreeMap<String, FunctionRuns>,
    /// The newest record of each reaper.
    pub newest: Vec<RunRecord>,
    /// Jobs that are unfinished, or were until lately.
    pub jobs: Vec<JobOverview>,
    /// What the attempts of jobs last said in the month, by job, `<team>/<job>`.
    pub attempts: BTreeMap<String, Vec<AttemptRecord>>,
    /// What checkpoints take now; nothing of a month that is over.
    pub checkpoints: StoredCheckpoints,
    /// How hard instances worked; `None` if they were not asked for.
    pub usage: Option<UsageFacts>,
    /// What could not be read, in words.
    pub gaps: Vec<String>,
}

/// The report of a month that ended so lately still says what could cost less next month: it is sent on the first day of that month.
const LATELY: SignedDuration = SignedDuration::from_hours(24);

impl MonthFacts {
    /// Whether the use of what runs now is of this month.
    #[must_use]
    pub fn is_recent(&self) -> bool {
        self.now < after(self.month.span().to, LATELY)
    }
}
