//! Notifications as events of `EventBridge`.

use futures::{StreamExt, stream};
use notify::{DETAIL_TYPE, Event, SOURCE};
use serde_json::{Value, json};

use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind, kind};
use crate::http_call::{AwsService, HttpCall};

const CALL: &str = "events:PutEvents";
/// Amazon `EventBridge` API reference, "`PutEvents`".
const EVENTS_PER_CALL_MAX: usize = 10;
/// `EventBridge` takes 400 calls a second in its smallest regions (Amazon `EventBridge` user guide, "Quotas").
const CALLS_AT_ONCE: usize = 8;

/// Sends events to a bus of the home region.
///
/// # Errors
/// If some were not accepted: how many, and why the first of them was not.
pub(crate) async fn put(aws: &Aws, bus: &str, events: &[Event]) -> Result<(), CallError> {
    let calls = stream::iter(events.chunks(EVENTS_PER_CALL_MAX)).map(|some| put_some(aws, bus, some));
    let refused: Vec<(usize, CallError)> =
        calls.buffered(CALLS_AT_ONCE).filter_map(async |one| one.err()).collect().await;
    let count: usize = refused.iter().map(|(count, _)| count).sum();
    let Some((_, first)) = refused.into_iter().next() else { return Ok(()) };
    let message = format!("{count} of {} events for the bus {bus} were not accepted: {}", events.len(), first.message);
    Err(CallError { message, ..first })
}

/// Sends at most as many events as one call takes. An error says how many of them were not accepted.
async fn put_some(aws: &Aws, bus: &str, events: &[Event]) -> Result<(), (usize, CallError)> {
    let entries: Vec<Value> = events.iter().map(|event| to_entry(bus, event)).collect();
    let call = HttpCall::json_1_1(CALL, aws.home(), AwsService::EventBridge, ("AWSEvents", "PutEvents"));
    let answer = call.send(aws, &json!({ "Entries": entries })).await.map_err(|error| (events.len(), error))?;
    // It accepts some and refuses others, in one answer.
    let Some(results) = answer.get("Entries").and_then(Value::as_array) else {
        let message = "the answer has no list of entries";
        return Err((events.len(), CallError::new(CALL, aws.home(), CallErrorKind::Other, message)));
    };
    let refused: Vec<(&str, &Value)> =
        results.iter().filter_map(|one| Some((one["ErrorCode"].as_str()?, one))).collect();
    let Some((code, first)) = refused.first() else { return Ok(()) };
    let message = first["ErrorMessage"].as_str().unwrap_or_default();
    let error = CallError::new(CALL, aws.home(), kind(code, message), format!("{code}: {message}"));
    Err((refused.len(), error))
}

fn to_entry(bus: &str, event: &Event) -> Value {
    json!({ "Source": SOURCE, "DetailType": DETAIL_TYPE, "Detail": event.detail, "EventBusName": bus })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws};

    fn events(count: usize) -> Vec<Event> {
        (0..count).map(|number| Event { detail: format!("{{\"schema\":{number}}}") }).collect()
    }

    fn answer(json: &str) -> ReplayAnswer {
        ReplayAnswer::Raw(200, json.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn ten_events_make_a_call() {
        let (aws, calls) = aws(|_| answer(r#"{"FailedEntryCount":0,"Entries":[{"EventId":"1"}]}"#));
        put(&aws, "curfew", &events(21)).await.unwrap();
        let sent = calls.said();
        assert_eq!(sent.len(), 3);
        assert_eq!([0, 1, 2].map(|call| sent[call].matches("DetailType").count()), [10, 10, 1]);
        for part in [r#""Source":"curfew""#, r#""DetailType":"Curfew Notification""#, r#""EventBusName":"curfew""#] {
            assert!(sent[2].contains(part), "{}", sent[2]);
        }
        assert!(sent[2].contains(r#""Detail":"{\"schema\":20}""#), "{}", sent[2]);
        assert_eq!(calls.recorded()[0].region, "us-east-1");
    }

    #[tokio::test]
    async fn nothing_is_asked_where_there_is_nothing_to_send() {
        let (aws, calls) = aws(|_| answer("{}"));
        put(&aws, "curfew", &[]).await.unwrap();
        assert_eq!(calls.names(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn an_event_that_is_refused_among_others_is_an_error() {
        let refused = r#"{"FailedEntryCount":1,"Entries":[{"EventId":"1"},{"ErrorCode":"ThrottlingException","ErrorMessage":"Slower"}]}"#;
        let (aws, _) = aws(move |_| answer(refused));
        let error = put(&aws, "curfew", &events(2)).await.unwrap_err();
        let expect = "1 of 2 events for the bus curfew were not accepted: ThrottlingException: Slower";
        assert_eq!(error.message, expect);
    }

    #[tokio::test]
    async fn a_missing_permission_is_named() {
        let denied = br#"{"__type":"AccessDeniedException","message":"not authorized to perform: events:PutEvents"}"#;
        let (aws, _) = aws(|_| ReplayAnswer::Raw(400, denied.to_vec()));
        let error = put(&aws, "curfew", &events(11)).await.unwrap_err();
        assert!(error.to_string().contains("11 of 11 events for the bus curfew were not accepted"), "{error}");
        assert!(error.to_string().ends_with("grant events:PutEvents to the role that asked"), "{error}");
    }
}
