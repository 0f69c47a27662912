//! The reasons for unknown usage of an instance, in words: messages, `explain`, `scan` and `doctor` say the same.

use std::collections::BTreeSet;

use model::config::{MetricsConfig, SeriesNames};
use model::fault::shortened;
use model::foreign_text::quoted_unless_word;
use model::instance::{Accelerator, Instance};
use model::usage::{
    BasicUse, DeviceReport, MetricSeries, PowerReport, RejectionReason, UnknownUsage, UsageMeasure, format_impossible,
};

/// The most names of one list, and the most characters of each.
const NAMED_MAX: usize = 4;
const NAME_CHARACTERS_MAX: usize = 64;

const INSTALL: &str = "install the CloudWatch agent with its nvidia_gpu section (curfew metrics install)";

/// The reason, and the remedy.
pub(crate) fn describe_unknown(unknown: &UnknownUsage, instance: &Instance, metrics: &MetricsConfig) -> String {
    match unknown {
        UnknownUsage::NotAsked => "CloudWatch was not queried, or did not answer".to_owned(),
        UnknownUsage::Young => "it was launched too recently".to_owned(),
        UnknownUsage::GangMember(member) => format!("it works together with {member}, whose usage is unknown"),
        UnknownUsage::NoMetric => {
            "no metric is configured for its kind of accelerator ([metrics] in the configuration)".to_owned()
        }
        UnknownUsage::Silent { devices } => {
            let report = DeviceReport { devices: *devices, ..DeviceReport::default() };
            describe_report(&report, instance, metrics).join("; ")
        }
        UnknownUsage::Uninstrumented(report) => {
            let known = describe_known(report);
            known.into_iter().chain(describe_report(report, instance, metrics)).collect::<Vec<_>>().join("; ")
        }
        UnknownUsage::UnitUnclear => {
            "no sample of its utilisation is above 1, or much above, so they may be ratios or percent; set \
             `utilization_unit` to \"percent\" or \"ratio\" in the [metrics] section of its accelerators"
                .to_owned()
        }
        UnknownUsage::TooFewSamples(measure) => format!("{} reported too seldom in the window", measure_name(measure)),
        UnknownUsage::ImpossibleValue { measure, metric, value } => format!(
            "{} reported impossible values ({} was {}), so nothing was measured; see what publishes them",
            measure_name(measure),
            quote_name(metric),
            format_impossible(*value)
        ),
    }
}

/// The reason in a few words, for a column of a table.
pub(super) fn summarize_unknown(unknown: &UnknownUsage) -> String {
    match unknown {
        UnknownUsage::NotAsked => "no answer".to_owned(),
        UnknownUsage::Young => "launched too recently".to_owned(),
        UnknownUsage::GangMember(member) => format!("{member} of its gang?"),
        UnknownUsage::NoMetric => "no metric configured".to_owned(),
        UnknownUsage::Silent { devices } => format!("0 of {devices} GPUs report"),
        UnknownUsage::Uninstrumented(DeviceReport { reporting, devices, basic, .. }) => {
            let quiet = basic.as_ref().filter(|basic| basic.is_quiet);
            let quiet = quiet.map(|basic| format!("; {}", describe_rest(basic))).unwrap_or_default();
            format!("{} of {devices} GPUs report{quiet}", reporting.len())
        }
        UnknownUsage::UnitUnclear => "percent or ratio?".to_owned(),
        UnknownUsage::TooFewSamples(measure) => format!("{} reports too seldom", measure_name(measure)),
        UnknownUsage::ImpossibleValue { measure, value, .. } => {
            format!("{} reports {}", measure_name(measure), format_impossible(*value))
        }
    }
}

/// Facts that are known of an instance all the same: the power of its GPUs, and its CPU, network and disks.
#[must_use]
pub fn describe_known(report: &DeviceReport) -> Vec<String> {
    let basic = report.basic.iter().map(|basic| describe_basic(basic));
    basic.chain(report.power.iter().map(|power| describe_power(power))).collect()
}

fn describe_basic(basic: &BasicUse) -> String {
    let BasicUse { days, cpu_max_vcpus, network_max_mbps, disk_max_mbps, is_quiet } = basic;
    let disk = disk_max_mbps.map(|mbps| format!(", EBS at most {mbps:.1} Mbit/s")).unwrap_or_default();
    let plural = if *days == 1 { "" } else { "s" };
    let rest = if *is_quiet { format!(": {}", describe_rest(basic)) } else { String::new() };
    format!(
        "CPU at most {cpu_max_vcpus:.1} vCPUs, network at most {network_max_mbps:.1} Mbit/s{disk} in any hour of {days} day{plural}{rest}"
    )
}

/// `probably idle for 14 days`; `CPU, network and disks quiet for 3 days, GPUs unknown`.
fn describe_rest(basic: &BasicUse) -> String {
    let days = format!("{} day{}", basic.days, if basic.days == 1 { "" } else { "s" });
    if basic.is_probably_idle() {
        format!("probably idle for {days}")
    } else {
        format!("CPU, network and disks quiet for {days}, GPUs unknown")
    }
}

fn describe_power(PowerReport { reporting, max_percent, idle_below_percent }: &PowerReport) -> String {
    let count = format!("EC2 reports the power of {reporting} of its GPUs");
    let Some(most) = max_percent else { return count };
    let proves = match idle_below_percent {
        None => "no threshold of idleness is known for its model ([idle] power_below_percent)".to_owned(),
        Some(line) if most < line => "that is not enough of its GPUs or of the window".to_owned(),
        Some(line) => format!("only below {line} % it would be idle"),
    };
    format!("{count}, {most:.0} % of its maximum at most; {proves}")
}

fn measure_name(measure: &UsageMeasure) -> String {
    match measure {
        UsageMeasure::Cpu => "the CPU".to_owned(),
        UsageMeasure::Network => "the network".to_owned(),
        UsageMeasure::Disk => "the disks".to_owned(),
        UsageMeasure::Gpu(None) => "the GPU".to_owned(),
        UsageMeasure::Gpu(Some(device)) => format!("GPU {}", quote_name(device)),
        UsageMeasure::GpuPower(None) => "the power of the GPU".to_owned(),
        UsageMeasure::GpuPower(Some(device)) => format!("the power of GPU {}", quote_name(device)),
        UsageMeasure::GpuMemory(None) => "the memory of the GPU".to_owned(),
        UsageMeasure::GpuMemory(Some(device)) => format!("the memory of GPU {}", quote_name(device)),
    }
}

/// The number of devices that report, and the remedy that fits what was found.
#[must_use]
pub fn describe_report(report: &DeviceReport, instance: &Instance, metrics: &MetricsConfig) -> [String; 2] {
    let count = format!("{} of its {} accelerators report", report.reporting.len(), report.devices);
    let accelerator = instance.machine.accelerator;
    let advice = match metrics.series_names(accelerator) {
        Some(names) => advice(report, accelerator, names),
        None => format!("name its metrics in [metrics.{}]", section(accelerator)),
    };
    [count, advice]
}

fn advice(report: &DeviceReport, accelerator: Accelerator, names: &SeriesNames) -> String {
    if let Some(missing) = report.missing() {
        return describe_missing(&missing, accelerator, names);
    }
    if !report.reporting.is_empty() {
        let reporting = list(report.reporting.iter().map(String::as_str));
        return format!("only {} {reporting} report; see why the others do not", quote_name(&names.device_dimension));
    }
    let Some(reason) = report.rejected.first().map(|first| first.reason) else {
        return describe_no_series(accelerator, names);
    };
    let rejected = report.rejected.iter().filter(|one| one.reason == reason).map(|one| &one.series);
    let first = rejected.clone().next();
    let dimension = |name: &str| first.and_then(|series| series.dimension(name)).unwrap_or_default();
    let utilization = quote_name(&names.utilization);
    match reason {
        RejectionReason::AllDevices => format!(
            "{utilization} has one series of all its GPUs together, which says nothing of each; publish one for each, with the dimension {}",
            quote_name(&names.device_dimension)
        ),
        RejectionReason::NoInstanceId => format!(
            "{utilization} of its host {} has {} = {}, which is not an id; write append_dimensions for the whole `metrics` section of the \
             agent, where it puts in the id, or update the agent to 1.300061 or later",
            quote_name(dimension(&names.host_dimension)),
            quote_name(&names.instance_dimension),
            quote_name(dimension(&names.instance_dimension))
        ),
        RejectionReason::OtherMetric => other_metrics(rejected, accelerator, names),
        RejectionReason::Unowned => format!(
            "a series of {utilization} names no instance ({}): if it is of this one, add {} to it with append_dimensions; if not, {}",
            list(first.into_iter().flat_map(|series| &series.dimensions).map(|(key, value)| format!("{key}={value}"))),
            quote_name(&names.instance_dimension),
            describe_no_series(accelerator, names)
        ),
    }
}

fn describe_missing(missing: &[u32], accelerator: Accelerator, names: &SeriesNames) -> String {
    let is_gpu = matches!(accelerator, Accelerator::Nvidia | Accelerator::Amd);
    let device = if is_gpu { "GPU".to_owned() } else { quote_name(&names.device_dimension) };
    let plural = if is_gpu && missing.len() > 1 { "s" } else { "" };
    let verb = if missing.len() > 1 { "do" } else { "does" };
    let tool = if accelerator == Accelerator::Nvidia { "nvidia-smi" } else { "the driver's tool" };
    let numbers = list(missing.iter().map(u32::to_string));
    format!("{device}{plural} {numbers} {verb} not report: see {tool}; a lost {device} needs a stop and a start")
}

/// The metrics of accelerators that are published instead.
fn other_metrics<'s>(
    published: impl Iterator<Item = &'s MetricSeries>,
    accelerator: Accelerator,
    names: &SeriesNames,
) -> String {
    let published: BTreeSet<(&str, &str)> = published.map(|series| (&*series.namespace, &*series.metric)).collect();
    let is_of_agent = |(namespace, metric): &(&str, &str)| {
        *namespace == names.namespace && metric.starts_with("nvidia_smi") && !metric.contains("utilization_gpu")
    };
    let metrics = list(published.iter().map(|(_, metric)| *metric));
    if accelerator == Accelerator::Nvidia && names.is_of_agent() && published.iter().all(is_of_agent) {
        return format!(
            "its agent publishes {metrics}, but not {}: add utilization_gpu to its nvidia_gpu section. A GPU in MIG mode reports none: set \
             curfew:hours or curfew:expires-at there",
            quote_name(&names.utilization)
        );
    }
    let utilizations = published.iter().filter(|(_, metric)| metric.to_ascii_lowercase().contains("util"));
    let best: Vec<&(&str, &str)> = utilizations.chain(&published).take(1).collect();
    let namespace = best.first().map_or("", |(namespace, _)| namespace);
    format!(
        "{metrics} is published of it (namespace {}), but not {} in {}: name what reports its use in [metrics.{}], with its \
         utilization_unit",
        quote_name(namespace),
        quote_name(&names.utilization),
        quote_name(&names.namespace),
        section(accelerator)
    )
}

fn describe_no_series(accelerator: Accelerator, names: &SeriesNames) -> String {
    if accelerator == Accelerator::Nvidia && names.is_of_agent() {
        return INSTALL.to_owned();
    }
    format!(
        "no series of {} in {} names it: see that its agent publishes it with {}, or correct [metrics.{}]",
        quote_name(&names.utilization),
        quote_name(&names.namespace),
        quote_name(&names.instance_dimension),
        section(accelerator)
    )
}

const fn section(accelerator: Accelerator) -> &'static str {
    match accelerator {
        Accelerator::Nvidia => "nvidia",
        Accelerator::Amd => "amd",
        Accelerator::Neuron | Accelerator::Other | Accelerator::None => "neuron",
    }
}

/// The name of a metric, a dimension or a device, which the publisher of the metric can choose.
#[must_use]
pub fn quote_name(foreign: &str) -> String {
    quoted_unless_word(&shortened(foreign, NAME_CHARACTERS_MAX))
}

/// `0, 1, 2, 3 and 4 more`.
fn list(all: impl Iterator<Item = impl AsRef<str>>) -> String {
    let all: Vec<String> = all.map(|one| quote_name(one.as_ref())).collect();
    match all.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        Some(more) => format!("{} and {more} more", all[..NAMED_MAX].join(", ")),
        None => all.join(", "),
    }
}

#[cfg(test)]
mod tests;
