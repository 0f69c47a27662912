//! Power of accelerators, and emissions from making them: `data/accelerators.csv`.

use std::sync::LazyLock;

use model::table::{TableError, TableRow, embedded_table};

/// The idle power of an accelerator without a measurement, in percent of its full power. Measured ones draw 11 or 12 %.
const UNMEASURED_IDLE_PERCENT: (u64, u64) = (5, 15);

const MILLIWATTS_PER_WATT: u64 = 1_000;

/// One accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceleratorModel {
    /// Name for people, as NVIDIA and AWS write it.
    pub name: &'static str,
    /// Power when idle, the lowest and the highest.
    pub idle_milliwatts: (u64, u64),
    /// Highest power.
    pub full_milliwatts: u64,
    /// The source of the power.
    pub source: &'static str,
    /// The year of that source.
    pub year: i16,
    /// Emissions from making it, in kg of CO2, the lowest and the highest; `None` if nothing is published.
    pub embodied_kg: Option<(u32, u32)>,
}

/// Every accelerator of EC2 with a published power.
pub static ACCELERATORS: LazyLock<Vec<AcceleratorModel>> = LazyLock::new(|| {
    embedded_table("accelerators.csv", include_str!("../../../../data/accelerators.csv"), AcceleratorModel::from_row)
});

impl AcceleratorModel {
    /// Its name, if NVIDIA makes it: `T4` of `NVIDIA T4`.
    #[must_use]
    pub fn nvidia_name(&self) -> Option<&'static str> {
        self.name.strip_prefix("NVIDIA ")
    }

    fn from_row(row: &TableRow<'_>) -> Result<Self, TableError> {
        let full_watts: u64 = row.value("full_watts")?;
        let full_milliwatts = full_watts.saturating_mul(MILLIWATTS_PER_WATT);
        let (low, high) = UNMEASURED_IDLE_PERCENT;
        let share = |percent: u64| full_milliwatts.saturating_mul(percent) / 100;
        let measured: Option<u64> = row.optional("idle_watts")?;
        let measured = measured.map(|watts| watts.saturating_mul(MILLIWATTS_PER_WATT));
        let embodied_kg = match row.optional("embodied_kg_low")? {
            Some(low) => Some((low, row.value("embodied_kg_high")?)),
            None => None,
        };
        Ok(Self {
            name: row.text("accelerator")?,
            idle_milliwatts: measured.map_or((share(low), share(high)), |milliwatts| (milliwatts, milliwatts)),
            full_milliwatts,
            source: row.text("source")?,
            year: row.value("as_of")?,
            embodied_kg,
        })
    }
}
