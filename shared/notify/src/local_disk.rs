//! The choice that decides whether idleness acts at all: the fate of NVMe storage, while nobody has chosen it.

use billing::price::format_quote_sum;
use jiff::{SignedDuration, Timestamp};
use model::id::Region;
use model::notification_log::{
    Headline, HeadlineObject, NO_TEAM, Notification, NotificationFacts, NotificationKey, NotificationKind,
    NotificationLogs, Paragraph, RepeatPolicy, Severity, is_known,
};
use plan::Step;

/// The question is repeated while nobody answers it: the first one often finds no reader yet.
pub(super) const ASK_AGAIN_AFTER: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Key of the notification in the log of the home region.
pub(super) fn choice_key() -> NotificationKey {
    NotificationKey::named("local-disk-choice")
}

/// The notification that idleness only notifies of these instances because nobody has chosen `local_disk`; `None` if there are none, or it was
/// sent within a week.
#[must_use]
pub fn local_disk_notification(
    withheld: &[&Step],
    home: &Region,
    memory: &NotificationLogs,
    now: Timestamp,
) -> Option<Notification> {
    let quotes = withheld.iter().map(|step| step.saves);
    let is_priced = quotes.clone().any(|quote| quote.is_some());
    let cost = if is_priced { format_quote_sum(quotes) } else { "an unknown amount".to_owned() };
    let (instances, cost_verb, whose) = match withheld.len() {
        0 => return None,
        1 => ("1 idle instance".to_owned(), "costs", "its"),
        count => (format!("{count} idle instances"), "cost", "their"),
    };
    let text = format!(
        "Curfew only notifies of {instances}, which {cost_verb} {cost}, because a stop would erase {whose} NVMe storage and nobody has chosen \
         whether it may. Choose local_disk in [idle] of the configuration, or for a team: \"keep\" leaves such instances running; \"24h\" allows a stop \
         a day after the announcement of what is lost; \"expendable\" allows it after the usual grace. Curfew says this once a week, until it is chosen."
    );
    let notification = Notification {
        team: NO_TEAM.to_owned(),
        severity: Severity::Info,
        region: home.clone(),
        resource: None,
        kind: NotificationKind::State { topic: choice_key(), what: "open".to_owned(), repeat: RepeatPolicy::Never },
        text: Paragraph::new(&text),
        happened: false,
        mode: None,
        loses: None,
        headline: Headline::new(
            "Curfew only notified of idle instances, and asked for the choice of {}",
            HeadlineObject::Configuration,
            "local_disk",
        ),
        facts: NotificationFacts::default(),
    };
    (!is_known(&notification, memory, now)).then_some(notification)
}
