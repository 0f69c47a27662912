use model::fixture::{NOW, SageMakerBuilder, app, endpoint, inference_component, notebook, time, training_job};

use model::notification_log::NotificationEntry;
use model::sagemaker::JobKind;
use model::usage::PERIOD;

use super::*;
use crate::fixture::log_of_labels;

/// Samples of one signal: the same value in each of the last periods of the window, or in so many of them.
#[derive(Clone, Copy)]
enum Series {
    Absent,
    Silent,
    Steady(f64),
    Sparse(f64, usize),
    /// One sample, so many minutes ago.
    Once(f64, i64),
}

impl Series {
    fn samples(self, window: UsageWindow) -> Option<Vec<Sample>> {
        let last = |count: usize, value: f64| {
            (0..count).map(|place| (window.from + PERIOD * i32::try_from(place).unwrap(), value)).collect()
        };
        match self {
            Self::Absent => None,
            Self::Silent => Some(Vec::new()),
            Self::Steady(value) => Some(last(window.periods(), value)),
            Self::Sparse(value, count) => Some(last(count, value)),
            Self::Once(value, minutes) => Some(vec![(time(NOW) - SignedDuration::from_mins(minutes), value)]),
        }
    }
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Inactive,
    Active,
    Unknown(UnknownActivity),
}

fn to_outcome(activity: &Activity) -> Outcome {
    match activity {
        Activity::Inactive(_) => Outcome::Inactive,
        Activity::Active(_) | Activity::LowUse(_) => Outcome::Active,
        Activity::Unknown(unknown) => Outcome::Unknown(*unknown),
    }
}

fn check(builder: SageMakerBuilder, answers: &[(ActivitySignal, Series)], expect: Outcome) {
    let (resource, config) = (builder.build(), Config::default());
    let window = UsageWindow::ending_before(time(NOW), activity_window(&resource, &config).unwrap_or(PERIOD));
    let samples = answers.iter().filter_map(|(signal, series)| Some((*signal, series.samples(window)?))).collect();
    let answers = ActivitySamples::from([(resource.id.clone(), samples)]);
    assert_eq!(to_outcome(&evaluate(&resource, &answers, &config, time(NOW))), expect, "{resource:?} {answers:?}");
}

const REQUESTS: ActivitySignal = ActivitySignal::Requests;
const CONCURRENT: ActivitySignal = ActivitySignal::ConcurrentRequests;
const GPU: ActivitySignal = ActivitySignal::Gpu(0);

fn too_few(signal: ActivitySignal) -> Outcome {
    Outcome::Unknown(UnknownActivity::TooFewSamples(signal))
}

#[test]
fn an_endpoint_is_inactive_if_all_metrics_show_it() {
    let quiet = [(REQUESTS, Series::Silent), (CONCURRENT, Series::Steady(0.0)), (GPU, Series::Steady(1.0))];
    check(endpoint(), &quiet, Outcome::Inactive);
    check(inference_component(), &quiet, Outcome::Inactive);
    check(inference_component(), &quiet[..2], Outcome::Unknown(UnknownActivity::NotAsked));
    let zeros = [(REQUESTS, Series::Steady(0.0)), quiet[1], quiet[2]];
    check(endpoint(), &zeros, Outcome::Inactive);
}

#[test]
fn one_sample_of_any_kind_is_use() {
    let quiet = [(REQUESTS, Series::Silent), (CONCURRENT, Series::Steady(0.0)), (GPU, Series::Steady(1.0))];
    check(endpoint(), &[(REQUESTS, Series::Once(1.0, 600)), quiet[1], quiet[2]], Outcome::Active);
    check(endpoint(), &[(REQUESTS, Series::Once(1.0, 1))], Outcome::Active);
    check(endpoint(), &[quiet[0], (CONCURRENT, Series::Sparse(1.0, 1)), quiet[2]], Outcome::Active);
    check(endpoint(), &[quiet[0], quiet[1], (GPU, Series::Sparse(5.0, 1))], Outcome::Active);
}

#[test]
fn a_metric_that_is_missing_is_never_zero() {
    let quiet = [(REQUESTS, Series::Silent), (CONCURRENT, Series::Steady(0.0)), (GPU, Series::Steady(1.0))];
    check(endpoint(), &[], Outcome::Unknown(UnknownActivity::NotAsked));
    check(endpoint(), &[(REQUESTS, Series::Absent), quiet[1], quiet[2]], Outcome::Unknown(UnknownActivity::NotAsked));
    check(endpoint(), &[quiet[0], (CONCURRENT, Series::Silent), quiet[2]], too_few(CONCURRENT));
    check(endpoint(), &[quiet[0], (CONCURRENT, Series::Absent), quiet[2]], Outcome::Unknown(UnknownActivity::NotAsked));
    check(endpoint(), &[quiet[0], quiet[1], (GPU, Series::Silent)], too_few(GPU));
    check(endpoint(), &[quiet[0], quiet[1], (GPU, Series::Sparse(1.0, 200))], too_few(GPU));
}

#[test]
fn what_a_metric_cannot_have_is_neither_use_nor_its_absence() {
    let quiet = [(REQUESTS, Series::Silent), (CONCURRENT, Series::Steady(0.0)), (GPU, Series::Steady(1.0))];
    let unknown = |signal, value| Outcome::Unknown(UnknownActivity::ImpossibleValue(signal, value));
    for value in [-1.0, 1e15, f64::INFINITY] {
        check(endpoint(), &[(REQUESTS, Series::Once(value, 600)), quiet[1], quiet[2]], unknown(REQUESTS, value));
        check(endpoint(), &[quiet[0], (CONCURRENT, Series::Steady(value)), quiet[2]], unknown(CONCURRENT, value));
        check(endpoint(), &[quiet[0], quiet[1], (GPU, Series::Steady(value))], unknown(GPU, value));
        check(training_job().with(|job| job.instances = Some(1)), &[(GPU, Series::Steady(value))], unknown(GPU, value));
    }
    // Eight GPUs add up; the copies of a component do not.
    check(endpoint(), &[quiet[0], quiet[1], (GPU, Series::Steady(800.0))], Outcome::Active);
    check(inference_component(), &[quiet[0], quiet[1], (GPU, Series::Steady(800.0))], unknown(GPU, 800.0));
    check(endpoint(), &[(REQUESTS, Series::Once(-1.0, 600)), (CONCURRENT, Series::Sparse(1.0, 1))], Outcome::Active);
}

#[test]
fn an_endpoint_that_may_be_in_production_is_not_asked_about() {
    let asked = |builder: SageMakerBuilder| first_questions(&[builder.build()], &Config::default(), time(NOW)).len();
    assert_eq!(asked(endpoint()), 1);
    assert_eq!(asked(endpoint().facts(|facts| facts.is_autoscaled = Some(true))), 0);
    assert_eq!(asked(endpoint().facts(|facts| facts.is_autoscaled = None)), 0);
    assert_eq!(asked(endpoint().facts(|facts| facts.variants.push("b".to_owned()))), 0);
    assert_eq!(asked(endpoint().modified("2026-08-31T11:55:00Z")), 0);
    assert_eq!(asked(notebook()), 0);
    assert_eq!(asked(app()), 0);
}

#[test]
fn one_request_spares_two_questions() {
    let resources = [endpoint().build()];
    let further = |series: Series| {
        let window = UsageWindow::ending_before(time(NOW), SignedDuration::from_hours(24));
        let samples = series.samples(window).map(|samples| (REQUESTS, samples)).into_iter().collect();
        let answers = ActivitySamples::from([(resources[0].id.clone(), samples)]);
        further_questions(&resources, &answers, &NotificationLog::default(), &Config::default(), time(NOW)).len()
    };
    assert_eq!(further(Series::Silent), 2);
    assert_eq!(further(Series::Once(3.0, 60)), 0);
    assert_eq!(further(Series::Absent), 0);
}

#[test]
fn every_host_of_a_job_counts() {
    let hosts = |count: u32| training_job().with(|job| job.instances = Some(count));
    check(hosts(1), &[(GPU, Series::Steady(0.0))], Outcome::Inactive);
    check(hosts(2), &[(GPU, Series::Steady(0.0))], Outcome::Unknown(UnknownActivity::NotAsked));
    check(
        hosts(2),
        &[(GPU, Series::Steady(0.0)), (ActivitySignal::Gpu(1), Series::Silent)],
        too_few(ActivitySignal::Gpu(1)),
    );
    let both = [(GPU, Series::Steady(0.0)), (ActivitySignal::Gpu(1), Series::Steady(90.0))];
    check(hosts(2), &both, Outcome::Active);
    check(hosts(65), &[(GPU, Series::Steady(0.0))], Outcome::Unknown(UnknownActivity::Unmeasured));
    check(hosts(1).job(JobKind::Tuning), &[], Outcome::Unknown(UnknownActivity::Unmeasured));
    check(hosts(1).created("2026-09-01T11:00:00Z"), &[], Outcome::Unknown(UnknownActivity::Young));
    let questions = first_questions(&[hosts(2).build()], &Config::default(), time(NOW));
    assert_eq!(questions[0].series.dimensions, [("Host".to_owned(), "bert/algo-1".to_owned())]);
}

fn check_app(last_activity: Option<&str>, last_look: Option<&str>, expect: Outcome) {
    check(app().used(last_activity, last_look), &[], expect);
}

#[test]
fn an_app_is_inactive_after_a_later_health_check() {
    let health_check = Some("2026-09-01T11:50:00Z");
    check_app(Some("2026-09-01T05:00:00Z"), health_check, Outcome::Inactive);
    check_app(Some("2026-09-01T07:50:00Z"), health_check, Outcome::Inactive);
    check_app(Some("2026-09-01T08:00:01Z"), health_check, Outcome::Active);
    check_app(Some("2026-09-01T05:00:00Z"), None, Outcome::Unknown(UnknownActivity::NotAsked));
    // The health check came soon after, and none since.
    check_app(Some("2026-09-01T05:00:00Z"), Some("2026-09-01T08:30:00Z"), Outcome::Unknown(UnknownActivity::NotAsked));
    check_app(Some("2026-09-01T01:00:00Z"), Some("2026-09-01T07:00:00Z"), Outcome::Unknown(UnknownActivity::NotAsked));
    check_app(None, health_check, Outcome::Unknown(UnknownActivity::NotAsked));
}

#[test]
fn a_health_check_is_no_user_activity() {
    let health_check = Some("2026-09-01T11:50:00Z");
    check_app(health_check, health_check, Outcome::Unknown(UnknownActivity::HealthCheck));
    let long_ago = Some("2026-09-01T01:00:00Z");
    check_app(long_ago, long_ago, Outcome::Unknown(UnknownActivity::HealthCheck));
}

#[test]
fn other_apps_and_notebook_instances_are_unknown() {
    let canvas = app().with(|resource| {
        if let SageMakerKind::App(app) = &mut resource.kind {
            app.app_type = "Canvas".to_owned();
        }
    });
    check(canvas, &[], Outcome::Unknown(UnknownActivity::Unmeasured));
    check(notebook(), &[], Outcome::Unknown(UnknownActivity::Unmeasured));
    check(app().created("2026-09-01T09:00:00Z"), &[], Outcome::Unknown(UnknownActivity::Young));
}

fn describe_question(question: &ActivityQuestion) -> String {
    let MetricSeries { namespace, metric, dimensions } = &question.series;
    let dimensions: Vec<String> = dimensions.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{namespace} {metric} {}", dimensions.join(","))
}

#[test]
fn an_inference_component_is_asked_about_by_its_own_name() {
    let component = inference_component().build();
    let config = Config::default();
    let first = first_questions(std::slice::from_ref(&component), &config, time(NOW));
    let answers = ActivitySamples::from([(component.id.clone(), [(REQUESTS, Vec::new())].into())]);
    let further =
        further_questions(std::slice::from_ref(&component), &answers, &NotificationLog::default(), &config, time(NOW));
    let asked: Vec<String> = first.iter().chain(&further).map(describe_question).collect();
    assert_eq!(
        asked,
        [
            "AWS/SageMaker Invocations InferenceComponentName=llama",
            "AWS/SageMaker ConcurrentRequestsPerCopy InferenceComponentName=llama",
            "/aws/sagemaker/InferenceComponents GPUUtilizationNormalized InferenceComponentName=llama",
        ]
    );
    let scaled = inference_component().component(|component| component.is_autoscaled = None).build();
    assert!(first_questions(&[scaled], &config, time(NOW)).is_empty());
}

#[test]
fn a_notified_notify_only_resource_is_queried_in_full_twice_a_day() {
    let full_queries = |builder: SageMakerBuilder, config: &str, is_notified: bool| {
        let (one, config) = (builder.build(), Config::read(config).unwrap());
        let entry = NotificationEntry { at: time(NOW), what: "configured".to_owned() };
        let mut log = log_of_labels(&one.id, one.created_at, &one.tags);
        let notified = log.resources.values_mut().map(|record| &mut record.notified);
        notified.filter(|_| is_notified).for_each(|notified| {
            notified.insert(NotificationKey::rule(Rule::Idle), entry.clone());
        });
        let answers = ActivitySamples::from([(one.id.clone(), [(REQUESTS, Vec::new())].into())]);
        let is_full = |hour: i64| {
            // The schedule is some seconds early and late in turn.
            let now = time(NOW)
                + SignedDuration::from_hours(hour)
                + SignedDuration::from_secs(if hour % 2 == 0 { -9 } else { 9 });
            !further_questions(std::slice::from_ref(&one), &answers, &log, &config, now).is_empty()
        };
        (1..=24).filter(|hour| is_full(*hour)).count()
    };
    assert_eq!(full_queries(endpoint(), "", true), 2);
    assert_eq!(full_queries(inference_component(), "", true), 2);
    assert_eq!(full_queries(endpoint(), "", false), 24);
    assert_eq!(full_queries(endpoint(), "[sagemaker]\nendpoint_window = \"6h\"", true), 8);
    assert_eq!(full_queries(endpoint(), "[sagemaker]\nendpoint_window = \"1h\"", true), 24);
    // Where it may be ended, it is asked in every run.
    assert_eq!(full_queries(endpoint(), "[sagemaker]\nendpoint_action = \"delete\"", true), 24);
    assert_eq!(full_queries(endpoint().tag("curfew:on-idle", "terminate"), "", true), 24);
    assert_eq!(full_queries(endpoint().tag("curfew:marked", "idle=delete@2026-09-01T11:00:00Z"), "", true), 24);
}
