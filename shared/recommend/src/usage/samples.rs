//! Hours from the samples of `CloudWatch`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::config::UtilizationUnit;

use super::UsageHour;

/// Samples of one hour each, of one series of a device.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceSamples {
    /// Which device: a driver update can give it a second series.
    pub device: String,
    pub utilization: Vec<(Timestamp, f64)>,
    /// In MiB.
    pub memory_mib: Vec<(Timestamp, f64)>,
}

/// The hours in which every GPU reported; none if the unit of the utilisation is unknown, or there are more or fewer devices than GPUs.
#[must_use]
pub fn usage_hours(samples: &[DeviceSamples], gpus: u32, unit: UtilizationUnit) -> Vec<UsageHour> {
    let Some(factor) = percent_factor(samples, unit) else { return Vec::new() };
    let mut devices: BTreeMap<&str, [BTreeMap<Timestamp, f64>; 2]> = BTreeMap::new();
    for one in samples {
        let [utilization, memory] = devices.entry(&one.device).or_default();
        add(utilization, &one.utilization, factor);
        add(memory, &one.memory_mib, 1.0);
    }
    if devices.len() != gpus as usize {
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

/// What makes percent of a sample; `None` if it is unknown: see [`UtilizationUnit::Detect`].
fn percent_factor(samples: &[DeviceSamples], unit: UtilizationUnit) -> Option<f64> {
    let all = || samples.iter().flat_map(|one| &one.utilization).map(|(_, value)| *value);
    match unit {
        UtilizationUnit::Ratio => Some(100.0),
        UtilizationUnit::Detect if all().all(|value| value <= 1.0) && all().any(|value| value.fract() > 0.0) => None,
        UtilizationUnit::Percent | UtilizationUnit::Detect => Some(1.0),
    }
}

fn add(hours: &mut BTreeMap<Timestamp, f64>, samples: &[(Timestamp, f64)], factor: f64) {
    for (at, value) in samples.iter().filter(|(_, value)| value.is_finite() && *value >= 0.0) {
        let highest = hours.entry(*at).or_insert(0.0);
        *highest = highest.max(value * factor);
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
        let found = usage_hours(samples, gpus, unit);
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
        check(&[device("0", &[f64::NAN, -1.0, 7.0], &[])], 1, UtilizationUnit::Detect, &[(&[7.0], &[])]);
    }
}
