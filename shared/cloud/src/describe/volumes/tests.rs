use super::*;
use crate::error::CallErrorKind;
use crate::replay::{ReplayAnswer, ReplayedCalls, attached_xml, aws, page_of, volume_xml};

/// What becomes of this answer when one volume is asked for; and the calls.
async fn asked(
    answer: impl Fn() -> ReplayAnswer + Send + Sync + 'static,
) -> (Result<Volume, CallError>, ReplayedCalls) {
    let (aws, calls) = aws(move |_| answer());
    let region = Region::from("us-east-1");
    (volume(&aws.ec2(&region), &region, &"vol-1".into()).await, calls)
}

fn set(volumes: Vec<String>) -> impl Fn() -> ReplayAnswer + Send + Sync + 'static {
    move || page_of("volumeSet", &volumes, None)
}

/// The volume of which EC2 says this as well.
async fn describe_one(more: &str) -> Volume {
    asked(set(vec![volume_xml("vol-1", "available", &[], more)])).await.0.unwrap()
}

#[tokio::test]
async fn a_volume_keeps_what_ec2_says() {
    let tags = [("Team", "vision"), ("aws:cloudformation:stack-name", "s"), ("empty", "")];
    let more = "<iops>3000</iops><throughput>125</throughput><multiAttachEnabled>true</multiAttachEnabled>";
    let item = volume_xml("vol-1", "in-use", &tags, &(attached_xml("i-1") + more));
    let item = item.replace("<snapshotId/>", "<snapshotId>snap-1</snapshotId>");
    let (volume, calls) = asked(set(vec![item])).await;
    let expected = Volume {
        id: "vol-1".into(),
        region: "us-east-1".into(),
        zone: "us-east-1a".to_owned(),
        volume_type: "gp3".to_owned(),
        size_gib: 100,
        iops: Some(3000),
        throughput_mibps: Some(125),
        state: VolumeState::InUse,
        attached_to: vec!["i-1".into()],
        multi_attach: true,
        created_at: "2026-08-01T12:00:00Z".parse().unwrap(),
        tags: tags.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        from_snapshot: Some("snap-1".into()),
        operator: None,
    };
    assert_eq!(volume.unwrap(), expected);
    assert_eq!(calls.said(), ["DescribeVolumes VolumeId.1=vol-1"]);
}

#[tokio::test]
async fn what_ec2_leaves_out_is_left_out() {
    let plain = describe_one("").await;
    assert_eq!((plain.iops, plain.throughput_mibps, plain.from_snapshot, plain.operator), (None, None, None, None));
    assert_eq!((plain.attached_to, plain.multi_attach, plain.tags.len()), (vec![], false, 0));
    let odd = describe_one("<iops>-1</iops><multiAttachEnabled>false</multiAttachEnabled>").await;
    assert_eq!((odd.iops, odd.multi_attach), (None, false));
}

#[tokio::test]
async fn states() {
    let table = [
        ("creating", VolumeState::Creating),
        ("available", VolumeState::Available),
        ("in-use", VolumeState::InUse),
        ("deleting", VolumeState::Deleting),
        ("deleted", VolumeState::Deleted),
        ("error", VolumeState::Error),
        ("hovering", VolumeState::Unknown),
    ];
    for (name, expected) in table {
        let volume = asked(set(vec![volume_xml("vol-1", name, &[], "")])).await.0.unwrap();
        assert_eq!(volume.state, expected, "{name}");
    }
    assert_eq!(state(None), VolumeState::Unknown);
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
        assert_eq!(describe_one(&xml).await.operator.as_deref(), expected, "{xml}");
    }
}

/// What a volume with these attachments is attached to; `None` where it cannot be judged.
async fn holders(attachments: &[&str]) -> Option<Vec<String>> {
    let items: Vec<String> = attachments.iter().map(|xml| format!("<item>{xml}</item>")).collect();
    let item = volume_xml("vol-1", "in-use", &[], &format!("<attachmentSet>{}</attachmentSet>", items.concat()));
    match asked(set(vec![item])).await.0 {
        Ok(volume) => Some(volume.attached_to.iter().map(ToString::to_string).collect()),
        Err(error) => {
            assert_eq!(error.kind, CallErrorKind::Other, "{error}");
            None
        }
    }
}

#[tokio::test]
async fn the_holder_of_a_volume_is_named() {
    let by = |instance: &str, status: &str| format!("<instanceId>{instance}</instanceId><status>{status}</status>");
    let some = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(holders(&[]).await, some(&[]));
    for status in ["attaching", "attached", "detaching", "busy", "hovering"] {
        assert_eq!(holders(&[&by("i-1", status)]).await, some(&["i-1"]), "{status}");
    }
    assert_eq!(holders(&["<instanceId>i-1</instanceId>"]).await, some(&["i-1"]));
    assert_eq!(holders(&[&by("i-1", "attached"), &by("i-2", "attached")]).await, some(&["i-1", "i-2"]));
    assert_eq!(holders(&[&by("i-1", "detached")]).await, some(&[]));
    let managed = "<associatedResource>arn:aws:ecs:1:task/2</associatedResource><status>attached</status>";
    assert_eq!(holders(&[managed]).await, some(&["arn:aws:ecs:1:task/2"]));
    assert_eq!(holders(&[&format!("<instanceId/>{managed}")]).await, some(&["arn:aws:ecs:1:task/2"]));
}

#[tokio::test]
async fn a_volume_on_something_without_a_name_cannot_be_judged() {
    for xml in ["<status>attached</status>", "", "<instanceId/><associatedResource/>"] {
        assert_eq!(holders(&[xml]).await, None, "{xml}");
    }
    assert_eq!(holders(&["<instanceId>i-1</instanceId>", "<status>attached</status>"]).await, None);
}

#[tokio::test]
async fn a_volume_of_which_too_little_is_said_is_not_one_that_is_gone() {
    let whole = volume_xml("vol-1", "available", &[], "");
    let parts = [
        "<size>100</size>",
        "<availabilityZone>us-east-1a</availabilityZone>",
        "<createTime>2026-08-01T12:00:00.000Z</createTime>",
        "<volumeType>gp3</volumeType>",
    ];
    for part in parts {
        assert!(whole.contains(part), "{part}");
        let error = asked(set(vec![whole.replace(part, "")])).await.0.unwrap_err();
        assert_eq!(error.kind, CallErrorKind::Other, "{part}");
        assert!(error.to_string().contains("EC2 left out what must be known of vol-1"), "{error}");
    }
    let negative = asked(set(vec![whole.replace("<size>100", "<size>-100")])).await.0;
    assert_eq!(negative.unwrap_err().kind, CallErrorKind::Other);
}

#[tokio::test]
async fn only_ec2s_word_says_that_a_volume_is_not_there() {
    let nothing = asked(set(vec![])).await.0.unwrap_err();
    let said = "EC2 answered without vol-1, and not that it is gone";
    assert_eq!((nothing.kind, nothing.message.as_str()), (CallErrorKind::Other, said));
    let another = asked(set(vec![volume_xml("vol-2", "available", &[], "")])).await.0.unwrap_err();
    assert_eq!(another.kind, CallErrorKind::Other);
    let said = || ReplayAnswer::error("InvalidVolume.NotFound", "The volume 'vol-1' does not exist.");
    assert_eq!(asked(said).await.0.unwrap_err().kind, CallErrorKind::NotFound);
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_an_error_of_the_call() {
    let item = volume_xml("vol-1", "available", &[], "");
    let whole = format!("<DescribeVolumesResponse><volumeSet>{item}</volumeSet></DescribeVolumesResponse>");
    let table = [
        (whole.replace("</DescribeVolumesResponse>", ""), "the answer ends within an element"),
        (whole.replace("</volumeSet>", ""), "not well-formed XML"),
        (whole.replace("DescribeVolumes", "DescribeInstances"), "not a DescribeVolumesResponse: <DescribeInstances"),
        (whole.replace("<size>100", "<size>much"), "a size of \"much\""),
        (whole.replace("<volumeId>vol-1</volumeId>", ""), "the answer has one without volumeId"),
        (whole.replace("<volumeId>vol-1</volumeId>", "<volumeId/>"), "the answer has one without volumeId"),
        (format!("{whole}<and/>"), "not a DescribeVolumesResponse: it is followed by <and>"),
        (format!("{whole} and more"), "not a DescribeVolumesResponse: it has text around it"),
    ];
    for (body, expected) in table {
        let error = asked(move || ReplayAnswer::Raw(200, body.clone().into())).await.0.unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("ec2:DescribeVolumes failed in us-east-1: HTTP status 200: "), "{said}");
        assert!(said.contains(expected), "{said}");
        assert_eq!(error.kind, CallErrorKind::Unanswered);
    }
}

#[tokio::test]
async fn errors_are_read_by_the_sdk() {
    let error = asked(|| ReplayAnswer::error("UnauthorizedOperation", "You are not authorized.")).await.0.unwrap_err();
    assert_eq!(error.kind, CallErrorKind::Denied { by_organisation: false });
    assert!(error.to_string().ends_with("grant ec2:DescribeVolumes to the role that asked"), "{error}");
}
