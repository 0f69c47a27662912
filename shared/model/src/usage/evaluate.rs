//! Evaluation of samples as usage.

mod quiet;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::questions::{ec2_series, memory_of};
use super::{
    BUSY_FROM_PERCENT, BusyEvidence, DecisiveSeries, DeviceSeries, LAG, MetricReading, MetricSeries, MetricSignal,
    PERIOD, Sample, UnknownUsage, Usage, UsageMeasure, UsageWindow, power_device, power_names,
};
use crate::config::{IdleConfig, SeriesNames, UtilizationUnit};
use crate::instance::Instance;
use crate::moment::after;

/// Returns the usage of an instance by the answers about it.
///
/// `devices` are its listed series; `names` is how its kind of accelerator reports, where that is configured.
#[must_use]
pub fn evaluate(
    instance: &Instance,
    answers: &BTreeMap<MetricSignal, Vec<Sample>>,
    devices: &DeviceSeries,
    names: Option<&SeriesNames>,
    window: UsageWindow,
    idle: &IdleConfig,
) -> Usage {
    let readings = InstanceSamples { answers, instance, window };
    if let Some(reading) = readings.work(devices, names, idle) {
        return Usage::Busy(BusyEvidence { until: after(reading.at, PERIOD), shown: Some(reading) });
    }
    if window.from < after(instance.launched_at, idle.boot_grace) {
        return Usage::Unknown(UnknownUsage::Young);
    }
    let Some(names) = names else {
        return Usage::Unknown(UnknownUsage::NoMetric);
    };
    if answers.keys().all(|signal| readings.reported(*signal).next().is_none()) {
        return Usage::Unknown(UnknownUsage::Silent { devices: names.series_of(&instance.machine) });
    }
    readings.quiet(devices, names, idle).map_or_else(Usage::Unknown, Usage::Idle)
}

/// The series that showed work last, and that shows it alone; `None` if it is the CPU's, which is always asked first, or of power, of which an
/// earlier version knows nothing.
#[must_use]
pub fn evidence(
    instance: &Instance,
    answers: &BTreeMap<MetricSignal, Vec<Sample>>,
    devices: &DeviceSeries,
    window: UsageWindow,
    idle: &IdleConfig,
) -> Option<DecisiveSeries> {
    let readings = InstanceSamples { answers, instance, window };
    let shown_at = |signal: MetricSignal| {
        let line = readings.line_of(signal, idle)?;
        readings.samples_of(signal).filter(|(_, value)| *value >= line).map(|(at, _)| at).max()
    };
    let shown = answers.keys().filter_map(|signal| Some((shown_at(*signal)?, *signal)));
    // Of several at once the first in the order of signals: the CPU, then traffic, then the first GPU.
    let (_, signal) = shown.max_by_key(|(at, signal)| (*at, Reverse(*signal)))?;
    let series = match signal {
        MetricSignal::Cpu | MetricSignal::GpuMemory(_) | MetricSignal::GpuPower(_) => return None,
        MetricSignal::NetworkIn | MetricSignal::NetworkOut | MetricSignal::DiskRead | MetricSignal::DiskWrite => {
            ec2_series(instance, signal)
        }
        // Asked alone, it is the first of a list of one.
        MetricSignal::Gpu(place) => {
            let series = devices.utilization.get(usize::try_from(place).ok()?)?.clone();
            return Some(DecisiveSeries { signal: MetricSignal::Gpu(0), series });
        }
    };
    Some(DecisiveSeries { signal, series })
}

/// The most memory that is held on one device at the window's end, in MiB, and its signal.
pub(super) fn memory_held(
    instance: &Instance,
    answers: &BTreeMap<MetricSignal, Vec<Sample>>,
    window: UsageWindow,
) -> Option<(MetricSignal, f64)> {
    let readings = InstanceSamples { answers, instance, window };
    let memory = answers.keys().filter(|signal| matches!(signal, MetricSignal::GpuMemory(_)));
    let last = memory.filter_map(|signal| Some((*signal, readings.samples_of(*signal).max_by_key(|(at, _)| *at)?.1)));
    last.max_by(|(_, one), (_, other)| one.total_cmp(other))
}

/// The series by which that is known.
pub(super) fn held_by(
    instance: &Instance,
    answers: &BTreeMap<MetricSignal, Vec<Sample>>,
    devices: &DeviceSeries,
    window: UsageWindow,
    names: &SeriesNames,
) -> Option<DecisiveSeries> {
    let (MetricSignal::GpuMemory(place), _) = memory_held(instance, answers, window)? else { return None };
    let device = devices.utilization.get(usize::try_from(place).ok()?)?;
    Some(DecisiveSeries { signal: MetricSignal::GpuMemory(0), series: memory_of(device, names) })
}

/// The samples of an instance's present life, from the window's start on.
struct InstanceSamples<'a> {
    answers: &'a BTreeMap<MetricSignal, Vec<Sample>>,
    instance: &'a Instance,
    window: UsageWindow,
}

impl InstanceSamples<'_> {
    /// The samples that the metric of the signal can have.
    fn samples_of(&self, signal: MetricSignal) -> impl Iterator<Item = Sample> {
        self.reported(signal).filter(move |(_, value)| signal.allows(*value, &self.instance.machine))
    }

    fn reported(&self, signal: MetricSignal) -> impl Iterator<Item = Sample> {
        let samples = self.answers.get(&signal).map_or(&[][..], Vec::as_slice).iter().copied();
        let (since, from) = (self.instance.launched_at, self.window.from);
        // A mean of the first minutes of a period, which detailed monitoring has, is not yet its mean.
        let until = if signal == MetricSignal::Cpu { after(self.window.to, LAG) } else { Timestamp::MAX };
        samples.filter(move |(at, _)| after(*at, PERIOD) > since && *at >= from && *at < until)
    }

    /// The newest of those that none of these metrics can have, or else what is unknown without them.
    fn impossible_or(
        &self,
        otherwise: UnknownUsage,
        is_concerned: impl Fn(MetricSignal) -> bool,
        devices: &DeviceSeries,
        names: &SeriesNames,
    ) -> UnknownUsage {
        let concerned = self.answers.keys().copied().filter(|signal| is_concerned(*signal));
        let impossible = concerned.flat_map(|signal| {
            let refused =
                self.reported(signal).filter(move |(_, value)| !signal.allows(*value, &self.instance.machine));
            refused.map(move |(at, value)| (at, Reverse(signal), value))
        });
        let Some((_, Reverse(signal), value)) = impossible.max_by_key(|(at, signal, _)| (*at, *signal)) else {
            return otherwise;
        };
        let metric = match signal {
            MetricSignal::Gpu(_) => names.utilization.clone(),
            MetricSignal::GpuMemory(_) => names.memory_used_mib.clone(),
            MetricSignal::GpuPower(_) => power_names().utilization.clone(),
            _ => ec2_series(self.instance, signal).metric,
        };
        let is_ratio = matches!(signal, MetricSignal::Gpu(_)) && names.utilization_unit == UtilizationUnit::Ratio;
        // As it was published.
        let value = if is_ratio { value / 100.0 } else { value };
        let measure = measure_of(signal, devices, Some(names));
        UnknownUsage::ImpossibleValue { measure, metric, value }
    }

    fn is_silent(&self, signal: MetricSignal) -> bool {
        self.samples_of(signal).next().is_none()
    }

    fn vcpus(&self) -> f64 {
        f64::from(self.instance.machine.vcpus)
    }

    fn gpus(&self) -> impl Iterator<Item = Sample> {
        self.gpus_by_place().map(|(_, sample)| sample)
    }

    fn gpus_by_place(&self) -> impl Iterator<Item = (u32, Sample)> {
        let places = self.answers.keys().filter_map(|signal| match signal {
            MetricSignal::Gpu(place) => Some(*place),
            _ => None,
        });
        places.flat_map(|place| self.samples_of(MetricSignal::Gpu(place)).map(move |sample| (place, sample)))
    }

    fn power(&self) -> impl Iterator<Item = (MetricSignal, Sample)> {
        let signals = self.answers.keys().copied().filter(|signal| matches!(signal, MetricSignal::GpuPower(_)));
        signals.flat_map(|signal| self.samples_of(signal).map(move |sample| (signal, sample)))
    }

    /// Every sample since the window's start, with its line. Those of accelerators come last, and without their names.
    fn against_their_lines(&self, idle: &IdleConfig) -> impl Iterator<Item = (Option<MetricSignal>, MetricReading)> {
        let reading = |measure: UsageMeasure, line: f64| {
            move |(at, value): Sample| (None, MetricReading { measure: measure.clone(), at, value, line })
        };
        let vcpus = self.samples_of(MetricSignal::Cpu).map(|(at, percent)| (at, percent / 100.0 * self.vcpus()));
        let network = self.traffic(MetricSignal::NetworkIn, MetricSignal::NetworkOut);
        let disk = self.traffic(MetricSignal::DiskRead, MetricSignal::DiskWrite);
        let gpus = self.gpus_by_place().map(|(place, (at, value))| {
            let reading = MetricReading { measure: UsageMeasure::Gpu(None), at, value, line: idle.gpu_below_percent };
            (Some(MetricSignal::Gpu(place)), reading)
        });
        let power = self.power().map(|(signal, (at, value))| {
            let reading = MetricReading { measure: UsageMeasure::GpuPower(None), at, value, line: BUSY_FROM_PERCENT };
            (Some(signal), reading)
        });
        vcpus
            .map(reading(UsageMeasure::Cpu, idle.cpu_below_vcpus))
            .chain(network.map(reading(UsageMeasure::Network, idle.network_below_mbps)))
            .chain(disk.map(reading(UsageMeasure::Disk, idle.disk_below_mbps)))
            .chain(gpus)
            .chain(power)
    }

    /// The line of one series in its own unit; of traffic, where one direction reaches that of both.
    fn line_of(&self, signal: MetricSignal, idle: &IdleConfig) -> Option<f64> {
        let bytes = |mbps: f64| mbps * PERIOD.as_secs_f64() * 1e6 / 8.0;
        match signal {
            MetricSignal::Cpu => Some(idle.cpu_below_vcpus / self.vcpus() * 100.0),
            MetricSignal::NetworkIn | MetricSignal::NetworkOut => Some(bytes(idle.network_below_mbps)),
            MetricSignal::DiskRead | MetricSignal::DiskWrite => Some(bytes(idle.disk_below_mbps)),
            MetricSignal::Gpu(_) => Some(idle.gpu_below_percent),
            MetricSignal::GpuMemory(_) => None,
            MetricSignal::GpuPower(_) => Some(BUSY_FROM_PERCENT),
        }
    }

    /// Bytes of both directions per period, as Mbit/s.
    fn traffic(&self, one: MetricSignal, other: MetricSignal) -> impl Iterator<Item = Sample> + use<> {
        let mut bytes: BTreeMap<Timestamp, f64> = BTreeMap::new();
        for (at, count) in self.samples_of(one).chain(self.samples_of(other)) {
            *bytes.entry(at).or_default() += count;
        }
        bytes.into_iter().map(|(at, count)| (at, count * 8.0 / 1e6 / PERIOD.as_secs_f64()))
    }

    /// The newest sample that reaches its line; of several at once an accelerator's, and the highest.
    fn work(&self, devices: &DeviceSeries, names: Option<&SeriesNames>, idle: &IdleConfig) -> Option<MetricReading> {
        let at_work = self.against_their_lines(idle).filter(|(_, reading)| reading.value >= reading.line);
        let (device, reading) = at_work.max_by(|(device, one), (other_device, other)| {
            let newer = one.at.cmp(&other.at).then(device.is_some().cmp(&other_device.is_some()));
            newer.then(one.value.total_cmp(&other.value))
        })?;
        Some(match device {
            Some(signal) => MetricReading { measure: measure_of(signal, devices, names), ..reading },
            None => reading,
        })
    }
}

/// The measure that a signal is of, with the name of its device, where that has one.
fn measure_of(signal: MetricSignal, devices: &DeviceSeries, names: Option<&SeriesNames>) -> UsageMeasure {
    let name_of = |place: u32| {
        let series = devices.utilization.get(usize::try_from(place).ok()?)?;
        Some(device_of(series, names?)).filter(|name| !name.is_empty()).map(str::to_owned)
    };
    let power_name_of = |place: u32| {
        let series = devices.power.get(usize::try_from(place).ok()?)?;
        Some(power_device(series)).filter(|name| !name.is_empty())
    };
    match signal {
        MetricSignal::Cpu => UsageMeasure::Cpu,
        MetricSignal::NetworkIn | MetricSignal::NetworkOut => UsageMeasure::Network,
        MetricSignal::DiskRead | MetricSignal::DiskWrite => UsageMeasure::Disk,
        MetricSignal::Gpu(place) => UsageMeasure::Gpu(name_of(place)),
        MetricSignal::GpuMemory(place) => UsageMeasure::GpuMemory(name_of(place)),
        MetricSignal::GpuPower(place) => UsageMeasure::GpuPower(power_name_of(place)),
    }
}

/// The value of the dimension that distinguishes the devices of an instance; empty if the series has none.
#[must_use]
pub fn device_of<'s>(series: &'s MetricSeries, names: &SeriesNames) -> &'s str {
    series.dimension(&names.device_dimension).unwrap_or_default()
}

#[cfg(test)]
mod tests;
