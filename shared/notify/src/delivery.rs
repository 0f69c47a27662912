//! Result of sending a run's messages to the topics.

use std::collections::{BTreeMap, BTreeSet};

use model::channels::Audience;
use model::id::Region;
use model::notification_log::{Notification, UndeliveredCause, UndeliveredParagraph};
use model::subscriptions::TopicSubscriptions;
use plan::report::Report;

use crate::Message;
use crate::remember::to_undelivered;

/// Result of sending a run's messages.
#[derive(Debug)]
pub struct Delivery {
    /// The teams whose notifications count as sent: a topic accepted all of them. Where it is known who reads what is announced to the team,
    /// that is a topic with a reader.
    pub teams: BTreeSet<String>,
    /// The topics of the deployment.
    pub(crate) audiences: Vec<Audience>,
    /// The topics that did not accept every message about a team.
    refused: BTreeSet<(Audience, String)>,
    /// The notifications that count as sent, and that one topic did not accept.
    missed: Vec<(Region, UndeliveredParagraph)>,
}

impl Delivery {
    /// The result of sending messages with these notifications. `messages`: each with `true` if SNS accepted it.
    #[must_use]
    pub fn new(
        messages: &[(Message, bool)],
        audiences_of_deployment: &[Audience],
        report: &Report,
        notifications: &[Notification],
        subscriptions: Option<&TopicSubscriptions>,
    ) -> Self {
        let mut audiences: BTreeMap<&str, BTreeSet<Audience>> = BTreeMap::new();
        let mut refused = BTreeSet::new();
        for (message, is_accepted) in messages {
            for team in &message.teams {
                audiences.entry(team).or_default().insert(message.audience);
            }
            if !is_accepted {
                refused.extend(message.teams.iter().map(|team| (message.audience, team.clone())));
            }
        }
        let is_sent = |team: &str, audiences: &BTreeSet<Audience>| {
            let reads = |audience: &&Audience| {
                subscriptions.is_some_and(|all| all.has_announcement_reader(**audience, team, report.function))
            };
            let is_refused = |audience: &Audience| refused.contains(&(*audience, team.to_owned()));
            let mut reading = audiences.iter().filter(reads).peekable();
            match reading.peek() {
                Some(_) => !reading.all(is_refused),
                None => !audiences.iter().all(is_refused),
            }
        };
        let sent = audiences.iter().filter(|(team, audiences)| is_sent(team, audiences));
        let teams: BTreeSet<String> = sent.map(|(team, _)| (*team).to_owned()).collect();
        let delivery = Self { teams, audiences: audiences_of_deployment.to_vec(), refused, missed: Vec::new() };
        let counted = notifications.iter().filter(|one| delivery.teams.contains(&one.team));
        let missed = counted.flat_map(|one| delivery.undelivered(one, report)).collect();
        Self { missed, ..delivery }
    }

    /// Returns `true` if the topic of this audience accepted every message about the team, or there was none.
    #[must_use]
    pub fn is_accepted(&self, audience: Audience, team: &str) -> bool {
        !self.refused.contains(&(audience, team.to_owned()))
    }

    /// The paragraphs of a region that count as sent, and that one topic did not accept.
    pub(crate) fn missed(&self, region: &Region) -> impl Iterator<Item = UndeliveredParagraph> {
        self.missed.iter().filter(move |(missed_region, _)| missed_region == region).map(|(_, one)| one.clone())
    }

    /// The paragraph of a notification, for each topic that did not accept it.
    pub(crate) fn undelivered(
        &self,
        notification: &Notification,
        report: &Report,
    ) -> impl Iterator<Item = (Region, UndeliveredParagraph)> {
        let refused = self.audiences.iter().filter(|audience| !self.is_accepted(**audience, &notification.team));
        refused.map(|audience| {
            let paragraph = to_undelivered(notification, UndeliveredCause::Refused, *audience, report);
            (notification.region.clone(), paragraph)
        })
    }
}
