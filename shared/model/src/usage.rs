//! Usage of an instance's accelerators, CPUs, network and disks, from `CloudWatch`'s samples.
//!
//! Usage has three values. **Idle** if and only if all of these hold:
//! - launch + boot grace lies before the window's start;
//! - every device of the type reports, in enough of the window's 5-minute periods;
//! - each device stays below its line in every sample of the window, and the unit of the samples is clear;
//! - CPU reports as often, and stays below its line, as does network; disk stays below its line where it reports;
//! - nothing since the window's end contradicts that.
//!
//! Where fewer devices report, their power can take the place of utilisation: see `power.rs`.
//!
//! **Busy** if one sample since the window's start, however fresh, lies at or above its line. **Unknown** is everything else. A sample
//! outside of the range of its unit is no sample.
//!
//! Utilisation is the highest of each period. CPU, network and disk are means of the period, so that basic and detailed monitoring are
//! judged alike. Windows are whole 5-minute periods and end 10 minutes ago, because `CloudWatch` is late (EC2 user guide, "Basic
//! monitoring").

mod basic;
mod device_report;
mod evaluate;
mod inquiry;
mod power;
mod questions;
mod range;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::id::ResourceId;
use crate::instance::Instance;
use crate::moment::before;

pub use basic::{BasicUse, basic_questions, basic_use};
pub use device_report::{DeviceReport, REJECTED_SERIES_MAX, RejectedSeries, RejectionReason};
pub use evaluate::{device_of, evaluate, evidence};
pub use inquiry::{FirstRound, OpenQuery, QueryDepth, QueryResult, UsageQuery};
pub use power::{BUSY_FROM_PERCENT, PowerReport, idle_below_percent, power_device, power_names, reads_power};
pub use questions::{
    DeviceSeries, MetricQuestion, MetricSeries, MetricSignal, SeriesOwners, Statistic, devices, first_questions,
    further_questions,
};
pub use range::{ACCELERATOR_MEMORY_MIB_MAX, format_impossible};

/// Period of basic monitoring and of our windows.
pub const PERIOD: SignedDuration = SignedDuration::from_mins(5);
/// Longest delay of a sample in `CloudWatch`.
pub const LAG: SignedDuration = SignedDuration::from_mins(10);
/// The longest window: `CloudWatch` keeps 5-minute data for 63 days (user guide, "Metrics retention").
pub const WINDOW_MAX: SignedDuration = SignedDuration::from_hours(60 * 24);

/// One datum: the start of its period, and its value.
pub type Sample = (Timestamp, f64);

/// The answers to questions, by the signal that was asked for. A signal without an entry was not asked about.
pub type MetricSamples = BTreeMap<ResourceId, BTreeMap<MetricSignal, Vec<Sample>>>;

/// Whole periods, at least one, that end 10 minutes ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageWindow {
    /// The start of its first period.
    pub from: Timestamp,
    /// The end of its last period.
    pub to: Timestamp,
}

impl UsageWindow {
    /// The window of that length as seen at `now`; lengths are rounded up to whole periods.
    #[must_use]
    pub fn ending_before(now: Timestamp, length: SignedDuration) -> Self {
        let period = PERIOD.as_secs();
        let last = before(now, LAG).as_second();
        let to = second(last.saturating_sub(last.rem_euclid(period)));
        let periods = length.as_secs().saturating_add(period).saturating_sub(1).div_euclid(period).max(1);
        Self { from: before(to, SignedDuration::from_secs(periods.saturating_mul(period))), to }
    }

    /// Returns the number of its periods.
    #[must_use]
    pub fn periods(self) -> usize {
        usize::try_from(self.to.duration_since(self.from).as_secs().div_euclid(PERIOD.as_secs())).unwrap_or_default()
    }
}

fn second(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Usage of an instance.
#[derive(Debug, Clone, PartialEq)]
pub enum Usage {
    /// No work, over the whole window.
    Idle(IdleEvidence),
    /// Work, in one sample at least.
    Busy(BusyEvidence),
    /// Neither of the two is known.
    Unknown(UnknownUsage),
}

/// The evidence that an instance was idle.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdleEvidence {
    /// The window's start.
    pub from: Timestamp,
    /// The window's end.
    pub to: Timestamp,
    /// Number of devices that reported, their utilisation or their power.
    pub devices: u32,
    /// The lowest coverage of a device: periods in which it reported, in percent of the window's.
    pub coverage_percent: u8,
    /// The highest utilisation of a device; `None` if it is idle by its power.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_max_percent: Option<f64>,
    /// The highest power of a device in percent of its maximum, where that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_power_max_percent: Option<f64>,
    /// The highest `CPUUtilization` times vCPUs.
    pub cpu_max_vcpus: f64,
    /// The highest 5-minute mean of network traffic, in and out, in Mbit/s.
    pub network_max_mbps: f64,
    /// The highest 5-minute mean of EBS traffic, in Mbit/s; `None` if the metric does not exist.
    pub disk_max_mbps: Option<f64>,
    /// The most memory held on one device at the window's end, in MiB; `None` if the metric does not exist.
    pub gpu_memory_held_mib: Option<f64>,
    /// `true` if the held memory is enough for a notebook or a waiting server.
    pub reserved: bool,
}

impl IdleEvidence {
    /// True if the power of the devices decided, because their utilisation does not report.
    #[must_use]
    pub const fn is_by_power(&self) -> bool {
        self.gpu_max_percent.is_none()
    }
}

/// The evidence that an instance works.
#[derive(Debug, Clone, PartialEq)]
pub struct BusyEvidence {
    /// The end of the last period with a sample to the contrary.
    pub until: Timestamp,
    /// The reading of that sample; `None` if an earlier run saw it.
    pub shown: Option<MetricReading>,
}

/// A sample that reaches its line.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricReading {
    /// The measured quantity.
    pub measure: UsageMeasure,
    /// The start of its period.
    pub at: Timestamp,
    /// The value, in the unit of its line.
    pub value: f64,
    /// The value from which on it counts as work.
    pub line: f64,
}

/// Measure of work, and its unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsageMeasure {
    /// Busy vCPUs.
    Cpu,
    /// Network, in and out together, in Mbit/s.
    Network,
    /// EBS, read and written together, in Mbit/s.
    Disk,
    /// Utilisation in percent of the accelerator of that name, where it has one.
    Gpu(Option<String>),
    /// Memory held on it, in MiB.
    GpuMemory(Option<String>),
    /// Its power, in percent of its maximum.
    GpuPower(Option<String>),
}

/// Reason for which the usage is unknown.
#[derive(Debug, Clone, PartialEq)]
pub enum UnknownUsage {
    /// No answer in this run: it was not queried, or not answered, or the answer lacks a series that was busy before.
    NotAsked,
    /// There is not one sample of it.
    Silent {
        /// The number of devices that should report.
        devices: u32,
    },
    /// The instance was launched too recently to have been idle for a whole window.
    Young,
    /// No metric is configured for its kind of accelerator.
    NoMetric,
    /// It is idle, but the use of this other member of its gang is unknown.
    GangMember(ResourceId),
    /// Fewer devices report than the type has.
    Uninstrumented(DeviceReport),
    /// No sample of its utilisation exceeds that of a ratio, so they may be ratios as well as percent.
    UnitUnclear,
    /// A metric has too few samples, or its question was not answered.
    TooFewSamples(UsageMeasure),
    /// Samples are missing because a metric has values that it cannot have.
    ImpossibleValue {
        measure: UsageMeasure,
        metric: String,
        /// The newest of them, in the unit of the measure.
        value: f64,
    },
}

impl UnknownUsage {
    /// `true` if its owner is notified that it cannot be judged. Of a gang, the finding is about the member whose usage is unknown.
    #[must_use]
    pub const fn is_finding(&self) -> bool {
        !matches!(self, Self::NotAsked | Self::Young | Self::GangMember(_))
    }
}

/// A series that settled it alone, by work or by memory that is held, and is asked first the next time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisiveSeries {
    /// The answer for any GPU, as of the first, because it is queried alone.
    pub signal: MetricSignal,
    pub series: MetricSeries,
}

/// Findings of earlier runs, so that fewer queries are sent. A cache: safe to lose.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ActivityCache {
    /// The last inquiry by instance; only running ones.
    pub instances: BTreeMap<ResourceId, LastInquiry>,
}

impl ActivityCache {
    /// Returns the findings about an instance in its present life. An entry later than now is damaged, and counts as lost: it would keep
    /// the instance from being queried until then.
    #[must_use]
    pub fn last_inquiry(&self, instance: &Instance, now: Timestamp) -> Option<&LastInquiry> {
        self.instances.get(&instance.id).filter(|asked| asked.at >= instance.launched_at && asked.at <= now)
    }
}

/// The last inquiry about one instance, and its finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastInquiry {
    pub at: Timestamp,
    /// The end of the last period in which it was busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_until: Option<Timestamp>,
    /// The series that showed work, or the memory that is held; the CPU is queried in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_by: Option<DecisiveSeries>,
    /// `Some` if the instance was found idle: `true` if with GPU memory held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_idle_reserved: Option<bool>,
    /// `true` if its power alone showed that it was idle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub found_idle_by_power: bool,
    /// Time of the last query of a fortnight's basic metrics, and its finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_back: Option<LookedBack>,
    /// Time of the last inquiry in full, about an instance that was not seen at work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_full_at: Option<Timestamp>,
    /// The earliest moment at which it could be found idle.
    pub idle_not_before: Timestamp,
}

/// The last query of an instance's basic metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LookedBack {
    pub at: Timestamp,
    /// `None` if too few samples answered.
    pub found: Option<BasicUse>,
}
