//! The ledger: of two beats at once neither is lost.

use billing::ledger::{CalendarMonth, Ledger, LedgerBeat};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::id::Region;
use ports::LedgerDocuments as _;

use super::{error, home, listing, server};
use crate::StoreError;

fn november() -> CalendarMonth {
    CalendarMonth::read("2026-11", &TimeZone::UTC).unwrap()
}

fn beat(at: &str) -> LedgerBeat {
    LedgerBeat {
        at: at.parse().unwrap(),
        region: home(),
        whole: true,
        items: vec![],
        unread: std::collections::BTreeSet::new(),
    }
}

/// What another beat wrote, as it is in the bucket.
async fn written_by_another() -> &'static str {
    let (store, served) = server(vec![(200, "")]);
    let mut ledger = Ledger::new(&november(), &home());
    ledger.observe(&beat("2026-11-20T12:00:00Z"));
    store.write_ledger(&november(), &home(), &ledger, None).await.unwrap();
    served.join().unwrap().remove(0).split("\r\n\r\n").nth(1).unwrap().to_owned().leak()
}

fn ours(ledger: &mut Ledger) -> bool {
    ledger.observe(&beat("2026-11-20T12:15:00Z"))
}

#[expect(clippy::unnecessary_wraps, reason = "as it is compared with")]
fn moment(text: &str) -> Option<Timestamp> {
    Some(text.parse().unwrap())
}

#[tokio::test]
async fn an_absent_ledger_is_of_its_month_and_region() {
    let (store, served) = server(vec![(404, error("NoSuchKey"))]);
    let read = store.read_ledger(&november(), &home()).await.unwrap();
    assert_eq!((read.value, read.etag), (Ledger::new(&november(), &home()), None));
    let request = served.join().unwrap().remove(0);
    assert!(request.starts_with("GET /curfew/ledger/2026-11/eu-central-1.json"), "{request}");
}

#[tokio::test]
async fn ledgers_of_a_month_are_listed_by_region() {
    let keys = ["us-east-1.json", "eu-west-1.json", ".json", "old/us-east-1.json", "notes.txt"];
    let keys = keys.map(|name| format!("ledger/2026-11/{name}"));
    let [here, there, others @ ..] = keys.each_ref().map(|key| (key.as_str(), 1));
    let (store, served) =
        server(vec![(200, listing(&[here], Some("more"))), (200, listing(&[&[there][..], &others].concat(), None))]);
    let listed = store.list_ledgers(&november()).await.unwrap();
    assert_eq!(listed, [Region::from("us-east-1"), Region::from("eu-west-1")]);
    assert!(served.join().unwrap()[0].contains("prefix=ledger%2F2026-11%2F"));
}

#[tokio::test]
async fn a_lost_swap_adds_the_observation_to_the_new_content() {
    let other = written_by_another().await;
    let (store, served) = server(vec![
        (404, error("NoSuchKey")),
        (412, error("PreconditionFailed")),
        (200, other),
        (200, other),
        (200, ""),
    ]);
    let (ledger, unwritten) = store.update_ledger(&november(), &home(), ours).await.unwrap();
    assert!(unwritten.is_none());
    assert_eq!((ledger.since(), ledger.as_of()), (moment("2026-11-20T12:00:00Z"), moment("2026-11-20T12:15:00Z")));
    let requests = served.join().unwrap();
    assert!(requests[1].contains("if-none-match: *\r\n"), "{}", requests[1]);
    assert!(requests[4].contains("if-match: \"new\"\r\n"), "{}", requests[4]);
}

#[tokio::test]
async fn three_lost_swaps_are_an_error() {
    let other = written_by_another().await;
    let round = [(200, other), (412, error("PreconditionFailed")), (200, other)];
    let (store, served) = server(round.repeat(3));
    let (ledger, lost) = store.update_ledger(&november(), &home(), ours).await.unwrap();
    assert!(matches!(lost, Some(StoreError::Lost { .. })), "{lost:?}");
    // What was seen is known all the same.
    assert_eq!(ledger.as_of(), moment("2026-11-20T12:15:00Z"));
    served.join().unwrap();
}

#[tokio::test]
async fn unchanged_facts_are_not_written() {
    let (store, served) = server(vec![(200, written_by_another().await)]);
    store.update_ledger(&november(), &home(), |ledger| ledger.observe(&beat("2026-11-20T12:00:00Z"))).await.unwrap();
    assert_eq!(served.join().unwrap().len(), 1);
}

#[tokio::test]
async fn a_ledger_that_cannot_be_understood_is_not_written_over() {
    let (store, served) = server(vec![(200, r#"{"schema": 1, "runs": [{"id": "i-1", "began": 0, "of": 7}]}"#)]);
    let refused = store.update_ledger(&november(), &Region::from("eu-central-1"), ours).await.unwrap_err().to_string();
    assert!(refused.contains("budgets count from then on"), "{refused}");
    served.join().unwrap();
}
