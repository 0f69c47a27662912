//! Prices of `FSx` for Lustre file systems: their size, at a price by durability and throughput. `data/fsx_prices.csv` has them.

use std::sync::LazyLock;

use model::file_system::LustreFileSystem;
use model::money::Rate;
use model::table::embedded_table;

use super::dated::price;
use super::{PriceBook, PriceSource, Quote};

struct FsxPrice {
    region: &'static str,
    deployment: &'static str,
    throughput_mbps_per_tib: Option<u32>,
    usd_micros_per_gib_month: u64,
    as_of: &'static str,
}

static PRICES: LazyLock<Vec<FsxPrice>> = LazyLock::new(|| {
    embedded_table("fsx_prices.csv", include_str!("../../../../data/fsx_prices.csv"), |row| {
        row.text("source")?;
        Ok(FsxPrice {
            region: row.text("region")?,
            deployment: row.text("deployment")?,
            throughput_mbps_per_tib: row.optional("throughput_mbps_per_tib")?,
            usd_micros_per_gib_month: price(row, "usd_per_gib_month")?,
            as_of: row.text("as_of")?,
        })
    })
});

impl PriceBook {
    /// Returns the cost of a file system's storage; `None` if the table has no price of its kind in its region. Metadata IOPS beyond the included ones
    /// and backups cost more, and are not in it.
    #[must_use]
    pub fn file_system_cost(&self, of: &LustreFileSystem) -> Option<Quote> {
        let is_it = |price: &&FsxPrice| {
            price.region == of.region.as_str()
                && price.deployment == of.deployment
                && price.throughput_mbps_per_tib == of.throughput_mbps_per_tib
        };
        let price = PRICES.iter().find(is_it).filter(|_| of.storage_type == "SSD")?;
        let rate = Rate::from_usd_micros_per_month(price.usd_micros_per_gib_month.checked_mul(of.capacity_gib)?);
        Some(Quote { rate, source: PriceSource::Table { of: price.as_of } })
    }
}

#[cfg(test)]
mod tests {
    use model::fixture::file_system;

    use super::*;

    #[test]
    fn the_price_is_that_of_its_kind_in_its_region_or_unknown() {
        let cost = |of: &LustreFileSystem| {
            PriceBook::dated().file_system_cost(of).map(|quote| quote.rate.usd_cents_per_month())
        };
        assert_eq!(cost(&file_system()), Some(17_400));
        let scratch =
            LustreFileSystem { deployment: "SCRATCH_2".to_owned(), throughput_mbps_per_tib: None, ..file_system() };
        assert_eq!(cost(&scratch), Some(16_800));
        assert_eq!(cost(&LustreFileSystem { throughput_mbps_per_tib: Some(250), ..file_system() }), None);
        assert_eq!(cost(&LustreFileSystem { region: "eu-central-1".into(), ..file_system() }), None);
        assert_eq!(cost(&LustreFileSystem { storage_type: "HDD".to_owned(), ..file_system() }), None);
        assert_eq!(cost(&LustreFileSystem { capacity_gib: u64::MAX, ..file_system() }), None);
    }
}
