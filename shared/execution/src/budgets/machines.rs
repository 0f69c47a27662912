//! Facts about running machines for the advice of budgets: what reap-instances knows of their use.

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::MachineFacts;
use futures::{StreamExt, stream};
use model::config::Config;
use model::id::{Region, ResourceId};
use model::instance::{Instance, InstanceState};
use model::observation::Observed;
use model::usage::ActivityCache;
use ports::BudgetCloud;
use reaping::instances::machine_facts;
use reaping::policy::Policy;

use super::{BeatDocuments, in_time};
use crate::bugs::or_gap;
use crate::{AT_ONCE, Run};

/// The facts about each running instance, for advice and metrics. Without a budget and without metrics of the account nothing is read. What cannot be read is unknown, and a gap.
pub(super) async fn read_machine_facts(
    run: &Run<'_, impl BudgetCloud, impl BeatDocuments>,
    policy: &Policy,
    instances: &[Instance],
) -> Observed<BTreeMap<ResourceId, MachineFacts>> {
    if !has_budget(&policy.config) && run.metrics.is_none() {
        return Observed::default();
    }
    let running = || instances.iter().filter(|instance| instance.state == InstanceState::Running);
    let regions: BTreeSet<&Region> = running().map(|instance| &instance.region).collect();
    let reads = stream::iter(regions).map(|region| async move {
        let what = || "the use of instances".to_owned();
        (region, in_time(run.store.read_activity(region), run.timeout(), region, "s3:GetObject", what).await)
    });
    let (mut facts, mut gaps) = (BTreeMap::new(), Vec::new());
    let mut reads = reads.buffer_unordered(AT_ONCE);
    while let Some((region, read)) = reads.next().await {
        let activity = read.map_or_else(
            |gap| {
                gaps.push(gap);
                ActivityCache::default()
            },
            |read| read.value,
        );
        for instance in running().filter(|instance| instance.region == *region) {
            let id = &instance.id;
            let known = or_gap((region, id), &mut gaps, || machine_facts(instance, &activity, policy, run.now));
            facts.extend(known.map(|known| (id.clone(), known)));
        }
    }
    Observed { items: facts, gaps }
}

fn has_budget(config: &Config) -> bool {
    config.account.monthly_budget_usd.is_some() || config.teams.values().any(|team| team.monthly_budget_usd.is_some())
}
