//! `DescribeCapacityReservations`.

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::{
    CapacityReservation as SdkReservation, CapacityReservationInstancePlatform, CapacityReservationTenancy,
    CapacityReservationType, InstanceMatchCriteria, Tag,
};
use model::capacity_reservation::{CapacityReservation, ReservationKind};
use model::id::{Region, ResourceId, TypeName};

use crate::convert::timestamp;
use crate::error::{CallError, call_error};
use crate::observe::filter;
use crate::observe::pages::{PAGE_SIZE, all_pages};

pub(crate) const DESCRIBE_RESERVATIONS: &str = "ec2:DescribeCapacityReservations";

/// The active reservations of one region, those that other accounts share included. One without id or type is left out: it cannot be judged.
pub(crate) async fn active_reservations(ec2: &Client, region: &Region) -> Result<Vec<CapacityReservation>, CallError> {
    let call = ec2.describe_capacity_reservations().filters(filter("state", ["active"])).max_results(PAGE_SIZE);
    let mut all = Vec::new();
    all_pages(DESCRIBE_RESERVATIONS, region, async |token| {
        let page = call.clone().set_next_token(token).send().await;
        let page = page.map_err(|error| call_error(DESCRIBE_RESERVATIONS, region, &error))?;
        all.extend(page.capacity_reservations().iter().filter_map(|one| reservation(one, region)));
        Ok(page.next_token)
    })
    .await?;
    Ok(all)
}

/// `None` if EC2 leaves out its id or its type.
pub(crate) fn reservation(of: &SdkReservation, region: &Region) -> Option<CapacityReservation> {
    let count = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
    let total = count(of.total_instance_count);
    let is_linux = of.instance_platform == Some(CapacityReservationInstancePlatform::LinuxUnix);
    let tags = of.tags().iter().filter_map(|Tag { key, value, .. }| Some((key.clone()?, value.clone()?)));
    Some(CapacityReservation {
        id: ResourceId::new(of.capacity_reservation_id()?),
        region: region.clone(),
        zone: of.availability_zone.clone().filter(|zone| !zone.is_empty()),
        instance_type: TypeName::new(of.instance_type()?),
        kind: match of.reservation_type {
            Some(CapacityReservationType::CapacityBlock) => ReservationKind::CapacityBlock,
            _ => ReservationKind::OnDemand,
        },
        total,
        unused: count(of.available_instance_count).min(total),
        is_targeted: of.instance_match_criteria == Some(InstanceMatchCriteria::Targeted),
        plain_linux: is_linux && of.tenancy != Some(CapacityReservationTenancy::Dedicated),
        starts_at: of.start_date.as_ref().and_then(timestamp),
        ends_at: of.end_date.as_ref().and_then(timestamp),
        billed_to: of.unused_reservation_billing_owner_id.clone().or_else(|| of.owner_id.clone()),
        tags: tags.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws};

    const ACTIVE: &str = "<item><capacityReservationId>cr-1</capacityReservationId><ownerId>111111111111</ownerId>\
        <instanceType>p5.48xlarge</instanceType><instancePlatform>Linux/UNIX</instancePlatform><tenancy>default</tenancy>\
        <availabilityZone>us-east-1a</availabilityZone><totalInstanceCount>4</totalInstanceCount>\
        <availableInstanceCount>3</availableInstanceCount><state>active</state><instanceMatchCriteria>targeted</instanceMatchCriteria>\
        <startDate>2026-08-01T12:00:00.000Z</startDate><endDateType>unlimited</endDateType>\
        <tagSet><item><key>Team</key><value>vision</value></item></tagSet></item>";
    const BLOCK: &str = "<item><capacityReservationId>cr-2</capacityReservationId><ownerId>222222222222</ownerId>\
        <unusedReservationBillingOwnerId>333333333333</unusedReservationBillingOwnerId><instanceType>p5.48xlarge</instanceType>\
        <instancePlatform>Windows</instancePlatform><totalInstanceCount>1</totalInstanceCount>\
        <availableInstanceCount>9</availableInstanceCount><reservationType>capacity-block</reservationType>\
        <endDate>2026-09-08T11:30:00.000Z</endDate></item>";
    const NAMELESS: &str = "<item><instanceType>p5.48xlarge</instanceType></item>";

    #[tokio::test]
    async fn a_reservation_keeps_what_ec2_says() {
        let answer = format!("<capacityReservationSet>{ACTIVE}{BLOCK}{NAMELESS}</capacityReservationSet>");
        let (aws, calls) = aws(move |_| ReplayAnswer::ok(answer.clone()));
        let region = Region::from("us-east-1");
        let seen = active_reservations(&aws.ec2(&region), &region).await.unwrap();
        let on_demand = CapacityReservation {
            id: "cr-1".into(),
            region,
            zone: Some("us-east-1a".to_owned()),
            instance_type: "p5.48xlarge".into(),
            kind: ReservationKind::OnDemand,
            total: 4,
            unused: 3,
            is_targeted: true,
            plain_linux: true,
            starts_at: Some("2026-08-01T12:00:00Z".parse().unwrap()),
            ends_at: None,
            billed_to: Some("111111111111".to_owned()),
            tags: [("Team".to_owned(), "vision".to_owned())].into(),
        };
        assert_eq!(seen[0], on_demand);
        assert_eq!((seen.len(), seen[1].kind, seen[1].unused), (2, ReservationKind::CapacityBlock, 1));
        assert_eq!((seen[1].billed_to.as_deref(), seen[1].plain_linux), (Some("333333333333"), false));
        assert_eq!(
            calls.said(),
            ["DescribeCapacityReservations Filter.1.Name=state Filter.1.Value.1=active MaxResults=1000"]
        );
    }
}
