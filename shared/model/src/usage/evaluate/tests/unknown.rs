//! What is not known to be idle.

use super::*;

#[test]
fn without_enough_samples_of_a_gpu() {
    check(&quiet().without_the_first(1, MetricSignal::Gpu(0)), "idle");
    check(&quiet().without_the_first(2, MetricSignal::Gpu(0)), "TooFewSamples(Gpu(Some(\"0\")))");
    let lenient = || watched(instance(), "[idle]\ncoverage_min_percent = 50");
    check(&lenient().without_the_first(6, MetricSignal::Gpu(0)), "idle");
    check(&lenient().without_the_first(7, MetricSignal::Gpu(0)), "TooFewSamples(Gpu(Some(\"0\")))");
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
fn where_a_metric_of_the_account_s_own_has_no_declared_unit_and_may_be_a_ratio() {
    let own = "[metrics.nvidia]\nutilization = \"gpu_busy\"\n";
    let with = |config: &str, value: f64| watched(instance(), config).everywhere(MetricSignal::Gpu(0), value);
    // A saturated GPU whose maximum is 1 in every period.
    check(&with(own, 1.0), "UnitUnclear");
    check(&with(own, 0.0).at_period("11:20", MetricSignal::Gpu(0), 1.0), "UnitUnclear");
    check(&with(own, 0.0).at_period("11:55", MetricSignal::Gpu(0), 0.01), "UnitUnclear");
    check(&with(own, 1.02), "UnitUnclear");
    check(&with(own, 0.0), "idle");
    check(&with(own, 1.0).at_period("11:20", MetricSignal::Gpu(0), 3.0), "idle");
    check(&with(own, 1.0).at_period("11:20", MetricSignal::Gpu(0), 97.0), "busy until 11:25");
    // What no unit allows settles none.
    check(&with(own, 1.0).at_period("11:20", MetricSignal::Gpu(0), 4_294_967_295.0), "UnitUnclear");
    check(&with(&format!("{own}utilization_unit = \"percent\""), 1.0), "idle");
}

#[test]
fn where_a_metric_has_only_values_that_it_cannot_have() {
    let gpu = |value: f64| quiet().everywhere(MetricSignal::Gpu(0), value);
    let of_gpu = |value: &str| format!("impossible nvidia_smi_utilization_gpu Gpu(Some(\"0\")) {value}");
    check(&gpu(-1.0), &of_gpu("-1"));
    check(&gpu(101.0), &of_gpu("101"));
    check(&gpu(f64::NAN), &of_gpu("NaN"));
    check(&gpu(140_737_488_355_328.0), &of_gpu("140737488355328"));
    // What is left is not enough.
    let at = |clock: &str, value: f64| {
        quiet().at_period("11:00", MetricSignal::Gpu(0), -1.0).at_period(clock, MetricSignal::Gpu(0), value)
    };
    check(&at("11:20", 4_294_967_295.0), &of_gpu("4294967295"));
    check(&quiet().everywhere(MetricSignal::Cpu, -1.0), "impossible CPUUtilization Cpu -1");
    check(&quiet().everywhere(MetricSignal::Cpu, 400.0), "impossible CPUUtilization Cpu 400");
    check(&quiet().everywhere(MetricSignal::NetworkOut, -5.0), "impossible NetworkOut Network -5");
    check(&quiet().everywhere(MetricSignal::DiskRead, -5.0), "impossible EBSReadBytes Disk -5");
    let memory = "impossible nvidia_smi_memory_used GpuMemory(Some(\"0\")) -1";
    check(&quiet().everywhere(MetricSignal::GpuMemory(0), -1.0), memory);
    let freed_at_first = quiet().everywhere(MetricSignal::GpuMemory(0), -1.0);
    check(&freed_at_first.at_period("10:50", MetricSignal::GpuMemory(0), 3.0), memory);
}

#[test]
fn one_impossible_value_among_others_is_no_sample() {
    for value in [-1.0, 4_294_967_295.0] {
        check(&quiet().at_period("11:20", MetricSignal::Gpu(0), value), "idle");
        check(&quiet().at_period("11:55", MetricSignal::Gpu(0), value), "idle");
        check(&quiet().at_period("11:20", MetricSignal::Cpu, value), "idle");
        let held = quiet().everywhere(MetricSignal::GpuMemory(0), 20_000.0);
        check(&held.at_period("11:55", MetricSignal::GpuMemory(0), value), "idle, reserved");
    }
    let busy = quiet().everywhere(MetricSignal::Gpu(0), -1.0).at_period("11:20", MetricSignal::Gpu(0), 97.0);
    check(&busy, "busy until 11:25");
}

#[test]
fn the_gpu_that_reports_what_cannot_be_is_named() {
    let eight = watched(instance().accelerators(Accelerator::Nvidia, 8), "").everywhere(MetricSignal::Gpu(5), -1.0);
    check(&eight, "impossible nvidia_smi_utilization_gpu Gpu(Some(\"5\")) -1");
}

#[test]
fn samples_after_the_window_cover_nothing() {
    let late = quiet().without_the_first(2, MetricSignal::Gpu(0));
    check(
        &late.at_period("11:50", MetricSignal::Gpu(0), 0.0).at_period("11:55", MetricSignal::Gpu(0), 0.0),
        "TooFewSamples(Gpu(Some(\"0\")))",
    );
}

#[test]
fn a_gpu_that_is_missing_or_reports_nothing_is_unknown() {
    let eight = || watched(instance().accelerators(Accelerator::Nvidia, 8), "");
    check(&eight().without(MetricSignal::Gpu(3)), "7 of 8 report");
    let mut seven_listed = eight();
    seven_listed.devices.utilization.pop();
    check(&seven_listed, "7 of 8 report");
    check(&eight().without_the_first(4, MetricSignal::Gpu(3)), "TooFewSamples(Gpu(Some(\"3\")))");
    check(&SampledInstance { devices: DeviceSeries::default(), ..quiet() }, "0 of 1 report");
}

#[test]
fn where_a_series_is_of_all_devices_together() {
    let mut two = watched(instance().accelerators(Accelerator::Nvidia, 2), "");
    two.devices.utilization[1].dimensions.retain(|(key, _)| key != "index");
    check(&two, "1 of 2 report");
    let mut one = quiet();
    one.devices.utilization[0].dimensions.retain(|(key, _)| key != "index");
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
    check(&quiet().without(MetricSignal::NetworkIn), "TooFewSamples(Network)");
    check(&quiet().without_the_first(2, MetricSignal::NetworkOut), "TooFewSamples(Network)");
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
fn where_the_type_is_not_known() {
    check(&watched(instance().accelerators(Accelerator::Nvidia, 0), ""), "0 of 0 report");
}
