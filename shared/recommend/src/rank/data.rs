//! Cost and shortest time of reading data from S3 once.

use jobs::transfer_usd_per_gb;
use model::id::Region;
use model::money::Amount;
use serde::Serialize;

use crate::{GpuOffer, network_gbps};

/// Highest rate at which one instance reads from S3 (Amazon S3 user guide, "Performance design patterns for Amazon S3").
pub const S3_GBPS_MAX: u32 = 100;

/// Number of vCPUs from which an instance reaches another region with half of its network; with fewer it has at most 5 Gbit/s (EC2 user
/// guide, "Amazon EC2 instance network bandwidth").
const LARGE_VCPUS: u32 = 32;
const SMALL_ELSEWHERE_GBPS: u32 = 5;

const BYTES_PER_GB: u64 = 1_000_000_000;

/// Place and size of the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DataPlace {
    pub region: Region,
    pub bytes: u64,
}

/// Cost of reading the data once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DataCost {
    /// Charge of the data's region for sending it to another region.
    #[serde(rename = "egress_usd")]
    pub egress: Amount,
    /// Shortest time at the network of the type and the rate of S3 for one instance; `None` if the network is unknown.
    pub load_seconds_least: Option<u64>,
}

impl DataCost {
    pub(crate) fn at(data: &DataPlace, offer: &GpuOffer) -> Self {
        let is_elsewhere = data.region != offer.region;
        let gb = data.bytes.div_ceil(BYTES_PER_GB);
        let usd_micros = transfer_usd_per_gb(&data.region, &offer.region).usd_micros().saturating_mul(gb);
        let egress = if is_elsewhere { Amount::from_usd_micros(usd_micros) } else { Amount::ZERO };
        let gbps = network_gbps(&offer.instance_type).map(|gbps| match offer.vcpus {
            Some(vcpus) if is_elsewhere && vcpus < LARGE_VCPUS => gbps.min(SMALL_ELSEWHERE_GBPS),
            _ if is_elsewhere => (gbps / 2).min(S3_GBPS_MAX),
            _ => gbps.min(S3_GBPS_MAX),
        });
        let seconds = |gbps: u32| {
            let bits = u128::from(data.bytes) * 8;
            let per_second = u128::from(gbps.max(1)) * u128::from(BYTES_PER_GB);
            u64::try_from(bits.div_ceil(per_second)).unwrap_or(u64::MAX)
        };
        Self { egress, load_seconds_least: gbps.map(seconds) }
    }
}
