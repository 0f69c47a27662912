//! Placement and security groups for jobs on several machines.
//!
//! **Never tried on AWS.** The codes of errors are those of the EC2 API reference, "Error codes for the Amazon EC2 API".

pub(crate) mod security;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::operation::create_placement_group::builders::CreatePlacementGroupFluentBuilder;
use aws_sdk_ec2::operation::describe_security_groups::builders::DescribeSecurityGroupsFluentBuilder;
use aws_sdk_ec2::types::{Filter, PlacementStrategy, ResourceType, SecurityGroup, Tag};
use jobs::{GroupKey, JobId, ListedGroup};
use model::curfew_tags::JOB;
use model::id::{Region, ResourceId};
use ports::GroupOrder;

pub(super) use self::security::ensure_security_group;
use super::launch::tagged;
use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind, call_error};
use crate::observe::filter;
use crate::observe::pages::{PAGE_SIZE, all_pages};

pub(crate) const CREATE_PLACEMENT_GROUP: &str = "ec2:CreatePlacementGroup";
const DELETE_PLACEMENT_GROUP: &str = "ec2:DeletePlacementGroup";
const DESCRIBE_PLACEMENT_GROUPS: &str = "ec2:DescribePlacementGroups";
const DELETE_SECURITY_GROUP: &str = "ec2:DeleteSecurityGroup";
const DESCRIBE_SECURITY_GROUPS: &str = "ec2:DescribeSecurityGroups";

/// The names of Curfew's groups.
const NAMES: &str = "curfew-*";

pub(super) async fn ensure_placement_group(aws: &Aws, group: &GroupOrder<'_>) -> Result<(), CallError> {
    let ec2 = aws.ec2(group.region);
    let Err(error) = placement_group_request(&ec2, group).send().await else { return Ok(()) };
    let refused = call_error(CREATE_PLACEMENT_GROUP, group.region, &error);
    if error.code() != Some("InvalidPlacementGroup.Duplicate") {
        return Err(refused);
    }
    let listed = placement_groups(&ec2, group.region, filter("group-name", [group.name])).await?;
    match listed.first() {
        Some(found) => check_owner(found, group, CREATE_PLACEMENT_GROUP),
        // EC2 does not show yet what was made a moment ago.
        None => Err(CallError { kind: CallErrorKind::Unanswered, ..refused }),
    }
}

pub(crate) fn placement_group_request(ec2: &Client, group: &GroupOrder<'_>) -> CreatePlacementGroupFluentBuilder {
    let call = ec2.create_placement_group().group_name(group.name).strategy(PlacementStrategy::Cluster);
    call.tag_specifications(tagged(ResourceType::PlacementGroup, group.tags))
}

/// A group of that name may be a person's.
fn check_owner(found: &ListedGroup, group: &GroupOrder<'_>, call: &'static str) -> Result<(), CallError> {
    if found.job == group.job.to_string() {
        return Ok(());
    }
    let message =
        format!("{} is there, and its tag {JOB} does not name {}: rename or delete it", found.name, group.job);
    Err(CallError::new(call, group.region, CallErrorKind::Other, message))
}

pub(super) async fn delete_group(aws: &Aws, region: &Region, key: &GroupKey, job: &JobId) -> Result<(), CallError> {
    let ec2 = aws.ec2(region);
    let found = match key {
        GroupKey::Placement(name) => placement_groups(&ec2, region, filter("group-name", [name.as_str()])).await?,
        GroupKey::Security(id) => listed_security_groups(&ec2, region, [filter("group-id", [id.as_str()])]).await?,
    };
    if !found.iter().any(|one| one.key == *key && one.job == job.to_string()) {
        return Ok(());
    }
    let (code, error) = match key {
        GroupKey::Placement(name) => match ec2.delete_placement_group().group_name(name).send().await {
            Ok(_) => return Ok(()),
            Err(error) => (error.code().map(str::to_owned), call_error(DELETE_PLACEMENT_GROUP, region, &error)),
        },
        GroupKey::Security(id) => match ec2.delete_security_group().group_id(id.as_str()).send().await {
            Ok(_) => return Ok(()),
            Err(error) => (error.code().map(str::to_owned), call_error(DELETE_SECURITY_GROUP, region, &error)),
        },
    };
    match code.as_deref() {
        Some("InvalidPlacementGroup.Unknown" | "InvalidGroup.NotFound" | "InvalidGroupId.NotFound") => Ok(()),
        Some("InvalidPlacementGroup.InUse" | "InvalidGroup.InUse" | "DependencyViolation") => {
            Err(CallError { kind: CallErrorKind::InUse, ..error })
        }
        _ => Err(error),
    }
}

pub(super) async fn list_groups(aws: &Aws, region: &Region) -> Result<Vec<ListedGroup>, CallError> {
    let ec2 = aws.ec2(region);
    let mut groups = placement_groups(&ec2, region, filter("tag-key", [JOB])).await?;
    let wanted = [filter("tag-key", [JOB]), filter("group-name", [NAMES])];
    groups.extend(listed_security_groups(&ec2, region, wanted).await?);
    Ok(groups)
}

/// Lists them in one page: an account has 500 in a region (EC2 user guide, "Placement groups").
async fn placement_groups(ec2: &Client, region: &Region, wanted: Filter) -> Result<Vec<ListedGroup>, CallError> {
    let answer = ec2.describe_placement_groups().filters(wanted).send().await;
    let answer = answer.map_err(|error| call_error(DESCRIBE_PLACEMENT_GROUPS, region, &error))?;
    let listed = |group: &aws_sdk_ec2::types::PlacementGroup| {
        let name = group.group_name()?.to_owned();
        Some(ListedGroup { key: GroupKey::Placement(name.clone()), name, job: job_tag(group.tags()) })
    };
    Ok(answer.placement_groups().iter().filter_map(listed).collect())
}

async fn listed_security_groups(
    ec2: &Client,
    region: &Region,
    wanted: impl IntoIterator<Item = Filter>,
) -> Result<Vec<ListedGroup>, CallError> {
    let call = ec2.describe_security_groups().set_filters(Some(wanted.into_iter().collect()));
    let listed = |group: &SecurityGroup| listed_security_group(group);
    Ok(security_groups(call, region).await?.iter().filter_map(listed).collect())
}

fn listed_security_group(group: &SecurityGroup) -> Option<ListedGroup> {
    let key = GroupKey::Security(ResourceId::from(group.group_id()?));
    Some(ListedGroup { key, name: group.group_name()?.to_owned(), job: job_tag(group.tags()) })
}

async fn security_groups(
    call: DescribeSecurityGroupsFluentBuilder,
    region: &Region,
) -> Result<Vec<SecurityGroup>, CallError> {
    let call = call.max_results(PAGE_SIZE);
    let mut found = Vec::new();
    all_pages(DESCRIBE_SECURITY_GROUPS, region, async |token| {
        let page = call.clone().set_next_token(token).send().await;
        let page = page.map_err(|error| call_error(DESCRIBE_SECURITY_GROUPS, region, &error))?;
        found.extend_from_slice(page.security_groups());
        Ok(page.next_token)
    })
    .await?;
    Ok(found)
}

fn job_tag(tags: &[Tag]) -> String {
    let own = tags.iter().find(|tag| tag.key() == Some(JOB));
    own.and_then(Tag::value).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
