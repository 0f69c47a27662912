//! What is paid for under `SageMaker`, although something cheaper may do. Curfew notifies its owner once, and never acts on it.
//!
//! - **A training job on demand** has run for [`SHORT_JOB`], copies checkpoints to S3, and managed Spot could run it. A job without checkpoints
//!   would begin anew after each interruption, and a job of a tuning job is as that makes it: neither is found.
//! - **An endpoint of low use** had few requests over `low_use_window`, while its GPUs, which reported often enough, were below
//!   `[idle] gpu_below_percent` on average. What has no request at all is idle, and what may be in production by its looks is skipped
//!   ([`super::skip`]). A metric that is missing is never zero.
//!
//! What it says of cheaper inference is from the Amazon `SageMaker` developer guide: "Asynchronous inference" (the same models, scaled to zero
//! instances, answers in S3), "Batch transform", and "Serverless Inference", "Feature exclusions" (no GPUs).

use billing::price;
use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::notification_log::{NotificationKey, NotificationLog};
use model::sagemaker::{
    Activity, ActivityQuestion, ActivitySamples, ActivitySignal, ComputeJob, JobKind, LowUse, SageMakerKind,
    SageMakerResource,
};
use model::usage::{Statistic, UsageWindow};
use plan::{FindingKind, OwnerFinding};

use super::SageMakerCase;
use super::activity::{AskedResource, MetricSource};
use crate::long_window::{self, HOUR, HOURS_OF_A_DAY};

/// A shorter job gains little: it may wait for Spot capacity for as long.
const SHORT_JOB: SignedDuration = SignedDuration::from_hours(1);

const MANAGED_SPOT: &str = "it trains on demand and copies checkpoints to S3. If its program goes on from them, managed Spot can run \
                            the next one: set EnableManagedSpotTraining and MaxWaitTimeInSeconds. What that saves is known once such a job has ended, by its \
                            BillableTimeInSeconds";

const CHEAPER_INFERENCE: &str = "If its callers can wait, asynchronous inference serves the same model, and can scale to no instance between \
                                 requests; batch transform serves requests that can be collected. Serverless inference has no GPU";

/// The questions about the use of one endpoint over a long window. Only one that is in use is asked about, which with `notices` of earlier runs is
/// once a day, until its owner was notified.
#[must_use]
pub fn low_use_questions(
    resource: &SageMakerResource,
    activity: &Activity,
    notices: Option<&NotificationLog>,
    config: &Config,
    now: Timestamp,
) -> Vec<ActivityQuestion> {
    let is_due = notices.is_none_or(|log| is_due(resource, log, now));
    let Some(asked) = asked(resource, config, now).filter(|_| is_due && matches!(activity, Activity::Active(_))) else {
        return Vec::new();
    };
    let question = |(signal, statistic)| {
        let question = asked.request_question(signal)?;
        Some(ActivityQuestion { statistic, period: HOUR, until: asked.window.to, ..question })
    };
    let signals = [(ActivitySignal::Requests, Statistic::Sum), (ActivitySignal::Gpu(0), Statistic::Average)];
    signals.into_iter().filter_map(question).collect()
}

/// Low use, where the answers show it of something in use; otherwise the activity as it is.
#[must_use]
pub fn evaluate_low_use(
    resource: &SageMakerResource,
    activity: Activity,
    answers: &ActivitySamples,
    config: &Config,
    now: Timestamp,
) -> Activity {
    let Activity::Active(used_at) = activity else { return activity };
    low_use(resource, used_at, answers, config, now).map_or(activity, Activity::LowUse)
}

fn low_use(
    resource: &SageMakerResource,
    used_at: Timestamp,
    answers: &ActivitySamples,
    config: &Config,
    now: Timestamp,
) -> Option<LowUse> {
    let asked = asked(resource, config, now)?;
    let UsageWindow { from, to } = asked.window;
    let values = |signal: ActivitySignal| -> Option<Vec<f64>> {
        let within = answers.get(&resource.id)?.get(&signal)?.iter().filter(|(at, _)| (from..to).contains(at));
        // One that is left out may have been a use.
        within.map(|(_, value)| asked.allows(signal, *value).then_some(*value)).collect()
    };
    let (requests, gpu) = (values(ActivitySignal::Requests)?, values(ActivitySignal::Gpu(0))?);
    if !long_window::is_covered(gpu.len(), asked.window, config.idle.coverage_min_percent.get()) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a window has some thousand hours at most")]
    let (samples, days) = (gpu.len() as f64, long_window::hours(asked.window) as f64 / HOURS_OF_A_DAY as f64);
    let (requests, gpu_mean_percent) = (requests.iter().sum::<f64>(), gpu.iter().sum::<f64>() / samples);
    let is_low = requests > 0.0
        && requests < f64::from(config.sagemaker.low_use_requests_per_day) * days
        && gpu_mean_percent < config.idle.gpu_below_percent;
    is_low.then_some(LowUse { used_at, from, to, requests, gpu_mean_percent })
}

/// An endpoint that has had its variant for the whole window, in whole hours.
fn asked<'a>(resource: &'a SageMakerResource, config: &Config, now: Timestamp) -> Option<AskedResource<'a>> {
    if config.sagemaker.low_use_requests_per_day == 0 {
        return None;
    }
    let window = long_window::ending_before(now, config.sagemaker.low_use_window)?;
    AskedResource::over(resource, window).filter(|asked| matches!(asked.source, MetricSource::Endpoint { .. }))
}

fn is_due(resource: &SageMakerResource, log: &NotificationLog, now: Timestamp) -> bool {
    let was_notified = || log.was_notified(&resource.id, &FindingKind::LowUse.key(), &life(resource));
    long_window::is_asked_today(resource.since(), now) && !was_notified()
}

/// The life that a notification of low use is about: whoever changes an endpoint may change its use.
fn life(resource: &SageMakerResource) -> String {
    resource.since().to_string()
}

/// `42 requests from 2026-08-18T11:00:00Z to 2026-09-01T11:00:00Z (3.0 a day), GPUs at 1 % on average`.
pub(crate) fn describe_low_use(LowUse { from, to, requests, gpu_mean_percent, .. }: &LowUse) -> String {
    let plural = if *requests < 1.5 { "" } else { "s" };
    let per_day = requests_per_day(*from, *to, *requests);
    format!(
        "{requests:.0} request{plural} from {from} to {to} ({per_day:.1} a day), GPUs at {gpu_mean_percent:.0} % on average"
    )
}

fn requests_per_day(from: Timestamp, to: Timestamp, requests: f64) -> f64 {
    requests * 86_400.0 / to.duration_since(from).as_secs_f64().max(1.0)
}

/// What is paid for, although something cheaper may do.
pub(super) struct Waste {
    pub(super) kind: FindingKind,
    /// The evidence, and the advice.
    pub(super) evidence: String,
    pub(super) in_short: String,
}

impl SageMakerCase<'_> {
    pub(super) fn waste(self) -> Option<Waste> {
        if self.trains_on_demand() {
            let in_short = "managed Spot could run it".to_owned();
            return Some(Waste { kind: FindingKind::OnDemandTraining, evidence: MANAGED_SPOT.to_owned(), in_short });
        }
        let Activity::LowUse(low_use) = self.activity else { return None };
        let LowUse { from, to, requests, gpu_mean_percent, .. } = *low_use;
        let per_day = requests_per_day(from, to, requests);
        let in_short = format!("{per_day:.1} requests a day, GPUs at {gpu_mean_percent:.0} %");
        let evidence = format!("{}. {CHEAPER_INFERENCE}", describe_low_use(low_use));
        Some(Waste { kind: FindingKind::LowUse, evidence, in_short })
    }

    pub(super) fn waste_finding(self) -> Option<OwnerFinding> {
        let Waste { kind, evidence, .. } = self.waste()?;
        let cost = price::describe_cost(self.policy.prices.sagemaker_cost(self.resource));
        let what = if kind == FindingKind::LowUse { life(self.resource) } else { "on-demand".to_owned() };
        Some(OwnerFinding { kind, what, text: format!("{evidence}. {cost}") })
    }

    /// The key of a notification that is not repeated. That of low use stays: it is asked about no more.
    pub(super) fn waste_key(self) -> Option<NotificationKey> {
        match self.resource.kind {
            SageMakerKind::Endpoint { .. } => Some(FindingKind::LowUse.key()),
            _ => self.waste().map(|waste| waste.kind.key()),
        }
    }

    fn trains_on_demand(self) -> bool {
        let SageMakerKind::Job(ComputeJob {
            job: JobKind::Training,
            tuning_job: None,
            billing,
            has_checkpoints: true,
            excludes_spot: false,
        }) = &self.resource.kind
        else {
            return false;
        };
        let started_at = billing.started_at.unwrap_or(self.now);
        self.policy.config.sagemaker.on_demand_training
            && !billing.is_managed_spot
            && self.now.duration_since(started_at) >= SHORT_JOB
    }
}

#[cfg(test)]
mod tests;
