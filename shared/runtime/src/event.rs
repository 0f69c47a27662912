//! The event of an invocation, as `EventBridge` delivers it, or SNS, or a queue of SQS that `EventBridge` sends to; or a request to the
//! function's address.

mod batch;
mod detail;
mod reply;

use aws_lambda_events::eventbridge::EventBridgeEvent;
use jiff::Timestamp;
use model::fault::shortened;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use detail::{InstanceEvent, ObjectCreated};
pub use reply::ReplyRequest;

/// The largest event, in bytes: 1 MB since January 2026, for `EventBridge`, SQS and asynchronous invocations alike (AWS Compute Blog).
const BYTES_MAX: usize = 1024 * 1024;

/// The largest batch of events, in bytes (Lambda developer guide, "Lambda quotas": the payload of a synchronous invocation, which carries
/// what Lambda reads from a queue).
const BATCH_BYTES_MAX: usize = 6 * 1024 * 1024;

/// The longest foreign text that an error repeats, in characters.
const QUOTED_CHARACTERS_MAX: usize = 100;

/// The event of an invocation. It only says where to look now, never what is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The schedule, of an `EventBridge` rule (`aws.events`) or of `EventBridge` Scheduler (`aws.scheduler`).
    Scheduled,
    /// AWS Budgets, by its SNS topic. Its text is never read: it is plain English, hours late, and the ledger has better figures.
    BudgetNotification,
    /// Something was written to a bucket.
    ObjectCreated(ObjectCreated),
    /// AWS reclaims a Spot instance in two minutes or less.
    InterruptionWarning(InstanceEvent),
    /// AWS may reclaim a Spot instance soon.
    RebalanceRecommendation(InstanceEvent),
    /// An instance has another state now.
    StateChange(InstanceEvent),
    /// Several different events at once, from a queue: look everywhere, and at the objects that were written. A batch that repeats one event
    /// is that event.
    Batch(Vec<ObjectCreated>),
    /// Somebody opens a link, or answers it.
    Reply(ReplyRequest),
}

/// The kinds of events, by which a function declares its triggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// [`Event::Scheduled`].
    Scheduled,
    /// [`Event::BudgetNotification`].
    BudgetNotification,
    /// [`Event::ObjectCreated`].
    ObjectCreated,
    /// [`Event::InterruptionWarning`].
    InterruptionWarning,
    /// [`Event::RebalanceRecommendation`].
    RebalanceRecommendation,
    /// [`Event::StateChange`].
    StateChange,
    /// [`Event::Batch`].
    Batch,
    /// [`Event::Reply`].
    Reply,
}

/// An event that this function does not handle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("this function is woken by {}, and got {got}; nothing was done", listed(.known))]
pub struct UnexpectedEvent {
    known: Vec<EventKind>,
    got: String,
}

/// Text for people about a payload that is no event of use.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct OtherPayload(String);

/// Payload that SNS and SQS hand to Lambda (Lambda developer guide, "Invoking Lambda functions with Amazon SNS notifications" and "Using
/// Lambda with Amazon SQS"). They spell the name of the source differently.
#[derive(Deserialize)]
struct RecordsEvent {
    #[serde(rename = "Records")]
    records: Vec<DeliveredRecord>,
}

#[derive(Deserialize)]
struct DeliveredRecord {
    #[serde(rename = "EventSource", alias = "eventSource")]
    source: String,
    /// The event, in a message of SQS.
    #[serde(default)]
    body: String,
}

impl Event {
    /// Reads an event, if the function handles its kind.
    ///
    /// # Errors
    /// For everything else, with what it was.
    pub fn read(payload: &[u8], known: &[EventKind]) -> Result<Self, UnexpectedEvent> {
        // Nothing else wakes the function that answers links.
        if known == [EventKind::Reply] {
            let request = (payload.len() <= BATCH_BYTES_MAX).then(|| reply::read_request(payload)).flatten();
            let other = || UnexpectedEvent { known: known.to_vec(), got: "something else".to_owned() };
            return request.map(Self::Reply).ok_or_else(other);
        }
        let event = read(payload).and_then(|came| Self::from_known(came, known));
        event.map_err(|OtherPayload(got)| UnexpectedEvent { known: known.to_vec(), got })
    }

    fn from_known(came: RawEvent, known: &[EventKind]) -> Result<Self, OtherPayload> {
        if !known.contains(&came.kind) {
            return Err(came.described());
        }
        let of_instance = |detail| detail::instance_event(came.region.as_deref(), detail);
        Ok(match came.kind {
            EventKind::Batch => batch::read_batch(&came.bodies, known)?,
            EventKind::Scheduled => Self::Scheduled,
            EventKind::BudgetNotification => Self::BudgetNotification,
            EventKind::ObjectCreated => Self::ObjectCreated(detail::object_created(came.at, came.detail)?),
            EventKind::InterruptionWarning => Self::InterruptionWarning(of_instance(came.detail)?),
            EventKind::RebalanceRecommendation => Self::RebalanceRecommendation(of_instance(came.detail)?),
            EventKind::StateChange => Self::StateChange(of_instance(came.detail)?),
            EventKind::Reply => return Err(came.described()),
        })
    }

    #[must_use]
    pub const fn kind(&self) -> EventKind {
        match self {
            Self::Scheduled => EventKind::Scheduled,
            Self::BudgetNotification => EventKind::BudgetNotification,
            Self::ObjectCreated(_) => EventKind::ObjectCreated,
            Self::InterruptionWarning(_) => EventKind::InterruptionWarning,
            Self::RebalanceRecommendation(_) => EventKind::RebalanceRecommendation,
            Self::StateChange(_) => EventKind::StateChange,
            Self::Batch(_) => EventKind::Batch,
            Self::Reply(_) => EventKind::Reply,
        }
    }
}

impl EventKind {
    /// The `detail-type` of `EventBridge`, if it comes from there.
    const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "Scheduled Event",
            Self::BudgetNotification => "a notification by SNS",
            Self::ObjectCreated => "Object Created",
            Self::InterruptionWarning => "EC2 Spot Instance Interruption Warning",
            Self::RebalanceRecommendation => "EC2 Instance Rebalance Recommendation",
            Self::StateChange => "EC2 Instance State-change Notification",
            Self::Batch => "a batch from a queue of SQS",
            Self::Reply => "a request to its address, or a button of a chat",
        }
    }
}

/// An event before its subject is read.
struct RawEvent {
    kind: EventKind,
    source: &'static str,
    region: Option<String>,
    at: Option<Timestamp>,
    detail: Option<Value>,
    /// The events of a batch, as they were sent to the queue.
    bodies: Vec<String>,
}

impl RawEvent {
    fn described(&self) -> OtherPayload {
        OtherPayload(match self.kind {
            EventKind::Scheduled | EventKind::BudgetNotification | EventKind::Batch => self.kind.name().to_owned(),
            other => format!("{} from {}", other.name(), self.source),
        })
    }
}

/// The kind of the event; otherwise a description of what it is.
fn read(payload: &[u8]) -> Result<RawEvent, OtherPayload> {
    if payload.len() > BATCH_BYTES_MAX {
        return Err(OtherPayload(format!(
            "{} bytes, where Lambda hands over {BATCH_BYTES_MAX} at most",
            payload.len()
        )));
    }
    let Ok(text) = std::str::from_utf8(payload) else { return Err(OtherPayload("bytes that are no UTF-8".to_owned())) };
    if text.trim_ascii().is_empty() {
        return Err(OtherPayload("an empty payload".to_owned()));
    }
    let value: Value = match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => value,
        Ok(other) => return Err(OtherPayload(format!("{}, where EventBridge sends an object", kind_of(&other)))),
        Err(error) => return Err(OtherPayload(format!("a payload that is no JSON ({error})"))),
    };
    if value.get("Records").is_some() {
        return by_records(value);
    }
    if payload.len() > BYTES_MAX {
        return Err(OtherPayload(format!("{} bytes, where EventBridge sends {BYTES_MAX} at most", payload.len())));
    }
    by_eventbridge(value)
}

fn by_eventbridge(value: Value) -> Result<RawEvent, OtherPayload> {
    // The schedule needs no detail, and an invocation by hand leaves it out.
    let event: EventBridgeEvent<Option<Value>> = serde_json::from_value(value).map_err(|error| {
        OtherPayload(format!("an object that is no event of EventBridge ({})", quoted(&error.to_string())))
    })?;
    let (source, kind) = match (event.source.as_str(), event.detail_type.as_str()) {
        ("aws.events" | "aws.scheduler", "Scheduled Event") => ("aws.events", EventKind::Scheduled),
        ("aws.s3", "Object Created") => ("aws.s3", EventKind::ObjectCreated),
        ("aws.ec2", "EC2 Spot Instance Interruption Warning") => ("aws.ec2", EventKind::InterruptionWarning),
        ("aws.ec2", "EC2 Instance Rebalance Recommendation") => ("aws.ec2", EventKind::RebalanceRecommendation),
        ("aws.ec2", "EC2 Instance State-change Notification") => ("aws.ec2", EventKind::StateChange),
        (source, detail_type) => return Err(OtherPayload(format!("{} from {}", quoted(detail_type), quoted(source)))),
    };
    let at = event.time.and_then(|time| Timestamp::from_second(time.timestamp()).ok());
    Ok(RawEvent { kind, source, region: event.region, at, detail: event.detail, bodies: Vec::new() })
}

/// Messages of the one topic that the function is subscribed to, or of the one queue that it reads.
fn by_records(value: Value) -> Result<RawEvent, OtherPayload> {
    let RecordsEvent { records } = serde_json::from_value(value).map_err(|error| {
        OtherPayload(format!("records that are neither of SNS nor of SQS ({})", quoted(&error.to_string())))
    })?;
    let Some(first) = records.first() else { return Err(OtherPayload("no record at all".to_owned())) };
    let (kind, source) = match first.source.as_str() {
        "aws:sns" => (EventKind::BudgetNotification, "aws:sns"),
        "aws:sqs" => (EventKind::Batch, "aws:sqs"),
        other => return Err(OtherPayload(format!("records of {}", quoted(other)))),
    };
    if let Some(other) = records.iter().find(|record| record.source != source) {
        return Err(OtherPayload(format!("records of {}", quoted(&other.source))));
    }
    let bodies = records.into_iter().map(|record| record.body).collect();
    Ok(RawEvent { kind, source, region: None, at: None, detail: None, bodies })
}

fn listed(known: &[EventKind]) -> String {
    match known {
        [] => "nothing".to_owned(),
        [one] => one.name().to_owned(),
        [all @ .., last] => {
            let all: Vec<&str> = all.iter().map(|kind| kind.name()).collect();
            format!("{} or {}", all.join(", "), last.name())
        }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn quoted(text: &str) -> String {
    shortened(text, QUOTED_CHARACTERS_MAX)
}

#[cfg(test)]
mod tests;
