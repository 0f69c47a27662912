//! The GPU metrics that a job's machine publishes to `CloudWatch`, under the names of the `CloudWatch` agent: one series for each figure of each
//! GPU, and one of the busiest GPU of the job. They have their own namespace, which `reap-instances` never reads.

mod trend;

use std::collections::BTreeMap;

use billing::energy::AcceleratorLoad;
use jiff::SignedDuration;
use model::config::{JOB_METRICS_NAMESPACE, SeriesNames};
use model::id::ResourceId;
use model::usage::{ACCELERATOR_MEMORY_MIB_MAX, MetricSeries};
use serde::{Deserialize, Serialize};

use super::JobId;

pub use trend::GpuTrend;

/// NVML's utilisation covers the last sixth of a second to a second (NVML API reference, `nvmlDeviceGetUtilizationRates`), so only frequent samples
/// see bursts.
pub const SAMPLED_EVERY: SignedDuration = SignedDuration::from_secs(5);

/// The finest that `CloudWatch` keeps of a standard metric (`CloudWatch` API reference, `MetricDatum`, `StorageResolution`).
pub const PUBLISHED_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// No instance type has more than 16. With each of these GPUs a call has 193 of 1,000 data (`PutMetricData`).
pub const GPUS_MAX: u32 = 64;

/// The dimension of the series that is of a whole job. The machine is no dimension, so the series continues with the job, an alarm
/// can watch it, and it does not look like one more GPU.
pub const JOB_DIMENSION: &str = "Job";

/// The power of a board in watts (`CloudWatch` user guide, "Collect NVIDIA GPU metrics").
const POWER_WATTS: &str = "nvidia_smi_power_draw";

/// One sample of one GPU; `None` for figures that it does not report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuSample {
    /// NVML's index, which is `nvidia-smi`'s.
    pub index: u32,
    /// Its product name.
    pub name: Option<String>,
    /// The time in which kernels ran, in percent.
    pub utilization_percent: Option<u32>,
    /// Memory held, in MiB.
    pub memory_used_mib: Option<u32>,
    /// Power of the whole board, in milliwatts.
    pub power_milliwatts: Option<u32>,
}

/// No board draws so much.
const POWER_MILLIWATTS_MAX: u32 = 10_000_000;

impl GpuSample {
    /// The sample without figures that no GPU has, such as the largest integer, and for people which these were.
    #[must_use]
    pub fn without_impossible(mut self) -> (Self, Vec<String>) {
        let Self { index, utilization_percent, memory_used_mib, power_milliwatts, .. } = &mut self;
        let figures = [
            ("utilisation", utilization_percent, 100),
            ("memory", memory_used_mib, ACCELERATOR_MEMORY_MIB_MAX),
            ("power", power_milliwatts, POWER_MILLIWATTS_MAX),
        ];
        let mut refused = Vec::new();
        for (what, figure, most) in figures {
            if figure.take_if(|value| *value > most).is_some() {
                refused.push(format!("GPU {index} reports an impossible {what}, which is not published"));
            }
        }
        (self, refused)
    }
}

/// Mean work of the GPUs of a machine, over all of them and all samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuWork {
    /// The machine.
    pub instance: ResourceId,
    /// The power of all of them together; `None` if one does not report it.
    #[serde(default)]
    pub milliwatts: Option<u64>,
    #[serde(default)]
    pub utilization_percent: Option<u8>,
}

impl GpuWork {
    /// Returns the load by the power of the GPUs, or else by their utilization.
    #[must_use]
    pub fn load(&self) -> AcceleratorLoad {
        let measured = self.milliwatts.map(|milliwatts| AcceleratorLoad::Measured { milliwatts });
        let utilized = self.utilization_percent.map(|percent| AcceleratorLoad::Utilization { percent });
        measured.or(utilized).unwrap_or_default()
    }
}

/// The means of all GPUs of a machine. A moment without a figure of one of them does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuMeans {
    milliwatts: Mean,
    utilization_percent: Mean,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    fn add(&mut self, values: impl Iterator<Item = Option<u32>>) {
        if let Some(values) = values.collect::<Option<Vec<u32>>>().filter(|values| !values.is_empty()) {
            self.sum = values.iter().fold(self.sum, |sum, value| sum.saturating_add((*value).into()));
            self.count = self.count.saturating_add(u64::try_from(values.len()).unwrap_or_default());
        }
    }

    fn times(self, factor: u64) -> Option<u64> {
        self.sum.saturating_mul(factor).checked_div(self.count)
    }
}

impl GpuMeans {
    /// One moment.
    pub fn add(&mut self, gpus: &[GpuSample]) {
        self.milliwatts.add(gpus.iter().map(|gpu| gpu.power_milliwatts));
        self.utilization_percent.add(gpus.iter().map(|gpu| gpu.utilization_percent));
    }

    /// Returns the work of so many GPUs of this machine.
    #[must_use]
    pub fn to_work(self, instance: &str, gpus: usize) -> GpuWork {
        let percent = self.utilization_percent.times(1);
        GpuWork {
            instance: instance.into(),
            milliwatts: self.milliwatts.times(u64::try_from(gpus).unwrap_or_default()),
            utilization_percent: percent.and_then(|percent| u8::try_from(percent).ok()),
        }
    }
}

/// The samples of one series within a minute.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuMetric {
    pub series: MetricSeries,
    /// Each value that was seen, in the metric's unit, and how often.
    pub values: Vec<(f64, u32)>,
}

/// The samples of this machine as the data of one call of `PutMetricData`. Missing figures are left out: a zero would mean idle.
#[must_use]
pub fn data(moments: &[Vec<GpuSample>], instance: &str, job: &JobId) -> Vec<GpuMetric> {
    let names = SeriesNames::default();
    let mut counts: BTreeMap<MetricSeries, BTreeMap<u32, u32>> = BTreeMap::new();
    let mut take = |metric: &str, dimensions: &[(String, String)], value: Option<u32>| {
        if let Some(value) = value {
            let series = MetricSeries {
                namespace: JOB_METRICS_NAMESPACE.to_owned(),
                metric: metric.to_owned(),
                dimensions: dimensions.to_vec(),
            };
            *counts.entry(series).or_default().entry(value).or_default() += 1;
        }
    };
    for gpus in moments {
        for gpu in gpus {
            let own = dimensions_of(gpu, instance, &names);
            take(&names.utilization, &own, gpu.utilization_percent);
            take(&names.memory_used_mib, &own, gpu.memory_used_mib);
            take(POWER_WATTS, &own, gpu.power_milliwatts);
        }
        let busiest = gpus.iter().filter_map(|gpu| gpu.utilization_percent).max();
        take(&names.utilization, &[(JOB_DIMENSION.to_owned(), ascii(&job.to_string()))], busiest);
    }
    let datum = |(series, values): (MetricSeries, BTreeMap<u32, u32>)| {
        let unit = if series.metric == POWER_WATTS { 1000.0 } else { 1.0 };
        let values = values.into_iter().map(|(value, count)| (f64::from(value) / unit, count)).collect();
        GpuMetric { series, values }
    };
    counts.into_iter().map(datum).collect()
}

/// The use of the busiest GPU, in percent: the mean over all moments that have one; `None` without one.
#[must_use]
pub fn mean_of_busiest(moments: &[Vec<GpuSample>]) -> Option<f64> {
    let busiest = moments.iter().filter_map(|gpus| gpus.iter().filter_map(|gpu| gpu.utilization_percent).max());
    let (sum, count) = busiest.fold((0.0, 0_u32), |(sum, count), percent| (sum + f64::from(percent), count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn dimensions_of(gpu: &GpuSample, instance: &str, names: &SeriesNames) -> Vec<(String, String)> {
    let own = [
        (names.instance_dimension.clone(), instance.to_owned()),
        (names.device_dimension.clone(), gpu.index.to_string()),
    ];
    let name = gpu.name.as_deref().map(|name| ("name".to_owned(), ascii(name)));
    own.into_iter().chain(name).collect()
}

/// One character that is none of ASCII, and the whole call is refused (`CloudWatch` API reference, `Dimension`).
fn ascii(value: &str) -> String {
    value.chars().map(|character| if matches!(character, ' '..='~') { character } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::config::Config;

    fn gpu(index: u32, utilization_percent: u32) -> GpuSample {
        let name = Some("NVIDIA L4".to_owned());
        let (utilization_percent, memory_used_mib) = (Some(utilization_percent), Some(18_000));
        GpuSample { index, name, utilization_percent, memory_used_mib, power_milliwatts: Some(71_250) }
    }

    fn job() -> JobId {
        JobId::read("vision/llama-1a2b3c4d").unwrap()
    }

    fn published(moments: &[Vec<GpuSample>]) -> Vec<String> {
        let line = |datum: GpuMetric| {
            let dimensions: Vec<String> =
                datum.series.dimensions.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{} {} {:?}", datum.series.metric, dimensions.join(","), datum.values)
        };
        data(moments, "i-1", &job()).into_iter().map(line).collect()
    }

    #[test]
    fn each_figure_of_each_gpu_and_the_busiest_of_the_job() {
        let moments = [vec![gpu(0, 0), gpu(1, 90)], vec![gpu(0, 30), gpu(1, 0)], vec![gpu(0, 0), gpu(1, 90)]];
        let expect = [
            "nvidia_smi_memory_used InstanceId=i-1,index=0,name=NVIDIA L4 [(18000.0, 3)]",
            "nvidia_smi_memory_used InstanceId=i-1,index=1,name=NVIDIA L4 [(18000.0, 3)]",
            "nvidia_smi_power_draw InstanceId=i-1,index=0,name=NVIDIA L4 [(71.25, 3)]",
            "nvidia_smi_power_draw InstanceId=i-1,index=1,name=NVIDIA L4 [(71.25, 3)]",
            "nvidia_smi_utilization_gpu InstanceId=i-1,index=0,name=NVIDIA L4 [(0.0, 2), (30.0, 1)]",
            "nvidia_smi_utilization_gpu InstanceId=i-1,index=1,name=NVIDIA L4 [(0.0, 1), (90.0, 2)]",
            "nvidia_smi_utilization_gpu Job=vision/llama-1a2b3c4d [(30.0, 1), (90.0, 2)]",
        ];
        assert_eq!(published(&moments), expect);
    }

    #[test]
    fn the_busiest_gpu_stands_for_all_of_them() {
        let check = |moments: &[Vec<GpuSample>], expect| assert_eq!(mean_of_busiest(moments), expect);
        check(&[vec![gpu(0, 0), gpu(1, 90)], vec![gpu(0, 30), gpu(1, 0)]], Some(60.0));
        let silent = GpuSample { index: 0, ..GpuSample::default() };
        check(&[vec![silent.clone()], vec![gpu(0, 7)], vec![]], Some(7.0));
        check(&[vec![silent], vec![]], None);
    }

    #[test]
    fn a_missing_figure_is_not_published_as_zero() {
        let silent = GpuSample { index: 0, ..GpuSample::default() };
        assert_eq!(published(&[vec![silent.clone()], vec![]]), [""; 0]);
        let memory_alone = GpuSample { memory_used_mib: Some(5), ..silent };
        assert_eq!(published(&[vec![memory_alone]]), ["nvidia_smi_memory_used InstanceId=i-1,index=0 [(5.0, 1)]"]);
    }

    #[test]
    fn the_mean_is_that_of_all_gpus_and_of_all_moments_that_tell_it() {
        let mut means = GpuMeans::default();
        assert_eq!((means.to_work("i-1", 2).milliwatts, means.to_work("i-1", 2).utilization_percent), (None, None));
        means.add(&[gpu(0, 100), gpu(1, 0)]);
        means.add(&[gpu(0, 50), GpuSample { power_milliwatts: None, ..gpu(1, 50) }]);
        means.add(&[]);
        let work = means.to_work("i-1", 2);
        assert_eq!((work.milliwatts, work.utilization_percent), (Some(142_500), Some(50)));
        assert_eq!(work.load(), AcceleratorLoad::Measured { milliwatts: 142_500 });
    }

    #[test]
    fn no_name_gets_all_of_it_refused() {
        let metrics = data(&[vec![gpu(0, 5)]], "i-1", &JobId::read("Größe/llama-1a2b3c4d").unwrap());
        let job_metric = metrics.iter().find(|datum| datum.series.dimensions[0].0 == JOB_DIMENSION).unwrap();
        assert_eq!(job_metric.series.dimensions[0].1, "Gr__e/llama-1a2b3c4d");
    }

    #[test]
    fn no_configuration_accepts_metrics_of_jobs_as_evidence() {
        let metrics = data(&[vec![gpu(0, 0), gpu(1, 0)]], "i-1", &job());
        assert!(metrics.iter().all(|datum| datum.series.namespace == JOB_METRICS_NAMESPACE));
        assert_ne!(SeriesNames::default().namespace, JOB_METRICS_NAMESPACE);
        let kinds = ["nvidia", "amd", "neuron"];
        for refused in kinds
            .map(|kind| format!("[metrics.{kind}]\nutilization = \"gpu\"\nnamespace = \"{JOB_METRICS_NAMESPACE}\"\n"))
        {
            let error = Config::read(&refused).unwrap_err().to_string();
            assert!(error.contains("`Curfew/Jobs` is written by the machines of jobs"), "{error}");
        }
    }

    #[test]
    fn curfews_own_metrics_are_no_evidence() {
        let text = format!("[metrics.nvidia]\nnamespace = \"{}\"\n", model::config::ACCOUNT_METRICS_NAMESPACE);
        let error = Config::read(&text).unwrap_err().to_string();
        assert!(error.contains("`Curfew/Account` is written by Curfew itself"), "{error}");
    }

    #[test]
    fn a_figure_that_no_gpu_has_is_missing() {
        let blank = Some(u32::MAX);
        let all = GpuSample { memory_used_mib: blank, power_milliwatts: blank, ..gpu(3, u32::MAX) };
        let (sample, refused) = all.without_impossible();
        assert_eq!(sample, GpuSample { index: 3, name: sample.name.clone(), ..GpuSample::default() });
        assert_eq!(refused.len(), 3);
        assert_eq!(refused[0], "GPU 3 reports an impossible utilisation, which is not published");
        assert_eq!(gpu(0, 100).without_impossible(), (gpu(0, 100), Vec::new()));
    }

    #[test]
    fn the_most_gpus_fit_one_call() {
        let all = (0..GPUS_MAX).map(|index| gpu(index, 1)).collect();
        assert_eq!(published(&[all]).len(), 193);
    }
}
