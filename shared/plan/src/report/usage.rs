//! Requests of Curfew itself to AWS, as far as AWS bills them, for the report of a month.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// AWS usage of runs since the previous record of the same process. A run that leaves no record, and usage after a record, count in the
/// next record. Usage of the last run of a process after its record counts in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunUsage {
    pub runs: u64,
    /// Time from the beginning of each run to its record, or to its end.
    pub milliseconds: u64,
    /// Metrics that `GetMetricData` was asked for.
    pub metrics: u64,
    /// Pages of `ListMetrics`.
    pub metric_lists: u64,
    /// Objects that were read, or asked for.
    pub s3_reads: u64,
    /// Objects that were written, and pages of lists.
    pub s3_writes: u64,
    /// Messages that SNS was given.
    pub messages: u64,
    pub cost_explorer_requests: u64,
}

impl AddAssign for RunUsage {
    fn add_assign(&mut self, other: Self) {
        // Taken apart by name: a figure that is added does not compile until it is summed.
        let Self { runs, milliseconds, metrics, metric_lists, s3_reads, s3_writes, messages, cost_explorer_requests } =
            other;
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.runs, runs);
        add(&mut self.milliseconds, milliseconds);
        add(&mut self.metrics, metrics);
        add(&mut self.metric_lists, metric_lists);
        add(&mut self.s3_reads, s3_reads);
        add(&mut self.s3_writes, s3_writes);
        add(&mut self.messages, messages);
        add(&mut self.cost_explorer_requests, cost_explorer_requests);
    }
}
