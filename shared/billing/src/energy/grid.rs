//! Emissions of electricity where it is generated, and the overhead of a data center.

use model::id::Region;

use super::OLD_AFTER_YEARS;

/// Emissions of a kilowatt-hour in a region, as the mean of a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridFactor {
    pub grams_per_kwh: u16,
    /// The year of the figure.
    pub year: i16,
    pub source: GridSource,
    /// The grid, as the source names it.
    pub grid: &'static str,
}

/// The source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridSource {
    /// Figures of a subregion: the emissions of its power stations.
    Egrid,
    /// Figures of a country, including emissions before and after generation.
    Ember,
    /// Figures of a part of a country, including imports and emissions before and after generation.
    ElectricityMaps,
}

impl GridSource {
    /// Names the source with its edition.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Egrid => "EPA, eGRID2023 revision 2",
            Self::Ember => "Ember, Yearly Electricity Data",
            Self::ElectricityMaps => "Electricity Maps, yearly data",
        }
    }
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
    /// Times a hundred.
    pub percent: u64,
    /// `true` if the value is the mean of a part of the world, because AWS publishes none for the region itself.
    pub is_mean: bool,
}

const fn egrid(grams_per_kwh: u16, grid: &'static str) -> GridFactor {
    GridFactor { grams_per_kwh, year: 2023, source: GridSource::Egrid, grid }
}

const fn ember(grams_per_kwh: u16, year: i16, grid: &'static str) -> GridFactor {
    GridFactor { grams_per_kwh, year, source: GridSource::Ember, grid }
}

const fn electricity_maps(grams_per_kwh: u16, grid: &'static str) -> GridFactor {
    GridFactor { grams_per_kwh, year: 2025, source: GridSource::ElectricityMaps, grid }
}

/// Grid factors by region. If the grids of a country differ much, the region's own grid counts instead of the country's mean.
pub const GRID: [(&str, GridFactor); 35] = [
    ("us-east-1", egrid(270, "SRVC")),
    ("us-east-2", egrid(416, "RFCW")),
    ("us-west-1", egrid(195, "CAMX")),
    ("us-west-2", egrid(288, "NWPP")),
    ("us-gov-east-1", egrid(416, "RFCW")),
    ("us-gov-west-1", egrid(288, "NWPP")),
    ("ca-central-1", electricity_maps(41, "CA-QC")),
    ("ca-west-1", electricity_maps(385, "CA-AB")),
    ("mx-central-1", ember(483, 2024, "Mexico")),
    ("sa-east-1", ember(106, 2024, "Brazil")),
    ("eu-west-1", ember(280, 2024, "Ireland")),
    ("eu-west-2", ember(216, 2024, "United Kingdom")),
    ("eu-west-3", ember(44, 2024, "France")),
    ("eu-central-1", ember(342, 2024, "Germany")),
    ("eu-central-2", ember(37, 2024, "Switzerland")),
    ("eu-north-1", ember(36, 2024, "Sweden")),
    ("eu-south-1", ember(288, 2024, "Italy")),
    ("eu-south-2", ember(146, 2024, "Spain")),
    ("il-central-1", ember(567, 2023, "Israel")),
    ("me-south-1", ember(902, 2023, "Bahrain")),
    ("me-central-1", ember(468, 2024, "United Arab Emirates")),
    ("af-south-1", ember(714, 2024, "South Africa")),
    ("ap-south-1", electricity_maps(653, "IN-WE")),
    ("ap-south-2", electricity_maps(489, "IN-SO")),
    ("ap-southeast-1", ember(499, 2024, "Singapore")),
    ("ap-southeast-2", electricity_maps(525, "AU-NSW")),
    ("ap-southeast-3", ember(682, 2023, "Indonesia")),
    ("ap-southeast-4", electricity_maps(474, "AU-VIC")),
    ("ap-southeast-5", ember(604, 2024, "Malaysia")),
    ("ap-southeast-6", ember(120, 2024, "New Zealand")),
    ("ap-southeast-7", ember(555, 2024, "Thailand")),
    ("ap-northeast-1", electricity_maps(535, "JP-TK")),
    ("ap-northeast-2", ember(416, 2024, "South Korea")),
    ("ap-northeast-3", electricity_maps(370, "JP-KN")),
    ("ap-east-1", ember(682, 2023, "Hong Kong")),
];

const fn own(percent: u64) -> Pue {
    Pue { percent, is_mean: false }
}

const fn mean(percent: u64) -> Pue {
    Pue { percent, is_mean: true }
}

/// PUE by region, of 2025: AWS, "Sustainability fact sheets", 2026.
pub const REGIONAL_PUE: [(&str, Pue); 35] = [
    ("us-east-1", own(115)),
    ("us-east-2", own(112)),
    ("us-west-1", own(118)),
    ("us-west-2", own(112)),
    ("us-gov-east-1", mean(114)),
    ("us-gov-west-1", mean(114)),
    ("ca-central-1", own(119)),
    ("ca-west-1", own(113)),
    ("mx-central-1", mean(114)),
    ("sa-east-1", own(114)),
    ("eu-west-1", own(110)),
    ("eu-west-2", own(123)),
    ("eu-west-3", own(135)),
    ("eu-central-1", own(124)),
    ("eu-central-2", mean(111)),
    ("eu-north-1", own(109)),
    ("eu-south-1", mean(111)),
    ("eu-south-2", own(106)),
    ("il-central-1", own(127)),
    ("me-south-1", own(133)),
    ("me-central-1", own(125)),
    ("af-south-1", own(119)),
    ("ap-south-1", own(140)),
    ("ap-south-2", own(143)),
    ("ap-southeast-1", own(130)),
    ("ap-southeast-2", own(114)),
    ("ap-southeast-3", own(129)),
    ("ap-southeast-4", own(107)),
    ("ap-southeast-5", mean(125)),
    ("ap-southeast-6", mean(125)),
    ("ap-southeast-7", own(138)),
    ("ap-northeast-1", own(125)),
    ("ap-northeast-2", mean(125)),
    ("ap-northeast-3", own(146)),
    ("ap-east-1", mean(125)),
];

/// Returns the emissions of a kilowatt-hour in that region; `None` if unknown.
#[must_use]
pub fn grid_factor(region: &Region) -> Option<GridFactor> {
    GRID.into_iter().find(|(name, _)| *name == region.as_str()).map(|(_, factor)| factor)
}

/// Returns the overhead of the data centers in a region; `None` if unknown.
#[must_use]
pub fn pue(region: &Region) -> Option<Pue> {
    REGIONAL_PUE.into_iter().find(|(name, _)| *name == region.as_str()).map(|(_, pue)| pue)
}

/// The lowest and the highest of all regions, for a region without a published figure.
pub(super) fn pue_of_all_regions() -> (u64, u64) {
    let all = || REGIONAL_PUE.into_iter().map(|(_, pue)| pue.percent);
    (all().min().unwrap_or(100), all().max().unwrap_or(100))
}
