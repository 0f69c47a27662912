//! The security group of a job in a VPC: its members reach each other, by all protocols, and nothing else.
//!
//! EFA wants a rule to the group itself in both directions; one to all addresses does not count (EC2 user guide, "Get started with EFA and MPI",
//! "Prepare an EFA-enabled security group").

use aws_sdk_ec2::Client;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::operation::create_security_group::builders::CreateSecurityGroupFluentBuilder;
use aws_sdk_ec2::types::{IpPermission, ResourceType, SecurityGroup, UserIdGroupPair};
use jobs::{GroupKey, VpcGroups};
use model::id::{Region, ResourceId};
use ports::GroupOrder;

use super::{DESCRIBE_SECURITY_GROUPS, check_owner, listed_security_group, security_groups};
use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind, call_error};
use crate::jobs::launch::tagged;
use crate::observe::filter;

pub(crate) const CREATE_SECURITY_GROUP: &str = "ec2:CreateSecurityGroup";
const AUTHORIZE_INGRESS: &str = "ec2:AuthorizeSecurityGroupIngress";
const AUTHORIZE_EGRESS: &str = "ec2:AuthorizeSecurityGroupEgress";
const REVOKE_EGRESS: &str = "ec2:RevokeSecurityGroupEgress";

/// The name of the group that each VPC has.
const DEFAULT: &str = "default";
const DESCRIPTION: &str = "Lets the machines of a job of Curfew reach each other";
/// Every protocol.
const ALL: &str = "-1";

/// Takes one call where the group is whole.
pub(in crate::jobs) async fn ensure_security_group(
    aws: &Aws,
    group: &GroupOrder<'_>,
    vpc: &ResourceId,
) -> Result<VpcGroups, CallError> {
    let (ec2, region) = (aws.ec2(group.region), group.region);
    let mut found = find(&ec2, group, vpc).await?;
    if found.own.is_none() {
        create(&ec2, group, vpc).await?;
        // EC2 gives a new one rules of its own.
        found = find(&ec2, group, vpc).await?;
    }
    let not_shown = || {
        let message = format!("EC2 does not show {} in {vpc} yet", group.name);
        CallError::new(DESCRIBE_SECURITY_GROUPS, region, CallErrorKind::Unanswered, message)
    };
    let own = found.own.ok_or_else(not_shown)?;
    let listed = listed_security_group(&own).ok_or_else(not_shown)?;
    check_owner(&listed, group, CREATE_SECURITY_GROUP)?;
    let GroupKey::Security(id) = listed.key else { return Err(not_shown()) };
    correct_rules(&ec2, region, &own, id.as_str()).await?;
    Ok(VpcGroups { own: id, default: found.default })
}

struct FoundGroups {
    own: Option<SecurityGroup>,
    default: Option<ResourceId>,
}

async fn find(ec2: &Client, group: &GroupOrder<'_>, vpc: &ResourceId) -> Result<FoundGroups, CallError> {
    let wanted = filter("group-name", [group.name, DEFAULT]);
    let call = ec2.describe_security_groups().filters(filter("vpc-id", [vpc.as_str()])).filters(wanted);
    let found = security_groups(call, group.region).await?;
    let named = |name: &str| found.iter().find(|one| one.group_name() == Some(name));
    let default = named(DEFAULT).and_then(SecurityGroup::group_id).map(ResourceId::from);
    Ok(FoundGroups { own: named(group.name).cloned(), default })
}

async fn create(ec2: &Client, group: &GroupOrder<'_>, vpc: &ResourceId) -> Result<(), CallError> {
    let made = security_group_request(ec2, group, vpc).send().await;
    accept(CREATE_SECURITY_GROUP, group.region, "InvalidGroup.Duplicate", made)
}

pub(crate) fn security_group_request(
    ec2: &Client,
    group: &GroupOrder<'_>,
    vpc: &ResourceId,
) -> CreateSecurityGroupFluentBuilder {
    let call = ec2.create_security_group().group_name(group.name).description(DESCRIPTION).vpc_id(vpc.as_str());
    call.tag_specifications(tagged(ResourceType::SecurityGroup, group.tags))
}

/// Adds what lacks, and takes away that it may reach every address, which EC2 gives each new group: the job's own groups say what it may reach.
async fn correct_rules(ec2: &Client, region: &Region, own: &SecurityGroup, id: &str) -> Result<(), CallError> {
    let itself = || {
        let pair = UserIdGroupPair::builder().group_id(id).build();
        IpPermission::builder().ip_protocol(ALL).user_id_group_pairs(pair).build()
    };
    let is_to_itself = |rule: &IpPermission| {
        rule.ip_protocol() == Some(ALL) && rule.user_id_group_pairs().iter().any(|pair| pair.group_id() == Some(id))
    };
    if !own.ip_permissions().iter().any(is_to_itself) {
        let added = ec2.authorize_security_group_ingress().group_id(id).ip_permissions(itself()).send().await;
        accept(AUTHORIZE_INGRESS, region, "InvalidPermission.Duplicate", added)?;
    }
    if !own.ip_permissions_egress().iter().any(is_to_itself) {
        let added = ec2.authorize_security_group_egress().group_id(id).ip_permissions(itself()).send().await;
        accept(AUTHORIZE_EGRESS, region, "InvalidPermission.Duplicate", added)?;
    }
    let to_addresses = own.ip_permissions_egress().iter().filter_map(addresses_alone).collect::<Vec<_>>();
    if !to_addresses.is_empty() {
        let call = ec2.revoke_security_group_egress().group_id(id).set_ip_permissions(Some(to_addresses));
        accept(REVOKE_EGRESS, region, "InvalidPermission.NotFound", call.send().await)?;
    }
    Ok(())
}

/// The part of a rule that allows addresses.
fn addresses_alone(rule: &IpPermission) -> Option<IpPermission> {
    let (v4, v6) = (rule.ip_ranges(), rule.ipv6_ranges());
    (!v4.is_empty() || !v6.is_empty()).then(|| {
        IpPermission::builder()
            .set_ip_protocol(rule.ip_protocol.clone())
            .set_from_port(rule.from_port)
            .set_to_port(rule.to_port)
            .set_ip_ranges(rule.ip_ranges.clone().filter(|ranges| !ranges.is_empty()))
            .set_ipv6_ranges(rule.ipv6_ranges.clone().filter(|ranges| !ranges.is_empty()))
            .build()
    })
}

/// Another run may have been faster; and EC2 may not know yet everywhere what it has just made.
fn accept<T, E>(
    call: &'static str,
    region: &Region,
    already: &str,
    answer: Result<T, SdkError<E>>,
) -> Result<(), CallError>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    match answer {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(already) => Ok(()),
        Err(error) => {
            let is_new = error.code() == Some("InvalidGroup.NotFound");
            let error = call_error(call, region, &error);
            Err(if is_new { CallError { kind: CallErrorKind::Unanswered, ..error } } else { error })
        }
    }
}
