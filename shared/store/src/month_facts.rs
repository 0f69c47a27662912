//! The report of a month: its facts, read from everything that the state bucket has of it; its pages, one a day; and its charges.

mod jobs;
mod records;

use std::collections::BTreeMap;

use billing::budget::{Budget, BudgetHolder};
use billing::ledger::{CalendarMonth, Ledger};
use billing::price::PriceBook;
use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use plan::report::RunRecord;
use report::{MonthFacts, StoredCheckpoints};

use crate::bucket::WriteCondition;
use crate::{BudgetDocuments as _, LedgerDocuments as _, ReportDocuments, Store, StoreError};

use self::jobs::MonthJobs;
use self::records::MonthRecords;

const HTML: &str = "text/html; charset=utf-8";
const CSV: &str = "text/csv; charset=utf-8";

/// The functions that stop and delete for waste.
const REAPERS: [&str; 2] = ["reap-instances", "reap-volumes"];

/// Calls at once.
const AT_ONCE: usize = 32;

/// Reasons that are kept: where a permission is missing, every read says so.
const GAPS_MAX: usize = 100;

/// Ledgers of a month, and the number of those that could not be read.
struct MonthLedgers {
    ledgers: Vec<Ledger>,
    unread: usize,
}

/// Collects what could not be read.
#[derive(Debug, Default)]
struct Gaps {
    said: Vec<String>,
    omitted: usize,
}

impl Gaps {
    fn add(&mut self, gap: String) {
        if self.said.len() < GAPS_MAX {
            self.said.push(gap);
        } else {
            self.omitted += 1;
        }
    }

    /// `what` begins a sentence: `a budget could not be read: ...`.
    fn keep<T>(&mut self, what: &str, read: Result<T, StoreError>) -> Option<T> {
        read.map_err(|error| self.add(format!("{what} could not be read: {error}"))).ok()
    }

    fn into_sentences(mut self) -> Vec<String> {
        if self.omitted > 0 {
            self.said.push(format!("{} more could not be read", self.omitted));
        }
        self.said
    }
}

fn page_key(day: Date) -> String {
    format!("reports/{day}/report.html")
}

fn organization_page_key(day: Date) -> String {
    format!("reports/{day}/organization.html")
}

impl ReportDocuments for Store {
    /// A month of an account whose functions run as often as by default takes some 16,000 calls of `s3:GetObject`, which are 0.6 cents
    /// (Amazon S3 pricing, "Requests & data retrievals", us-east-1, 2026-11: $0.0004 for 1,000).
    async fn read_month_facts(
        &self,
        month: CalendarMonth,
        zone: TimeZone,
        prices: PriceBook,
        now: Timestamp,
    ) -> MonthFacts {
        let mut gaps = Gaps::default();
        let MonthLedgers { ledgers, unread } = self.month_ledgers(&month, &mut gaps).await;
        if ledgers.is_empty() {
            gaps.add(format!("{month} has no ledger: what ran is unknown; enforce-budgets keeps it"));
        }
        let previous = self.month_ledgers(&month.previous(), &mut gaps).await;
        let budgets = self.month_budgets(&month, &mut gaps).await;
        let MonthRecords { days, runs } = self.month_records(month.span(), now, &mut gaps).await;
        let MonthJobs { overviews, attempts } = self.month_jobs(&ledgers, month.span(), now, &mut gaps).await;
        let (mut newest, mut checkpoints) = (Vec::new(), StoredCheckpoints::default());
        // What there is now is not of a month that is over.
        if now < month.span().to {
            newest = self.newest_of_reapers(now, &mut gaps).await;
            checkpoints = self.stored_checkpoints(&mut gaps).await;
        }
        MonthFacts {
            month,
            zone,
            now,
            ledgers,
            unread_ledgers: unread,
            previous_ledgers: previous.ledgers,
            unread_previous_ledgers: previous.unread,
            budgets,
            prices,
            days,
            runs,
            newest,
            jobs: overviews,
            attempts,
            checkpoints,
            usage: None,
            gaps: gaps.into_sentences(),
        }
    }

    async fn has_report_page(&self, day: Date) -> Result<bool, StoreError> {
        self.bucket.has(&page_key(day)).await
    }

    async fn write_report_page(&self, day: Date, page: String) -> Result<(), StoreError> {
        self.bucket.put_as(HTML, &page_key(day), page.into_bytes(), WriteCondition::None).await.map(drop)
    }

    async fn write_organization_page(&self, day: Date, page: String) -> Result<(), StoreError> {
        let key = organization_page_key(day);
        self.bucket.put_as(HTML, &key, page.into_bytes(), WriteCondition::None).await.map(drop)
    }

    fn organization_page_address(&self, day: Date) -> String {
        self.bucket.address(&organization_page_key(day))
    }

    fn report_page_address(&self, day: Date) -> String {
        self.bucket.address(&page_key(day))
    }

    async fn write_month_export(&self, month: &CalendarMonth, charges: String) -> Result<(), StoreError> {
        let key = format!("exports/{month}/curfew-focus.csv");
        self.bucket.put_as(CSV, &key, charges.into_bytes(), WriteCondition::None).await.map(drop)
    }
}

impl Store {
    async fn month_ledgers(&self, month: &CalendarMonth, gaps: &mut Gaps) -> MonthLedgers {
        let regions = gaps.keep("the ledger", self.list_ledgers(month).await).unwrap_or_default();
        let mut ledgers = Vec::new();
        for region in &regions {
            let read = self.read_ledger(month, region).await;
            ledgers.extend(gaps.keep(&format!("the ledger of {region}"), read).map(|read| read.value));
        }
        MonthLedgers { unread: regions.len().saturating_sub(ledgers.len()), ledgers }
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

    async fn newest_of_reapers(&self, now: Timestamp, gaps: &mut Gaps) -> Vec<RunRecord> {
        let mut newest = Vec::new();
        for function in REAPERS {
            let read = self.newest_plan_after_applies(function, now).await;
            match gaps.keep(&format!("the newest audit record of {function}"), read) {
                Some(Some(record)) => newest.push(record),
                Some(None) => {
                    gaps.add(format!("{function} left no audit record today or yesterday: it does not run"));
                }
                None => {}
            }
        }
        newest
    }
}
