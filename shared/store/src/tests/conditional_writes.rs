//! Every conditional write of the store, and every answer of S3 to one.
//!
//! Amazon S3 user guide, "How to prevent object overwrites with conditional writes": 409 means that nothing was written and the write has to
//! be repeated, 412 that the condition does not hold, 404 that the object is gone that was to be replaced.

use ::jobs::{CancelRequest, Head, Job, JobId, JobSpec};
use billing::budget::{Budget, BudgetHolder};
use billing::ledger::{CalendarMonth, Ledger};
use futures::future::{LocalBoxFuture, join_all};
use jiff::Timestamp;
use model::config::Config;

use super::*;

/// A write over the object of that `ETag`, or of an object that is not there.
type Write = for<'a> fn(&'a Store, Option<&'a str>) -> LocalBoxFuture<'a, Result<(), StoreError>>;

const OLD: Option<&str> = Some("\"old\"");

/// What S3 has instead of what is to be written.
const OTHER: &str = r#"{"schema": 1, "at": "2026-09-01T11:00:00Z", "by": "eve"}"#;

fn now() -> Timestamp {
    "2026-09-01T12:00:00Z".parse().unwrap()
}

fn id() -> JobId {
    JobId { team: "vision".into(), job: "llama-1a2b3c4d".to_owned() }
}

fn job() -> Job {
    let spec = JobSpec::read(
        "owner = \"ada\"\ncommand = \"x\"\n",
        "llama",
        None,
        &Config::default(),
        &"us-east-1".into(),
        now(),
    )
    .unwrap();
    Job::submitted(id(), None, spec.terms, now())
}

fn cancel() -> CancelRequest {
    CancelRequest { at: now(), by: Some("ada".to_owned()) }
}

fn month() -> CalendarMonth {
    CalendarMonth::containing(now(), &jiff::tz::TimeZone::UTC)
}

async fn write_log_part(store: &Store) -> Result<(), StoreError> {
    store
        .write_log_part(
            LogName { job: &id(), attempt: 1, node: None },
            0,
            LogPart { bytes: b"begun".to_vec(), start: 0 },
        )
        .await
}

/// All that are written over the version that was read.
const SWAPS: [(&str, Write); 6] = [
    ("state", |store, last| Box::pin(async move { store.write_job(&job(), last).await.map(drop) })),
    ("head", |store, last| Box::pin(async move { store.write_fence(&id(), &Head::default(), last).await.map(drop) })),
    ("notices", |store, last| {
        Box::pin(
            async move { store.write_notices(FUNCTION, &home(), &NotificationLog::default(), last).await.map(drop) },
        )
    }),
    ("budget of a team", |store, last| {
        Box::pin(async move {
            store.write_budget(&BudgetHolder::Team("vision".into()), "2026-09", &Budget::default(), last).await
        })
    }),
    ("budget of the account", |store, last| {
        Box::pin(async move { store.write_budget(&BudgetHolder::Account, "2026-09", &Budget::default(), last).await })
    }),
    ("ledger", |store, last| {
        Box::pin(async move { store.write_ledger(&month(), &home(), &Ledger::default(), last).await })
    }),
];

/// The content of another run is as good.
const CACHES: [(&str, Write); 2] = [
    ("activity", |store, last| {
        Box::pin(async move { store.write_activity(&home(), &ActivityCache::default(), last).await })
    }),
    ("prices", |store, last| {
        Box::pin(async move { store.write_prices(&billing::price::PriceDocument::default(), last).await.map(drop) })
    }),
];

/// All that are written once.
const CREATIONS: [(&str, Write); 3] = [
    ("spec", |store, _| Box::pin(async move { store.keep_spec(&id(), b"command = \"x\"").await })),
    ("cancel", |store, _| Box::pin(async move { store.cancel(&id(), &cancel()).await.map(drop) })),
    ("part of a log", |store, _| Box::pin(write_log_part(store))),
];

/// Every write with every condition that it is made with.
fn all_writes() -> Vec<(&'static str, Write, Option<&'static str>)> {
    let both = SWAPS.into_iter().chain(CACHES).flat_map(|(name, write)| [(name, write, None), (name, write, OLD)]);
    both.chain(CREATIONS.into_iter().map(|(name, write)| (name, write, None))).collect()
}

/// What comes of a write that S3 answers so, and what S3 was asked.
async fn outcome(write: Write, last: Option<&str>, answers: Vec<Prepared>) -> (Result<(), StoreError>, Vec<String>) {
    let (store, served) = server(answers);
    let done = write(&store, last).await;
    (done, served.join().unwrap())
}

/// The bytes that a write sends.
async fn body(write: Write, last: Option<&str>) -> &'static str {
    let (done, requests) = outcome(write, last, vec![(200, "")]).await;
    done.unwrap();
    requests[0].split("\r\n\r\n").nth(1).unwrap().to_owned().leak()
}

const CONFLICT: u16 = 409;

fn conflict() -> Prepared {
    (CONFLICT, error("ConditionalRequestConflict"))
}

fn precondition() -> Prepared {
    (412, error("PreconditionFailed"))
}

#[tokio::test]
async fn a_write_that_collides_is_made_again_with_the_same_condition() {
    for (name, write, last) in all_writes() {
        let (done, requests) = outcome(write, last, vec![conflict(), (200, "")]).await;
        assert_eq!(done, Ok(()), "{name}");
        let of = |request: &String| {
            let condition = request.lines().find(|line| line.starts_with("if-")).map(str::to_owned);
            (
                request.lines().next().unwrap().to_owned(),
                condition,
                request.split("\r\n\r\n").nth(1).unwrap().to_owned(),
            )
        };
        let (first, second) = (of(&requests[0]), of(&requests[1]));
        assert_eq!(first, second, "{name}");
        let condition = last.map_or_else(|| "if-none-match: *".to_owned(), |etag| format!("if-match: {etag}"));
        assert_eq!(second.1, Some(condition), "{name}");
    }
}

#[tokio::test]
async fn a_write_that_collides_for_ever_is_not_done() {
    let checked = all_writes().into_iter().map(async |(name, write, last)| {
        let (done, _) = outcome(write, last, vec![conflict(); 5]).await;
        let refused = done.unwrap_err();
        assert!(matches!(refused, StoreError::Conflict { .. }), "{name}: {refused}");
        assert!(
            !refused.lasts() && refused.to_string().contains("was not written, because others"),
            "{name}: {refused}"
        );
    });
    join_all(checked).await;
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_done_if_its_bytes_are_there() {
    for (name, write, last) in all_writes() {
        let written = body(write, last).await;
        let refused = (412, String::new(), error("PreconditionFailed"));
        let (store, served) = server_of_headers(vec![refused, (200, "x-amz-meta-start: 0\r\n".to_owned(), written)]);
        assert_eq!(write(&store, last).await, Ok(()), "{name}");
        served.join().unwrap();
    }
}

#[tokio::test]
async fn a_late_write_loses() {
    for (name, write) in SWAPS {
        for last in [None, OLD] {
            let (done, _) = outcome(write, last, vec![precondition(), (200, OTHER)]).await;
            assert!(matches!(done, Err(StoreError::Lost { .. })), "{name}: {done:?}");
        }
    }
    for (name, write) in CACHES {
        let (done, _) = outcome(write, OLD, vec![precondition(), (200, OTHER)]).await;
        assert_eq!(done, Ok(()), "{name}: what another run learnt is as good");
    }
}

#[tokio::test]
async fn an_incomparable_write_is_neither_done_nor_lost() {
    for (name, write, last) in all_writes() {
        let (done, _) = outcome(write, last, vec![precondition(), (500, error("InternalError"))]).await;
        let unknown = done.unwrap_err();
        assert!(matches!(unknown, StoreError::Call { action: "s3:GetObject", .. }), "{name}: {unknown}");
    }
}

#[tokio::test]
async fn nothing_is_written_over_what_is_gone() {
    for (name, write) in SWAPS {
        let (done, _) = outcome(write, OLD, vec![(404, error("NoSuchKey"))]).await;
        assert!(matches!(done, Err(StoreError::Lost { .. })), "{name}: {done:?}");
    }
}

#[tokio::test]
async fn a_job_with_another_spec_is_not_accepted() {
    let (store, served) = server(vec![precondition(), (200, "command = \"y\"")]);
    let other = store.keep_spec(&id(), b"command = \"x\"").await.unwrap_err();
    assert_eq!(
        other.to_string(),
        "s3://curfew/jobs/vision/llama-1a2b3c4d/spec.toml already has other content than Curfew writes there, and was not \
         overwritten; find out who wrote it, and delete it"
    );
    assert!(other.lasts());
    served.join().unwrap();
}

#[tokio::test]
async fn a_part_of_a_log_never_changes() {
    for (start, there) in [(0, "begun before"), (9, "begun")] {
        let refused = (412, String::new(), error("PreconditionFailed"));
        let there = (200, format!("x-amz-meta-start: {start}\r\n"), there);
        let (store, served) = server_of_headers(vec![refused, there]);
        assert!(matches!(write_log_part(&store).await, Err(StoreError::Lost { .. })), "{start}");
        served.join().unwrap();
    }
}

#[tokio::test]
async fn the_first_cancellation_is_named() {
    let (store, served) = server(vec![precondition(), (200, OTHER), (200, OTHER)]);
    let there = store.cancel(&id(), &cancel()).await.unwrap();
    assert_eq!(there.by.as_deref(), Some("eve"));
    served.join().unwrap();
    let gone = vec![precondition(), (404, error("NoSuchKey")), (404, error("NoSuchKey"))];
    let (store, served) = server(gone);
    assert!(matches!(store.cancel(&id(), &cancel()).await, Err(StoreError::Lost { .. })), "nothing is there");
    served.join().unwrap();
}

#[tokio::test]
async fn a_job_that_another_run_began_is_begun_if_its_state_is_there() {
    let state = body(SWAPS[0].1, None).await;
    let moved = state.replace("\"machines\":0", "\"machines\":1").leak();
    let foreign = state.replace("llama-1a2b3c4d", "other-1a2b3c4d").leak();
    let begun = async |there: Prepared| {
        let (store, served) = server(vec![precondition(), there, there]);
        let begun = store.begin_job(&job()).await;
        served.join().unwrap();
        begun
    };
    assert_ne!(state, moved);
    assert_eq!(begun((200, moved)).await, Ok(false));
    assert!(matches!(begun((200, foreign)).await, Err(StoreError::Misplaced { .. })));
    assert!(matches!(begun((200, OTHER)).await, Err(StoreError::Unreadable { .. })));
    assert!(matches!(begun((404, error("NoSuchKey"))).await, Err(StoreError::Lost { .. })));
}

/// FIPS 180-2, appendix B.1: the SHA-256 of `abc`, in hex and in base64.
const ABC: (&str, &str) = (
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
);

async fn requests_to_keep_agent(kept: Option<&str>) -> Vec<String> {
    let head = match kept {
        None => (404, String::new()),
        Some(checksum) => (200, format!("x-amz-checksum-sha256: {checksum}\r\n")),
    };
    let is_kept = kept == Some(ABC.1);
    let put = (200, String::new());
    let answers = [head].into_iter().chain((!is_kept).then_some(put));
    let (store, served) = server_of_headers(answers.map(|(status, headers)| (status, headers, "")).collect());
    store.keep_agent(ABC.0, b"abc").await.unwrap();
    served.join().unwrap()
}

#[tokio::test]
async fn an_agent_is_kept_whose_content_has_its_name() {
    let requests = requests_to_keep_agent(Some(ABC.1)).await;
    assert!(requests[0].starts_with(&format!("HEAD /curfew/agent/{} ", ABC.0)), "{}", requests[0]);
    assert!(requests[0].contains("x-amz-checksum-mode: ENABLED\r\n"), "{}", requests[0]);
    for kept in [None, Some("AAAA")] {
        let requests = requests_to_keep_agent(kept).await;
        assert!(requests[1].starts_with(&format!("PUT /curfew/agent/{}", ABC.0)), "{}", requests[1]);
        assert!(requests[1].contains(&format!("x-amz-checksum-sha256: {}\r\n", ABC.1)), "{}", requests[1]);
        assert!(requests[1].ends_with("\r\n\r\nabc"), "{}", requests[1]);
    }
}
