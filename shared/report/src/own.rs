//! Cost of Curfew itself, from the use of AWS that the audit records report for its runs.
//!
//! Prices are list prices of us-east-1 as of November 2026, without free tiers: AWS Lambda pricing (x86), Amazon `CloudWatch` pricing,
//! Amazon S3 pricing, Amazon SNS pricing, AWS Cost Management pricing. `docs/costs.md` lists the costs that are not counted.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use billing::ledger::TimeSpan;
use jiff::Timestamp;
use model::money::{Amount, Rate};
use plan::report::RunUsage;
use serde::Serialize;

use crate::RunOutline;

/// Functions and their memory in MiB, as in `template.yaml`. Lambda bills the time by the memory.
pub const FUNCTIONS: [(&str, u64); 6] = [
    ("reap-instances", 128),
    ("reap-volumes", 128),
    ("reap-sagemaker", 128),
    ("enforce-budgets", 512),
    ("run-jobs", 256),
    ("send-report", 512),
];

/// Functions that publish metrics of the account, and how often in an hour, by their schedule in `template.yaml`. `CloudWatch` bills a metric for each
/// hour in which it is published, however often.
const PUBLISHERS: [(&str, u128); 3] = [("enforce-budgets", 4), ("run-jobs", 60), ("send-report", 1)];

/// Alarms and the key of the stack, in micro-USD a month. `docs/costs.md` lists them, and a test counts them in `template.yaml`.
const STACK_USD_MICROS_PER_MONTH: u64 = 2_900_000;

/// Nano-USD of one request, or of one unit.
const GB_SECOND: u128 = 16_667;
const INVOCATION: u128 = 200;
const METRIC: u128 = 10_000;
/// A published metric, for an hour: $0.30 a month of 730 hours.
const PUBLISHED_METRIC_HOUR: u128 = 410_959;
const S3_READ: u128 = 400;
const S3_WRITE: u128 = 5_000;
const MESSAGE: u128 = 500;
const COST_EXPLORER_REQUEST: u128 = 10_000_000;

const MIB_PER_GB: u128 = 1_024;

/// The runs of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FunctionRuns {
    /// Use of AWS by the runs whose records report it.
    pub usage: RunUsage,
    /// Records that do not say it: an earlier version wrote them.
    pub unmeasured: u64,
    /// Size of the records in the bucket.
    pub record_bytes: u64,
    /// Time of the earliest run.
    pub first_at: Option<Timestamp>,
}

impl FunctionRuns {
    /// One record, of so many bytes. What `curfew apply` took is not counted: it runs on somebody's own machine.
    pub fn add_record(&mut self, record: &RunOutline<'_>, bytes: u64) {
        self.record_bytes = self.record_bytes.saturating_add(bytes);
        if record.is_of_apply() {
            return;
        }
        self.first_at = earliest(self.first_at, Some(record.at));
        match record.usage.filter(|usage| usage.runs > 0) {
            Some(usage) => self.usage += usage,
            None => self.unmeasured = self.unmeasured.saturating_add(1),
        }
    }

    fn runs(&self) -> u64 {
        self.usage.runs.saturating_add(self.unmeasured)
    }
}

impl AddAssign for FunctionRuns {
    fn add_assign(&mut self, other: Self) {
        self.usage += other.usage;
        self.unmeasured = self.unmeasured.saturating_add(other.unmeasured);
        self.record_bytes = self.record_bytes.saturating_add(other.record_bytes);
        self.first_at = earliest(self.first_at, other.first_at);
    }
}

fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// Cost of a month, or of the part of it that is over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct OwnCost {
    pub runs: u64,
    /// Number of runs that count without their cost, because an earlier version recorded them.
    pub unmeasured_runs: u64,
    /// Metrics that `CloudWatch` was asked for.
    pub metrics: u64,
    #[serde(rename = "lambda_usd")]
    pub lambda: Amount,
    #[serde(rename = "metrics_usd")]
    pub metrics_cost: Amount,
    /// Calls to S3, SNS and Cost Explorer.
    #[serde(rename = "calls_usd")]
    pub calls: Amount,
    /// Audit records of the month, for a month.
    #[serde(rename = "storage_usd")]
    pub storage: Amount,
    /// Metrics of the account, where the deployment asks for them.
    #[serde(rename = "account_metrics_usd", skip_serializing_if = "is_nothing")]
    pub account_metrics: Amount,
    /// Alarms and the key, since the first run in the month.
    #[serde(rename = "stack_usd")]
    pub stack: Amount,
}

fn is_nothing(amount: &Amount) -> bool {
    *amount == Amount::ZERO
}

impl OwnCost {
    /// Computes the cost of these runs, within a span of the month. The stack counts from the first of them: before that it may not have been
    /// deployed.
    #[must_use]
    pub fn from_runs(runs: &BTreeMap<String, FunctionRuns>, span: TimeSpan) -> Self {
        let stack = Rate::from_usd_micros_per_month(STACK_USD_MICROS_PER_MONTH);
        let first_at = runs.values().filter_map(|one| one.first_at).min();
        let deployed = first_at.map(|first_at| TimeSpan { from: first_at, ..span }.within(span).seconds());
        let mut cost = Self { stack: Amount::from_rate(stack, deployed.unwrap_or_default()), ..Self::default() };
        let mut nanos = BilledNanos::default();
        let mut record_bytes = 0_u64;
        for (function, function_runs) in runs {
            let memory = FUNCTIONS.iter().find(|(name, _)| name == function).map_or(0, |(_, memory)| *memory);
            nanos.add(function_runs, memory);
            nanos.add_published(function, function_runs.usage.published_metrics);
            cost.runs = cost.runs.saturating_add(function_runs.runs());
            cost.unmeasured_runs = cost.unmeasured_runs.saturating_add(function_runs.unmeasured);
            cost.metrics = cost.metrics.saturating_add(function_runs.usage.metrics);
            record_bytes = record_bytes.saturating_add(function_runs.record_bytes);
        }
        (cost.lambda, cost.metrics_cost, cost.calls) =
            (from_nanos(nanos.lambda), from_nanos(nanos.metrics), from_nanos(nanos.calls));
        cost.account_metrics = from_nanos(nanos.published);
        Self { storage: crate::checkpoints::storage_of_month(record_bytes), ..cost }
    }

    #[must_use]
    pub fn total(&self) -> Amount {
        [self.lambda, self.metrics_cost, self.account_metrics, self.calls, self.storage, self.stack].into_iter().sum()
    }
}

#[derive(Default)]
struct BilledNanos {
    lambda: u128,
    metrics: u128,
    calls: u128,
    published: u128,
}

impl BilledNanos {
    /// Each value is its share of an hour of its metric.
    fn add_published(&mut self, function: &str, published: u64) {
        let per_hour = PUBLISHERS.iter().find(|(name, _)| *name == function).map_or(1, |(_, per_hour)| *per_hour);
        self.published += u128::from(published) * PUBLISHED_METRIC_HOUR / per_hour;
    }

    fn add(&mut self, runs: &FunctionRuns, memory_mib: u64) {
        let RunUsage {
            milliseconds, metrics, metric_lists, s3_reads, s3_writes, messages, cost_explorer_requests, ..
        } = runs.usage;
        let times = |count: u64, nanos: u128| u128::from(count) * nanos;
        let gb_milliseconds = u128::from(milliseconds) * u128::from(memory_mib) / MIB_PER_GB;
        self.lambda += gb_milliseconds * GB_SECOND / 1_000 + times(runs.runs(), INVOCATION);
        self.metrics += times(metrics, METRIC) + times(metric_lists, METRIC);
        self.calls += times(s3_reads, S3_READ)
            + times(s3_writes, S3_WRITE)
            + times(messages, MESSAGE)
            + times(cost_explorer_requests, COST_EXPLORER_REQUEST);
    }
}

fn from_nanos(nanos: u128) -> Amount {
    Amount::from_usd_micros(u64::try_from(nanos / 1_000).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use model::fixture::time;

    use super::*;

    fn runs_of(function: &str, usage: RunUsage) -> BTreeMap<String, FunctionRuns> {
        BTreeMap::from([(function.to_owned(), FunctionRuns { usage, ..FunctionRuns::default() })])
    }

    fn no_time() -> TimeSpan {
        TimeSpan { from: time("2026-11-01T00:00:00Z"), to: time("2026-11-01T00:00:00Z") }
    }

    fn check(function: &str, usage: RunUsage, expect: [u64; 3]) {
        let cost = OwnCost::from_runs(&runs_of(function, usage), no_time());
        assert_eq!([cost.lambda, cost.metrics_cost, cost.calls].map(Amount::usd_micros), expect, "{usage:?}");
    }

    #[test]
    fn each_part_is_counted_at_its_price() {
        let none = RunUsage::default();
        // A million GB-seconds at $16.667, in 512 MiB; and a million runs.
        check("enforce-budgets", RunUsage { milliseconds: 2_000_000_000, ..none }, [16_667_000, 0, 0]);
        check("reap-instances", RunUsage { milliseconds: 8_000_000_000, ..none }, [16_667_000, 0, 0]);
        check("reap-instances", RunUsage { runs: 1_000_000, ..none }, [200_000, 0, 0]);
        check("reap-instances", RunUsage { metrics: 1_000, metric_lists: 1_000, ..none }, [0, 20_000, 0]);
        check("reap-instances", RunUsage { s3_reads: 10_000, s3_writes: 1_000, ..none }, [0, 0, 9_000]);
        check("reap-instances", RunUsage { messages: 1_000_000, cost_explorer_requests: 1, ..none }, [0, 0, 510_000]);
    }

    #[test]
    fn published_metrics_are_billed_by_the_hour() {
        let check = |function: &str, published_metrics: u64, expect: &str| {
            let runs = runs_of(function, RunUsage { published_metrics, ..RunUsage::default() });
            let cost = OwnCost::from_runs(&runs, no_time());
            assert_eq!(
                (cost.account_metrics.to_string(), cost.total()),
                (expect.to_owned(), cost.account_metrics),
                "{function}"
            );
        };
        // 100 metrics in each quarter of an hour of a month, one each minute, one a day.
        check("enforce-budgets", 100 * 4 * 730, "$30.00");
        check("run-jobs", 60 * 730, "$0.30");
        check("send-report", 30, "$0.01");
    }

    #[test]
    fn the_stack_costs_from_the_first_run_until_now() {
        let span = TimeSpan { from: time("2026-11-01T00:00:00Z"), to: time("2026-11-16T05:00:00Z") };
        let check = |first_at: Option<&str>, expect: &str| {
            let run = FunctionRuns { first_at: first_at.map(time), ..FunctionRuns::default() };
            let runs =
                BTreeMap::from([("run-jobs".to_owned(), run), ("send-report".to_owned(), FunctionRuns::default())]);
            assert_eq!(OwnCost::from_runs(&runs, span).total().to_string(), expect, "{first_at:?}");
        };
        check(Some("2026-11-01T00:00:00Z"), "$1.45");
        check(Some("2026-11-16T04:59:00Z"), "$0.00");
        check(None, "$0.00");
    }

    #[test]
    fn a_record_without_figures_is_a_run_all_the_same_and_an_apply_is_none() {
        let mut runs = FunctionRuns::default();
        let mut add = |run: &str, usage: &str| {
            let text = format!(
                "{{\"function\":\"reap-instances\",\"run\":\"{run}\",\"at\":\"2026-11-01T00:00:00Z\",\"mode\":\"enforce\",\"steps\":[]{usage}}}"
            );
            runs.add_record(&serde_json::from_str(&text).unwrap(), 100);
        };
        add("a", "");
        add("b", ",\"usage\":{\"runs\":3,\"metrics\":7}");
        add("apply-b-1", ",\"usage\":{\"runs\":1,\"metrics\":9}");
        let cost = OwnCost::from_runs(&BTreeMap::from([("reap-instances".to_owned(), runs)]), no_time());
        assert_eq!((cost.runs, cost.unmeasured_runs, cost.metrics, runs.record_bytes), (4, 1, 7, 300));
    }

    #[test]
    fn the_memory_is_that_of_the_template() {
        let template = include_str!("../../../template.yaml");
        for (function, memory) in FUNCTIONS {
            let (_, block) =
                template.split_once(&format!("FunctionName: !Sub ${{AWS::StackName}}-{function}\n")).unwrap();
            let (_, size) = block.split_once("MemorySize: ").unwrap();
            assert_eq!(size.lines().next(), Some(memory.to_string().as_str()), "{function}");
        }
    }
}
