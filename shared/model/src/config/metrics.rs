//! `[metrics]`: how accelerators report.

use serde::{Deserialize, Deserializer, Serialize};

use super::checks;
use crate::instance::{Accelerator, InstanceTypeFacts};

/// `[metrics]`: by which metrics accelerators report. A kind without an entry is of unknown use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// NVIDIA GPUs; the default is the `CloudWatch` agent's `nvidia_gpu` section.
    pub nvidia: Option<SeriesNames>,
    /// AWS Trainium and Inferentia.
    #[serde(deserialize_with = "complete")]
    pub neuron: Option<SeriesNames>,
    /// AMD GPUs.
    #[serde(deserialize_with = "complete")]
    pub amd: Option<SeriesNames>,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { nvidia: Some(SeriesNames::default()), amd: None, neuron: None }
    }
}

impl MetricsConfig {
    /// Returns the names by which this kind of accelerator reports; `None` if they are not configured.
    #[must_use]
    pub const fn series_names(&self, accelerator: Accelerator) -> Option<&SeriesNames> {
        match accelerator {
            Accelerator::Nvidia => self.nvidia.as_ref(),
            Accelerator::Amd => self.amd.as_ref(),
            Accelerator::Neuron => self.neuron.as_ref(),
            Accelerator::Other | Accelerator::None => None,
        }
    }
}

impl MetricsConfig {
    /// The kinds whose utilisation is a metric of the account's own without a declared unit, as the document names them.
    pub fn without_unit(&self) -> impl Iterator<Item = &'static str> {
        let kinds = [("nvidia", &self.nvidia), ("amd", &self.amd), ("neuron", &self.neuron)];
        let lacks = |names: &Option<SeriesNames>| names.as_ref().is_some_and(SeriesNames::lacks_unit);
        kinds.into_iter().filter(move |(_, names)| lacks(names)).map(|(kind, _)| kind)
    }
}

/// The unit of a utilisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UtilizationUnit {
    /// Percent, unless the samples may be ratios: then the unit is unknown. See [`SeriesNames::may_be_ratios`].
    Detect,
    /// Values from 0 to 100.
    Percent,
    /// Values from 0 to 1.
    Ratio,
}

/// Names by which one kind of accelerator reports: one series per device, distinguished by a dimension.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SeriesNames {
    /// The `CloudWatch` namespace.
    #[serde(deserialize_with = "checks::namespace")]
    pub namespace: String,
    /// Utilisation of one device.
    pub utilization: String,
    pub utilization_unit: UtilizationUnit,
    /// Memory held on one device, in MiB; empty if there is no such metric.
    pub memory_used_mib: String,
    /// The dimension that distinguishes the devices of an instance.
    pub device_dimension: String,
    /// The dimension that holds the instance's id.
    pub instance_dimension: String,
    /// The dimension that holds the host's name, used where the id is absent; empty: never.
    pub host_dimension: String,
    /// Number of series of one device (a Neuron device has one per core).
    pub series_per_device: u32,
}

/// The defaults are NVIDIA's, so another kind must at least name the metric of its use.
fn complete<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SeriesNames>, D::Error> {
    let names = SeriesNames::deserialize(deserializer)?;
    if names.utilization != SeriesNames::default().utilization {
        return Ok(Some(names));
    }
    Err(serde::de::Error::custom(
        "`utilization` is missing: name the metric of this kind of accelerator, for the default is NVIDIA's",
    ))
}

/// The names under which the `CloudWatch` agent publishes whole percents, on Linux and on Windows (`CloudWatch` user guide, "Collect NVIDIA GPU
/// metrics").
const AGENT_UTILIZATION: [&str; 2] = ["nvidia_smi_utilization_gpu", "nvidia_smi utilization_gpu"];

/// The largest value that may be a ratio: its two readings are a moment apart.
const RATIO_MAX: f64 = 1.1;

impl SeriesNames {
    /// True for samples of a utilisation that may be ratios as well as percent: in a metric of the account's own, whose unit is not
    /// declared, all but zeros up to 1 may be; in the `CloudWatch` agent's, what is not whole.
    #[must_use]
    pub fn may_be_ratios(&self, mut samples: impl Iterator<Item = f64> + Clone) -> bool {
        let may_be_ratio = |value: f64| if self.is_of_agent() { value.fract() != 0.0 } else { value != 0.0 };
        self.utilization_unit == UtilizationUnit::Detect
            && samples.clone().all(|value| value <= RATIO_MAX)
            && samples.any(may_be_ratio)
    }

    /// True for the utilisation of the `CloudWatch` agent.
    #[must_use]
    pub fn is_of_agent(&self) -> bool {
        AGENT_UTILIZATION.contains(&self.utilization.as_str())
    }

    /// True for a utilisation of the account's own without a declared unit.
    #[must_use]
    pub fn lacks_unit(&self) -> bool {
        self.utilization_unit == UtilizationUnit::Detect && !self.is_of_agent()
    }

    /// Returns the number of series of a machine, if every device of it reports.
    #[must_use]
    pub fn series_of(&self, machine: &InstanceTypeFacts) -> u32 {
        machine.accelerators.saturating_mul(self.series_per_device.max(1))
    }
}

/// `CloudWatch` user guide, "Collect NVIDIA GPU metrics".
impl Default for SeriesNames {
    fn default() -> Self {
        Self {
            namespace: "CWAgent".to_owned(),
            utilization: AGENT_UTILIZATION[0].to_owned(),
            utilization_unit: UtilizationUnit::Detect,
            memory_used_mib: "nvidia_smi_memory_used".to_owned(),
            device_dimension: "index".to_owned(),
            instance_dimension: "InstanceId".to_owned(),
            host_dimension: "host".to_owned(),
            series_per_device: 1,
        }
    }
}
