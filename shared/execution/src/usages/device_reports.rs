//! Reports about devices, and the metrics that are published instead of them. Only the names of metrics are listed.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use model::config::{MetricsConfig, SeriesNames};
use model::id::{Region, ResourceId};
use model::instance::{Accelerator, Instance};
use model::usage::{DeviceReport, MetricSeries, SeriesOwners, devices};
use ports::{CallError, InstanceCloud};

/// Instances whose own series are looked up in one run of a region: one call each, and the advice for the others is general.
const LOOKUPS_MAX: usize = 50;
/// `ListMetrics` accepts 25 calls a second (`CloudWatch` user guide, "CloudWatch service quotas").
const LOOKUPS_AT_ONCE_MAX: usize = 4;

/// The report of an instance, to be explained.
pub(super) struct OpenReport<'a, 'r> {
    pub(super) instance: &'a Instance,
    pub(super) names: &'a SeriesNames,
    pub(super) report: &'r mut DeviceReport,
}

/// The devices of these instances of one region that reported within three hours or so. A kind without configured metrics has no report.
///
/// # Errors
/// If the metrics cannot be listed.
pub async fn device_reports(
    cloud: &impl InstanceCloud,
    region: &Region,
    instances: &[&Instance],
    metrics: &MetricsConfig,
) -> Result<BTreeMap<ResourceId, DeviceReport>, CallError> {
    let mut reports = BTreeMap::new();
    let mut unowned = BTreeMap::new();
    for accelerator in [Accelerator::Nvidia, Accelerator::Amd, Accelerator::Neuron] {
        let instances_of_kind: Vec<&Instance> =
            instances.iter().copied().filter(|one| one.machine.accelerator == accelerator).collect();
        let Some(names) = metrics.series_names(accelerator).filter(|_| !instances_of_kind.is_empty()) else { continue };
        let owners = SeriesOwners::among(instances_of_kind.iter().copied(), names);
        let listed = cloud.series(region, names, true, &owners).await?;
        unowned.insert(accelerator, unowned_of(&listed, &owners));
        let by_instance = devices(listed, &owners);
        for instance in instances_of_kind {
            let listed = by_instance.get(&instance.id).map(Vec::as_slice).unwrap_or_default();
            reports.insert(instance.id.clone(), DeviceReport::from_listed(instance, listed, names));
        }
    }
    let by_id: BTreeMap<&ResourceId, &Instance> = instances.iter().map(|one| (&one.id, *one)).collect();
    let open = reports.iter_mut().filter_map(|(id, report)| {
        let instance = by_id.get(id)?;
        Some(OpenReport { instance, names: metrics.series_names(instance.machine.accelerator)?, report })
    });
    match explain_reports(cloud, region, open, &unowned).await.pop() {
        Some(error) => Err(error),
        None => Ok(reports),
    }
}

/// The devices of these instances of one region that have a series of these names which reported within three hours or so.
///
/// # Errors
/// If the metrics cannot be listed.
pub async fn listed_devices(
    cloud: &impl InstanceCloud,
    region: &Region,
    instances: &[&Instance],
    names: &SeriesNames,
    name_of: impl Fn(&MetricSeries) -> String,
) -> Result<BTreeMap<ResourceId, BTreeSet<String>>, CallError> {
    let owners = SeriesOwners::among(instances.iter().copied(), names);
    let listed = devices(cloud.series(region, names, true, &owners).await?, &owners);
    Ok(listed.into_iter().map(|(id, series)| (id, series.iter().map(&name_of).collect())).collect())
}

/// The listed series that name no instance.
pub(super) fn unowned_of(listed: &BTreeSet<MetricSeries>, owners: &SeriesOwners<'_>) -> Vec<MetricSeries> {
    listed.iter().filter(|series| owners.is_unowned(series)).cloned().collect()
}

/// Adds to each report without a device what was found instead. Returns the calls that failed.
pub(super) async fn explain_reports<'a, 'r>(
    cloud: &impl InstanceCloud,
    region: &Region,
    reports: impl Iterator<Item = OpenReport<'a, 'r>>,
    unowned: &BTreeMap<Accelerator, Vec<MetricSeries>>,
) -> Vec<CallError> {
    let mut open: Vec<OpenReport<'a, 'r>> = reports.filter(|open| open.report.is_unexplained()).collect();
    for OpenReport { instance, names, report } in &mut open {
        let unowned = unowned.get(&instance.machine.accelerator).map(Vec::as_slice).unwrap_or_default();
        report.add_unowned(instance, unowned, names);
    }
    open.retain(|open| open.report.is_unexplained() && !open.names.instance_dimension.is_empty());
    open.truncate(LOOKUPS_MAX);
    let lookups = open.into_iter().map(|OpenReport { instance, names, report }| async move {
        let published = cloud.published(region, &names.instance_dimension, instance.id.as_str()).await?;
        report.add_other_metrics(&published, names);
        Ok(())
    });
    let results: Vec<Result<(), CallError>> =
        stream::iter(lookups).buffer_unordered(LOOKUPS_AT_ONCE_MAX).collect().await;
    results.into_iter().filter_map(Result::err).collect()
}
