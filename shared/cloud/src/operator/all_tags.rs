//! Every resource with a tag of `curfew`, and the facts to judge the tag by.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types::{VolumeAttachment, VolumeState};
use jiff::Timestamp;
use model::id::{Region, ResourceId};
use model::instance::{Instance, InstanceState};
use operator::doctor::tags::{KEY_FILTER, TaggedInstance, TaggedResource, is_looked_at};

use crate::aws::Aws;
use crate::convert::timestamp;
use crate::describe::{self, DESCRIBE_VOLUMES};
use crate::error::{CallError, call_error};
use crate::observe::pages::{PAGE_SIZE, all_pages};
use crate::observe::{FILTER_VALUES_MAX, filter};

const DESCRIBE_TAGS: &str = "ec2:DescribeTags";

/// Every resource of a region with a tag of `curfew`, in order; needs `ec2:DescribeTags`.
///
/// # Errors
/// If a page could not be read.
pub async fn tagged(aws: &Aws, region: &Region) -> Result<Vec<TaggedResource>, CallError> {
    let ec2 = aws.ec2(region);
    let call = ec2.describe_tags().filters(filter("key", KEY_FILTER)).max_results(PAGE_SIZE);
    let mut found: BTreeMap<ResourceId, TaggedResource> = BTreeMap::new();
    all_pages(DESCRIBE_TAGS, region, async |token| {
        let page = call.clone().set_next_token(token).send().await;
        let page = page.map_err(|error| call_error(DESCRIBE_TAGS, region, &error))?;
        for tag in page.tags() {
            let (Some(id), Some(key)) = (tag.resource_id(), tag.key().filter(|key| is_looked_at(key))) else {
                continue;
            };
            let id = ResourceId::from(id);
            let tagged = found.entry(id.clone()).or_insert_with(|| TaggedResource {
                region: region.clone(),
                resource: id,
                kind: tag.resource_type().map_or("resource", |kind| kind.as_str()).to_owned(),
                tags: BTreeMap::new(),
            });
            tagged.tags.insert(key.to_owned(), tag.value().unwrap_or_default().to_owned());
        }
        Ok(page.next_token)
    })
    .await?;
    Ok(found.into_values().collect())
}

/// The tagged instances of a region that still exist; `accelerated` are all with an accelerator. Needs `ec2:DescribeInstances` if others
/// are tagged too.
///
/// # Errors
/// If EC2 did not answer.
pub async fn tagged_instances(
    aws: &Aws,
    region: &Region,
    tagged: &[TaggedResource],
    accelerated: &[Instance],
) -> Result<BTreeMap<ResourceId, TaggedInstance>, CallError> {
    let known = |one: &Instance, accelerated| {
        let Instance { launched_at, state, .. } = *one;
        (one.id.clone(), TaggedInstance { launched_at, state, accelerated })
    };
    let named: BTreeSet<&str> =
        tagged.iter().filter(|one| one.kind == "instance").map(|one| one.resource.as_str()).collect();
    let mut found: BTreeMap<ResourceId, TaggedInstance> =
        accelerated.iter().filter(|one| named.contains(one.id.as_str())).map(|one| known(one, true)).collect();
    let others: Vec<&str> = named.into_iter().filter(|id| !found.contains_key(*id)).collect();
    for ids in others.chunks(FILTER_VALUES_MAX) {
        let call = aws.ec2(region).describe_instances().filters(filter("instance-id", ids.iter().copied()));
        let page = describe::page(call, region).await?;
        let alive = page.described.iter().map(|one| &one.instance).filter(|one| one.state != InstanceState::Terminated);
        found.extend(alive.map(|one| known(one, false)));
    }
    Ok(found)
}

/// These volumes of a region, as far as they exist, and since when each is attached, if it is. Needs `ec2:DescribeVolumes`.
///
/// # Errors
/// If EC2 did not answer.
pub async fn volumes(
    aws: &Aws,
    region: &Region,
    ids: &BTreeSet<ResourceId>,
) -> Result<BTreeMap<ResourceId, Option<Timestamp>>, CallError> {
    let ec2 = aws.ec2(region);
    let ids: Vec<&str> = ids.iter().map(ResourceId::as_str).collect();
    let mut found = BTreeMap::new();
    for ids in ids.chunks(FILTER_VALUES_MAX) {
        // An unknown id in VolumeIds fails the whole call; in a filter it finds nothing.
        let call = ec2.describe_volumes().filters(filter("volume-id", ids.iter().copied())).max_results(PAGE_SIZE);
        all_pages(DESCRIBE_VOLUMES, region, async |token| {
            let page = call.clone().set_next_token(token).send().await;
            let page = page.map_err(|error| call_error(DESCRIBE_VOLUMES, region, &error))?;
            let alive = page
                .volumes()
                .iter()
                .filter(|one| !matches!(one.state(), Some(VolumeState::Deleted | VolumeState::Deleting)));
            found.extend(alive.filter_map(|one| {
                Some((ResourceId::from(one.volume_id()?), one.attachments().iter().map(since).max()))
            }));
            Ok(page.next_token)
        })
        .await?;
    }
    Ok(found)
}

/// An attachment without a time counts as the oldest possible.
fn since(attachment: &VolumeAttachment) -> Timestamp {
    attachment.attach_time().and_then(timestamp).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, attached_xml, aws, instance_xml, instances_page, page_of, volume_xml};

    fn tag(id: &str, kind: &str, key: &str) -> String {
        format!(
            "<item><resourceId>{id}</resourceId><resourceType>{kind}</resourceType><key>{key}</key><value>v</value></item>"
        )
    }

    fn home() -> Region {
        Region::from("us-east-1")
    }

    #[tokio::test]
    async fn the_tags_of_a_resource_are_put_together_from_all_pages() {
        let (aws, calls) = aws(|call| {
            if call.parameters.iter().any(|parameter| parameter == "NextToken=two") {
                return page_of(
                    "tagSet",
                    &[tag("i-1", "instance", "Curfew:Mode"), tag("i-3", "instance", "burfew")],
                    None,
                );
            }
            page_of(
                "tagSet",
                &[tag("i-1", "instance", "curfew:mode"), tag("lt-1", "launch-template", "curfew:x")],
                Some("two"),
            )
        });
        let found = tagged(&aws, &home()).await.unwrap();
        let found: Vec<(&str, &str, usize)> =
            found.iter().map(|one| (one.resource.as_str(), one.kind.as_str(), one.tags.len())).collect();
        assert_eq!(found, [("i-1", "instance", 2), ("lt-1", "launch-template", 1)]);
        assert_eq!(calls.names(), ["DescribeTags", "DescribeTags"]);
    }

    #[tokio::test]
    async fn an_instance_that_is_not_accelerated_is_looked_up_and_a_gone_one_is_left_out() {
        let (aws, calls) = aws(|_| {
            instances_page(&[instance_xml("i-1", "running", &[], ""), instance_xml("i-2", "terminated", &[], "")], None)
        });
        let one = |id: &str| TaggedResource {
            region: home(),
            resource: id.into(),
            kind: "instance".to_owned(),
            tags: BTreeMap::new(),
        };
        let found = tagged_instances(&aws, &home(), &[one("i-1"), one("i-2")], &[]).await.unwrap();
        let found: Vec<(&str, bool)> = found.iter().map(|(id, known)| (id.as_str(), known.accelerated)).collect();
        assert_eq!(found, [("i-1", false)]);
        assert_eq!(calls.names().len(), 1);
        assert!(tagged_instances(&aws, &home(), &[], &[]).await.unwrap().is_empty());
        assert_eq!(calls.names().len(), 1, "an empty list causes no call");
    }

    #[tokio::test]
    async fn a_volume_says_whether_it_is_attached() {
        let (aws, _) = aws(|_| {
            let volumes = [
                volume_xml("vol-1", "available", &[], ""),
                volume_xml("vol-2", "in-use", &[], &attached_xml("i-1")),
                volume_xml("vol-3", "deleting", &[], ""),
            ];
            page_of("volumeSet", &volumes, None)
        });
        let found = volumes(&aws, &home(), &BTreeSet::from(["vol-1".into()])).await.unwrap();
        let found: Vec<(&str, bool)> = found.iter().map(|(id, since)| (id.as_str(), since.is_some())).collect();
        assert_eq!(found, [("vol-1", false), ("vol-2", true)]);
    }

    #[tokio::test]
    async fn a_page_that_is_denied_fails_all() {
        let (aws, _) = aws(|_| ReplayAnswer::error("UnauthorizedOperation", "Not you"));
        let error = tagged(&aws, &home()).await.unwrap_err();
        assert!(error.to_string().ends_with("grant ec2:DescribeTags to the role that asked"), "{error}");
    }
}
