use aws_sdk_ec2::types;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::describe::generate::{
    element, item, known, number, of_sdk, operator, page, tag_set, tags, time, truth, within, wrapped,
};

/// The volumes and the token, by our reader.
fn ours(body: &str) -> Result<(Vec<VolumeXml<'_>>, Option<String>), XmlError> {
    let mut all = Vec::new();
    let token = read(body.as_bytes(), |item| {
        all.push(item);
        Ok(())
    })?;
    Ok((all, token))
}

fn parse_one(inner: &str) -> VolumeXml<'static> {
    let body: &'static str = wrapped(ANSWER, &format!("<volumeSet><item>{inner}</item></volumeSet>")).leak();
    let (mut all, _) = ours(body).unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn what_is_like_it_elsewhere_is_not_the_volumes_own() {
    let elsewhere = "<volumeId>vol-other</volumeId><status>available</status><size>1</size><snapshotId>snap-1</snapshotId>\
                     <instanceId>i-other</instanceId><createTime>2000-01-01T00:00:00Z</createTime>\
                     <tagSet><item><key>curfew:protected</key><value/></item></tagSet>\
                     <operator><managed>true</managed></operator><multiAttachEnabled>true</multiAttachEnabled>";
    let own = "<volumeId>vol-1</volumeId><tagSet><item><key>Team</key><value>vision</value></item></tagSet>";
    let expected = parse_one(own);
    for path in ["future", "future/item", "attachmentSet/next", "tagSet/next", "operator/future"] {
        let nested = path.rsplit('/').fold(elsewhere.to_owned(), |inner, name| format!("<{name}>{inner}</{name}>"));
        assert_eq!(parse_one(&format!("{nested}{own}")), expected, "{path}");
        assert_eq!(parse_one(&format!("{own}{nested}")), expected, "{path}");
    }
    let attached = parse_one(
        "<volumeId>vol-1</volumeId><status>in-use</status><attachmentSet><item><volumeId>vol-2</volumeId>\
                        <instanceId>i-1</instanceId><status>attaching</status></item></attachmentSet>",
    );
    assert_eq!((attached.volume_id.as_deref(), attached.state.as_deref()), (Some("vol-1"), Some("in-use")));
    assert_eq!(attached.attachments[0].state.as_deref(), Some("attaching"));
}

/// What the SDK's own types say of the same fields.
fn by_sdk(volume: types::Volume) -> VolumeXml<'static> {
    let text = |text: &str| Some(Cow::Owned(text.to_owned()));
    let operator = volume.operator.as_ref();
    let attachments = volume.attachments.unwrap_or_default().into_iter();
    VolumeXml {
        zone: volume.availability_zone.map(Cow::Owned),
        volume_type: volume.volume_type.and_then(|name| text(name.as_str())),
        size: volume.size,
        iops: volume.iops,
        throughput: volume.throughput,
        state: volume.state.and_then(|name| text(name.as_str())),
        create_time: volume.create_time,
        snapshot_id: volume.snapshot_id.map(Cow::Owned),
        multi_attach: volume.multi_attach_enabled,
        attachments: attachments
            .map(|attachment| AttachmentXml {
                instance_id: attachment.instance_id.map(Cow::Owned),
                associated_resource: attachment.associated_resource.map(Cow::Owned),
                state: attachment.state.and_then(|name| text(name.as_str())),
                attach_time: attachment.attach_time,
            })
            .collect(),
        managed: operator.and_then(|operator| operator.managed),
        principal: operator.and_then(|operator| operator.principal.clone()).map(Cow::Owned),
        tags: tags(volume.tags),
        volume_id: volume.volume_id.map(Cow::Owned),
    }
}

/// The volumes and the token, by the SDK's full types; `None` where it refuses the answer.
fn the_sdks(body: &str) -> Option<(Vec<VolumeXml<'static>>, Option<String>)> {
    let answer = of_sdk(body, async |ec2| ec2.describe_volumes().send().await.ok())?;
    Some((answer.volumes.unwrap_or_default().into_iter().map(by_sdk).collect(), answer.next_token))
}

/// Fields that are not ours, with names that are.
fn noise() -> BoxedStrategy<String> {
    let wrong = "<volumeId>vol-wrong</volumeId><status>available</status><attachmentSet><item/></attachmentSet>";
    let options = vec![
        format!("<future><item>{wrong}<future>{wrong}</future></item><item/></future>"),
        format!("<!-- {wrong} -->"),
        "<encrypted>true</encrypted><kmsKeyId>key</kmsKeyId>".to_owned(),
        "<availabilityZoneId>use1-az1</availabilityZoneId>".to_owned(),
        "\n    ".to_owned(),
        "<?some instruction?>".to_owned(),
        "<fastRestored>false</fastRestored>".to_owned(),
    ];
    select(options).boxed()
}

fn attachment_xml() -> BoxedStrategy<String> {
    let own = vec![
        element("instanceId").boxed(),
        element("associatedResource").boxed(),
        known("status", &["attaching", "attached", "detaching", "detached", "busy"]),
        time("attachTime"),
        element("volumeId").boxed(),
    ];
    item(own, noise())
}

fn body() -> BoxedStrategy<String> {
    let own = vec![
        element("volumeId").boxed(),
        element("availabilityZone").boxed(),
        known("volumeType", &["gp3", "io2", "standard"]),
        number("size"),
        number("iops"),
        number("throughput"),
        known("status", &["available", "in-use", "deleting"]),
        time("createTime"),
        known("snapshotId", &["", "snap-1"]),
        truth("multiAttachEnabled"),
        within("attachmentSet", vec(attachment_xml(), 0..3)),
        operator(),
        tag_set(),
    ];
    page(ANSWER, item(own, noise()))
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
        let read = read(&body.as_bytes()[..at], |_| Ok(()));
        prop_assert_eq!(read.is_ok(), at >= end && ours(&body).is_ok());
    }
}
