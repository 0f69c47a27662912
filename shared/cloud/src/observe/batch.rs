//! Batching queries to `CloudWatch` into few calls. Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::usage::MetricQuestion;

/// `CloudWatch` API reference, `GetMetricData`: queries of one call.
pub(super) const QUERIES_MAX: usize = 500;
/// Data points of one call (`CloudWatch` API reference, `GetMetricData`).
pub(super) const DATAPOINTS_MAX: usize = 100_800;

/// The questions of one call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QuestionBatch {
    /// The start of its first period.
    pub(super) from: Timestamp,
    /// The end of its last period.
    pub(super) until: Timestamp,
    pub(super) questions: Vec<MetricQuestion>,
}

/// Every query exactly once, in as few calls as the limits allow. Only queries with the same start and period share a call, so that none
/// spans more than it needs. The iterator is lazy, so there are never many of them in memory.
pub(super) fn batches(
    questions: impl IntoIterator<Item = MetricQuestion>,
    until: Timestamp,
) -> impl Iterator<Item = QuestionBatch> {
    let mut questions = questions.into_iter();
    let mut open: BTreeMap<(Timestamp, SignedDuration), Vec<MetricQuestion>> = BTreeMap::new();
    std::iter::from_fn(move || {
        for question in questions.by_ref() {
            let (from, period) = (question.from, question.period);
            let open_batch = open.entry((from, period)).or_default();
            open_batch.push(question);
            if open_batch.len() == queries_max(from, until, period) {
                return open.remove(&(from, period)).map(|questions| QuestionBatch { from, until, questions });
            }
        }
        open.pop_first().map(|((from, _), questions)| QuestionBatch { from, until, questions })
    })
}

pub(crate) fn queries_max(from: Timestamp, until: Timestamp, period: SignedDuration) -> usize {
    let seconds = until.duration_since(from).as_secs().max(0);
    let periods = usize::try_from(seconds.div_euclid(period.as_secs().max(1))).unwrap_or(usize::MAX) + 1;
    (DATAPOINTS_MAX / periods).clamp(1, QUERIES_MAX)
}

#[cfg(test)]
mod tests;
