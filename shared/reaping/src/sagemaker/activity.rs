//! The use of a resource in three values: active, inactive, unknown. A metric that is missing is never zero.
//!
//! - **An app** is inactive if and only if its user was last active a window ago or longer, and `SageMaker` has looked at it since: at least
//!   a window after that, and within the last one. A time of activity that is that of the last look says nothing: `SageMaker` writes it
//!   at looks without activity too (Amazon `SageMaker` API reference, "`DescribeApp`").
//! - **An endpoint** is inactive if and only if, over the whole window, its GPUs and its concurrent requests report often enough, the GPUs
//!   stay below `gpu_below_percent`, and there is no request. `Invocations` proves requests, but not their absence: `SageMaker` does not
//!   emit it with a value of zero.
//! - **An inference component** in the same way, by the metrics of its copies.
//! - **A job** of training or processing is inactive if and only if the GPUs of every host report often enough, and stay below that line.
//! - Of notebook instances, of tuning jobs, and of other apps nothing is known.
//!
//! One sample to the contrary, however fresh, shows activity. A value that its metric cannot have is no sample.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::config::{Config, RuleAction};
use model::curfew_tags::CurfewTags;
use model::moment::after;
use model::notification_log::{NotificationKey, NotificationLog};
use model::rule::Rule;
use model::sagemaker::{
    Activity, ActivityQuestion, ActivitySamples, ActivitySignal, ActivitySource, ComputeJob, EndpointFacts,
    InactiveEvidence, InferenceComponent, JobKind, SageMakerKind, SageMakerResource, SageMakerStatus, StudioApp,
    UnknownActivity,
};
use model::usage::{LAG, MetricSeries, PERIOD, Sample, Statistic, UsageWindow};

use super::feasible::is_notify_only;
use super::skip::production_reason;
use crate::rules::idle::sagemaker_window;

/// `GPUUtilization` is 100 % for each GPU of a host (Amazon `SageMaker` developer guide, "Amazon `SageMaker` AI metrics in Amazon `CloudWatch`"), and no
/// type has more.
const GPUS_MAX: f64 = 16.0;

/// No endpoint serves more requests in 5 minutes.
const REQUESTS_MAX: f64 = 1e12;

/// A job with more hosts is not judged: each costs a metric.
const HOSTS_MAX: u32 = 64;

/// Between the full queries of what only gets a notification, and got it: twice a day, and at least twice in its window, so that each shows a use
/// since the one before.
const HOURS_BETWEEN_MAX: i64 = 12;

/// The apps whose activity `SageMaker` reports (Amazon `SageMaker` developer guide, "Idle shutdown", and the API reference, "`DescribeApp`").
const MEASURED_APPS: [&str; 4] = ["JupyterLab", "JupyterServer", "CodeEditor", "KernelGateway"];

/// The first questions to `CloudWatch`. A single request shows that an endpoint is used, so endpoints are first asked about requests alone.
#[must_use]
pub fn first_questions(resources: &[SageMakerResource], config: &Config, now: Timestamp) -> Vec<ActivityQuestion> {
    let asked = resources.iter().filter_map(|resource| AskedResource::new(resource, config, now));
    asked.flat_map(AskedResource::first_questions).collect()
}

/// The questions about resources that the first answers did not show in use. `log` has the notifications of earlier runs.
#[must_use]
pub fn further_questions(
    resources: &[SageMakerResource],
    answers: &ActivitySamples,
    log: &NotificationLog,
    config: &Config,
    now: Timestamp,
) -> Vec<ActivityQuestion> {
    let asked = resources.iter().filter_map(|resource| AskedResource::new(resource, config, now));
    let asked = asked.filter(|asked| !was_notified_recently(asked.resource, log, config, now));
    asked.flat_map(|asked| asked.further_questions(answers)).collect()
}

/// The activity of one resource, by all answers.
#[must_use]
pub fn evaluate(resource: &SageMakerResource, answers: &ActivitySamples, config: &Config, now: Timestamp) -> Activity {
    let Some(window) = activity_window(resource, config) else { return Activity::Unknown(UnknownActivity::Unmeasured) };
    if resource.status != SageMakerStatus::Running {
        return Activity::Unknown(UnknownActivity::NotAsked);
    }
    if let SageMakerKind::App(app) = &resource.kind {
        return evaluate_app(app, resource.since(), window, now);
    }
    match AskedResource::new(resource, config, now) {
        Some(asked) => asked.evaluate(answers, config),
        None if resource.since() > UsageWindow::ending_before(now, window).from => {
            Activity::Unknown(UnknownActivity::Young)
        }
        None => Activity::Unknown(UnknownActivity::Unmeasured),
    }
}

/// `true` if its subscribers were notified that it is idle, no action can follow, and a full query is not due yet.
fn was_notified_recently(resource: &SageMakerResource, log: &NotificationLog, config: &Config, now: Timestamp) -> bool {
    let curfew_tags = CurfewTags::read_sagemaker(resource.created_at, &resource.tags).unwrap_or_default();
    let record = log.record_about(&resource.id, resource.created_at);
    let may_end = record.is_some_and(|record| !record.announced.is_empty())
        || !resource.kind.serves()
        || !is_notify_only(&resource.kind, config)
        || !matches!(curfew_tags.on_idle, None | Some(RuleAction::Notify));
    let notification = log.notification(&resource.id, &NotificationKey::rule(Rule::Idle));
    let Some(notification) = notification.filter(|_| !may_end) else { return false };
    let window = activity_window(resource, config).unwrap_or_default();
    let between = (window.as_hours() / 2).clamp(1, HOURS_BETWEEN_MAX);
    // Runs come by the hour, some seconds early or late.
    now.duration_since(notification.at).saturating_add(SignedDuration::from_mins(30)).as_hours().rem_euclid(between)
        != 0
}

/// The window of a resource. If its tag exempts it from idleness, the configured window applies, because other rules ask whether it works.
fn activity_window(resource: &SageMakerResource, config: &Config) -> Option<SignedDuration> {
    let curfew_tags = CurfewTags::read_sagemaker(resource.created_at, &resource.tags).unwrap_or_default();
    let configured = || sagemaker_window(&resource.kind, &CurfewTags::default(), config);
    sagemaker_window(&resource.kind, &curfew_tags, config).or_else(configured)
}

fn evaluate_app(app: &StudioApp, since: Timestamp, window: SignedDuration, now: Timestamp) -> Activity {
    if !MEASURED_APPS.contains(&app.app_type.as_str()) {
        return Activity::Unknown(UnknownActivity::Unmeasured);
    }
    let Some(last) = app.last_activity else { return Activity::Unknown(UnknownActivity::NotAsked) };
    let health_check = app.last_health_check;
    if health_check == Some(last) {
        return Activity::Unknown(UnknownActivity::HealthCheck);
    }
    if now.duration_since(last) < window {
        return Activity::Active(last);
    }
    if now.duration_since(since) < window {
        return Activity::Unknown(UnknownActivity::Young);
    }
    match health_check {
        Some(health_check)
            if health_check.duration_since(last) >= window && now.duration_since(health_check) <= window =>
        {
            Activity::Inactive(InactiveEvidence {
                from: last,
                to: health_check,
                shown_by: ActivitySource::UserActivity,
                gpu_max_percent: None,
            })
        }
        _ => Activity::Unknown(UnknownActivity::NotAsked),
    }
}

/// A resource that `CloudWatch` has metrics of, and that is old enough for a query.
#[derive(Clone, Copy)]
pub(super) struct AskedResource<'a> {
    resource: &'a SageMakerResource,
    pub(super) source: MetricSource<'a>,
    pub(super) window: UsageWindow,
}

#[derive(Clone, Copy)]
pub(super) enum MetricSource<'a> {
    Endpoint { variant: &'a str },
    Component,
    Job { namespace: &'static str, hosts: u32 },
}

impl<'a> AskedResource<'a> {
    fn new(resource: &'a SageMakerResource, config: &Config, now: Timestamp) -> Option<Self> {
        Self::over(resource, UsageWindow::ending_before(now, activity_window(resource, config)?))
    }

    /// A resource of which that window is asked about.
    pub(super) fn over(resource: &'a SageMakerResource, window: UsageWindow) -> Option<Self> {
        if resource.status != SageMakerStatus::Running || resource.since() > window.from {
            return None;
        }
        let source = match &resource.kind {
            SageMakerKind::Endpoint { facts: Some(facts) } if production_reason(facts).is_none() => {
                MetricSource::Endpoint { variant: only_variant(facts)? }
            }
            SageMakerKind::InferenceComponent(InferenceComponent { is_autoscaled: Some(false), .. }) => {
                MetricSource::Component
            }
            SageMakerKind::Job(ComputeJob { job, .. }) => {
                let hosts = resource.instances.filter(|hosts| (1..=HOSTS_MAX).contains(hosts))?;
                MetricSource::Job { namespace: namespace(*job)?, hosts }
            }
            _ => return None,
        };
        Some(Self { resource, source, window })
    }

    fn first_questions(self) -> Vec<ActivityQuestion> {
        match self.source {
            MetricSource::Endpoint { .. } | MetricSource::Component => {
                self.request_question(ActivitySignal::Requests).into_iter().collect()
            }
            MetricSource::Job { .. } => self.host_question(0).into_iter().collect(),
        }
    }

    fn further_questions(self, answers: &ActivitySamples) -> Vec<ActivityQuestion> {
        let samples = |signal| answers.get(&self.resource.id).and_then(|answers| answers.get(&signal));
        match self.source {
            MetricSource::Endpoint { .. } | MetricSource::Component => {
                // What cannot be leaves it unknown, whatever the others say.
                let has_request = |samples: &Vec<Sample>| samples.iter().any(|(_, count)| *count != 0.0);
                if samples(ActivitySignal::Requests).is_none_or(has_request) {
                    return Vec::new();
                }
                let signals = [ActivitySignal::ConcurrentRequests, ActivitySignal::Gpu(0)];
                signals.into_iter().filter_map(|signal| self.request_question(signal)).collect()
            }
            MetricSource::Job { hosts, .. } => {
                if samples(ActivitySignal::Gpu(0)).is_none_or(Vec::is_empty) {
                    return Vec::new();
                }
                (1..hosts).filter_map(|host| self.host_question(host)).collect()
            }
        }
    }

    /// Amazon `SageMaker` developer guide, "Amazon `SageMaker` AI metrics in Amazon `CloudWatch`".
    pub(super) fn request_question(self, signal: ActivitySignal) -> Option<ActivityQuestion> {
        let name = self.resource.name().to_owned();
        let (dimensions, concurrent, gpus) = match self.source {
            MetricSource::Endpoint { variant } => (
                vec![("EndpointName".to_owned(), name), ("VariantName".to_owned(), variant.to_owned())],
                "ConcurrentRequestsPerModel",
                ("/aws/sagemaker/Endpoints", "GPUUtilization"),
            ),
            MetricSource::Component => (
                vec![("InferenceComponentName".to_owned(), name)],
                "ConcurrentRequestsPerCopy",
                ("/aws/sagemaker/InferenceComponents", "GPUUtilizationNormalized"),
            ),
            MetricSource::Job { .. } => return None,
        };
        let ((namespace, metric), statistic) = match signal {
            ActivitySignal::Requests => (("AWS/SageMaker", "Invocations"), Statistic::Sum),
            ActivitySignal::ConcurrentRequests => (("AWS/SageMaker", concurrent), Statistic::Maximum),
            ActivitySignal::Gpu(_) => (gpus, Statistic::Maximum),
        };
        let series = MetricSeries { namespace: namespace.to_owned(), metric: metric.to_owned(), dimensions };
        Some(self.question(signal, series, statistic))
    }

    /// The question about one host of a job, `<job>/algo-<number>` from 1, by the same page.
    fn host_question(self, host: u32) -> Option<ActivityQuestion> {
        let MetricSource::Job { namespace, .. } = self.source else { return None };
        let series = MetricSeries {
            namespace: namespace.to_owned(),
            metric: "GPUUtilization".to_owned(),
            dimensions: vec![("Host".to_owned(), format!("{}/algo-{}", self.resource.name(), host + 1))],
        };
        Some(self.question(ActivitySignal::Gpu(host), series, Statistic::Maximum))
    }

    pub(super) fn allows(self, signal: ActivitySignal, value: f64) -> bool {
        let most = match (signal, self.source) {
            (ActivitySignal::Requests | ActivitySignal::ConcurrentRequests, _) => REQUESTS_MAX,
            (ActivitySignal::Gpu(_), MetricSource::Component) => 100.0,
            (ActivitySignal::Gpu(_), _) => 100.0 * GPUS_MAX,
        };
        (0.0..=most).contains(&value)
    }

    /// Samples after the window show activity too.
    fn question(self, signal: ActivitySignal, series: MetricSeries, statistic: Statistic) -> ActivityQuestion {
        let (from, until) = (self.window.from, after(self.window.to, LAG));
        ActivityQuestion { resource: self.resource.id.clone(), signal, series, statistic, period: PERIOD, from, until }
    }

    fn evaluate(self, answers: &ActivitySamples, config: &Config) -> Activity {
        let Some(answered) = answers.get(&self.resource.id) else {
            return Activity::Unknown(UnknownActivity::NotAsked);
        };
        let possible = |(signal, samples): (&ActivitySignal, &Vec<Sample>)| {
            let samples = samples.iter().filter(|(_, value)| self.allows(*signal, *value));
            (*signal, samples.copied().collect::<Vec<Sample>>())
        };
        let samples: BTreeMap<ActivitySignal, Vec<Sample>> = answered.iter().map(possible).collect();
        let impossible = |signal: ActivitySignal| {
            let refused = answered.get(&signal)?.iter().rev().find(|(_, value)| !self.allows(signal, *value))?;
            Some(Activity::Unknown(UnknownActivity::ImpossibleValue(signal, refused.1)))
        };
        let line = config.idle.gpu_below_percent;
        let works = |(signal, samples): (&ActivitySignal, &Vec<Sample>)| {
            let is_work = |value: f64| match signal {
                ActivitySignal::Requests | ActivitySignal::ConcurrentRequests => value > 0.0,
                ActivitySignal::Gpu(_) => value >= line,
            };
            samples.iter().filter(|(_, value)| is_work(*value)).map(|(at, _)| *at).max()
        };
        if let Some(at) = samples.iter().filter_map(works).max() {
            return Activity::Active(at);
        }
        let coverage = config.idle.coverage_min_percent.get();
        let reports = |signal: &ActivitySignal| {
            let signal_samples = samples.get(signal).map_or(&[][..], Vec::as_slice);
            let reported =
                signal_samples.iter().filter(|(at, _)| (self.window.from..self.window.to).contains(at)).count();
            reported > 0 && reported * 100 >= self.window.periods() * usize::from(coverage)
        };
        let needed: Vec<ActivitySignal> = match self.source {
            MetricSource::Endpoint { .. } | MetricSource::Component => {
                vec![ActivitySignal::ConcurrentRequests, ActivitySignal::Gpu(0)]
            }
            MetricSource::Job { hosts, .. } => (0..hosts).map(ActivitySignal::Gpu).collect(),
        };
        // Without an answer it is unknown whether there were requests.
        let serves = self.resource.kind.serves();
        if serves && !samples.contains_key(&ActivitySignal::Requests) {
            return Activity::Unknown(UnknownActivity::NotAsked);
        }
        // A period without requests has no sample of them, so one that is left out would be such a period.
        if let Some(unknown) = impossible(ActivitySignal::Requests) {
            return unknown;
        }
        if let Some(silent) = needed.into_iter().find(|signal| !reports(signal)) {
            let was_asked = samples.contains_key(&silent);
            let unknown = if was_asked { UnknownActivity::TooFewSamples(silent) } else { UnknownActivity::NotAsked };
            return impossible(silent).unwrap_or(Activity::Unknown(unknown));
        }
        let gpu_samples = samples.iter().filter(|(signal, _)| matches!(signal, ActivitySignal::Gpu(_)));
        let gpu_max_percent = gpu_samples.flat_map(|(_, samples)| samples).map(|(_, value)| *value).reduce(f64::max);
        Activity::Inactive(InactiveEvidence {
            from: self.window.from,
            to: self.window.to,
            shown_by: if serves { ActivitySource::Requests } else { ActivitySource::Gpu },
            gpu_max_percent,
        })
    }
}

fn only_variant(facts: &EndpointFacts) -> Option<&str> {
    match facts.variants.as_slice() {
        [variant] => Some(variant),
        _ => None,
    }
}

const fn namespace(job: JobKind) -> Option<&'static str> {
    match job {
        JobKind::Training => Some("/aws/sagemaker/TrainingJobs"),
        JobKind::Processing => Some("/aws/sagemaker/ProcessingJobs"),
        JobKind::Tuning => None,
    }
}

#[cfg(test)]
mod tests;
