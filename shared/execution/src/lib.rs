//! Runs: what a run observes, how it carries out its plan, and in which order. The loop is `run.rs`.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod account_metrics;
mod act;
pub mod budgets;
mod bugs;
mod delivery;
pub mod file_systems;
pub mod instances;
mod job_states;
pub mod jobs;
pub mod month_report;
mod notification_logs;
pub mod organization_report;
pub mod prices;
mod publish_figures;
mod reply_links;
mod run;
pub mod sagemaker;
mod shared_budgets;
mod steps;
mod subscribers;
mod usages;
pub mod volumes;

use std::time::Duration;

use jiff::SignedDuration;

pub use account_metrics::MetricsPublisher;
pub use act::carry_out;
pub use bugs::catch_bug;
pub use job_states::load_job_states;
pub use notification_logs::RecalledLogs;
pub use run::{ChosenResources, HOME_WRITER, HUB_READER, Planned, Run, RunObservation};
pub use steps::log;
pub use subscribers::Subscribers;
pub use usages::{IdleThresholds, UsageInquiry, device_reports, listed_devices, usages};

/// Time before the run's deadline in which no further step begins: notifying and recording come after it.
const RESERVE: SignedDuration = SignedDuration::from_secs(20);

/// Returns the timeout of a call that begins with so much time left: a call that began in time may still hang.
fn answer_timeout(left: SignedDuration) -> Duration {
    Duration::try_from(left).unwrap_or_default().saturating_sub(RESERVE.unsigned_abs() / 2)
}

/// Shortest time limit of an observation, however close the deadline is.
const OBSERVATION_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Calls of one kind at once; EC2 lets an account write about 5 times a second in the long run (EC2 API reference,
/// "Request throttling"), and the SDK backs off by itself.
const AT_ONCE: usize = 8;
