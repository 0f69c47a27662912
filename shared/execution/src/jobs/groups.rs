//! The groups of EC2 for jobs on several machines. `jobs::next` decides when they are made and deleted.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use jobs::{
    EffectResult, Job, JobGroup, JobId, LaunchObstacle, LaunchRequest, LaunchResult, ListedGroup, Phase, Ranking,
    VpcGroups, group_tags, is_index_search_due, placement_group_name, security_group_name,
};
use model::id::{Region, ResourceId};
use ports::{CallError, CallErrorKind, GroupOrder, JobCloud};

use super::{JobRunDocuments, JobsRun};

/// Time after which a group that is still in use is reported: EC2 has ended its machines long before.
const REPORTED_IN_USE_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// Says the key with which a job without capacity has more places.
pub(super) fn with_placement_hint(launch: &LaunchRequest, answer: LaunchResult) -> LaunchResult {
    match answer {
        LaunchResult::NoCapacity(why) if launch.placement_group.is_some() && !launch.only_find => {
            let hint = "a placement group makes capacity rarer, and `network.placement = \"none\"` does without";
            LaunchResult::NoCapacity(format!("{why}; {hint}"))
        }
        answer => answer,
    }
}

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// Makes the security group in each VPC of the ranking, where it lacks, and adds it to the candidates there. `None` if AWS did not answer, and the
    /// next run tries again.
    pub(super) async fn with_security_groups(
        &self,
        job: &Job,
        mut ranking: Ranking,
    ) -> Option<Result<Ranking, LaunchObstacle>> {
        let mut groups: BTreeMap<(Region, ResourceId), VpcGroups> = BTreeMap::new();
        for candidate in &mut ranking.candidates {
            let Some(network) = &mut candidate.network else { continue };
            let Some(vpc) = network.vpc.clone() else {
                let why = format!("EC2 did not say the VPC of {}", candidate.subnet);
                return Some(Err(LaunchObstacle::new(why)));
            };
            let place = (candidate.region.clone(), vpc);
            if !groups.contains_key(&place) {
                let made = match self.make_security_group(job, &place.0, &place.1).await {
                    Ok(made) => made,
                    Err(error) if error.kind.is_passing() => {
                        self.gap(error.gap());
                        return None;
                    }
                    Err(error) => return Some(Err(LaunchObstacle::new(error))),
                };
                groups.insert(place.clone(), made);
            }
            if let Some(made) = groups.get(&place) {
                network.add_groups(&job.terms.machine.security_groups, made.clone());
            }
        }
        Some(Ok(ranking))
    }

    async fn make_security_group(&self, job: &Job, region: &Region, vpc: &ResourceId) -> Result<VpcGroups, CallError> {
        let (name, tags) = (security_group_name(&job.job), group_tags(job, self.config));
        let order = GroupOrder { region, name: &name, job: &job.job, tags: &tags };
        let made = self.run.cloud.ensure_security_group(&order, vpc).await;
        tracing::info!(job = %job.job, region = region.as_str(), vpc = vpc.as_str(), made = ?made, "security group");
        made
    }

    async fn make_placement_group(&self, job: &Job, region: &Region, name: &str) -> Result<(), CallError> {
        let tags = group_tags(job, self.config);
        let order = GroupOrder { region, name, job: &job.job, tags: &tags };
        let made = self.run.cloud.ensure_placement_group(&order).await;
        tracing::info!(job = %job.job, region = region.as_str(), name, made = ?made, "placement group");
        made
    }

    /// Makes the placement group of a launch, unless an earlier run has: after a warning each call counts. A launch that is repeated makes it again,
    /// for the case that it lacks after all.
    ///
    /// # Errors
    /// The result of the launch, if there is none.
    pub(super) async fn ensure_placement_group(
        &self,
        job: &Job,
        launch: &LaunchRequest,
        is_first_ask: bool,
    ) -> Result<(), LaunchResult> {
        let Some(name) = launch.placement_group.as_ref().filter(|_| !launch.only_find) else { return Ok(()) };
        let region = &launch.candidate.region;
        let made = JobGroup::Placement { region: region.clone(), attempt: launch.attempt, is_made: true };
        if is_first_ask && job.groups.contains(&made) {
            return Ok(());
        }
        match self.make_placement_group(job, region, name).await {
            Err(error) if is_first_ask => Err(match error.kind {
                CallErrorKind::Denied { .. } => LaunchResult::Denied(error.to_string()),
                kind if kind.is_passing() => LaunchResult::Unknown(error.to_string()),
                _ => LaunchResult::Quota(error.to_string(), None),
            }),
            // An earlier request may have launched machines: only EC2 knows.
            _ => Ok(()),
        }
    }

    pub(super) async fn make_group(&self, job: &Job, group: &JobGroup) -> EffectResult {
        let JobGroup::Placement { region, attempt, .. } = group else { return EffectResult::GroupUnchanged };
        match self.make_placement_group(job, region, &placement_group_name(&job.job, *attempt)).await {
            Ok(()) => EffectResult::GroupMade(group.clone()),
            Err(error) => {
                self.gap(error.gap());
                EffectResult::GroupUnchanged
            }
        }
    }

    pub(super) async fn delete_group(&self, job: &Job, group: &JobGroup) -> EffectResult {
        let (region, key) = (group.region(), group.key(&job.job));
        let deleted = self.run.cloud.delete_group(region, &key, &job.job).await;
        tracing::info!(job = %job.job, region = region.as_str(), key = ?key, deleted = ?deleted, "delete group");
        let is_late = match &job.phase {
            Phase::Ended(ended) => self.now().duration_since(ended.at) >= REPORTED_IN_USE_AFTER,
            _ => false,
        };
        match deleted {
            Ok(()) => return EffectResult::GroupDeleted(group.clone()),
            // Its machines are not terminated yet.
            Err(error) if error.kind == CallErrorKind::InUse && !is_late => {}
            Err(error) => self.gap(error.gap()),
        }
        EffectResult::GroupUnchanged
    }

    /// Deletes, once an hour, the groups of closed jobs that no state names any more, in the regions of the gangs that are under way: an account without
    /// gangs makes no call for it. A job whose state cannot be read is left alone.
    pub(super) async fn delete_left_groups(&self, worked: &[(Job, Option<String>)]) {
        if !self.enforces || !is_index_search_due(self.run.now) {
            return;
        }
        let home = self.run.cloud.home();
        let mut regions: BTreeSet<&Region> = BTreeSet::new();
        for (job, _) in worked.iter().filter(|(job, _)| job.terms.is_gang()) {
            let named = &job.terms.machine.regions;
            regions.extend(if named.is_empty() { std::slice::from_ref(home) } else { named });
        }
        for region in regions {
            match self.run.cloud.list_groups(region).await {
                Ok(groups) => self.delete_groups_of_closed_jobs(region, groups).await,
                Err(error) => self.gap(error.gap()),
            }
        }
    }

    async fn delete_groups_of_closed_jobs(&self, region: &Region, groups: Vec<ListedGroup>) {
        let mut closed: BTreeMap<JobId, bool> = BTreeMap::new();
        for group in groups {
            let Some(job) = group.find_job().filter(|_| self.time_left().is_some()) else { continue };
            let is_closed = match closed.get(&job) {
                Some(is_closed) => *is_closed,
                None => match self.run.store.read_job(&job).await {
                    Ok(read) => read.value.is_some_and(|job| job.is_closed()),
                    Err(error) => {
                        self.gap(error.gap(self.run.cloud.home()));
                        false
                    }
                },
            };
            closed.insert(job.clone(), is_closed);
            if is_closed && let Err(error) = self.run.cloud.delete_group(region, &group.key, &job).await {
                self.gap(error.gap());
            }
        }
    }
}
