//! Work about many resources, of which a bug about one leaves out that one, and names it in a gap.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use jiff::Timestamp;
use model::fault::Bug;
use model::id::{Region, ResourceId};
use model::instance::Instance;
use model::notification_log::NotificationLogs;
use model::observation::{Gap, Observed};
use model::usage::{ActivityCache, QueryResult, UsageQuery};
use reaping::instances::{LearnedUsage, ask_gangs_together, usage_queries};
use reaping::policy::Policy;

/// [`Bug::catch`] for what waits.
///
/// # Errors
/// The panic.
pub async fn catch_bug<T>(work: impl Future<Output = T>) -> Result<T, Bug> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| Bug::from_panic(panic.as_ref()))
}

/// Does work about one resource; `None`, and a gap, where it panics.
pub(crate) fn or_gap<T>(
    (region, id): (&Region, &ResourceId),
    gaps: &mut Vec<Gap>,
    work: impl FnOnce() -> T,
) -> Option<T> {
    Bug::catch(work).map_err(|bug| gaps.push(Gap::for_bug(&bug, region, id))).ok()
}

/// The instances to ask `CloudWatch` about now, and what a bug hides of others.
pub(crate) fn due_queries<'a>(
    seen: &[&'a Instance],
    activity: &ActivityCache,
    memory: &NotificationLogs,
    policy: &Policy,
    now: Timestamp,
) -> Observed<Vec<UsageQuery<'a>>> {
    let (mut due, mut gaps) = (Vec::new(), Vec::new());
    for instance in seen {
        let work = || usage_queries(&[instance], activity, memory, policy, now);
        due.extend(or_gap((&instance.region, &instance.id), &mut gaps, work).unwrap_or_default());
    }
    // A bug about one gang is one about its member as well, which the decision names.
    let together = || ask_gangs_together(due.clone(), seen, activity, policy, now);
    let items = Bug::catch(together).unwrap_or(due);
    Observed { items, gaps }
}

/// Derives the usage of each instance from the answers. If a bug hides an instance, a gap names it.
pub(crate) fn learn_usage(
    seen: &[&Instance],
    asked: &[UsageQuery<'_>],
    mut found: BTreeMap<ResourceId, QueryResult>,
    before: &ActivityCache,
    policy: &Policy,
    now: Timestamp,
) -> Observed<LearnedUsage> {
    let mut learned = LearnedUsage { usages: BTreeMap::new(), activity: ActivityCache::default() };
    let mut gaps = Vec::new();
    let asked: BTreeMap<&ResourceId, &UsageQuery<'_>> = asked.iter().map(|ask| (&ask.instance.id, ask)).collect();
    for instance in seen {
        let ask = asked.get(&instance.id).map_or(&[][..], |ask| std::slice::from_ref(*ask));
        let answer = found.remove_entry(&instance.id).into_iter().collect();
        let work = || reaping::instances::learn_usage(&[instance], ask, answer, before, policy, now);
        if let Some(one) = or_gap((&instance.region, &instance.id), &mut gaps, work) {
            learned.usages.extend(one.usages);
            learned.activity.instances.extend(one.activity.instances);
        }
    }
    Observed { items: learned, gaps }
}
