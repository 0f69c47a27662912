//! Querying `CloudWatch`: the list of series, and their samples.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::types::{
    Dimension, DimensionFilter, Metric, MetricDataQuery, MetricDataResult, MetricStat, RecentlyActive, StatusCode,
};
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use model::config::SeriesNames;
use model::id::Region;
use model::instance::Instance;
use model::observation::Observation;
use model::usage::{MetricQuestion, MetricSeries, REJECTED_SERIES_MAX, Sample, SeriesOwners, Statistic};
use plan::report::RunUsage;
use ports::{Answered, InstanceCloud};

use super::batch::{QuestionBatch, batches};
use crate::aws::Aws;
use crate::convert::{date_time, timestamp};
use crate::error::{CallError, CallErrorKind, call_error};

pub(crate) const CALLS_AT_ONCE_MAX: usize = 4;
/// Pages of one `GetMetricData` call, which mostly answers in one.
const DATA_PAGES_MAX: usize = 50;
/// Pages of 500 series: half a million GPUs in one region.
const LIST_PAGES_MAX: usize = 1000;

pub(crate) const GET_METRIC_DATA: &str = "cloudwatch:GetMetricData";
const LIST_METRICS: &str = "cloudwatch:ListMetrics";

impl InstanceCloud for Aws {
    async fn instances(&self, regions: &[Region], timeout: Duration) -> Observation<Instance> {
        super::instances(self, regions, timeout).await
    }

    async fn metric_data(
        &self,
        region: &Region,
        questions: impl Iterator<Item = MetricQuestion>,
        until: Timestamp,
    ) -> Answered {
        let questions = questions.inspect(|_| self.meter.add(RunUsage { metrics: 1, ..RunUsage::default() }));
        let client = &self.cloudwatch(region);
        let calls = batches(questions, until).map(|batch| async move {
            let samples = ask_batch(client, region, &batch).await;
            (batch, samples)
        });
        let mut calls = stream::iter(calls).buffer_unordered(CALLS_AT_ONCE_MAX);
        let mut answered = Answered::default();
        while let Some((batch, samples)) = calls.next().await {
            match samples {
                Ok(samples) => take_answer(&mut answered, region, batch, samples),
                Err(error) => {
                    answered.missed.extend(batch.questions.into_iter().map(|question| question.instance));
                    answered.errors.push(error);
                }
            }
        }
        answered
    }

    async fn series(
        &self,
        region: &Region,
        names: &SeriesNames,
        of_late: bool,
        owners: &SeriesOwners<'_>,
    ) -> Result<BTreeSet<MetricSeries>, CallError> {
        series(&self.cloudwatch(region), region, names, of_late, owners).await
    }

    async fn published(&self, region: &Region, dimension: &str, value: &str) -> Result<Vec<MetricSeries>, CallError> {
        // The first page has 500 series, and an instance has fewer.
        let filter = DimensionFilter::builder().name(dimension).value(value).build();
        let call = self.cloudwatch(region).list_metrics().dimensions(filter).recently_active(RecentlyActive::Pt3H);
        let page = call.send().await.map_err(|error| call_error(LIST_METRICS, region, &error))?;
        Ok(page.metrics().iter().filter_map(series_of).collect())
    }
}

fn take_answer(
    answered: &mut Answered,
    region: &Region,
    batch: QuestionBatch,
    mut samples: BTreeMap<usize, Vec<Sample>>,
) {
    let asked = batch.questions.len();
    let mut unanswered = 0;
    for (place, question) in batch.questions.into_iter().enumerate() {
        if let Some(samples) = samples.remove(&place) {
            answered.answers.entry(question.instance).or_default().insert(question.signal, samples);
        } else {
            unanswered += 1;
            answered.missed.insert(question.instance);
        }
    }
    answered.errors.extend(not_in_full(region, unanswered, asked));
}

/// The gap if so many of the requested series were not answered in full.
pub(crate) fn not_in_full(region: &Region, unanswered: usize, asked: usize) -> Option<CallError> {
    let message = format!("{unanswered} of {asked} series were not answered in full");
    (unanswered > 0).then(|| CallError::new(GET_METRIC_DATA, region, CallErrorKind::Incomplete, message))
}

/// The samples of the queries that were answered in full, by their place in the batch.
async fn ask_batch(
    client: &Client,
    region: &Region,
    batch: &QuestionBatch,
) -> Result<BTreeMap<usize, Vec<Sample>>, CallError> {
    let queries = batch.questions.iter().enumerate();
    let queries = queries.map(|(place, question)| query(place, &question.series, question.statistic, question.period));
    let span = PeriodSpan { from: batch.from, until: batch.until };
    let mut samples: BTreeMap<usize, Vec<Sample>> = BTreeMap::new();
    let complete = answers(client, region, span, queries.collect(), DATA_PAGES_MAX, |place, more| {
        samples.entry(place).or_default().extend(more);
    })
    .await?;
    samples.retain(|place, _| complete.contains(place));
    Ok(samples)
}

/// Span from the start of one period to the end of another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeriodSpan {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

/// Sends one call, page by page, and passes `send_each` the samples of a query by its place, some at a time. Returns the places of the
/// queries that were answered in full.
pub(crate) async fn answers(
    client: &Client,
    region: &Region,
    span: PeriodSpan,
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
        let page = page.map_err(|error| call_error(GET_METRIC_DATA, region, &error))?;
        for result in page.metric_data_results() {
            if let Some(place) = place_of(result) {
                each(place, &mut samples_of(result));
                // A series that continues in the next page is `PartialData` in this one.
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
pub(crate) fn query(
    place: usize,
    series: &MetricSeries,
    statistic: Statistic,
    period: SignedDuration,
) -> MetricDataQuery {
    let statistic = match statistic {
        Statistic::Average => "Average",
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

/// Every series of this metric with an owner, and some that name no instance, once, in order; with `of_late` only those that reported within about three hours:
/// `RecentlyActive` is approximate by 50 minutes (`CloudWatch` API reference, `ListMetrics`).
pub(crate) async fn series(
    client: &Client,
    region: &Region,
    names: &SeriesNames,
    of_late: bool,
    owners: &SeriesOwners<'_>,
) -> Result<BTreeSet<MetricSeries>, CallError> {
    let mut pages = client
        .list_metrics()
        .namespace(&names.namespace)
        .metric_name(&names.utilization)
        .set_recently_active(of_late.then_some(RecentlyActive::Pt3H))
        .into_paginator()
        .send();
    let (mut found, mut unowned) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..LIST_PAGES_MAX {
        let Some(page) = pages.next().await else {
            found.extend(unowned);
            return Ok(found);
        };
        let page = page.map_err(|error| call_error(LIST_METRICS, region, &error))?;
        // Most belong to machines that are known to work: kept, they would take more memory than everything else.
        let is_asked =
            |series: &MetricSeries| series.namespace == names.namespace && series.metric == names.utilization;
        for series in page.metrics().iter().filter_map(series_of).filter(is_asked) {
            if owners.owner_of(&series).is_some() {
                found.insert(series);
            } else if unowned.len() < REJECTED_SERIES_MAX && owners.is_unowned(&series) {
                unowned.insert(series);
            }
        }
    }
    Err(too_many_pages(LIST_METRICS, region, LIST_PAGES_MAX))
}

fn series_of(metric: &Metric) -> Option<MetricSeries> {
    let dimensions = metric.dimensions().iter();
    Some(MetricSeries {
        namespace: metric.namespace()?.to_owned(),
        metric: metric.metric_name()?.to_owned(),
        dimensions: dimensions
            .map(|dimension| Some((dimension.name()?.to_owned(), dimension.value()?.to_owned())))
            .collect::<Option<_>>()?,
    })
}

fn too_many_pages(call: &'static str, region: &Region, pages: usize) -> CallError {
    let message = format!("more than {pages} pages: more than any account should have");
    CallError::new(call, region, CallErrorKind::Other, message)
}
