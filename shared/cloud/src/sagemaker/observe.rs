//! Everything of all regions that runs on an accelerator, or may.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::{join, join_all};
use futures::{StreamExt, stream};
use model::id::{Arn, Region, ResourceId};
use model::instance::Tags;
use model::observation::{Gap, GapKind, Observation};
use model::sagemaker::{
    AppOwner, JobKind, ObservedSageMaker, ProductionSign, SageMakerKind, SageMakerResource, SageMakerStatus, StudioApp,
    instance_types,
};
use serde_json::Value;

use super::calls::{ListCall, ListFilter, list, scalable_targets, tags_of_all};
use super::describe::{self, OwnerTags, described_endpoint, facts};
use super::read;
use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind, gaps};
use crate::observe::{describe_instance_types, look_at_each};

const LIST_NOTEBOOKS: ListCall =
    ListCall { call: "sagemaker:ListNotebookInstances", items: "NotebookInstances", only: ListFilter::All };
pub(super) const LIST_APPS: ListCall = ListCall { call: "sagemaker:ListApps", items: "Apps", only: ListFilter::All };
const LIST_ENDPOINTS: ListCall =
    ListCall { call: "sagemaker:ListEndpoints", items: "Endpoints", only: ListFilter::All };
const LIST_COMPONENTS: ListCall = ListCall {
    call: "sagemaker:ListInferenceComponents",
    items: "InferenceComponents",
    only: ListFilter::Status("InService"),
};
pub(super) const LIST_JOBS: [(JobKind, ListCall); 3] = [
    (JobKind::Training, in_progress("sagemaker:ListTrainingJobs", "TrainingJobSummaries")),
    (JobKind::Processing, in_progress("sagemaker:ListProcessingJobs", "ProcessingJobSummaries")),
    (JobKind::Tuning, in_progress("sagemaker:ListHyperParameterTuningJobs", "HyperParameterTuningJobSummaries")),
];

/// Looks at single resources at once. `SageMaker` throttles each call by itself, at a rate that it does not publish.
pub(super) const AT_ONCE_MAX: usize = 4;

const fn in_progress(call: &'static str, items: &'static str) -> ListCall {
    ListCall { call, items, only: ListFilter::Status("InProgress") }
}

/// Observes what runs in all these regions at once. A resource that could not be looked up in full is left out, with a gap: its owner is
/// unknown.
///
/// A region that has not answered in full within `timeout` is a gap as well: the others must not wait for it.
pub async fn observe(
    aws: &Aws,
    regions: &[Region],
    timeout: Duration,
    wants_facts: impl Fn(&SageMakerResource) -> bool,
) -> ObservedSageMaker {
    let wants_facts = &wants_facts;
    let look = async |region: &Region| Ok(of_region(aws, region, wants_facts).await);
    let mut seen = ObservedSageMaker::default();
    for look in look_at_each(regions, LIST_ENDPOINTS.call, timeout, look).await {
        seen.extend(look.unwrap_or_else(|error| Observation::nothing_but(error.gap_of_region())));
    }
    seen
}

async fn of_region(aws: &Aws, region: &Region, wants_facts: &impl Fn(&SageMakerResource) -> bool) -> ObservedSageMaker {
    let ((tagged, apps), jobs) = join(
        join(notebooks_and_endpoints(aws, region, wants_facts, AutoscalingLookup::Asked), apps(aws, region)),
        join_all(LIST_JOBS.map(|(kind, call)| jobs(aws, region, kind, call, |_| true))),
    )
    .await;
    let mut seen = tagged;
    // Only endpoints have them.
    if seen.items.iter().any(|resource| matches!(resource.kind, SageMakerKind::Endpoint { .. })) {
        seen.extend(components(aws, region).await.seen);
    }
    seen.extend(apps.seen);
    for of_kind in jobs {
        seen.extend(of_kind.seen);
    }
    // An organisation may forbid one kind: of the others something was seen, and the run acts on it and remembers it.
    if !seen.items.is_empty() {
        let of_region = |gap: &&mut Gap| matches!(gap.kind, GapKind::Region | GapKind::ForbiddenRegion);
        seen.gaps.iter_mut().filter(of_region).for_each(|gap| gap.kind = GapKind::Listing);
    }
    accelerated(aws, region, seen).await.unwrap_or_else(|error| Observation::nothing_but(error.gap_of_region()))
}

/// Removes the resources that run on nothing but CPUs.
pub(super) async fn accelerated(
    aws: &Aws,
    region: &Region,
    mut seen: ObservedSageMaker,
) -> Result<ObservedSageMaker, CallError> {
    let types = instance_types(&seen.items);
    if types.is_empty() {
        return Ok(seen);
    }
    let machines = describe_instance_types(&aws.ec2(region), region, &types).await?;
    // What EC2 does not know may have an accelerator; so may an endpoint, or a component of it, that was not looked up.
    seen.items.retain(|resource| {
        let mut types = resource.instance_types().peekable();
        match types.peek() {
            Some(_) => types.any(|name| machines.get(name).is_none_or(Option::is_some)),
            None => matches!(resource.kind, SageMakerKind::Endpoint { .. } | SageMakerKind::InferenceComponent(_)),
        }
    });
    Ok(seen)
}

/// Mode of the query to Application Auto Scaling about which endpoints it scales: sent, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AutoscalingLookup {
    Asked,
    NotAsked,
}

/// The items of a list; where it cannot be read, a gap. All lists of a region are forbidden, or unreachable, for the same reason.
pub(super) async fn listed(aws: &Aws, region: &Region, call: ListCall) -> Result<Vec<Value>, Gap> {
    list(aws, region, call).await.map_err(|error| match error.kind {
        CallErrorKind::Denied { by_organisation: true } => error.gap_of_region(),
        _ => error.gap_of_kind(GapKind::Listing),
    })
}

pub(super) async fn notebooks_and_endpoints(
    aws: &Aws,
    region: &Region,
    wants_facts: &impl Fn(&SageMakerResource) -> bool,
    autoscaling: AutoscalingLookup,
) -> ObservedSageMaker {
    let (notebooks, endpoints) = join(listed(aws, region, LIST_NOTEBOOKS), listed(aws, region, LIST_ENDPOINTS)).await;
    let mut seen = ObservedSageMaker::default();
    let mut take = |list: Result<Vec<Value>, Gap>, read: fn(&Value, &Region) -> Option<SageMakerResource>| match list {
        Ok(items) => seen.items.extend(items.iter().filter_map(|item| read(item, region))),
        Err(gap) => seen.gaps.push(gap),
    };
    take(notebooks, read::notebook);
    take(endpoints, read::endpoint);
    if seen.items.is_empty() {
        return seen;
    }
    let tags: BTreeMap<Arn, Tags> = match tags_of_all(aws, region).await {
        Ok(tagged) => tagged.into_iter().collect(),
        Err(error) => {
            seen.gaps.push(error.gap_of_kind(GapKind::Listing));
            return ObservedSageMaker { items: Vec::new(), ..seen };
        }
    };
    for resource in &mut seen.items {
        resource.tags = tags.get(&resource.arn).cloned().unwrap_or_default();
    }
    look_at_endpoints(aws, region, seen, wants_facts, autoscaling).await
}

/// Looks up the endpoints that want it. One that cannot be looked up stays without facts.
async fn look_at_endpoints(
    aws: &Aws,
    region: &Region,
    mut seen: ObservedSageMaker,
    wants_facts: &impl Fn(&SageMakerResource) -> bool,
    autoscaling: AutoscalingLookup,
) -> ObservedSageMaker {
    let is_wanted =
        |resource: &SageMakerResource| matches!(resource.kind, SageMakerKind::Endpoint { .. }) && wants_facts(resource);
    if !seen.items.iter().any(is_wanted) {
        return seen;
    }
    let scaled = match autoscaling {
        AutoscalingLookup::NotAsked => None,
        AutoscalingLookup::Asked => match scalable_targets(aws, region, None).await {
            Ok(ids) => Some(ids),
            Err(error) => {
                seen.gaps.push(error.gap());
                None
            }
        },
    };
    let scaled = scaled.as_deref();
    let looks = seen.items.into_iter().map(|resource| async move {
        if !is_wanted(&resource) {
            return (resource, None);
        }
        match looked_up(aws, &resource, scaled).await {
            Ok(found) => (found, None),
            Err(error) => (resource, Some(error)),
        }
    });
    let looked: Vec<_> = stream::iter(looks).buffer_unordered(AT_ONCE_MAX).collect().await;
    let (items, errors): (Vec<_>, Vec<_>) = looked.into_iter().unzip();
    seen.gaps.extend(gaps(errors.into_iter().flatten().collect()));
    Observation { items, gaps: seen.gaps }
}

async fn looked_up(
    aws: &Aws,
    seen: &SageMakerResource,
    scaled: Option<&[String]>,
) -> Result<SageMakerResource, CallError> {
    let (endpoint, document) = described_endpoint(aws, &seen.region, seen.name()).await?;
    let endpoint = SageMakerResource { tags: seen.tags.clone(), ..endpoint };
    // Its configuration says nothing more about one that is skipped already.
    let bare = read::with_facts(endpoint.clone(), &document, None, scaled);
    let is_serverless = |sign: &ProductionSign| *sign == ProductionSign::Serverless;
    if bare.endpoint().is_some_and(|facts| facts.signs.iter().any(is_serverless)) {
        return Ok(bare);
    }
    facts(aws, endpoint, &document, scaled).await
}

/// The apps that are in service on an instance of their own.
pub(super) async fn apps(aws: &Aws, region: &Region) -> LookedUp {
    let items = match listed(aws, region, LIST_APPS).await {
        Ok(items) => items,
        Err(gap) => return LookedUp::from_failed_list(gap),
    };
    let owners = &OwnerTags::default();
    let running = items.iter().filter_map(running_app);
    let looks = running.map(|app| async move { (app_id(&app), describe::app(aws, region, &app, owners).await) });
    collected(stream::iter(looks).buffer_unordered(AT_ONCE_MAX).collect().await)
}

/// The inference components that are in service, whatever their endpoints are skipped for.
async fn components(aws: &Aws, region: &Region) -> LookedUp {
    let items = match listed(aws, region, LIST_COMPONENTS).await {
        Ok(items) if items.is_empty() => return LookedUp::default(),
        Ok(items) => items,
        Err(gap) => return LookedUp::from_failed_list(gap),
    };
    let (scaled, gap) = match scalable_targets(aws, region, None).await {
        Ok(ids) => (Some(ids), None),
        Err(error) => (None, Some(error.gap())),
    };
    let (scaled, owners) = (scaled.as_deref(), &OwnerTags::default());
    let names = items.iter().filter_map(|item| read::text(item, "InferenceComponentName"));
    let looks = names.map(|name| async move {
        let found = describe::component(aws, region, &name, scaled, owners).await;
        (ResourceId::new(format!("inference-component/{name}")), found)
    });
    let mut found = collected(stream::iter(looks).buffer_unordered(AT_ONCE_MAX).collect().await);
    found.seen.gaps.extend(gap);
    found
}

/// Id of an app as its ARN ends, which a list leaves out; the case of its type may differ.
fn app_id(app: &StudioApp) -> ResourceId {
    let (AppOwner::Space(owner) | AppOwner::UserProfile(owner)) = &app.owner;
    ResourceId::new(format!("app/{}/{owner}/{}/{}", app.domain, app.app_type, app.name))
}

/// An item of `ListApps`, which lists apps for a day after they are deleted.
fn running_app(item: &Value) -> Option<StudioApp> {
    let is_running =
        read::text(item, "Status").is_some_and(|name| SageMakerStatus::from_api(&name) == SageMakerStatus::Running);
    let has_machine =
        item.pointer("/ResourceSpec/InstanceType").and_then(Value::as_str).is_some_and(|name| name != "system");
    read::listed_app(item).filter(|_| is_running && has_machine)
}

/// The jobs of a list that are wanted, each looked up.
pub(super) async fn jobs(
    aws: &Aws,
    region: &Region,
    kind: JobKind,
    call: ListCall,
    is_wanted: impl Fn(&SageMakerResource) -> bool,
) -> LookedUp {
    let items = match listed(aws, region, call).await {
        Ok(items) => items,
        Err(gap) => return LookedUp::from_failed_list(gap),
    };
    let wanted = items.iter().filter_map(|item| read::job(item, region, kind)).filter(is_wanted);
    let looks = wanted.map(|job| look_at_job(aws, region, kind, job));
    collected(stream::iter(looks).buffer_unordered(AT_ONCE_MAX).collect().await)
}

pub(super) async fn look_at_job(
    aws: &Aws,
    region: &Region,
    kind: JobKind,
    job: SageMakerResource,
) -> (ResourceId, Result<SageMakerResource, CallError>) {
    let found = describe::job(aws, region, kind, job.name(), &job.arn).await;
    (job.id, found)
}

/// The resources of one list, each looked up.
#[derive(Default)]
pub(super) struct LookedUp {
    pub(super) seen: ObservedSageMaker,
    pub(super) list_failed: bool,
    /// Resources that the list has, and that could not be looked up.
    pub(super) unread: BTreeSet<ResourceId>,
}

impl LookedUp {
    pub(super) fn from_failed_list(gap: Gap) -> Self {
        Self { seen: Observation::nothing_but(gap), list_failed: true, ..Self::default() }
    }
}

/// Collects the results of the lookups. A resource that is gone between the list and the lookup is no gap.
pub(super) fn collected(looked: Vec<(ResourceId, Result<SageMakerResource, CallError>)>) -> LookedUp {
    let mut all = LookedUp::default();
    let mut errors = Vec::new();
    for (id, one) in looked {
        match one {
            Ok(found) => all.seen.items.push(found),
            Err(error) if error.kind == CallErrorKind::NotFound => {}
            Err(error) => {
                all.unread.insert(id);
                errors.push(error);
            }
        }
    }
    all.seen.gaps = gaps(errors).into_iter().map(|gap| Gap { kind: GapKind::Listing, ..gap }).collect();
    all
}
