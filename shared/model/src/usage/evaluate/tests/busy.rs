//! What shows work.

use super::*;

#[test]
fn quiet_is_idle() {
    check(&quiet(), "idle");
}

#[test]
fn one_sample_is_enough_however_fresh() {
    check(&quiet().at_period("11:20", MetricSignal::Gpu(0), 60.0), "busy until 11:25");
    check(&quiet().at_period("11:55", MetricSignal::Gpu(0), 60.0), "busy until 12:00");
    check(&quiet().at_period("10:50", MetricSignal::Gpu(0), 60.0), "busy until 10:55");
    check(
        &quiet().at_period("11:20", MetricSignal::Gpu(0), 60.0).at_period("11:40", MetricSignal::Cpu, 90.0),
        "busy until 11:45",
    );
}

#[test]
fn periods_before_the_window_do_not_count() {
    check(&quiet().at_period("10:45", MetricSignal::Gpu(0), 100.0), "idle");
}

#[test]
fn the_line_itself_is_work() {
    check(&quiet().at_period("11:20", MetricSignal::Gpu(0), 5.0), "busy until 11:25");
    check(&quiet().at_period("11:20", MetricSignal::Gpu(0), 4.99), "idle");
}

#[test]
fn one_of_eight_gpus_is_enough() {
    let eight = || watched(instance().accelerators(Accelerator::Nvidia, 8), "");
    check(&eight(), "idle");
    check(&eight().at_period("11:20", MetricSignal::Gpu(7), 30.0), "busy until 11:25");
}

#[test]
fn the_evidence_is_named() {
    let eight = watched(instance().accelerators(Accelerator::Nvidia, 8), "")
        .at_period("11:20", MetricSignal::Gpu(7), 30.0)
        .at_period("11:20", MetricSignal::Gpu(3), 97.0)
        .at_period("11:20", MetricSignal::Cpu, 90.0)
        .at_period("11:15", MetricSignal::Gpu(0), 100.0);
    let Usage::Busy(BusyEvidence { shown: Some(reading), .. }) = eight.usage() else { panic!("{:?}", eight.usage()) };
    let at = time("2026-09-01T11:20:00Z");
    assert_eq!(reading, MetricReading { measure: UsageMeasure::Gpu(Some("3".to_owned())), at, value: 97.0, line: 5.0 });
}

#[test]
fn it_needs_no_instrument_and_no_age() {
    let young = instance().launched("2026-09-01T11:40:00Z");
    check(&watched(young, "").at_period("11:50", MetricSignal::Cpu, 90.0), "busy until 11:55");
    let bare = SampledInstance { devices: DeviceSeries::default(), names: None, ..quiet() };
    check(&bare.without(MetricSignal::Gpu(0)).at_period("11:20", MetricSignal::Cpu, 90.0), "busy until 11:25");
}

#[test]
fn cpu_counts_by_cores_and_not_by_percent() {
    let machine = |vcpus| {
        let mut watched = quiet();
        watched.instance.machine.vcpus = vcpus;
        watched.everywhere(MetricSignal::Cpu, 0.1)
    };
    check(&machine(192).at_period("11:20", MetricSignal::Cpu, 0.6), "busy until 11:25");
    check(&machine(192).everywhere(MetricSignal::Cpu, 0.5), "idle");
    check(&machine(4).at_period("11:20", MetricSignal::Cpu, 24.0), "idle");
    check(&machine(4).at_period("11:20", MetricSignal::Cpu, 25.0), "busy until 11:25");
}

#[test]
fn cpu_counts_once_its_period_is_over() {
    check(&quiet().at_period("11:55", MetricSignal::Cpu, 90.0), "busy until 12:00");
    check(&quiet().at_period("12:00", MetricSignal::Cpu, 90.0), "idle");
    check(&quiet().at_period("12:00", MetricSignal::Gpu(0), 90.0), "busy until 12:05");
}

#[test]
fn network_is_both_directions_together() {
    check(&quiet().at_period("11:20", MetricSignal::NetworkIn, 3.0 * MBIT), "idle");
    let both = quiet().at_period("11:20", MetricSignal::NetworkIn, 3.0 * MBIT).at_period(
        "11:20",
        MetricSignal::NetworkOut,
        2.0 * MBIT,
    );
    check(&both, "busy until 11:25");
    let apart = quiet().at_period("11:20", MetricSignal::NetworkIn, 4.0 * MBIT).at_period(
        "11:25",
        MetricSignal::NetworkOut,
        4.0 * MBIT,
    );
    check(&apart, "idle");
}

#[test]
fn disk_counts_where_it_reports() {
    let both = quiet().at_period("11:20", MetricSignal::DiskRead, 3.0 * MBIT).at_period(
        "11:20",
        MetricSignal::DiskWrite,
        2.0 * MBIT,
    );
    check(&both, "busy until 11:25");
}

#[test]
fn work_before_a_restart_does_not_count() {
    let restarted = || instance().launched("2026-09-01T11:00:00Z");
    check(&watched(restarted(), "").at_period("10:50", MetricSignal::Gpu(0), 100.0), "Young");
    check(&watched(restarted(), "").at_period("10:55", MetricSignal::Gpu(0), 100.0), "Young");
    check(&watched(restarted(), "").at_period("11:00", MetricSignal::Gpu(0), 100.0), "busy until 11:05");
}

#[test]
fn a_line_of_zero_makes_everything_work() {
    check(&watched(instance(), "[idle]\ncpu_below_vcpus = 0"), "busy until 11:50");
}
