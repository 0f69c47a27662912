//! Power of each GPU as evidence, in percent of its maximum: EC2's own `GPUPowerUtilization`, without an agent, for some accelerated types (EC2
//! user guide, "Accelerator metrics").
//!
//! Work is shown from [`BUSY_FROM_PERCENT`] on, of every model. An idle GPU stays below the threshold of its model, and a model without one is
//! never idle by its power. What lies between proves nothing: a program that only holds a GPU draws up to 40 % of a T4's maximum.

use std::sync::LazyLock;

use super::MetricSeries;
use crate::config::{IdleConfig, PowerEvidence, SeriesNames};
use crate::instance::{Accelerator, Instance};
use crate::table::embedded_table;

/// Share of its maximum from which on the power of a GPU of any model is work. Held, and without work, public logs of `nvidia-smi` show up to
/// 28 of 70 W (T4), 28 of 72 W (L4) and 94 of 300 W (A10G).
pub const BUSY_FROM_PERCENT: f64 = 50.0;

/// The dimension that AWS saw in live accounts; the EC2 user guide names none, and AWS Config's list of metrics has `InstanceId` alone.
const GPU_DIMENSION: &str = "GpuId";
const INSTANCE_DIMENSION: &str = "InstanceId";

static POWER_NAMES: LazyLock<SeriesNames> = LazyLock::new(|| SeriesNames {
    namespace: "AWS/EC2".to_owned(),
    utilization: "GPUPowerUtilization".to_owned(),
    device_dimension: GPU_DIMENSION.to_owned(),
    instance_dimension: INSTANCE_DIMENSION.to_owned(),
    host_dimension: String::new(),
    memory_used_mib: String::new(),
    ..SeriesNames::default()
});

/// Thresholds of idleness by family: `data/gpu_power.csv`.
static IDLE_BELOW: LazyLock<Vec<(&str, f64)>> = LazyLock::new(|| {
    embedded_table("gpu_power.csv", include_str!("../../../../data/gpu_power.csv"), |row| {
        let percent = row.value_by("idle_below_percent", |text| {
            text.parse().ok().filter(|percent| *percent > 0.0 && *percent < BUSY_FROM_PERCENT)
        })?;
        row.text("gpu")?;
        Ok((row.text("families")?, percent))
    })
});

/// Power of the GPUs of an instance whose utilisation does not report.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerReport {
    /// Number of GPUs whose power reports.
    pub reporting: u32,
    /// The highest sample; `None` without one.
    pub max_percent: Option<f64>,
    /// Threshold of idleness; `None` if there is none for its model.
    pub idle_below_percent: Option<f64>,
}

/// The names under which EC2 publishes the power.
#[must_use]
pub fn power_names() -> &'static SeriesNames {
    &POWER_NAMES
}

/// True for accelerators whose power is worth a query.
#[must_use]
pub fn reads_power(accelerator: Accelerator, idle: &IdleConfig) -> bool {
    accelerator == Accelerator::Nvidia && idle.power != PowerEvidence::Off
}

/// Threshold below which every GPU of an instance is idle by its power.
#[must_use]
pub fn idle_below_percent(instance: &Instance, idle: &IdleConfig) -> Option<f64> {
    let family = instance.instance_type.as_str().split('.').next().unwrap_or_default();
    let model_threshold = || IDLE_BELOW.iter().find(|(families, _)| families.split(' ').any(|one| one == family));
    idle.power_below_percent.or_else(|| model_threshold().map(|(_, percent)| *percent))
}

/// The GPU that a series of power is of, whatever its dimension is called; empty for a series of all together.
#[must_use]
pub fn power_device(series: &MetricSeries) -> String {
    if let Some(gpu) = series.dimension(GPU_DIMENSION) {
        return gpu.to_owned();
    }
    let others = series.dimensions.iter().filter(|(key, _)| key != INSTANCE_DIMENSION);
    others.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::instance;

    #[test]
    fn a_model_has_its_threshold_or_none() {
        let check = |instance_type: &str, config: &IdleConfig, expect: Option<f64>| {
            let mut instance = instance().build();
            instance.instance_type = instance_type.into();
            assert_eq!(idle_below_percent(&instance, config), expect, "{instance_type}");
        };
        let config = IdleConfig::default();
        check("p5.48xlarge", &config, Some(5.0));
        check("p5en.48xlarge", &config, Some(5.0));
        check("g4dn.xlarge", &config, None);
        check("g6f.large", &config, None);
        check("", &config, None);
        let own = IdleConfig { power_below_percent: Some(13.0), ..config };
        check("g4dn.xlarge", &own, Some(13.0));
        check("p5.48xlarge", &own, Some(13.0));
    }

    #[test]
    fn a_gpu_is_known_by_whatever_dimension_it_has() {
        let check = |dimensions: &[(&str, &str)], expect: &str| {
            let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            let series = MetricSeries {
                namespace: "AWS/EC2".to_owned(),
                metric: "GPUPowerUtilization".to_owned(),
                dimensions: dimensions.iter().map(own).collect(),
            };
            assert_eq!(power_device(&series), expect);
        };
        check(&[("InstanceId", "i-1"), ("GpuId", "3")], "3");
        check(&[("GpuId", "3"), ("InstanceId", "i-1"), ("Slot", "0")], "3");
        check(&[("InstanceId", "i-1"), ("Slot", "0")], "Slot=0");
        check(&[("InstanceId", "i-1")], "");
    }
}
