//! Observing: regions, instances, volumes, and their use.

pub(crate) mod batch;
mod beats;
mod file_systems;
mod gpu_offers;
mod instances;
pub(crate) mod metric_data;
pub(crate) mod pages;
mod regions;
mod reservations;
pub(crate) mod signals;
mod storage;
mod usage_history;
#[cfg(test)]
mod usages_tests;
mod volume_use;

use std::time::Duration;

use aws_sdk_ec2::types::Filter;
use futures::future::join_all;
use model::id::Region;
use model::volume::SNAPSHOT_DESCRIPTION_BEGINS;

pub use file_systems::{file_system_samples, file_systems};
pub use gpu_offers::gpu_offers;
pub(crate) use instances::DESCRIBE_TYPES;
pub(crate) use instances::describe_instance_types;
pub use instances::instances;
pub use regions::regions;
pub use reservations::unused_reservations;
#[cfg(feature = "operator")]
pub(crate) use storage::own_snapshots;
pub use storage::storage;
#[cfg(feature = "operator")]
pub use storage::unattached;
pub use usage_history::usage_history;
pub use volume_use::volume_uses;

use crate::error::CallError;

/// The most values of a filter (EC2 user guide, "Filter resources").
pub(crate) const FILTER_VALUES_MAX: usize = 200;

/// Filter for the description of Curfew's own snapshots. Anybody may write the same description.
pub(crate) fn described_as_curfews() -> Filter {
    filter("description", [format!("{SNAPSHOT_DESCRIPTION_BEGINS}*").as_str()])
}

/// One look at each of these regions, all at once. Of a region that has not answered in full within `timeout` it is an error of `call`: the others
/// do not wait for it.
pub(crate) async fn look_at_each<T>(
    regions: &[Region],
    call: &'static str,
    timeout: Duration,
    look: impl AsyncFn(&Region) -> Result<T, CallError>,
) -> Vec<Result<T, CallError>> {
    let look = &look;
    let looks = regions.iter().map(|region| async move {
        let seen = tokio::time::timeout(timeout, look(region)).await;
        seen.unwrap_or_else(|_| Err(CallError::timed_out(call, region, timeout)))
    });
    join_all(looks).await
}

pub(crate) fn filter<'a>(name: &str, values: impl IntoIterator<Item = &'a str>) -> Filter {
    let values = values.into_iter().map(str::to_owned).collect();
    Filter::builder().name(name).set_values(Some(values)).build()
}
