//! The audit records of a month, condensed as they are read.

use std::collections::BTreeMap;

use billing::ledger::TimeSpan;
use futures::stream::{self, StreamExt as _};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use model::moment::before;
use report::{DayActions, DayCondenser, FUNCTIONS, FunctionRuns, RunOutline};

use super::{AT_ONCE, Gaps, REAPERS};
use crate::{PlanKey, Store};

/// Audit records of one function and day that are read. A run a minute writes 1,440.
const RECORDS_OF_DAY_MAX: usize = 1_500;

/// Time before the month in which a stop can still save in it.
const BEFORE: SignedDuration = SignedDuration::from_hours(7 * 24);

#[derive(Default)]
pub(super) struct MonthRecords {
    /// Actions of the month and of the seven days before it.
    pub(super) days: Vec<DayActions>,
    /// Runs of the month, by function.
    pub(super) runs: BTreeMap<String, FunctionRuns>,
}

impl Store {
    pub(super) async fn month_records(&self, month: TimeSpan, now: Timestamp, gaps: &mut Gaps) -> MonthRecords {
        let date = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
        let (first, last) = (date(before(month.from, BEFORE)), date(month.to.min(now)));
        let mut records = MonthRecords::default();
        for day in first.series(1.day()).take_while(|day| *day <= last) {
            let Ok(midnight) = day.to_zoned(TimeZone::UTC) else { continue };
            let mut actions = DayCondenser::default();
            for (function, _) in FUNCTIONS {
                let is_reaper = REAPERS.contains(&function);
                if !is_reaper && day < date(month.from) {
                    continue;
                }
                let runs = records.runs.entry(function.to_owned()).or_default();
                self.each_record(midnight.timestamp(), function, gaps, |record, bytes| {
                    if month.from <= record.at && record.at < month.to {
                        runs.add_record(record, bytes);
                    }
                    if is_reaper {
                        actions.add(record);
                    }
                })
                .await;
            }
            records.days.push(actions.finish());
        }
        records
    }

    /// Passes each record of a function and day to `each`, with its size. No more are held than are read at once.
    async fn each_record(
        &self,
        day: Timestamp,
        function: &str,
        gaps: &mut Gaps,
        mut each: impl FnMut(&RunOutline<'_>, u64),
    ) {
        let what = format!("the audit records of {function} of {}", day.strftime("%Y-%m-%d"));
        let mut keys = gaps.keep(&what, self.list_plans(day, Some(function)).await).unwrap_or_default();
        if keys.len() > RECORDS_OF_DAY_MAX {
            gaps.add(format!("{what} are {}: the newest {RECORDS_OF_DAY_MAX} were read", keys.len()));
            keys.truncate(RECORDS_OF_DAY_MAX);
        }
        let reads = keys.into_iter().map(|PlanKey { key, bytes, .. }| async move {
            let read = self.read_plan_bytes(&key).await;
            (key, read, bytes)
        });
        let mut reads = stream::iter(reads).buffer_unordered(AT_ONCE);
        while let Some((key, read, bytes)) = reads.next().await {
            let Some(document) = gaps.keep("an audit record", read).flatten() else { continue };
            if let Some(outline) = gaps.keep("an audit record", self.read_outline(&key, &document)) {
                each(&outline, bytes);
            }
        }
    }
}
