//! Result of sending a run's messages and mails.

use std::collections::{BTreeMap, BTreeSet};

use model::channels::Audience;
use model::id::{Region, ResourceId};
use model::notification_log::{
    Notification, NotificationKey, NotificationKind, NotificationLogs, UndeliveredCause, UndeliveredParagraph,
};
use model::ownership::OwnerSender;
use model::rule::Rule;
use model::subscriptions::TopicSubscriptions;
use plan::report::Report;
use plan::{Action, SnapshotAction, Step, VolumeAction};

use crate::Message;
use crate::message::{is_enforced_announcement, mailed_owner};
use crate::remember::to_undelivered;

/// The recipients of a run's messages, as far as they are known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recipients<'a> {
    /// `None` if they were not read.
    pub subscriptions: Option<&'a TopicSubscriptions>,
    /// `None` if owners are not mailed.
    pub owner_sender: Option<&'a OwnerSender>,
    /// The topic to which a later run sends what this one has.
    pub postponed: Option<Audience>,
}

/// The answers to a run's messages and mails.
#[derive(Debug)]
pub struct Answers<'a> {
    /// The topics of the deployment.
    pub audiences: &'a [Audience],
    /// The messages, each with `true` if SNS accepted it.
    pub messages: &'a [(Message, bool)],
    /// The owners of whose mails SES did not accept all.
    pub unmailed: BTreeSet<String>,
}

/// Result of sending a run's messages and mails.
#[derive(Debug)]
pub struct Delivery {
    pub(crate) audiences: Vec<Audience>,
    /// The teams whose messages a topic accepted; where it is known who reads what is announced to a team, a topic with a reader.
    teams: BTreeSet<String>,
    /// Teams among them whose announcements no subscriber reads.
    unread: BTreeSet<String>,
    /// The topics that did not accept every message about a team.
    refused: BTreeSet<(Audience, String)>,
    owner_sender: Option<OwnerSender>,
    unmailed: BTreeSet<String>,
    postponed: Option<Audience>,
    /// The notifications that count as sent, and that one topic did not accept.
    missed: Vec<(Region, UndeliveredParagraph)>,
}

impl Recipients<'_> {
    /// The notifications to send to the topics. An announcement that nobody but its owner reads is not sent there while SES refuses his mail: it
    /// counts for nothing, and each run would repeat it.
    #[must_use]
    pub fn without_unheard(
        &self,
        notifications: &[Notification],
        function: &str,
        unmailed: &BTreeSet<String>,
    ) -> Vec<Notification> {
        let is_unread =
            |team: &str| self.subscriptions.is_some_and(|all| all.reading_audiences(team, function).is_empty());
        let is_unheard = |one: &&Notification| {
            let owner = self.owner_sender.and_then(|sender| mailed_owner(one, sender));
            one.kind == NotificationKind::Announcement
                && owner.is_some_and(|owner| unmailed.contains(owner))
                && is_unread(&one.team)
        };
        notifications.iter().filter(|one| !is_unheard(one)).cloned().collect()
    }
}

impl Delivery {
    /// The result of sending these notifications.
    #[must_use]
    pub fn new(
        answers: Answers<'_>,
        report: &Report,
        notifications: &[Notification],
        recipients: Recipients<'_>,
    ) -> Self {
        let mut delivery = Self {
            audiences: answers.audiences.to_vec(),
            teams: BTreeSet::new(),
            unread: BTreeSet::new(),
            refused: BTreeSet::new(),
            owner_sender: recipients.owner_sender.cloned(),
            unmailed: answers.unmailed,
            postponed: recipients.postponed,
            missed: Vec::new(),
        };
        let mut audiences: BTreeMap<&str, BTreeSet<Audience>> = BTreeMap::new();
        for (message, is_accepted) in answers.messages {
            for team in &message.teams {
                audiences.entry(team).or_default().insert(message.audience);
                if !is_accepted {
                    delivery.refused.insert((message.audience, team.clone()));
                }
            }
        }
        for (team, audiences) in audiences {
            let readers = recipients.subscriptions.map(|all| all.reading_audiences(team, report.function));
            let read: BTreeSet<Audience> = audiences.intersection(&readers.unwrap_or_default()).copied().collect();
            let counting = if read.is_empty() { &audiences } else { &read };
            if counting.iter().any(|audience| delivery.is_accepted(*audience, team)) {
                delivery.teams.insert(team.to_owned());
            }
            if read.is_empty() && recipients.subscriptions.is_some() {
                delivery.unread.insert(team.to_owned());
            }
        }
        let counted = notifications.iter().filter(|one| delivery.is_delivered(one));
        delivery.missed = counted.flat_map(|one| delivery.undelivered(one, report)).collect();
        delivery
    }

    /// Returns `true` if somebody who reads it can have the notification: a topic with a reader accepted all about its team, or SES accepted
    /// the mails to its owner. Where nobody reads it, it is enough that a topic accepted it.
    #[must_use]
    pub fn is_delivered(&self, notification: &Notification) -> bool {
        let owner = self.owner_sender.as_ref().and_then(|sender| mailed_owner(notification, sender));
        match owner {
            Some(owner) if !self.unmailed.contains(owner) => true,
            Some(_) => self.is_read_by_team(&notification.team),
            None if is_enforced_announcement(notification) => self.is_read_by_team(&notification.team),
            None => self.is_delivered_to_team(&notification.team),
        }
    }

    fn is_read_by_team(&self, team: &str) -> bool {
        self.is_delivered_to_team(team) && !self.unread.contains(team)
    }

    /// Returns `true` if every topic accepted all about the team.
    #[must_use]
    pub fn is_delivered_to_all(&self, team: &str) -> bool {
        self.audiences.iter().all(|audience| self.is_accepted(*audience, team))
    }

    /// The topic to which a later run sends what this one has.
    #[must_use]
    pub const fn postponed(&self) -> Option<Audience> {
        self.postponed
    }

    /// Returns `true` if the paragraph is still owed to its topic.
    pub(crate) fn still_owes(&self, paragraph: &UndeliveredParagraph) -> bool {
        let has_topic = self.audiences.contains(&paragraph.audience);
        !has_topic || !self.is_accepted(paragraph.audience, &paragraph.team)
    }

    /// Returns `true` if no later run sends the notification again as new: it was delivered, or it is undelivered.
    #[must_use]
    pub fn is_settled(&self, notification: &Notification) -> bool {
        notification.happened || self.is_delivered(notification)
    }

    /// Returns `true` if a topic accepted every message about the team.
    #[must_use]
    pub fn is_delivered_to_team(&self, team: &str) -> bool {
        self.teams.contains(team)
    }

    /// Returns `true` if the topic of this audience accepted every message about the team, or there was none, and it was not postponed.
    #[must_use]
    pub fn is_accepted(&self, audience: Audience, team: &str) -> bool {
        self.postponed != Some(audience) && !self.refused.contains(&(audience, team.to_owned()))
    }

    /// The paragraphs that count as sent, and that one topic did not accept, for the log of this region. Those of a region without a log are for the
    /// first one.
    pub(crate) fn missed(
        &self,
        region: &Region,
        logs: &NotificationLogs,
    ) -> impl Iterator<Item = UndeliveredParagraph> {
        let is_first = logs.keys().next() == Some(region);
        let is_here =
            move |(its_region, _): &&(Region, _)| its_region == region || (is_first && !logs.contains_key(its_region));
        self.missed.iter().filter(is_here).map(|(_, one)| one.clone())
    }

    /// The paragraph of a notification, for each topic that did not accept it.
    pub(crate) fn undelivered(
        &self,
        notification: &Notification,
        report: &Report,
    ) -> impl Iterator<Item = (Region, UndeliveredParagraph)> {
        let refused = self.audiences.iter().filter(|audience| !self.is_accepted(**audience, &notification.team));
        refused.map(|audience| {
            let is_postponed = self.postponed == Some(*audience);
            let cause = if is_postponed { UndeliveredCause::Late } else { UndeliveredCause::Refused };
            let paragraph = to_undelivered(notification, cause, *audience, report);
            (notification.region.clone(), paragraph)
        })
    }
}

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
