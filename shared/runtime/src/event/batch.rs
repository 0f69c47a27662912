//! The events that a queue of SQS hands over at once.

use super::{Event, EventKind, read};

/// Reads the events of a batch. Where all are the same event it is that one; else it is [`Event::Batch`].
///
/// A message that the function has no use for is skipped, and logged. It must not bring back the messages beside it.
///
/// # Errors
/// Where the function has no use for any of them, with what the first one was.
pub(super) fn read_batch(bodies: &[String], known: &[EventKind]) -> Result<Event, String> {
    let mut events = Vec::new();
    let mut refused = None;
    for body in bodies {
        match read_message(body, known) {
            Ok(event) => events.push(event),
            Err(got) => {
                tracing::warn!("a message of the queue was skipped: it is {got}");
                refused.get_or_insert(got);
            }
        }
    }
    match events.as_slice() {
        [] => Err(format!("a batch whose first message is {}", refused.unwrap_or_else(|| "missing".to_owned()))),
        [first, others @ ..] if others.iter().all(|other| other == first) => Ok(first.clone()),
        _ => Ok(Event::Batch),
    }
}

fn read_message(body: &str, known: &[EventKind]) -> Result<Event, String> {
    let came = read(body.as_bytes())?;
    // A queue holds events of EventBridge alone.
    if matches!(came.kind, EventKind::Batch | EventKind::BudgetNotification) {
        return Err(came.described());
    }
    Event::from_known(came, known)
}
