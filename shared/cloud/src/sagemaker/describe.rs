//! One resource, looked up with everything that decisions about it need.

use std::collections::BTreeMap;

use futures::future::{try_join, try_join3};
use model::id::{Arn, Region, ResourceId};
use model::instance::Tags;
use model::sagemaker::{
    AppOwner, ComputeJob, JobKind, SageMakerKind, SageMakerResource, SageMakerStatus, StudioApp, inherited_tags,
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::calls::{sagemaker, scalable_targets, tags};
use super::read::{self, ComponentHost};
use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind};

/// The tags of spaces, user profiles and domains, which many apps share, and of the endpoints of inference components.
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
        SageMakerKind::InferenceComponent(_) => component_by_id(aws, region, &seen.id).await,
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
    let config = config(aws, &endpoint.region, document).await?;
    Ok(read::with_facts(endpoint, document, config.as_ref(), scaled))
}

/// The configuration of an endpoint; `None` where it is gone.
async fn config(aws: &Aws, region: &Region, endpoint: &Value) -> Result<Option<Value>, CallError> {
    const CALL: &str = "sagemaker:DescribeEndpointConfig";
    let Some(name) = read::text(endpoint, "EndpointConfigName") else { return Ok(None) };
    match sagemaker(aws, region, CALL, &json!({ "EndpointConfigName": name })).await {
        Ok(config) => Ok(Some(config)),
        Err(error) if error.kind == CallErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// An inference component by its id, and whether it is scaled.
pub(super) async fn component_by_id(
    aws: &Aws,
    region: &Region,
    id: &ResourceId,
) -> Result<SageMakerResource, CallError> {
    let scaled = scalable_targets(aws, region, Some(vec![id.to_string()])).await?;
    let name = id.as_str().split_once('/').map_or(id.as_str(), |(_, name)| name);
    component(aws, region, name, Some(&scaled), &OwnerTags::default()).await
}

/// An inference component with its own tags and those of its endpoint, and with the instances that it has for itself.
pub(super) async fn component(
    aws: &Aws,
    region: &Region,
    name: &str,
    scaled: Option<&[String]>,
    owners: &OwnerTags,
) -> Result<SageMakerResource, CallError> {
    const CALL: &str = "sagemaker:DescribeInferenceComponent";
    let found = sagemaker(aws, region, CALL, &json!({ "InferenceComponentName": name })).await?;
    let Some(host) = read::text(&found, "EndpointName").zip(read::text(&found, "VariantName")) else {
        return Err(incomplete(CALL, region, name));
    };
    let beside = json!({ "EndpointNameEquals": host.0, "VariantNameEquals": host.1, "MaxResults": 2 });
    let (endpoint, mut beside) = try_join(
        described_endpoint(aws, region, &host.0),
        sagemaker(aws, region, "sagemaker:ListInferenceComponents", &beside),
    )
    .await?;
    let (endpoint, document) = endpoint;
    let config = config(aws, region, &document).await?;
    let is_alone = read::take_items(&mut beside, "InferenceComponents").len() == 1;
    let component = read::component(
        &found,
        region,
        &ComponentHost { document: &document, config: config.as_ref(), is_alone },
        scaled,
    )
    .ok_or_else(|| incomplete(CALL, region, name))?;
    let (own, of_endpoint) =
        try_join(tags(aws, region, &component.arn), owners.tags(aws, region, endpoint.arn)).await?;
    Ok(SageMakerResource { tags: inherited_tags(own, &of_endpoint, &Tags::new()), ..component })
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
