//! Notifications as events for EventBridge. `docs/chat.md` has their schema.

use std::collections::BTreeSet;

use jiff::Timestamp;
use model::id::{Region, ResourceId, RunId};
use model::mode::Mode;
use model::notification_log::{Headline, NO_TEAM, Notification, NotificationFacts, NotificationKind, Severity};
use plan::report::Report;
use serde::Serialize;

use crate::Message;

/// The event's `source`.
pub const SOURCE: &str = "curfew";
/// The event's `detail-type`.
pub const DETAIL_TYPE: &str = "Curfew Notification";

const SCHEMA: u32 = 1;
/// The ten events of a call have 256 KB together (Amazon EventBridge user guide, "Calculating event entry size"), and JSON may
/// double a text. Only tags make one longer.
const TEXT_BYTES_MAX: usize = 8 * 1024;

/// One event; `source` and `detail-type` are those of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// A JSON object.
    pub detail: String,
}

#[derive(Serialize)]
struct Detail<'a> {
    schema: u32,
    function: &'static str,
    run: &'a RunId,
    at: Timestamp,
    mode: Mode,
    team: &'a str,
    severity: &'static str,
    kind: &'static str,
    about: &'static str,
    headline: String,
    region: Option<&'a Region>,
    resource: Option<&'a ResourceId>,
    #[serde(flatten)]
    facts: NotificationFacts,
    loses: Option<&'a str>,
    text: String,
}

/// One event for each notification, in their order.
#[must_use]
pub fn events(report: &Report, notifications: &[&Notification]) -> Vec<Event> {
    let to_event = |one: &&Notification| {
        Event::new(&Detail {
            team: &one.team,
            severity: one.severity.as_str(),
            kind: match one.kind {
                NotificationKind::Event => "event",
                NotificationKind::State { .. } => "state",
                NotificationKind::Announcement => "announcement",
            },
            about: one.headline.object.as_str(),
            headline: Headline::describe(&[&one.headline], &BTreeSet::from([one.team.as_str()]), &report.zoned_at()),
            region: Some(&one.region).filter(|region| !region.as_str().is_empty()),
            resource: one.resource.as_ref(),
            facts: one.facts.clone(),
            loses: one.loses.as_deref(),
            ..Detail::for_run(report, &one.text)
        })
    };
    notifications.iter().map(to_event).collect()
}

/// The event of a message without paragraphs: the digest of a report.
#[must_use]
pub fn digest_event(report: &Report, message: &Message) -> Event {
    Event::new(&Detail {
        team: &message.team,
        severity: message.severity,
        about: "report",
        headline: message.body.lines().next().unwrap_or_default().trim_end_matches('.').to_owned(),
        ..Detail::for_run(report, &message.body)
    })
}

impl Event {
    fn new(detail: &Detail<'_>) -> Self {
        // A struct of texts and numbers has no value that JSON lacks.
        Self { detail: serde_json::to_string(detail).unwrap_or_default() }
    }
}

impl<'a> Detail<'a> {
    fn for_run(report: &'a Report, text: &str) -> Self {
        Self {
            schema: SCHEMA,
            function: report.function,
            run: &report.run,
            at: report.at,
            mode: report.mode,
            team: NO_TEAM,
            severity: Severity::Info.as_str(),
            kind: "event",
            about: "",
            headline: String::new(),
            region: None,
            resource: None,
            facts: NotificationFacts::default(),
            loses: None,
            text: text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned(),
        }
    }
}
