//! Data transfer that AWS bills for checkpoints between a job's machine and a state bucket in another region.
//!
//! AWS bills the region that sends, and not the one that receives (Cost and Usage Report user guide, "Understanding data transfer
//! charges"): the machine's region for an upload, the bucket's for a download. The size of a checkpoint is unknown beforehand, so the job
//! states it as `checkpoint.size_gb`, and nothing is counted without it. The prices are `data/transfer_prices.csv`.

use std::fmt;
use std::sync::LazyLock;

use billing::price::list::usd_micros;
use model::id::Region;
use model::money::{Amount, Rate};
use model::table::embedded_table;
use serde::{Deserialize, Serialize};

use crate::{Candidate, CheckpointSpec, JobMachine, JobTerms};

/// Price of what one region sends to another.
struct TransferPriceRow {
    /// A region, or [`EVERY_OTHER_REGION`].
    from: &'static str,
    /// A region, or [`EVERY_OTHER_REGION`].
    to: &'static str,
    usd_micros_per_gb: u64,
}

const EVERY_OTHER_REGION: &str = "*";

/// The first row that matches counts. The last one matches all, with the highest price of AWS, so that no estimate is too low.
static TRANSFER_PRICES: LazyLock<Vec<TransferPriceRow>> = LazyLock::new(|| {
    embedded_table("transfer_prices.csv", include_str!("../../../data/transfer_prices.csv"), |row| {
        Ok(TransferPriceRow {
            from: row.text("from")?,
            to: row.text("to")?,
            usd_micros_per_gb: row.value_by("usd_per_gb", usd_micros)?,
        })
    })
});

const SECONDS_PER_HOUR: u64 = 3_600;
const SECONDS_PER_DAY: u64 = 24 * SECONDS_PER_HOUR;

/// The cost of a machine outside the bucket's region beside its own price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TransferCost {
    /// The upload of one checkpoint each `checkpoint.every`.
    pub usd_per_hour: Rate,
    /// The download of one checkpoint when the machine begins, and the upload of one more when it ends.
    pub usd_per_machine: Amount,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CostMax {
    pub(crate) rate: Rate,
    /// However long it runs.
    pub(crate) once: Amount,
}

impl CostMax {
    fn new(rate_max: Rate, transfer: Option<TransferCost>) -> Self {
        let machine = Self { rate: rate_max, once: Amount::ZERO };
        transfer
            .map_or(machine, |transfer| Self { rate: rate_max + transfer.usd_per_hour, once: transfer.usd_per_machine })
    }

    pub(crate) fn amount(self, seconds: u64) -> Amount {
        Amount::from_rate(self.rate, seconds) + self.once
    }
}

impl Candidate {
    pub(crate) fn cost_max(&self) -> CostMax {
        CostMax::new(self.rate_max, self.transfer)
    }
}

impl JobMachine {
    pub(crate) fn cost_max(&self) -> CostMax {
        CostMax::new(self.rate_max, self.transfer)
    }

    /// `$1.01/h`, and what the transfer of checkpoints adds.
    pub(crate) fn show_cost_max(&self) -> String {
        let added = self.transfer.map(|transfer| format!(", with {transfer},")).unwrap_or_default();
        format!("{}{added}", self.rate_max)
    }
}

impl fmt::Display for TransferCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {} per machine for checkpoints to another region", self.usd_per_hour, self.usd_per_machine)
    }
}

/// The price of checkpoints between a region that the job names and the bucket's region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransferPrice {
    /// Region in which the machine runs.
    pub region: Region,
    /// Region of the state bucket.
    pub bucket_region: Region,
    /// Price of each GB from the machine to the bucket.
    pub upload_usd_per_gb: Amount,
    /// Price of each GB from the bucket to the machine.
    pub download_usd_per_gb: Amount,
    /// The size of a checkpoint, where the job states it.
    pub size_gb: Option<u32>,
    /// Cost of the upload of one checkpoint.
    pub upload_usd: Option<Amount>,
    /// Cost of the uploads of a day.
    pub upload_usd_per_day: Option<Amount>,
}

impl fmt::Display for TransferPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { region, bucket_region, .. } = self;
        let (up, down) = (self.upload_usd_per_gb.usd(), self.download_usd_per_gb.usd());
        match (self.size_gb, self.upload_usd, self.upload_usd_per_day) {
            (Some(size), Some(each), Some(day)) => write!(
                f,
                "A checkpoint of {size} GB from {region} to the bucket in {bucket_region} costs {each} (${up} per GB), all of a day {day}; \
                 to resume from one there costs {}",
                usd_of(size, self.download_usd_per_gb)
            ),
            _ => write!(
                f,
                "Checkpoints from {region} to the bucket in {bucket_region} cost ${up} per GB, and ${down} per GB when a machine there \
                 resumes. No estimate counts that; state their size as `checkpoint.size_gb`"
            ),
        }
    }
}

impl JobTerms {
    /// Returns the cost of the checkpoints of a machine in that region; `None` if they cost nothing, or if their size is not stated.
    #[must_use]
    pub fn transfer_cost(&self, region: &Region) -> Option<TransferCost> {
        let bucket = self.bucket_region.as_ref().filter(|bucket| *bucket != region)?;
        let checkpoint = self.checkpoint.as_ref()?;
        let size = checkpoint.size_gb?;
        let (up, down) = (transfer_usd_per_gb(region, bucket), transfer_usd_per_gb(bucket, region));
        let (up, down) = (usd_of(size, up), usd_of(size, down));
        // The nodes upload one step together, and each restores all of it.
        let down = Amount::from_usd_micros(down.usd_micros().saturating_mul(u64::from(self.gpu.nodes)));
        Some(TransferCost { usd_per_hour: hourly(up, checkpoint), usd_per_machine: up + down })
    }

    /// One for each region of the job where the transfer of its checkpoints costs money.
    #[must_use]
    pub fn transfer_prices(&self) -> Vec<TransferPrice> {
        let (Some(bucket), Some(checkpoint)) = (&self.bucket_region, &self.checkpoint) else { return Vec::new() };
        let price = |region: &Region| {
            let upload_usd_per_gb = transfer_usd_per_gb(region, bucket);
            let upload_usd = checkpoint.size_gb.map(|size| usd_of(size, upload_usd_per_gb));
            TransferPrice {
                region: region.clone(),
                bucket_region: bucket.clone(),
                upload_usd_per_gb,
                download_usd_per_gb: transfer_usd_per_gb(bucket, region),
                size_gb: checkpoint.size_gb,
                upload_usd,
                upload_usd_per_day: upload_usd.map(|usd| Amount::from_rate(hourly(usd, checkpoint), SECONDS_PER_DAY)),
            }
        };
        self.machine.regions.iter().filter(|region| *region != bucket).map(price).collect()
    }

    /// Explains why `max_usd` cannot count the transfer: the size of a checkpoint is not stated.
    pub(crate) fn find_missing_size(&self) -> Option<String> {
        let unknown = self.transfer_prices().into_iter().find(|price| price.size_gb.is_none())?;
        self.max_usd?;
        Some(format!(
            "it is missing, and `limits.max_usd` counts what checkpoints cost from {} to the bucket in {}; write how large one is in GB, \
             such as `size_gb = 20`",
            unknown.region, unknown.bucket_region
        ))
    }
}

/// Returns the amount that AWS bills for each GB that one region sends to another.
#[must_use]
pub fn transfer_usd_per_gb(from: &Region, to: &Region) -> Amount {
    let is_any_or = |named: &str, region: &Region| named == EVERY_OTHER_REGION || named == region.as_str();
    let price = TRANSFER_PRICES.iter().find(|price| is_any_or(price.from, from) && is_any_or(price.to, to));
    Amount::from_usd_micros(price.map_or(0, |price| price.usd_micros_per_gb))
}

fn usd_of(size_gb: u32, usd_per_gb: Amount) -> Amount {
    Amount::from_usd_micros(usd_per_gb.usd_micros().saturating_mul(u64::from(size_gb)))
}

/// Returns the cost of one upload each `checkpoint.every`, rounded up.
fn hourly(upload: Amount, checkpoint: &CheckpointSpec) -> Rate {
    let every = u64::try_from(checkpoint.every_seconds).unwrap_or(0).max(1);
    Rate::from_usd_micros_per_hour(upload.usd_micros().saturating_mul(SECONDS_PER_HOUR).div_ceil(every))
}

#[cfg(test)]
mod tests;
