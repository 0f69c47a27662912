//! Hourly load of the GPUs of running instances. `GetMetricData` bills by the metric: two for each GPU, $0.01 for 500 GPUs (Amazon
//! CloudWatch pricing, us-east-1, 2026-11).

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_cloudwatch::Client;
use jiff::{SignedDuration, Timestamp};
use model::config::SeriesNames;
use model::id::{Region, ResourceId};
use model::instance::Instance;
use model::moment::before;
use model::usage::{MetricSeries, Sample, SeriesOwners, Statistic, devices};
use plan::report::RunUsage;
use recommend::usage::DeviceSamples;

use crate::aws::Aws;
use crate::error::CallError;

use super::metric_data::{PeriodSpan, answers, query, series};

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Three weeks: two whole ones, and what a gap of some days leaves of them.
const LOOK_BACK: SignedDuration = SignedDuration::from_hours(21 * 24);

/// Queries of one call: 504 hours each are 100,800 data points (`CloudWatch` API reference, `GetMetricData`).
const QUERIES_MAX: usize = 200;
const PAGES_MAX: usize = 50;

/// The samples of each GPU of these instances of one region, which report by these names, in the last three weeks; and how many series were
/// left out because there are more than `series_max`. Needs `cloudwatch:ListMetrics` and `cloudwatch:GetMetricData`.
///
/// # Errors
/// If a call fails: what was seen in part is no evidence.
pub async fn usage_history(
    aws: &Aws,
    region: &Region,
    instances: &[&Instance],
    names: &SeriesNames,
    (now, series_max): (Timestamp, usize),
) -> Result<(BTreeMap<ResourceId, Vec<DeviceSamples>>, usize), CallError> {
    let client = aws.cloudwatch(region);
    let owners = SeriesOwners::among(instances.iter().copied(), names);
    let owned = devices(series(&client, region, names, false, &owners).await?, &owners);
    let mut all: Vec<(ResourceId, MetricSeries)> =
        owned.into_iter().flat_map(|(id, series)| series.into_iter().map(move |one| (id.clone(), one))).collect();
    let left_out = all.len().saturating_sub(series_max);
    all.truncate(series_max);
    let until = whole_hour(now);
    let span = PeriodSpan { from: before(until, LOOK_BACK), until };
    let mut found: BTreeMap<ResourceId, Vec<DeviceSamples>> = BTreeMap::new();
    for part in all.chunks(QUERIES_MAX / 2) {
        for (id, samples) in part_of_history((aws, &client), region, names, span, part).await? {
            found.entry(id).or_default().push(samples);
        }
    }
    Ok((found, left_out))
}

/// Utilisation and memory of each, in one call.
async fn part_of_history(
    (aws, client): (&Aws, &Client),
    region: &Region,
    names: &SeriesNames,
    span: PeriodSpan,
    part: &[(ResourceId, MetricSeries)],
) -> Result<Vec<(ResourceId, DeviceSamples)>, CallError> {
    let queries = part.iter().enumerate().flat_map(|(place, (_, device))| {
        let memory = MetricSeries { metric: names.memory_used_mib.clone(), ..device.clone() };
        let memory =
            (!names.memory_used_mib.is_empty()).then(|| query(2 * place + 1, &memory, Statistic::Maximum, HOUR));
        [Some(query(2 * place, device, Statistic::Maximum, HOUR)), memory].into_iter().flatten()
    });
    let queries: Vec<_> = queries.collect();
    let metrics = u64::try_from(queries.len()).unwrap_or(u64::MAX);
    aws.meter.add(RunUsage { metrics, ..RunUsage::default() });
    let mut samples: BTreeMap<usize, Vec<Sample>> = BTreeMap::new();
    let complete: BTreeSet<usize> = answers(client, region, span, queries, PAGES_MAX, |place, more| {
        samples.entry(place).or_default().extend(more);
    })
    .await?;
    let mut take = |place: usize| samples.remove(&place).filter(|_| complete.contains(&place)).unwrap_or_default();
    let device = |series: &MetricSeries| {
        let dimension = series.dimensions.iter().find(|(key, _)| *key == names.device_dimension);
        dimension.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    Ok(part
        .iter()
        .enumerate()
        .map(|(place, (id, series))| {
            let (utilization, memory_mib) = (take(2 * place), take(2 * place + 1));
            (id.clone(), DeviceSamples { device: device(series), utilization, memory_mib })
        })
        .collect())
}

fn whole_hour(now: Timestamp) -> Timestamp {
    let second = now.as_second();
    Timestamp::from_second(second.saturating_sub(second.rem_euclid(HOUR.as_secs()))).unwrap_or(now)
}
