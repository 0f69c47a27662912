use aws_sdk_ec2::types;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::describe::generate::{element, item, known, of_sdk, operator, page, tag_set, tags, time, within};

fn wrapped(inner: &str) -> String {
    crate::describe::generate::wrapped(ANSWER, inner)
}

fn of_instance(inner: &str) -> String {
    let set = format!("<instancesSet><item>{inner}</item></instancesSet>");
    wrapped(&format!("<reservationSet><item>{set}</item></reservationSet>"))
}

/// The instances and the token, by our reader.
fn ours(body: &str) -> Result<(Vec<InstanceXml<'_>>, Option<String>), XmlError> {
    let mut all = Vec::new();
    let token = read(body.as_bytes(), |item| all.push(item))?;
    Ok((all, token))
}

fn parse_one(inner: &str) -> InstanceXml<'static> {
    let body: &'static str = of_instance(inner).leak();
    let (mut all, _) = ours(body).unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn what_is_like_it_elsewhere_is_not_the_instances_own() {
    let elsewhere = "<instanceId>i-other</instanceId><instanceType>t3.nano</instanceType><privateDnsName>x</privateDnsName>\
                     <instanceState><name>stopped</name></instanceState><platform>windows</platform>\
                     <tagSet><item><key>curfew:protected</key><value/></item></tagSet>\
                     <operator><managed>true</managed></operator><capacityBlockId>cb-1</capacityBlockId>";
    let own = "<instanceId>i-1</instanceId><tagSet><item><key>Team</key><value>vision</value></item></tagSet>";
    let expected = parse_one(own);
    for path in
        ["networkInterfaceSet", "networkInterfaceSet/item", "blockDeviceMapping/item/ebs", "placement", "future"]
    {
        let nested = path.rsplit('/').fold(elsewhere.to_owned(), |inner, name| format!("<{name}>{inner}</{name}>"));
        assert_eq!(parse_one(&format!("{nested}{own}")), expected, "{path}");
        assert_eq!(parse_one(&format!("{own}{nested}")), expected, "{path}");
    }
    let sets = format!(
        "<groupSet><item>{own}</item></groupSet><instancesSet><item>{own}</item><next>{own}</next></instancesSet>"
    );
    let around = wrapped(&format!(
        "<item>{own}</item><reservationSet>{own}<item>{sets}</item><next>{sets}</next></reservationSet>"
    ));
    assert_eq!(ours(&around).unwrap().0, [expected]);
}

#[test]
fn tags_are_what_they_were_before_they_were_escaped() {
    let tag = |key: &str, value: &str| format!("<item><key>{key}</key>{value}</item>");
    let tags = tag("a&amp;b", "<value>&lt;R&#38;D&#x20;&quot;1&quot;&gt;&#xA;&apos;</value>")
        + &tag("blank", "<value>  </value>")
        + &tag("empty", "<value/>")
        + &tag("none", "")
        + &tag("commented", "<value>one<!-- two --> three</value>")
        + &tag("raw", "<value><![CDATA[<R&D>]]></value>")
        + "<item><value>keyless</value></item><next><key>next</key></next>";
    let expected = [
        ("a&b", "<R&D \"1\">\n'"),
        ("blank", "  "),
        ("commented", "one three"),
        ("empty", ""),
        ("none", ""),
        ("raw", "<R&D>"),
    ];
    let found = parse_one(&format!("<tagSet>{tags}</tagSet>")).tags;
    assert_eq!(found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>(), expected);
}

/// What the SDK's own types say of the same fields.
fn by_sdk(instance: types::Instance) -> InstanceXml<'static> {
    let text = |text: &str| Some(Cow::Owned(text.to_owned()));
    let (operator, placement) = (instance.operator.as_ref(), instance.placement.as_ref());
    InstanceXml {
        launch_index: instance.ami_launch_index.map(|index| Cow::Owned(index.to_string())),
        client_token: instance.client_token.map(Cow::Owned),
        profile_arn: instance.iam_instance_profile.and_then(|profile| profile.arn).map(Cow::Owned),
        instance_type: instance.instance_type.and_then(|kind| text(kind.as_str())),
        state: instance.state.and_then(|state| state.name).and_then(|name| text(name.as_str())),
        transition_reason: instance.state_transition_reason.map(Cow::Owned),
        state_reason: instance.state_reason.and_then(|reason| reason.code).map(Cow::Owned),
        root_device_type: instance.root_device_type.and_then(|device| text(device.as_str())),
        platform: instance.platform.and_then(|platform| text(platform.as_str())),
        platform_details: instance.platform_details.map(Cow::Owned),
        zone: placement.and_then(|placement| placement.availability_zone.clone()).map(Cow::Owned),
        tenancy: placement.and_then(|placement| placement.tenancy.clone()).and_then(|tenancy| text(tenancy.as_str())),
        placement_group: placement.and_then(|placement| placement.group_name.clone()).map(Cow::Owned),
        partition: placement
            .and_then(|placement| placement.partition_number)
            .map(|number| Cow::Owned(number.to_string())),
        lifecycle: instance.instance_lifecycle.and_then(|lifecycle| text(lifecycle.as_str())),
        managed: operator.and_then(|operator| operator.managed),
        principal: operator.and_then(|operator| operator.principal.clone()).map(Cow::Owned),
        instance_id: instance.instance_id.map(Cow::Owned),
        launch_time: instance.launch_time,
        private_dns_name: instance.private_dns_name.map(Cow::Owned),
        spot_request: instance.spot_instance_request_id.map(Cow::Owned),
        capacity_block: instance.capacity_block_id.map(Cow::Owned),
        capacity_reservation: instance.capacity_reservation_id.map(Cow::Owned),
        tags: tags(instance.tags),
    }
}

/// The instances and the token, by the SDK's full types; `None` where it refuses the answer.
fn the_sdks(body: &str) -> Option<(Vec<InstanceXml<'static>>, Option<String>)> {
    let answer = of_sdk(body, async |ec2| ec2.describe_instances().send().await.ok())?;
    let reservations = answer.reservations.unwrap_or_default().into_iter();
    let instances = reservations.flat_map(|reservation| reservation.instances.unwrap_or_default());
    Some((instances.map(by_sdk).collect(), answer.next_token))
}

/// Fields that are not ours, with names that are.
fn noise() -> BoxedStrategy<String> {
    let wrong = "<instanceId>i-wrong</instanceId><instanceState><name>stopped</name></instanceState>";
    let interface = "<networkInterfaceSet><item><networkInterfaceId>eni-1</networkInterfaceId>\
                     <privateDnsName>wrong</privateDnsName><status>in-use</status><operator><managed>true</managed>\
                     </operator></item></networkInterfaceSet>";
    let future = format!("<future><item>{wrong}<future>{wrong}</future></item><item/></future>");
    let options = vec![
        interface.to_owned(),
        future,
        format!("<!-- {wrong} -->"),
        "<blockDeviceMapping><item><deviceName>/dev/xvda</deviceName></item></blockDeviceMapping>".to_owned(),
        "<groupSet><item><groupId>sg-1</groupId></item></groupSet>".to_owned(),
        "<dnsName/>".to_owned(),
        "\n    ".to_owned(),
        "<?some instruction?>".to_owned(),
    ];
    select(options).boxed()
}

fn instance_xml() -> BoxedStrategy<String> {
    let zone = known("availabilityZone", &["us-east-1a", "us-east-1-bos-1a", ""]);
    let own = vec![
        element("instanceId").boxed(),
        known("instanceType", &["g5.xlarge", "g99.metal"]),
        time("launchTime"),
        within("instanceState", vec(known("name", &["running", "stopped", "hovering"]), 0..2)),
        within("stateReason", vec(known("code", &["Server.InternalError"]), 0..2)),
        known("reason", &["", "User initiated (2026-01-01 12:00:00 GMT)"]),
        element("privateDnsName").boxed(),
        known("rootDeviceType", &["ebs", "instance-store"]),
        known("platform", &["Windows", "windows"]),
        known("platformDetails", &["Linux/UNIX", "Windows"]),
        within("placement", vec(prop_oneof![known("tenancy", &["default", "dedicated", "host"]), zone], 0..3)),
        known("instanceLifecycle", &["spot", "capacity-block", "interruptible-capacity-reservation", "scheduled"]),
        element("spotInstanceRequestId").boxed(),
        element("capacityBlockId").boxed(),
        element("capacityReservationId").boxed(),
        operator(),
        tag_set(),
    ];
    item(own, noise())
}

fn body() -> BoxedStrategy<String> {
    let reservation = (vec(instance_xml(), 0..4), vec(noise(), 0..2)).prop_map(|(instances, noise)| {
        format!("<item>{}<instancesSet>{}</instancesSet></item>", noise.concat(), instances.concat())
    });
    page(ANSWER, reservation.boxed())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn our_reader_agrees_with_the_sdks_full_types(body in body()) {
        prop_assert_eq!(ours(&body).ok(), the_sdks(&body));
    }

    #[test]
    fn an_answer_cut_off_anywhere_is_no_answer(body in body(), at in any::<Index>()) {
        let (end, at) = (body.trim_end().len(), at.index(body.len()));
        let read = read(&body.as_bytes()[..at], drop);
        prop_assert_eq!(read.is_ok(), at >= end && ours(&body).is_ok());
    }

    #[test]
    fn nothing_makes_it_panic(body in vec(select(&b"<<>>//&;#x1!-[]?= \"'aitem\xc3\xa9"[..]), 0..60), deep in any::<bool>()) {
        let body = if deep { of_instance(&String::from_utf8_lossy(&body)).into_bytes() } else { body };
        drop(read(&body, drop));
    }
}

#[test]
fn an_answer_cut_off_at_any_byte_is_no_answer() {
    let tags = "<tagSet><item><key>Team</key><value>R&amp;D é</value></item><item><key>x</key><value/></item></tagSet>";
    let instance = format!(
        "<instanceId>i-1</instanceId><networkInterfaceSet><item><a b='c'/></item></networkInterfaceSet>\
         <!-- c --><launchTime>2026-08-31T12:00:00Z</launchTime>{tags}"
    );
    let body = of_instance(&instance);
    let end = body.trim_end().len();
    for at in 0..=body.len() {
        let mut seen = 0;
        let whole = read(&body.as_bytes()[..at], |_| seen += 1).is_ok();
        assert_eq!(whole, at >= end, "{}", &body[..at]);
        assert!(!whole || seen == 1);
    }
}
