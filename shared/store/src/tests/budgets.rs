//! Budgets: of two concurrent writers the slower one reads again.

use std::collections::BTreeSet;
use std::convert::Infallible;

use billing::budget::{Budget, BudgetHolder, BudgetReservation};
use jiff::Timestamp;
use model::money::Amount;
use ports::BudgetDocuments as _;

use super::{error, server};
use crate::StoreError;

const MONTH: &str = "2026-11";
/// The reservation of another run.
const RESERVED: &str = r#"{"schema": 1, "team": "vision", "month": "2026-11", "reservations": {"vision/other":
    {"usd": 2.0, "since": "2026-11-20T12:00:00Z", "until": "2026-11-21T12:00:00Z"}}}"#;

fn vision() -> BudgetHolder {
    BudgetHolder::Team("vision".into())
}

#[expect(clippy::unnecessary_wraps, reason = "it stands for a change that may refuse")]
fn reserve(budget: &mut Budget) -> Result<usize, Infallible> {
    let (usd, spent_usd, at) = (Amount::from_usd(1.0), Amount::ZERO, Timestamp::UNIX_EPOCH);
    let instances = BTreeSet::new();
    let reservation = BudgetReservation { number: 1, usd, spent_usd, since: at, instances, until: at, ended: None };
    budget.reservations.insert("vision/mine".to_owned(), reservation);
    Ok(budget.reservations.len())
}

#[tokio::test]
async fn a_change_is_made_to_what_is_there() {
    let (store, served) = server(vec![(404, error("NoSuchKey")), (200, "")]);
    let Ok(count) = store.update_budget(&vision(), MONTH, reserve).await.unwrap();
    let requests = served.join().unwrap();
    assert_eq!(count, 1);
    assert!(requests[0].starts_with("GET /curfew/budgets/vision/2026-11.json"), "{}", requests[0]);
    assert!(requests[1].starts_with("PUT /curfew/budgets/vision/2026-11.json"), "{}", requests[1]);
    assert!(requests[1].contains("if-none-match: *\r\n"), "{}", requests[1]);
}

#[tokio::test]
async fn a_lost_swap_is_repeated_on_the_new_content() {
    let (store, served) = server(vec![
        (404, error("NoSuchKey")),
        (412, error("PreconditionFailed")),
        (200, RESERVED),
        (200, RESERVED),
        (200, ""),
    ]);
    let Ok(count) = store.update_budget(&vision(), MONTH, reserve).await.unwrap();
    let last = served.join().unwrap().pop().unwrap();
    assert_eq!(count, 2);
    assert!(last.contains("if-match: \"new\"\r\n"), "{last}");
    assert!(last.contains("vision/other") && last.contains("vision/mine"), "{last}");
}

#[tokio::test]
async fn refused_or_unchanged_documents_are_not_written() {
    let (store, served) = server(vec![(200, RESERVED), (200, RESERVED)]);
    let holder = vision();
    let refused = store.update_budget(&holder, MONTH, |budget| {
        budget.reservations.clear();
        Err::<(), _>("no")
    });
    assert_eq!(refused.await.unwrap(), Err("no"));
    assert_eq!(store.update_budget(&vision(), MONTH, |_| Ok::<_, Infallible>(1)).await.unwrap(), Ok(1));
    assert!(served.join().unwrap().iter().all(|request| request.starts_with("GET ")));
}

#[tokio::test]
async fn a_swap_that_always_loses_gives_up() {
    let once = [(200, RESERVED), (412, error("PreconditionFailed")), (200, RESERVED)];
    let (store, served) = server(std::iter::repeat_n(once, 10).flatten().collect());
    let lost = store.update_budget(&vision(), MONTH, reserve).await.unwrap_err();
    assert!(matches!(lost, StoreError::Lost { .. }), "{lost}");
    assert_eq!(served.join().unwrap().len(), 30);
}

#[tokio::test]
async fn an_unknown_schema_is_neither_dropped_nor_overwritten() {
    let (store, served) = server(vec![(200, "{"), (200, r#"{"schema": 2}"#)]);
    for _ in ["garbled", "of another version"] {
        let refused = store.update_budget(&BudgetHolder::Account, MONTH, reserve).await.unwrap_err().to_string();
        assert!(refused.contains("what it reserves for jobs is forgotten"), "{refused}");
    }
    let requests = served.join().unwrap();
    assert!(requests[0].starts_with("GET /curfew/budgets/2026-11.json"), "{}", requests[0]);
}
