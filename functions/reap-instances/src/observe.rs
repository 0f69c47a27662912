//! Everything that the reaper looks at: instances, what they have been doing, and what earlier runs told.

use std::collections::{BTreeMap, BTreeSet};

use cloud::Lines;
use domain::id::{Region, ResourceId};
use domain::instance::Instance;
use domain::observed::{Gap, Observed};
use domain::policy::Policy;
use domain::policy::instances::{Ask, answered, asked, asks, usage_of_unasked};
use domain::usage::{Activity, Unknown, Usage};
use execution::{Recalled, Run};
use futures::future::join_all;

/// What was seen of the account.
pub(crate) struct Account {
    pub(crate) regions: Vec<Region>,
    pub(crate) instances: Observed<Instance>,
    pub(crate) usages: BTreeMap<ResourceId, Usage>,
    pub(crate) recalled: Recalled,
}

/// Looks at every region at once.
pub(crate) async fn account(run: &Run<'_>, policy: &Policy) -> Account {
    let Observed { items: regions, gaps } = cloud::regions(run.aws, &policy.config).await;
    let recalled = run.recall(&regions).await;
    let mut instances = cloud::instances(run.aws, &recalled.regions(), run.patience()).await;
    instances.gaps.extend(gaps);
    instances.gaps.extend(recalled.gaps.iter().cloned());
    let by_region = join_all(regions.iter().map(|region| usages(run, region, &instances, &recalled, policy))).await;
    let mut usages = BTreeMap::new();
    for (of_region, gaps) in by_region {
        usages.extend(of_region);
        instances.gaps.extend(gaps);
    }
    Account { regions, instances, usages, recalled }
}

/// What the instances of one region have been doing: asked about where it is due, else believed from the last answer.
async fn usages(
    run: &Run<'_>,
    region: &Region,
    instances: &Observed<Instance>,
    recalled: &Recalled,
    policy: &Policy,
) -> (BTreeMap<ResourceId, Usage>, Vec<Gap>) {
    let of_region: Vec<&Instance> = instances.items.iter().filter(|instance| instance.region == *region).collect();
    if of_region.is_empty() {
        return (BTreeMap::new(), Vec::new());
    }
    let known = run.store.read_activity(region).await;
    let (activity, mut gaps) = match &known {
        Ok(versioned) => (versioned.value.clone(), Vec::new()),
        Err(error) => (Activity::default(), vec![error.gap(region)]),
    };
    let due: Vec<Ask<'_>> = asks(&of_region, &activity, &recalled.memory, policy, run.now);
    let lines = Lines { metrics: &policy.config.metrics, idle: &policy.config.idle };
    let (usages, unanswered) = cloud::usages(run.aws, region, &due, lines, run.now, run.patience()).await;
    gaps.extend(unanswered);
    let usages: BTreeMap<ResourceId, Usage> = due
        .iter()
        .filter_map(|ask| Some((ask.instance, usages.get(&ask.instance.id)?.clone())))
        .map(|(instance, usage)| (instance.id.clone(), answered(instance, usage, &activity)))
        .collect();
    let present: BTreeSet<&ResourceId> = of_region.iter().map(|instance| &instance.id).collect();
    let mut after = activity.clone();
    after.instances.retain(|id, _| present.contains(id));
    for ask in &due {
        let usage = usages.get(&ask.instance.id).filter(|usage| **usage != Usage::Unknown(Unknown::NotAsked));
        if let Some(usage) = usage {
            after.instances.insert(ask.instance.id.clone(), asked(ask, usage, run.now));
        }
    }
    if let Ok(before) = known
        && before.value != after
        && let Err(error) = run.store.write_activity(region, &after, before.etag.as_deref()).await
    {
        gaps.push(error.gap(region));
    }
    let asked_about: BTreeSet<&ResourceId> = due.iter().map(|ask| &ask.instance.id).collect();
    let believed = of_region
        .iter()
        .filter(|instance| !asked_about.contains(&instance.id))
        .map(|instance| (instance.id.clone(), usage_of_unasked(instance, &activity, policy, run.now)));
    (believed.chain(usages).collect(), gaps)
}
