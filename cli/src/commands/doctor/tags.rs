//! Reads everything that carries a tag, to judge tags.

use std::collections::BTreeSet;

use cloud::CallError;
use futures::future::join_all;
use futures::{StreamExt as _, stream};
use model::config::Config;
use model::id::Region;
use model::instance::Instance;
use model::observation::Observation;
use operator::doctor::tags::{KnownResources, TaggedResource};
use operator::doctor::{DoctorFinding, configuration, tags};
use store::JobDocuments as _;

use super::section::{DoctorSection, unanswered, unread, unseen};
use crate::context::{CommandContext, DeployedResources};

/// The most jobs that are read from the state bucket, and how many at once.
const JOBS_MAX: usize = 100;
const JOBS_AT_ONCE: usize = 10;

pub(super) type RegionTags = (Region, Result<Vec<TaggedResource>, CallError>);

/// Judges the tags of all regions. A region with a gap is not judged.
pub(super) async fn check(
    context: &CommandContext,
    deployed: &DeployedResources,
    config: &Config,
    instances: &Observation<Instance>,
    listed: Vec<RegionTags>,
    mut findings: Vec<DoctorFinding>,
) -> DoctorSection {
    let looks = listed.into_iter().map(|(region, tagged)| check_region(context, region, instances, tagged));
    let (mut all, mut known) = (Vec::new(), KnownResources::default());
    for looked in join_all(looks).await {
        match looked {
            Ok((tagged, of_region)) => {
                all.extend(tagged);
                known.instances.extend(of_region.instances);
                known.volumes.extend(of_region.volumes);
            }
            Err(unknown) => findings.push(unknown),
        }
    }
    let (inactive, unknown) = inactive_jobs(deployed, &tags::jobs_named(&all)).await;
    known.inactive_jobs = inactive;
    findings.extend(unknown);
    findings.extend(configuration::check_tag_keys(&instances.items, config));
    findings.extend(tags::check(&all, &known, context.now));
    DoctorSection::new(tags::CHECK, findings, format!("resources with tags of Curfew: {}", all.len()))
}

async fn check_region(
    context: &CommandContext,
    region: Region,
    instances: &Observation<Instance>,
    tagged: Result<Vec<TaggedResource>, CallError>,
) -> Result<(Vec<TaggedResource>, KnownResources), DoctorFinding> {
    let tagged = tagged.map_err(|error| unanswered(&error))?;
    if tagged.is_empty() {
        return Ok((tagged, KnownResources::default()));
    }
    let unjudged = instances.gaps.iter().find(|gap| gap.region == region && gap.kind.hides_region());
    if let Some(gap) = unjudged {
        return Err(unseen(gap));
    }
    let accelerated: Vec<Instance> = instances.items.iter().filter(|one| one.region == region).cloned().collect();
    let known = async {
        Ok::<KnownResources, CallError>(KnownResources {
            instances: cloud::operator::tagged_instances(&context.aws, &region, &tagged, &accelerated).await?,
            volumes: cloud::operator::volumes(&context.aws, &region, &tags::tagged_volumes(&tagged)).await?,
            ..KnownResources::default()
        })
    };
    let known = known.await.map_err(|error| unanswered(&error))?;
    Ok((tagged, known))
}

/// The jobs that are not active, and why others are unknown.
async fn inactive_jobs(
    deployed: &DeployedResources,
    named: &BTreeSet<String>,
) -> (BTreeSet<String>, Option<DoctorFinding>) {
    let looks = named.iter().take(JOBS_MAX).map(|job| async move { (job, deployed.store.is_active(job).await) });
    let answers: Vec<_> = stream::iter(looks).buffer_unordered(JOBS_AT_ONCE).collect().await;
    let (mut inactive, mut unknown) = (BTreeSet::new(), None);
    for (job, active) in answers {
        match active {
            Ok(true) => {}
            Ok(false) => drop(inactive.insert(job.clone())),
            Err(error) => unknown = Some(unread(&error)),
        }
    }
    (inactive, unknown)
}
