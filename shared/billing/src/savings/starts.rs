//! Starts of resources, as ledgers saw them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::Timestamp;
use model::id::{Region, ResourceId, TeamName};

use super::{EndedResource, EndingAction};
use crate::ledger::{Ledger, RunKind, RunShare};

/// The replacement of a terminated instance: another one of its type, for its team, in its region.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartKey {
    pub region: Region,
    pub team: Option<TeamName>,
    /// Its type.
    pub what: String,
}

/// Starts of instances and of `SageMaker` resources that ledgers saw.
#[derive(Debug, Clone, Default)]
pub struct StartIndex {
    by_resource: BTreeMap<(Region, ResourceId), BTreeSet<Timestamp>>,
    /// The first start of each instance.
    launches: BTreeMap<StartKey, BTreeMap<ResourceId, Timestamp>>,
}

/// The launches that have replaced nothing yet, by time.
#[derive(Debug)]
pub(super) struct ReplacementQueue(BTreeMap<StartKey, VecDeque<Timestamp>>);

impl StartIndex {
    /// Builds the index from the ledgers of all months from the first action to the end of the report.
    #[must_use]
    pub fn from_ledgers<'a>(ledgers: impl IntoIterator<Item = &'a Ledger>) -> Self {
        let mut index = Self::default();
        for ledger in ledgers {
            for run in ledger.runs().filter(|run| run.kind() != RunKind::Volume) {
                let Some(region) = run.region else { continue };
                // A job launches its next machine whatever becomes of others.
                let share = run.shares(ledger.span()).pop();
                let replaces = |share: &RunShare<'_>| run.kind() == RunKind::Instance && share.job.is_none();
                let key = share.filter(replaces).map(|share| StartKey {
                    region: region.clone(),
                    team: share.team.cloned(),
                    what: run.what().to_owned(),
                });
                index.add(region, run.resource, run.began, key);
            }
        }
        index
    }

    /// One start; with a key if it can replace another instance.
    pub fn add(&mut self, region: &Region, resource: &ResourceId, at: Timestamp, key: Option<StartKey>) {
        self.by_resource.entry((region.clone(), resource.clone())).or_default().insert(at);
        if let Some(key) = key {
            let first = self.launches.entry(key).or_default().entry(resource.clone()).or_insert(at);
            *first = at.min(*first);
        }
    }

    /// The first start of that resource after that moment.
    pub(super) fn restarted(&self, ended: &EndedResource, after: Timestamp) -> Option<Timestamp> {
        let starts = self.by_resource.get(&(ended.region.clone(), ended.resource.clone()))?;
        starts.iter().copied().find(|at| *at > after)
    }

    pub(super) fn replacements(&self) -> ReplacementQueue {
        let in_order = |launches: &BTreeMap<ResourceId, Timestamp>| {
            let mut times: Vec<Timestamp> = launches.values().copied().collect();
            times.sort();
            times.into()
        };
        ReplacementQueue(self.launches.iter().map(|(key, launches)| (key.clone(), in_order(launches))).collect())
    }
}

impl ReplacementQueue {
    /// The first launch after a termination, and before that moment, that replaces it; it replaces nothing else.
    pub(super) fn take(&mut self, ended: &EndedResource, before: Timestamp) -> Option<Timestamp> {
        if ended.action != EndingAction::Terminate {
            return None;
        }
        let key = StartKey { region: ended.region.clone(), team: ended.team.clone(), what: ended.what.clone() };
        let launches = self.0.get_mut(&key)?;
        while launches.front().is_some_and(|at| *at <= ended.at) {
            launches.pop_front();
        }
        launches.pop_front_if(|at| *at < before)
    }
}
