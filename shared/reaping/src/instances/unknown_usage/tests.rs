use model::config::Config;
use model::usage::RejectedSeries;

use super::*;
use crate::fixture::instance;

fn series(namespace: &str, metric: &str, dimensions: &[(&str, &str)]) -> MetricSeries {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    MetricSeries {
        namespace: namespace.to_owned(),
        metric: metric.to_owned(),
        dimensions: dimensions.iter().map(own).collect(),
    }
}

fn check(accelerators: (Accelerator, u32), config: &str, report: &DeviceReport, expect: &str) {
    let (accelerator, devices) = accelerators;
    let instance = instance().accelerators(accelerator, devices).build();
    let report = DeviceReport { devices, ..report.clone() };
    let [_, advice] = describe_report(&report, &instance, &Config::read(config).unwrap().metrics);
    assert_eq!(advice, expect);
}

fn reporting(names: &[&str]) -> DeviceReport {
    DeviceReport { reporting: names.iter().map(|name| (*name).to_owned()).collect(), ..DeviceReport::default() }
}

fn rejected(reason: RejectionReason, all: &[MetricSeries]) -> DeviceReport {
    let rejected = all.iter().map(|series| RejectedSeries { series: series.clone(), reason }).collect();
    DeviceReport { rejected, ..DeviceReport::default() }
}

#[test]
fn the_gpu_that_does_not_report_is_named() {
    let four = (Accelerator::Nvidia, 4);
    let lost = "does not report: see nvidia-smi; a lost GPU needs a stop and a start";
    check(four, "", &reporting(&["0", "1", "2"]), &format!("GPU 3 {lost}"));
    check(four, "", &reporting(&["3"]), &format!("GPUs 0, 1, 2 {}", lost.replace("does", "do")));
    check(four, "", &reporting(&["a", "b"]), "only index a, b report; see why the others do not");
    let neuron = "[metrics.neuron]\nutilization = \"u\"\ndevice_dimension = \"core\"";
    check(
        (Accelerator::Neuron, 2),
        neuron,
        &reporting(&["0"]),
        "core 1 does not report: see the driver's tool; a lost core needs a stop and a start",
    );
}

#[test]
fn the_advice_to_install_the_agent_is_for_where_nothing_was_found() {
    check((Accelerator::Nvidia, 1), "", &DeviceReport::default(), INSTALL);
    check(
        (Accelerator::Neuron, 1),
        "[metrics.neuron]\nutilization = \"core_use\"\nnamespace = \"Neuron\"",
        &DeviceReport::default(),
        "no series of core_use in Neuron names it: see that its agent publishes it with InstanceId, or correct [metrics.neuron]",
    );
}

#[test]
fn a_rejected_series_is_named_with_its_reason() {
    let check = |report: &DeviceReport, expect: &str| check((Accelerator::Nvidia, 4), "", report, expect);
    let agent = |dimensions: &[(&str, &str)]| series("CWAgent", "nvidia_smi_utilization_gpu", dimensions);
    check(
        &rejected(RejectionReason::AllDevices, &[agent(&[("InstanceId", "i-1")])]),
        "nvidia_smi_utilization_gpu has one series of all its GPUs together, which says nothing of each; publish one for each, with the \
         dimension index",
    );
    check(
        &rejected(RejectionReason::NoInstanceId, &[agent(&[("InstanceId", "${aws:InstanceId}"), ("host", "ip-1")])]),
        "nvidia_smi_utilization_gpu of its host ip-1 has InstanceId = \"${aws:InstanceId}\", which is not an id; write append_dimensions for \
         the whole `metrics` section of the agent, where it puts in the id, or update the agent to 1.300061 or later",
    );
    check(
        &rejected(RejectionReason::Unowned, &[agent(&[("host", "EC2AMAZ-ABC123"), ("index", "0")])]),
        &format!(
            "a series of nvidia_smi_utilization_gpu names no instance (host=EC2AMAZ-ABC123, index=0): if it is of this one, add InstanceId \
             to it with append_dimensions; if not, {INSTALL}"
        ),
    );
    check(
        &rejected(RejectionReason::OtherMetric, &[series("CWAgent", "nvidia_smi_memory_used", &[])]),
        "its agent publishes nvidia_smi_memory_used, but not nvidia_smi_utilization_gpu: add utilization_gpu to its nvidia_gpu section. A \
         GPU in MIG mode reports none: set curfew:hours or curfew:expires-at there",
    );
    check(
        &rejected(RejectionReason::OtherMetric, &[series("GPU", "DCGM_FI_DEV_GPU_UTIL", &[])]),
        "DCGM_FI_DEV_GPU_UTIL is published of it (namespace GPU), but not nvidia_smi_utilization_gpu in CWAgent: name what reports its \
         use in [metrics.nvidia], with its utilization_unit",
    );
}

#[test]
fn foreign_names_are_short_and_on_one_line() {
    let long = series("CWAgent", &format!("gpu\n{}", "x".repeat(300)), &[]);
    let report = rejected(RejectionReason::OtherMetric, &vec![long; 20]);
    let [_, advice] = describe_report(&report, &instance().build(), &MetricsConfig::default());
    assert!(advice.len() < 400 && !advice.contains('\n'), "{advice}");
}

#[test]
fn a_foreign_name_ends_no_sentence_and_is_no_link() {
    let advice = |namespace: &str, metric: &str| {
        let report = rejected(RejectionReason::OtherMetric, &[series(namespace, metric, &[])]);
        let [_, advice] = describe_report(&report, &instance().build(), &MetricsConfig::default());
        advice
    };
    let (instruction, link) = (advice("GPU", "u\". Run `curl`: x"), advice("https://evil.example", "u"));
    assert!(instruction.starts_with("\"u'. Run 'curl': x\" is published of it (namespace GPU)"), "{instruction}");
    assert!(link.starts_with("u is published of it (namespace \"https: //evil.example\")"), "{link}");
    let measure = UsageMeasure::Gpu(Some("0, which is fine.".to_owned()));
    let unknown = UnknownUsage::TooFewSamples(measure);
    assert_eq!(summarize_unknown(&unknown), "GPU \"0, which is fine.\" reports too seldom");
}

#[test]
fn what_is_known_of_an_uninstrumented_machine_is_said() {
    let basic = |days: u32, is_quiet: bool| BasicUse {
        days,
        cpu_max_vcpus: 0.2,
        network_max_mbps: 0.1,
        disk_max_mbps: None,
        is_quiet,
    };
    let report = |basic: Option<BasicUse>, power: Option<PowerReport>| DeviceReport {
        devices: 8,
        basic: basic.map(Box::new),
        power: power.map(Box::new),
        ..DeviceReport::default()
    };
    let check = |report: DeviceReport, expect: &[&str], short: &str| {
        assert_eq!(describe_known(&report), expect);
        assert_eq!(summarize_unknown(&UnknownUsage::Uninstrumented(report)), short);
    };
    check(report(None, None), &[], "0 of 8 GPUs report");
    let usual = "CPU at most 0.2 vCPUs, network at most 0.1 Mbit/s in any hour of 14 days";
    check(
        report(Some(basic(14, true)), None),
        &[&format!("{usual}: probably idle for 14 days")],
        "0 of 8 GPUs report; probably idle for 14 days",
    );
    check(report(Some(basic(14, false)), None), &[usual], "0 of 8 GPUs report");
    check(
        report(Some(basic(1, true)), None),
        &[
            "CPU at most 0.2 vCPUs, network at most 0.1 Mbit/s in any hour of 1 day: CPU, network and disks quiet for 1 day, GPUs unknown",
        ],
        "0 of 8 GPUs report; CPU, network and disks quiet for 1 day, GPUs unknown",
    );
    let power = |max_percent: Option<f64>, idle_below_percent: Option<f64>| {
        Some(PowerReport { reporting: 8, max_percent, idle_below_percent })
    };
    let has = "EC2 reports the power of 8 of its GPUs";
    check(report(None, power(None, None)), &[has], "0 of 8 GPUs report");
    check(
        report(None, power(Some(11.2), Some(5.0))),
        &[&format!("{has}, 11 % of its maximum at most; only below 5 % it would be idle")],
        "0 of 8 GPUs report",
    );
    check(
        report(None, power(Some(11.2), None)),
        &[&format!(
            "{has}, 11 % of its maximum at most; no threshold of idleness is known for its model ([idle] power_below_percent)"
        )],
        "0 of 8 GPUs report",
    );
}

#[test]
fn an_impossible_value_is_described_with_its_metric() {
    let unknown = UnknownUsage::ImpossibleValue {
        measure: UsageMeasure::Gpu(Some("0".to_owned())),
        metric: "nvidia_smi_utilization_gpu".to_owned(),
        value: -1.0,
    };
    assert_eq!(
        describe_unknown(&unknown, &instance().build(), &MetricsConfig::default()),
        "GPU 0 reported impossible values (nvidia_smi_utilization_gpu was -1), so nothing was measured; see what publishes them"
    );
    assert_eq!(summarize_unknown(&unknown), "GPU 0 reports -1");
}
