//! Facts that were read about a month.

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
    /// Ledgers of the month, one for each region.
    pub ledgers: Vec<Ledger>,
    /// Number of regions whose ledger of the month exists, and could not be read.
    pub unread_ledgers: usize,
    /// Ledgers of the previous month: a resource that was stopped in its last days may have started again in it.
    pub previous_ledgers: Vec<Ledger>,
    pub budgets: BTreeMap<BudgetHolder, Budget>,
    /// Prices by which Spot is compared with on-demand.
    pub prices: PriceBook,
    /// Days of the month, and the seven days before it: a stop on one of those still saves.
    pub days: Vec<DayActions>,
    /// Curfew's own runs of the month, by function.
    pub runs: BTreeMap<String, FunctionRuns>,
    /// The newest record of each reaper, after every apply.
    pub newest: Vec<RunRecord>,
    /// Jobs that are unfinished, or were until lately.
    pub jobs: Vec<JobOverview>,
    /// Last reports of each job's attempts in the month, by job, `<team>/<job>`.
    pub attempts: BTreeMap<String, Vec<AttemptRecord>>,
    /// Present size of the checkpoints; empty for a month that is over.
    pub checkpoints: StoredCheckpoints,
    /// Use of the instances; `None` if it was not requested.
    pub usage: Option<UsageFacts>,
    /// Descriptions of everything that could not be read.
    pub gaps: Vec<String>,
}

/// The report of a month that ended so lately still says what could cost less next month: it is sent on the first day of that month.
const LATELY: SignedDuration = SignedDuration::from_hours(24);

impl MonthFacts {
    /// Returns `true` if the use of the instances that run now belongs to this month.
    #[must_use]
    pub fn is_recent(&self) -> bool {
        self.now < after(self.month.span().to, LATELY)
    }
}
