//! Metrics to query, in two rounds: first the CPU, and the series that showed work the last time, because one sample of either clears most
//! working machines.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{PERIOD, UsageQuery};
use crate::config::SeriesNames;
use crate::id::ResourceId;
use crate::instance::{Instance, first_label};

/// One thing to know about an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricSignal {
    /// Mean CPU of a period, in percent of all vCPUs.
    Cpu,
    /// Bytes received per period.
    NetworkIn,
    /// Bytes sent per period.
    NetworkOut,
    /// Bytes read from EBS per period.
    DiskRead,
    /// Bytes written to EBS per period.
    DiskWrite,
    /// Highest utilisation of the device at this place of the list, in percent.
    Gpu(u32),
    /// Memory held on that device, in MiB.
    GpuMemory(u32),
    /// Highest power of the device at this place of the list of power, in percent of its maximum.
    GpuPower(u32),
}

/// One `CloudWatch` series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MetricSeries {
    pub namespace: String,
    /// Metric name.
    pub metric: String,
    /// Dimension names and values.
    pub dimensions: Vec<(String, String)>,
}

/// Statistic that makes one sample of a period's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// Their mean.
    Average,
    /// The largest.
    Maximum,
    /// Their sum.
    Sum,
}

/// One series of one instance, over one span of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricQuestion {
    pub instance: ResourceId,
    /// About what.
    pub signal: MetricSignal,
    pub series: MetricSeries,
    /// Statistic that folds its samples.
    pub statistic: Statistic,
    /// Start of the span, at a whole period.
    pub from: Timestamp,
    pub period: SignedDuration,
}

/// The series of an instance's devices that are listed, in the order of their signals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceSeries {
    /// Series of [`MetricSignal::Gpu`].
    pub utilization: Vec<MetricSeries>,
    /// Series of [`MetricSignal::GpuPower`].
    pub power: Vec<MetricSeries>,
}

impl From<Vec<MetricSeries>> for DeviceSeries {
    /// These series, and none of power.
    fn from(utilization: Vec<MetricSeries>) -> Self {
        Self { utilization, power: Vec::new() }
    }
}

/// The first round: `CPUUtilization` (EC2 user guide, "Instance metrics"), and what showed work the last time.
#[must_use]
pub fn first_questions(ask: &UsageQuery<'_>) -> Vec<MetricQuestion> {
    let cpu = question(ask, MetricSignal::Cpu, ec2_series(ask.instance, MetricSignal::Cpu));
    let likely = ask.likely.iter().map(|evidence| question(ask, evidence.signal, evidence.series.clone()));
    std::iter::once(cpu).chain(likely).collect()
}

/// Everything else that there is to know.
#[must_use]
pub fn further_questions(
    ask: &UsageQuery<'_>,
    devices: &DeviceSeries,
    names: Option<&SeriesNames>,
) -> Vec<MetricQuestion> {
    let mut questions: Vec<MetricQuestion> =
        [MetricSignal::NetworkIn, MetricSignal::NetworkOut, MetricSignal::DiskRead, MetricSignal::DiskWrite]
            .into_iter()
            .map(|signal| question(ask, signal, ec2_series(ask.instance, signal)))
            .collect();
    let power = (0..).zip(&devices.power);
    questions.extend(power.map(|(place, series)| question(ask, MetricSignal::GpuPower(place), series.clone())));
    for (place, series) in (0..).zip(&devices.utilization) {
        questions.push(question(ask, MetricSignal::Gpu(place), series.clone()));
        if let Some(names) = names.filter(|names| !names.memory_used_mib.is_empty()) {
            questions.push(question(ask, MetricSignal::GpuMemory(place), memory_of(series, names)));
        }
    }
    questions
}

fn question(ask: &UsageQuery<'_>, signal: MetricSignal, series: MetricSeries) -> MetricQuestion {
    let statistic = match signal {
        MetricSignal::NetworkIn | MetricSignal::NetworkOut | MetricSignal::DiskRead | MetricSignal::DiskWrite => {
            Statistic::Sum
        }
        // Detailed monitoring has a sample a minute, and basic monitoring one in 5 minutes, which is their mean. By the largest, one minute
        // of one core would be work under detailed monitoring alone.
        MetricSignal::Cpu => Statistic::Average,
        MetricSignal::Gpu(_) | MetricSignal::GpuMemory(_) | MetricSignal::GpuPower(_) => Statistic::Maximum,
    };
    MetricQuestion {
        instance: ask.instance.id.clone(),
        signal,
        series,
        statistic,
        from: ask.window.from,
        period: PERIOD,
    }
}

/// The memory that is held on the device of a utilisation series.
pub(super) fn memory_of(device: &MetricSeries, names: &SeriesNames) -> MetricSeries {
    MetricSeries { metric: names.memory_used_mib.clone(), ..device.clone() }
}

/// A series that EC2 itself publishes.
pub(super) fn ec2_series(instance: &Instance, signal: MetricSignal) -> MetricSeries {
    let metric = match signal {
        MetricSignal::NetworkIn => "NetworkIn",
        MetricSignal::NetworkOut => "NetworkOut",
        MetricSignal::DiskRead => "EBSReadBytes",
        MetricSignal::DiskWrite => "EBSWriteBytes",
        MetricSignal::Cpu | MetricSignal::Gpu(_) | MetricSignal::GpuMemory(_) | MetricSignal::GpuPower(_) => {
            "CPUUtilization"
        }
    };
    MetricSeries {
        namespace: "AWS/EC2".to_owned(),
        metric: metric.to_owned(),
        dimensions: vec![("InstanceId".to_owned(), instance.id.as_str().to_owned())],
    }
}

/// Owners of utilisation series: by the instance's id, else by a host name that is unique in the region.
#[derive(Debug)]
pub struct SeriesOwners<'a> {
    pub(super) names: &'a SeriesNames,
    by_id: BTreeMap<&'a str, &'a Instance>,
    by_host: BTreeMap<&'a str, &'a Instance>,
}

impl<'a> SeriesOwners<'a> {
    /// Among these instances, which report by these names.
    #[must_use]
    pub fn among(instances: impl Iterator<Item = &'a Instance> + Clone, names: &'a SeriesNames) -> Self {
        let with_host = |instance: &'a Instance| Some((instance.host.as_deref()?, instance));
        let by_host = instances.clone().filter_map(with_host).collect();
        Self { names, by_host, by_id: instances.map(|instance| (instance.id.as_str(), instance)).collect() }
    }

    /// Returns the instance that the series belongs to; `None` if it belongs to none of them.
    #[must_use]
    pub fn owner_of(&self, series: &MetricSeries) -> Option<&'a Instance> {
        if let Some(id) = series.dimension(&self.names.instance_dimension) {
            return self.by_id.get(id).copied();
        }
        let host = series.dimension(&self.names.host_dimension)?;
        self.by_host.get(first_label(host)).copied()
    }
}

/// The listed utilisation series by instance. Of several series of one device (a driver update changes its `name`) all are kept, so that one busy
/// one counts.
#[must_use]
pub fn devices(
    listed: impl IntoIterator<Item = MetricSeries>,
    owners: &SeriesOwners<'_>,
) -> BTreeMap<ResourceId, Vec<MetricSeries>> {
    let mut found: BTreeMap<ResourceId, Vec<MetricSeries>> = BTreeMap::new();
    for series in listed {
        if let Some(instance) = owners.owner_of(&series) {
            found.entry(instance.id.clone()).or_default().push(series);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{NOW, instance, time};
    use crate::usage::UsageWindow;

    fn series(dimensions: &[(&str, &str)]) -> MetricSeries {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        MetricSeries {
            namespace: "CWAgent".to_owned(),
            metric: "nvidia_smi_utilization_gpu".to_owned(),
            dimensions: dimensions.iter().map(own).collect(),
        }
    }

    /// The owner of a listed series: i-1 at host ip-1, i-2 at a host whose name repeats, or none.
    fn check(dimensions: &[(&str, &str)], expect: Option<&str>) {
        let (one, two) = (instance().id("i-1").host("ip-1").build(), instance().id("i-2").build());
        let names = SeriesNames::default();
        let found = devices([series(dimensions)], &SeriesOwners::among([&one, &two].into_iter(), &names));
        let owners: Vec<&str> = found.keys().map(ResourceId::as_str).collect();
        assert_eq!(owners, Vec::from_iter(expect), "{dimensions:?}");
    }

    #[test]
    fn a_series_is_found_by_the_instances_id_else_by_its_host() {
        check(&[("InstanceId", "i-2"), ("index", "0")], Some("i-2"));
        check(&[("host", "ip-1"), ("index", "0")], Some("i-1"));
        check(&[("host", "ip-1.ec2.internal"), ("index", "0")], Some("i-1"));
        check(&[("host", "ip-2"), ("index", "0")], None);
        check(&[("index", "0")], None);
    }

    #[test]
    fn a_series_that_names_another_instance_is_not_taken_by_its_host() {
        check(&[("InstanceId", "i-gone"), ("host", "ip-1")], None);
        check(&[("InstanceId", "i-2"), ("host", "ip-1")], Some("i-2"));
    }

    #[test]
    fn an_unconfigured_dimension_identifies_no_instance() {
        let names =
            SeriesNames { instance_dimension: String::new(), host_dimension: String::new(), ..SeriesNames::default() };
        let one = instance().id("i-1").host("ip-1").build();
        let listed = [series(&[("", "i-1"), ("InstanceId", "i-1"), ("host", "ip-1")])];
        assert!(devices(listed, &SeriesOwners::among([&one].into_iter(), &names)).is_empty());
    }

    #[test]
    fn all_series_of_a_device_are_kept() {
        let one = instance().id("i-1").build();
        let listed = [
            series(&[("InstanceId", "i-1"), ("index", "0"), ("name", "A10G")]),
            series(&[("InstanceId", "i-1"), ("index", "0"), ("name", "NVIDIA A10G")]),
        ];
        let names = SeriesNames::default();
        assert_eq!(devices(listed, &SeriesOwners::among([&one].into_iter(), &names))[&one.id].len(), 2);
    }

    /// `signal metric statistic`.
    fn show(questions: &[MetricQuestion]) -> Vec<String> {
        questions
            .iter()
            .map(|question| format!("{:?} {} {:?}", question.signal, question.series.metric, question.statistic))
            .collect()
    }

    #[test]
    fn cpu_is_asked_first_and_memory_where_it_has_a_name() {
        let one = instance().build();
        let window = UsageWindow::ending_before(time(NOW), SignedDuration::from_hours(1));
        let ask = UsageQuery::in_full(&one, window);
        assert_eq!(show(&first_questions(&ask)), ["Cpu CPUUtilization Average"]);
        let listed = DeviceSeries::from(vec![series(&[("InstanceId", "i-0abc"), ("index", "0")])]);
        let names = SeriesNames::default();
        let further = further_questions(&ask, &listed, Some(&names));
        assert_eq!(
            show(&further),
            [
                "NetworkIn NetworkIn Sum",
                "NetworkOut NetworkOut Sum",
                "DiskRead EBSReadBytes Sum",
                "DiskWrite EBSWriteBytes Sum",
                "Gpu(0) nvidia_smi_utilization_gpu Maximum",
                "GpuMemory(0) nvidia_smi_memory_used Maximum",
            ]
        );
        assert_eq!(further[4].series, listed.utilization[0]);
        assert_eq!(further[5].series.dimensions, listed.utilization[0].dimensions);
        let nameless = SeriesNames { memory_used_mib: String::new(), ..names };
        assert_eq!(further_questions(&ask, &listed, Some(&nameless)).len(), 5);
    }
}
