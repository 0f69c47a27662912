//! Time that a number of tokens takes on a type.
//!
//! A program reaches only a part of its GPUs' peak, and that part differs by a factor of three between published runs. So the answer is a
//! range, and its words name the sources. A GPU that is not in [`PEAKS`] has no answer.

use std::fmt;
use std::sync::LazyLock;

use jiff::SignedDuration;
use model::duration::format_duration;
use model::table::embedded_table;
use serde::{Serialize, Serializer};

/// Peak performance of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuPeak {
    /// Name of the GPU in EC2.
    pub gpu_name: &'static str,
    /// Smallest memory of the GPUs that the peak is for: EC2 has one name for both A100s.
    pub memory_mib_min: u32,
    /// Dense 16-bit operations with tensor cores: where a data sheet states the rate with sparsity, half of that.
    pub teraflops: u32,
    /// The bandwidth of its memory.
    pub memory_gb_per_second: u32,
}

impl GpuPeak {
    /// `None` for a GPU that is not in [`PEAKS`].
    #[must_use]
    pub fn find(gpu_name: &str, memory_mib: u32) -> Option<Self> {
        let is_it = |peak: &&Self| peak.gpu_name.eq_ignore_ascii_case(gpu_name) && memory_mib >= peak.memory_mib_min;
        PEAKS.iter().find(is_it).copied()
    }
}

/// Peaks of GPUs, those of one name by falling memory: `data/gpu_peaks.csv`. They are of data sheets that could not be read themselves, and
/// were compared with what others quote from them.
pub static PEAKS: LazyLock<Vec<GpuPeak>> = LazyLock::new(|| {
    embedded_table("gpu_peaks.csv", include_str!("../../../data/gpu_peaks.csv"), |row| {
        Ok(GpuPeak {
            gpu_name: row.text("gpu")?,
            memory_mib_min: row.value("memory_mib_min")?,
            teraflops: row.value("teraflops")?,
            memory_gb_per_second: row.value("memory_gb_per_second")?,
        })
    })
});

/// Share of the peak that published training runs reached, in percent. The low end is Llama 3 8B: 15 trillion tokens in 1.3 million hours
/// of an H100 (its model card, 2024). The high end is Llama 3 405B on 8,192 H100 ("The Llama 3 Herd of Models", table 4, 2024).
pub const TRAINING_PERCENT: (u32, u32) = (16, 43);

/// Source of [`TRAINING_PERCENT`], for people.
pub const TRAINING_SOURCE: &str =
    "16-43 % of the peak, as published for Llama 3 8B (model card) and 405B (table 4 of its paper) on H100, 2024";

/// Bound of the time to generate tokens, for people.
pub const GENERATION_SOURCE: &str = "at least the time to read from memory, for each step of the batch, the weights that it passes through and half of the KV cache, at the \
     bandwidth of the data sheet";

/// A Julian year.
const YEAR_SECONDS: u64 = 31_557_600;

/// Nobody waits for longer, and more digits say nothing.
const YEARS_MAX: u64 = 1_000;

/// Work on tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TokenWork {
    /// So many operations for each token: 6 for each parameter that is trained in full, 4 where most are frozen (Kaplan et al., "Scaling
    /// Laws for Neural Language Models", 2020, section 2.1; without gradients of frozen weights).
    /// `has_bound`: `false` if offloading makes a step slower, by a factor that is not known.
    Training { tokens: f64, operations_per_token: f64, has_bound: bool },
    /// So many tokens are generated, `batch` at a time, and each step reads so many bytes.
    Generation { tokens: f64, batch: f64, bytes_per_step: f64 },
}

/// Running time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunLength {
    pub least_seconds: u64,
    /// `None` where only a bound from below is known.
    pub most_seconds: Option<u64>,
}

impl RunLength {
    #[must_use]
    pub const fn exactly(seconds: u64) -> Self {
        Self { least_seconds: seconds, most_seconds: Some(seconds) }
    }

    /// Computes the time on that number of GPUs with these peaks.
    #[must_use]
    pub fn for_tokens(work: TokenWork, peak: GpuPeak, gpus: u32) -> Self {
        let gpus = f64::from(gpus.max(1));
        match work {
            TokenWork::Training { tokens, operations_per_token, has_bound } => {
                let at_peak = tokens * operations_per_token / (f64::from(peak.teraflops) * 1e12 * gpus);
                let (low, high) = TRAINING_PERCENT;
                let at = |percent: u32| whole_seconds(at_peak * 100.0 / f64::from(percent));
                Self { least_seconds: at(high), most_seconds: has_bound.then(|| at(low)) }
            }
            TokenWork::Generation { tokens, batch, bytes_per_step } => {
                let seconds_per_step = bytes_per_step / (f64::from(peak.memory_gb_per_second) * 1e9 * gpus);
                let least_seconds = whole_seconds(tokens / batch.max(1.0) * seconds_per_step);
                Self { least_seconds, most_seconds: None }
            }
        }
    }
}

/// `8h20m`; from two years on in years, and from a thousand on only that.
#[must_use]
pub fn format_length(seconds: u64) -> String {
    match seconds / YEAR_SECONDS {
        0 | 1 => format_duration(SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX))),
        years if years < YEARS_MAX => format!("{years} years"),
        _ => format!("over {YEARS_MAX} years"),
    }
}

/// `3h to 8h20m`, `at least 3h`.
impl fmt::Display for RunLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = format_length(self.least_seconds);
        match self.most_seconds.map(format_length) {
            // "Over 1000 years" is a bound from below already.
            None if self.least_seconds < YEARS_MAX * YEAR_SECONDS => write!(f, "at least {least}"),
            Some(most) if most != least => write!(f, "{least} to {most}"),
            _ => f.write_str(&least),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of floats saturates, and makes 0 of what is negative or no number"
)]
fn whole_seconds(seconds: f64) -> u64 {
    seconds.ceil() as u64
}

/// `{"least_hours": 1.5, "most_hours": null}`.
impl Serialize for RunLength {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Hours {
            least_hours: f64,
            most_hours: Option<f64>,
        }
        Hours { least_hours: hours(self.least_seconds), most_hours: self.most_seconds.map(hours) }.serialize(serializer)
    }
}

/// Converts seconds to hours, exact to the second.
#[expect(clippy::cast_precision_loss, reason = "nothing runs for 285 million years")]
fn hours(seconds: u64) -> f64 {
    seconds as f64 / 3_600.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 15 trillion tokens of 8 billion parameters on one H100, in hours.
    #[test]
    fn the_published_run_of_llama_3_8b_lies_at_the_upper_end() {
        let work = TokenWork::Training { tokens: 15e12, operations_per_token: 6.0 * 8e9, has_bound: true };
        let length = RunLength::for_tokens(work, GpuPeak::find("H100", 81_920).unwrap(), 1);
        let most = length.most_seconds.unwrap() / 3_600;
        assert!((1_200_000..1_350_000).contains(&most), "{most}");
        assert!(length.least_seconds < length.most_seconds.unwrap());
    }

    #[test]
    fn generating_is_bounded_by_the_memory_from_below_only() {
        let work = TokenWork::Generation { tokens: 1e6, batch: 16.0, bytes_per_step: 14e9 };
        let on = |name, mib, gpus| {
            GpuPeak::find(name, mib).map(|peak| RunLength::for_tokens(work, peak, gpus).least_seconds)
        };
        assert_eq!(on("A10G", 22_888, 1), Some(1_459));
        assert_eq!(on("A10G", 22_888, 4), Some(365));
        assert_eq!((on("A100", 40_960, 1), on("A100", 81_920, 1)), (Some(563), Some(430)));
        assert_eq!(on("K80", 11_441, 1), None);
    }

    #[test]
    fn the_peaks_of_one_name_fall_with_their_memory_and_end_with_that_of_any() {
        for GpuPeak { gpu_name, memory_mib_min, teraflops, memory_gb_per_second } in PEAKS.iter() {
            assert!((50..5_000).contains(teraflops) && (200..20_000).contains(memory_gb_per_second), "{gpu_name}");
            let same: Vec<_> = PEAKS.iter().filter(|peak| peak.gpu_name == *gpu_name).collect();
            assert!(same.is_sorted_by(|one, next| one.memory_mib_min > next.memory_mib_min), "{gpu_name}");
            assert_eq!(GpuPeak::find(gpu_name, *memory_mib_min).unwrap().teraflops, *teraflops, "{gpu_name}");
            assert_eq!(same.last().unwrap().memory_mib_min, 0, "{gpu_name}");
        }
    }

    #[test]
    fn a_length_is_written_as_a_person_would() {
        const HOUR: u64 = 3_600;
        let check = |least: u64, most, expect: &str| {
            assert_eq!(RunLength { least_seconds: least * HOUR, most_seconds: most }.to_string(), expect);
        };
        check(8, Some(8 * HOUR), "8h");
        check(8, Some(20 * HOUR + 60), "8h to 20h1m");
        check(8, None, "at least 8h");
        check(24 * 400, None, "at least 400d");
        check(24 * 365 * 3, Some(24 * 365 * 424 * HOUR), "2 years to 423 years");
        check(24 * 366_000, Some(u64::MAX), "over 1000 years");
        check(24 * 366_000, None, "over 1000 years");
    }

    #[test]
    fn no_work_takes_no_time_and_no_number_is_read_as_none() {
        let training = |tokens| {
            RunLength::for_tokens(
                TokenWork::Training { tokens, operations_per_token: 1e9, has_bound: true },
                PEAKS[0],
                1,
            )
        };
        assert_eq!(training(0.0), RunLength::exactly(0));
        assert_eq!(training(f64::NAN), RunLength::exactly(0));
        assert_eq!(training(f64::INFINITY).least_seconds, u64::MAX);
    }
}
