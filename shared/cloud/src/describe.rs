//! `DescribeInstances`, `DescribeVolumes`, `DescribeSnapshots`: the fields that decisions need.
//!
//! The SDK decodes each field of each resource, which took most of a run's CPU time, and it accepts a truncated answer as a shorter one:
//! volumes would seem to be gone. So this module replaces its decoding of good answers to these calls. Signing, retries, timeouts and
//! errors stay the SDK's.

mod capacity_reservations;
mod document;
#[cfg(test)]
mod generate;
mod instances;
mod reading;
mod snapshots;
mod volumes;

use std::borrow::Cow;

pub(crate) use capacity_reservations::{DESCRIBE_RESERVATIONS, active_reservations};
#[cfg(feature = "operator")]
pub(crate) use document::XmlElement;
pub(crate) use instances::{DESCRIBE_INSTANCES, LaunchNames, page};
pub(crate) use snapshots::snapshot;
pub(crate) use snapshots::{DESCRIBE_SNAPSHOTS, snapshots_page};
pub(crate) use volumes::volume;
pub(crate) use volumes::{DESCRIBE_VOLUMES, volumes_page};

/// EC2 user guide, "Amazon EC2 managed instances": the service that manages a resource, if any.
fn manager(managed: Option<bool>, principal: Option<Cow<'_, str>>) -> Option<String> {
    (managed == Some(true)).then(|| principal.map_or_else(|| "an AWS service".to_owned(), Cow::into_owned))
}

fn whole(number: Option<i32>) -> Option<u64> {
    number.and_then(|number| u64::try_from(number).ok())
}
