//! Observation of each region for the ledger: accelerated instances in every state, and the volumes on them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_sdk_ec2::Client;
use billing::budget::billed::{BilledDays, CostExplorerBill};
use billing::ledger::{AttachedVolume, InspectedInstance, RegionObservation, SageMakerObservation};
use billing::price::{PriceDocument, PriceQueries};
use jiff::Timestamp;
use model::id::{Region, ResourceId, TypeName};
use model::instance;
use model::instance::{DescribedInstance, Instance, InstanceState};
use model::observation::{Gap, GapKind, Observation};
use ports::{BudgetCloud, PriceCloud};

use super::instances::describe_instance_types;
use super::pages::{PAGE_SIZE, all_pages};
use super::{FILTER_VALUES_MAX, filter, look_at_each};
use crate::aws::Aws;
use crate::describe::{self, DESCRIBE_INSTANCES, DESCRIBE_VOLUMES};
use crate::error::CallError;
use crate::{cost_explorer, sagemaker};

impl PriceCloud for Aws {
    async fn prices(
        &self,
        known: &mut PriceDocument,
        wanted: &PriceQueries,
        now: Timestamp,
        timeout: Duration,
    ) -> Vec<Gap> {
        crate::prices(self, known, wanted, now, timeout).await
    }
}

impl BudgetCloud for Aws {
    /// One observation of each of these regions, all at once. It includes terminated instances while EC2 shows them: "terminated instances
    /// remain visible for a while" (EC2 user guide, "Terminate Amazon EC2 instances"), about an hour.
    ///
    /// If a page of a region cannot be read, the region is a gap without an observation. If something lacks what the ledger needs, or a type
    /// has no description, its observation is incomplete, with a gap.
    ///
    /// A region that has not answered in full within `timeout` is a gap as well: the others must not wait for it.
    async fn looks(&self, regions: &[Region], timeout: Duration) -> Observation<RegionObservation> {
        let look = async |region: &Region| of_region(&self.ec2(region), region).await;
        let mut seen = Observation::default();
        for look in look_at_each(regions, DESCRIBE_INSTANCES, timeout, look).await {
            seen.extend(look.unwrap_or_else(|error| Observation::nothing_but(error.gap_of_region())));
        }
        seen
    }

    async fn sagemaker_bills(
        &self,
        regions: &[Region],
        now: Timestamp,
        timeout: Duration,
    ) -> Observation<SageMakerObservation> {
        sagemaker::bills(self, regions, now, timeout).await
    }

    async fn billed(&self, days: BilledDays) -> Result<CostExplorerBill, CallError> {
        cost_explorer::billed(self, days).await
    }
}

async fn of_region(ec2: &Client, region: &Region) -> Result<Observation<RegionObservation>, CallError> {
    let RegionInstances { described, mut ended_at, incomplete } = describe_region(ec2, region).await?;
    let types: BTreeSet<&TypeName> = described.iter().map(|one| &one.instance.instance_type).collect();
    let machines = describe_instance_types(ec2, region, &types).await?;
    let seen = instance::accelerated(region, described, &machines);
    let (volumes, incomplete_volumes) = volumes(ec2, region, &seen.items).await?;
    let mut gaps = seen.gaps;
    gaps.extend(gap(region, DESCRIBE_INSTANCES, "instance(s) came without id, type or launch time", incomplete));
    let words = "volume(s) came without zone, type, size or since when they are attached";
    gaps.extend(gap(region, DESCRIBE_VOLUMES, words, incomplete_volumes));
    let inspect = |instance: Instance| InspectedInstance { ended_at: ended_at.remove(&instance.id), instance };
    let instances = seen.items.into_iter().map(inspect).collect();
    let look = RegionObservation { region: region.clone(), whole: gaps.is_empty(), instances, volumes };
    Ok(Observation { items: vec![look], gaps })
}

/// Gap of the items without what the ledger needs, if there are any. While something is missing, nothing is known to be gone.
fn gap(region: &Region, call: &str, words: &str, count: usize) -> Option<Gap> {
    (count > 0).then(|| Gap::new(region, call, format!("{count} {words}, and are not in the ledger"), GapKind::Listing))
}

/// The answer of `DescribeInstances` for a region.
#[derive(Default)]
struct RegionInstances {
    described: Vec<DescribedInstance>,
    ended_at: BTreeMap<ResourceId, Timestamp>,
    incomplete: usize,
}

/// Describes every instance of a region. The call has no filter, because the ledger needs stopped and terminated instances, too.
async fn describe_region(ec2: &Client, region: &Region) -> Result<RegionInstances, CallError> {
    let call = ec2.describe_instances().max_results(PAGE_SIZE);
    let mut all = RegionInstances::default();
    all_pages(DESCRIBE_INSTANCES, region, async |token| {
        let page = describe::page(call.clone().set_next_token(token), region).await?;
        all.described.extend(page.described);
        all.ended_at.extend(page.stopped_at);
        all.ended_at.extend(page.ended_at);
        all.incomplete += page.incomplete;
        Ok(page.next_token)
    })
    .await?;
    Ok(all)
}

/// The volumes on these instances, and the number of volumes that the ledger cannot keep. A volume counts once, on the first of its
/// instances: several may share it.
async fn volumes(
    ec2: &Client,
    region: &Region,
    instances: &[Instance],
) -> Result<(Vec<AttachedVolume>, usize), CallError> {
    let hosts = instances.iter().filter(|instance| instance.state != InstanceState::Terminated);
    let hosts: BTreeSet<&str> = hosts.map(|instance| instance.id.as_str()).collect();
    let (mut found, mut incomplete) = (BTreeMap::new(), BTreeSet::new());
    for chunk in hosts.iter().copied().collect::<Vec<_>>().chunks(FILTER_VALUES_MAX) {
        let on = filter("attachment.instance-id", chunk.iter().copied());
        let call = ec2.describe_volumes().filters(on).max_results(PAGE_SIZE);
        all_pages(DESCRIBE_VOLUMES, region, async |token| {
            let page = describe::volumes_page(call.clone().set_next_token(token), region).await?;
            incomplete.extend(page.incomplete);
            for volume in page.volumes {
                let since = page.attached_since.get(&volume.id).into_iter().flatten();
                let (since, on) = match since.clone().find(|(_, host)| hosts.contains(host.as_str())) {
                    Some((since, on)) => (*since, on.clone()),
                    None if volume.attached_to.iter().any(|host| hosts.contains(host.as_str())) => {
                        incomplete.insert(volume.id);
                        continue;
                    }
                    None => continue,
                };
                found.insert(volume.id.clone(), AttachedVolume { volume, on, since });
            }
            Ok(page.next_token)
        })
        .await?;
    }
    Ok((found.into_values().collect(), incomplete.len()))
}

#[cfg(test)]
mod tests;
