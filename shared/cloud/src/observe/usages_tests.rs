//! Tests of the use of instances against `CloudWatch`'s answers: which calls a run makes, and what follows from them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_cloudwatch::primitives::DateTime;
use aws_smithy_cbor::Encoder;
use execution::{IdleThresholds, usages};
use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::fixture::{NOW, time, untagged};
use model::id::{Region, ResourceId};
use model::instance::{Accelerator, Instance};
use model::observation::{Gap, GapKind, Observed};
use model::usage::{
    DecisiveSeries, DeviceReport, MetricSeries, MetricSignal, PERIOD, QueryDepth, QueryResult, UnknownUsage, Usage,
    UsageQuery, UsageWindow, WINDOW_MAX,
};

use crate::replay::{ReplayAnswer, ReplayedCall, ReplayedCalls, aws};

const TIMEOUT: Duration = Duration::from_mins(1);

fn now() -> Timestamp {
    time(NOW)
}

fn window() -> UsageWindow {
    UsageWindow::ending_before(now(), SignedDuration::from_hours(1))
}

fn instance(id: &str, accelerator: Accelerator) -> Instance {
    untagged().id(id).accelerators(accelerator, 1).build()
}

/// One series of a `GetMetricData` answer: the same value all over the window.
struct Line(f64, &'static str);

const COMPLETE: &str = "Complete";

/// The answers to the queries `q0`, `q1`, …, and the next page's token.
fn data(lines: &[Line], next: Option<&str>) -> ReplayAnswer {
    let mut body = Encoder::new(Vec::new());
    body.map(1 + usize::from(next.is_some())).str("MetricDataResults").array(lines.len());
    for (place, Line(value, status)) in lines.iter().enumerate() {
        let periods = window().periods();
        body.map(4).str("Id").str(&format!("q{place}")).str("StatusCode").str(status);
        body.str("Timestamps").array(periods);
        for period in 0..periods {
            let at = window().from + PERIOD * i32::try_from(period).unwrap();
            body.timestamp(&DateTime::from_secs(at.as_second()));
        }
        body.str("Values").array(periods);
        for _ in 0..periods {
            body.double(*value);
        }
    }
    if let Some(token) = next {
        body.str("NextToken").str(token);
    }
    ReplayAnswer::Raw(200, body.into_writer())
}

/// A `ListMetrics` answer: a GPU's utilisation of each of these instances.
fn listed(instances: &[&str]) -> ReplayAnswer {
    let mut body = Encoder::new(Vec::new());
    body.map(1).str("Metrics").array(instances.len());
    for id in instances {
        body.map(3).str("Namespace").str("CWAgent").str("MetricName").str("nvidia_smi_utilization_gpu");
        body.str("Dimensions").array(2);
        for (name, value) in [("InstanceId", *id), ("index", "0")] {
            body.map(2).str("Name").str(name).str("Value").str(value);
        }
    }
    ReplayAnswer::Raw(200, body.into_writer())
}

fn fault(code: &str) -> ReplayAnswer {
    let mut body = Encoder::new(Vec::new());
    body.map(2).str("__type").str(&format!("com.amazonaws.cloudwatch#{code}")).str("message").str("No");
    ReplayAnswer::Raw(400, body.into_writer())
}

/// Everything of the second round about one instance with one GPU: network, disk, utilisation and memory.
fn quiet() -> Vec<Line> {
    (0..6).map(|_| Line(0.0, COMPLETE)).collect()
}

type UsageAnswer = (BTreeMap<ResourceId, Usage>, Vec<Gap>, ReplayedCalls);

fn usages_of(found: BTreeMap<ResourceId, QueryResult>) -> BTreeMap<ResourceId, Usage> {
    let known = found.into_iter().filter_map(|(id, found)| match found {
        QueryResult::Answered(usage, _) => Some((id, usage)),
        QueryResult::NoWork => None,
    });
    known.collect()
}

/// Asks about these, where the calls for data are answered one after another by this function of their number, from 0.
async fn query_usages(
    instances: &[Instance],
    data: impl Fn(usize) -> ReplayAnswer + Send + Sync + 'static,
    list: impl Fn() -> ReplayAnswer + Send + Sync + 'static,
) -> UsageAnswer {
    let number = AtomicUsize::new(0);
    let (aws, calls) = aws(move |call: &ReplayedCall| match call.name.as_str() {
        "GetMetricData" => data(number.fetch_add(1, Ordering::Relaxed)),
        _ => list(),
    });
    let asks: Vec<UsageQuery<'_>> = instances.iter().map(|instance| UsageQuery::in_full(instance, window())).collect();
    let config = Config::default();
    let region = Region::from("us-east-1");
    let lines = IdleThresholds { metrics: &config.metrics, idle: &config.idle };
    let Observed { items: found, gaps } = usages(&aws, &region, &asks, lines, now(), TIMEOUT).await;
    (usages_of(found), gaps, calls)
}

fn one_instance() -> [Instance; 1] {
    [instance("i-1", Accelerator::Nvidia)]
}

#[tokio::test]
async fn a_busy_cpu_settles_it_in_one_call() {
    let (usages, gaps, calls) =
        query_usages(&one_instance(), |_| data(&[Line(90.0, COMPLETE)], None), || listed(&[])).await;
    assert!(matches!(&usages["i-1"], Usage::Busy(busy) if busy.until == window().to), "{usages:?}");
    assert_eq!((gaps.len(), calls.names()), (0, vec!["GetMetricData".to_owned()]));
    assert!(calls.recorded()[0].parameters[0].contains("CPUUtilization"));
}

#[tokio::test]
async fn an_instance_without_any_activity_is_idle() {
    let answers = |number| if number == 0 { data(&[Line(1.0, COMPLETE)], None) } else { data(&quiet(), None) };
    // CloudWatch's stand-ins list a series once per datum.
    let (usages, gaps, calls) = query_usages(&one_instance(), answers, || listed(&["i-1", "i-1", "i-9"])).await;
    let Usage::Idle(quiet) = &usages["i-1"] else { panic!("{usages:?}") };
    assert_eq!((quiet.devices, quiet.coverage_percent, gaps.len()), (1, 100, 0));
    assert_eq!(calls.names(), ["GetMetricData", "ListMetrics", "ListMetrics", "GetMetricData"]);
    assert!(calls.recorded()[3].parameters[0].contains("nvidia_smi_utilization_gpu"));
}

#[tokio::test]
async fn only_the_quiet_ones_are_asked_about_further() {
    let two = [instance("i-1", Accelerator::Nvidia), instance("i-2", Accelerator::Nvidia)];
    let answers = |number| {
        if number == 0 { data(&[Line(90.0, COMPLETE), Line(1.0, COMPLETE)], None) } else { data(&quiet(), None) }
    };
    let (usages, _, calls) = query_usages(&two, answers, || listed(&["i-1", "i-2"])).await;
    assert!(matches!(usages["i-1"], Usage::Busy(_)) && matches!(usages["i-2"], Usage::Idle(_)), "{usages:?}");
    assert!(!calls.recorded()[3].parameters[0].contains("i-1"));
}

#[tokio::test]
async fn an_instance_without_series_is_known_to_have_none() {
    let answers = |number| {
        if number == 0 { data(&[Line(1.0, COMPLETE)], None) } else { data(&quiet()[..4], None) }
    };
    let (usages, gaps, _) = query_usages(&one_instance(), answers, || listed(&[])).await;
    let nothing = DeviceReport { devices: 1, ..DeviceReport::default() };
    assert_eq!(usages["i-1"], Usage::Unknown(UnknownUsage::Uninstrumented(nothing)));
    assert_eq!(gaps.len(), 0);
}

#[tokio::test]
async fn a_kind_without_a_metric_is_not_listed() {
    let answers = |number| {
        if number == 0 { data(&[Line(1.0, COMPLETE)], None) } else { data(&quiet()[..4], None) }
    };
    let (usages, _, calls) = query_usages(&[instance("i-1", Accelerator::Amd)], answers, || fault("Unexpected")).await;
    assert_eq!(usages["i-1"], Usage::Unknown(UnknownUsage::NoMetric));
    assert_eq!(calls.names(), ["GetMetricData", "GetMetricData"]);
}

#[tokio::test]
async fn a_list_that_fails_leaves_out_whom_it_is_about() {
    let amd = instance("i-2", Accelerator::Amd);
    let answers = |number| {
        if number == 0 { data(&[Line(1.0, COMPLETE), Line(1.0, COMPLETE)], None) } else { data(&quiet()[..4], None) }
    };
    let (usages, gaps, _) =
        query_usages(&[one_instance()[0].clone(), amd], answers, || fault("AccessDeniedException")).await;
    assert_eq!(usages.keys().map(ResourceId::as_str).collect::<Vec<_>>(), ["i-2"]);
    assert_eq!((gaps.len(), gaps[0].kind, gaps[0].call.as_str()), (1, GapKind::Part, "cloudwatch:ListMetrics"));
    assert!(gaps[0].error.ends_with("grant cloudwatch:ListMetrics to the role that asked"), "{gaps:?}");
}

#[tokio::test]
async fn a_first_round_that_fails_ends_it() {
    let (usages, gaps, calls) =
        query_usages(&one_instance(), |_| fault("InternalServiceFault"), || listed(&["i-1"])).await;
    assert_eq!((usages.len(), gaps.len(), calls.names().len()), (0, 1, 1));
    assert_eq!(gaps[0].call, "cloudwatch:GetMetricData");
}

#[tokio::test]
async fn a_second_round_that_fails_leaves_it_unknown() {
    let answers = |number| if number == 0 { data(&[Line(1.0, COMPLETE)], None) } else { fault("InternalServiceFault") };
    let (usages, gaps, _) = query_usages(&one_instance(), answers, || listed(&["i-1"])).await;
    assert_eq!((usages.len(), gaps.len()), (0, 1));
}

/// The second round with the GPU's utilisation cut short, and this much network.
async fn with_half_an_answer(status: &'static str, network_bytes: f64) -> UsageAnswer {
    let answers = move |number| {
        let mut lines = quiet();
        lines[0] = Line(network_bytes, COMPLETE);
        lines[4] = Line(0.0, status);
        if number == 0 { data(&[Line(1.0, COMPLETE)], None) } else { data(&lines, None) }
    };
    query_usages(&one_instance(), answers, || listed(&["i-1"])).await
}

#[tokio::test]
async fn half_an_answer_is_not_idleness() {
    for status in ["PartialData", "InternalError", "Forbidden"] {
        let (usages, gaps, _) = with_half_an_answer(status, 0.0).await;
        assert_eq!((usages.len(), gaps.len()), (0, 1), "{status}");
        assert!(gaps[0].error.starts_with("1 of 6 series were not answered in full"), "{gaps:?}");
    }
}

#[tokio::test]
async fn half_an_answer_can_show_work() {
    let (usages, gaps, _) = with_half_an_answer("InternalError", 1e12).await;
    assert!(matches!(usages["i-1"], Usage::Busy(_)), "{usages:?}");
    assert_eq!(gaps.len(), 1);
}

#[tokio::test]
async fn an_answer_may_go_on_in_the_next_page() {
    let answers = |number| match number {
        0 => data(&[Line(1.0, "PartialData")], Some("two")),
        1 => data(&[Line(90.0, COMPLETE)], None),
        _ => fault("Unexpected"),
    };
    let (usages, gaps, _) = query_usages(&one_instance(), answers, || fault("Unexpected")).await;
    assert!(matches!(usages["i-1"], Usage::Busy(_)), "{usages:?}");
    assert_eq!(gaps.len(), 0);
}

#[tokio::test]
async fn other_regions_are_not_asked_here() {
    let elsewhere = Instance { region: "eu-west-1".into(), ..one_instance()[0].clone() };
    let (usages, gaps, calls) = query_usages(&[elsewhere], |_| fault("Unexpected"), || fault("Unexpected")).await;
    assert_eq!((usages.len(), gaps.len(), calls.names().len()), (0, 0, 0));
}

/// Asks about one with one GPU, no further than this.
async fn told_at_depth(
    depth: QueryDepth,
    listed_gpus: &'static [&'static str],
) -> (BTreeMap<ResourceId, QueryResult>, ReplayedCalls) {
    let number = AtomicUsize::new(0);
    let (aws, calls) = aws(move |call: &ReplayedCall| match call.name.as_str() {
        "GetMetricData" if number.fetch_add(1, Ordering::Relaxed) == 0 => data(&[Line(1.0, COMPLETE)], None),
        "GetMetricData" => data(&quiet(), None),
        _ => listed(listed_gpus),
    });
    let one = one_instance();
    let asks = [UsageQuery { depth, ..UsageQuery::in_full(&one[0], window()) }];
    let config = Config::default();
    let lines = IdleThresholds { metrics: &config.metrics, idle: &config.idle };
    let Observed { items: found, gaps } = usages(&aws, &"us-east-1".into(), &asks, lines, now(), TIMEOUT).await;
    assert_eq!(gaps, []);
    (found, calls)
}

#[tokio::test]
async fn a_query_goes_no_further_than_its_depth() {
    let (found, calls) = told_at_depth(QueryDepth::WorkOnly, &["i-1"]).await;
    assert_eq!((&found["i-1"], calls.names().as_slice()), (&QueryResult::NoWork, &["GetMetricData".to_owned()][..]));
    let (found, calls) = told_at_depth(QueryDepth::IfInstrumented, &["i-9"]).await;
    assert_eq!((&found["i-1"], calls.names().len()), (&QueryResult::NoWork, 3));
    let (found, calls) = told_at_depth(QueryDepth::IfInstrumented, &["i-1"]).await;
    assert!(matches!(found["i-1"], QueryResult::Answered(Usage::Idle(_), None)));
    assert_eq!(calls.names(), ["GetMetricData", "ListMetrics", "ListMetrics", "GetMetricData"]);
}

#[tokio::test]
async fn what_showed_work_is_asked_with_the_cpu() {
    let (aws, calls) = aws(|_| data(&[Line(1.0, COMPLETE), Line(90.0, COMPLETE)], None));
    let series = MetricSeries { namespace: "CWAgent".to_owned(), metric: "gpu".to_owned(), dimensions: Vec::new() };
    let evidence = DecisiveSeries { signal: MetricSignal::Gpu(0), series };
    let one = one_instance();
    let asks = [UsageQuery { likely: Some(evidence.clone()), ..UsageQuery::in_full(&one[0], window()) }];
    let config = Config::default();
    let lines = IdleThresholds { metrics: &config.metrics, idle: &config.idle };
    let Observed { items: found, .. } = usages(&aws, &"us-east-1".into(), &asks, lines, now(), TIMEOUT).await;
    let QueryResult::Answered(Usage::Busy(busy), shown_by) = &found["i-1"] else { panic!("{found:?}") };
    assert_eq!((busy.until, shown_by), (window().to, &Some(evidence)));
    assert_eq!(calls.names(), ["GetMetricData"]);
}

#[tokio::test]
async fn series_are_listed_once_for_all_parts_of_the_first_round() {
    // At 60 days a call takes 5 questions. The first ones show work, so that little is kept of the first part.
    let five = |percent: f64| data(&[percent; 5].map(|value| Line(value, COMPLETE)), None);
    let number = AtomicUsize::new(0);
    let (aws, calls) = aws(move |call: &ReplayedCall| match call.name.as_str() {
        "GetMetricData" if number.fetch_add(1, Ordering::Relaxed) < 5 => five(90.0),
        "GetMetricData" => five(0.0),
        _ => listed(&[]),
    });
    let instances: Vec<Instance> =
        (0..40).map(|number| instance(&format!("i-{number}"), Accelerator::Nvidia)).collect();
    let sixty_days = UsageWindow::ending_before(now(), WINDOW_MAX);
    let asks: Vec<UsageQuery<'_>> =
        instances.iter().map(|instance| UsageQuery::in_full(instance, sixty_days)).collect();
    let config = Config::default();
    let lines = IdleThresholds { metrics: &config.metrics, idle: &config.idle };
    let Observed { items: found, gaps } = usages(&aws, &"us-east-1".into(), &asks, lines, now(), TIMEOUT).await;
    assert_eq!((found.len(), gaps.len()), (40, 0));
    assert_eq!(calls.names().iter().filter(|name| *name == "ListMetrics").count(), 2, "of utilisation and of power");
}
