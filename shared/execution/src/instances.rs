//! A run about instances: it observes them, their usage, and the notifications of earlier runs.

use std::collections::BTreeMap;

use futures::future::{join, join_all};
use jiff::Timestamp;
use model::gang::Gangs;
use model::id::{Region, ResourceId};
use model::instance::Instance;
use model::notification_log::Notification;
use model::observation::{Observation, Observed};
use model::usage::{ActivityCache, Usage};
use plan::Plan;
use ports::{ActivityDocuments, BudgetDocuments, ConfigLoadError, Documents, InstanceCloud, JobDocuments};
use reaping::instances::{decide, withheld_without_choice};
use reaping::policy::Policy;

use crate::budgets::load_budget_statuses;
use crate::{Planned, RecalledLogs, Run, RunObservation, UsageInquiry, load_job_states};

/// The documents in the bucket that a run about instances reads and writes.
pub trait InstanceDocuments: Documents + ActivityDocuments + BudgetDocuments + JobDocuments {}

impl<D: Documents + ActivityDocuments + BudgetDocuments + JobDocuments> InstanceDocuments for D {}

/// Observes the account, and decides.
///
/// # Errors
/// If the configuration was refused, or could not be read.
pub async fn plan(
    run: &Run<'_, impl InstanceCloud, impl InstanceDocuments>,
) -> Result<Planned<InstancesObservation>, ConfigLoadError> {
    let (policy, subscribers) = run.prepare().await?;
    let observation = observe(run, &policy).await;
    let plan =
        decide(&observation.instances, &observation.usages, &observation.recalled.memory, &observation.policy, run.now);
    Ok(Planned { plan, observation, subscribers })
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

impl RunObservation for InstancesObservation {
    fn into_regions_and_logs(self) -> (Vec<Region>, RecalledLogs) {
        (self.regions, self.recalled)
    }

    fn notifications(&self, plan: &Plan, now: Timestamp) -> Vec<Notification> {
        let withheld = withheld_without_choice(&plan.steps, &self.policy.config);
        let recalled = &self.recalled;
        notify::local_disk_notification(&withheld, recalled.home(), &recalled.memory, now).into_iter().collect()
    }
}

/// Observes every region at once. A run about chosen instances sees only these, and stores nothing for other runs.
pub async fn observe(
    run: &Run<'_, impl InstanceCloud, impl InstanceDocuments>,
    policy: &Policy,
) -> InstancesObservation {
    let Observation { items: regions, gaps } = run.regions(&policy.config).await;
    let recalled = run.recall(&regions).await;
    let mut instances = run.cloud.instances(&recalled.regions(), run.timeout()).await;
    // Before the filter: a gang is found from all its members, also from those that the run is not about.
    let gangs = Gangs::find(&instances.items, &policy.config);
    instances.items.retain(|instance| run.is_about(&instance.region, &instance.id));
    instances.gaps.extend(gaps);
    instances.gaps.extend(recalled.gaps.iter().cloned());
    let (home, timeout) = (run.cloud.home(), run.timeout());
    let (budgets, jobs) = join(
        load_budget_statuses(run.store, &policy.config, home, run.now, timeout),
        load_job_states(run.store, &instances.items, home, timeout),
    )
    .await;
    let budgets = budgets.with_gaps_in(&mut instances.gaps);
    let jobs = jobs.with_gaps_in(&mut instances.gaps);
    let policy = Policy { budgets, jobs, gangs, ..policy.clone() };
    let by_region = join_all(regions.iter().map(|region| usages_of(run, region, &instances, &recalled, &policy))).await;
    let mut usages = BTreeMap::new();
    for region_usages in by_region {
        usages.extend(region_usages.with_gaps_in(&mut instances.gaps));
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
) -> Observed<BTreeMap<ResourceId, Usage>> {
    let observed: Vec<&Instance> = instances.items.iter().filter(|instance| instance.region == *region).collect();
    if observed.is_empty() {
        return Observed::default();
    }
    let known = run.store.read_activity(region).await;
    let (activity, mut gaps) = match &known {
        Ok(versioned) => (versioned.value.clone(), Vec::new()),
        Err(error) => (ActivityCache::default(), vec![error.gap(region)]),
    };
    let memory = Some(&recalled.memory);
    let inquiry = UsageInquiry { activity: &activity, memory, policy, now: run.now, timeout: run.timeout() };
    let learned = inquiry.learn(run.cloud, region, &observed).await.with_gaps_in(&mut gaps);
    if run.chosen.is_none()
        && let Ok(before) = known
        && before.value != learned.activity
        && let Err(error) = run.store.write_activity(region, &learned.activity, before.etag.as_deref()).await
    {
        gaps.push(error.gap(region));
    }
    Observed { items: learned.usages, gaps }
}
