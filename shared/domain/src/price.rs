//! What instances cost: a dated table of on-demand prices, and the place for live ones.

use std::collections::BTreeMap;

use crate::id::{Region, TypeName};
use crate::instance::{Instance, Purchase};
use crate::money::Rate;

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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::instance;
    use crate::instance::Prepaid;

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
}
