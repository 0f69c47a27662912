//! Which metrics to ask for, in two rounds: CPU first, because one sample of it clears most working machines.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::config::SeriesNames;
use crate::id::ResourceId;
use crate::instance::{Instance, first_label};

/// One thing to know about an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signal {
    /// CPU, in percent of all vCPUs.
    Cpu,
    /// Bytes received per period.
    NetworkIn,
    /// Bytes sent per period.
    NetworkOut,
    /// Bytes read from EBS per period.
    DiskRead,
    /// Bytes written to EBS per period.
    DiskWrite,
    /// Utilisation of the device at this place of the list, in percent.
    Gpu(u32),
    /// Memory held on that device, in MiB.
    GpuMemory(u32),
}

/// One `CloudWatch` series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    /// Namespace.
    pub namespace: String,
    /// Metric name.
    pub metric: String,
    /// Dimension names and values.
    pub dimensions: Vec<(String, String)>,
}

/// How a period's samples become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// The largest.
    Maximum,
    /// All together.
    Sum,
}

/// One series of one instance, over one span of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// About whom.
    pub instance: ResourceId,
    /// About what.
    pub signal: Signal,
    /// By which series.
    pub series: Series,
    /// How its samples are folded.
    pub statistic: Statistic,
    /// From when on, at a whole period.
    pub from: Timestamp,
}

/// The first round: `CPUUtilization` (EC2 user guide, "Instance metrics").
#[must_use]
pub fn first_questions(instance: &Instance, from: Timestamp) -> Vec<Question> {
    vec![of_ec2(instance, Signal::Cpu, from)]
}

/// The second round: everything else, about an instance whose CPU did not show work.
#[must_use]
pub fn further_questions(
    instance: &Instance,
    devices: &[Series],
    names: Option<&SeriesNames>,
    from: Timestamp,
) -> Vec<Question> {
    let mut questions: Vec<Question> = [Signal::NetworkIn, Signal::NetworkOut, Signal::DiskRead, Signal::DiskWrite]
        .into_iter()
        .map(|signal| of_ec2(instance, signal, from))
        .collect();
    for (place, series) in (0..).zip(devices) {
        let ask = |signal, metric: &str| Question {
            instance: instance.id.clone(),
            signal,
            series: Series { metric: metric.to_owned(), ..series.clone() },
            statistic: Statistic::Maximum,
            from,
        };
        questions.push(ask(Signal::Gpu(place), &series.metric));
        if let Some(memory) = names.map(|names| &names.memory_used_mib).filter(|memory| !memory.is_empty()) {
            questions.push(ask(Signal::GpuMemory(place), memory));
        }
    }
    questions
}

fn of_ec2(instance: &Instance, signal: Signal, from: Timestamp) -> Question {
    let (metric, statistic) = match signal {
        Signal::NetworkIn => ("NetworkIn", Statistic::Sum),
        Signal::NetworkOut => ("NetworkOut", Statistic::Sum),
        Signal::DiskRead => ("EBSReadBytes", Statistic::Sum),
        Signal::DiskWrite => ("EBSWriteBytes", Statistic::Sum),
        Signal::Cpu | Signal::Gpu(_) | Signal::GpuMemory(_) => ("CPUUtilization", Statistic::Maximum),
    };
    Question {
        instance: instance.id.clone(),
        signal,
        series: Series {
            namespace: "AWS/EC2".to_owned(),
            metric: metric.to_owned(),
            dimensions: vec![("InstanceId".to_owned(), instance.id.as_str().to_owned())],
        },
        statistic,
        from,
    }
}

/// Which of the listed utilisation series are of which instance: by its id, else by a host name that is unique in the
/// region. Of several series of one device (a driver update changes its `name`) all are kept, so that one busy one counts.
#[must_use]
pub fn devices(listed: &[Series], names: &SeriesNames, instances: &[&Instance]) -> BTreeMap<ResourceId, Vec<Series>> {
    let by_host: BTreeMap<&str, &Instance> =
        instances.iter().filter_map(|instance| instance.host.as_deref().map(|host| (host, *instance))).collect();
    let by_id: BTreeMap<&str, &Instance> = instances.iter().map(|instance| (instance.id.as_str(), *instance)).collect();
    let mut found: BTreeMap<ResourceId, Vec<Series>> = BTreeMap::new();
    for series in listed {
        let dimension = |name: &str| {
            series.dimensions.iter().find(|(key, _)| !name.is_empty() && key == name).map(|(_, value)| value.as_str())
        };
        let instance = match dimension(&names.instance_dimension) {
            Some(id) => by_id.get(id),
            None => dimension(&names.host_dimension).and_then(|host| by_host.get(first_label(host))),
        };
        if let Some(instance) = instance {
            found.entry(instance.id.clone()).or_default().push(series.clone());
        }
    }
    found
}
