//! What woke the function: the event, as `EventBridge` delivers it, or SNS.

use aws_lambda_events::eventbridge::EventBridgeEvent;
use domain::fault::shortened;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The largest event, in bytes (EventBridge user guide, "Calculating `PutEvents` event entry size").
const BYTES_MAX: usize = 256 * 1024;

/// The longest foreign text that an error repeats, in characters.
const QUOTED_CHARACTERS_MAX: usize = 100;

/// What woke the function. An event only says where to look now, never what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// The schedule, of an `EventBridge` rule (`aws.events`) or of `EventBridge` Scheduler (`aws.scheduler`).
    Scheduled,
    /// AWS Budgets, by its SNS topic. The text is never read: it is plain English, hours late, and says nothing that the ledger
    /// does not know better.
    BudgetNotification,
}

/// An event that this function has no use for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("this function is woken by {}, and got {got}; nothing was done", listed(.known))]
pub struct UnexpectedEvent {
    known: Vec<Event>,
    got: String,
}

/// What SNS hands to Lambda (Lambda developer guide, "Invoking Lambda functions with Amazon SNS notifications").
#[derive(Deserialize)]
struct Delivery {
    #[serde(rename = "Records")]
    records: Vec<Record>,
}

#[derive(Deserialize)]
struct Record {
    #[serde(rename = "EventSource")]
    source: String,
}

impl Event {
    /// Reads an event as it came, if it is of those that the function knows.
    ///
    /// # Errors
    /// On everything else, with what it was.
    pub fn read(payload: &[u8], known: &[Self]) -> Result<Self, UnexpectedEvent> {
        let event = read(payload)
            .and_then(|event| if known.contains(&event) { Ok(event) } else { Err(event.name().to_owned()) });
        event.map_err(|got| UnexpectedEvent { known: known.to_vec(), got })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "Scheduled Event",
            Self::BudgetNotification => "a notification by SNS",
        }
    }
}

/// What it is, whoever has use for it; else what else it is, in words.
fn read(payload: &[u8]) -> Result<Event, String> {
    if payload.len() > BYTES_MAX {
        return Err(format!("{} bytes, where EventBridge sends {BYTES_MAX} at most", payload.len()));
    }
    let Ok(text) = std::str::from_utf8(payload) else { return Err("bytes that are no UTF-8".to_owned()) };
    if text.trim_ascii().is_empty() {
        return Err("an empty payload".to_owned());
    }
    let value: Value = match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => value,
        Ok(other) => return Err(format!("{}, where EventBridge sends an object", kind_of(&other))),
        Err(error) => return Err(format!("a payload that is no JSON ({error})")),
    };
    if value.get("Records").is_some() { by_sns(value) } else { by_eventbridge(value) }
}

fn by_eventbridge(value: Value) -> Result<Event, String> {
    // Nothing hangs on the detail, and whoever wakes a function by hand leaves it out.
    let event: EventBridgeEvent<Option<Value>> = serde_json::from_value(value)
        .map_err(|error| format!("an object that is no event of EventBridge ({})", quoted(&error.to_string())))?;
    match (event.source.as_str(), event.detail_type.as_str()) {
        ("aws.events" | "aws.scheduler", "Scheduled Event") => Ok(Event::Scheduled),
        (source, detail_type) => Err(format!("{} from {}", quoted(detail_type), quoted(source))),
    }
}

/// One message, or several at once, of the one topic that the function is subscribed to.
fn by_sns(value: Value) -> Result<Event, String> {
    let delivery: Delivery = serde_json::from_value(value)
        .map_err(|error| format!("records that are none of SNS ({})", quoted(&error.to_string())))?;
    match delivery.records.iter().find(|record| record.source != "aws:sns") {
        Some(other) => Err(format!("records of {}", quoted(&other.source))),
        None if delivery.records.is_empty() => Err("no record at all".to_owned()),
        None => Ok(Event::BudgetNotification),
    }
}

fn listed(known: &[Event]) -> String {
    known.iter().map(|event| event.name()).collect::<Vec<_>>().join(" or ")
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
