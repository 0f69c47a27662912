//! Asking `CloudWatch`: which series there are, and what they say.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::types::{
    Dimension, Metric, MetricDataQuery, MetricDataResult, MetricStat, RecentlyActive, StatusCode,
};
use domain::config::SeriesNames;
use domain::id::{Region, ResourceId};
use domain::usage::{Answers, Owners, PERIOD, Question, Sample, Series, Statistic};
use futures::StreamExt;
use futures::stream;
use jiff::{SignedDuration, Timestamp};

use super::batch::{Batch, batches};
use crate::convert::{date_time, timestamp};
use crate::error::{CallError, CallErrorKind};

pub(super) const CALLS_AT_ONCE_MAX: usize = 4;
/// Of one `GetMetricData` call, which mostly answers in one.
const DATA_PAGES_MAX: usize = 50;
/// Of 500 series each: half a million GPUs in one region.
const LIST_PAGES_MAX: usize = 1000;

pub(super) const GET_METRIC_DATA: &str = "cloudwatch:GetMetricData";
const LIST_METRICS: &str = "cloudwatch:ListMetrics";

/// What was answered, and whose questions were not.
#[derive(Debug, Default)]
pub(super) struct Answered {
    /// A signal that was asked for and has no samples has an empty entry.
    pub(super) answers: Answers,
    /// Of these at least one question was not answered in full.
    pub(super) missed: BTreeSet<ResourceId>,
    /// Why, once for each call.
    pub(super) errors: Vec<CallError>,
}

/// Puts all questions, some calls at a time.
pub(super) async fn ask(
    client: &Client,
    region: &Region,
    questions: impl Iterator<Item = Question>,
    until: Timestamp,
) -> Answered {
    let calls = batches(questions, until).map(|batch| async move {
        let samples = ask_batch(client, region, &batch).await;
        (batch, samples)
    });
    let mut calls = stream::iter(calls).buffer_unordered(CALLS_AT_ONCE_MAX);
    let mut answered = Answered::default();
    while let Some((batch, samples)) = calls.next().await {
        match samples {
            Ok(samples) => answered.take(region, batch, samples),
            Err(error) => {
                answered.missed.extend(batch.questions.into_iter().map(|question| question.instance));
                answered.errors.push(error);
            }
        }
    }
    answered
}

impl Answered {
    fn take(&mut self, region: &Region, batch: Batch, mut samples: BTreeMap<usize, Vec<Sample>>) {
        let asked = batch.questions.len();
        let mut unanswered = 0;
        for (place, question) in batch.questions.into_iter().enumerate() {
            if let Some(samples) = samples.remove(&place) {
                self.answers.entry(question.instance).or_default().insert(question.signal, samples);
            } else {
                unanswered += 1;
                self.missed.insert(question.instance);
            }
        }
        self.errors.extend(not_in_full(region, unanswered, asked));
    }
}

/// What there is to say where so many of the series asked for were not answered in full.
pub(super) fn not_in_full(region: &Region, unanswered: usize, asked: usize) -> Option<CallError> {
    let message = format!("{unanswered} of {asked} series were not answered in full; the next run asks again");
    let (region, kind) = (region.clone(), CallErrorKind::Other);
    (unanswered > 0).then_some(CallError { call: GET_METRIC_DATA, region, kind, message })
}

/// The samples of those questions, by their place in the batch, that were answered in full.
async fn ask_batch(client: &Client, region: &Region, batch: &Batch) -> Result<BTreeMap<usize, Vec<Sample>>, CallError> {
    let queries = batch.questions.iter().enumerate();
    let queries = queries.map(|(place, question)| query(place, &question.series, question.statistic, PERIOD));
    let span = Span { from: batch.from, until: batch.until };
    let mut samples: BTreeMap<usize, Vec<Sample>> = BTreeMap::new();
    let complete = answers(client, region, span, queries.collect(), DATA_PAGES_MAX, |place, more| {
        samples.entry(place).or_default().extend(more);
    })
    .await?;
    samples.retain(|place, _| complete.contains(place));
    Ok(samples)
}

/// From the start of one period to the end of another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

/// Puts one call, page by page, and hands `each` the samples of a query by its place, some at a time. The places of those
/// queries that were answered in full.
pub(super) async fn answers(
    client: &Client,
    region: &Region,
    span: Span,
    queries: Vec<MetricDataQuery>,
    pages_max: usize,
    mut each: impl FnMut(usize, &mut dyn Iterator<Item = Sample>),
) -> Result<BTreeSet<usize>, CallError> {
    let mut pages = client
        .get_metric_data()
        .start_time(date_time(span.from))
        .end_time(date_time(span.until))
        .set_metric_data_queries(Some(queries))
        .into_paginator()
        .send();
    let mut complete: BTreeSet<usize> = BTreeSet::new();
    for _ in 0..pages_max {
        let Some(page) = pages.next().await else {
            return Ok(complete);
        };
        let page = page.map_err(|error| CallError::of(GET_METRIC_DATA, region, &error))?;
        for result in page.metric_data_results() {
            if let Some(place) = place_of(result) {
                each(place, &mut samples_of(result));
                // A series that goes on in the next page is `PartialData` in this one.
                if result.status_code == Some(StatusCode::Complete) {
                    complete.insert(place);
                } else {
                    complete.remove(&place);
                }
            }
        }
    }
    Err(too_many_pages(GET_METRIC_DATA, region, pages_max))
}

/// Ids begin with a lowercase letter (`CloudWatch` API reference, `MetricDataQuery`).
pub(super) fn query(place: usize, series: &Series, statistic: Statistic, period: SignedDuration) -> MetricDataQuery {
    let statistic = match statistic {
        Statistic::Maximum => "Maximum",
        Statistic::Sum => "Sum",
    };
    let dimensions = series.dimensions.iter();
    let dimensions = dimensions.map(|(name, value)| Dimension::builder().name(name).value(value).build()).collect();
    let metric = Metric::builder()
        .namespace(&series.namespace)
        .metric_name(&series.metric)
        .set_dimensions(Some(dimensions))
        .build();
    let period = i32::try_from(period.as_secs()).unwrap_or(i32::MAX);
    let stat = MetricStat::builder().metric(metric).period(period).stat(statistic).build();
    MetricDataQuery::builder().id(format!("q{place}")).metric_stat(stat).return_data(true).build()
}

fn place_of(result: &MetricDataResult) -> Option<usize> {
    result.id()?.strip_prefix('q')?.parse().ok()
}

fn samples_of(result: &MetricDataResult) -> impl Iterator<Item = Sample> {
    let times = result.timestamps().iter().map(timestamp);
    times.zip(result.values()).filter_map(|(at, value)| Some((at?, *value)))
}

/// Every series of this metric that somebody owns, once, in order; with `of_late` only those that reported within three hours or so: `RecentlyActive` is
/// approximate by 50 minutes (`CloudWatch` API reference, `ListMetrics`).
pub(crate) async fn series(
    client: &Client,
    region: &Region,
    names: &SeriesNames,
    of_late: bool,
    owners: &Owners<'_>,
) -> Result<BTreeSet<Series>, CallError> {
    let mut pages = client
        .list_metrics()
        .namespace(&names.namespace)
        .metric_name(&names.utilization)
        .set_recently_active(of_late.then_some(RecentlyActive::Pt3H))
        .into_paginator()
        .send();
    let mut found = BTreeSet::new();
    for _ in 0..LIST_PAGES_MAX {
        let Some(page) = pages.next().await else {
            return Ok(found);
        };
        let page = page.map_err(|error| CallError::of(LIST_METRICS, region, &error))?;
        // Most are of machines that are known to be at work: kept, they would take more room than all else.
        found.extend(page.metrics().iter().filter_map(series_of).filter(|series| owners.of(series).is_some()));
    }
    Err(too_many_pages(LIST_METRICS, region, LIST_PAGES_MAX))
}

fn series_of(metric: &Metric) -> Option<Series> {
    let dimensions = metric.dimensions().iter();
    Some(Series {
        namespace: metric.namespace()?.to_owned(),
        metric: metric.metric_name()?.to_owned(),
        dimensions: dimensions
            .map(|dimension| Some((dimension.name()?.to_owned(), dimension.value()?.to_owned())))
            .collect::<Option<_>>()?,
    })
}

fn too_many_pages(call: &'static str, region: &Region, pages: usize) -> CallError {
    let message = format!("more than {pages} pages, which nobody has foreseen");
    CallError { call, region: region.clone(), kind: CallErrorKind::Other, message }
}
