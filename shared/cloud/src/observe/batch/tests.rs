use jiff::SignedDuration;
use model::usage::{MetricSeries, MetricSignal, PERIOD, Statistic};

use super::*;

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn question(number: usize, from: Timestamp) -> MetricQuestion {
    let series = MetricSeries { namespace: "N".to_owned(), metric: "m".to_owned(), dimensions: Vec::new() };
    let instance = format!("i-{number}").as_str().into();
    MetricQuestion { instance, signal: MetricSignal::Cpu, series, statistic: Statistic::Maximum, from, period: PERIOD }
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
