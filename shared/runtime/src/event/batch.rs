//! The events of one batch from an SQS queue.

use super::{Event, EventKind, OtherPayload, read};

/// Reads the events of a batch. If all are the same event it is that one; otherwise [`Event::Batch`].
///
/// A message that the function does not handle is skipped, and logged. It must not bring back the other messages.
///
/// # Errors
/// If the function handles none of them, with what the first one was.
pub(super) fn read_batch(bodies: &[String], known: &[EventKind]) -> Result<Event, OtherPayload> {
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
        [] => {
            let first = refused.map_or_else(|| "missing".to_owned(), |got| got.to_string());
            Err(OtherPayload(format!("a batch whose first message is {first}")))
        }
        [first, others @ ..] if others.iter().all(|other| other == first) => Ok(first.clone()),
        _ => {
            let mut objects = Vec::new();
            for event in events {
                if let Event::ObjectCreated(object) = event {
                    objects.push(object);
                }
            }
            Ok(Event::Batch(objects))
        }
    }
}

fn read_message(body: &str, known: &[EventKind]) -> Result<Event, OtherPayload> {
    let came = read(body.as_bytes())?;
    // A queue holds events of EventBridge alone.
    if matches!(came.kind, EventKind::Batch | EventKind::BudgetNotification) {
        return Err(came.described());
    }
    Event::from_known(came, known)
}
