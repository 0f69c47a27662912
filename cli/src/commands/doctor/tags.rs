//! What is looked up to judge tags: everything that carries one, and what it is.

use std::collections::BTreeSet;

use cloud::CallError;
use domain::doctor::Finding;
use domain::doctor::tags::{self, Known, Tagged};
use domain::id::Region;
use domain::instance::Instance;
use domain::mode::Mode;
use domain::observed::{GapKind, Observed};
use futures::future::join_all;
use futures::{StreamExt as _, stream};

use super::section::{Section, unanswered, unread, unseen};
use crate::context::{Context, Deployed};

/// The most jobs that are looked up in the state bucket, and how many at once.
const JOBS_MAX: usize = 100;
const JOBS_AT_ONCE: usize = 10;

/// What carries tags in a region.
pub(super) type Listed = (Region, Result<Vec<Tagged>, CallError>);

/// Judges the tags of all regions. A region of which something could not be seen is not judged.
pub(super) async fn check(
    context: &Context,
    deployed: &Deployed,
    ceiling: Option<Mode>,
    instances: &Observed<Instance>,
    listed: Vec<Listed>,
    mut findings: Vec<Finding>,
) -> Section {
    let looks = listed.into_iter().map(|(region, tagged)| of_region(context, region, instances, tagged));
    let (mut all, mut known) = (Vec::new(), Known { ceiling, ..Known::default() });
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
    findings.extend(tags::check(&all, &known, context.now));
    Section::of(tags::CHECK, findings, format!("resources with tags of Curfew: {}", all.len()))
}

async fn of_region(
    context: &Context,
    region: Region,
    instances: &Observed<Instance>,
    tagged: Result<Vec<Tagged>, CallError>,
) -> Result<(Vec<Tagged>, Known), Finding> {
    let tagged = tagged.map_err(|error| unanswered(&error))?;
    if tagged.is_empty() {
        return Ok((tagged, Known::default()));
    }
    let unjudged = instances.gaps.iter().find(|gap| gap.region == region && gap.kind != GapKind::Part);
    if let Some(gap) = unjudged {
        return Err(unseen(gap));
    }
    let accelerated: Vec<Instance> = instances.items.iter().filter(|one| one.region == region).cloned().collect();
    let known = async {
        Ok::<Known, CallError>(Known {
            instances: cloud::operator::tagged_instances(&context.aws, &region, &tagged, &accelerated).await?,
            volumes: cloud::operator::volumes(&context.aws, &region, &tags::volumes_named(&tagged)).await?,
            ..Known::default()
        })
    };
    let known = known.await.map_err(|error| unanswered(&error))?;
    Ok((tagged, known))
}

/// Those that are not active; and why nobody knows of others.
async fn inactive_jobs(deployed: &Deployed, named: &BTreeSet<String>) -> (BTreeSet<String>, Option<Finding>) {
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
