//! Prices of instances and volumes: live prices, or else the dated tables that come with Curfew.
//!
//! A price comes from the Price List, the history of Spot prices, or a table, and names its source: a figure of a table has its day. Curfew
//! guesses no price: neither of another region or zone, nor of Spot from on-demand.

mod dated;
mod document;
mod fsx;
pub mod list;
mod sagemaker;
mod storage;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::config::PricesConfig;
use model::id::{Region, TypeName};
use model::instance::{Instance, PrepaidCapacity, PurchaseOption};
use model::money::Rate;
use model::volume::{Volume, VolumeOrigin};
use serde::{Serialize, Serializer};

use storage::in_a_zone_of_the_region;

pub use document::{
    ListedPrice, ListedSageMakerPrices, ListedStoragePrices, PriceDocument, PriceQueries, PriceQuery, SpotPrice,
    SpotPrices,
};
pub use sagemaker::{SageMakerComponent, SageMakerPrices, sagemaker_types};
pub use storage::{StoragePrices, VolumeShape};
pub use words::{
    caveats, describe_cost, describe_monthly_cost, describe_saving, format_monthly_quote, format_quote,
    format_quote_sum, with_caveats,
};

/// A price, and whose word it is. Serialised as USD per hour, a JSON number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    /// The price.
    pub rate: Rate,
    /// Source of the price.
    pub source: PriceSource,
}

/// Source of a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriceSource {
    /// The capacity is paid for whether or not it runs. A stop saves nothing of its cost, if that is known.
    Prepaid { costs: Option<Rate> },
    /// AWS's Price List.
    PriceList {
        /// Time of the query.
        as_of: Timestamp,
        /// `true` if the query is recent enough; otherwise the list has not answered since.
        of_today: bool,
    },
    /// The Spot price of its zone.
    SpotHistory {
        /// Time of the query.
        as_of: Timestamp,
    },
    /// A table that comes with Curfew.
    Table {
        /// Its day, `yyyy-mm-dd`.
        of: &'static str,
    },
}

impl PriceSource {
    /// Describes the source for people: `table of 2026-09-24`.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Prepaid { .. } => "paid for anyway".to_owned(),
            Self::PriceList { as_of, .. } => format!("Price List of {}", as_of.strftime("%Y-%m-%d")),
            Self::SpotHistory { as_of } => format!("Spot price of {}", as_of.strftime("%Y-%m-%d %H:%M UTC")),
            Self::Table { of } => format!("table of {of}"),
        }
    }

    /// The caveat of the figure: that it is not today's list price.
    #[must_use]
    pub fn caveat(self) -> Option<String> {
        match self {
            Self::Prepaid { .. } | Self::PriceList { of_today: true, .. } => None,
            Self::PriceList { of_today: false, .. } | Self::SpotHistory { .. } | Self::Table { .. } => {
                Some(self.describe())
            }
        }
    }
}

impl PriceSource {
    /// The table whose prices hold from that moment on, as the ledger keeps them; none of anything younger.
    #[must_use]
    pub fn table_holding_from(from: Timestamp) -> Option<Self> {
        dated::source_from(from)
    }

    /// Returns the moment from which the price holds. `listed` is the time since which the list gives the same price.
    fn holds_from(self, listed: Option<Timestamp>) -> Option<Timestamp> {
        match self {
            Self::Prepaid { .. } => None,
            Self::PriceList { as_of, .. } => Some(listed.unwrap_or(as_of)),
            Self::SpotHistory { as_of } => Some(as_of),
            Self::Table { of } => dated::midnight(of),
        }
    }
}

impl Serialize for Quote {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.rate.serialize(serializer)
    }
}

/// The price without its source: of a quote of [`PriceBook::saved_by_ending`] the saving.
#[must_use]
pub fn rate(quote: Option<Quote>) -> Option<Rate> {
    quote.map(|quote| quote.rate)
}

/// The cost, whether or not a stop saves it; `None` if unknown.
#[must_use]
pub fn cost(quote: Option<Quote>) -> Option<Rate> {
    match quote? {
        Quote { source: PriceSource::Prepaid { costs }, .. } => costs,
        Quote { rate, .. } => Some(rate),
    }
}

/// Prices of instances and volumes, as they are known now.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceBook {
    live: PriceDocument,
    discounts: BTreeMap<String, Discount>,
    now: Timestamp,
}

/// Remaining part of a price, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Discount(u32);

const WHOLE: u32 = 1_000_000;

impl PriceBook {
    /// The tables that come with Curfew, and nothing else.
    #[must_use]
    pub fn dated() -> Self {
        Self::from_document(PriceDocument::default(), &PricesConfig::default(), Timestamp::UNIX_EPOCH)
    }

    /// Live prices, as far as they count now, and else the tables; each less what this account pays less.
    #[must_use]
    pub fn from_document(live: PriceDocument, config: &PricesConfig, now: Timestamp) -> Self {
        let discounts = config.discount_percent.iter();
        let discounts = discounts.map(|(family, percent)| (family.clone(), Discount::from_percent(*percent))).collect();
        Self { live, discounts, now }
    }

    /// Returns the saving from stopping or terminating an instance; `None` if the price is not known. Prepaid capacity saves nothing,
    /// whatever its cost.
    #[must_use]
    pub fn saved_by_ending(&self, instance: &Instance) -> Option<Quote> {
        let is_reserved =
            matches!(instance.purchase, PurchaseOption::CapacityBlock | PurchaseOption::InterruptibleReservation);
        if instance.prepaid.is_some() || is_reserved {
            let costs = rate(self.running_cost(instance));
            return Some(Quote { rate: Rate::ZERO, source: PriceSource::Prepaid { costs } });
        }
        self.running_cost(instance)
    }

    /// Returns the cost of a running instance, whether or not a stop saves it; `None` if unknown.
    ///
    /// An on-demand capacity reservation costs the same as on demand (EC2 user guide, "Capacity Reservation pricing and billing"). A
    /// dedicated host is billed as a whole, whatever runs on it, and a Capacity Block was paid up front, at a price of its own: no price
    /// list gives the cost of one instance there, and that cost is not zero. In an interruptible reservation its owner pays for the capacity, and
    /// who pays for its use is not settled.
    #[must_use]
    pub fn running_cost(&self, instance: &Instance) -> Option<Quote> {
        if instance.prepaid == Some(PrepaidCapacity::DedicatedHost) || !is_plain(instance) {
            return None;
        }
        match instance.purchase {
            PurchaseOption::OnDemand => self.on_demand(&instance.region, &instance.instance_type),
            PurchaseOption::SpotOneTime | PurchaseOption::SpotPersistent | PurchaseOption::SpotUnknown => {
                let zone = instance.zone.as_deref()?;
                self.spot(&instance.region, &instance.instance_type, zone)
            }
            PurchaseOption::CapacityBlock | PurchaseOption::InterruptibleReservation => None,
        }
    }

    /// Returns the on-demand price of a type: Linux, on shared hardware, in a zone of the region proper.
    #[must_use]
    pub fn on_demand(&self, region: &Region, instance_type: &TypeName) -> Option<Quote> {
        let listed = self.live.on_demand.get(region).and_then(|types| types.get(instance_type));
        let live = listed.and_then(|listed| Some((listed, self.source_of(listed.as_of)?)));
        // Where the list does not say one price, a table does not know better.
        let (rate, source) = if let Some((ListedPrice { usd_micros_per_hour, .. }, source)) = live {
            (Rate::from_usd_micros_per_hour((*usd_micros_per_hour)?), source)
        } else {
            dated::on_demand(region, instance_type)?
        };
        Some(Quote { rate: self.discounted(instance_type, rate), source })
    }

    /// The lowest on-demand price of a type that is known of any region. It is no price of another region: it only tells a cheap type from a dear
    /// one where the price is unknown.
    #[must_use]
    pub fn lowest_on_demand(&self, instance_type: &TypeName) -> Option<Rate> {
        let regions: BTreeSet<Region> = self.live.on_demand.keys().cloned().chain(dated::regions()).collect();
        let quotes = regions.iter().filter_map(|region| self.on_demand(region, instance_type));
        quotes.map(|quote| quote.rate).filter(|rate| *rate > Rate::ZERO).min()
    }

    /// Returns the on-demand price of a type in a zone; `None` for a Local Zone or a Wavelength Zone, which have prices of their own.
    #[must_use]
    pub fn on_demand_in_zone(&self, region: &Region, instance_type: &TypeName, zone: &str) -> Option<Quote> {
        in_a_zone_of_the_region(region, zone).then(|| self.on_demand(region, instance_type))?
    }

    /// Returns the Spot price of a type in a zone that is in force now.
    #[must_use]
    pub fn spot(&self, region: &Region, instance_type: &TypeName, zone: &str) -> Option<Quote> {
        let of_type = self.live.spot.get(region)?.get(instance_type)?;
        let SpotPrices { as_of, zones } = of_type;
        document::counts(*as_of, document::SPOT_MAX, self.now).then_some(())?;
        let (_, usd_micros) = zones.get(zone)?.range(..=self.now).next_back()?;
        let source = PriceSource::SpotHistory { as_of: *as_of };
        Some(Quote { rate: Rate::from_usd_micros_per_hour(*usd_micros), source })
    }

    /// The zone of a region, itself no Local Zone, where a type costs the least on Spot now, and what it costs there.
    #[must_use]
    pub fn cheapest_spot(&self, region: &Region, instance_type: &TypeName) -> Option<(&str, Quote)> {
        let zones = self.live.spot.get(region)?.get(instance_type)?.zones.keys();
        let zones = zones.filter(|zone| in_a_zone_of_the_region(region, zone));
        let quotes = zones.filter_map(|zone| Some((zone.as_str(), self.spot(region, instance_type, zone)?)));
        quotes.min_by_key(|(zone, quote)| (quote.rate, *zone))
    }

    /// The known prices of a running instance, each with its begin, for the ledger: for Spot every known change; for the list the time of its
    /// answer; for a table its day. Empty if no price is known.
    #[must_use]
    pub fn known_rates(&self, instance: &Instance) -> Vec<(Timestamp, Rate)> {
        let Instance { region, instance_type, zone, .. } = instance;
        let Some(Quote { rate, source }) = self.running_cost(instance) else { return Vec::new() };
        if matches!(source, PriceSource::SpotHistory { .. }) {
            let changes = self.live.spot.get(region).and_then(|types| types.get(instance_type));
            let changes = changes.zip(zone.as_ref()).and_then(|(of_type, zone)| of_type.zones.get(zone));
            let rates = changes.into_iter().flatten();
            return rates.map(|(from, usd_micros)| (*from, Rate::from_usd_micros_per_hour(*usd_micros))).collect();
        }
        let listed = self.live.on_demand.get(region).and_then(|types| types.get(instance_type));
        source.holds_from(listed.map(|listed| listed.from)).map(|from| (from, rate)).into_iter().collect()
    }

    /// Returns the known prices of a volume, each with its begin, as [`PriceBook::known_rates`] does for an instance.
    #[must_use]
    pub fn known_rates_of_volume(&self, volume: &Volume) -> Vec<(Timestamp, Rate)> {
        let Some(Quote { rate, source }) = self.volume_cost(volume) else { return Vec::new() };
        let listed = self.live.storage.get(&volume.region).map(|listed| listed.from);
        source.holds_from(listed).map(|from| (from, rate)).into_iter().collect()
    }

    /// Returns the cost of a volume as long as it exists, attached or not: its size, and the performance that is provisioned beyond the
    /// included part. `None` if the price is not known, which is never taken from another region or for a Local Zone, or if EC2 does not
    /// name the provisioned performance.
    #[must_use]
    pub fn volume_cost(&self, volume: &Volume) -> Option<Quote> {
        let Volume { region, zone, volume_type, size_gib, iops, throughput_mibps, .. } = volume;
        let (iops, throughput_mibps) = (*iops, *throughput_mibps);
        self.storage_cost(region, zone, VolumeShape { volume_type, size_gib: *size_gib, iops, throughput_mibps })
    }

    /// Returns the cost of a volume with this origin; `None` as in [`PriceBook::volume_cost`].
    #[must_use]
    pub fn origin_cost(&self, region: &Region, origin: &VolumeOrigin) -> Option<Quote> {
        let (iops, throughput_mibps) = (origin.provisioned_iops(), origin.provisioned_throughput_mibps());
        let VolumeOrigin { zone, volume_type, size_gib, .. } = origin;
        self.storage_cost(region, zone, VolumeShape { volume_type, size_gib: *size_gib, iops, throughput_mibps })
    }

    /// Returns the cost of a `gp3` volume of that size, with the performance that comes with it; `None` as in [`PriceBook::volume_cost`].
    #[must_use]
    pub fn gp3_cost(&self, region: &Region, size_gib: u64) -> Option<Quote> {
        let made = VolumeShape { volume_type: "gp3", size_gib, iops: None, throughput_mibps: None };
        self.storage_cost(region, &format!("{region}a"), made)
    }

    /// The table may know what the list leaves out.
    fn storage_cost(&self, region: &Region, zone: &str, made: VolumeShape<'_>) -> Option<Quote> {
        in_a_zone_of_the_region(region, zone).then_some(())?;
        let listed = self.live.storage.get(region);
        let live = listed.and_then(|listed| Some((listed.prices.volume_rate(made)?, self.source_of(listed.as_of)?)));
        let tabled = || dated::storage(region).and_then(|(prices, source)| Some((prices.volume_rate(made)?, source)));
        let (rate, source) = live.or_else(tabled)?;
        Some(Quote { rate, source })
    }

    fn source_of(&self, as_of: Timestamp) -> Option<PriceSource> {
        document::is_of_today(as_of, self.now).map(|of_today| PriceSource::PriceList { as_of, of_today })
    }

    fn discounted(&self, instance_type: &TypeName, rate: Rate) -> Rate {
        self.discounts.get(family(instance_type)).map_or(rate, |discount| discount.apply_to(rate))
    }
}

/// The regions whose instance prices the dated table has.
#[must_use]
pub fn table_regions() -> BTreeSet<Region> {
    dated::regions()
}

/// Returns the discount of this account on the on-demand list price, in percent; `None` if it pays the list price.
#[must_use]
pub fn discount_percent(config: &PricesConfig, instance_type: &TypeName) -> Option<f64> {
    let percent = config.discount_percent.get(family(instance_type)).copied();
    percent.filter(|percent| Discount::from_percent(*percent) != Discount(WHOLE))
}

fn family(instance_type: &TypeName) -> &str {
    instance_type.as_str().split('.').next().unwrap_or_default()
}

impl Discount {
    /// Rounds to the ten-thousandth of a percent; a negative discount, or one that is not a number, counts as none.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of floats saturates, and makes 0 of what is negative or no number"
    )]
    fn from_percent(percent: f64) -> Self {
        Self(WHOLE.saturating_sub((percent * 10_000.0).round() as u32))
    }

    /// Rounds to the nearest micro-USD.
    fn apply_to(self, rate: Rate) -> Rate {
        let left = u128::from(rate.usd_micros_per_hour()) * u128::from(self.0) + u128::from(WHOLE / 2);
        Rate::from_usd_micros_per_hour(u64::try_from(left / u128::from(WHOLE)).unwrap_or(u64::MAX))
    }
}

/// Returns `true` if the prices of the region apply: plain Linux on shared hardware, and in no Local Zone, as far as the zone is known.
fn is_plain(instance: &Instance) -> bool {
    let zone = instance.zone.as_deref();
    instance.plain_linux && zone.is_none_or(|zone| in_a_zone_of_the_region(&instance.region, zone))
}

#[cfg(test)]
mod tests;
