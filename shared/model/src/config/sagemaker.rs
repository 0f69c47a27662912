//! `[sagemaker]`: notebook instances, Studio apps, endpoints and jobs of `SageMaker`.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::checks;
use crate::duration;
use crate::mode::Mode;

/// Action on an idle app or endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SageMakerAction {
    /// Delete it: an app's space and volume stay, and an endpoint's configuration and model.
    Delete,
    /// Only say so.
    Notify,
}

/// Action on an idle inference component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComponentAction {
    /// Give it no copies: its endpoint and model stay.
    ScaleToZero,
    /// Only say so.
    Notify,
}

/// `[sagemaker]`. Required tags, `[untagged]` and `[lifetime]` apply to `SageMaker` too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SageMakerConfig {
    /// The most that teams and account get for `SageMaker`; `curfew:mode` on a resource counts more.
    pub mode: Mode,
    /// Time without use after which an app is idle.
    #[serde(deserialize_with = "checks::window", serialize_with = "duration::serialize")]
    pub app_window: SignedDuration,
    /// Action on an idle app at its deadline.
    pub app_action: SageMakerAction,
    /// Time without a request and without a change after which an endpoint is idle.
    #[serde(deserialize_with = "checks::window", serialize_with = "duration::serialize")]
    pub endpoint_window: SignedDuration,
    /// Action on an idle endpoint at its deadline.
    pub endpoint_action: SageMakerAction,
    /// Action on an idle inference component at its deadline; `endpoint_window` says when it is idle.
    pub component_action: ComponentAction,
    /// Time without work on its GPUs after which a job is idle; this is notify only.
    #[serde(deserialize_with = "checks::window", serialize_with = "duration::serialize")]
    pub job_window: SignedDuration,
    /// `true` if Curfew notifies of training jobs that run on demand, and that managed Spot could run.
    pub on_demand_training: bool,
    /// An endpoint in use with fewer requests than this is a finding; 0: never.
    pub low_use_requests_per_day: u32,
    /// Time over which that use is measured.
    #[serde(deserialize_with = "checks::window", serialize_with = "duration::serialize")]
    pub low_use_window: SignedDuration,
    /// Time from mark to action.
    #[serde(with = "duration")]
    pub grace: SignedDuration,
}

impl Default for SageMakerConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Observe,
            app_window: SignedDuration::from_hours(4),
            app_action: SageMakerAction::Delete,
            endpoint_window: SignedDuration::from_hours(24),
            endpoint_action: SageMakerAction::Notify,
            component_action: ComponentAction::Notify,
            job_window: SignedDuration::from_hours(2),
            on_demand_training: true,
            low_use_requests_per_day: 100,
            low_use_window: SignedDuration::from_hours(14 * 24),
            grace: SignedDuration::from_hours(4),
        }
    }
}
