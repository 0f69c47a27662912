//! Hours from the samples of `CloudWatch`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::config::{SeriesNames, UtilizationUnit};
use model::instance::InstanceTypeFacts;
use model::usage::MetricSignal;

use super::UsageHour;

/// Samples of one hour each, of one series of a device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceSamples {
    /// Name of the device: a driver update can give it a second series.
    pub device: String,
    pub utilization: Vec<(Timestamp, f64)>,
    /// Memory in use, in MiB.
    pub memory_mib: Vec<(Timestamp, f64)>,
}

/// The hours in which every GPU reported; none if the unit of the utilisation is unknown, or there are more or fewer devices than GPUs. A
/// value that its metric cannot have is no sample.
#[must_use]
pub fn usage_hours(samples: &[DeviceSamples], machine: &InstanceTypeFacts, names: &SeriesNames) -> Vec<UsageHour> {
    let factor = if names.utilization_unit == UtilizationUnit::Ratio { 100.0 } else { 1.0 };
    let mut devices: BTreeMap<&str, [BTreeMap<Timestamp, f64>; 2]> = BTreeMap::new();
    for one in samples {
        let [utilization, memory] = devices.entry(&one.device).or_default();
        let possible = |signal: MetricSignal, factor: f64| {
            move |(at, value): &(Timestamp, f64)| {
                Some((*at, value * factor)).filter(|(_, value)| signal.allows(*value, machine))
            }
        };
        add(utilization, one.utilization.iter().filter_map(possible(MetricSignal::Gpu(0), factor)));
        add(memory, one.memory_mib.iter().filter_map(possible(MetricSignal::GpuMemory(0), 1.0)));
    }
    if names.may_be_ratios(devices.values().flat_map(|[utilization, _]| utilization.values().copied())) {
        return Vec::new();
    }
    if devices.len() != machine.accelerators as usize {
        return Vec::new();
    }
    let first = devices.values().next().into_iter().flat_map(|[utilization, _]| utilization.keys());
    let at = |place: usize, hour: &Timestamp| -> Option<Vec<f64>> {
        devices.values().map(|measured| measured.get(place)?.get(hour).copied()).collect()
    };
    let hour = |from: &Timestamp| {
        Some(UsageHour { from: *from, utilization: at(0, from)?, memory_mib: at(1, from).unwrap_or_default() })
    };
    first.filter_map(hour).collect()
}

fn add(hours: &mut BTreeMap<Timestamp, f64>, samples: impl Iterator<Item = (Timestamp, f64)>) {
    for (at, value) in samples {
        let highest = hours.entry(at).or_insert(0.0);
        *highest = highest.max(value);
    }
}

#[cfg(test)]
mod tests {
    use model::fixture::time;

    use super::*;

    fn device(device: &str, utilization: &[f64], memory_mib: &[f64]) -> DeviceSamples {
        let hour = |values: &[f64]| {
            let at = |place: usize| {
                time("2026-11-02T00:00:00Z") + jiff::SignedDuration::from_hours(i64::try_from(place).unwrap())
            };
            values.iter().enumerate().map(|(place, value)| (at(place), *value)).collect()
        };
        DeviceSamples { device: device.to_owned(), utilization: hour(utilization), memory_mib: hour(memory_mib) }
    }

    fn check(samples: &[DeviceSamples], gpus: u32, unit: UtilizationUnit, expect: &[(&[f64], &[f64])]) {
        let machine = InstanceTypeFacts { accelerators: gpus, ..InstanceTypeFacts::UNKNOWN };
        let found = usage_hours(samples, &machine, &SeriesNames { utilization_unit: unit, ..SeriesNames::default() });
        let shown: Vec<(&[f64], &[f64])> =
            found.iter().map(|hour| (hour.utilization.as_slice(), hour.memory_mib.as_slice())).collect();
        assert_eq!(shown, expect);
    }

    #[test]
    fn an_hour_counts_if_every_gpu_reported_in_it() {
        let two = [device("0", &[10.0, 20.0], &[100.0, 200.0]), device("1", &[30.0], &[300.0])];
        check(&two, 2, UtilizationUnit::Percent, &[(&[10.0, 30.0], &[100.0, 300.0])]);
        check(&two, 4, UtilizationUnit::Percent, &[]);
        check(&[device("0", &[10.0], &[])], 1, UtilizationUnit::Percent, &[(&[10.0], &[])]);
    }

    #[test]
    fn of_two_series_of_a_device_the_higher_counts() {
        let renamed = [device("0", &[0.0, 20.0], &[]), device("0", &[90.0, 0.0], &[])];
        check(&renamed, 1, UtilizationUnit::Percent, &[(&[90.0], &[]), (&[20.0], &[])]);
    }

    #[test]
    fn ratios_become_percent_and_what_may_be_either_is_nothing() {
        let ratios = [device("0", &[0.5, 1.0], &[])];
        check(&ratios, 1, UtilizationUnit::Ratio, &[(&[50.0], &[]), (&[100.0], &[])]);
        check(&ratios, 1, UtilizationUnit::Detect, &[]);
    }

    #[test]
    fn a_value_that_its_metric_cannot_have_is_no_sample() {
        let blanks = [f64::NAN, -1.0, 4_294_967_295.0, 140_737_488_355_328.0, 7.0];
        check(&[device("0", &blanks, &blanks)], 1, UtilizationUnit::Detect, &[(&[7.0], &[7.0])]);
        check(&[device("0", &[0.5, 7.0], &[])], 1, UtilizationUnit::Ratio, &[(&[50.0], &[])]);
        // It proves no unit either.
        check(&[device("0", &[0.5, -1.0, f64::NAN, 1e9], &[])], 1, UtilizationUnit::Detect, &[]);
    }
}
