//! The questions to `CloudWatch` about a resource, and the evidence that it is used.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::id::ResourceId;
use crate::usage::{MetricSeries, Sample, Statistic};

/// Signal that `CloudWatch` has of an endpoint, an inference component or a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActivitySignal {
    /// `Invocations`, summed. `SageMaker` does not emit it with a value of zero (Amazon `SageMaker` developer guide, "Automatic scaling").
    Requests,
    /// `ConcurrentRequestsPerModel`, or `ConcurrentRequestsPerCopy`.
    ConcurrentRequests,
    /// `GPUUtilization` of one host, in percent, summed over its GPUs.
    Gpu(u32),
}

/// A question about one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivityQuestion<S = ActivitySignal> {
    pub resource: ResourceId,
    pub signal: S,
    pub series: MetricSeries,
    pub statistic: Statistic,
    /// Time that one sample is about.
    pub period: SignedDuration,
    /// The start of its first period.
    pub from: Timestamp,
    /// The end of its last period.
    pub until: Timestamp,
}

/// The answers: a signal that was answered and has no samples has an empty entry; one that was not answered has none.
pub type ActivitySamples<S = ActivitySignal> = BTreeMap<ResourceId, BTreeMap<S, Vec<Sample>>>;

/// Use of a resource by somebody.
#[derive(Debug, Clone, PartialEq)]
pub enum Activity {
    /// Unused over the whole window.
    Inactive(InactiveEvidence),
    /// Somebody, until then at least.
    Active(Timestamp),
    /// Somebody, and so little over a long time that cheaper inference may serve them.
    LowUse(LowUse),
    Unknown(UnknownActivity),
}

/// The evidence that it was unused.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InactiveEvidence {
    pub from: Timestamp,
    pub to: Timestamp,
    pub shown_by: ActivitySource,
    /// The highest utilisation of a host, summed over its GPUs, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_max_percent: Option<f64>,
}

/// The use of an endpoint over a long time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LowUse {
    /// Somebody used it, until then at least.
    pub used_at: Timestamp,
    pub from: Timestamp,
    pub to: Timestamp,
    /// Number of requests in that time.
    pub requests: f64,
    /// Mean utilisation of an instance in that time, summed over its GPUs.
    pub gpu_mean_percent: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActivitySource {
    /// `LastUserActivityTimestamp`.
    UserActivity,
    /// No request, and no GPU at work.
    Requests,
    /// No GPU at work.
    Gpu,
}

/// Reason for which the use of a resource is unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum UnknownActivity {
    /// No query was sent, or none was answered.
    NotAsked,
    /// The resource is younger than its window.
    Young,
    /// `SageMaker` reports no activity of its kind.
    Unmeasured,
    /// Its activity time is that of a health check, and says nothing about people.
    HealthCheck,
    /// A metric has too few samples.
    TooFewSamples(ActivitySignal),
    /// Samples are missing because a metric has values that it cannot have, such as this one.
    ImpossibleValue(ActivitySignal, f64),
}
