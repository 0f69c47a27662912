//! `[metrics]`: how accelerators report.

use serde::{Deserialize, Deserializer, Serialize};

use super::checks;
use crate::instance::{Accelerator, InstanceTypeFacts};

/// `[metrics]`: by which metrics accelerators report. A kind without an entry is of unknown use.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// NVIDIA GPUs; the default is the `CloudWatch` agent's `nvidia_gpu` section.
    pub nvidia: Option<SeriesNames>,
    /// AMD GPUs.
    #[serde(deserialize_with = "complete")]
    pub amd: Option<SeriesNames>,
    /// AWS Trainium and Inferentia.
    #[serde(deserialize_with = "complete")]
    pub neuron: Option<SeriesNames>,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { nvidia: Some(SeriesNames::default()), amd: None, neuron: None }
    }
}

impl MetricsConfig {
    /// How this kind of accelerator reports, where that is configured.
    #[must_use]
    pub const fn series_names(&self, accelerator: Accelerator) -> Option<&SeriesNames> {
        match accelerator {
            Accelerator::Nvidia => self.nvidia.as_ref(),
            Accelerator::Amd => self.amd.as_ref(),
            Accelerator::Neuron => self.neuron.as_ref(),
            Accelerator::Other => None,
        }
    }
}

/// The unit of a utilisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UtilizationUnit {
    /// Percent, unless all samples lie between 0 and 1 and some are no whole numbers: then the unit is unknown.
    Detect,
    /// From 0 to 100.
    Percent,
    /// From 0 to 1.
    Ratio,
}

/// How one kind of accelerator reports: one series per device, distinguished by a dimension.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
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
    /// How many series one device has (a Neuron device has one per core).
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

impl SeriesNames {
    /// How many series a machine has, where every device of it reports.
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
            utilization: "nvidia_smi_utilization_gpu".to_owned(),
            utilization_unit: UtilizationUnit::Detect,
            memory_used_mib: "nvidia_smi_memory_used".to_owned(),
            device_dimension: "index".to_owned(),
            instance_dimension: "InstanceId".to_owned(),
            host_dimension: "host".to_owned(),
            series_per_device: 1,
        }
    }
}
