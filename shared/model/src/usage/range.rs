//! The values that a metric can have. Where an exporter has no value, some publish -1, the largest integer or a constant of their own
//! (`DCGM_FP64_BLANK` is 140737488355328). Such a sample was not measured, so it is neither idleness nor work.

use super::MetricSignal;
use crate::instance::InstanceTypeFacts;

/// The most that rounding adds to a percentage.
const ROUNDING: f64 = 1e-6;
/// Bytes of a 5-minute period at 10 Tbit/s: the fastest instances have 6.4 Tbit/s (EC2 user guide, "Amazon EC2 instance network bandwidth").
const NETWORK_BYTES_MAX: f64 = 10e12 / 8.0 * 300.0;
/// Bytes of a 5-minute period at 1 Tbit/s, for EBS (EC2 user guide, "Amazon EBS-optimized instance types").
const DISK_BYTES_MAX: f64 = 1e12 / 8.0 * 300.0;
/// No accelerator has 1 TiB.
pub const ACCELERATOR_MEMORY_MIB_MAX: u32 = 1024 * 1024;

impl MetricSignal {
    /// True for a value, in the unit of this signal, that a machine can have.
    #[must_use]
    pub fn allows(self, value: f64, machine: &InstanceTypeFacts) -> bool {
        let most = match self {
            Self::Cpu | Self::Gpu(_) => 100.0 + ROUNDING,
            // A board may exceed the limit of its power for a moment, and that is work.
            Self::GpuPower(_) => 200.0,
            Self::NetworkIn | Self::NetworkOut => NETWORK_BYTES_MAX,
            Self::DiskRead | Self::DiskWrite => DISK_BYTES_MAX,
            Self::GpuMemory(_) => memory_mib_max(machine),
        };
        // Not a number is in no range.
        (0.0..=most).contains(&value)
    }
}

/// The memory of the type and a quarter to spare: of an A10G, EC2 names 22,888 MiB and `nvidia-smi` 23,028.
fn memory_mib_max(machine: &InstanceTypeFacts) -> f64 {
    match machine.accelerator_memory_mib {
        0 => f64::from(ACCELERATOR_MEMORY_MIB_MAX),
        mib => f64::from(mib) * 1.25,
    }
}

/// A value for people, in a few characters whatever it is.
#[must_use]
pub fn format_impossible(value: f64) -> String {
    if value.is_finite() && value.abs() >= 1e15 { format!("{value:.3e}") } else { format!("{}", round(value)) }
}

/// Rounds to three places, for people to read.
pub(super) fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::instance;

    fn check(signal: MetricSignal, possible: &[f64], impossible: &[f64]) {
        let machine = instance().build().machine;
        let allowed = |value: &&f64| signal.allows(**value, &machine);
        assert_eq!(possible.iter().filter(|value| !allowed(value)).collect::<Vec<_>>(), [&0.0; 0], "{signal:?}");
        let blanks = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -1e-9, f64::MIN, f64::MAX];
        let refused = impossible.iter().chain(&blanks).filter(allowed);
        assert_eq!(refused.collect::<Vec<_>>(), [&0.0; 0], "{signal:?}");
    }

    #[test]
    fn a_value_is_within_the_range_of_its_unit() {
        check(MetricSignal::Cpu, &[0.0, -0.0, 100.0, 100.000_000_1], &[100.1, 4_294_967_295.0]);
        check(MetricSignal::Gpu(3), &[0.0, 1.0, 100.0], &[101.0, 255.0, 4_294_967_295.0, 140_737_488_355_328.0]);
        check(MetricSignal::GpuPower(0), &[0.0, 9.5, 100.1, 200.0], &[200.1, 700.0]);
        check(MetricSignal::GpuMemory(0), &[0.0, 23_028.0], &[81_920.0, 4_294_967_295.0]);
        // 3,200 Gbit/s, and what no network has.
        check(MetricSignal::NetworkIn, &[0.0, 1.2e14], &[1e15, 1.8e19]);
        check(MetricSignal::DiskWrite, &[0.0, 3.75e12], &[1e14, 1.8e19]);
    }

    #[test]
    fn where_the_memory_of_a_type_is_unknown_no_accelerator_has_a_tebibyte() {
        let unknown = InstanceTypeFacts::UNKNOWN;
        assert!(MetricSignal::GpuMemory(0).allows(280_000.0, &unknown));
        assert!(!MetricSignal::GpuMemory(0).allows(4_294_967_295.0, &unknown));
    }

    #[test]
    fn an_impossible_value_is_shown_in_a_few_characters() {
        let check = |value: f64, expect: &str| assert_eq!(format_impossible(value), expect);
        check(-1.0, "-1");
        check(4_294_967_295.0, "4294967295");
        check(140_737_488_355_328.0, "140737488355328");
        check(f64::MAX, "1.798e308");
        check(f64::NAN, "NaN");
    }
}
