//! What is not known to be idle.

use super::*;

#[test]
fn without_enough_samples_of_a_gpu() {
    check(&quiet().without_the_first(1, MetricSignal::Gpu(0)), "idle");
    check(&quiet().without_the_first(2, MetricSignal::Gpu(0)), "TooFewSamples(Gpu(0))");
    let lenient = || watched(instance(), "[idle]\ncoverage_min_percent = 50");
    check(&lenient().without_the_first(6, MetricSignal::Gpu(0)), "idle");
    check(&lenient().without_the_first(7, MetricSignal::Gpu(0)), "TooFewSamples(Gpu(0))");
}

#[test]
fn where_utilisation_may_be_a_ratio_until_its_unit_is_named() {
    let with = |config: &str, value: f64| watched(instance(), config).everywhere(MetricSignal::Gpu(0), value);
    check(&with("", 0.97), "UnitUnclear");
    check(&with("", 0.97).at_period("11:40", MetricSignal::Gpu(0), 1.0), "UnitUnclear");
    check(&with("", 0.97).at_period("11:40", MetricSignal::Gpu(0), 3.0), "idle");
    check(&with("", 1.0), "idle");
    check(&with("", 0.0), "idle");
    check(&with("[metrics.nvidia]\nutilization_unit = \"percent\"", 0.97), "idle");
}

#[test]
fn samples_after_the_window_cover_nothing() {
    let late = quiet().without_the_first(2, MetricSignal::Gpu(0));
    check(
        &late.at_period("11:50", MetricSignal::Gpu(0), 0.0).at_period("11:55", MetricSignal::Gpu(0), 0.0),
        "TooFewSamples(Gpu(0))",
    );
}

#[test]
fn a_gpu_that_is_missing_or_reports_nothing_is_unknown() {
    let eight = || watched(instance().accelerators(Accelerator::Nvidia, 8), "");
    check(&eight().without(MetricSignal::Gpu(3)), "7 of 8 report");
    let mut seven_listed = eight();
    seven_listed.devices.pop();
    check(&seven_listed, "7 of 8 report");
    check(&eight().without_the_first(4, MetricSignal::Gpu(3)), "TooFewSamples(Gpu(0))");
    check(&SampledInstance { devices: Vec::new(), ..quiet() }, "0 of 1 report");
}

#[test]
fn where_a_series_is_of_all_devices_together() {
    let mut two = watched(instance().accelerators(Accelerator::Nvidia, 2), "");
    two.devices[1].dimensions.retain(|(key, _)| key != "index");
    check(&two, "1 of 2 report");
    let mut one = quiet();
    one.devices[0].dimensions.retain(|(key, _)| key != "index");
    check(&one, "idle");
}

#[test]
fn where_there_is_not_one_sample() {
    let silent =
        [MetricSignal::Cpu, MetricSignal::Gpu(0)].into_iter().chain(NETWORK).fold(quiet(), SampledInstance::without);
    assert_eq!(silent.usage(), Usage::Unknown(UnknownUsage::Silent { devices: 1 }));
}

#[test]
fn where_a_gpu_reports_only_after_the_window() {
    check(&quiet().without(MetricSignal::Gpu(0)).at_period("11:55", MetricSignal::Gpu(0), 0.0), "0 of 1 report");
}

#[test]
fn even_with_no_coverage_asked_for_every_gpu_must_report() {
    let lenient = || watched(instance(), "[idle]\ncoverage_min_percent = 0");
    check(&lenient().without(MetricSignal::Gpu(0)), "0 of 1 report");
    check(&lenient().without(MetricSignal::Cpu), "TooFewSamples(Cpu)");
    check(&lenient().without_the_first(11, MetricSignal::Gpu(0)), "idle");
}

#[test]
fn without_cpu_or_network() {
    check(&quiet().without(MetricSignal::Cpu), "TooFewSamples(Cpu)");
    check(&quiet().without(MetricSignal::NetworkIn), "TooFewSamples(NetworkIn)");
    check(&quiet().without_the_first(2, MetricSignal::NetworkOut), "TooFewSamples(NetworkOut)");
}

#[test]
fn while_it_is_young() {
    check(&watched(instance().launched("2026-09-01T10:20:00Z"), ""), "idle");
    check(&watched(instance().launched("2026-09-01T10:20:01Z"), ""), "Young");
    check(&watched(instance().launched("2026-09-01T10:20:01Z"), "[idle]\nboot_grace = \"0s\""), "idle");
}

#[test]
fn where_no_metric_is_configured() {
    check(&SampledInstance { names: None, ..quiet() }, "NoMetric");
}

#[test]
fn not_a_number_is_no_sample() {
    check(&quiet().everywhere(MetricSignal::Gpu(0), f64::NAN), "0 of 1 report");
    check(&quiet().everywhere(MetricSignal::Cpu, f64::INFINITY), "TooFewSamples(Cpu)");
    check(&quiet().at_period("11:20", MetricSignal::Gpu(0), f64::NAN), "idle");
}

#[test]
fn where_the_type_is_not_known() {
    check(&watched(instance().accelerators(Accelerator::Nvidia, 0), ""), "0 of 0 report");
}
