//! How questions are put to `CloudWatch` in few calls. Pure.

use std::collections::BTreeMap;

use domain::usage::{PERIOD, Question};
use jiff::Timestamp;

/// `CloudWatch` API reference, `GetMetricData`: queries of one call.
pub(super) const QUERIES_MAX: usize = 500;
/// The same: data points of one call.
pub(super) const DATAPOINTS_MAX: usize = 100_800;

/// The questions of one call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Batch {
    /// The start of its first period.
    pub(super) from: Timestamp,
    /// The end of its last period.
    pub(super) until: Timestamp,
    /// All of that span.
    pub(super) questions: Vec<Question>,
}

/// Every question exactly once, in as few calls as the limits allow. Only questions with the same beginning share a call,
/// so that none spans more than it asks for.
pub(super) fn batches(questions: Vec<Question>, until: Timestamp) -> Vec<Batch> {
    let mut open: BTreeMap<Timestamp, Vec<Question>> = BTreeMap::new();
    let mut batches = Vec::new();
    for question in questions {
        let from = question.from;
        let questions = open.entry(from).or_default();
        questions.push(question);
        if questions.len() == queries_max(from, until) {
            batches.push(Batch { from, until, questions: std::mem::take(questions) });
        }
    }
    open.retain(|_, questions| !questions.is_empty());
    batches.extend(open.into_iter().map(|(from, questions)| Batch { from, until, questions }));
    batches
}

fn queries_max(from: Timestamp, until: Timestamp) -> usize {
    let seconds = until.duration_since(from).as_secs().max(0);
    let periods = usize::try_from(seconds.div_euclid(PERIOD.as_secs())).unwrap_or(usize::MAX) + 1;
    (DATAPOINTS_MAX / periods).clamp(1, QUERIES_MAX)
}

/// The end of the period that `now` lies in.
pub(super) fn end_of_period(now: Timestamp) -> Timestamp {
    let period = PERIOD.as_secs();
    let end = (now.as_second() + period - 1).div_euclid(period) * period;
    Timestamp::from_second(end).unwrap_or(now)
}

#[cfg(test)]
mod tests;
