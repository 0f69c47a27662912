//! Capacity that is reserved and unused, of all regions.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_ec2::Client;
use model::capacity_reservation::CapacityReservation;
use model::id::{Region, TypeName};
use model::observation::{GapKind, Observation};

use super::{describe_instance_types, look_at_each};
use crate::aws::Aws;
use crate::describe::{DESCRIBE_RESERVATIONS, active_reservations};
use crate::error::CallError;

/// The active reservations of accelerated types of these regions that have unused capacity, for which `account` pays. In one call a region, and
/// where there is such capacity in a second one, for the facts of its types.
///
/// A region that could not be read, or not within `timeout`, is a gap: its reservations are unknown, and what is remembered of them stays.
pub async fn unused_reservations(
    aws: &Aws,
    regions: &[Region],
    account: Option<&str>,
    timeout: Duration,
) -> Observation<CapacityReservation> {
    let look = async |region: &Region| of_region(&aws.ec2(region), region, account).await;
    let mut seen = Observation::default();
    for look in look_at_each(regions, DESCRIBE_RESERVATIONS, timeout, look).await {
        match look {
            Ok(items) => seen.items.extend(items),
            Err(error) => seen.gaps.push(error.gap_of_kind(GapKind::Reservations)),
        }
    }
    seen
}

async fn of_region(
    ec2: &Client,
    region: &Region,
    account: Option<&str>,
) -> Result<Vec<CapacityReservation>, CallError> {
    let mut unused = active_reservations(ec2, region).await?;
    unused.retain(|reservation| reservation.unused > 0 && reservation.is_billed_to(account));
    let types: BTreeSet<&TypeName> = unused.iter().map(|reservation| &reservation.instance_type).collect();
    let machines = describe_instance_types(ec2, region, &types).await?;
    unused.retain(|reservation| machines.get(&reservation.instance_type).is_some_and(Option::is_some));
    Ok(unused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws};

    fn item(id: &str, instance_type: &str, owner: &str, available: u32) -> String {
        format!(
            "<item><capacityReservationId>{id}</capacityReservationId><ownerId>{owner}</ownerId><instanceType>{instance_type}</instanceType>\
             <totalInstanceCount>2</totalInstanceCount><availableInstanceCount>{available}</availableInstanceCount></item>"
        )
    }

    const TYPES: &str = "<instanceTypeSet>\
        <item><instanceType>p5.48xlarge</instanceType><gpuInfo><gpus><item><count>8</count><manufacturer>NVIDIA</manufacturer></item></gpus></gpuInfo></item>\
        <item><instanceType>m5.large</instanceType></item></instanceTypeSet>";

    async fn seen(reservations: ReplayAnswer) -> (Observation<CapacityReservation>, Vec<String>) {
        let answer = std::sync::Mutex::new(Some(reservations));
        let (aws, calls) = aws(move |call| match call.name.as_str() {
            "DescribeCapacityReservations" => answer.lock().unwrap().take().unwrap(),
            _ => ReplayAnswer::ok(TYPES),
        });
        let regions = [Region::from("us-east-1")];
        (unused_reservations(&aws, &regions, Some("1"), Duration::from_secs(9)).await, calls.names())
    }

    #[tokio::test]
    async fn unused_accelerated_capacity_of_this_account_is_seen() {
        let all = [
            item("cr-1", "p5.48xlarge", "1", 2),
            item("cr-2", "p5.48xlarge", "1", 0),
            item("cr-3", "p5.48xlarge", "2", 2),
            item("cr-4", "m5.large", "1", 2),
        ];
        let answer = ReplayAnswer::ok(format!("<capacityReservationSet>{}</capacityReservationSet>", all.concat()));
        let (found, calls) = seen(answer).await;
        let ids: Vec<&str> = found.items.iter().map(|one| one.id.as_str()).collect();
        assert_eq!((ids, found.gaps.len()), (vec!["cr-1"], 0));
        assert_eq!(calls, ["DescribeCapacityReservations", "DescribeInstanceTypes"]);
    }

    #[tokio::test]
    async fn a_region_without_unused_capacity_takes_one_call() {
        let (found, calls) = seen(ReplayAnswer::ok("<capacityReservationSet/>")).await;
        assert_eq!((found, calls), (Observation::default(), vec!["DescribeCapacityReservations".to_owned()]));
    }

    #[tokio::test]
    async fn a_refusal_is_a_gap() {
        let (found, _) = seen(ReplayAnswer::error("UnauthorizedOperation", "No")).await;
        assert_eq!((found.items.len(), found.gaps[0].kind), (0, GapKind::Reservations));
        assert_eq!(found.gaps[0].call, DESCRIBE_RESERVATIONS);
    }
}
