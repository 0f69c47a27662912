//! What the report of a month is made from, read from everything that the state bucket has of it.

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::{Budget, BudgetHolder};
use billing::ledger::{CalendarMonth, Ledger, TimeSpan};
use billing::price::PriceBook;
use futures::stream::{self, StreamExt as _};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use jobs::{JobId, JobOverview};
use plan::report::RunRecord;
use report::{DayActions, MonthFacts};

use crate::{PlanKey, Store, StoreError};

/// The functions that stop and delete for waste.
const REAPERS: [&str; 2] = ["reap-instances", "reap-volumes"];

/// Calls at once.
const AT_ONCE: usize = 32;

/// Audit records of one function and day that are read. A run every two minutes writes 720.
const RECORDS_OF_DAY_MAX: usize = 1_000;

/// Jobs whose states are read: each is a call.
const JOBS_MAX: usize = 5_000;

/// What was stopped so long before the month can still save in it.
const BEFORE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Collects what could not be read.
#[derive(Debug, Default)]
struct Gaps(Vec<String>);

impl Gaps {
    /// `what` begins a sentence: `a budget could not be read: ...`.
    fn keep<T>(&mut self, what: &str, read: Result<T, StoreError>) -> Option<T> {
        read.map_err(|error| self.0.push(format!("{what} could not be read: {error}"))).ok()
    }
}

impl Store {
    /// The facts of a month that has begun, in the account's time zone. It always answers: what could not be read is named in
    /// [`MonthFacts::gaps`].
    ///
    /// A month of an account whose reapers run every 5 minutes takes some 12,000 calls of `s3:GetObject`, which are half a cent
    /// (Amazon S3 pricing, "Requests & data retrievals", us-east-1, 2026-11: $0.0004 for 1,000).
    pub async fn read_month_facts(
        &self,
        month: CalendarMonth,
        zone: TimeZone,
        prices: PriceBook,
        now: Timestamp,
    ) -> MonthFacts {
        let mut gaps = Gaps::default();
        let ledgers = self.month_ledgers(&month, &mut gaps).await;
        if ledgers.is_empty() {
            gaps.0.push(format!("{month} has no ledger: what ran is unknown; enforce-budgets keeps it"));
        }
        let previous_ledgers = self.month_ledgers(&month.previous(), &mut gaps).await;
        let budgets = self.month_budgets(&month, &mut gaps).await;
        let days = self.month_actions(month.span(), now, &mut gaps).await;
        let newest = if now < month.span().to { self.newest_of_reapers(now, &mut gaps).await } else { Vec::new() };
        let jobs = self.month_jobs(&ledgers, month.span(), now, &mut gaps).await;
        MonthFacts { month, zone, now, ledgers, previous_ledgers, budgets, prices, days, newest, jobs, gaps: gaps.0 }
    }

    async fn month_ledgers(&self, month: &CalendarMonth, gaps: &mut Gaps) -> Vec<Ledger> {
        let regions = gaps.keep("the ledger", self.list_ledgers(month).await).unwrap_or_default();
        let mut ledgers = Vec::new();
        for region in regions {
            let read = self.read_ledger(month, &region).await;
            ledgers.extend(gaps.keep(&format!("the ledger of {region}"), read).map(|read| read.value));
        }
        ledgers
    }

    async fn month_budgets(&self, month: &CalendarMonth, gaps: &mut Gaps) -> BTreeMap<BudgetHolder, Budget> {
        let month = &month.to_string();
        let holders = gaps.keep("budgets", self.list_budgets(month).await).unwrap_or_default();
        let reads = holders.into_iter().map(|holder| async move {
            let read = self.read_budget(&holder, month).await;
            (holder, read)
        });
        let read: Vec<_> = stream::iter(reads).buffered(AT_ONCE).collect().await;
        let read = read.into_iter().filter_map(|(holder, read)| Some((holder, gaps.keep("a budget", read)?.value)));
        read.collect()
    }

    /// Day by day, so that no more than the records of one day are held.
    async fn month_actions(&self, month: TimeSpan, now: Timestamp, gaps: &mut Gaps) -> Vec<DayActions> {
        let date = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
        let (first, last) = (date(month.from - BEFORE), date(month.to.min(now)));
        let mut days = Vec::new();
        for day in first.series(1.day()).take_while(|day| *day <= last) {
            let Ok(midnight) = day.to_zoned(TimeZone::UTC) else { continue };
            let mut records = Vec::new();
            for function in REAPERS {
                records.extend(self.records_of(midnight.timestamp(), function, gaps).await);
            }
            days.push(DayActions::from_records(&records));
        }
        days
    }

    async fn records_of(&self, day: Timestamp, function: &str, gaps: &mut Gaps) -> Vec<RunRecord> {
        let what = format!("the audit records of {function} of {}", day.strftime("%Y-%m-%d"));
        let mut keys = gaps.keep(&what, self.list_plans(day, Some(function)).await).unwrap_or_default();
        if keys.len() > RECORDS_OF_DAY_MAX {
            gaps.0.push(format!("{what} are {}: the newest {RECORDS_OF_DAY_MAX} were read", keys.len()));
            keys.truncate(RECORDS_OF_DAY_MAX);
        }
        let reads = keys.into_iter().map(|PlanKey { key, .. }| async move { self.read_plan(&key).await });
        let read: Vec<_> = stream::iter(reads).buffered(AT_ONCE).collect().await;
        let kept = read.into_iter().filter_map(|read| gaps.keep("an audit record", read).flatten());
        kept.collect()
    }

    async fn newest_of_reapers(&self, now: Timestamp, gaps: &mut Gaps) -> Vec<RunRecord> {
        let mut newest = Vec::new();
        for function in REAPERS {
            match gaps.keep(&format!("the newest audit record of {function}"), self.newest_plan(function, now).await) {
                Some(Some(record)) => newest.push(record),
                Some(None) => {
                    gaps.0.push(format!("{function} left no audit record today or yesterday: it does not run"));
                }
                None => {}
            }
        }
        newest
    }

    /// Those that are unfinished, and those that the ledgers name.
    async fn month_jobs(
        &self,
        ledgers: &[Ledger],
        month: TimeSpan,
        now: Timestamp,
        gaps: &mut Gaps,
    ) -> Vec<JobOverview> {
        let active = gaps.keep("the list of jobs", self.active().await).unwrap_or_default();
        let mut names: BTreeSet<JobId> = active.into_iter().collect();
        let shares = ledgers.iter().flat_map(Ledger::runs).flat_map(|run| run.shares(month));
        names.extend(shares.filter_map(|share| JobId::read(share.job?).ok()));
        if names.len() > JOBS_MAX {
            gaps.0.push(format!("of {} jobs the states of {JOBS_MAX} were read", names.len()));
        }
        let reads = names.into_iter().take(JOBS_MAX).map(|id| async move { self.read_job(&id).await });
        let read: Vec<_> = stream::iter(reads).buffered(AT_ONCE).collect().await;
        let jobs = read.into_iter().filter_map(|read| gaps.keep("a job", read)?.value);
        jobs.map(|job| JobOverview::from_job(&job, now)).collect()
    }
}
