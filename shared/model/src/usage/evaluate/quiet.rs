//! Devices at rest, by their utilisation or by their power, and what else has to be quiet for idleness.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{InstanceSamples, device_of, measure_of, memory_held};
use crate::config::{IdleConfig, SeriesNames};
use crate::usage::range::round;
use crate::usage::{
    DeviceReport, DeviceSeries, IdleEvidence, MetricSignal, PowerReport, Sample, UnknownUsage, UsageMeasure,
    UsageWindow, idle_below_percent, power_device, reads_power,
};

/// The devices of an instance, all at rest.
struct QuietDevices {
    devices: u32,
    coverage_percent: u8,
    gpu_max_percent: Option<f64>,
    gpu_power_max_percent: Option<f64>,
}

impl InstanceSamples<'_> {
    /// The devices at rest, by their utilisation; by their power where fewer of them report.
    fn quiet_devices(
        &self,
        devices: &DeviceSeries,
        names: &SeriesNames,
        idle: &IdleConfig,
    ) -> Result<QuietDevices, UnknownUsage> {
        let is_gpu = |signal| matches!(signal, MetricSignal::Gpu(_));
        let device_maximum = |signal| match signal {
            MetricSignal::Gpu(place) => {
                let series = devices.utilization.get(usize::try_from(place).ok()?)?;
                Some(device_of(series, names).to_owned())
            }
            _ => None,
        };
        let mut places = self.reporting_devices(device_maximum);
        let reporting = places.keys().cloned().collect();
        let report = DeviceReport::new(names.series_of(&self.instance.machine), reporting, &devices.utilization, names);
        if !report.is_full() {
            // Where utilisation has values that it cannot have, people should see to it.
            return match self.impossible_or(UnknownUsage::Uninstrumented(report), is_gpu, devices, names) {
                UnknownUsage::Uninstrumented(report) => self.quiet_by_power(devices, idle, report),
                impossible => Err(impossible),
            };
        }
        if names.may_be_ratios(self.gpus().map(|(_, value)| value).collect::<Vec<_>>().into_iter()) {
            return Err(UnknownUsage::UnitUnclear);
        }
        places.retain(|name, _| report.reporting.contains(name));
        let seldom = places.iter().min_by_key(|(_, coverage_percent)| **coverage_percent);
        let (device, coverage_percent) = seldom.map_or(("", 0), |(device, percent)| (device.as_str(), *percent));
        if coverage_percent < idle.coverage_min_percent.get() {
            let measure = UsageMeasure::Gpu(Some(device).filter(|name| !name.is_empty()).map(str::to_owned));
            return Err(self.impossible_or(UnknownUsage::TooFewSamples(measure), is_gpu, devices, names));
        }
        Ok(QuietDevices {
            devices: u32::try_from(report.reporting.len()).unwrap_or(u32::MAX),
            coverage_percent,
            gpu_max_percent: Some(maximum(self.gpus())),
            gpu_power_max_percent: None,
        })
    }

    /// The devices at rest by their power: all of them report it, often enough, and each stays below the threshold of its model.
    fn quiet_by_power(
        &self,
        devices: &DeviceSeries,
        idle: &IdleConfig,
        report: DeviceReport,
    ) -> Result<QuietDevices, UnknownUsage> {
        let machine = &self.instance.machine;
        if !reads_power(machine.accelerator, idle) || devices.power.is_empty() {
            return Err(UnknownUsage::Uninstrumented(report));
        }
        let mut coverages = self.reporting_devices(|signal| match signal {
            MetricSignal::GpuPower(place) => devices.power.get(usize::try_from(place).ok()?).map(power_device),
            _ => None,
        });
        if machine.accelerators > 1 {
            coverages.remove("");
        }
        let reporting = u32::try_from(coverages.len()).unwrap_or(u32::MAX);
        let max_percent = self.power().map(|(_, (_, value))| value).reduce(f64::max);
        let idle_below_percent = idle_below_percent(self.instance, idle);
        let coverage_percent = coverages.into_values().min().unwrap_or_default();
        let is_idle = max_percent.zip(idle_below_percent).is_some_and(|(most, line)| most < line)
            && machine.accelerators > 0
            && reporting >= machine.accelerators
            && coverage_percent >= idle.coverage_min_percent.get();
        if !is_idle {
            let power = PowerReport { reporting, max_percent: max_percent.map(round), idle_below_percent };
            return Err(UnknownUsage::Uninstrumented(DeviceReport { power: Some(Box::new(power)), ..report }));
        }
        Ok(QuietDevices {
            devices: reporting,
            coverage_percent,
            gpu_max_percent: None,
            gpu_power_max_percent: max_percent.map(round),
        })
    }

    pub(super) fn quiet(
        &self,
        devices: &DeviceSeries,
        names: &SeriesNames,
        idle: &IdleConfig,
    ) -> Result<IdleEvidence, UnknownUsage> {
        let window = self.window;
        let coverage_min = idle.coverage_min_percent.get();
        let quiet = self.quiet_devices(devices, names, idle)?;
        if self.instance.machine.vcpus == 0 {
            return Err(UnknownUsage::TooFewSamples(UsageMeasure::Cpu));
        }
        for (signal, measure) in [
            (MetricSignal::Cpu, UsageMeasure::Cpu),
            (MetricSignal::NetworkIn, UsageMeasure::Network),
            (MetricSignal::NetworkOut, UsageMeasure::Network),
        ] {
            if coverage(self.samples_of(signal), window) < coverage_min || self.is_silent(signal) {
                let seldom = UnknownUsage::TooFewSamples(measure);
                return Err(self.impossible_or(seldom, |one| one == signal, devices, names));
            }
        }
        // Disks and memory need not report. Where they report what cannot be, they are judged like the others.
        let is_optional = |signal: &MetricSignal| {
            matches!(signal, MetricSignal::DiskRead | MetricSignal::DiskWrite | MetricSignal::GpuMemory(_))
        };
        let is_unread = |signal: &MetricSignal| {
            let has_impossible = self.reported(*signal).count() > self.samples_of(*signal).count();
            has_impossible && (self.is_silent(*signal) || coverage(self.samples_of(*signal), window) < coverage_min)
        };
        if let Some(unread) = self.answers.keys().copied().filter(is_optional).find(is_unread) {
            let seldom = UnknownUsage::TooFewSamples(measure_of(unread, devices, Some(names)));
            return Err(self.impossible_or(seldom, |one| one == unread, devices, names));
        }
        let held = memory_held(self.instance, self.answers, window);
        let gpu_memory_held_mib = held.map(|(_, mib)| mib);
        Ok(IdleEvidence {
            from: window.from,
            to: window.to,
            devices: quiet.devices,
            coverage_percent: quiet.coverage_percent,
            gpu_max_percent: quiet.gpu_max_percent,
            gpu_power_max_percent: quiet.gpu_power_max_percent,
            cpu_max_vcpus: round(maximum(self.samples_of(MetricSignal::Cpu)) / 100.0 * self.vcpus()),
            network_max_mbps: round(maximum(self.traffic(MetricSignal::NetworkIn, MetricSignal::NetworkOut))),
            disk_max_mbps: self
                .traffic(MetricSignal::DiskRead, MetricSignal::DiskWrite)
                .map(|(_, mbps)| mbps)
                .reduce(f64::max)
                .map(round),
            gpu_memory_held_mib,
            reserved: gpu_memory_held_mib.is_some_and(|held| held > idle.gpu_memory_held_mib),
        })
    }

    /// Each device that reported within the window, by its name, with its coverage in percent. Several series of one device are one device:
    /// their periods add up.
    fn reporting_devices(&self, name_of: impl Fn(MetricSignal) -> Option<String>) -> BTreeMap<String, u8> {
        let mut periods: BTreeMap<String, BTreeSet<Timestamp>> = BTreeMap::new();
        for signal in self.answers.keys().copied() {
            let Some(device) = name_of(signal) else { continue };
            let within = self.samples_of(signal).map(|(at, _)| at).filter(|at| *at < self.window.to);
            periods.entry(device).or_default().extend(within);
        }
        periods.retain(|_, periods| !periods.is_empty());
        periods.into_iter().map(|(device, periods)| (device, percent(periods.len(), self.window))).collect()
    }
}

fn coverage(samples: impl Iterator<Item = Sample>, window: UsageWindow) -> u8 {
    let within = samples.map(|(at, _)| at).filter(|at| *at < window.to);
    percent(within.collect::<BTreeSet<_>>().len(), window)
}

fn percent(periods: usize, window: UsageWindow) -> u8 {
    u8::try_from(periods * 100 / window.periods().max(1)).unwrap_or(100).min(100)
}

fn maximum(samples: impl Iterator<Item = Sample>) -> f64 {
    samples.map(|(_, value)| value).fold(0.0, f64::max)
}
