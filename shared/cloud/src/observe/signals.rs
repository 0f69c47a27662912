//! Samples of signals by resource, from `CloudWatch`.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use model::id::Region;
use model::observation::Gap;
use model::sagemaker::{ActivityQuestion, ActivitySamples};
use model::usage::Sample;
use plan::report::RunUsage;

use super::batch::queries_max;
use super::metric_data::{CALLS_AT_ONCE_MAX, GET_METRIC_DATA, PeriodSpan, answers, not_in_full, query};
use crate::aws::Aws;
use crate::error::{CallError, gaps};

/// Pages of one call, which mostly answers in one.
const PAGES_MAX: usize = 50;

/// The answers to these questions about one region. A question without a full answer within `timeout` is left out, with a gap.
pub(crate) async fn ask_in_batches<S: Copy + Ord>(
    aws: &Aws,
    region: &Region,
    questions: &[ActivityQuestion<S>],
    timeout: Duration,
) -> (ActivitySamples<S>, Vec<Gap>) {
    let client = aws.cloudwatch(region);
    let (mut found, mut errors) = (ActivitySamples::<S>::new(), Vec::new());
    let all = async {
        let client = &client;
        let calls = batches(questions).into_iter().map(|batch| async move {
            let asked = batch.len();
            aws.meter.add(RunUsage { metrics: u64::try_from(asked).unwrap_or(u64::MAX), ..RunUsage::default() });
            let answered = ask(client, region, &batch).await;
            (batch, answered)
        });
        let mut calls = stream::iter(calls).buffer_unordered(CALLS_AT_ONCE_MAX);
        while let Some((batch, answered)) = calls.next().await {
            match answered {
                Ok(answered) => {
                    errors.extend(not_in_full(region, batch.len() - answered.len(), batch.len()));
                    for (place, samples) in answered {
                        if let Some(question) = batch.get(place) {
                            found.entry(question.resource.clone()).or_default().insert(question.signal, samples);
                        }
                    }
                }
                Err(error) => errors.push(error),
            }
        }
    };
    if tokio::time::timeout(timeout, all).await.is_err() {
        errors.push(CallError::timed_out(GET_METRIC_DATA, region, timeout));
    }
    (found, gaps(errors))
}

/// Only questions about the same time share a call, so that none spans more than it needs.
fn batches<S>(questions: &[ActivityQuestion<S>]) -> Vec<Vec<&ActivityQuestion<S>>> {
    let mut by_span: BTreeMap<(Timestamp, Timestamp, SignedDuration), Vec<&ActivityQuestion<S>>> = BTreeMap::new();
    for question in questions {
        by_span.entry((question.from, question.until, question.period)).or_default().push(question);
    }
    let mut batches = Vec::new();
    for ((from, until, period), questions) in by_span {
        batches.extend(questions.chunks(queries_max(from, until, period)).map(<[&ActivityQuestion<S>]>::to_vec));
    }
    batches
}

/// The samples of the questions that were answered in full, by their place.
async fn ask<S>(
    client: &aws_sdk_cloudwatch::Client,
    region: &Region,
    batch: &[&ActivityQuestion<S>],
) -> Result<BTreeMap<usize, Vec<Sample>>, CallError> {
    let Some(first) = batch.first() else { return Ok(BTreeMap::new()) };
    let span = PeriodSpan { from: first.from, until: first.until };
    let queries = batch.iter().enumerate();
    let queries = queries.map(|(place, question)| query(place, &question.series, question.statistic, question.period));
    let mut samples: BTreeMap<usize, Vec<Sample>> = BTreeMap::new();
    let complete = answers(client, region, span, queries.collect(), PAGES_MAX, |place, more| {
        samples.entry(place).or_default().extend(more);
    })
    .await?;
    samples.retain(|place, _| complete.contains(place));
    // One that has no samples at all is answered too.
    for place in complete {
        samples.entry(place).or_default();
    }
    Ok(samples)
}
