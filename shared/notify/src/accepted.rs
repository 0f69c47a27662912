//! The announcements whose message SNS has accepted.

use std::collections::BTreeMap;

use model::id::{Region, ResourceId};
use model::notification_log::{Notification, NotificationKey, NotificationKind};
use model::rule::Rule;
use plan::{Action, SnapshotAction, Step, VolumeAction};

use crate::Delivery;

/// The notifications about resources that SNS has accepted.
pub struct AcceptedNotifications<'a>(BTreeMap<(&'a Region, &'a ResourceId), Vec<&'a NotificationKind>>);

impl<'a> AcceptedNotifications<'a> {
    /// The notifications of the teams whose messages count as sent.
    #[must_use]
    pub fn new(notifications: &'a [Notification], delivery: &Delivery) -> Self {
        let mut accepted: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for one in notifications.iter().filter(|one| delivery.is_delivered(one)) {
            if let Some(resource) = &one.resource {
                accepted.entry((&one.region, resource)).or_default().push(&one.kind);
            }
        }
        Self(accepted)
    }

    /// Returns `true` if the owner was notified of what a step announces, now or earlier. A message to the team is not enough: a bug may
    /// have kept this resource out of it.
    #[must_use]
    pub fn has_announcement(&self, step: &Step) -> bool {
        let kinds = self.0.get(&(&step.target.region, &step.target.resource));
        step.already_notified || kinds.is_some_and(|kinds| kinds.iter().any(|kind| announces(step, kind)))
    }
}

fn announces(step: &Step, kind: &NotificationKind) -> bool {
    match &step.action {
        Action::Volume(_, VolumeAction::Delete { .. }) => *kind == NotificationKind::Event,
        Action::Snapshot(_, SnapshotAction::AnnounceExpiry(_)) => {
            let expiry = NotificationKey::rule(Rule::Expired);
            matches!(kind, NotificationKind::State { topic, .. } if *topic == expiry)
        }
        _ => *kind == NotificationKind::Announcement,
    }
}
