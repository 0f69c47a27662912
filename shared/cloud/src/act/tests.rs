//! Whole steps against EC2's answers: which calls are made, in which order, with which parameters.

use execution::carry_out;
use model::curfew_tags::MARKED;
use model::id::RunId;
use model::instance::Tags;
use model::mode::Mode;
use plan::report::{OutcomeKind, StepOutcome};
use plan::{Action, Announcement, InstanceAction, Step, Target};

use crate::replay::ReplayAnswer;

mod instances;
mod snapshots;
mod volumes;

/// What a server in trouble answers, with status 500.
const IN_TROUBLE: &[u8] = b"<Response><Errors><Error><Code>InternalError</Code></Error></Errors></Response>";

fn target(resource: &str) -> Target {
    Target {
        region: "us-east-1".into(),
        resource: resource.into(),
        team: None,
        owner: None,
        name: None,
        what: "something".to_owned(),
    }
}

fn run() -> RunId {
    "run-1".into()
}

fn tags_of(tags: &[(&str, &str)]) -> Tags {
    tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn done() -> StepOutcome {
    StepOutcome::from_kind(OutcomeKind::Done)
}

fn denied() -> ReplayAnswer {
    ReplayAnswer::error("UnauthorizedOperation", "You are not authorized to perform this operation.")
}

/// With the status that EC2 gives it.
fn throttled() -> ReplayAnswer {
    match ReplayAnswer::error("RequestLimitExceeded", "Request limit exceeded.") {
        ReplayAnswer::Raw(_, body) => ReplayAnswer::Raw(503, body),
        other => other,
    }
}

fn gone(code: &str) -> ReplayAnswer {
    ReplayAnswer::error(code, "It does not exist.")
}

/// A list that ends before its first item.
fn cut_off(call: &str, set: &str) -> ReplayAnswer {
    ReplayAnswer::Raw(200, format!("<{call}Response><{set}>").into())
}
