//! It is noon; the default window is 10:50 to 11:50, in 12 periods.

mod busy;
mod power;
mod unknown;

use jiff::SignedDuration;

use super::*;
use crate::config::Config;
use crate::fixture::{InstanceBuilder, NOW, instance, time};
use crate::instance::Accelerator;
use crate::usage::IdleEvidence;

/// An instance and its samples; by default everything reports, and nothing happens.
struct SampledInstance {
    instance: Instance,
    answers: BTreeMap<MetricSignal, Vec<Sample>>,
    devices: DeviceSeries,
    names: Option<SeriesNames>,
    window: UsageWindow,
    idle: IdleConfig,
}

const NETWORK: [MetricSignal; 2] = [MetricSignal::NetworkIn, MetricSignal::NetworkOut];
/// Bytes of a 5-minute period at 1 Mbit/s.
const MBIT: f64 = 1e6 / 8.0 * 300.0;

fn device(index: u32) -> MetricSeries {
    let dimension = |key: &str, value: String| (key.to_owned(), value);
    MetricSeries {
        namespace: "CWAgent".to_owned(),
        metric: "nvidia_smi_utilization_gpu".to_owned(),
        dimensions: vec![dimension("InstanceId", "i-0abc".to_owned()), dimension("index", index.to_string())],
    }
}

fn watched(of: InstanceBuilder, config: &str) -> SampledInstance {
    let instance = of.build();
    let config = Config::read(config).unwrap();
    let window = UsageWindow::ending_before(time(NOW), config.idle.window);
    let mut watched = SampledInstance {
        devices: (0..instance.machine.accelerators).map(device).collect::<Vec<_>>().into(),
        answers: BTreeMap::new(),
        names: config.metrics.nvidia,
        window,
        idle: config.idle,
        instance,
    };
    for place in 0..watched.instance.machine.accelerators {
        watched = watched.everywhere(MetricSignal::Gpu(place), 0.0);
    }
    NETWORK
        .into_iter()
        .fold(watched.everywhere(MetricSignal::Cpu, 1.0), |watched, signal| watched.everywhere(signal, 0.1 * MBIT))
}

fn quiet() -> SampledInstance {
    watched(instance(), "")
}

fn clock(text: &str) -> Timestamp {
    time(&format!("2026-09-01T{text}:00Z"))
}

impl SampledInstance {
    /// The same value in every period of the window.
    fn everywhere(mut self, signal: MetricSignal, value: f64) -> Self {
        let periods = 0..i32::try_from(self.window.periods()).unwrap();
        let samples = periods.map(|period| (self.window.from + PERIOD * period, value)).collect();
        self.answers.insert(signal, samples);
        self
    }

    fn at_period(mut self, clock_time: &str, signal: MetricSignal, value: f64) -> Self {
        let samples = self.answers.entry(signal).or_default();
        samples.retain(|(at, _)| *at != clock(clock_time));
        samples.push((clock(clock_time), value));
        self
    }

    fn without(mut self, signal: MetricSignal) -> Self {
        self.answers.remove(&signal);
        self
    }

    fn without_the_first(mut self, count: usize, signal: MetricSignal) -> Self {
        self.answers.get_mut(&signal).unwrap().drain(..count);
        self
    }

    fn usage(&self) -> Usage {
        evaluate(&self.instance, &self.answers, &self.devices, self.names.as_ref(), self.window, &self.idle)
    }

    fn quiet(&self) -> IdleEvidence {
        match self.usage() {
            Usage::Idle(quiet) => quiet,
            usage => panic!("{usage:?}"),
        }
    }
}

fn check(watched: &SampledInstance, expect: &str) {
    let found = match watched.usage() {
        Usage::Idle(quiet) => format!("idle{}", if quiet.reserved { ", reserved" } else { "" }),
        Usage::Busy(busy) => format!("busy until {}", busy.until.strftime("%H:%M")),
        Usage::Unknown(UnknownUsage::Uninstrumented(report)) => {
            format!("{} of {} report", report.reporting.len(), report.devices)
        }
        Usage::Unknown(UnknownUsage::ImpossibleValue { measure, metric, value }) => {
            format!("impossible {metric} {measure:?} {value}")
        }
        Usage::Unknown(unknown) => format!("{unknown:?}"),
    };
    assert_eq!(found, expect);
}

mod windows {
    use super::*;

    fn check(now: &str, minutes: i64, expect: &str) {
        let window =
            UsageWindow::ending_before(time(&format!("2026-09-01T{now}Z")), SignedDuration::from_mins(minutes));
        let found =
            format!("{}..{} {}", window.from.strftime("%H:%M:%S"), window.to.strftime("%H:%M:%S"), window.periods());
        assert_eq!(found, expect);
    }

    #[test]
    fn are_whole_periods_and_end_ten_minutes_ago() {
        check("12:00:00", 60, "10:50:00..11:50:00 12");
        check("12:04:59", 60, "10:50:00..11:50:00 12");
        check("12:05:00", 60, "10:55:00..11:55:00 12");
        check("12:00:00.999", 60, "10:50:00..11:50:00 12");
    }

    #[test]
    fn are_rounded_up_and_have_one_period_at_least() {
        check("12:00:00", 7, "11:40:00..11:50:00 2");
        check("12:00:00", 5, "11:45:00..11:50:00 1");
        check("12:00:00", 0, "11:45:00..11:50:00 1");
    }
}

mod idle {
    use super::*;

    #[test]
    fn disk_may_be_absent() {
        assert_eq!(quiet().quiet().disk_max_mbps, None);
        assert_eq!(quiet().everywhere(MetricSignal::DiskRead, 2.0 * MBIT).quiet().disk_max_mbps, Some(2.0));
    }

    #[test]
    fn held_memory_is_reserved() {
        let held = |mib| quiet().everywhere(MetricSignal::GpuMemory(0), mib);
        check(&held(1024.0), "idle");
        check(&held(1024.5), "idle, reserved");
        check(&held(20_000.0).at_period("11:55", MetricSignal::GpuMemory(0), 3.0), "idle");
        assert_eq!(held(3.0).quiet().gpu_memory_held_mib, Some(3.0));
        assert_eq!(quiet().quiet().gpu_memory_held_mib, None);
    }

    #[test]
    fn the_fullest_device_tells_how_much_memory_is_held() {
        let two = watched(instance().accelerators(Accelerator::Nvidia, 2), "");
        check(
            &two.everywhere(MetricSignal::GpuMemory(0), 3.0).everywhere(MetricSignal::GpuMemory(1), 9_000.0),
            "idle, reserved",
        );
    }

    #[test]
    fn two_series_of_one_device_are_one_device() {
        let driver_update = || {
            let mut watched = quiet();
            watched.devices = vec![device(0), device(0)].into();
            let samples = watched.answers[&MetricSignal::Gpu(0)].clone();
            watched.answers.insert(MetricSignal::Gpu(0), samples[..6].to_vec());
            watched.answers.insert(MetricSignal::Gpu(1), samples[6..].to_vec());
            watched
        };
        check(&driver_update(), "idle");
        assert_eq!((driver_update().quiet().devices, driver_update().quiet().coverage_percent), (1, 100));
        check(&driver_update().at_period("11:40", MetricSignal::Gpu(1), 80.0), "busy until 11:45");
        let mut two_gpus = driver_update();
        two_gpus.instance.machine.accelerators = 2;
        check(&two_gpus, "1 of 2 report");
    }

    #[test]
    fn a_fraction_of_a_gpu_is_one_device() {
        check(&watched(instance().of_type("g6f.large").accelerators(Accelerator::Nvidia, 1), ""), "idle");
    }

    #[test]
    fn a_neuron_device_has_a_series_per_core() {
        let neuron = |cores: u32| {
            let names =
                SeriesNames { series_per_device: 2, device_dimension: "core".to_owned(), ..SeriesNames::default() };
            let mut watched = watched(instance().accelerators(Accelerator::Neuron, cores), "");
            for series in &mut watched.devices.utilization {
                series.dimensions[1].0 = "core".to_owned();
            }
            watched.instance.machine.accelerators = 2;
            SampledInstance { names: Some(names), ..watched }
        };
        check(&neuron(4), "idle");
        check(&neuron(3), "3 of 4 report");
    }

    #[test]
    fn no_window_is_one_period() {
        let no_window = || watched(instance(), "[idle]\nwindow = \"0s\"");
        check(&no_window(), "idle");
        check(&no_window().without_the_first(1, MetricSignal::Gpu(0)), "0 of 1 report");
        check(&no_window().at_period("11:40", MetricSignal::Gpu(0), 100.0), "idle");
        check(&no_window().at_period("11:50", MetricSignal::Gpu(0), 100.0), "busy until 11:55");
    }

    #[test]
    fn the_evidence_is_the_highest_of_everything() {
        let evidence =
            quiet().at_period("11:20", MetricSignal::Gpu(0), 4.0).at_period("11:25", MetricSignal::Cpu, 20.0).quiet();
        assert_eq!((evidence.gpu_max_percent, evidence.cpu_max_vcpus), (Some(4.0), 0.8));
        assert_eq!((evidence.network_max_mbps, evidence.coverage_percent, evidence.devices), (0.2, 100, 1));
        assert_eq!((evidence.from, evidence.to), (clock("10:50"), clock("11:50")));
    }
}
