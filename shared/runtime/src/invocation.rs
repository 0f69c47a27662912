//! One event and one answer, as a handler sees them.

use jiff::Timestamp;
use lambda_runtime::Context;
use model::id::RunId;
use plan::report::{Report, Response};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::environment::clock;
use crate::event::Event;
use crate::failure::Failure;

/// The longest run id, in characters: it is part of an S3 key.
const RUN_CHARACTERS_MAX: usize = 128;

/// One event, and what is known about its run.
#[derive(Debug, Clone)]
pub struct Invocation {
    pub event: Event,
    /// Lambda's request id, safe as a part of an S3 key. A repeated delivery of the same event has the same one.
    pub run: RunId,
    /// Start of the run, in whole seconds. Decisions are made for this moment.
    pub now: Timestamp,
    /// Time at which Lambda will stop the run.
    pub deadline: Timestamp,
    /// The clock, to see how far away the deadline is.
    pub clock: fn() -> Timestamp,
}

/// Answer of the handler, as JSON.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct InvocationResponse(Box<RawValue>);

impl Invocation {
    pub(crate) fn beginning_now(event: Event, context: &Context) -> Self {
        let now = whole_second(clock());
        Self { event, run: run_id(&context.request_id, now), now, deadline: moment(context.deadline), clock }
    }
}

impl InvocationResponse {
    /// Serialises the answer.
    ///
    /// # Errors
    /// If `value` has no form in JSON, such as a map with keys that are not strings.
    pub fn from_value(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// The answer of a function with this report.
    ///
    /// # Errors
    /// If the run achieved nothing, with the reason.
    pub fn from_report(report: &Report) -> Result<Self, Failure> {
        match report.saw_nothing() {
            Some(why) => Err(Failure::because("NothingSeen", why)),
            None => Ok(Self::from_value(&Response::from_report(report))?),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.get().len()
    }
}

/// Lambda's request id, which is a UUID; anything else is reduced to what is safe in an S3 key (Amazon S3 user guide, "Naming Amazon S3
/// objects").
fn run_id(request_id: &str, now: Timestamp) -> RunId {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let id: String = request_id.chars().map(safe).take(RUN_CHARACTERS_MAX).collect();
    RunId::new(if id.is_empty() { format!("unnamed-{}", now.as_millisecond()) } else { id })
}

/// Cuts a time to whole seconds, the form in tags, messages and records.
fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// Milliseconds since 1970, as `Lambda-Runtime-Deadline-Ms` gives them; what lies beyond the calendar is its end.
fn moment(milliseconds: u64) -> Timestamp {
    i64::try_from(milliseconds)
        .ok()
        .and_then(|milliseconds| Timestamp::from_millisecond(milliseconds).ok())
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_run_id(request_id: &str, expect: &str) {
        assert_eq!(run_id(request_id, Timestamp::UNIX_EPOCH), RunId::from(expect));
    }

    #[test]
    fn a_request_id_stays_as_it_is() {
        check_run_id("8476a536-e9f4-11e8-9739-2dfe598c3fcd", "8476a536-e9f4-11e8-9739-2dfe598c3fcd");
    }

    #[test]
    fn nothing_leaves_the_folder_of_the_runs() {
        check_run_id("../../config/curfew.toml", "------config-curfew-toml");
        check_run_id("ä b\n\u{0}", "--b--");
        check_run_id(&"a".repeat(1000), &"a".repeat(128));
        check_run_id("", "unnamed-0");
    }

    #[test]
    fn an_impossible_deadline_is_far_away() {
        assert_eq!(moment(1_542_409_706_888).to_string(), "2018-11-16T23:08:26.888Z");
        assert_eq!(moment(u64::MAX), Timestamp::MAX);
        assert_eq!(moment(i64::MAX.unsigned_abs()), Timestamp::MAX);
    }

    #[test]
    fn an_answer_keeps_the_order_of_its_fields() {
        #[derive(Serialize)]
        struct Response {
            function: &'static str,
            at: u8,
        }
        let answer = InvocationResponse::from_value(&Response { function: "reap-instances", at: 1 }).unwrap();
        assert_eq!(serde_json::to_string(&answer).unwrap(), r#"{"function":"reap-instances","at":1}"#);
    }

    #[test]
    fn what_has_no_form_in_json_is_an_error() {
        assert!(InvocationResponse::from_value(&std::collections::BTreeMap::from([((1, 2), 3)])).is_err());
    }
}
