//! Calls that only people ask for: finding a resource by its id, and making an endpoint again.

use model::id::{Arn, Region, ResourceId};
#[cfg(feature = "operator")]
use model::sagemaker::EndpointOrigin;
use model::sagemaker::{
    AppOwner, ComputeJob, JobBilling, JobKind, SageMakerKind, SageMakerResource, SageMakerStatus, StudioApp,
};
use ports::SageMakerWrite;
use serde_json::{Value, json};

use super::act::write;
#[cfg(feature = "operator")]
use super::act::{SET_COPIES, copies};
use super::calls::{list, sagemaker, scalable_targets, tags};
use super::describe::{component_by_id, describe, described_endpoint, facts};
use super::observe::LIST_APPS;
use super::read;
use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind};

/// Returns `true` if an id is one of `SageMaker`: `endpoint/llm`.
pub(crate) fn is_id(id: &ResourceId) -> bool {
    let is_plain =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let parts: Vec<&str> = id.as_str().split('/').collect();
    parts.iter().all(|part| is_plain(part))
        && match parts.as_slice() {
            [kind, _] => {
                job_kind(kind).is_some() || ["notebook-instance", "endpoint", "inference-component"].contains(kind)
            }
            ["app", _, _, _, _] => true,
            _ => false,
        }
}

fn job_kind(kind: &str) -> Option<JobKind> {
    match kind {
        "training-job" => Some(JobKind::Training),
        "processing-job" => Some(JobKind::Processing),
        "hyper-parameter-tuning-job" => Some(JobKind::Tuning),
        _ => None,
    }
}

/// One resource by its id, with everything that decisions about it need. [`CallErrorKind::NotFound`]: this region does not have it.
pub(crate) async fn find(aws: &Aws, region: &Region, id: &ResourceId) -> Result<SageMakerResource, CallError> {
    let (kind, name) = id.as_str().split_once('/').unwrap_or((id.as_str(), ""));
    match (kind, job_kind(kind)) {
        ("endpoint", _) => {
            let (endpoint, document) = described_endpoint(aws, region, name).await?;
            let scaled = scalable_targets(aws, region, None).await?;
            let tags = tags(aws, region, &endpoint.arn).await?;
            let endpoint = facts(aws, endpoint, &document, Some(&scaled)).await?;
            Ok(SageMakerResource { tags, ..endpoint })
        }
        ("app", _) => {
            let app = find_app(aws, region, id).await?;
            describe(aws, &bare(region, id, SageMakerKind::App(app))).await
        }
        (_, Some(job)) => {
            let billing = JobBilling::default();
            let unread = ComputeJob { job, tuning_job: None, billing, has_checkpoints: false, excludes_spot: false };
            let job = SageMakerKind::Job(unread);
            let arn = arn_by_name(aws, region, id, &job).await?;
            describe(aws, &SageMakerResource { arn, ..bare(region, id, job) }).await
        }
        ("inference-component", _) => component_by_id(aws, region, id).await,
        _ => describe(aws, &bare(region, id, SageMakerKind::NotebookInstance)).await,
    }
}

/// A job is asked for by its name, and its tags by its ARN.
async fn arn_by_name(aws: &Aws, region: &Region, id: &ResourceId, kind: &SageMakerKind) -> Result<Arn, CallError> {
    let name = id.as_str().split_once('/').map_or("", |(_, name)| name);
    let (call, key, arn) = match kind {
        SageMakerKind::Job(ComputeJob { job: JobKind::Processing, .. }) => {
            ("sagemaker:DescribeProcessingJob", "ProcessingJobName", "ProcessingJobArn")
        }
        SageMakerKind::Job(ComputeJob { job: JobKind::Tuning, .. }) => {
            ("sagemaker:DescribeHyperParameterTuningJob", "HyperParameterTuningJobName", "HyperParameterTuningJobArn")
        }
        _ => ("sagemaker:DescribeTrainingJob", "TrainingJobName", "TrainingJobArn"),
    };
    let found = sagemaker(aws, region, call, &json!({ key: name })).await?;
    read::text(&found, arn).map(Arn::new).ok_or_else(|| absent(call, region, id))
}

/// Its id has its type in lower case, and says neither whether its owner is a space.
async fn find_app(aws: &Aws, region: &Region, id: &ResourceId) -> Result<StudioApp, CallError> {
    let is_it = |app: &StudioApp| {
        let owner = match &app.owner {
            AppOwner::Space(name) | AppOwner::UserProfile(name) => name,
        };
        format!("app/{}/{owner}/{}/{}", app.domain, app.app_type.to_lowercase(), app.name) == id.as_str()
    };
    let items: Vec<Value> = list(aws, region, LIST_APPS).await?;
    // Of one that was made again after a deletion both are listed.
    let (running, other): (Vec<&Value>, Vec<&Value>) =
        items.iter().partition(|item| read::text(item, "Status").is_some_and(|name| name == "InService"));
    let found = running.into_iter().chain(other).filter_map(read::listed_app).find(is_it);
    found.ok_or_else(|| absent(LIST_APPS.call, region, id))
}

fn absent(call: &'static str, region: &Region, id: &ResourceId) -> CallError {
    CallError::new(call, region, CallErrorKind::NotFound, format!("SageMaker answered without {id}"))
}

fn bare(region: &Region, id: &ResourceId, kind: SageMakerKind) -> SageMakerResource {
    SageMakerResource {
        id: id.clone(),
        arn: Arn::new(""),
        region: region.clone(),
        status: SageMakerStatus::Other,
        created_at: jiff::Timestamp::UNIX_EPOCH,
        modified_at: jiff::Timestamp::UNIX_EPOCH,
        tags: model::instance::Tags::new(),
        instance_type: None,
        instances: None,
        kind,
    }
}

/// Makes an endpoint again, under its old name. A second call is refused as long as the first one's endpoint exists.
///
/// # Errors
/// If `SageMaker` refused. [`CallErrorKind::Unanswered`]: it may be on its way.
#[cfg(feature = "operator")]
pub async fn create_endpoint(aws: &Aws, region: &Region, origin: &EndpointOrigin) -> Result<(), CallError> {
    let EndpointOrigin { endpoint, config, tags } = origin;
    let tags: Vec<Value> = tags.iter().map(|(key, value)| json!({ "Key": key, "Value": value })).collect();
    let body = json!({ "EndpointName": endpoint, "EndpointConfigName": config, "Tags": tags });
    sagemaker(aws, region, "sagemaker:CreateEndpoint", &body).await.map(drop)
}

/// Starts a notebook instance. `SageMaker` may accept the call and the start may still fail: observe it until it runs.
///
/// # Errors
/// If `SageMaker` refused. [`CallErrorKind::Unanswered`]: it may be starting.
pub async fn start_notebook(aws: &Aws, notebook: &SageMakerResource) -> Result<(), CallError> {
    write(aws, notebook, SageMakerWrite::Start).await
}

/// Gives an inference component so many copies. `SageMaker` makes them within minutes.
///
/// # Errors
/// If `SageMaker` refused. [`CallErrorKind::Unanswered`]: they may be on their way.
#[cfg(feature = "operator")]
pub async fn set_copies(aws: &Aws, component: &SageMakerResource, count: u32) -> Result<(), CallError> {
    sagemaker(aws, &component.region, SET_COPIES, &copies(component.name(), count)).await.map(drop)
}
