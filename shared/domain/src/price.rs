//! What instances and volumes cost: dated tables of on-demand prices, and the place for live ones.

use std::collections::BTreeMap;

use crate::id::{Region, TypeName};
use crate::instance::{Instance, Purchase};
use crate::money::Rate;
use crate::volume::{Origin, Volume};

/// AWS Price List, on-demand, Linux, shared hardware, as of 2026-09-24: region, type, micro-USD per hour.
const ON_DEMAND_2026_09_24: [(&str, &str, u64); 19] = [
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
const EBS_GIB_MONTH_2026_09_30: [(&str, u64); 7] = [
    ("gp3", 80_000),
    ("gp2", 100_000),
    ("io1", 125_000),
    ("io2", 125_000),
    ("st1", 45_000),
    ("sc1", 15_000),
    ("standard", 50_000),
];

/// The region of the table above and of the prices below.
const EBS_REGION: &str = "us-east-1";

/// `gp3`: what comes with the size (EBS user guide, "General Purpose SSD volumes"), and micro-USD per month for each
/// IOPS (`EBS:VolumeP-IOPS.gp3`) and each MiB/s (`EBS:VolumeP-Throughput.gp3`) above it.
const GP3_IOPS_FREE: u64 = 3_000;
const GP3_IOPS_MONTH: u64 = 5_000;
const GP3_MIBPS_FREE: u64 = 125;
const GP3_MIBPS_MONTH: u64 = 40_000;

/// `io1`: micro-USD per month for each IOPS (`EBS:VolumeP-IOPS.piops`).
const IO1_IOPS_MONTH: u64 = 65_000;

/// `io2`: up to how many IOPS, and micro-USD per month for each of them (`EBS:VolumeP-IOPS.io2`, `.tier2`, `.tier3`).
const IO2_IOPS_MONTH: [(u64, u64); 3] = [(32_000, 65_000), (64_000, 45_500), (u64::MAX, 31_850)];

/// Prices by region and type.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceBook {
    on_demand: BTreeMap<(Region, TypeName), Rate>,
}

impl PriceBook {
    /// The table that comes with Curfew.
    #[must_use]
    pub fn dated() -> Self {
        let on_demand = ON_DEMAND_2026_09_24
            .into_iter()
            .map(|(region, name, usd_micros)| {
                ((region.into(), name.into()), Rate::from_usd_micros_per_hour(usd_micros))
            })
            .collect();
        Self { on_demand }
    }

    /// What ending an instance saves; `None` where the price is not known, which is never guessed: neither of another
    /// region, nor of Spot from on-demand.
    #[must_use]
    pub fn saved_by_ending(&self, instance: &Instance) -> Option<Rate> {
        if instance.prepaid.is_some() || instance.purchase == Purchase::CapacityBlock {
            return Some(Rate::ZERO);
        }
        if instance.purchase != Purchase::OnDemand || !instance.plain_linux {
            return None;
        }
        self.on_demand.get(&(instance.region.clone(), instance.instance_type.clone())).copied()
    }

    /// What a volume costs as long as it exists, attached or not: its size, and what is provisioned beyond what comes with
    /// it. `None` where the price is not known, which is never guessed: neither of another region nor of a Local Zone,
    /// and not where EC2 does not say what is provisioned.
    #[must_use]
    pub fn of_volume(&self, volume: &Volume) -> Option<Rate> {
        let Volume { region, zone, volume_type, size_gib, iops, throughput_mibps, .. } = volume;
        of_storage(region, zone, volume_type, *size_gib, *iops, *throughput_mibps)
    }

    /// What a volume costs that is made as this says; `None` as in [`PriceBook::of_volume`].
    #[must_use]
    pub fn of_origin(&self, region: &Region, origin: &Origin) -> Option<Rate> {
        let (iops, throughput_mibps) = (origin.provisioned_iops(), origin.provisioned_throughput_mibps());
        of_storage(region, &origin.zone, &origin.volume_type, origin.size_gib, iops, throughput_mibps)
    }
}

fn of_storage(
    region: &Region,
    zone: &str,
    kind: &str,
    size_gib: u64,
    iops: Option<u64>,
    throughput_mibps: Option<u64>,
) -> Option<Rate> {
    if region.as_str() != EBS_REGION || !in_a_zone_of_the_region(region, zone) {
        return None;
    }
    let (_, gib_month) = EBS_GIB_MONTH_2026_09_30.into_iter().find(|(name, _)| *name == kind)?;
    let size = size_gib.checked_mul(gib_month)?;
    let provisioned = match kind {
        // Where nothing is said, nothing is provisioned beyond what comes with it.
        "gp3" => beyond(iops.unwrap_or_default(), GP3_IOPS_FREE, GP3_IOPS_MONTH)?.checked_add(beyond(
            throughput_mibps.unwrap_or_default(),
            GP3_MIBPS_FREE,
            GP3_MIBPS_MONTH,
        )?)?,
        "io1" => iops?.checked_mul(IO1_IOPS_MONTH)?,
        "io2" => io2_iops(iops?)?,
        // Performance comes with the size, and is not provisioned.
        _ => 0,
    };
    Some(Rate::from_usd_micros_per_month(size.checked_add(provisioned)?))
}

/// Whether the zone is called by its region and a letter. Local Zones and Wavelength Zones (`us-east-1-bos-1a`) belong to
/// the region too, at prices of their own (EC2 user guide, "Regions and Zones").
fn in_a_zone_of_the_region(region: &Region, zone: &str) -> bool {
    zone.strip_prefix(region.as_str())
        .is_some_and(|letter| letter.len() == 1 && letter.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Micro-USD per month for what is above the free part.
fn beyond(provisioned: u64, free: u64, each: u64) -> Option<u64> {
    provisioned.saturating_sub(free).checked_mul(each)
}

/// Micro-USD per month for the IOPS of an `io2` volume: each tier's price is for the IOPS within the tier.
fn io2_iops(iops: u64) -> Option<u64> {
    let mut total: u64 = 0;
    let mut below = 0;
    for (up_to, each) in IO2_IOPS_MONTH {
        total = total.checked_add(beyond(iops.min(up_to), below, each)?)?;
        below = up_to;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use crate::fixture::{instance, time};
    use crate::instance::Prepaid;
    use crate::money;
    use crate::volume::VolumeState;

    #[test]
    fn a_price_is_known_or_not_but_never_guessed() {
        let book = PriceBook::dated();
        let usd = |instance: Instance| book.saved_by_ending(&instance).map(Rate::usd_per_hour);
        assert_eq!(usd(instance().of_type("p5.48xlarge").build()), Some(55.04));
        assert_eq!(usd(instance().of_type("p5.48xlarge").region("eu-west-1").build()), None);
        assert_eq!(usd(instance().of_type("p9.48xlarge").build()), None);
        assert_eq!(usd(instance().of_type("p5.48xlarge").purchase(Purchase::SpotOneTime).build()), None);
        assert_eq!(usd(instance().of_type("p5.48xlarge").prepaid(Prepaid::CapacityReservation).build()), Some(0.0));
    }

    /// A gp3 volume of 100 GiB as it comes.
    fn gp3() -> Volume {
        Volume {
            id: "vol-0abc".into(),
            region: "us-east-1".into(),
            zone: "us-east-1a".to_owned(),
            volume_type: "gp3".to_owned(),
            size_gib: 100,
            iops: Some(3_000),
            throughput_mibps: Some(125),
            state: VolumeState::Available,
            attached_to: Vec::new(),
            multi_attach: false,
            created_at: time("2026-08-01T12:00:00Z"),
            tags: BTreeMap::new(),
            from_snapshot: None,
            operator: None,
        }
    }

    fn of_type(volume_type: &str, size_gib: u64, iops: Option<u64>) -> Volume {
        Volume { volume_type: volume_type.to_owned(), size_gib, iops, throughput_mibps: None, ..gp3() }
    }

    fn a_month(volume: Volume) -> String {
        money::show_monthly(PriceBook::dated().of_volume(&volume))
    }

    #[test]
    fn a_volume_costs_its_size() {
        assert_eq!(a_month(gp3()), "$8.00 a month");
        assert_eq!(a_month(Volume { size_gib: 1, ..gp3() }), "$0.08 a month");
        assert_eq!(a_month(of_type("gp2", 16_384, Some(16_000))), "$1,638.40 a month");
        assert_eq!(a_month(of_type("st1", 500, None)), "$22.50 a month");
        assert_eq!(a_month(of_type("sc1", 125, None)), "$1.88 a month");
        assert_eq!(a_month(of_type("standard", 20, None)), "$1.00 a month");
    }

    #[test]
    fn a_volume_costs_what_is_provisioned_beyond_the_free_part() {
        assert_eq!(a_month(Volume { iops: Some(4_000), ..gp3() }), "$13.00 a month");
        assert_eq!(a_month(Volume { throughput_mibps: Some(1_000), ..gp3() }), "$43.00 a month");
        assert_eq!(a_month(Volume { iops: Some(16_000), throughput_mibps: Some(1_000), ..gp3() }), "$108.00 a month");
        assert_eq!(a_month(of_type("io1", 30, Some(300))), "$23.25 a month");
        assert_eq!(a_month(Volume { iops: None, throughput_mibps: None, ..gp3() }), a_month(gp3()));
    }

    #[test]
    fn the_iops_of_io2_cost_less_in_each_tier() {
        let iops = |iops| a_month(of_type("io2", 1_000, Some(iops)));
        assert_eq!(iops(100), "$131.50 a month");
        assert_eq!(iops(32_000), "$2,205.00 a month");
        assert_eq!(iops(32_002), "$2,205.09 a month");
        assert_eq!(iops(64_000), "$3,661.00 a month");
        assert_eq!(iops(64_020), "$3,661.64 a month");
        assert_eq!(iops(256_000), "$9,776.20 a month");
    }

    #[test]
    fn the_price_of_a_volume_is_known_or_not_but_never_guessed() {
        let unknown = "price unknown";
        assert_eq!(a_month(Volume { region: "us-east-2".into(), zone: "us-east-2a".to_owned(), ..gp3() }), unknown);
        assert_eq!(a_month(Volume { zone: "us-east-1-bos-1a".to_owned(), ..gp3() }), unknown);
        assert_eq!(a_month(Volume { zone: "us-east-1-wl1-bos-wlz-1".to_owned(), ..gp3() }), unknown);
        assert_eq!(a_month(Volume { zone: String::new(), ..gp3() }), unknown);
        assert_eq!(a_month(of_type("gp4", 100, Some(3_000))), unknown);
        assert_eq!(a_month(of_type("io1", 100, None)), unknown);
        assert_eq!(a_month(of_type("io2", 100, None)), unknown);
        assert_eq!(a_month(Volume { size_gib: u64::MAX, ..gp3() }), unknown);
        assert_eq!(a_month(Volume { iops: Some(u64::MAX), ..gp3() }), unknown);
    }
}
