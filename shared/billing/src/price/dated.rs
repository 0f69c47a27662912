//! The tables that come with Curfew: a fallback, of the day that they name, where no live price is known.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use model::id::{Region, TypeName};
use model::money::Rate;

use super::storage::StoragePrices;

/// The day of the table of instances.
pub(super) const OF_INSTANCES: &str = "2026-09-24";

/// The day of the table of volumes.
pub(super) const OF_VOLUMES: &str = "2026-09-30";

/// AWS Price List, on-demand, Linux, shared hardware, as of 2026-09-24: region, type, micro-USD per hour.
const ON_DEMAND: [(&str, &str, u64); 19] = [
    ("us-east-1", "g4dn.xlarge", 526_000),
    ("us-east-1", "g4dn.12xlarge", 3_912_000),
    ("us-east-1", "g5.xlarge", 1_006_000),
    ("us-east-1", "g5.12xlarge", 5_672_000),
    ("us-east-1", "g5.48xlarge", 16_288_000),
    ("us-east-1", "g6.xlarge", 804_800),
    ("us-east-1", "g6.12xlarge", 4_601_600),
    ("us-east-1", "g6.48xlarge", 13_350_400),
    ("us-east-1", "g6e.xlarge", 1_861_000),
    ("us-east-1", "g6e.12xlarge", 10_492_640),
    ("us-east-1", "g6e.48xlarge", 30_131_180),
    ("us-east-1", "p4d.24xlarge", 21_957_642),
    ("us-east-1", "p4de.24xlarge", 27_447_050),
    ("us-east-1", "p5.48xlarge", 55_040_000),
    ("us-east-1", "p5en.48xlarge", 63_296_000),
    ("us-east-1", "inf2.xlarge", 758_200),
    ("us-east-1", "trn1.32xlarge", 21_500_000),
    ("us-east-2", "p6-b200.48xlarge", 113_932_800),
    ("us-east-2", "g7e.24xlarge", 16_572_160),
];

/// AWS Price List (`EBS:VolumeUsage*`) of us-east-1, as of 2026-09-30: type, micro-USD per GiB and month. What magnetic
/// volumes (`standard`) cost by the request is not in it: one that nothing runs on makes none.
const EBS_GIB_MONTH: [(&str, u64); 7] = [
    ("gp3", 80_000),
    ("gp2", 100_000),
    ("io1", 125_000),
    ("io2", 125_000),
    ("st1", 45_000),
    ("sc1", 15_000),
    ("standard", 50_000),
];

/// AWS Price List (`EBS:VolumeP-IOPS.*`) of us-east-1, of the same day, for provisioned performance: micro-USD per IOPS and month.
const EBS_IOPS_MONTH: [(&str, u64); 5] =
    [("gp3", 5_000), ("piops", 65_000), ("io2", 65_000), ("io2.tier2", 45_500), ("io2.tier3", 31_850)];

/// AWS Price List (`EBS:VolumeP-Throughput.gp3`) of us-east-1, of the same day: micro-USD per GiB/s and month, which is $0.04 per MiB/s.
const EBS_GIBPS_MONTH: u64 = 40_960_000;

/// The region of the tables of volumes.
const EBS_REGION: &str = "us-east-1";

/// The beginning of a table's day, UTC.
pub(super) fn midnight(of: &str) -> Option<Timestamp> {
    of.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp())
}

/// Returns the on-demand price of an instance in the table.
pub(super) fn on_demand(region: &Region, instance_type: &TypeName) -> Option<Rate> {
    let is_it = |(of, name, _): &&(&str, &str, u64)| *of == region.as_str() && *name == instance_type.as_str();
    ON_DEMAND.iter().find(is_it).map(|(_, _, usd_micros)| Rate::from_usd_micros_per_hour(*usd_micros))
}

/// The regions whose instances the table has.
pub(super) fn regions() -> BTreeSet<Region> {
    ON_DEMAND.iter().map(|(region, ..)| Region::from(*region)).collect()
}

/// Returns the storage prices of a region in the table.
pub(super) fn storage(region: &Region) -> Option<StoragePrices> {
    let named = |prices: &[(&str, u64)]| -> BTreeMap<String, u64> {
        prices.iter().map(|(name, usd_micros)| ((*name).to_owned(), *usd_micros)).collect()
    };
    (region.as_str() == EBS_REGION).then(|| StoragePrices {
        gib_month: named(&EBS_GIB_MONTH),
        iops_month: named(&EBS_IOPS_MONTH),
        gibps_month: Some(EBS_GIBPS_MONTH),
    })
}
