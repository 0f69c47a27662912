use aws_sdk_ec2::types;
use domain::id::Region;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::replay::{Answer, aws};

fn wrapped(inner: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{ROOT} xmlns=\"http://ec2.amazonaws.com/doc/\">{inner}</{ROOT}>\n"
    )
}

fn of_instance(inner: &str) -> String {
    let set = format!("<instancesSet><item>{inner}</item></instancesSet>");
    wrapped(&format!("<reservationSet><item>{set}</item></reservationSet>"))
}

/// The instances and the token, by our reader.
fn ours(body: &str) -> Result<(Vec<Told<'_>>, Option<String>), Unreadable> {
    let mut all = Vec::new();
    let token = read(body.as_bytes(), |told| all.push(told))?;
    Ok((all, token))
}

fn one(inner: &str) -> Told<'static> {
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
    let expected = one(own);
    for path in
        ["networkInterfaceSet", "networkInterfaceSet/item", "blockDeviceMapping/item/ebs", "placement", "future"]
    {
        let nested = path.rsplit('/').fold(elsewhere.to_owned(), |inner, name| format!("<{name}>{inner}</{name}>"));
        assert_eq!(one(&format!("{nested}{own}")), expected, "{path}");
        assert_eq!(one(&format!("{own}{nested}")), expected, "{path}");
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
    let found = one(&format!("<tagSet>{tags}</tagSet>")).tags;
    assert_eq!(found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>(), expected);
}

/// What the SDK's own types say of the same fields.
fn by_sdk(instance: types::Instance) -> Told<'static> {
    let text = |text: &str| Some(Cow::Owned(text.to_owned()));
    let operator = instance.operator.as_ref();
    Told {
        instance_type: instance.instance_type.and_then(|kind| text(kind.as_str())),
        state: instance.state.and_then(|state| state.name).and_then(|name| text(name.as_str())),
        state_reason: instance.state_reason.and_then(|reason| reason.code).map(Cow::Owned),
        root_device_type: instance.root_device_type.and_then(|device| text(device.as_str())),
        platform: instance.platform.and_then(|platform| text(platform.as_str())),
        platform_details: instance.platform_details.map(Cow::Owned),
        tenancy: instance.placement.and_then(|placement| placement.tenancy).and_then(|tenancy| text(tenancy.as_str())),
        lifecycle: instance.instance_lifecycle.and_then(|lifecycle| text(lifecycle.as_str())),
        managed: operator.and_then(|operator| operator.managed),
        principal: operator.and_then(|operator| operator.principal.clone()).map(Cow::Owned),
        instance_id: instance.instance_id.map(Cow::Owned),
        launch_time: instance.launch_time,
        private_dns_name: instance.private_dns_name.map(Cow::Owned),
        spot_request: instance.spot_instance_request_id.map(Cow::Owned),
        capacity_block: instance.capacity_block_id.map(Cow::Owned),
        capacity_reservation: instance.capacity_reservation_id.map(Cow::Owned),
        tags: instance.tags.unwrap_or_default().into_iter().filter_map(|tag| Some((tag.key?, tag.value?))).collect(),
    }
}

/// The instances and the token, by the SDK's full types; `None` where it refuses the answer.
fn the_sdks(body: &str) -> Option<(Vec<Told<'static>>, Option<String>)> {
    let body = body.to_owned();
    let (aws, _) = aws(move |_| Answer::Raw(200, body.clone().into()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let call = aws.ec2(&Region::from("us-east-1")).describe_instances();
    let answer = runtime.block_on(call.send()).ok()?;
    let reservations = answer.reservations.unwrap_or_default().into_iter();
    let instances = reservations.flat_map(|reservation| reservation.instances.unwrap_or_default());
    Some((instances.map(by_sdk).collect(), answer.next_token))
}

/// A text as XML: each odd character in one of the ways to write it.
fn text() -> impl Strategy<Value = String> {
    let odd = select(vec!['&', '<', '>', '"', '\'', '\n', '\t', '\r', ' ', ';', '#', ']', 'é', '\u{2028}', '漢', '🦀']);
    let character = prop_oneof![3 => proptest::char::range('!', '~'), 2 => odd, 1 => any::<char>()];
    let written = (character, 0..3_u8).prop_map(|(character, way)| match (character, way) {
        ('&', 0) => "&amp;".to_owned(),
        ('<', 0) => "&lt;".to_owned(),
        ('>', 0) => "&gt;".to_owned(),
        ('"', 0) => "&quot;".to_owned(),
        ('\'', 0) => "&apos;".to_owned(),
        ('\0', _) => String::new(),
        (_, 1) => format!("&#{};", u32::from(character)),
        ('&' | '<' | '>', _) | (_, 2) => format!("&#x{:X};", u32::from(character)),
        ('\u{1}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}', _) => String::new(),
        _ => character.to_string(),
    });
    vec(written, 0..12).prop_map(|characters| characters.concat())
}

fn element(name: &'static str) -> impl Strategy<Value = String> {
    text().prop_map(move |text| format!("<{name}>{text}</{name}>"))
}

/// Mostly one of these.
fn known(name: &'static str, values: &'static [&'static str]) -> BoxedStrategy<String> {
    let known = select(values).prop_map(move |value| format!("<{name}>{value}</{name}>"));
    prop_oneof![4 => known, 1 => element(name)].boxed()
}

/// One of these, or now and then what the SDK refuses.
fn rarely_wrong(name: &'static str, values: &'static [&'static str]) -> BoxedStrategy<String> {
    let wrong = prop_oneof![Just("soon"), Just(""), Just(" true "), Just("2026-08-31")];
    prop_oneof![40 => select(values).boxed(), 1 => wrong.boxed()]
        .prop_map(move |value| format!("<{name}>{value}</{name}>"))
        .boxed()
}

fn within(name: &'static str, inner: impl Strategy<Value = Vec<String>> + 'static) -> BoxedStrategy<String> {
    inner.prop_map(move |inner| format!("<{name}>{}</{name}>", inner.concat())).boxed()
}

fn tag_set() -> BoxedStrategy<String> {
    let item = (element("key"), element("value"), any::<bool>());
    let item = item.prop_map(|(key, value, turned)| if turned { value + &key } else { key + &value });
    within("tagSet", vec(item.prop_map(|inner| format!("<item>{inner}</item>")), 0..6))
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
        "<reason/>".to_owned(),
        "\n    ".to_owned(),
        "<?some instruction?>".to_owned(),
    ];
    select(options).boxed()
}

/// Each element that we read at most once, anywhere among others.
fn instance_xml() -> impl Strategy<Value = String> {
    let optional = |element: BoxedStrategy<String>| option::weighted(0.8, element);
    let launched =
        rarely_wrong("launchTime", &["2026-08-31T12:00:00.000Z", "1970-01-01T00:00:00Z", "2026-02-28T23:59:59+02:00"]);
    let operator = (rarely_wrong("managed", &["true", "false"]), element("principal"));
    let operator = operator.prop_map(|(managed, principal)| format!("<operator>{managed}{principal}</operator>"));
    let own = vec![
        optional(element("instanceId").boxed()),
        optional(known("instanceType", &["g5.xlarge", "g99.metal"])),
        optional(launched),
        optional(within("instanceState", vec(known("name", &["running", "stopped", "hovering"]), 0..2))),
        optional(within("stateReason", vec(known("code", &["Server.InternalError"]), 0..2))),
        optional(element("privateDnsName").boxed()),
        optional(known("rootDeviceType", &["ebs", "instance-store"])),
        optional(known("platform", &["Windows", "windows"])),
        optional(known("platformDetails", &["Linux/UNIX", "Windows"])),
        optional(within("placement", vec(known("tenancy", &["default", "dedicated", "host"]), 0..2))),
        optional(known("instanceLifecycle", &["spot", "capacity-block", "scheduled"])),
        optional(element("spotInstanceRequestId").boxed()),
        optional(element("capacityBlockId").boxed()),
        optional(element("capacityReservationId").boxed()),
        optional(operator.boxed()),
        optional(tag_set()),
    ];
    let all = (own, vec(noise(), 0..4)).prop_map(|(own, noise)| own.into_iter().flatten().chain(noise).collect());
    all.prop_shuffle().prop_map(|all: Vec<String>| format!("<item>{}</item>", all.concat()))
}

fn body() -> impl Strategy<Value = String> {
    let reservation = (vec(instance_xml(), 0..4), vec(noise(), 0..2)).prop_map(|(instances, noise)| {
        format!("<item>{}<instancesSet>{}</instancesSet></item>", noise.concat(), instances.concat())
    });
    let page = (vec(reservation, 0..3), option::of(element("nextToken")), any::<bool>());
    page.prop_map(|(reservations, token, turned)| {
        let set = format!("<reservationSet>{}</reservationSet>", reservations.concat());
        let token = token.unwrap_or_default();
        wrapped(&if turned { token + &set } else { set + &token })
    })
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
