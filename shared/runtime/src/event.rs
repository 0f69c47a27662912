//! What woke the function: the event, as `EventBridge` delivers it.

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
}

/// An event that this function has no use for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("this function is woken by Scheduled Event, and got {0}; nothing was done")]
pub struct UnexpectedEvent(String);

impl Event {
    /// Reads an event as it came.
    ///
    /// # Errors
    /// On everything but an event that a function knows, with what it was.
    pub fn read(payload: &[u8]) -> Result<Self, UnexpectedEvent> {
        let unexpected = |what: String| Err(UnexpectedEvent(what));
        if payload.len() > BYTES_MAX {
            return unexpected(format!("{} bytes, where EventBridge sends {BYTES_MAX} at most", payload.len()));
        }
        let Ok(text) = std::str::from_utf8(payload) else { return unexpected("bytes that are no UTF-8".to_owned()) };
        if text.trim_ascii().is_empty() {
            return unexpected("an empty payload".to_owned());
        }
        let value: Value = match serde_json::from_str(text) {
            Ok(value @ Value::Object(_)) => value,
            Ok(other) => return unexpected(format!("{}, where EventBridge sends an object", kind_of(&other))),
            Err(error) => return unexpected(format!("a payload that is no JSON ({error})")),
        };
        // Nothing hangs on the detail, and whoever wakes a function by hand leaves it out.
        let event: EventBridgeEvent<Option<Value>> = match serde_json::from_value(value) {
            Ok(event) => event,
            Err(error) => {
                return unexpected(format!(
                    "an object that is no event of EventBridge ({})",
                    quoted(&error.to_string())
                ));
            }
        };
        match (event.source.as_str(), event.detail_type.as_str()) {
            ("aws.events" | "aws.scheduler", "Scheduled Event") => Ok(Self::Scheduled),
            (source, detail_type) => unexpected(format!("{} from {}", quoted(detail_type), quoted(source))),
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
