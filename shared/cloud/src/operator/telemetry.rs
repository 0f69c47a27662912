//! Which instances report their GPUs. It lists only the names of metrics, which costs nothing.

use std::collections::BTreeMap;

use model::config::MetricsConfig;
use model::id::{Region, ResourceId};
use model::instance::{Accelerator, Instance};
use model::usage::{MetricSeries, SeriesOwners, devices};

use crate::aws::Aws;
use crate::error::CallError;
use crate::observe::metric_data::series;

/// The utilisation series of these instances of one region, of those that reported within three hours or so. Needs
/// `cloudwatch:ListMetrics`.
///
/// # Errors
/// If they cannot be listed.
pub async fn reporting(
    aws: &Aws,
    region: &Region,
    instances: &[&Instance],
    metrics: &MetricsConfig,
) -> Result<BTreeMap<ResourceId, Vec<MetricSeries>>, CallError> {
    let client = aws.cloudwatch(region);
    let mut found = BTreeMap::new();
    for accelerator in [Accelerator::Nvidia, Accelerator::Amd, Accelerator::Neuron] {
        let of_kind = instances.iter().copied().filter(|one| one.machine.accelerator == accelerator);
        let Some(names) = metrics.series_names(accelerator).filter(|_| of_kind.clone().next().is_some()) else {
            continue;
        };
        let owners = SeriesOwners::among(of_kind, names);
        found.extend(devices(series(&client, region, names, true, &owners).await?, &owners));
    }
    Ok(found)
}
