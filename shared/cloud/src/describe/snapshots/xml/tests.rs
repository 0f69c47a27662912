use aws_sdk_ec2::types;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::describe::generate::{element, item, known, number, of_sdk, page, tag_set, tags, time};

/// The snapshots and the token, by our reader.
fn ours(body: &str) -> Result<(Vec<SnapshotXml<'_>>, Option<String>), XmlError> {
    let mut all = Vec::new();
    let token = read(body.as_bytes(), |item| {
        all.push(item);
        Ok(())
    })?;
    Ok((all, token))
}

/// What the SDK's own types say of the same fields.
fn by_sdk(snapshot: types::Snapshot) -> SnapshotXml<'static> {
    SnapshotXml {
        snapshot_id: snapshot.snapshot_id.map(Cow::Owned),
        volume_id: snapshot.volume_id.map(Cow::Owned),
        state: snapshot.state.map(|name| Cow::Owned(name.as_str().to_owned())),
        start_time: snapshot.start_time,
        description: snapshot.description.map(Cow::Owned),
        volume_size: snapshot.volume_size,
        tags: tags(snapshot.tags),
    }
}

/// The snapshots and the token, by the SDK's full types; `None` where it refuses the answer.
fn the_sdks(body: &str) -> Option<(Vec<SnapshotXml<'static>>, Option<String>)> {
    let answer = of_sdk(body, async |ec2| ec2.describe_snapshots().send().await.ok())?;
    Some((answer.snapshots.unwrap_or_default().into_iter().map(by_sdk).collect(), answer.next_token))
}

/// Fields that are not ours, with names that are.
fn noise() -> BoxedStrategy<String> {
    let wrong = "<snapshotId>snap-wrong</snapshotId><volumeId>vol-wrong</volumeId><status>completed</status>";
    let options = vec![
        format!("<future><item>{wrong}<future>{wrong}</future></item><item/></future>"),
        format!("<!-- {wrong} -->"),
        "<progress>100%</progress>".to_owned(),
        "<statusMessage>completed</statusMessage>".to_owned(),
        "\n    ".to_owned(),
    ];
    select(options).boxed()
}

fn body() -> BoxedStrategy<String> {
    let own = vec![
        element("snapshotId").boxed(),
        element("volumeId").boxed(),
        element("description").boxed(),
        known("status", &["pending", "completed", "error", "recoverable"]),
        time("startTime"),
        number("volumeSize"),
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
