//! Conversion of `SageMaker`'s documents to the types of `model`. A list and a description name their fields alike. A document without its
//! ARN, its status or its creation time is no resource.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::id::{Arn, Region, ResourceId, TypeName};
use model::instance::Tags;
use model::sagemaker::{
    AppOwner, ComputeJob, EndpointFacts, InferenceComponent, JobBilling, JobKind, ProductionSign, SageMakerKind,
    SageMakerResource, SageMakerStatus, StudioApp,
};
use serde_json::Value;

/// Whole milliseconds, as all answers have them.
fn moment(of: &Value, key: &str) -> Option<Timestamp> {
    let seconds = of.get(key)?.as_f64()?;
    #[expect(clippy::cast_possible_truncation, reason = "a float becomes the nearest i64, and jiff checks the range")]
    Timestamp::from_millisecond((seconds * 1000.0).round() as i64).ok()
}

pub(super) fn text(of: &Value, key: &str) -> Option<String> {
    of.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn count(of: &Value, key: &str) -> Option<u32> {
    u32::try_from(of.get(key)?.as_u64()?).ok()
}

pub(super) fn take_items(of: &mut Value, key: &str) -> Vec<Value> {
    match of.get_mut(key).map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

pub(super) fn tags(items: &[Value]) -> Tags {
    items.iter().filter_map(|tag| Some((text(tag, "Key")?, text(tag, "Value").unwrap_or_default()))).collect()
}

/// `ml.g5.xlarge` is `g5.xlarge` of EC2; `system` and the like are none.
fn instance_type(of: &Value) -> Option<TypeName> {
    text(of, "InstanceType")?.strip_prefix("ml.").map(TypeName::from)
}

/// The last part of an ARN: `endpoint/llm`.
fn id(arn: &str) -> Option<ResourceId> {
    arn.splitn(6, ':').nth(5).filter(|id| id.contains('/')).map(ResourceId::from)
}

/// The fields that all kinds have, under names that begin with the kind's.
fn resource(of: &Value, region: &Region, prefix: &str, kind: SageMakerKind) -> Option<SageMakerResource> {
    let arn = text(of, &format!("{prefix}Arn"))?;
    let status = text(of, &format!("{prefix}Status")).or_else(|| text(of, "Status"))?;
    let created_at = moment(of, "CreationTime")?;
    Some(SageMakerResource {
        id: id(&arn)?,
        arn: Arn::new(arn),
        region: region.clone(),
        status: SageMakerStatus::from_api(&status),
        created_at,
        modified_at: moment(of, "LastModifiedTime").unwrap_or(created_at),
        tags: Tags::new(),
        instance_type: instance_type(of),
        instances: None,
        kind,
    })
}

pub(super) fn notebook(of: &Value, region: &Region) -> Option<SageMakerResource> {
    let notebook = resource(of, region, "NotebookInstance", SageMakerKind::NotebookInstance)?;
    Some(SageMakerResource { instances: Some(1), ..notebook })
}

/// Reads an endpoint, without its facts.
pub(super) fn endpoint(of: &Value, region: &Region) -> Option<SageMakerResource> {
    resource(of, region, "Endpoint", SageMakerKind::Endpoint { facts: None })
}

/// Reads an app from its description: a list has neither its ARN nor the time of its last use.
pub(super) fn app(of: &Value, region: &Region) -> Option<SageMakerResource> {
    let found = resource(of, region, "App", SageMakerKind::App(listed_app(of)?))?;
    let instance_type = of.get("ResourceSpec").and_then(instance_type);
    Some(SageMakerResource { instance_type, instances: Some(1), ..found })
}

/// Reads an app from an item of a list. `DescribeApp` asks for the app by these names.
pub(super) fn listed_app(of: &Value) -> Option<StudioApp> {
    let owner = text(of, "SpaceName").map(AppOwner::Space);
    Some(StudioApp {
        domain: text(of, "DomainId")?,
        owner: owner.or_else(|| text(of, "UserProfileName").map(AppOwner::UserProfile))?,
        app_type: text(of, "AppType")?,
        name: text(of, "AppName")?,
        last_activity: moment(of, "LastUserActivityTimestamp"),
        last_health_check: moment(of, "LastHealthCheckTimestamp"),
    })
}

/// Reads a job from a list, without type and hosts, or from its description.
pub(super) fn job(of: &Value, region: &Region, kind: JobKind) -> Option<SageMakerResource> {
    let prefix = match kind {
        JobKind::Training => "TrainingJob",
        JobKind::Processing => "ProcessingJob",
        JobKind::Tuning => "HyperParameterTuningJob",
    };
    let job = ComputeJob {
        job: kind,
        tuning_job: text(of, "TuningJobArn").map(Arn::new),
        billing: billing(of, kind),
        has_checkpoints: of.get("CheckpointConfig").is_some_and(|config| text(config, "S3Uri").is_some()),
        excludes_spot: excludes_spot(of),
    };
    let found = resource(of, region, prefix, SageMakerKind::Job(job))?;
    let runs_on = match kind {
        JobKind::Training => of.get("ResourceConfig"),
        JobKind::Processing => of.pointer("/ProcessingResources/ClusterConfig"),
        JobKind::Tuning => of.pointer("/TrainingJobDefinition/ResourceConfig"),
    };
    let runs_on = runs_on.unwrap_or(&Value::Null);
    Some(SageMakerResource {
        instance_type: instance_type(runs_on),
        instances: count(runs_on, "InstanceCount"),
        ..found
    })
}

/// Managed Spot and these exclude each other (Amazon `SageMaker` developer guide, "`SageMaker` AI Managed Warm Pools", "Considerations"; API
/// reference, `ResourceConfig`, "`InstancePreferences`"), a training plan is paid for in advance, and jobs of Autopilot and Ground Truth are as these make
/// them.
fn excludes_spot(of: &Value) -> bool {
    let is_there = |of: &Value, key: &str| of.get(key).is_some_and(|it| !it.is_null());
    let runs_on = of.get("ResourceConfig").unwrap_or(&Value::Null);
    count(runs_on, "KeepAlivePeriodInSeconds").is_some_and(|seconds| seconds > 0)
        || text(runs_on, "TrainingPlanArn").is_some()
        || !items(runs_on, "InstancePreferences").is_empty()
        || is_there(of, "ServerlessJobConfig")
        || ["AutoMLJobArn", "LabelingJobArn"].iter().any(|key| text(of, key).is_some())
}

/// Reads the billed time of a job. The API reference says of a processing job only that it was started and ended at these times.
fn billing(of: &Value, kind: JobKind) -> JobBilling {
    let (start, end) = match kind {
        JobKind::Training => ("TrainingStartTime", "TrainingEndTime"),
        JobKind::Processing => ("ProcessingStartTime", "ProcessingEndTime"),
        JobKind::Tuning => return JobBilling::default(),
    };
    let ended_at = moment(of, end);
    JobBilling {
        started_at: moment(of, start),
        ended_at,
        is_managed_spot: of.get("EnableManagedSpotTraining").and_then(Value::as_bool).unwrap_or(false),
        billable_seconds: ended_at.and_then(|_| of.get("BillableTimeInSeconds")?.as_u64()),
    }
}

/// Returns the endpoint with its facts. `config`: its configuration, if that exists. `scaled`: the ids of the scaled resources, if known.
pub(super) fn with_facts(
    endpoint: SageMakerResource,
    of: &Value,
    config: Option<&Value>,
    scaled: Option<&[String]>,
) -> SageMakerResource {
    let variants = items(of, "ProductionVariants");
    let configured = config.map(|config| items(config, "ProductionVariants")).unwrap_or_default();
    let has_shadows = |of: &Value| !items(of, "ShadowProductionVariants").is_empty();
    let is_async = |of: &Value| of.get("AsyncInferenceConfig").is_some_and(|it| !it.is_null());
    let signs = [
        (ProductionSign::Serverless, variants.iter().chain(configured).any(is_serverless)),
        (ProductionSign::AsyncInference, is_async(of) || config.is_some_and(is_async)),
        (ProductionSign::ShadowVariants, has_shadows(of) || config.is_some_and(has_shadows)),
        (ProductionSign::InferenceComponents, configured.iter().any(|variant| text(variant, "ModelName").is_none())),
    ];
    let prefix = format!("endpoint/{}/", endpoint.name());
    let facts = EndpointFacts {
        config: config.and_then(|config| text(config, "EndpointConfigName")),
        variants: variants.iter().filter_map(|variant| text(variant, "VariantName")).collect(),
        signs: signs.into_iter().filter(|(_, has_it)| *has_it).map(|(sign, _)| sign).collect::<BTreeSet<_>>(),
        is_autoscaled: scaled.map(|ids| ids.iter().any(|id| id.starts_with(&prefix))),
        machines: machines(of, config),
    };
    let counts = variants.iter().filter_map(|variant| count(variant, "CurrentInstanceCount"));
    SageMakerResource {
        instance_type: configured.iter().find_map(instance_type),
        instances: counts.reduce(u32::saturating_add),
        kind: SageMakerKind::Endpoint { facts: Some(facts) },
        ..endpoint
    }
}

/// Endpoint that has the copies of an inference component.
pub(super) struct ComponentHost<'a> {
    pub(super) document: &'a Value,
    pub(super) config: Option<&'a Value>,
    /// `true` if no other component is on the component's variant.
    pub(super) is_alone: bool,
}

/// Reads an inference component from its description. It has instances for itself if no other component is on its variant.
pub(super) fn component(
    of: &Value,
    region: &Region,
    host: &ComponentHost<'_>,
    scaled: Option<&[String]>,
) -> Option<SageMakerResource> {
    let name = text(of, "InferenceComponentName")?;
    let variant = text(of, "VariantName")?;
    let is_it = |one: &&Value| text(one, "VariantName").as_ref() == Some(&variant);
    let runs = items(host.document, "ProductionVariants").iter().find(is_it)?;
    let configured = host.config.and_then(|config| items(config, "ProductionVariants").iter().find(is_it));
    let scaling = [Some(runs), configured].into_iter().flatten().find_map(|one| one.get("ManagedInstanceScaling"));
    let is_scaled_in = |one: &Value| {
        text(one, "Status").is_some_and(|status| status == "ENABLED") && count(one, "MinInstanceCount") == Some(0)
    };
    let runtime = of.get("RuntimeConfig")?;
    let copies = count(runtime, "DesiredCopyCount").or_else(|| count(runtime, "CurrentCopyCount"))?;
    let id = format!("inference-component/{name}");
    let component = InferenceComponent {
        endpoint: text(of, "EndpointName")?,
        copies,
        is_autoscaled: scaled.map(|ids| ids.contains(&id)),
        frees_instances: scaling.is_some_and(is_scaled_in),
    };
    let found = resource(of, region, "InferenceComponent", SageMakerKind::InferenceComponent(component))?;
    let status = match found.status {
        SageMakerStatus::Running | SageMakerStatus::Changing if copies == 0 => SageMakerStatus::Stopped,
        status => status,
    };
    Some(SageMakerResource {
        status,
        instance_type: configured.and_then(instance_type),
        instances: count(runs, "CurrentInstanceCount").filter(|_| host.is_alone),
        ..found
    })
}

fn is_serverless(variant: &Value) -> bool {
    let keys = ["CurrentServerlessConfig", "ServerlessConfig"];
    keys.iter().any(|key| variant.get(*key).is_some_and(|it| !it.is_null()))
}

/// Instance types of the variants and their counts, shadow variants included. The endpoint knows the counts, its configuration the types.
fn machines(of: &Value, config: Option<&Value>) -> Option<BTreeMap<TypeName, u32>> {
    let mut machines = BTreeMap::new();
    for key in ["ProductionVariants", "ShadowProductionVariants"] {
        let configured = config.map(|config| items(config, key)).unwrap_or_default();
        for variant in items(of, key) {
            let name = text(variant, "VariantName");
            let of_config = configured.iter().find(|one| text(one, "VariantName") == name);
            if is_serverless(variant) || of_config.is_some_and(is_serverless) {
                continue;
            }
            let sum: &mut u32 = machines.entry(instance_type(of_config?)?).or_default();
            *sum = sum.saturating_add(count(variant, "CurrentInstanceCount")?);
        }
    }
    Some(machines)
}

fn items<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
