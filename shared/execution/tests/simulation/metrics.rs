//! The activity of machines in 5-minute periods, and when `CloudWatch` shows it.

use std::collections::VecDeque;

use model::instance::Accelerator;
use model::usage::{MetricQuestion, MetricSeries, MetricSignal, Sample, Statistic};

use crate::chance::{HOUR, RandomStream, TICK, stamp};
use crate::world::{LastActivity, MachineWork, SimulatedMachine};

/// The number of stored periods: more than the longest window needs.
const KEPT: usize = 100;
/// A sample that never arrives.
pub(crate) const NEVER: i64 = i64::MAX;

#[derive(Debug, Clone, Copy)]
pub(crate) struct MachinePeriod {
    pub(crate) start: i64,
    /// The mean.
    pub(crate) cpu_vcpus: f64,
    /// The busiest minute.
    pub(crate) cpu_peak_vcpus: f64,
    pub(crate) network_mbps: f64,
    pub(crate) disk_mbps: f64,
    pub(crate) gpu_percent: [f64; 8],
    pub(crate) held_mib: f64,
    /// When EC2's own metrics of it can be read.
    pub(crate) ec2_at: i64,
    /// When its GPUs' samples can be read.
    pub(crate) gpu_at: i64,
    /// The GPU that was not measured.
    pub(crate) gpu_missing: Option<u32>,
    /// The value that its exporter publishes instead, if any.
    pub(crate) blank: Option<f64>,
}

impl MachinePeriod {
    /// Power of a GPU in percent of its maximum: one that is held draws more than one at rest.
    pub(crate) const fn power_percent(&self, gpu: usize) -> f64 {
        match (self.gpu_percent[gpu] > 0.0, self.held_mib > 1000.0) {
            (true, _) => 70.0,
            (false, true) => 25.0,
            (false, false) => 2.0,
        }
    }
}

#[derive(Default)]
pub(crate) struct MachinePeriods {
    all: VecDeque<MachinePeriod>,
}

impl MachinePeriods {
    /// From the newest back, those that begin at `from` or later.
    pub(crate) fn since(&self, from: i64) -> impl Iterator<Item = &MachinePeriod> {
        self.all.iter().rev().take_while(move |period| period.start >= from)
    }

    fn push(&mut self, period: MachinePeriod) {
        if self.all.len() == KEPT {
            self.all.pop_front();
        }
        self.all.push_back(period);
    }
}

/// The delay of samples: within AWS's documented limit, or worse.
#[derive(Clone, Copy)]
pub(crate) struct PublishingDelays {
    pub(crate) missing: f64,
    pub(crate) late: f64,
}

/// The result of a period's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublishResult {
    InTime,
    Missing,
    Late,
}

impl SimulatedMachine {
    /// The activity in the tick that ends now.
    pub(crate) fn work_a_period(
        &mut self,
        now: i64,
        publishing: PublishingDelays,
        chance: &mut RandomStream,
    ) -> PublishResult {
        let start = now - TICK;
        let mut period = MachinePeriod {
            start,
            cpu_vcpus: 0.2,
            cpu_peak_vcpus: 0.2,
            network_mbps: 0.5,
            disk_mbps: 0.3,
            gpu_percent: [0.0; 8],
            held_mib: 4.0,
            ec2_at: now + 120 + chance.between(0, 460),
            gpu_at: now + chance.between(0, 120),
            gpu_missing: None,
            blank: None,
        };
        // Once an hour something keeps one core busy for a minute, such as an inventory.
        if start.rem_euclid(HOUR) < TICK {
            (period.cpu_vcpus, period.cpu_peak_vcpus) = (0.4, 1.2);
        }
        // Booting takes CPU.
        let work = if start < self.launched + TICK { MachineWork::Cpu } else { self.work };
        match work {
            MachineWork::Train => {
                period.gpu_percent = [90.0; 8];
                period.cpu_vcpus = 3.0;
                period.held_mib = 20_000.0;
            }
            MachineWork::OneGpu(gpu) => {
                period.gpu_percent[usize::try_from(gpu).unwrap_or(0)] = 60.0;
                period.held_mib = 8000.0;
            }
            MachineWork::Bursts if chance.one_in(5) => period.gpu_percent[0] = 40.0,
            MachineWork::Cpu => period.cpu_vcpus = 3.5,
            MachineWork::Network => period.network_mbps = 80.0,
            MachineWork::Disk => period.disk_mbps = 80.0,
            MachineWork::HoldsMemory => period.held_mib = 30_000.0,
            MachineWork::Bursts | MachineWork::Nothing => {}
        }
        let mut published = PublishResult::InTime;
        if chance.happens(publishing.missing) {
            published = PublishResult::Missing;
            match chance.below(3) {
                0 => period.ec2_at = NEVER,
                1 => period.gpu_at = NEVER,
                _ => {
                    period.gpu_missing = Some(u32::try_from(chance.below(8)).unwrap_or(0));
                    period.blank = chance.pick(&[None, Some(-1.0), Some(f64::from(u32::MAX))]);
                }
            }
        } else if chance.happens(publishing.late) {
            published = PublishResult::Late;
            let delay = chance.between(2 * TICK, 12 * TICK);
            if chance.one_in(2) { period.ec2_at += delay } else { period.gpu_at += delay }
        }
        let works = !matches!(work, MachineWork::Nothing | MachineWork::HoldsMemory)
            && (work != MachineWork::Bursts || period.gpu_percent[0] > 0.0);
        let does = if works {
            LastActivity::Works
        } else if work == MachineWork::HoldsMemory {
            LastActivity::Holds
        } else {
            LastActivity::Nothing
        };
        if does != LastActivity::Nothing {
            self.idle_since = now;
        }
        if does != self.does {
            self.does = does;
            self.work_changed_at = now;
        }
        self.periods.push(period);
        published
    }

    /// The samples of a question that are available at `now`.
    pub(crate) fn samples(&self, question: &MetricQuestion, now: i64) -> Vec<Sample> {
        let MetricQuestion { signal, ref series, statistic, from, period, .. } = *question;
        // No machine's periods are kept for days.
        if period.as_secs() != TICK {
            return Vec::new();
        }
        let is_peak = self.make.has_detailed_monitoring && statistic == Statistic::Maximum;
        let vcpus = f64::from(self.ec2.machine.vcpus);
        let bytes = |mbps: f64| mbps * 1e6 / 8.0 * 300.0 / 2.0;
        let gpu = gpu_of(series);
        let mut samples = Vec::new();
        for period in self.periods.since(from.as_second()) {
            let of_gpu = matches!(signal, MetricSignal::Gpu(_) | MetricSignal::GpuMemory(_));
            let readable_at = if of_gpu { period.gpu_at } else { period.ec2_at };
            if readable_at > now {
                continue;
            }
            if of_gpu && period.gpu_missing.is_some_and(|missing| Some(missing) == gpu) {
                samples.extend(period.blank.map(|blank| (stamp(period.start), blank)));
                continue;
            }
            let value = match signal {
                MetricSignal::Cpu if is_peak => period.cpu_peak_vcpus.max(period.cpu_vcpus) / vcpus * 100.0,
                MetricSignal::Cpu => period.cpu_vcpus / vcpus * 100.0,
                MetricSignal::NetworkIn | MetricSignal::NetworkOut => bytes(period.network_mbps),
                MetricSignal::DiskRead | MetricSignal::DiskWrite => bytes(period.disk_mbps),
                MetricSignal::Gpu(_) => period.gpu_percent[usize::try_from(gpu.unwrap_or(0)).unwrap_or(0)],
                MetricSignal::GpuMemory(_) => period.held_mib,
                MetricSignal::GpuPower(_) => {
                    // EC2 may have no value, or one that cannot be.
                    let power = period.power_percent(usize::try_from(gpu.unwrap_or(0)).unwrap_or(0));
                    if period.gpu_missing.is_some_and(|missing| Some(missing) == gpu) { -1.0 } else { power }
                }
            };
            samples.push((stamp(period.start), value));
        }
        samples
    }

    /// The series of it that `ListMetrics` names at `now`.
    pub(crate) fn listed_series(&self, is_power: bool, since: i64, now: i64) -> &[MetricSeries] {
        if is_power {
            return if self.periods.since(since).any(|period| period.ec2_at <= now) { &self.make.power } else { &[] };
        }
        // Neuron devices report nothing under NVIDIA's name.
        let silent = self.ec2.machine.accelerator != Accelerator::Nvidia;
        if !silent && self.periods.since(since).any(|period| period.gpu_at <= now) { &self.make.series } else { &[] }
    }
}

/// A GPU's series of power.
pub(crate) fn power_series_of(id: &str, gpu: u32) -> MetricSeries {
    let dimensions = vec![("InstanceId".to_owned(), id.to_owned()), ("GpuId".to_owned(), gpu.to_string())];
    MetricSeries { namespace: "AWS/EC2".to_owned(), metric: "GPUPowerUtilization".to_owned(), dimensions }
}

/// A GPU's utilisation series, by the instance's id or by its host.
pub(crate) fn series_of(named: Result<&String, &String>, gpu: u32) -> MetricSeries {
    let (key, value) = match named {
        Ok(id) => ("InstanceId", id),
        Err(host) => ("host", host),
    };
    let dimensions = vec![(key.to_owned(), value.clone()), ("index".to_owned(), gpu.to_string())];
    MetricSeries { namespace: "CWAgent".to_owned(), metric: "nvidia_smi_utilization_gpu".to_owned(), dimensions }
}

fn gpu_of(series: &MetricSeries) -> Option<u32> {
    series.dimensions.iter().find(|(key, _)| key == "index" || key == "GpuId").and_then(|(_, value)| value.parse().ok())
}
