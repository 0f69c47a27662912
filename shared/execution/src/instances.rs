//! Everything that is looked at of instances: themselves, what they have been doing, and what earlier runs told.

use std::collections::BTreeMap;

use cloud::Lines;
use domain::id::{Region, ResourceId};
use domain::instance::Instance;
use domain::observed::{Gap, Observed};
use domain::policy::Policy;
use domain::policy::instances::{asks, learn};
use domain::usage::{Activity, Usage};
use futures::future::{join, join_all};

use crate::budgets::standings;
use crate::{Recalled, Run, claims};

/// What was seen of the account.
pub struct Account {
    /// Where was looked.
    pub regions: Vec<Region>,
    /// What the account wants, where the budgets stand by which instances may be stopped, and the jobs that instances name.
    pub policy: Policy,
    /// The instances.
    pub instances: Observed<Instance>,
    /// What they have been doing.
    pub usages: BTreeMap<ResourceId, Usage>,
    /// What earlier runs told.
    pub recalled: Recalled,
}

/// Looks at every region at once. Of a run about chosen ones, these alone are seen, and nothing is learnt for other runs.
pub async fn account(run: &Run<'_>, policy: &Policy) -> Account {
    let Observed { items: regions, gaps } = run.regions(&policy.config).await;
    let recalled = run.recall(&regions).await;
    let mut instances = cloud::instances(run.aws, &recalled.regions(), run.patience()).await;
    instances.items.retain(|instance| run.is_about(&instance.region, &instance.id));
    instances.gaps.extend(gaps);
    instances.gaps.extend(recalled.gaps.iter().cloned());
    let (home, patience) = (run.aws.home(), run.patience());
    let ((budgets, unread), (jobs, unsaid)) = join(
        standings(run.store, &policy.config, home, run.now, patience),
        claims(run.store, &instances.items, home, patience),
    )
    .await;
    instances.gaps.extend(unread);
    instances.gaps.extend(unsaid);
    let policy = Policy { budgets, jobs, ..policy.clone() };
    let by_region = join_all(regions.iter().map(|region| usages(run, region, &instances, &recalled, &policy))).await;
    let mut usages = BTreeMap::new();
    for (of_region, gaps) in by_region {
        usages.extend(of_region);
        instances.gaps.extend(gaps);
    }
    Account { regions, policy, instances, usages, recalled }
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
    let due = asks(&of_region, &activity, &recalled.memory, policy, run.now);
    let lines = Lines { metrics: &policy.config.metrics, idle: &policy.config.idle };
    let (found, unanswered) = cloud::usages(run.aws, region, &due, lines, run.now, run.patience()).await;
    gaps.extend(unanswered);
    let learnt = learn(&of_region, &due, found, &activity, policy, run.now);
    if run.chosen.is_none()
        && let Ok(before) = known
        && before.value != learnt.activity
        && let Err(error) = run.store.write_activity(region, &learnt.activity, before.etag.as_deref()).await
    {
        gaps.push(error.gap(region));
    }
    (learnt.usages, gaps)
}
