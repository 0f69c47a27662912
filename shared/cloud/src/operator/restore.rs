//! Undoing: making a volume again from its snapshot. `operator::undo` decides what to undo.

use aws_sdk_ec2::types::{ResourceType, Tag, TagSpecification, VolumeType};
use billing::restoration::Restoration;
use futures::future::join_all;
use model::id::{Region, ResourceId};
use model::observation::Observation;
use model::volume::{Snapshot, Volume};

use crate::aws::Aws;
use crate::describe::{DESCRIBE_SNAPSHOTS, DESCRIBE_VOLUMES, snapshots_page, volumes_page};
use crate::error::{CallError, CallErrorKind, call_error};
use crate::observe::pages::all_pages;
use crate::observe::{described_as_curfews, filter};

/// The account's snapshots of this volume that are described as Curfew's, in every region.
pub async fn snapshots_of(aws: &Aws, regions: &[Region], volume: &ResourceId) -> Observation<Snapshot> {
    let mut seen = Observation::default();
    let looks = regions.iter().map(async |region| {
        let of_it = filter("volume-id", [volume.as_str()]);
        let mut found = Vec::new();
        let read = all_pages(DESCRIBE_SNAPSHOTS, region, async |token| {
            let call = aws
                .ec2(region)
                .describe_snapshots()
                .owner_ids("self")
                .filters(of_it.clone())
                .filters(described_as_curfews());
            let page = snapshots_page(call.set_next_token(token), region).await?;
            found.extend(page.snapshots);
            Ok(page.next_token)
        });
        match read.await {
            Ok(()) => Observation { items: found, gaps: Vec::new() },
            Err(error) => Observation::nothing_but(error.gap_of_region()),
        }
    });
    join_all(looks).await.into_iter().for_each(|of_region| seen.extend(of_region));
    seen
}

/// The volumes that were made from this snapshot, in its region.
///
/// # Errors
/// If EC2 refused, or did not answer.
pub async fn volumes_from(aws: &Aws, region: &Region, snapshot: &ResourceId) -> Result<Vec<Volume>, CallError> {
    let mut found = Vec::new();
    all_pages(DESCRIBE_VOLUMES, region, async |token| {
        let call = aws.ec2(region).describe_volumes().filters(filter("snapshot-id", [snapshot.as_str()]));
        let page = volumes_page(call.set_next_token(token), region).await?;
        found.extend(page.volumes);
        Ok(page.next_token)
    })
    .await?;
    Ok(found)
}

/// Begins to make a volume again; returns its id. Of two calls with the same `token` EC2 carries out only the first, and answers both (EC2
/// API reference, "Ensuring idempotency").
///
/// # Errors
/// If EC2 refused. [`CallErrorKind::Unanswered`]: the same call again returns the result.
pub async fn create_volume(aws: &Aws, restoration: &Restoration, token: &str) -> Result<ResourceId, CallError> {
    const CALL: &str = "ec2:CreateVolume";
    let Restoration { region, snapshot, origin, tags, .. } = restoration;
    let tags: Vec<Tag> = tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect();
    let specification =
        TagSpecification::builder().resource_type(ResourceType::Volume).set_tags(Some(tags.clone())).build();
    let whole = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
    let call = aws
        .ec2(region)
        .create_volume()
        .availability_zone(&origin.zone)
        .snapshot_id(snapshot.as_str())
        .volume_type(VolumeType::from(origin.volume_type.as_str()))
        .size(whole(origin.size_gib))
        .set_iops(origin.provisioned_iops().map(whole))
        .set_throughput(origin.provisioned_throughput_mibps().map(whole))
        .set_tag_specifications((!tags.is_empty()).then(|| vec![specification]))
        .client_token(token);
    let answer = call.send().await.map_err(|error| call_error(CALL, region, &error))?;
    answer.volume_id.filter(|id| !id.is_empty()).map(ResourceId::new).ok_or_else(|| {
        CallError::new(CALL, region, CallErrorKind::Unanswered, "EC2 answered without the new volume's id")
    })
}

#[cfg(test)]
mod tests {
    use model::instance::Tags;
    use model::volume::VolumeOrigin;

    use super::*;
    use crate::replay::{ReplayAnswer, aws, page_of, snapshot_xml, volume_xml};

    fn restoration(origin: &str, tags: &[(&str, &str)]) -> Restoration {
        Restoration {
            region: "eu-central-1".into(),
            volume: "vol-1".into(),
            snapshot: "snap-1".into(),
            origin: VolumeOrigin::read(origin).unwrap(),
            tags: tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<Tags>(),
        }
    }

    async fn check(origin: &str, tags: &[(&str, &str)], expect: &str) {
        let (aws, calls) = aws(|_| ReplayAnswer::ok("<volumeId>vol-2</volumeId>"));
        let made = create_volume(&aws, &restoration(origin, tags), "undo-1").await.unwrap();
        assert_eq!((made.as_str(), calls.said()), ("vol-2", vec![format!("CreateVolume {expect}")]));
        assert_eq!(calls.recorded()[0].region, "eu-central-1");
    }

    #[tokio::test]
    async fn a_volume_is_made_as_it_was() {
        check(
            "eu-central-1b,gp3,500,6000,250",
            &[("Team", "vision")],
            "AvailabilityZone=eu-central-1b ClientToken=undo-1 Iops=6000 Size=500 SnapshotId=snap-1 \
             TagSpecification.1.ResourceType=volume TagSpecification.1.Tag.1.Key=Team TagSpecification.1.Tag.1.Value=vision \
             Throughput=250 VolumeType=gp3",
        )
        .await;
        check(
            "eu-central-1b,st1,500,,",
            &[],
            "AvailabilityZone=eu-central-1b ClientToken=undo-1 Size=500 SnapshotId=snap-1 VolumeType=st1",
        )
        .await;
    }

    #[tokio::test]
    async fn without_an_id_the_created_resource_is_unknown() {
        let (aws, _) = aws(|_| ReplayAnswer::ok(""));
        let error = create_volume(&aws, &restoration("eu-central-1b,gp3,1,,", &[]), "undo-1").await.unwrap_err();
        assert_eq!(error.kind, CallErrorKind::Unanswered);
    }

    #[tokio::test]
    async fn snapshots_are_looked_for_everywhere_and_to_the_last_page() {
        let (aws, calls) = aws(|call| {
            let is_second = call.parameters.iter().any(|parameter| parameter.starts_with("NextToken"));
            match (call.region.as_str(), is_second) {
                ("eu-west-1", _) => ReplayAnswer::error("UnauthorizedOperation", "No"),
                (_, false) => page_of("snapshotSet", &[], Some("more")),
                (_, true) => page_of("snapshotSet", &[snapshot_xml("snap-1", "vol-1", "completed", &[])], None),
            }
        });
        let regions = ["us-east-1".into(), "eu-west-1".into()];
        let seen = snapshots_of(&aws, &regions, &"vol-1".into()).await;
        assert_eq!((seen.items.len(), seen.gaps.len()), (1, 1));
        assert_eq!(seen.items[0].id.as_str(), "snap-1");
        let first = "DescribeSnapshots Filter.1.Name=volume-id Filter.1.Value.1=vol-1 Filter.2.Name=description \
                     Filter.2.Value.1=Curfew: * Owner.1=self";
        assert!(calls.said().contains(&first.to_owned()), "{:?}", calls.said());
    }

    #[tokio::test]
    async fn volumes_made_of_a_snapshot_are_found() {
        let (aws, calls) = aws(|_| page_of("volumeSet", &[volume_xml("vol-2", "available", &[], "")], None));
        let found = volumes_from(&aws, &"us-east-1".into(), &"snap-1".into()).await.unwrap();
        assert_eq!(found[0].id.as_str(), "vol-2");
        assert_eq!(calls.said(), ["DescribeVolumes Filter.1.Name=snapshot-id Filter.1.Value.1=snap-1"]);
    }
}
