use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_cloudwatch::primitives::DateTime;
use aws_smithy_cbor::Encoder;
use model::observation::{Gap, GapKind, Observed};

use super::*;
use crate::observe::batch::QUERIES_MAX;
use crate::replay::{ReplayAnswer, ReplayedCall as Called, ReplayedCalls, aws};

const TIMEOUT: Duration = Duration::from_mins(1);
const COMPLETE: &str = "Complete";

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn ask(volume: &str, since: &str) -> VolumeUseQuery {
    VolumeUseQuery { region: "us-east-1".into(), volume: volume.into(), since: time(since) }
}

/// What is said of one query: its place, status, and when there are samples.
struct Line<'a>(usize, &'a str, &'a [&'a str]);

fn data(lines: &[Line<'_>], next: Option<&str>) -> ReplayAnswer {
    let mut body = Encoder::new(Vec::new());
    body.map(1 + usize::from(next.is_some())).str("MetricDataResults").array(lines.len());
    for Line(place, status, samples) in lines {
        body.map(4).str("Id").str(&format!("q{place}")).str("StatusCode").str(status);
        body.str("Timestamps").array(samples.len());
        for at in *samples {
            body.timestamp(&DateTime::from_secs(time(at).as_second()));
        }
        body.str("Values").array(samples.len());
        for _ in *samples {
            body.double(0.0);
        }
    }
    if let Some(token) = next {
        body.str("NextToken").str(token);
    }
    ReplayAnswer::Raw(200, body.into_writer())
}

/// What is found at noon of 2026-09-01.
async fn found(
    asks: &[VolumeUseQuery],
    script: impl Fn(&Called) -> ReplayAnswer + Send + Sync + 'static,
) -> (BTreeMap<ResourceId, VolumeUse>, Vec<Gap>, ReplayedCalls) {
    let (aws, calls) = aws(script);
    let Observed { items: found, gaps } =
        volume_uses(&aws, &"us-east-1".into(), asks, time("2026-09-01T12:00:00Z"), TIMEOUT).await;
    (found, gaps, calls)
}

#[tokio::test]
async fn any_sample_is_a_sign_of_use() {
    let asks = [ask("vol-1", "2026-08-31T12:00:00Z"), ask("vol-2", "2026-08-31T12:00:00Z")];
    let used = ["2026-09-01T08:00:00Z", "2026-09-01T07:00:00Z"];
    let (found, gaps, calls) =
        found(&asks, move |_| data(&[Line(0, COMPLETE, &[]), Line(1, COMPLETE, &used)], None)).await;
    let expected =
        [("vol-1".into(), VolumeUse::None), ("vol-2".into(), VolumeUse::UsedAt(time("2026-09-01T08:00:00Z")))];
    assert_eq!((found, gaps.len()), (BTreeMap::from(expected), 0));
    assert_eq!(calls.names(), ["GetMetricData"]);
    let body = &calls.recorded()[0].parameters[0];
    for word in ["AWS/EBS", "VolumeIdleTime", "VolumeId", "vol-1", "vol-2"] {
        assert!(body.contains(word), "{word}");
    }
}

#[tokio::test]
async fn samples_before_a_volumes_own_moment_do_not_count() {
    // Places are by age: vol-2 is asked about first.
    let asks = [ask("vol-1", "2026-09-01T10:00:30Z"), ask("vol-2", "2026-08-31T12:00:00Z")];
    let used = ["2026-09-01T09:59:00Z", "2026-08-31T12:00:00Z"];
    let (found, gaps, calls) =
        found(&asks, move |_| data(&[Line(0, COMPLETE, &used), Line(1, COMPLETE, &used)], None)).await;
    let expected =
        [("vol-1".into(), VolumeUse::None), ("vol-2".into(), VolumeUse::UsedAt(time("2026-09-01T09:59:00Z")))];
    assert_eq!((found, gaps.len(), calls.names().len()), (BTreeMap::from(expected), 0, 1));
}

#[tokio::test]
async fn a_sample_of_the_very_minute_counts() {
    let asks = [ask("vol-1", "2026-09-01T10:00:30Z")];
    let (found, _, _) = found(&asks, |_| data(&[Line(0, COMPLETE, &["2026-09-01T10:00:00Z"])], None)).await;
    assert_eq!(found["vol-1"], VolumeUse::UsedAt(time("2026-09-01T10:00:00Z")));
}

#[tokio::test]
async fn the_newest_sample_of_all_pages_counts() {
    let asks = [ask("vol-1", "2026-08-31T12:00:00Z"), ask("vol-2", "2026-08-31T12:00:00Z")];
    let (found, gaps, calls) = found(&asks, |call| {
        if call.parameters[0].contains("more") {
            data(&[Line(0, COMPLETE, &["2026-09-01T07:00:00Z", "2026-09-01T06:00:00Z"])], None)
        } else {
            let newest = ["2026-09-01T09:00:00Z"];
            data(&[Line(0, "PartialData", &newest), Line(1, COMPLETE, &[])], Some("more"))
        }
    })
    .await;
    let expected =
        [("vol-1".into(), VolumeUse::UsedAt(time("2026-09-01T09:00:00Z"))), ("vol-2".into(), VolumeUse::None)];
    assert_eq!((found, gaps.len(), calls.names().len()), (BTreeMap::from(expected), 0, 2));
}

#[tokio::test]
async fn what_is_not_answered_in_full_is_not_unused() {
    let asks = ["vol-1", "vol-2", "vol-3", "vol-4"].map(|volume| ask(volume, "2026-08-31T12:00:00Z"));
    let (found, gaps, _) = found(&asks, |_| {
        let some = ["2026-09-01T09:00:00Z"];
        data(
            &[
                Line(0, COMPLETE, &[]),
                Line(1, "PartialData", &some),
                Line(2, "InternalError", &[]),
                Line(9, COMPLETE, &[]),
            ],
            None,
        )
    })
    .await;
    assert_eq!(found, BTreeMap::from([("vol-1".into(), VolumeUse::None)]));
    let [gap] = &gaps[..] else { panic!("{gaps:?}") };
    assert_eq!((gap.kind, gap.call.as_str()), (GapKind::Part, "cloudwatch:GetMetricData"));
    assert!(gap.error.starts_with("3 of 4 series were not answered in full"), "{}", gap.error);
}

fn fault(code: &str) -> ReplayAnswer {
    let mut body = Encoder::new(Vec::new());
    body.map(2).str("__type").str(&format!("com.amazonaws.cloudwatch#{code}")).str("message").str("Not today");
    ReplayAnswer::Raw(400, body.into_writer())
}

/// As many as one call has room for, and the younger vol-1, for which there is none.
fn asks_of_two_calls() -> Vec<VolumeUseQuery> {
    let many = (0..QUERIES_MAX).map(|number| ask(&format!("vol-old-{number}"), "2026-07-31T12:00:00Z"));
    many.chain([ask("vol-1", "2026-08-31T12:00:00Z")]).collect()
}

fn nothing_of_many() -> ReplayAnswer {
    let lines: Vec<Line<'_>> = (0..QUERIES_MAX).map(|place| Line(place, COMPLETE, &[])).collect();
    data(&lines, None)
}

fn many_unused() -> BTreeMap<ResourceId, VolumeUse> {
    (0..QUERIES_MAX).map(|number| (format!("vol-old-{number}").as_str().into(), VolumeUse::None)).collect()
}

#[tokio::test]
async fn a_call_that_fails_leaves_its_volumes_out_and_the_others_in() {
    let asks = asks_of_two_calls();
    let (found, gaps, calls) = found(&asks, |call| {
        if call.parameters[0].contains("vol-1") { fault("AccessDeniedException") } else { nothing_of_many() }
    })
    .await;
    assert_eq!((found, calls.names().len()), (many_unused(), 2));
    assert_eq!((gaps.len(), gaps[0].kind), (1, GapKind::Part));
    assert!(gaps[0].error.contains("grant cloudwatch:GetMetricData to the role that asked"), "{gaps:?}");
}

#[tokio::test]
async fn a_page_that_fails_takes_back_what_came_before_it() {
    let asks = [ask("vol-1", "2026-08-31T12:00:00Z")];
    let (found, gaps, _) = found(&asks, |call| {
        if call.parameters[0].contains("more") {
            fault("InternalServiceFault")
        } else {
            data(&[Line(0, COMPLETE, &[])], Some("more"))
        }
    })
    .await;
    assert_eq!((found.len(), gaps.len()), (0, 1));
}

#[tokio::test]
async fn pages_that_never_end_are_given_up() {
    let asks = [ask("vol-1", "2026-08-31T12:00:00Z")];
    let pages = AtomicUsize::new(0);
    let (found, gaps, calls) = found(&asks, move |_| {
        let page = pages.fetch_add(1, Ordering::Relaxed);
        data(&[Line(0, COMPLETE, &[])], Some(&format!("page {page}")))
    })
    .await;
    assert_eq!((found.len(), calls.names().len()), (0, PAGES_MAX));
    assert!(gaps[0].error.contains("more than 120 pages"), "{gaps:?}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_a_gap() {
    let asks = [ask("vol-1", "2026-08-31T12:00:00Z")];
    let ReplayAnswer::Raw(_, whole) = data(&[Line(0, COMPLETE, &["2026-09-01T09:00:00Z"])], None) else {
        unreachable!()
    };
    for length in [whole.len() - 1, whole.len() / 2, 1, 0] {
        let cut = whole[..length].to_vec();
        let (found, gaps, _) = found(&asks, move |_| ReplayAnswer::Raw(200, cut.clone())).await;
        assert_eq!((found.len(), gaps.len()), (0, 1), "{length} of {} bytes", whole.len());
    }
}

#[tokio::test]
async fn nothing_and_other_regions_are_not_asked_about() {
    let elsewhere = VolumeUseQuery { region: "eu-west-1".into(), ..ask("vol-1", "2026-08-31T12:00:00Z") };
    let (found, gaps, calls) = found(&[elsewhere], |_| fault("Unexpected")).await;
    assert_eq!((found.len(), gaps.len(), calls.names().len()), (0, 0, 0));
}

#[tokio::test]
async fn what_was_answered_in_time_stays() {
    let script =
        |call: &Called| if call.parameters[0].contains("vol-1") { ReplayAnswer::Silence } else { nothing_of_many() };
    let (aws, _) = aws(script);
    let now = time("2026-09-01T12:00:00Z");
    let Observed { items: found, gaps } =
        volume_uses(&aws, &"us-east-1".into(), &asks_of_two_calls(), now, Duration::from_secs(1)).await;
    assert_eq!(found, many_unused());
    assert_eq!(gaps.len(), 1);
    assert!(gaps[0].error.contains("no complete answer within 1 s"), "{gaps:?}");
}

#[tokio::test]
async fn a_volume_asked_about_twice_is_no_gap() {
    let asks = [ask("vol-1", "2026-08-31T12:00:00Z"), ask("vol-1", "2026-08-31T12:00:00Z")];
    let (found, gaps, _) = found(&asks, |_| data(&[Line(0, COMPLETE, &[]), Line(1, COMPLETE, &[])], None)).await;
    assert_eq!((found.len(), gaps.len()), (1, 0));
}
