//! Resources of `SageMaker` as Curfew sees them: notebook instances, Studio apps, endpoints, and jobs.

mod activity;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use crate::curfew_tags::{MARKED, STOPPED};
use crate::id::{Arn, Region, ResourceId, TypeName};
use crate::instance::Tags;
use crate::observation::Observation;

pub use activity::{
    Activity, ActivityQuestion, ActivitySamples, ActivitySignal, ActivitySource, InactiveEvidence, LowUse,
    UnknownActivity,
};

/// One resource that is billed by the time it runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SageMakerResource {
    /// The last part of its ARN: `endpoint/llm`, `app/d-1/ada/jupyterlab/default`. `SageMaker` has no other ids.
    pub id: ResourceId,
    pub arn: Arn,
    pub region: Region,
    pub status: SageMakerStatus,
    pub created_at: Timestamp,
    pub modified_at: Timestamp,
    /// Every tag, AWS's own included; an app also has those that it inherits: see [`inherited_tags`].
    pub tags: Tags,
    /// The EC2 name of its type, without `ml.`; `None` where it was not looked up, or where it has none.
    pub instance_type: Option<TypeName>,
    /// Number of instances that it runs on; `None` where that was not looked up.
    pub instances: Option<u32>,
    pub kind: SageMakerKind,
}

/// Kind of a resource, with the facts that only decisions about its kind need.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SageMakerKind {
    NotebookInstance,
    App(StudioApp),
    /// An endpoint; without facts, it was not looked up.
    Endpoint {
        facts: Option<EndpointFacts>,
    },
    Job(ComputeJob),
    InferenceComponent(InferenceComponent),
}

/// An app of `SageMaker` Studio: what is billed while somebody's `JupyterLab` or editor is open. Its space and volume are not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StudioApp {
    pub domain: String,
    pub owner: AppOwner,
    /// Type of the app as the API writes it: `JupyterLab`.
    pub app_type: String,
    pub name: String,
    /// `None` where `SageMaker` does not report it, or where it was not looked up.
    pub last_activity: Option<Timestamp>,
    pub last_health_check: Option<Timestamp>,
}

/// Owner of an app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AppOwner {
    UserProfile(String),
    Space(String),
}

/// A model on the instances of an endpoint, in copies of its own. The endpoint and the model stay without any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InferenceComponent {
    pub endpoint: String,
    /// Desired number of copies.
    pub copies: u32,
    /// `true` if Application Auto Scaling scales it; `None` if unknown.
    pub is_autoscaled: Option<bool>,
    /// `true` if its endpoint ends the instances that have no copies, down to none (Amazon `SageMaker` developer guide, "Scale an endpoint
    /// to zero instances").
    pub frees_instances: bool,
}

/// The facts that say whether an endpoint may be in production, and what makes it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EndpointFacts {
    /// The name of its configuration, which stays when the endpoint is deleted; `None` where that does not exist any more.
    pub config: Option<String>,
    /// Their names.
    pub variants: Vec<String>,
    pub signs: BTreeSet<ProductionSign>,
    /// `true` if Application Auto Scaling scales one of its variants; `None` if unknown.
    pub is_autoscaled: Option<bool>,
    /// Number of instances of each type that its variants run on now, a serverless one on none; `None` where a variant does not say so.
    pub machines: Option<BTreeMap<TypeName, u32>>,
}

/// A sign that an endpoint is in production, or that it costs nothing while it is unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProductionSign {
    Serverless,
    AsyncInference,
    ShadowVariants,
    /// Its variant has no model of its own, but hosts inference components.
    InferenceComponents,
}

/// A job of training, processing or tuning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComputeJob {
    pub job: JobKind,
    /// The tuning job that launched it, by its ARN.
    pub tuning_job: Option<Arn>,
    pub billing: JobBilling,
    /// `true` if it copies checkpoints to S3, from which a job that was interrupted can go on.
    pub has_checkpoints: bool,
    /// `true` if managed Spot cannot run it: it has a training plan, a warm pool or a list of preferred types, is serverless, or another
    /// service of `SageMaker` made it.
    pub excludes_spot: bool,
}

/// Report of `SageMaker` on the time that it bills for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct JobBilling {
    /// Start of the job on its instances (`DescribeTrainingJob`, `TrainingStartTime`: "You are billed for the time interval between this
    /// time and the value of `TrainingEndTime`"); `None` before.
    pub started_at: Option<Timestamp>,
    /// End of the job on its instances.
    pub ended_at: Option<Timestamp>,
    /// `true` if the job runs on managed Spot, of which only `billable_seconds` are billed.
    pub is_managed_spot: bool,
    /// `BillableTimeInSeconds` of a job that has ended; it counts for each of its instances.
    pub billable_seconds: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    Training,
    Processing,
    /// A tuning job runs nothing itself: its training jobs do.
    Tuning,
}

/// The status of any kind, as far as decisions go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SageMakerStatus {
    /// The resource works, and is billed: `InService`, or `InProgress` of a job.
    Running,
    /// A notebook instance or an app starts.
    Pending,
    /// The resource is being created or changed.
    Changing,
    Stopping,
    /// A notebook instance that can be started again; a job that is over.
    Stopped,
    Deleting,
    Deleted,
    /// The resource failed, or `SageMaker` did not have this status when this was written.
    Other,
}

impl SageMakerStatus {
    /// Reads the API's name, which is the same for all kinds.
    #[must_use]
    pub fn from_api(name: &str) -> Self {
        match name {
            "InService" | "InProgress" => Self::Running,
            "Pending" => Self::Pending,
            "Creating" | "Updating" | "SystemUpdating" | "RollingBack" => Self::Changing,
            "Stopping" => Self::Stopping,
            "Stopped" | "Completed" => Self::Stopped,
            "Deleting" => Self::Deleting,
            "Deleted" => Self::Deleted,
            _ => Self::Other,
        }
    }
}

impl SageMakerKind {
    /// `true` if the kind answers requests, and so may be in production.
    #[must_use]
    pub const fn serves(&self) -> bool {
        matches!(self, Self::Endpoint { .. } | Self::InferenceComponent(_))
    }
}

impl SageMakerResource {
    /// Its id without its kind; of an app the name of its space or user profile, and the app's own.
    #[must_use]
    pub fn name(&self) -> &str {
        self.id.as_str().split_once('/').map_or(self.id.as_str(), |(_, name)| name)
    }

    /// Returns the start of its present life, as far as `SageMaker` says so: a notebook instance is started again, and an endpoint changed.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        match (&self.kind, self.status) {
            // A stop changes it too, and must not seem to be a start.
            (SageMakerKind::NotebookInstance, SageMakerStatus::Running)
            | (SageMakerKind::Endpoint { .. } | SageMakerKind::InferenceComponent(_), _) => {
                self.modified_at.max(self.created_at)
            }
            _ => self.created_at,
        }
    }

    /// The facts of an endpoint that was looked up.
    #[must_use]
    pub const fn endpoint(&self) -> Option<&EndpointFacts> {
        match &self.kind {
            SageMakerKind::Endpoint { facts } => facts.as_ref(),
            _ => None,
        }
    }

    /// Returns the number of instances of each type that it runs on now; `None` if unknown.
    #[must_use]
    pub fn machines(&self) -> Option<BTreeMap<TypeName, u32>> {
        match &self.kind {
            SageMakerKind::Endpoint { facts } => facts.as_ref()?.machines.clone(),
            SageMakerKind::Job(ComputeJob { job: JobKind::Tuning, .. }) => Some(BTreeMap::new()),
            _ => Some(BTreeMap::from([(self.instance_type.clone()?, self.instances?)])),
        }
    }

    /// The types that it runs on, as far as they were looked up.
    pub fn instance_types(&self) -> impl Iterator<Item = &TypeName> {
        let of_variants = self.endpoint().and_then(|facts| facts.machines.as_ref());
        self.instance_type.iter().chain(of_variants.into_iter().flat_map(BTreeMap::keys))
    }

    /// The billed time of a job; `None` of anything else.
    #[must_use]
    pub const fn job_billing(&self) -> Option<&JobBilling> {
        match &self.kind {
            SageMakerKind::Job(job) => Some(&job.billing),
            _ => None,
        }
    }

    /// Returns the origin from which a deleted endpoint is made again; `None` for any other kind, or if its configuration is gone.
    #[must_use]
    pub fn endpoint_origin(&self) -> Option<EndpointOrigin> {
        let config = self.endpoint()?.config.clone()?;
        let own = |key: &String| !key.starts_with("aws:") && key != MARKED && key != STOPPED;
        let tags = self.tags.iter().filter(|(key, _)| own(key));
        let tags = tags.map(|(key, value)| (key.clone(), value.clone())).collect();
        Some(EndpointOrigin { endpoint: self.name().to_owned(), config, tags })
    }
}

/// Facts that make an endpoint again, with one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct EndpointOrigin {
    pub endpoint: String,
    #[serde(rename = "endpoint_config")]
    pub config: String,
    /// The owner's own tags, without AWS's own and Curfew's memory.
    pub tags: Tags,
}

/// The tags of an app: its own; where it does not have a key, those of its space or user profile, and then those of its domain. Apps are
/// made anew each time that somebody opens them, so their owners tag what stays. What Curfew writes is of one app alone.
#[must_use]
pub fn inherited_tags(own: Tags, of_owner: &Tags, of_domain: &Tags) -> Tags {
    let is_inherited = |key: &str| key != MARKED && key != STOPPED && !key.starts_with("aws:");
    let mut tags = own;
    for (key, value) in of_owner.iter().chain(of_domain).filter(|(key, _)| is_inherited(key)) {
        tags.entry(key.clone()).or_insert_with(|| value.clone());
    }
    tags
}

/// Observed resources of an account's `SageMaker` that run on an accelerator, or may.
pub type ObservedSageMaker = Observation<SageMakerResource>;

/// The types among the resources of a region, by the names that EC2 knows.
#[must_use]
pub fn instance_types(resources: &[SageMakerResource]) -> BTreeSet<&TypeName> {
    resources.iter().flat_map(SageMakerResource::instance_types).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{app, endpoint, notebook, time};

    #[test]
    fn an_app_has_the_tags_of_what_stays() {
        let tags = |pairs: &[(&str, &str)]| -> Tags {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let found = inherited_tags(
            tags(&[("Team", "vision")]),
            &tags(&[("Team", "speech"), ("Owner", "ada"), (MARKED, "x"), ("aws:cloudformation:stack-name", "x")]),
            &tags(&[("Owner", "platform"), ("curfew:mode", "enforce")]),
        );
        assert_eq!(found, tags(&[("Team", "vision"), ("Owner", "ada"), ("curfew:mode", "enforce")]));
    }

    #[test]
    fn a_life_begins_with_the_last_start_or_change() {
        let changed = |mut resource: SageMakerResource| {
            resource.modified_at = time("2026-08-31T12:00:00Z");
            resource.since().to_string()
        };
        assert_eq!(changed(notebook().build()), "2026-08-31T12:00:00Z");
        assert_eq!(changed(notebook().status(SageMakerStatus::Stopped).build()), "2026-08-29T12:00:00Z");
        assert_eq!(changed(endpoint().build()), "2026-08-31T12:00:00Z");
        assert_eq!(changed(app().build()), "2026-08-29T12:00:00Z");
    }

    #[test]
    fn an_endpoint_is_made_again_from_its_configuration_and_tags() {
        let marked = endpoint().tag(MARKED, "x").tag("aws:cloudformation:stack-name", "x").build();
        let origin = marked.endpoint_origin().unwrap();
        assert_eq!((origin.endpoint.as_str(), origin.config.as_str()), ("llm", "llm-config"));
        assert_eq!(origin.tags.keys().collect::<Vec<_>>(), ["Owner", "Team"]);
        assert_eq!(endpoint().facts(|facts| facts.config = None).build().endpoint_origin(), None);
        assert_eq!(notebook().build().endpoint_origin(), None);
    }
}
