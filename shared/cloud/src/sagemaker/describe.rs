//! One resource, looked up with everything that decisions about it need.

use std::collections::BTreeMap;

use futures::future::{try_join, try_join3};
use model::id::{Arn, Region};
use model::instance::Tags;
use model::sagemaker::{
    AppOwner, ComputeJob, JobKind, SageMakerKind, SageMakerResource, SageMakerStatus, StudioApp, inherited_tags,
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::calls::{sagemaker, scalable_targets, tags};
use super::read;
use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind};

/// The tags of spaces, user profiles and domains, which many apps share.
#[derive(Default)]
pub(super) struct OwnerTags(Mutex<BTreeMap<Arn, Tags>>);

impl OwnerTags {
    async fn tags(&self, aws: &Aws, region: &Region, arn: Arn) -> Result<Tags, CallError> {
        let mut known = self.0.lock().await;
        if let Some(tags) = known.get(&arn) {
            return Ok(tags.clone());
        }
        let found = tags(aws, region, &arn).await?;
        known.insert(arn, found.clone());
        Ok(found)
    }
}

/// The resource as it is now, with the facts that `seen` has.
pub(crate) async fn describe(aws: &Aws, seen: &SageMakerResource) -> Result<SageMakerResource, CallError> {
    let (region, name) = (&seen.region, seen.name());
    match &seen.kind {
        SageMakerKind::NotebookInstance => notebook(aws, region, name).await,
        SageMakerKind::App(app) => self::app(aws, region, app, &OwnerTags::default()).await,
        SageMakerKind::Endpoint { .. } => {
            let variants = seen.endpoint().map(|facts| facts.variants.clone()).unwrap_or_default();
            let ids = variants.iter().map(|variant| format!("{}/variant/{variant}", seen.id)).collect();
            let scaled = async { scalable_targets(aws, region, Some(ids)).await };
            let (of_it, found, tags) =
                try_join3(scaled, described_endpoint(aws, region, name), tags(aws, region, &seen.arn)).await?;
            let (endpoint, document) = found;
            let endpoint = facts(aws, endpoint, &document, Some(&of_it)).await?;
            Ok(SageMakerResource { tags, ..endpoint })
        }
        SageMakerKind::Job(ComputeJob { job, .. }) => self::job(aws, region, *job, name, &seen.arn).await,
    }
}

async fn notebook(aws: &Aws, region: &Region, name: &str) -> Result<SageMakerResource, CallError> {
    const CALL: &str = "sagemaker:DescribeNotebookInstance";
    let found = sagemaker(aws, region, CALL, &json!({ "NotebookInstanceName": name })).await?;
    let notebook = read::notebook(&found, region).ok_or_else(|| incomplete(CALL, region, name))?;
    let tags = tags(aws, region, &notebook.arn).await?;
    Ok(SageMakerResource { tags, ..notebook })
}

/// The names by which an app is asked for, as the API writes them.
pub(super) fn app_key(app: &StudioApp) -> Value {
    let (owner, name) = match &app.owner {
        AppOwner::Space(name) => ("SpaceName", name),
        AppOwner::UserProfile(name) => ("UserProfileName", name),
    };
    json!({ "DomainId": app.domain, owner: name, "AppType": app.app_type, "AppName": app.name })
}

/// An app with its own tags and those that it inherits.
pub(super) async fn app(
    aws: &Aws,
    region: &Region,
    app: &StudioApp,
    owners: &OwnerTags,
) -> Result<SageMakerResource, CallError> {
    const CALL: &str = "sagemaker:DescribeApp";
    let found = sagemaker(aws, region, CALL, &app_key(app)).await?;
    let found = read::app(&found, region).ok_or_else(|| incomplete(CALL, region, &app.name))?;
    if matches!(found.status, SageMakerStatus::Deleting | SageMakerStatus::Deleted) {
        return Ok(found);
    }
    let owner = match &app.owner {
        AppOwner::Space(name) => format!("space/{}/{name}", app.domain),
        AppOwner::UserProfile(name) => format!("user-profile/{}/{name}", app.domain),
    };
    let other = |id: &str| Arn::new(found.arn.as_str().replacen(found.id.as_str(), id, 1));
    let (own, of_owner) = try_join(tags(aws, region, &found.arn), owners.tags(aws, region, other(&owner))).await?;
    let of_domain = owners.tags(aws, region, other(&format!("domain/{}", app.domain))).await?;
    Ok(SageMakerResource { tags: inherited_tags(own, &of_owner, &of_domain), ..found })
}

/// An endpoint without its facts, and the document that has some of them.
pub(super) async fn described_endpoint(
    aws: &Aws,
    region: &Region,
    name: &str,
) -> Result<(SageMakerResource, Value), CallError> {
    const CALL: &str = "sagemaker:DescribeEndpoint";
    let found = sagemaker(aws, region, CALL, &json!({ "EndpointName": name })).await?;
    let endpoint = read::endpoint(&found, region).ok_or_else(|| incomplete(CALL, region, name))?;
    Ok((endpoint, found))
}

/// The endpoint with its facts. A configuration that is gone is one of them.
pub(super) async fn facts(
    aws: &Aws,
    endpoint: SageMakerResource,
    document: &Value,
    scaled: Option<&[String]>,
) -> Result<SageMakerResource, CallError> {
    const CALL: &str = "sagemaker:DescribeEndpointConfig";
    let config = match read::text(document, "EndpointConfigName") {
        Some(name) => match sagemaker(aws, &endpoint.region, CALL, &json!({ "EndpointConfigName": name })).await {
            Ok(config) => Some(config),
            Err(error) if error.kind == CallErrorKind::NotFound => None,
            Err(error) => return Err(error),
        },
        None => None,
    };
    Ok(read::with_facts(endpoint, document, config.as_ref(), scaled))
}

/// A job with its type, its hosts and its tags.
pub(super) async fn job(
    aws: &Aws,
    region: &Region,
    kind: JobKind,
    name: &str,
    arn: &Arn,
) -> Result<SageMakerResource, CallError> {
    let (call, key) = match kind {
        JobKind::Training => ("sagemaker:DescribeTrainingJob", "TrainingJobName"),
        JobKind::Processing => ("sagemaker:DescribeProcessingJob", "ProcessingJobName"),
        JobKind::Tuning => ("sagemaker:DescribeHyperParameterTuningJob", "HyperParameterTuningJobName"),
    };
    let body = json!({ key: name });
    let (found, tags) = try_join(sagemaker(aws, region, call, &body), tags(aws, region, arn)).await?;
    let found = read::job(&found, region, kind).ok_or_else(|| incomplete(call, region, name))?;
    Ok(SageMakerResource { tags, ..found })
}

fn incomplete(call: &'static str, region: &Region, name: &str) -> CallError {
    let message = format!("SageMaker left out what must be known of {name}");
    CallError::new(call, region, CallErrorKind::Other, message)
}
