use super::*;
use crate::replay::{ReplayAnswer, ReplayedCalls, aws, instance_xml};

/// One that runs, of which EC2 says this as well.
fn running(more: &str) -> String {
    instance_xml("i-0abc", "running", &[], more)
}

fn answer(instances: &str) -> String {
    format!("<reservationSet><item><instancesSet>{instances}</instancesSet></item></reservationSet>")
}

/// What becomes of this answer; and the calls.
async fn asked(
    answer: impl Fn() -> ReplayAnswer + Send + Sync + 'static,
) -> (Result<InstancesPage, CallError>, ReplayedCalls) {
    let (aws, calls) = aws(move |_| answer());
    let region = Region::from("us-east-1");
    (page(aws.ec2(&region).describe_instances(), &region).await, calls)
}

async fn page_of(instances: &str) -> InstancesPage {
    let answer = answer(instances);
    asked(move || ReplayAnswer::ok(answer.clone())).await.0.unwrap()
}

async fn describe_one(instance: &str) -> Instance {
    let mut page = page_of(instance).await;
    assert_eq!((page.described.len(), page.incomplete), (1, 0));
    page.described.remove(0).instance
}

#[tokio::test]
async fn a_plain_instance_keeps_what_ec2_says() {
    let tags = [("Team", "vision"), ("aws:autoscaling:groupName", "g"), ("empty", "")];
    let xml = "<privateDnsName>ip-10-0-0-1.ec2.internal</privateDnsName><rootDeviceType>ebs</rootDeviceType>\
                <platformDetails>Linux/UNIX</platformDetails><placement><availabilityZone>us-east-1a</availabilityZone>\
                <groupName/><tenancy>default</tenancy></placement>\
                <stateReason><code>Client.UserInitiatedShutdown</code><message>Client.x: y</message></stateReason>";
    let page = page_of(&instance_xml("i-0abc", "running", &tags, xml)).await;
    assert_eq!((page.described.len(), page.spot_requests.len(), page.incomplete, page.next_token), (1, 0, 0, None));
    assert_eq!(page.described[0].private_dns_name.as_deref(), Some("ip-10-0-0-1.ec2.internal"));
    let expected = Instance {
        id: "i-0abc".into(),
        region: "us-east-1".into(),
        instance_type: "g5.xlarge".into(),
        state: InstanceState::Running,
        launched_at: "2026-08-31T12:00:00Z".parse().unwrap(),
        tags: tags.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        purchase: PurchaseOption::OnDemand,
        root_on_instance_storage: false,
        operator: None,
        prepaid: None,
        capacity_reservation: None,
        placement_group: None,
        zone: Some("us-east-1a".to_owned()),
        plain_linux: true,
        host: None,
        state_reason: Some("Client.UserInitiatedShutdown".to_owned()),
        machine: InstanceTypeFacts::UNKNOWN,
    };
    assert_eq!(page.described[0].instance, expected);
}

#[tokio::test]
async fn a_partition_is_no_gang() {
    let group = async |placement: &str| {
        let xml = format!("<placement><groupName>llama</groupName>{placement}</placement>");
        describe_one(&instance_xml("i-1", "running", &[], &xml)).await.placement_group
    };
    assert_eq!(group("").await.as_deref(), Some("llama"));
    assert_eq!(group("<partitionNumber>3</partitionNumber>").await, None);
}

#[tokio::test]
async fn what_cannot_be_judged_is_counted() {
    let id = "<instanceId>i-1</instanceId>";
    let kind = "<instanceType>g5.xlarge</instanceType>";
    let launched = "<launchTime>2026-08-31T12:00:00.000Z</launchTime>";
    let halves = [[id, kind], [id, launched], [kind, launched]].map(|half| format!("<item>{}</item>", half.concat()));
    let page = page_of(&(halves.concat() + &running(""))).await;
    assert_eq!((page.described.len(), page.incomplete), (1, 3));
}

#[tokio::test]
async fn a_type_newer_than_the_sdk_keeps_its_name() {
    let newer = describe_one(&running("<instanceType>g99.metal</instanceType>")).await;
    assert_eq!(newer.instance_type.as_str(), "g99.metal");
}

#[tokio::test]
async fn purchases() {
    let of = |lifecycle: &str| format!("<instanceLifecycle>{lifecycle}</instanceLifecycle>");
    let request = "<spotInstanceRequestId>sir-1</spotInstanceRequestId>";
    let table = [
        (String::new(), PurchaseOption::OnDemand),
        (of("spot"), PurchaseOption::SpotOneTime),
        (of("spot") + request, PurchaseOption::SpotUnknown),
        (of("capacity-block"), PurchaseOption::CapacityBlock),
        ("<capacityBlockId>cb-1</capacityBlockId>".to_owned(), PurchaseOption::CapacityBlock),
        (of("interruptible-capacity-reservation"), PurchaseOption::InterruptibleReservation),
        (of("scheduled"), PurchaseOption::OnDemand),
    ];
    for (xml, expected) in table {
        assert_eq!(describe_one(&running(&xml)).await.purchase, expected, "{xml}");
    }
    let page = page_of(&running(&(of("spot") + request))).await;
    assert_eq!(page.spot_requests, BTreeMap::from([("i-0abc".into(), "sir-1".to_owned())]));
}

#[tokio::test]
async fn prepaid_capacity_and_other_hardware() {
    let on = |tenancy: &str| format!("<placement><tenancy>{tenancy}</tenancy></placement>");
    let runs = |details: &str| format!("<platformDetails>{details}</platformDetails>");
    let reserved = "<capacityReservationId>cr-1</capacityReservationId>";
    let table = [
        (String::new(), None, true),
        (on("dedicated"), None, false),
        (on("host"), Some(PrepaidCapacity::DedicatedHost), false),
        (on("host") + reserved, Some(PrepaidCapacity::DedicatedHost), false),
        (reserved.to_owned(), Some(PrepaidCapacity::CapacityReservation), true),
        (runs("Windows") + "<platform>windows</platform>", None, false),
        (runs("Linux/UNIX") + "<platform>windows</platform>", None, false),
        (runs("Red Hat Enterprise Linux"), None, false),
        (runs("SUSE Linux"), None, false),
    ];
    for (xml, prepaid, plain_linux) in table {
        let instance = describe_one(&running(&xml)).await;
        assert_eq!((instance.prepaid, instance.plain_linux), (prepaid, plain_linux), "{xml}");
        let id: Option<ResourceId> = xml.contains("cr-1").then(|| "cr-1".into());
        assert_eq!(instance.capacity_reservation, id, "{xml}");
    }
}

#[tokio::test]
async fn operators_count_where_they_manage() {
    let by = |xml: &str| format!("<operator>{xml}</operator>");
    let table = [
        (by("<managed>true</managed><principal>eks.amazonaws.com</principal>"), Some("eks.amazonaws.com")),
        (by("<managed>true</managed>"), Some("an AWS service")),
        (by("<managed>false</managed>"), None),
        (by("<principal>eks.amazonaws.com</principal>"), None),
    ];
    for (xml, expected) in table {
        assert_eq!(describe_one(&running(&xml)).await.operator.as_deref(), expected, "{xml}");
    }
}

#[tokio::test]
async fn states() {
    let table = [
        ("pending", InstanceState::Pending),
        ("running", InstanceState::Running),
        ("stopping", InstanceState::Stopping),
        ("stopped", InstanceState::Stopped),
        ("shutting-down", InstanceState::ShuttingDown),
        ("terminated", InstanceState::Terminated),
        ("hovering", InstanceState::Unknown),
    ];
    for (name, expected) in table {
        assert_eq!(describe_one(&instance_xml("i-0abc", name, &[], "")).await.state, expected);
    }
    assert_eq!(state(None), InstanceState::Unknown);
}

#[tokio::test]
async fn a_stop_has_a_time_where_ec2_says_it_in_words_that_can_be_read() {
    let table = [
        ("User initiated (2026-01-01 12:00:00 GMT)", Some("2026-01-01T12:00:00Z")),
        ("User initiated (2024-02-29 23:59:59 GMT)", Some("2024-02-29T23:59:59Z")),
        ("User initiated (2025-02-29 23:59:59 GMT)", None),
        ("User initiated (2026-01-01 12:00:00 UTC)", Some("2026-01-01T12:00:00Z")),
        ("User initiated (2026-01-01 12:00:00 CET)", None),
        ("User initiated (2026-01-01 12:00:00 GMT) again", None),
        ("User initiated (2026-01-01 GMT)", None),
        ("User initiated (GMT)", None),
        ("User initiated", None),
        ("Server.ScheduledStop: Stopped due to scheduled retirement", None),
        ("Client.InstanceInitiatedShutdown (2026-01-01 12:00:00 GMT)", Some("2026-01-01T12:00:00Z")),
        ("", None),
    ];
    for (reason, expected) in table {
        let xml = format!("<reason>{reason}</reason>");
        let page = page_of(&instance_xml("i-0abc", "stopped", &[], &xml)).await;
        let found = page.stopped_at.get("i-0abc").map(ToString::to_string);
        assert_eq!(found.as_deref(), expected, "{reason}");
    }
    // Of one that runs the words are of an earlier stop.
    let running = page_of(&running("<reason>User initiated (2026-01-01 12:00:00 GMT)</reason>")).await;
    assert_eq!((running.described.len(), running.stopped_at.len()), (1, 0));
    assert_eq!(page_of(&instance_xml("i-0abc", "stopped", &[], "")).await.stopped_at.len(), 0);
}

#[tokio::test]
async fn an_instance_store_root_is_seen() {
    let on = |device| running(&format!("<rootDeviceType>{device}</rootDeviceType>"));
    assert!(describe_one(&on("instance-store")).await.root_on_instance_storage);
    assert!(!describe_one(&on("ebs")).await.root_on_instance_storage);
}

#[tokio::test]
async fn the_next_pages_token_is_handed_out() {
    let next = |token: &str| {
        let xml = format!("{}{token}", answer(&running("")));
        async move { asked(move || ReplayAnswer::ok(xml.clone())).await.0.unwrap().next_token }
    };
    assert_eq!(next("<nextToken>a&amp;b=</nextToken>").await.as_deref(), Some("a&b="));
    assert_eq!(next("<nextToken/>").await.as_deref(), Some(""));
    assert_eq!(next("").await, None);
}

/// The words of the error that this answer is.
async fn refused(answer: impl Fn() -> ReplayAnswer + Send + Sync + 'static) -> String {
    asked(answer).await.0.unwrap_err().to_string()
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_an_error_of_the_call() {
    let whole = format!("<DescribeInstancesResponse>{}</DescribeInstancesResponse>", answer(&running("")));
    let half = whole.replace("</instancesSet>", "");
    let table = [
        (whole.replace("12:00:00", "noon"), "a launchTime of \"2026-08-31Tnoon.000Z\""),
        (whole.replace("running", "&run;"), "the unknown reference &run;"),
        (half, "not well-formed XML"),
        (whole.replace("</DescribeInstancesResponse>", ""), "the answer ends within an element"),
        (format!("{whole}<and/>"), "it is followed by <and>"),
        (format!("{whole} and more"), "it has text around it"),
        ("<DescribeInstancesResponse/> and <!-- more -->".to_owned(), "it has text around it"),
        ("<html><body>Try again</body></html>".to_owned(), "not a DescribeInstancesResponse: <html>"),
        (String::new(), "the answer ends within an element"),
    ];
    for (body, expected) in table {
        let body_sent = body.clone();
        let error = refused(move || ReplayAnswer::Raw(200, body_sent.clone().into())).await;
        assert!(error.starts_with("ec2:DescribeInstances failed in us-east-1: HTTP status 200: "), "{error}");
        assert!(error.contains(expected), "{error}: {body}");
    }
    let error = refused(|| ReplayAnswer::Raw(200, vec![b'<', 0xff])).await;
    assert!(error.contains("not UTF-8"), "{error}");
}

#[tokio::test]
async fn errors_are_read_by_the_sdk() {
    let error = refused(|| ReplayAnswer::error("RequestLimitExceeded", "Request limit exceeded.")).await;
    assert!(error.contains("RequestLimitExceeded: Request limit exceeded; the account makes too many"), "{error}");
    let error = refused(|| ReplayAnswer::Raw(503, b"<html>Service Unavailable</html>".to_vec())).await;
    assert!(error.contains("HTTP status 503"), "{error}");
}
