mod gang;
mod tokens;

use std::time::Duration;

use aws_config::retry::RetryConfig;
use execution::jobs::AnswerCache;
use jobs::{Candidate, GpuSpec, JobTerms, MachineImage, MachineSpec, QuotaCode};

use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall, ReplayedCalls, aws, aws_that_repeats, instance_xml, instances_page};

const ID: &str = "i-0123456789abcdef0";
const LAUNCHED: &str =
    "<item><instanceId>i-0123456789abcdef0</instanceId><launchTime>2026-09-01T12:00:00.000Z</launchTime></item>";

fn spot() -> LaunchRequest {
    let candidate = Candidate {
        region: "eu-west-1".into(),
        zone: "eu-west-1b".to_owned(),
        subnet: "subnet-0b".into(),
        instance_type: "g5.xlarge".into(),
        lifecycle: Lifecycle::Spot,
        rate: Rate::from_usd_micros_per_hour(410_000),
        rate_max: Rate::from_usd_micros_per_hour(1_006_000),
        quota: Some(QuotaCode("L-3819A6DF".to_owned())),
        image: 0,
        transfer: None,
        vcpus: 0,
        network: None,
    };
    let image = MachineImage {
        ami: "ami-0d".into(),
        architecture: "x86_64".to_owned(),
        agent_sha256: "ab".to_owned(),
        root_device: "/dev/sda1".to_owned(),
        root_gib: 65,
        is_for_all: true,
        other_devices: vec!["/dev/sdf".to_owned()],
    };
    let ends_at = "2026-09-01T20:00:00Z".parse().unwrap();
    let placement_group = None;
    LaunchRequest {
        placement_group,
        attempt: 1,
        retry_of: 0,
        token: "a-token".to_owned(),
        candidate,
        image,
        ends_at,
        only_find: false,
    }
}

fn on_demand() -> LaunchRequest {
    let mut launch = spot();
    launch.candidate.lifecycle = Lifecycle::OnDemand;
    launch.image.other_devices.clear();
    launch
}

fn terms(machine: MachineSpec) -> JobTerms {
    JobTerms {
        tags: std::collections::BTreeMap::new(),
        gpu: GpuSpec { count: 1, nodes: 1, name: None, memory_gib_min: 0, types: Vec::new() },
        network: None,
        spot: None,
        max_runtime_seconds: 3600,
        finish_by: None,
        estimated_runtime_seconds: None,
        max_usd: None,
        max_rate: None,
        gpu_box: None,
        retries: 0,
        bucket_region: None,
        checkpoint: None,
        machine,
    }
}

async fn ordered(launch: &LaunchRequest, machine: MachineSpec, user_data: &str, aws: &Aws) -> LaunchResult {
    let tags = Tags::from([
        ("Team".to_owned(), "vision".to_owned()),
        ("curfew:job".to_owned(), "vision/a-0123abcd".to_owned()),
    ]);
    let order = LaunchOrder { launch, terms: &terms(machine), tags: &tags, user_data, profile: Some("curfew-job") };
    AnswerCache::default().launch(aws, &order).await
}

/// The parameters of the only call of this launch.
async fn said(launch: &LaunchRequest, machine: MachineSpec) -> (String, Vec<String>) {
    let (aws, calls) = aws(|_| answer(LAUNCHED));
    ordered(launch, machine, "#!/bin/sh\n", &aws).await;
    let all = calls.recorded();
    assert_eq!(all.len(), 1);
    (all[0].region.clone(), all[0].parameters.clone())
}

fn answer(items: &str) -> ReplayAnswer {
    ReplayAnswer::ok(format!("<reservationId>r-1</reservationId><instancesSet>{items}</instancesSet>"))
}

/// The result of a launch to which EC2 gives this answer at the first try.
async fn check(
    answer: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (LaunchResult, ReplayedCalls) {
    let (aws, calls) = aws(answer);
    (ordered(&spot(), MachineSpec::default(), "", &aws).await, calls)
}

fn launched() -> LaunchResult {
    LaunchResult::Launched {
        instance: ID.into(),
        members: Vec::new(),
        launched_at: "2026-09-01T12:00:00Z".parse().unwrap(),
    }
}

#[tokio::test]
async fn a_spot_launch_says_exactly_this() {
    let machine = MachineSpec {
        security_groups: vec!["sg-1".into(), "sg-2".into()],
        root_volume_gib: Some(200),
        ..MachineSpec::default()
    };
    let (region, parameters) = said(&spot(), machine).await;
    assert_eq!(region, "eu-west-1");
    let expect = [
        "Action=RunInstances",
        "BlockDeviceMapping.1.DeviceName=/dev/sda1",
        "BlockDeviceMapping.1.Ebs.DeleteOnTermination=true",
        "BlockDeviceMapping.1.Ebs.Encrypted=true",
        "BlockDeviceMapping.1.Ebs.VolumeSize=200",
        "BlockDeviceMapping.1.Ebs.VolumeType=gp3",
        "BlockDeviceMapping.2.DeviceName=/dev/sdf",
        "BlockDeviceMapping.2.Ebs.DeleteOnTermination=true",
        "BlockDeviceMapping.2.Ebs.Encrypted=true",
        "ClientToken=a-token",
        "IamInstanceProfile.Name=curfew-job",
        "ImageId=ami-0d",
        "InstanceInitiatedShutdownBehavior=terminate",
        "InstanceMarketOptions.MarketType=spot",
        "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior=terminate",
        "InstanceMarketOptions.SpotOptions.MaxPrice=1.006000",
        "InstanceMarketOptions.SpotOptions.SpotInstanceType=one-time",
        "InstanceType=g5.xlarge",
        "MaxCount=1",
        "MetadataOptions.HttpEndpoint=enabled",
        "MetadataOptions.HttpPutResponseHopLimit=1",
        "MetadataOptions.HttpTokens=required",
        "MetadataOptions.InstanceMetadataTags=disabled",
        "MinCount=1",
        "SecurityGroupId.1=sg-1",
        "SecurityGroupId.2=sg-2",
        "SubnetId=subnet-0b",
        "TagSpecification.1.ResourceType=instance",
        "TagSpecification.1.Tag.1.Key=Team",
        "TagSpecification.1.Tag.1.Value=vision",
        "TagSpecification.1.Tag.2.Key=curfew:job",
        "TagSpecification.1.Tag.2.Value=vision/a-0123abcd",
        "TagSpecification.2.ResourceType=volume",
        "TagSpecification.2.Tag.1.Key=Team",
        "TagSpecification.2.Tag.1.Value=vision",
        "TagSpecification.2.Tag.2.Key=curfew:job",
        "TagSpecification.2.Tag.2.Value=vision/a-0123abcd",
        "UserData=IyEvYmluL3NoCg==",
        "Version=2016-11-15",
    ];
    assert_eq!(parameters, expect);
}

/// What the barest launch on demand says besides.
#[tokio::test]
async fn on_demand_has_no_market_and_the_barest_image_one_device() {
    let (_, bare) = said(&on_demand(), MachineSpec::default()).await;
    let (_, spot) = said(&spot(), MachineSpec::default()).await;
    let only = |parameters: &[String], others: &[String]| -> Vec<String> {
        parameters.iter().filter(|one| !others.contains(one)).cloned().collect()
    };
    assert_eq!(only(&bare, &spot), Vec::<String>::new());
    let beyond = only(&spot, &bare);
    assert!(
        beyond.iter().all(|one| one.starts_with("InstanceMarketOptions.") || one.starts_with("BlockDeviceMapping.2.")),
        "{beyond:?}"
    );
    assert!(!bare.iter().any(|one| one.contains("SecurityGroup")), "{bare:?}");
}

#[tokio::test]
async fn the_same_order_is_the_same_request() {
    assert_eq!(said(&spot(), MachineSpec::default()).await, said(&spot(), MachineSpec::default()).await);
}

#[tokio::test]
async fn the_root_is_as_large_as_its_image_at_least() {
    for (asked, image, expect) in [(None, 65, "65"), (Some(20), 65, "65"), (Some(200), 65, "200"), (Some(8), 0, "8")] {
        let mut launch = spot();
        launch.image.root_gib = image;
        let (_, said) = said(&launch, MachineSpec { root_volume_gib: asked, ..MachineSpec::default() }).await;
        assert!(said.contains(&format!("BlockDeviceMapping.1.Ebs.VolumeSize={expect}")), "{said:?}");
    }
    let mut launch = spot();
    launch.image.root_gib = 0;
    let (_, said) = said(&launch, MachineSpec::default()).await;
    assert!(!said.iter().any(|one| one.contains("VolumeSize")), "{said:?}");
}

#[tokio::test]
async fn a_container_reaches_the_metadata_only_if_the_job_asks_for_them() {
    let (_, said) = said(&spot(), MachineSpec { metadata: true, ..MachineSpec::default() }).await;
    assert!(said.contains(&"MetadataOptions.HttpPutResponseHopLimit=2".to_owned()), "{said:?}");
}

#[test]
fn a_price_is_said_to_the_micro_usd() {
    let table = [(0, "0.000000"), (1, "0.000001"), (526_000, "0.526000"), (55_040_000, "55.040000")];
    for (micros, expect) in table {
        assert_eq!(usd(Rate::from_usd_micros_per_hour(micros)), expect);
    }
}

#[tokio::test]
async fn user_data_that_ec2_would_not_take_is_refused_without_a_call() {
    let (aws, calls) = aws(|_| answer(LAUNCHED));
    let fits = "x".repeat(USER_DATA_BYTES_MAX);
    assert_eq!(ordered(&spot(), MachineSpec::default(), &fits, &aws).await, launched());
    let refused = ordered(&spot(), MachineSpec::default(), &format!("{fits}x"), &aws).await;
    assert!(matches!(&refused, LaunchResult::Refused(why) if why.contains("16385 bytes")), "{refused:?}");
    assert_eq!(calls.recorded().len(), 1);
}

#[tokio::test]
async fn what_ec2_launched_is_launched_whatever_has_become_of_it() {
    assert_eq!(check(|_| answer(LAUNCHED)).await.0, launched());
    let ended =
        LAUNCHED.replace("</item>", "<instanceState><code>48</code><name>terminated</name></instanceState></item>");
    assert_eq!(check(move |_| answer(&ended)).await.0, launched());
}

#[tokio::test]
async fn each_refusal_has_its_answer() {
    let quota = Some(QuotaCode("L-3819A6DF".to_owned()));
    let said = |answer: &LaunchResult| match answer {
        LaunchResult::NoCapacity(why) => ("no capacity", why.clone(), None),
        LaunchResult::Quota(why, quota) => ("quota", why.clone(), quota.clone()),
        LaunchResult::Refused(why) => ("refused", why.clone(), None),
        LaunchResult::RefusedRequest(why) => ("refused request", why.clone(), None),
        LaunchResult::NoProfile(why) => ("no profile", why.clone(), None),
        LaunchResult::NotAllowed(why) => ("not allowed", why.clone(), None),
        LaunchResult::Denied(why) => ("denied", why.clone(), None),
        LaunchResult::SpotRoleMissing(why) => ("no role for Spot", why.clone(), None),
        LaunchResult::ProfileUnknown(why) => ("unknown profile", why.clone(), None),
        LaunchResult::Mismatch(why) => ("mismatch", why.clone(), None),
        LaunchResult::Unknown(why) => ("unknown", why.clone(), None),
        LaunchResult::Launched { .. } => ("launched", String::new(), None),
        LaunchResult::Incomplete(left) => ("incomplete", format!("{left:?}"), None),
    };
    let table = [
        (500, "InsufficientInstanceCapacity", "no capacity", None),
        (400, "SpotMaxPriceTooLow", "no capacity", None),
        (400, "Unsupported", "no capacity", None),
        (400, "MaxSpotInstanceCountExceeded", "quota", quota.clone()),
        (400, "VcpuLimitExceeded", "quota", quota),
        (400, "MissingParameter", "refused request", None),
        (400, "VolumeLimitExceeded", "quota", None),
        (400, "InvalidParameterValue", "refused", None),
        (403, "UnauthorizedOperation", "denied", None),
        (503, "RequestLimitExceeded", "unknown", None),
        (500, "InternalError", "unknown", None),
        (503, "Unavailable", "unknown", None),
    ];
    for (status, code, expect, quota) in table {
        let (answer, calls) = check(move |call| match call.name.as_str() {
            "RunInstances" => ReplayAnswer::error_of(status, code, "so EC2 says"),
            _ => ReplayAnswer::Raw(400, br#"{"__type":"AccessDeniedException"}"#.to_vec()),
        })
        .await;
        let (kind, why, of) = said(&answer);
        assert_eq!((kind, of), (expect, quota), "{code}");
        assert!(why.contains(code) && why.contains("so EC2 says"), "{why}");
        assert_eq!(calls.names().iter().filter(|name| *name == "RunInstances").count(), 1, "{code}");
        let is_of_vcpus = matches!(code, "MaxSpotInstanceCountExceeded" | "VcpuLimitExceeded");
        assert_eq!(calls.recorded().len(), if is_of_vcpus { 2 } else { 1 }, "{code}: {:?}", calls.names());
    }
}

#[tokio::test]
async fn the_quota_that_service_quotas_names_comes_before_that_of_the_table() {
    let (answer, calls) = check(|call| match call.name.as_str() {
        "RunInstances" => {
            ReplayAnswer::error_of(400, "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
        }
        _ => ReplayAnswer::Raw(
            200,
            br#"{"Quotas":[{"QuotaCode":"L-NEW","QuotaName":"All G Spot Instance Requests","Value":8}]}"#.to_vec(),
        ),
    })
    .await;
    let LaunchResult::Quota(why, quota) = answer else { panic!("{answer:?}") };
    assert_eq!(quota, Some(QuotaCode("L-NEW".to_owned())));
    assert!(why.ends_with("\"All G Spot Instance Requests\" (L-NEW) grants 8 vCPUs in eu-west-1"), "{why}");
    assert_eq!(calls.names(), ["RunInstances", "ListServiceQuotas"]);
}

#[tokio::test]
async fn an_answer_that_names_no_whole_instance_is_not_known() {
    let cut_off = LAUNCHED.replace("789abcdef0", "");
    for items in ["", "<item><instanceId>i-0123456789abcdef0</instanceId></item>", &cut_off] {
        let items = items.to_owned();
        let (answered, _) = check(move |_| answer(&items)).await;
        assert!(matches!(answered, LaunchResult::Unknown(_)), "{answered:?}");
    }
    let (garbled, _) =
        check(|_| ReplayAnswer::Raw(200, b"<RunInstancesResponse><instancesSet><item><inst".to_vec())).await;
    assert!(matches!(garbled, LaunchResult::Unknown(_)), "{garbled:?}");
}

fn repeating(
    timeout: Duration,
    script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (Aws, ReplayedCalls) {
    let retries = RetryConfig::standard().with_max_attempts(3).with_initial_backoff(Duration::from_millis(1));
    aws_that_repeats(retries, timeout, script)
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_by_the_same_token() {
    let seen = std::sync::atomic::AtomicUsize::new(0);
    let (aws, calls) = repeating(Duration::from_millis(50), move |_| {
        if seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            ReplayAnswer::Silence
        } else {
            answer(LAUNCHED)
        }
    });
    assert_eq!(ordered(&spot(), MachineSpec::default(), "", &aws).await, launched());
    let said = calls.said();
    assert_eq!((said.len(), &said[0]), (2, &said[1]));
}

#[tokio::test]
async fn a_launch_without_an_answer_is_unknown() {
    let (aws, calls) = repeating(Duration::from_millis(20), |_| ReplayAnswer::Silence);
    let answered = ordered(&spot(), MachineSpec::default(), "", &aws).await;
    assert!(matches!(answered, LaunchResult::Unknown(_)), "{answered:?}");
    assert_eq!(calls.recorded().len(), 3);
}

#[tokio::test]
async fn a_server_error_is_repeated_and_no_capacity_is_not() {
    for (code, tries) in [("InsufficientInstanceCapacity", 1), ("InternalError", 3)] {
        let (aws, calls) = repeating(Duration::from_secs(5), move |_| ReplayAnswer::error_of(500, code, "said"));
        ordered(&spot(), MachineSpec::default(), "", &aws).await;
        assert_eq!(calls.recorded().len(), tries, "{code}");
    }
}

#[tokio::test]
async fn a_missing_permission_of_another_service_is_named() {
    let (answered, _) = check(|_| {
        let said = "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/r is not authorized \
                    to perform: iam:PassRole on resource: arn:aws:iam::1:role/x because no identity-based policy allows it";
        ReplayAnswer::error_of(403, "UnauthorizedOperation", said)
    })
    .await;
    assert!(
        matches!(&answered, LaunchResult::Denied(why) if why.ends_with("grant iam:PassRole to the role that asked"))
    );
}

#[tokio::test]
async fn a_missing_role_for_spot_says_how_to_create_it() {
    let (answered, _) = check(|_| {
        let code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
        ReplayAnswer::error_of(403, code, "The provided credentials do not have permission to create the role")
    })
    .await;
    assert!(
        matches!(&answered, LaunchResult::SpotRoleMissing(why) if why.contains("aws iam create-service-linked-role"))
    );
}

/// EC2 says so of a profile that was created a moment ago.
#[tokio::test]
async fn an_unknown_profile_does_not_refuse_the_candidate() {
    let message =
        "Value (curfew-job) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
    let (answered, _) = check(move |_| ReplayAnswer::error("InvalidParameterValue", message)).await;
    assert!(matches!(&answered, LaunchResult::ProfileUnknown(why) if why.contains("curfew-job")), "{answered:?}");
}
