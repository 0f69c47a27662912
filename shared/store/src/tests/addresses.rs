//! A document is believed only at its own address, and one of a machine only as far as it can be.

use ::jobs::JobId;
use billing::budget::BudgetHolder;
use billing::ledger::CalendarMonth;
use jiff::tz::TimeZone;

use super::*;

fn job() -> JobId {
    JobId::read("vision/llama-0123abcd").unwrap()
}

fn leaked(text: String) -> &'static str {
    text.leak()
}

/// What `read` says of such a document.
async fn refused<T: std::fmt::Debug>(
    body: &'static str,
    read: impl AsyncFnOnce(Store) -> Result<T, StoreError>,
) -> String {
    let (store, served) = server(vec![(200, body)]);
    let refused = read(store).await.unwrap_err();
    served.join().unwrap();
    assert!(matches!(refused, StoreError::Misplaced { .. }), "{refused}");
    refused.to_string()
}

#[tokio::test]
async fn a_state_of_another_job_is_none() {
    let state = r#"{"schema": 1, "job": "nlp/bert-89abcdef", "terms": {"checkpoint": {"keep": 3}}}"#;
    let said = refused(state, async |store: Store| store.read_keep(&job()).await).await;
    let expect = "s3://curfew/jobs/vision/llama-0123abcd/state.json says that it is of nlp/bert-89abcdef, so Curfew does not believe it";
    assert!(said.starts_with(expect), "{said}");
}

#[tokio::test]
async fn a_budget_of_another_holder_or_month_is_none() {
    let of_nlp = r#"{"schema": 1, "team": "nlp", "month": "2026-11"}"#;
    let of_account = r#"{"schema": 1, "month": "2026-11", "as_of": "2026-11-20T12:00:00Z"}"#;
    let of_october = r#"{"schema": 1, "team": "vision", "month": "2026-10"}"#;
    let vision = || BudgetHolder::Team("vision".into());
    for (body, holder) in
        [(of_nlp, vision()), (of_account, vision()), (of_october, vision()), (of_nlp, BudgetHolder::Account)]
    {
        refused(body, async |store: Store| store.read_budget(&holder, "2026-11").await).await;
    }
}

#[tokio::test]
async fn a_record_of_another_run_is_none() {
    let body = r#"{"schema": 1, "function": "run-jobs", "run": "a", "at": "2026-11-20T12:00:00Z", "mode": "enforce", "steps": []}"#;
    for key in [
        "plans/2026-11-20/run-jobs/b.json",
        "plans/2026-11-21/run-jobs/a.json",
        "plans/2026-11-20/reap-instances/a.json",
    ] {
        let said = refused(body, async |store: Store| store.read_plan(key).await).await;
        assert!(said.contains("says that it is of plans/2026-11-20/run-jobs/a.json"), "{said}");
    }
}

#[tokio::test]
async fn a_ledger_of_another_region_or_month_is_none() {
    let month = |text| CalendarMonth::read(text, &TimeZone::UTC).unwrap();
    let (store, served) = server(vec![(200, "")]);
    let ledger = billing::ledger::Ledger::new(&month("2026-11"), &home());
    store.write_ledger(&month("2026-11"), &home(), &ledger, None).await.unwrap();
    let body = leaked(served.join().unwrap().remove(0).split("\r\n\r\n").nth(1).unwrap().to_owned());
    for (says, region) in [("2026-12", home()), ("2026-11", Region::from("us-east-1"))] {
        let read = async |store: Store| store.read_ledger(&month(says), &region).await;
        assert!(refused(body, read).await.contains("says that it is of 2026-11 in eu-central-1"));
    }
}

/// What a machine wrote, as a heartbeat of attempt 2.
async fn heartbeat(body: String) -> MachineDocument<ReceivedHeartbeat> {
    let (store, served) = server(vec![(200, leaked(body))]);
    let read = store.read_heartbeat(&job(), 2).await.unwrap();
    served.join().unwrap();
    read
}

#[tokio::test]
async fn documents_of_a_machine_are_believed_refused_or_cut() {
    let beat = |doing: &str, rest: &str| {
        format!(r#"{{"schema": 1, "at": "2026-11-20T12:00:00Z", "attempt": 2, "doing": "{doing}"{rest}}}"#)
    };
    let MachineDocument::Believed(said) = heartbeat(beat(&format!("run\\n{}", "x".repeat(500)), "")).await else {
        panic!("it is whole");
    };
    assert!(said.heartbeat.doing.starts_with("run xx") && said.heartbeat.doing.chars().count() == 101);
    for body in [beat("", r#", "attempt": 2"#), beat("", r#", "steps_per_hour": -1"#), beat(&"x".repeat(70_000), "")] {
        assert!(matches!(heartbeat(body).await, MachineDocument::Refused(_)));
    }
    let MachineDocument::Refused(StoreError::TooLarge { bytes_max, .. }) = heartbeat("x".repeat(100_000)).await else {
        panic!("it is too large");
    };
    assert_eq!(bytes_max, 64 * 1024);
}

#[tokio::test]
async fn nothing_is_absent_and_a_refusal_of_s3_is_neither() {
    let (store, served) = server(vec![(404, error("NoSuchKey")), (403, error("AccessDenied"))]);
    assert_eq!(store.read_head(&job()).await, Ok(MachineDocument::Absent));
    assert!(matches!(store.read_exit(&job(), 2).await, Err(StoreError::Call { .. })));
    served.join().unwrap();
}
