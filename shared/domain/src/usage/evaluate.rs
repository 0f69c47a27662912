//! From samples to usage.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Busy, PERIOD, Quiet, Sample, Series, Signal, Unknown, Usage, Window};
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
    let lives_since = instance.launched_at;
    let answers: BTreeMap<Signal, Vec<Sample>> = answers
        .iter()
        .map(|(signal, samples)| {
            let own = samples
                .iter()
                .copied()
                .filter(|(at, value)| *at + PERIOD > lives_since && *at >= window.from && value.is_finite());
            (*signal, own.collect())
        })
        .collect();
    let readings = Readings { answers: &answers, vcpus: f64::from(instance.machine.vcpus) };
    if let Some(until) = readings.busy_until(idle) {
        return Usage::Busy(Busy { until });
    }
    if window.from < lives_since + idle.boot_grace {
        return Usage::Unknown(Unknown::Young);
    }
    let Some(names) = names else {
        return Usage::Unknown(Unknown::NoMetric);
    };
    if answers.values().all(Vec::is_empty) {
        return Usage::Unknown(Unknown::Silent { devices: names.series_of(&instance.machine) });
    }
    match readings.quiet(instance, devices, names, window, idle) {
        Ok(quiet) => Usage::Idle(quiet),
        Err(unknown) => Usage::Unknown(unknown),
    }
}

struct Readings<'a> {
    answers: &'a BTreeMap<Signal, Vec<Sample>>,
    vcpus: f64,
}

impl Readings<'_> {
    fn of(&self, signal: Signal) -> &[Sample] {
        self.answers.get(&signal).map_or(&[], Vec::as_slice)
    }

    /// Every sample since the window's start, in the unit of its line, with that line.
    fn against_their_lines(&self, idle: &Idle) -> impl Iterator<Item = (Timestamp, f64, f64)> {
        let cpu =
            self.of(Signal::Cpu).iter().map(|(at, percent)| (*at, percent / 100.0 * self.vcpus, idle.cpu_below_vcpus));
        let network =
            self.traffic(Signal::NetworkIn, Signal::NetworkOut).map(|(at, mbps)| (at, mbps, idle.network_below_mbps));
        let disk = self.traffic(Signal::DiskRead, Signal::DiskWrite).map(|(at, mbps)| (at, mbps, idle.disk_below_mbps));
        let gpus = self.answers.iter().filter(|(signal, _)| matches!(signal, Signal::Gpu(_)));
        let gpus = gpus.flat_map(|(_, samples)| samples).map(|(at, percent)| (*at, *percent, idle.gpu_below_percent));
        cpu.chain(network).chain(disk).chain(gpus)
    }

    /// Bytes of both directions per period, as Mbit/s.
    fn traffic(&self, one: Signal, other: Signal) -> impl Iterator<Item = Sample> + use<> {
        let mut bytes: BTreeMap<Timestamp, f64> = BTreeMap::new();
        for (at, count) in self.of(one).iter().chain(self.of(other)) {
            *bytes.entry(*at).or_default() += count;
        }
        bytes.into_iter().map(|(at, count)| (at, count * 8.0 / 1e6 / PERIOD.as_secs_f64()))
    }

    fn busy_until(&self, idle: &Idle) -> Option<Timestamp> {
        self.against_their_lines(idle).filter(|(_, value, line)| value >= line).map(|(at, ..)| at + PERIOD).max()
    }

    fn quiet(
        &self,
        instance: &Instance,
        devices: &[Series],
        names: &SeriesNames,
        window: Window,
        idle: &Idle,
    ) -> Result<Quiet, Unknown> {
        let expected = names.series_of(&instance.machine);
        let mut places = self.reporting_devices(devices, names, window);
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
        if instance.machine.vcpus == 0 {
            return Err(Unknown::TooFewSamples(Signal::Cpu));
        }
        for signal in [Signal::Cpu, Signal::NetworkIn, Signal::NetworkOut] {
            if coverage(self.of(signal), window) < idle.coverage_min_percent.get() || self.of(signal).is_empty() {
                return Err(Unknown::TooFewSamples(signal));
            }
        }
        let memory = self.answers.iter().filter(|(signal, _)| matches!(signal, Signal::GpuMemory(_)));
        let gpu_memory_held_mib = memory
            .filter_map(|(_, samples)| samples.iter().max_by_key(|(at, _)| *at))
            .map(|(_, mib)| *mib)
            .reduce(f64::max);
        Ok(Quiet {
            from: window.from,
            to: window.to,
            devices: reporting,
            coverage_percent,
            gpu_max_percent: maximum(
                self.answers
                    .iter()
                    .filter(|(signal, _)| matches!(signal, Signal::Gpu(_)))
                    .flat_map(|(_, samples)| samples)
                    .copied(),
            ),
            cpu_max_vcpus: round(maximum(self.of(Signal::Cpu).iter().copied()) / 100.0 * self.vcpus),
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
    fn reporting_devices<'d>(
        &self,
        devices: &'d [Series],
        names: &SeriesNames,
        window: Window,
    ) -> BTreeMap<&'d str, u8> {
        let mut periods: BTreeMap<&str, BTreeSet<Timestamp>> = BTreeMap::new();
        for (place, series) in (0..).zip(devices) {
            let device =
                series.dimensions.iter().find(|(key, _)| *key == names.device_dimension).map_or("", |(_, value)| value);
            let within = self.of(Signal::Gpu(place)).iter().map(|(at, _)| *at).filter(|at| *at < window.to);
            periods.entry(device).or_default().extend(within);
        }
        periods.retain(|_, periods| !periods.is_empty());
        periods.into_iter().map(|(device, periods)| (device, percent(periods.len(), window))).collect()
    }
}

fn coverage(samples: &[Sample], window: Window) -> u8 {
    percent(samples.iter().filter(|(at, _)| *at < window.to).map(|(at, _)| at).collect::<BTreeSet<_>>().len(), window)
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
