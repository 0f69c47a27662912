//! Everything that is looked at of instances: themselves, what they have been doing, and what earlier runs told.

use std::collections::BTreeMap;

use futures::future::{join, join_all};
use model::id::{Region, ResourceId};
use model::instance::Instance;
use model::observation::{Gap, Observation};
use model::usage::{ActivityCache, Usage};
use plan::Plan;
use plan::report::Report;
use ports::{ActivityDocuments, BudgetDocuments, ConfigLoadError, Documents, InstanceCloud, JobDocuments};
use reaping::instances::decide;
use reaping::policy::Policy;

use crate::budgets::load_budget_statuses;
use crate::{IdleThresholds, RecalledLogs, Run, Subscribers, due_queries, learn_usage, load_job_states, usages};

/// The documents in the bucket that a run about instances reads and writes.
pub trait InstanceDocuments: Documents + ActivityDocuments + BudgetDocuments + JobDocuments {}

impl<D: Documents + ActivityDocuments + BudgetDocuments + JobDocuments> InstanceDocuments for D {}

/// A run that has looked and decided, and has done nothing yet.
pub struct Planned {
    /// The steps that the run will carry out.
    pub plan: Plan,
    /// The observation that the plan is based on.
    pub seen: InstancesObservation,
    audience: Subscribers,
}

impl Planned {
    /// Carries the plan out, and reports what became of it.
    pub async fn carry_out(self, run: &Run<'_, impl InstanceCloud, impl InstanceDocuments>) -> Report {
        run.carry_out(self.plan, self.seen.regions, self.audience, self.seen.recalled).await
    }
}

/// Looks at everything, and decides.
///
/// # Errors
/// Where the configuration was refused, or could not be read.
pub async fn plan(run: &Run<'_, impl InstanceCloud, impl InstanceDocuments>) -> Result<Planned, ConfigLoadError> {
    let (policy, audience) = run.prepare().await?;
    let seen = observe(run, &policy).await;
    let plan = decide(&seen.instances, &seen.usages, &seen.recalled.memory, &seen.policy, run.now);
    Ok(Planned { plan, seen, audience })
}

/// The observation of the account by one run.
pub struct InstancesObservation {
    /// The regions that the run observed.
    pub regions: Vec<Region>,
    /// The configuration, the status of the budgets by which instances may be stopped, and the jobs that instances name.
    pub policy: Policy,
    pub instances: Observation<Instance>,
    /// The usage of each instance.
    pub usages: BTreeMap<ResourceId, Usage>,
    /// The notifications of earlier runs.
    pub recalled: RecalledLogs,
}

/// Looks at every region at once. Of a run about chosen ones, these alone are seen, and nothing is learnt for other runs.
pub async fn observe(
    run: &Run<'_, impl InstanceCloud, impl InstanceDocuments>,
    policy: &Policy,
) -> InstancesObservation {
    let Observation { items: regions, gaps } = run.regions(&policy.config).await;
    let recalled = run.recall(&regions).await;
    let mut instances = run.cloud.instances(&recalled.regions(), run.timeout()).await;
    instances.items.retain(|instance| run.is_about(&instance.region, &instance.id));
    instances.gaps.extend(gaps);
    instances.gaps.extend(recalled.gaps.iter().cloned());
    let (home, timeout) = (run.cloud.home(), run.timeout());
    let ((budgets, unread), (jobs, unsaid)) = join(
        load_budget_statuses(run.store, &policy.config, home, run.now, timeout),
        load_job_states(run.store, &instances.items, home, timeout),
    )
    .await;
    instances.gaps.extend(unread);
    instances.gaps.extend(unsaid);
    let policy = Policy { budgets, jobs, ..policy.clone() };
    let by_region = join_all(regions.iter().map(|region| usages_of(run, region, &instances, &recalled, &policy))).await;
    let mut usages = BTreeMap::new();
    for (of_region, gaps) in by_region {
        usages.extend(of_region);
        instances.gaps.extend(gaps);
    }
    InstancesObservation { regions, policy, instances, usages, recalled }
}

/// Returns the usage of the instances of one region: queried if a query is due, otherwise taken from the last answer.
async fn usages_of(
    run: &Run<'_, impl InstanceCloud, impl InstanceDocuments>,
    region: &Region,
    instances: &Observation<Instance>,
    recalled: &RecalledLogs,
    policy: &Policy,
) -> (BTreeMap<ResourceId, Usage>, Vec<Gap>) {
    let of_region: Vec<&Instance> = instances.items.iter().filter(|instance| instance.region == *region).collect();
    if of_region.is_empty() {
        return (BTreeMap::new(), Vec::new());
    }
    let known = run.store.read_activity(region).await;
    let (activity, mut gaps) = match &known {
        Ok(versioned) => (versioned.value.clone(), Vec::new()),
        Err(error) => (ActivityCache::default(), vec![error.gap(region)]),
    };
    let (due, bugs) = due_queries(&of_region, &activity, &recalled.memory, policy, run.now);
    gaps.extend(bugs);
    let lines = IdleThresholds { metrics: &policy.config.metrics, idle: &policy.config.idle };
    let (found, unanswered) = usages(run.cloud, region, &due, lines, run.now, run.timeout()).await;
    gaps.extend(unanswered);
    let (learnt, bugs) = learn_usage(&of_region, &due, found, &activity, policy, run.now);
    gaps.extend(bugs);
    if run.chosen.is_none()
        && let Ok(before) = known
        && before.value != learnt.activity
        && let Err(error) = run.store.write_activity(region, &learnt.activity, before.etag.as_deref()).await
    {
        gaps.push(error.gap(region));
    }
    (learnt.usages, gaps)
}
