//! The tables that come with Curfew: a fallback, of the day of each row's source, where no live price is known. They are
//! `data/on_demand_prices.csv`, `data/ebs_prices.csv`, and `data/price_sources.csv`; `make prices` renews them.
//!
//! Each file is read once, at the first lookup.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use model::id::{Region, TypeName};
use model::money::Rate;
use model::table::{TableError, TableRow, embedded_table};

use super::PriceSource;
use super::list::{is_believable, usd_micros};
use super::storage::StoragePrices;

/// Key and day of a source, which many rows share.
struct TableSource {
    key: &'static str,
    day: PriceDay,
}

/// The day of a price.
#[derive(Debug, Clone, Copy)]
struct PriceDay {
    /// The day as it is written, `yyyy-mm-dd`.
    text: &'static str,
    /// Its beginning, UTC.
    midnight: Timestamp,
}

/// The on-demand price of a type: Linux, shared hardware.
struct OnDemandPrice {
    region: &'static str,
    instance_type: &'static str,
    usd_micros_per_hour: u64,
    day: PriceDay,
}

/// Price of a unit of storage for a month. What magnetic volumes (`standard`) cost by the request is not in the table: one that nothing runs
/// on makes none.
struct StoragePrice {
    region: &'static str,
    unit: StorageUnit,
    /// The key in the map of [`StoragePrices`].
    name: &'static str,
    usd_micros_per_month: u64,
    day: PriceDay,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StorageUnit {
    Gib,
    Iops,
    /// 1,024 MiB/s.
    Gibps,
}

static SOURCES: LazyLock<Vec<TableSource>> = LazyLock::new(|| {
    embedded_table("price_sources.csv", include_str!("../../../../data/price_sources.csv"), |row| {
        let day = row.value_by("as_of", PriceDay::read)?;
        row.text("source")?;
        Ok(TableSource { key: row.text("key")?, day })
    })
});

/// Prices in the order of region and type, for the search.
static ON_DEMAND: LazyLock<Vec<OnDemandPrice>> = LazyLock::new(|| {
    embedded_table("on_demand_prices.csv", include_str!("../../../../data/on_demand_prices.csv"), |row| {
        Ok(OnDemandPrice {
            region: row.text("region")?,
            instance_type: row.text("type")?,
            usd_micros_per_hour: price(row, "usd_per_hour")?,
            day: PriceDay::from_row(row)?,
        })
    })
});

static EBS: LazyLock<Vec<StoragePrice>> = LazyLock::new(|| {
    embedded_table("ebs_prices.csv", include_str!("../../../../data/ebs_prices.csv"), |row| {
        Ok(StoragePrice {
            region: row.text("region")?,
            unit: row.value_by("unit", |unit| match unit {
                "gib" => Some(StorageUnit::Gib),
                "iops" => Some(StorageUnit::Iops),
                "gibps" => Some(StorageUnit::Gibps),
                _ => None,
            })?,
            name: row.text("name")?,
            usd_micros_per_month: price(row, "usd_per_month")?,
            day: PriceDay::from_row(row)?,
        })
    })
});

pub(super) fn price(row: &TableRow<'_>, column: &str) -> Result<u64, TableError> {
    row.value_by(column, |usd| usd_micros(usd).filter(|usd_micros| is_believable(*usd_micros)))
}

impl PriceDay {
    fn read(text: &'static str) -> Option<Self> {
        let midnight = text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
        Some(Self { text, midnight })
    }

    fn from_row(row: &TableRow<'_>) -> Result<Self, TableError> {
        row.value_by("source_key", |key| SOURCES.iter().find(|source| source.key == key).map(|source| source.day))
    }

    const fn source(self) -> PriceSource {
        PriceSource::Table { of: self.text }
    }
}

fn days() -> impl Iterator<Item = PriceDay> {
    SOURCES.iter().map(|source| source.day)
}

/// Returns the beginning of a day of the tables, UTC.
pub(super) fn midnight(of: &str) -> Option<Timestamp> {
    days().find(|day| day.text == of).map(|day| day.midnight)
}

/// Returns the table whose day began at that moment.
pub(super) fn source_from(midnight: Timestamp) -> Option<PriceSource> {
    days().find(|day| day.midnight == midnight).map(PriceDay::source)
}

/// Returns the on-demand price of an instance in the table.
pub(super) fn on_demand(region: &Region, instance_type: &TypeName) -> Option<(Rate, PriceSource)> {
    let wanted = (region.as_str(), instance_type.as_str());
    let place = ON_DEMAND.binary_search_by(|price| (price.region, price.instance_type).cmp(&wanted)).ok()?;
    let price = ON_DEMAND.get(place)?;
    Some((Rate::from_usd_micros_per_hour(price.usd_micros_per_hour), price.day.source()))
}

/// The regions whose instances the table has.
pub(super) fn regions() -> BTreeSet<Region> {
    let by_region = ON_DEMAND.chunk_by(|one, next| one.region == next.region);
    by_region.filter_map(|prices| prices.first()).map(|price| Region::from(price.region)).collect()
}

/// Returns the storage prices of a region in the table, with the oldest of their days.
pub(super) fn storage(region: &Region) -> Option<(StoragePrices, PriceSource)> {
    let prices = || EBS.iter().filter(|price| price.region == region.as_str());
    let by_name = |unit: StorageUnit| -> BTreeMap<String, u64> {
        let in_unit = prices().filter(|price| price.unit == unit);
        in_unit.map(|price| (price.name.to_owned(), price.usd_micros_per_month)).collect()
    };
    let oldest = prices().map(|price| price.day).min_by_key(|day| day.midnight)?;
    let prices = StoragePrices {
        gib_month: by_name(StorageUnit::Gib),
        iops_month: by_name(StorageUnit::Iops),
        gibps_month: prices().find(|price| price.unit == StorageUnit::Gibps).map(|price| price.usd_micros_per_month),
    };
    Some((prices, oldest.source()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_one_price_in_a_region() {
        let is_ordered = |one: &OnDemandPrice, next: &OnDemandPrice| {
            (one.region, one.instance_type) < (next.region, next.instance_type)
        };
        for pair in ON_DEMAND.windows(2) {
            assert!(is_ordered(&pair[0], &pair[1]), "{} {}", pair[1].region, pair[1].instance_type);
        }
        for OnDemandPrice { region, instance_type, usd_micros_per_hour, .. } in ON_DEMAND.iter() {
            assert!(model::region::is_known(&(*region).into()), "{region}");
            assert!(instance_type.split_once('.').is_some_and(|(family, size)| !family.is_empty() && !size.is_empty()));
            assert!((100_000..300_000_000).contains(usd_micros_per_hour), "{instance_type}");
        }
        let of_table = |of: &'static str| PriceSource::Table { of };
        let found = on_demand(&"eu-west-1".into(), &"p4d.24xlarge".into()).unwrap();
        assert_eq!(found.1, of_table("2026-01-21"));
    }

    /// A price that is far from the same type's elsewhere is a slip of the pen.
    #[test]
    fn no_region_is_far_from_the_others() {
        let mut by_type: std::collections::BTreeMap<&str, Vec<u64>> = std::collections::BTreeMap::new();
        for price in ON_DEMAND.iter() {
            by_type.entry(price.instance_type).or_default().push(price.usd_micros_per_hour);
        }
        for (name, prices) in by_type {
            let (least, most) = (prices.iter().min().unwrap(), prices.iter().max().unwrap());
            assert!(*most <= least * 2, "{name}: {least} to {most}");
        }
    }

    #[test]
    fn each_unit_of_storage_has_one_price_in_a_region() {
        let keys: BTreeSet<_> = EBS.iter().map(|price| (price.region, price.unit, price.name)).collect();
        assert_eq!(keys.len(), EBS.len());
        for StoragePrice { region, unit, name, usd_micros_per_month, .. } in EBS.iter() {
            assert!(model::region::is_known(&(*region).into()), "{region}");
            let (usual, names): (_, &[&str]) = match unit {
                StorageUnit::Gib => (10_000..300_000, &["gp3", "gp2", "io1", "io2", "st1", "sc1", "standard"]),
                StorageUnit::Iops => (1_000..200_000, &["gp3", "piops", "io2", "io2.tier2", "io2.tier3"]),
                StorageUnit::Gibps => (20_000_000..100_000_000, &["gp3"]),
            };
            assert!(usual.contains(usd_micros_per_month) && names.contains(name), "{unit:?} {name}");
        }
        let (prices, _) = storage(&"us-east-1".into()).unwrap();
        assert!(prices.gib_month.len() == 7 && prices.iops_month.len() == 5 && prices.gibps_month.is_some());
    }
}
