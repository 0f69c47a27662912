//! What the power of GPUs shows.

use super::*;
use crate::usage::PowerReport;

fn power_series(gpu: u32) -> MetricSeries {
    let dimension = |key: &str, value: String| (key.to_owned(), value);
    MetricSeries {
        namespace: "AWS/EC2".to_owned(),
        metric: "GPUPowerUtilization".to_owned(),
        dimensions: vec![dimension("InstanceId", "i-0abc".to_owned()), dimension("GpuId", gpu.to_string())],
    }
}

/// Four A10G without an agent, each at this power throughout.
fn powered(power: &[f64], config: &str) -> SampledInstance {
    let mut watched = watched(instance().accelerators(Accelerator::Nvidia, 4), config);
    watched.devices = DeviceSeries::default();
    for (gpu, percent) in (0..).zip(power) {
        watched = watched.without(MetricSignal::Gpu(gpu)).everywhere(MetricSignal::GpuPower(gpu), *percent);
        watched.devices.power.push(power_series(gpu));
    }
    for gpu in 0..4 {
        watched = watched.without(MetricSignal::Gpu(gpu));
    }
    watched
}

fn report(watched: &SampledInstance) -> Option<PowerReport> {
    match watched.usage() {
        Usage::Unknown(UnknownUsage::Uninstrumented(report)) => report.power.map(|power| *power),
        usage => panic!("{usage:?}"),
    }
}

#[test]
fn every_gpu_below_the_threshold_of_its_model_is_idle_by_power() {
    let quiet = powered(&[0.3, 3.0, 4.9, 0.0], "").quiet();
    assert!(quiet.is_by_power() && !quiet.reserved);
    let found = (quiet.devices, quiet.coverage_percent, quiet.gpu_max_percent, quiet.gpu_power_max_percent);
    assert_eq!(found, (4, 100, None, Some(4.9)));
    check(&powered(&[12.0; 4], "[idle]\npower_below_percent = 13"), "idle");
    check(&powered(&[3.0; 4], "[idle]\npower = \"enforce\""), "idle");
}

#[test]
fn between_the_thresholds_it_proves_nothing() {
    let reported = report(&powered(&[3.0, 3.0, 5.0, 3.0], ""));
    let expect = PowerReport { reporting: 4, max_percent: Some(5.0), idle_below_percent: Some(5.0) };
    assert_eq!(reported, Some(expect));
    check(&powered(&[49.9; 4], ""), "0 of 4 report");
    // One sample is enough, also after the window.
    check(&powered(&[3.0; 4], "").at_period("11:55", MetricSignal::GpuPower(2), 6.0), "0 of 4 report");
}

#[test]
fn one_sample_of_much_power_is_work_of_any_model() {
    check(&powered(&[3.0; 4], "").at_period("11:20", MetricSignal::GpuPower(2), 50.0), "busy until 11:25");
    let mut unknown_model = powered(&[3.0; 4], "").at_period("11:20", MetricSignal::GpuPower(2), 50.0);
    unknown_model.instance.instance_type = "g4dn.12xlarge".into();
    check(&unknown_model, "busy until 11:25");
    let Usage::Busy(BusyEvidence { shown: Some(shown), .. }) = unknown_model.usage() else { panic!() };
    assert_eq!((shown.measure, shown.line), (UsageMeasure::GpuPower(Some("2".to_owned())), 50.0));
    // Utilisation reports as well, and shows nothing.
    let both = watched(instance(), "").everywhere(MetricSignal::GpuPower(0), 60.0);
    check(&both, "busy until 11:50");
}

#[test]
fn utilisation_decides_idleness_where_it_reports() {
    let mut both = watched(instance(), "").everywhere(MetricSignal::GpuPower(0), 30.0);
    both.devices.power.push(power_series(0));
    check(&both, "idle");
    assert!(!both.quiet().is_by_power());
    // Its values are impossible: people should see to the exporter.
    let broken = both.everywhere(MetricSignal::Gpu(0), -1.0).everywhere(MetricSignal::GpuPower(0), 1.0);
    check(&broken, "impossible nvidia_smi_utilization_gpu Gpu(Some(\"0\")) -1");
}

#[test]
fn unknown_is_no_power() {
    check(&powered(&[3.0; 3], ""), "0 of 4 report");
    check(&powered(&[], ""), "0 of 4 report");
    assert_eq!(report(&powered(&[], "")), None);
    check(&powered(&[3.0; 4], "").without(MetricSignal::GpuPower(1)), "0 of 4 report");
    check(&powered(&[3.0; 4], "").without_the_first(2, MetricSignal::GpuPower(1)), "0 of 4 report");
    for impossible in [-1.0, f64::NAN, 700.0, f64::INFINITY] {
        check(&powered(&[3.0; 4], "").everywhere(MetricSignal::GpuPower(1), impossible), "0 of 4 report");
    }
    check(&powered(&[3.0; 4], "").everywhere(MetricSignal::GpuPower(1), 100.5), "busy until 11:50");
    let mut unknown_model = powered(&[0.0; 4], "");
    unknown_model.instance.instance_type = "g4dn.12xlarge".into();
    check(&unknown_model, "0 of 4 report");
    assert_eq!(report(&unknown_model).unwrap().idle_below_percent, None);
    check(&powered(&[0.0; 4], "[idle]\npower = \"off\""), "0 of 4 report");
    // One series of all GPUs together, and several of one.
    let mut of_all = powered(&[0.0; 4], "");
    for series in &mut of_all.devices.power {
        series.dimensions.retain(|(key, _)| key != "GpuId");
    }
    check(&of_all, "0 of 4 report");
    let mut of_one = powered(&[0.0; 4], "");
    of_one.devices.power[3] = power_series(2);
    check(&of_one, "0 of 4 report");
}

#[test]
fn cpu_network_and_disk_count_as_ever() {
    let busy = |signal, value| powered(&[0.0; 4], "").at_period("11:20", signal, value);
    check(&busy(MetricSignal::Cpu, 50.0), "busy until 11:25");
    check(&busy(MetricSignal::DiskWrite, 6.0 * MBIT), "busy until 11:25");
    check(&powered(&[0.0; 4], "").without(MetricSignal::NetworkIn), "TooFewSamples(Network)");
}
