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
mod tests {
    use jiff::SignedDuration;
    use model::usage::{MetricSeries, MetricSignal, PERIOD, Statistic};

    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn question(number: usize, from: Timestamp) -> MetricQuestion {
        let series = MetricSeries { namespace: "N".to_owned(), metric: "m".to_owned(), dimensions: Vec::new() };
        let instance = format!("i-{number}").as_str().into();
        MetricQuestion {
            instance,
            signal: MetricSignal::Cpu,
            series,
            statistic: Statistic::Maximum,
            from,
            period: PERIOD,
        }
    }

    /// Sizes of the batches, by the length of each question's span.
    fn check(spans: &[(usize, SignedDuration)], expected: &[usize]) {
        let until = time("2026-09-01T12:00:00Z");
        let asked: Vec<MetricQuestion> =
            spans.iter().flat_map(|(count, span)| (0..*count).map(|number| question(number, until - *span))).collect();
        let batches: Vec<QuestionBatch> = batches(asked.clone(), until).collect();
        assert_eq!(batches.iter().map(|batch| batch.questions.len()).collect::<Vec<_>>(), expected);
        for batch in &batches {
            let periods = usize::try_from(until.duration_since(batch.from).as_secs() / PERIOD.as_secs()).unwrap();
            assert!(batch.questions.len() <= QUERIES_MAX && batch.questions.len() * periods <= DATAPOINTS_MAX);
            assert!(batch.questions.capacity() <= 2 * QUERIES_MAX, "none holds the room of all");
            assert!(batch.questions.iter().all(|question| question.from == batch.from && batch.until == until));
        }
        let mut put: Vec<MetricQuestion> = batches.into_iter().flat_map(|batch| batch.questions).collect();
        let key = |question: &MetricQuestion| (question.from, question.instance.clone());
        let mut asked = asked;
        put.sort_by_key(key);
        asked.sort_by_key(key);
        assert_eq!(put, asked, "every question exactly once");
    }

    #[test]
    fn few_calls_within_both_limits() {
        let (hour, day) = (SignedDuration::from_hours(1), SignedDuration::from_hours(24));
        check(&[], &[]);
        check(&[(1, hour)], &[1]);
        check(&[(500, hour)], &[500]);
        check(&[(501, hour)], &[500, 1]);
        check(&[(1200, hour)], &[500, 500, 200]);
        // A day has 288 periods, and one more for the edge: 348 of them fit.
        check(&[(700, day)], &[348, 348, 4]);
        // 60 days: 5 at once.
        check(&[(12, day * 60)], &[5, 5, 2]);
        // One call for each beginning; the longest first.
        check(&[(3, hour), (2, day), (1, hour)], &[2, 4]);
    }

    #[test]
    fn an_empty_span_still_has_a_call() {
        check(&[(2, SignedDuration::ZERO)], &[2]);
    }
}
