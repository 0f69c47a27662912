//! Prices of EBS volumes: their size, and the performance that is provisioned beyond the included part.

use std::collections::BTreeMap;

use model::id::Region;
use model::money::Rate;
use serde::{Deserialize, Serialize};

/// `gp3`: what comes with the size (EBS user guide, "General Purpose SSD volumes").
const GP3_IOPS_FREE: u64 = 3_000;
const GP3_MIBPS_FREE: u64 = 125;

const MIB_PER_GIB: u64 = 1_024;

/// `io2`: up to how many IOPS each price holds, by the end of its usage type (`EBS:VolumeP-IOPS.*`).
const IO2_TIERS: [(u64, &str); 3] = [(32_000, "io2"), (64_000, "io2.tier2"), (u64::MAX, "io2.tier3")];

/// The prices of one region, in micro-USD per month.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StoragePrices {
    /// Price of each GiB, by type (`volumeApiName`), such as `gp3`.
    #[serde(default)]
    pub gib_month: BTreeMap<String, u64>,
    /// Price of each provisioned IOPS, by the end of the usage type: `gp3`, `piops` (which is `io1`), `io2`, `io2.tier2`, `io2.tier3`.
    #[serde(default)]
    pub iops_month: BTreeMap<String, u64>,
    /// Price of each GiB/s (1,024 MiB/s) of `gp3` beyond the included part.
    #[serde(default)]
    pub gibps_month: Option<u64>,
}

/// Properties of a volume that set its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeShape<'a> {
    pub volume_type: &'a str,
    /// Its size in GiB.
    pub size_gib: u64,
    /// I/O operations per second, where EC2 names any.
    pub iops: Option<u64>,
    /// MiB per second, where EC2 names any.
    pub throughput_mibps: Option<u64>,
}

impl StoragePrices {
    /// Returns the rate of such a volume; `None` if one of its prices is not known.
    #[must_use]
    pub fn volume_rate(&self, made: VolumeShape<'_>) -> Option<Rate> {
        let VolumeShape { volume_type, size_gib, iops, throughput_mibps } = made;
        let size = size_gib.checked_mul(*self.gib_month.get(volume_type)?)?;
        let provisioned = match volume_type {
            // Without a value nothing is provisioned beyond the included part.
            "gp3" => {
                let iops = self.iops(iops.unwrap_or_default().saturating_sub(GP3_IOPS_FREE), "gp3")?;
                let mibps = throughput_mibps.unwrap_or_default().saturating_sub(GP3_MIBPS_FREE);
                iops.checked_add(self.throughput(mibps)?)?
            }
            "io1" => self.iops(iops?, "piops")?,
            "io2" => self.io2(iops?)?,
            // Performance comes with the size, and is not provisioned.
            "gp2" | "st1" | "sc1" | "standard" => 0,
            // A later volume type may have provisioned figures that this code does not know.
            _ => return None,
        };
        Some(Rate::from_usd_micros_per_month(size.checked_add(provisioned)?))
    }

    /// Returns the price of provisioned IOPS. Zero IOPS cost nothing, whatever the price.
    fn iops(&self, iops: u64, price: &str) -> Option<u64> {
        if iops == 0 {
            return Some(0);
        }
        iops.checked_mul(*self.iops_month.get(price)?)
    }

    fn throughput(&self, mibps: u64) -> Option<u64> {
        if mibps == 0 {
            return Some(0);
        }
        Some(mibps.checked_mul(self.gibps_month?)?.div_ceil(MIB_PER_GIB))
    }

    /// Each tier's price is for the IOPS within the tier.
    fn io2(&self, iops: u64) -> Option<u64> {
        let mut total: u64 = 0;
        let mut below = 0;
        for (up_to, price) in IO2_TIERS {
            total = total.checked_add(self.iops(iops.min(up_to).saturating_sub(below), price)?)?;
            below = up_to;
        }
        Some(total)
    }
}

/// Returns `true` if the name of the zone is its region and a letter. Local Zones and Wavelength Zones (`us-east-1-bos-1a`) belong to the
/// region too, at prices of their own (EC2 user guide, "Regions and Zones").
pub(super) fn in_a_zone_of_the_region(region: &Region, zone: &str) -> bool {
    zone.strip_prefix(region.as_str())
        .is_some_and(|letter| letter.len() == 1 && letter.bytes().all(|byte| byte.is_ascii_lowercase()))
}
