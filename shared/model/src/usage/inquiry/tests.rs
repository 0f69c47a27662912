//! What is asked about a g5.12xlarge with four GPUs, round by round.

use jiff::SignedDuration;

use super::*;
use crate::config::PowerEvidence;
use crate::fixture::{NOW, instance, time};
use crate::instance::Accelerator;
use crate::usage::{BusyEvidence, DeviceReport, MetricReading, PERIOD, UnknownUsage, UsageMeasure};

/// A value for each signal, the same in every period of the window.
type Said = [(MetricSignal, f64)];

const QUIET_TRAFFIC: [(MetricSignal, f64); 4] = [
    (MetricSignal::NetworkIn, 0.0),
    (MetricSignal::NetworkOut, 0.0),
    (MetricSignal::DiskRead, 0.0),
    (MetricSignal::DiskWrite, 0.0),
];

fn window() -> UsageWindow {
    UsageWindow::ending_before(time(NOW), SignedDuration::from_hours(1))
}

fn four_gpus() -> Instance {
    instance().accelerators(Accelerator::Nvidia, 4).build()
}

fn gpu(index: usize) -> MetricSeries {
    MetricSeries {
        namespace: "CWAgent".to_owned(),
        metric: "nvidia_smi_utilization_gpu".to_owned(),
        dimensions: vec![("InstanceId".to_owned(), "i-0abc".to_owned()), ("index".to_owned(), index.to_string())],
    }
}

fn gpus(count: usize) -> DeviceSeries {
    (0..count).map(gpu).collect::<Vec<_>>().into()
}

fn samples(said: &Said) -> BTreeMap<MetricSignal, Vec<Sample>> {
    let periods = (0..12).map(|period| window().from + PERIOD * period);
    said.iter().map(|(signal, value)| (*signal, periods.clone().map(|at| (at, *value)).collect())).collect()
}

fn shown_by(signal: MetricSignal, series: MetricSeries) -> DecisiveSeries {
    DecisiveSeries { signal, series }
}

fn signals(questions: &[MetricQuestion]) -> Vec<MetricSignal> {
    questions.iter().map(|question| question.signal).collect()
}

fn first<'a>(ask: &'a UsageQuery<'a>, said: &Said) -> Option<FirstRound<'a>> {
    ask.after_first(samples(said), true, Some(&SeriesNames::default()), &IdleConfig::default())
}

fn open<'a>(ask: &'a UsageQuery<'a>, said: &Said) -> OpenQuery<'a> {
    match first(ask, said) {
        Some(FirstRound::Open(open)) => open,
        found => panic!("{found:?}"),
    }
}

fn conclude(open: &OpenQuery<'_>, further: &Said, complete: bool) -> Option<QueryResult> {
    let names = SeriesNames::default();
    open.conclude(samples(further), complete, &gpus(4), Some(&names), &IdleConfig::default())
}

fn busy(measure: UsageMeasure, value: f64) -> Usage {
    let idle = IdleConfig::default();
    let line = if measure == UsageMeasure::Cpu { idle.cpu_below_vcpus } else { idle.gpu_below_percent };
    let at = window().to - PERIOD;
    Usage::Busy(BusyEvidence { until: window().to, shown: Some(MetricReading { measure, at, value, line }) })
}

#[test]
fn a_busy_cpu_is_enough_and_needs_no_reminder() {
    let one = four_gpus();
    let ask =
        UsageQuery { likely: Some(shown_by(MetricSignal::Gpu(0), gpu(2))), ..UsageQuery::in_full(&one, window()) };
    let found = first(&ask, &[(MetricSignal::Cpu, 90.0), (MetricSignal::Gpu(0), 90.0)]);
    assert_eq!(found, Some(FirstRound::Found(QueryResult::Answered(busy(UsageMeasure::Gpu(None), 90.0), None))));
}

#[test]
fn the_gpu_that_worked_the_last_time_is_enough() {
    let one = four_gpus();
    let ask =
        UsageQuery { likely: Some(shown_by(MetricSignal::Gpu(0), gpu(2))), ..UsageQuery::in_full(&one, window()) };
    let found = first(&ask, &[(MetricSignal::Cpu, 1.0), (MetricSignal::Gpu(0), 90.0)]);
    assert_eq!(
        found,
        Some(FirstRound::Found(QueryResult::Answered(
            busy(UsageMeasure::Gpu(None), 90.0),
            Some(shown_by(MetricSignal::Gpu(0), gpu(2)))
        )))
    );
}

#[test]
fn nothing_is_asked_twice() {
    let one = four_gpus();
    let names = SeriesNames::default();
    let in_full = UsageQuery::in_full(&one, window());
    let questions =
        open(&in_full, &[(MetricSignal::Cpu, 1.0)]).questions(&gpus(4), Some(&names), &IdleConfig::default()).unwrap();
    assert_eq!(questions.len(), 4 + 2 * 4);
    let known = UsageQuery { likely: Some(shown_by(MetricSignal::Gpu(0), gpu(2))), ..in_full.clone() };
    let open_but_for_one = open(&known, &[(MetricSignal::Cpu, 1.0), (MetricSignal::Gpu(0), 0.0)]);
    let questions = signals(&open_but_for_one.questions(&gpus(4), Some(&names), &IdleConfig::default()).unwrap());
    assert_eq!(questions.len(), 4 + 2 * 4 - 1);
    assert!(!questions.contains(&MetricSignal::Gpu(2)));
    let of_traffic = UsageQuery { likely: Some(shown_by(MetricSignal::NetworkIn, gpu(0))), ..in_full };
    let open_but_for_one = open(&of_traffic, &[(MetricSignal::Cpu, 1.0), (MetricSignal::NetworkIn, 0.0)]);
    let questions = signals(&open_but_for_one.questions(&gpus(4), Some(&names), &IdleConfig::default()).unwrap());
    assert_eq!(questions.len(), 4 + 2 * 4 - 1);
    assert!(!questions.contains(&MetricSignal::NetworkIn));
}

#[test]
fn a_ratio_is_percent_where_its_unit_is_named() {
    let one = instance().accelerators(Accelerator::Nvidia, 1).build();
    let names = SeriesNames { utilization_unit: UtilizationUnit::Ratio, ..SeriesNames::default() };
    let in_full = UsageQuery::in_full(&one, window());
    let open = open(&in_full, &[(MetricSignal::Cpu, 1.0)]);
    let found = |value: f64| {
        let further = samples(&[&QUIET_TRAFFIC[..], &[(MetricSignal::Gpu(0), value)]].concat());
        open.conclude(further, true, &gpus(1), Some(&names), &IdleConfig::default())
    };
    let Some(QueryResult::Answered(Usage::Busy(BusyEvidence { shown: Some(shown), .. }), _)) = found(0.5) else {
        panic!()
    };
    assert!((shown.value - 50.0).abs() < 1e-9, "{shown:?}");
    assert!(matches!(found(0.04), Some(QueryResult::Answered(Usage::Idle(_), _))));
    let Some(QueryResult::Answered(Usage::Unknown(unknown), _)) = found(97.0) else { panic!() };
    let published = matches!(unknown, UnknownUsage::ImpossibleValue { value, .. } if (value - 97.0).abs() < 1e-9);
    assert!(published, "{unknown:?}");
    // The first query of a GPU reads the unit too: 50 is no ratio, and 0.5 is work.
    let likely = Some(shown_by(MetricSignal::Gpu(0), gpu(0)));
    let ask = UsageQuery { likely, ..UsageQuery::in_full(&one, window()) };
    let first = |value: f64| {
        let answers = samples(&[(MetricSignal::Cpu, 1.0), (MetricSignal::Gpu(0), value)]);
        ask.after_first(answers, true, Some(&names), &IdleConfig::default())
    };
    assert!(matches!(first(50.0), Some(FirstRound::Open(_))));
    assert!(matches!(first(0.5), Some(FirstRound::Found(QueryResult::Answered(Usage::Busy(_), Some(_))))));
}

#[test]
fn a_gpu_of_the_first_query_counts_at_its_index() {
    let one = four_gpus();
    let ask =
        UsageQuery { likely: Some(shown_by(MetricSignal::Gpu(0), gpu(2))), ..UsageQuery::in_full(&one, window()) };
    let open = open(&ask, &[(MetricSignal::Cpu, 1.0), (MetricSignal::Gpu(0), 0.0)]);
    let others = [(MetricSignal::Gpu(0), 0.0), (MetricSignal::Gpu(1), 0.0), (MetricSignal::Gpu(3), 0.0)];
    let found = conclude(&open, &[&QUIET_TRAFFIC[..], &others[..]].concat(), true);
    assert!(matches!(found, Some(QueryResult::Answered(Usage::Idle(quiet), None)) if quiet.devices == 4));
    let without_the_third = conclude(&open, &[&QUIET_TRAFFIC[..], &others[..2]].concat(), true);
    let reporting = ["0", "1", "2"].map(str::to_owned).into();
    let uninstrumented =
        UnknownUsage::Uninstrumented(DeviceReport { devices: 4, reporting, ..DeviceReport::default() });
    assert_eq!(without_the_third, Some(QueryResult::Answered(Usage::Unknown(uninstrumented), None)));
    let renamed = MetricSeries { metric: "of_old".to_owned(), ..gpu(2) };
    let by_an_old_metric = UsageQuery { likely: Some(shown_by(MetricSignal::Gpu(0), renamed)), ..ask.clone() };
    let open_all = self::open(&by_an_old_metric, &[(MetricSignal::Cpu, 1.0), (MetricSignal::Gpu(0), 0.0)]);
    let questions = open_all.questions(&gpus(4), Some(&SeriesNames::default()), &IdleConfig::default()).unwrap();
    assert_eq!(questions.len(), 4 + 2 * 4, "another metric was configured since");
    let elsewhere = UsageQuery { likely: Some(shown_by(MetricSignal::Gpu(0), gpu(9))), ..ask.clone() };
    let open = self::open(&elsewhere, &[(MetricSignal::Cpu, 1.0), (MetricSignal::Gpu(0), 0.0)]);
    let found = conclude(&open, &[&QUIET_TRAFFIC[..], &others[..]].concat(), true);
    assert!(
        matches!(found, Some(QueryResult::Answered(Usage::Unknown(_), None))),
        "a series that is gone counts for no device"
    );
}

#[test]
fn the_evidence_of_work_is_its_first_sufficient_metric() {
    let one = four_gpus();
    let ask = UsageQuery::in_full(&one, window());
    let open = open(&ask, &[(MetricSignal::Cpu, 1.0)]);
    let found_by = |further: &Said| match conclude(&open, further, false) {
        Some(QueryResult::Answered(Usage::Busy(_), evidence)) => evidence,
        found => panic!("{found:?}"),
    };
    let second_gpu = shown_by(MetricSignal::Gpu(0), gpu(1));
    assert_eq!(found_by(&[(MetricSignal::Gpu(1), 50.0), (MetricSignal::Gpu(3), 90.0)]), Some(second_gpu));
    let network = found_by(&[(MetricSignal::NetworkIn, 1e12), (MetricSignal::Gpu(3), 90.0)]).unwrap();
    assert_eq!((network.signal, network.series.metric.as_str()), (MetricSignal::NetworkIn, "NetworkIn"));
    // 5 Mbit/s are 187.5 MB in 5 minutes; each direction alone stays below.
    assert_eq!(found_by(&[(MetricSignal::NetworkIn, 1e8), (MetricSignal::NetworkOut, 1e8)]), None);
}

#[test]
fn a_quiet_idle_instance_is_queried_no_further() {
    let one = four_gpus();
    let ask = UsageQuery { depth: QueryDepth::WorkOnly, ..UsageQuery::in_full(&one, window()) };
    assert_eq!(first(&ask, &[(MetricSignal::Cpu, 1.0)]), Some(FirstRound::Found(QueryResult::NoWork)));
    assert_eq!(
        first(&ask, &[(MetricSignal::Cpu, 90.0)]),
        Some(FirstRound::Found(QueryResult::Answered(busy(UsageMeasure::Cpu, 3.6), None)))
    );
}

#[test]
fn held_memory_is_queried_further_once_it_is_freed() {
    let one = four_gpus();
    let in_full = UsageQuery::in_full(&one, window());
    let held = [
        (MetricSignal::Gpu(0), 0.0),
        (MetricSignal::Gpu(1), 0.0),
        (MetricSignal::Gpu(2), 0.0),
        (MetricSignal::Gpu(3), 0.0),
    ];
    let memory = [(MetricSignal::GpuMemory(0), 3.0), (MetricSignal::GpuMemory(2), 20_000.0)];
    let found =
        conclude(&open(&in_full, &[(MetricSignal::Cpu, 1.0)]), &[&QUIET_TRAFFIC[..], &held, &memory].concat(), true);
    let Some(QueryResult::Answered(Usage::Idle(quiet), Some(by))) = found else { panic!("{found:?}") };
    assert!(quiet.reserved);
    assert_eq!((by.signal, by.series.metric.as_str()), (MetricSignal::GpuMemory(0), "nvidia_smi_memory_used"));
    assert_eq!(by.series.dimensions, gpu(2).dimensions);
    let ask = UsageQuery { depth: QueryDepth::UnlessHeld, likely: Some(by), ..in_full };
    let still = first(&ask, &[(MetricSignal::Cpu, 1.0), (MetricSignal::GpuMemory(0), 20_000.0)]);
    assert_eq!(still, Some(FirstRound::Found(QueryResult::NoWork)));
    let freed = open(&ask, &[(MetricSignal::Cpu, 1.0), (MetricSignal::GpuMemory(0), 3.0)]);
    let questions = signals(&freed.questions(&gpus(4), Some(&SeriesNames::default()), &IdleConfig::default()).unwrap());
    assert!(questions.len() == 4 + 2 * 4 - 1 && !questions.contains(&MetricSignal::GpuMemory(2)));
    assert!(
        matches!(first(&ask, &[(MetricSignal::Cpu, 1.0)]), Some(FirstRound::Open(_))),
        "no answer says that it is held"
    );
}

#[test]
fn an_unknown_instance_is_queried_further_once_its_gpus_report() {
    let one = four_gpus();
    let names = SeriesNames::default();
    let ask = UsageQuery { depth: QueryDepth::IfInstrumented, ..UsageQuery::in_full(&one, window()) };
    let open = open(&ask, &[(MetricSignal::Cpu, 1.0)]);
    assert_eq!(open.questions(&gpus(3), Some(&names), &IdleConfig::default()), None);
    assert_eq!(open.questions(&gpus(4), None, &IdleConfig::default()), None, "no metric is configured for its kind");
    assert_eq!(open.questions(&gpus(4), Some(&names), &IdleConfig::default()).unwrap().len(), 4 + 2 * 4);
}

#[test]
fn an_unknown_instance_is_queried_further_once_its_power_is_listed_and_can_show_idleness() {
    let with_power = |count: usize, instance_type: &str, config: &IdleConfig| {
        let mut one = four_gpus();
        one.instance_type = instance_type.into();
        let ask = UsageQuery { depth: QueryDepth::IfInstrumented, ..UsageQuery::in_full(&one, window()) };
        let of_gpu = |gpu: usize| MetricSeries {
            namespace: "AWS/EC2".to_owned(),
            metric: "GPUPowerUtilization".to_owned(),
            dimensions: vec![("InstanceId".to_owned(), "i-0abc".to_owned()), ("GpuId".to_owned(), gpu.to_string())],
        };
        let listed = DeviceSeries { utilization: Vec::new(), power: (0..count).map(of_gpu).collect() };
        let open = open(&ask, &[(MetricSignal::Cpu, 1.0)]);
        open.questions(&listed, Some(&SeriesNames::default()), config).map(|questions| questions.len())
    };
    let config = IdleConfig::default();
    assert_eq!(with_power(4, "g5.12xlarge", &config), Some(4 + 4));
    assert_eq!(with_power(3, "g5.12xlarge", &config), None);
    assert_eq!(with_power(4, "g4dn.12xlarge", &config), None, "its model has no threshold");
    let off = IdleConfig { power: PowerEvidence::Off, ..IdleConfig::default() };
    assert_eq!(with_power(4, "g5.12xlarge", &off), None);
}

#[test]
fn half_an_answer_can_show_work_and_nothing_else() {
    let one = four_gpus();
    let ask = UsageQuery::in_full(&one, window());
    let half = |value| {
        let answers = samples(&[(MetricSignal::Cpu, value)]);
        ask.after_first(answers, false, Some(&SeriesNames::default()), &IdleConfig::default())
    };
    assert_eq!(half(90.0), Some(FirstRound::Found(QueryResult::Answered(busy(UsageMeasure::Cpu, 3.6), None))));
    assert_eq!(half(1.0), None);
    let open = open(&ask, &[(MetricSignal::Cpu, 1.0)]);
    assert_eq!(conclude(&open, &QUIET_TRAFFIC, false), None);
}
