use jobs::{JobGroup, VpcGroups};
use model::instance::Tags;
use ports::JobCloud;

use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall, aws};

const NAME: &str = "curfew-ddp-0123abcd";

fn job() -> JobId {
    JobId::read("vision/ddp-0123abcd").unwrap()
}

fn tag(job: &str) -> String {
    format!("<tagSet><item><key>curfew:job</key><value>{job}</value></item></tagSet>")
}

fn security_xml(id: &str, name: &str, job: &str, rules: &str) -> String {
    format!("<item><groupId>{id}</groupId><groupName>{name}</groupName>{rules}{}</item>", tag(job))
}

fn rules(kind: &str, inner: &str) -> String {
    format!("<{kind}><item><ipProtocol>-1</ipProtocol>{inner}</item></{kind}>")
}

const ITSELF: &str = "<groups><item><groupId>sg-1</groupId></item></groups>";
const ALL: &str = "<ipRanges><item><cidrIp>0.0.0.0/0</cidrIp></item></ipRanges>";

/// The names of the calls, and the result.
async fn ensure(
    script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (Result<VpcGroups, CallError>, Vec<String>) {
    let (aws, calls) = aws(script);
    let (job, region) = (job(), Region::from("eu-west-1"));
    let tags = Tags::from([("curfew:job".to_owned(), job.to_string())]);
    let order = GroupOrder { region: &region, name: NAME, job: &job, tags: &tags };
    (aws.ensure_security_group(&order, &"vpc-1".into()).await, calls.said())
}

fn answered(groups: &[String]) -> ReplayAnswer {
    ReplayAnswer::ok(format!("<securityGroupInfo>{}</securityGroupInfo>", groups.concat()))
}

fn default_group() -> String {
    security_xml("sg-0", "default", "", "")
}

#[tokio::test]
async fn a_new_security_group_has_one_rule_to_itself_in_each_direction() {
    let is_made = std::sync::atomic::AtomicBool::new(false);
    let (made, said) = ensure(move |call| match call.name.as_str() {
        "DescribeSecurityGroups" => {
            let new = security_xml("sg-1", NAME, "vision/ddp-0123abcd", &rules("ipPermissionsEgress", ALL));
            let is_made = is_made.load(std::sync::atomic::Ordering::Relaxed);
            answered(&[default_group(), if is_made { new } else { String::new() }])
        }
        "CreateSecurityGroup" => {
            is_made.store(true, std::sync::atomic::Ordering::Relaxed);
            ReplayAnswer::ok("<groupId>sg-1</groupId>")
        }
        _ => ReplayAnswer::ok("<return>true</return>"),
    })
    .await;
    assert_eq!(made, Ok(VpcGroups { own: "sg-1".into(), default: Some("sg-0".into()) }));
    let find = "DescribeSecurityGroups Filter.1.Name=vpc-id Filter.1.Value.1=vpc-1 Filter.2.Name=group-name \
                Filter.2.Value.1=curfew-ddp-0123abcd Filter.2.Value.2=default MaxResults=1000";
    let rule = "GroupId=sg-1 IpPermissions.1.Groups.1.GroupId=sg-1 IpPermissions.1.IpProtocol=-1";
    let expect = [
        find.to_owned(),
        "CreateSecurityGroup GroupDescription=Lets the machines of a job of Curfew reach each other \
         GroupName=curfew-ddp-0123abcd TagSpecification.1.ResourceType=security-group TagSpecification.1.Tag.1.Key=curfew:job \
         TagSpecification.1.Tag.1.Value=vision/ddp-0123abcd VpcId=vpc-1"
            .to_owned(),
        find.to_owned(),
        format!("AuthorizeSecurityGroupIngress {rule}"),
        format!("AuthorizeSecurityGroupEgress {rule}"),
        "RevokeSecurityGroupEgress GroupId=sg-1 IpPermissions.1.IpProtocol=-1 IpPermissions.1.IpRanges.1.CidrIp=0.0.0.0/0"
            .to_owned(),
    ];
    assert_eq!(said, expect);
}

#[tokio::test]
async fn a_whole_security_group_is_one_call_and_a_foreign_one_is_never_taken() {
    let whole = rules("ipPermissions", ITSELF) + &rules("ipPermissionsEgress", ITSELF);
    let own = security_xml("sg-1", NAME, "vision/ddp-0123abcd", &whole);
    let (made, said) = ensure(move |_| answered(&[own.clone(), default_group()])).await;
    assert_eq!((made.unwrap().own, said.len()), ("sg-1".into(), 1));
    for owner in ["", "nlp/ddp-0123abcd"] {
        let (made, said) = ensure(move |_| answered(&[security_xml("sg-1", NAME, owner, "")])).await;
        assert!(made.unwrap_err().message.contains("does not name vision/ddp-0123abcd"), "{owner}");
        assert_eq!(said.len(), 1);
    }
}

#[tokio::test]
async fn another_run_may_have_made_the_security_group() {
    let (made, said) = ensure(|call| match call.name.as_str() {
        "DescribeSecurityGroups" => answered(&[]),
        _ => ReplayAnswer::error("InvalidGroup.Duplicate", "said"),
    })
    .await;
    assert_eq!((made.unwrap_err().kind, said.len()), (CallErrorKind::Unanswered, 3));
}

fn placement_groups(job: &str) -> ReplayAnswer {
    let group = format!("<item><groupName>{NAME}-2</groupName>{}</item>", tag(job));
    ReplayAnswer::ok(format!("<placementGroupSet>{group}</placementGroupSet>"))
}

#[tokio::test]
async fn a_placement_group_that_is_there_already_must_be_the_job_s() {
    for (owner, expect) in [("vision/ddp-0123abcd", true), ("nlp/ddp-0123abcd", false), ("", false)] {
        let (aws, calls) = aws(move |call| match call.name.as_str() {
            "DescribePlacementGroups" => placement_groups(owner),
            _ => ReplayAnswer::error("InvalidPlacementGroup.Duplicate", "said"),
        });
        let (job, region, tags) = (job(), Region::from("eu-west-1"), Tags::new());
        let name = format!("{NAME}-2");
        let order = GroupOrder { region: &region, name: &name, job: &job, tags: &tags };
        assert_eq!(aws.ensure_placement_group(&order).await.is_ok(), expect, "{owner}");
        assert_eq!(calls.names(), ["CreatePlacementGroup", "DescribePlacementGroups"]);
        assert!(calls.said()[0].contains("GroupName=curfew-ddp-0123abcd-2 Strategy=cluster"), "{:?}", calls.said());
    }
}

/// The calls of the deletion of a placement group with that owner, and the result.
async fn delete(owner: &'static str, code: Option<&'static str>) -> (Result<(), CallErrorKind>, usize) {
    let (aws, calls) = aws(move |call| match (call.name.as_str(), code) {
        ("DescribePlacementGroups", _) => placement_groups(owner),
        (_, Some(code)) => ReplayAnswer::error(code, "said"),
        _ => ReplayAnswer::ok("<return>true</return>"),
    });
    let group = JobGroup::Placement { region: "eu-west-1".into(), attempt: 2, is_made: true };
    let deleted = aws.delete_group(group.region(), &group.key(&job()), &job()).await;
    (deleted.map_err(|error| error.kind), calls.names().len())
}

#[tokio::test]
async fn only_the_job_s_own_group_is_deleted() {
    let own = "vision/ddp-0123abcd";
    assert_eq!(delete(own, None).await, (Ok(()), 2));
    assert_eq!(delete("nlp/ddp-0123abcd", None).await, (Ok(()), 1));
    assert_eq!(delete("", None).await, (Ok(()), 1));
    assert_eq!(delete(own, Some("InvalidPlacementGroup.Unknown")).await, (Ok(()), 2));
    assert_eq!(delete(own, Some("InvalidPlacementGroup.InUse")).await, (Err(CallErrorKind::InUse), 2));
    assert_eq!(delete(own, Some("InternalError")).await.0, Err(CallErrorKind::Other));
}

#[tokio::test]
async fn groups_are_listed_by_tag_and_name() {
    let (aws, calls) = aws(|call| match call.name.as_str() {
        "DescribePlacementGroups" => placement_groups("vision/ddp-0123abcd"),
        _ => answered(&[security_xml("sg-1", NAME, "vision/ddp-0123abcd", "")]),
    });
    let groups = aws.list_groups(&"eu-west-1".into()).await.unwrap();
    assert!(groups.len() == 2 && groups.iter().all(|group| group.find_job() == Some(job())), "{groups:?}");
    assert!(calls.said()[0].ends_with("Filter.1.Name=tag-key Filter.1.Value.1=curfew:job"), "{:?}", calls.said());
}
