//! The accelerated instances of all regions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_sdk_ec2::Client;
use model::id::{Region, ResourceId, TypeName};
use model::instance::{DescribedInstance, Instance, InstanceState, InstanceTypes, PurchaseOption, accelerated};
use model::observation::{Gap, GapKind, Observation};

use super::pages::{PAGE_SIZE, all_pages};
use super::{FILTER_VALUES_MAX, filter, look_at_each};
use crate::aws::Aws;
use crate::convert;
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::{CallError, call_error};

/// The most that a page of types has.
const TYPES_A_CALL_MAX: usize = 100;

pub(crate) const DESCRIBE_TYPES: &str = "ec2:DescribeInstanceTypes";
const DESCRIBE_SPOT_REQUESTS: &str = "ec2:DescribeSpotInstanceRequests";

/// Every instance with an accelerator that is not terminated, of all these regions at once.
///
/// A region is a gap without instances if one call about its instances or their types fails: a fleet that is seen in part must not be judged
/// as if it were complete. A type that EC2 leaves out, or an instance without id, type or launch time, is a gap beside the others.
///
/// A region that has not answered in full within `timeout` is a gap as well: the others must not wait for it.
pub async fn instances(aws: &Aws, regions: &[Region], timeout: Duration) -> Observation<Instance> {
    let look = async |region: &Region| of_region(&aws.ec2(region), region).await;
    let mut seen = Observation::default();
    for look in look_at_each(regions, DESCRIBE_INSTANCES, timeout, look).await {
        seen.extend(look.unwrap_or_else(|error| Observation::nothing_but(error.gap_of_region())));
    }
    seen
}

async fn of_region(ec2: &Client, region: &Region) -> Result<Observation<Instance>, CallError> {
    let all = described(ec2, region).await?;
    let types: BTreeSet<&TypeName> = all.described.iter().map(|one| &one.instance.instance_type).collect();
    let machines = describe_instance_types(ec2, region, &types).await?;
    let mut seen = accelerated(region, all.described, &machines);
    seen.gaps.extend(all.gap);
    let gap = distinguish_spot_requests(ec2, region, &mut seen.items, &all.spot_requests).await;
    seen.gaps.extend(gap);
    Ok(seen)
}

/// The answer of `DescribeInstances` for a region.
struct RegionInstances {
    described: Vec<DescribedInstance>,
    spot_requests: BTreeMap<ResourceId, String>,
    gap: Option<Gap>,
}

async fn described(ec2: &Client, region: &Region) -> Result<RegionInstances, CallError> {
    let states = ["pending", "running", "stopping", "stopped", "shutting-down"];
    let call = ec2.describe_instances().filters(filter("instance-state-name", states)).max_results(PAGE_SIZE);
    let mut all = RegionInstances { described: Vec::new(), spot_requests: BTreeMap::new(), gap: None };
    let mut incomplete = 0;
    all_pages(DESCRIBE_INSTANCES, region, async |token| {
        let page = describe::page(call.clone().set_next_token(token), region).await?;
        all.described.extend(page.described);
        all.spot_requests.extend(page.spot_requests);
        incomplete += page.incomplete;
        Ok(page.next_token)
    })
    .await?;
    all.gap = (incomplete > 0).then(|| {
        Gap::new(
            region,
            DESCRIBE_INSTANCES,
            format!("{incomplete} instance(s) came without id, type or launch time, and were not judged"),
            GapKind::Listing,
        )
    });
    Ok(all)
}

/// The facts of these types. By a filter, which answers for the types that exist; one unknown name in `InstanceTypes` fails
/// the whole call.
pub(crate) async fn describe_instance_types(
    ec2: &Client,
    region: &Region,
    types: &BTreeSet<&TypeName>,
) -> Result<InstanceTypes, CallError> {
    let types: Vec<&str> = types.iter().map(|name| name.as_str()).collect();
    let mut machines = InstanceTypes::new();
    for chunk in types.chunks(TYPES_A_CALL_MAX) {
        let mut pages = ec2
            .describe_instance_types()
            .filters(filter("instance-type", chunk.iter().copied()))
            .into_paginator()
            .send();
        // The paginator stops at a repeated token, and there are at most as many pages as types.
        for _ in chunk {
            let Some(page) = pages.next().await else { break };
            let page = page.map_err(|error| call_error(DESCRIBE_TYPES, region, &error))?;
            let named = page.instance_types().iter().filter_map(|info| Some((info.instance_type()?, info)));
            machines.extend(named.map(|(name, info)| (TypeName::from(name.as_str()), convert::machine(info))));
        }
    }
    Ok(machines)
}

/// Distinguishes persistent Spot requests from one-time ones.
async fn distinguish_spot_requests(
    ec2: &Client,
    region: &Region,
    instances: &mut [Instance],
    requests: &BTreeMap<ResourceId, String>,
) -> Option<Gap> {
    let mut open: BTreeMap<&str, &mut Instance> = instances
        .iter_mut()
        .filter(|instance| {
            instance.purchase == PurchaseOption::SpotUnknown && instance.state != InstanceState::Terminated
        })
        .filter_map(|instance| Some((requests.get(&instance.id)?.as_str(), instance)))
        .collect();
    let ids: Vec<&str> = open.keys().copied().collect();
    let mut gap = None;
    for chunk in ids.chunks(FILTER_VALUES_MAX) {
        let ask =
            ec2.describe_spot_instance_requests().filters(filter("spot-instance-request-id", chunk.iter().copied()));
        match ask.send().await {
            Ok(answer) => {
                for request in answer.spot_instance_requests() {
                    let instance = request.spot_instance_request_id().and_then(|id| open.remove(id));
                    if let Some(instance) = instance {
                        instance.purchase = convert::purchase_by(request);
                    }
                }
            }
            Err(error) => gap = Some(call_error(DESCRIBE_SPOT_REQUESTS, region, &error).gap()),
        }
    }
    let missing = open.iter().next().map(|(request, instance)| {
        Gap::new(
            region,
            DESCRIBE_SPOT_REQUESTS,
            format!("the Spot request {request} of {} (of {} in all) was not found", instance.id, open.len()),
            GapKind::Part,
        )
    });
    gap.or(missing)
}

#[cfg(test)]
mod tests;
