//! Emissions of electricity where it is generated, and the overhead of a data center: `data/grid.csv` and `data/pue.csv`.

use std::sync::LazyLock;

use model::id::Region;
use model::table::embedded_table;

use super::OLD_AFTER_YEARS;

/// Emissions of a kilowatt-hour in a region, as the mean of a year. If the grids of a country differ much, the region's own grid counts instead
/// of the country's mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridFactor {
    pub region: &'static str,
    pub grams_per_kwh: u16,
    /// The grid, as the source names it.
    pub grid: &'static str,
    /// The source with its edition.
    pub source: &'static str,
    /// The year of the figure.
    pub year: i16,
}

impl GridFactor {
    /// Returns `true` if that year is longer ago than a value should be.
    #[must_use]
    pub const fn is_old(&self, year_now: i16) -> bool {
        self.year + OLD_AFTER_YEARS < year_now
    }
}

/// Energy of a data center in relation to that of its machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pue {
    pub region: &'static str,
    /// Times a hundred.
    pub percent: u64,
    /// `true` if the value is the mean of a part of the world, because AWS publishes none for the region itself.
    pub is_mean: bool,
}

/// Grid factors by region.
pub static GRID: LazyLock<Vec<GridFactor>> = LazyLock::new(|| {
    embedded_table("grid.csv", include_str!("../../../../data/grid.csv"), |row| {
        Ok(GridFactor {
            region: row.text("region")?,
            grams_per_kwh: row.value("grams_per_kwh")?,
            grid: row.text("grid")?,
            source: row.text("source")?,
            year: row.value("as_of")?,
        })
    })
});

/// PUE by region.
pub static REGIONAL_PUE: LazyLock<Vec<Pue>> = LazyLock::new(|| {
    embedded_table("pue.csv", include_str!("../../../../data/pue.csv"), |row| {
        Ok(Pue {
            region: row.text("region")?,
            percent: row.value("pue_percent")?,
            is_mean: row.value_by("coverage", |coverage| match coverage {
                "region" => Some(false),
                "mean" => Some(true),
                _ => None,
            })?,
        })
    })
});

/// Returns the emissions of a kilowatt-hour in that region; `None` if unknown.
#[must_use]
pub fn grid_factor(region: &Region) -> Option<GridFactor> {
    GRID.iter().find(|factor| factor.region == region.as_str()).copied()
}

/// Returns the overhead of the data centers in a region; `None` if unknown.
#[must_use]
pub fn pue(region: &Region) -> Option<Pue> {
    REGIONAL_PUE.iter().find(|pue| pue.region == region.as_str()).copied()
}

/// The lowest and the highest of all regions, for a region without a published figure.
pub(super) fn pue_of_all_regions() -> (u64, u64) {
    let all = || REGIONAL_PUE.iter().map(|pue| pue.percent);
    (all().min().unwrap_or(100), all().max().unwrap_or(100))
}
