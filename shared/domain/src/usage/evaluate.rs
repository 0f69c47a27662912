//! From samples to usage.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::questions::{memory_of, of_ec2};
use super::{Busy, Evidence, Measure, PERIOD, Quiet, Reading, Sample, Series, Signal, Unknown, Usage, Window};
use crate::config::{Idle, SeriesNames};
use crate::instance::Instance;

/// What an instance has been doing, by the answers about it.
///
/// `devices` are its utilisation series in the order of [`Signal::Gpu`]; `names` is how its kind of accelerator reports,
/// where that is configured.
#[must_use]
pub fn evaluate(
    instance: &Instance,
    answers: &BTreeMap<Signal, Vec<Sample>>,
    devices: &[Series],
    names: Option<&SeriesNames>,
    window: Window,
    idle: &Idle,
) -> Usage {
    let readings = Readings { answers, instance, window };
    if let Some(reading) = readings.work(devices, names, idle) {
        return Usage::Busy(Busy { until: reading.at + PERIOD, shown: Some(reading) });
    }
    if window.from < instance.launched_at + idle.boot_grace {
        return Usage::Unknown(Unknown::Young);
    }
    let Some(names) = names else {
        return Usage::Unknown(Unknown::NoMetric);
    };
    if answers.keys().all(|signal| readings.is_silent(*signal)) {
        return Usage::Unknown(Unknown::Silent { devices: names.series_of(&instance.machine) });
    }
    match readings.quiet(devices, names, idle) {
        Ok(quiet) => Usage::Idle(quiet),
        Err(unknown) => Usage::Unknown(unknown),
    }
}

/// The series that showed work last, and that shows it alone; `None` where it is the CPU's, which is always asked first.
#[must_use]
pub fn evidence(
    instance: &Instance,
    answers: &BTreeMap<Signal, Vec<Sample>>,
    devices: &[Series],
    window: Window,
    idle: &Idle,
) -> Option<Evidence> {
    let readings = Readings { answers, instance, window };
    let shown_at = |signal: Signal| {
        let line = readings.line_of(signal, idle)?;
        readings.of(signal).filter(|(_, value)| *value >= line).map(|(at, _)| at).max()
    };
    let shown = answers.keys().filter_map(|signal| Some((shown_at(*signal)?, *signal)));
    // Of several at once the first in the order of signals: the CPU, then traffic, then the first GPU.
    let (_, signal) = shown.max_by_key(|(at, signal)| (*at, Reverse(*signal)))?;
    let series = match signal {
        Signal::Cpu | Signal::GpuMemory(_) => return None,
        Signal::NetworkIn | Signal::NetworkOut | Signal::DiskRead | Signal::DiskWrite => of_ec2(instance, signal),
        // Asked alone, it is the first of a list of one.
        Signal::Gpu(place) => {
            let series = devices.get(usize::try_from(place).ok()?)?.clone();
            return Some(Evidence { signal: Signal::Gpu(0), series });
        }
    };
    Some(Evidence { signal, series })
}

/// The most memory that is held on one device at the window's end, in MiB, and its signal.
pub(super) fn memory_held(
    instance: &Instance,
    answers: &BTreeMap<Signal, Vec<Sample>>,
    window: Window,
) -> Option<(Signal, f64)> {
    let readings = Readings { answers, instance, window };
    let memory = answers.keys().filter(|signal| matches!(signal, Signal::GpuMemory(_)));
    let last = memory.filter_map(|signal| Some((*signal, readings.of(*signal).max_by_key(|(at, _)| *at)?.1)));
    last.max_by(|(_, one), (_, other)| one.total_cmp(other))
}

/// The series by which that is known.
pub(super) fn held_by(
    instance: &Instance,
    answers: &BTreeMap<Signal, Vec<Sample>>,
    devices: &[Series],
    window: Window,
    names: &SeriesNames,
) -> Option<Evidence> {
    let (Signal::GpuMemory(place), _) = memory_held(instance, answers, window)? else { return None };
    let device = devices.get(usize::try_from(place).ok()?)?;
    Some(Evidence { signal: Signal::GpuMemory(0), series: memory_of(device, names) })
}

/// The samples of an instance's present life, from the window's start on.
struct Readings<'a> {
    answers: &'a BTreeMap<Signal, Vec<Sample>>,
    instance: &'a Instance,
    window: Window,
}

impl Readings<'_> {
    fn of(&self, signal: Signal) -> impl Iterator<Item = Sample> {
        let samples = self.answers.get(&signal).map_or(&[][..], Vec::as_slice).iter().copied();
        let (since, from) = (self.instance.launched_at, self.window.from);
        samples.filter(move |(at, value)| *at + PERIOD > since && *at >= from && value.is_finite())
    }

    fn is_silent(&self, signal: Signal) -> bool {
        self.of(signal).next().is_none()
    }

    fn vcpus(&self) -> f64 {
        f64::from(self.instance.machine.vcpus)
    }

    fn gpus(&self) -> impl Iterator<Item = Sample> {
        self.gpus_by_place().map(|(_, sample)| sample)
    }

    fn gpus_by_place(&self) -> impl Iterator<Item = (u32, Sample)> {
        let places = self.answers.keys().filter_map(|signal| match signal {
            Signal::Gpu(place) => Some(*place),
            _ => None,
        });
        places.flat_map(|place| self.of(Signal::Gpu(place)).map(move |sample| (place, sample)))
    }

    /// Every sample since the window's start, with its line. Those of accelerators come last, and without their names.
    fn against_their_lines(&self, idle: &Idle) -> impl Iterator<Item = (Option<u32>, Reading)> {
        let reading = |measure: Measure, line: f64| {
            move |(at, value): Sample| (None, Reading { measure: measure.clone(), at, value, line })
        };
        let vcpus = self.of(Signal::Cpu).map(|(at, percent)| (at, percent / 100.0 * self.vcpus()));
        let network = self.traffic(Signal::NetworkIn, Signal::NetworkOut);
        let disk = self.traffic(Signal::DiskRead, Signal::DiskWrite);
        let gpus = self.gpus_by_place().map(|(place, (at, value))| {
            (Some(place), Reading { measure: Measure::Gpu(None), at, value, line: idle.gpu_below_percent })
        });
        vcpus
            .map(reading(Measure::Cpu, idle.cpu_below_vcpus))
            .chain(network.map(reading(Measure::Network, idle.network_below_mbps)))
            .chain(disk.map(reading(Measure::Disk, idle.disk_below_mbps)))
            .chain(gpus)
    }

    /// The line of one series in its own unit; of traffic, where one direction reaches that of both.
    fn line_of(&self, signal: Signal, idle: &Idle) -> Option<f64> {
        let bytes = |mbps: f64| mbps * PERIOD.as_secs_f64() * 1e6 / 8.0;
        match signal {
            Signal::Cpu => Some(idle.cpu_below_vcpus / self.vcpus() * 100.0),
            Signal::NetworkIn | Signal::NetworkOut => Some(bytes(idle.network_below_mbps)),
            Signal::DiskRead | Signal::DiskWrite => Some(bytes(idle.disk_below_mbps)),
            Signal::Gpu(_) => Some(idle.gpu_below_percent),
            Signal::GpuMemory(_) => None,
        }
    }

    /// Bytes of both directions per period, as Mbit/s.
    fn traffic(&self, one: Signal, other: Signal) -> impl Iterator<Item = Sample> + use<> {
        let mut bytes: BTreeMap<Timestamp, f64> = BTreeMap::new();
        for (at, count) in self.of(one).chain(self.of(other)) {
            *bytes.entry(at).or_default() += count;
        }
        bytes.into_iter().map(|(at, count)| (at, count * 8.0 / 1e6 / PERIOD.as_secs_f64()))
    }

    /// The newest sample that reaches its line; of several at once an accelerator's, and the highest.
    fn work(&self, devices: &[Series], names: Option<&SeriesNames>, idle: &Idle) -> Option<Reading> {
        let at_work = self.against_their_lines(idle).filter(|(_, reading)| reading.value >= reading.line);
        let (place, reading) = at_work.max_by(|(place, one), (other_place, other)| {
            let newer = one.at.cmp(&other.at).then(place.is_some().cmp(&other_place.is_some()));
            newer.then(one.value.total_cmp(&other.value))
        })?;
        let name_of = |place: u32| {
            let series = devices.get(usize::try_from(place).ok()?)?;
            Some(device_of(series, names?)).filter(|name| !name.is_empty()).map(str::to_owned)
        };
        Some(match place {
            Some(place) => Reading { measure: Measure::Gpu(name_of(place)), ..reading },
            None => reading,
        })
    }

    fn quiet(&self, devices: &[Series], names: &SeriesNames, idle: &Idle) -> Result<Quiet, Unknown> {
        let window = self.window;
        let expected = names.series_of(&self.instance.machine);
        let mut places = self.reporting_devices(devices, names);
        if expected > 1 {
            // A series without the dimension is of all devices together, and no device of its own.
            places.remove("");
        }
        let reporting = u32::try_from(places.len()).unwrap_or(u32::MAX);
        if reporting < expected || expected == 0 {
            return Err(Unknown::Uninstrumented { reporting, devices: expected });
        }
        let coverage_percent = places.values().copied().min().unwrap_or_default();
        if coverage_percent < idle.coverage_min_percent.get() {
            return Err(Unknown::TooFewSamples(Signal::Gpu(0)));
        }
        if self.instance.machine.vcpus == 0 {
            return Err(Unknown::TooFewSamples(Signal::Cpu));
        }
        for signal in [Signal::Cpu, Signal::NetworkIn, Signal::NetworkOut] {
            if coverage(self.of(signal), window) < idle.coverage_min_percent.get() || self.is_silent(signal) {
                return Err(Unknown::TooFewSamples(signal));
            }
        }
        let held = memory_held(self.instance, self.answers, window);
        let gpu_memory_held_mib = held.map(|(_, mib)| mib);
        Ok(Quiet {
            from: window.from,
            to: window.to,
            devices: reporting,
            coverage_percent,
            gpu_max_percent: maximum(self.gpus()),
            cpu_max_vcpus: round(maximum(self.of(Signal::Cpu)) / 100.0 * self.vcpus()),
            network_max_mbps: round(maximum(self.traffic(Signal::NetworkIn, Signal::NetworkOut))),
            disk_max_mbps: self
                .traffic(Signal::DiskRead, Signal::DiskWrite)
                .map(|(_, mbps)| mbps)
                .reduce(f64::max)
                .map(round),
            gpu_memory_held_mib,
            reserved: gpu_memory_held_mib.is_some_and(|held| held > idle.gpu_memory_held_mib),
        })
    }

    /// Each device that reported within the window, by the dimension that tells it from others, with its coverage in
    /// percent. Several series of one device are one device: their periods add up.
    fn reporting_devices<'d>(&self, devices: &'d [Series], names: &SeriesNames) -> BTreeMap<&'d str, u8> {
        let mut periods: BTreeMap<&str, BTreeSet<Timestamp>> = BTreeMap::new();
        for (place, series) in (0..).zip(devices) {
            let device = device_of(series, names);
            let within = self.of(Signal::Gpu(place)).map(|(at, _)| at).filter(|at| *at < self.window.to);
            periods.entry(device).or_default().extend(within);
        }
        periods.retain(|_, periods| !periods.is_empty());
        periods.into_iter().map(|(device, periods)| (device, percent(periods.len(), self.window))).collect()
    }
}

/// What the dimension says that tells one device of an instance from another; empty where the series has none.
#[must_use]
pub fn device_of<'s>(series: &'s Series, names: &SeriesNames) -> &'s str {
    series.dimensions.iter().find(|(key, _)| *key == names.device_dimension).map_or("", |(_, value)| value)
}

fn coverage(samples: impl Iterator<Item = Sample>, window: Window) -> u8 {
    let within = samples.map(|(at, _)| at).filter(|at| *at < window.to);
    percent(within.collect::<BTreeSet<_>>().len(), window)
}

fn percent(periods: usize, window: Window) -> u8 {
    u8::try_from(periods * 100 / window.periods().max(1)).unwrap_or(100).min(100)
}

fn maximum(samples: impl Iterator<Item = Sample>) -> f64 {
    samples.map(|(_, value)| value).fold(0.0, f64::max)
}

/// To three places, for people to read.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests;
