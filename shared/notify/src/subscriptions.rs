//! The subscriptions of the topic, and which of them receive a message.
//!
//! A confirmed subscription is a reader of a message only if SNS delivers the message to it. So a stop has to be announced to a
//! subscription whose filter policy lets the announcement through; one that Curfew cannot evaluate counts as none.

mod filter_policy;

use std::collections::BTreeSet;

use model::foreign_text::quoted_unless_word;
use model::notification_log::{NO_TEAM, Severity};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use filter_policy::{Delivery, FilterPolicy, FilterPolicyError};

/// Severities of the messages that announce a stop. The announcement is a warning, and a message has the greatest severity of its
/// paragraphs.
const ANNOUNCING_SEVERITIES: [Severity; 3] = [Severity::Warning, Severity::Action, Severity::Error];
/// Endpoint of each channel that Amazon Q Developer in chat applications shows (its administrator guide).
const CHAT_ENDPOINT: &str = "https://global.sns-api.chatbot.amazonaws.com";

/// One subscription of the topic.
#[derive(Debug, Clone, PartialEq)]
pub struct Subscription {
    /// Such as `email`.
    pub protocol: String,
    /// Such as an address.
    pub endpoint: String,
    pub state: SubscriptionState,
    pub filter: SubscriptionFilter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionState {
    Confirmed,
    /// The owner has not confirmed it, or SNS has suspended an address that got more than 10 messages a second (SNS developer guide, "Email
    /// subscription setup and management").
    Pending,
    Deleted,
}

impl SubscriptionState {
    /// The state by the `SubscriptionArn` of a list, which is a word unless the subscription is confirmed (SNS API reference, "Subscribe").
    #[must_use]
    pub fn from_arn(arn: &str) -> Self {
        match arn {
            "Deleted" => Self::Deleted,
            arn if arn.starts_with("arn:") => Self::Confirmed,
            _ => Self::Pending,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum SubscriptionFilter {
    /// SNS delivers every message.
    None,
    Policy(FilterPolicy),
    /// The policy could not be read, with the reason.
    Unreadable(String),
}

impl SubscriptionFilter {
    /// The filter by a subscription's attributes `FilterPolicy` and `FilterPolicyScope`.
    #[must_use]
    pub fn from_attributes(policy: Option<&str>, scope: Option<&str>) -> Self {
        match policy.map(|policy| FilterPolicy::parse(policy, scope.unwrap_or_default())) {
            None => Self::None,
            Some(Ok(policy)) => Self::Policy(policy),
            Some(Err(error)) => Self::Unreadable(error.to_string()),
        }
    }
}

/// Recipient behind an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecipientKind {
    Person,
    /// A channel of Slack or Teams.
    Chat,
    /// A program, such as a ticket system behind a queue. No person may read what it receives.
    Program,
}

impl Subscription {
    #[must_use]
    pub fn recipient(&self) -> RecipientKind {
        match self.protocol.as_str() {
            "email" | "email-json" | "sms" | "application" => RecipientKind::Person,
            "https" if self.endpoint.trim_end_matches('/') == CHAT_ENDPOINT => RecipientKind::Chat,
            _ => RecipientKind::Program,
        }
    }

    /// Predicts whether SNS delivers a message of plain text.
    #[must_use]
    pub fn evaluate(&self, attributes: &MessageAttributes<'_>) -> Delivery {
        match &self.filter {
            _ if self.state != SubscriptionState::Confirmed => Delivery::FilteredOut,
            SubscriptionFilter::None => Delivery::Delivered,
            // No plain text of Curfew is JSON.
            SubscriptionFilter::Policy(policy) => policy.evaluate(&attributes.to_map(), ""),
            SubscriptionFilter::Unreadable(_) => Delivery::Unknown,
        }
    }

    fn endpoint_key(&self) -> SubscribedEndpoint {
        SubscribedEndpoint { protocol: self.protocol.clone(), endpoint: self.endpoint.clone() }
    }
}

/// The attributes of a [`Message`](crate::Message), by which SNS filters it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageAttributes<'a> {
    pub team: &'a str,
    pub function: &'a str,
    pub severity: Severity,
}

impl MessageAttributes<'_> {
    /// The attributes that have a value: SNS refuses any other.
    fn to_map(self) -> Map<String, Value> {
        let all = [("team", self.team), ("function", self.function), ("severity", self.severity.as_str())];
        all.iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| ((*key).to_owned(), (*value).into()))
            .collect()
    }

    /// Such as `messages of severity warning about team nlp`.
    fn describe(&self) -> String {
        let about = match self.team {
            NO_TEAM | "" => "resources without a team".to_owned(),
            team => format!("team {}", quoted_unless_word(team)),
        };
        format!("messages of severity {} about {about}", self.severity.as_str())
    }
}

/// Result of the question who receives a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Readership<'a> {
    /// The subscriptions that receive it, at least one.
    Readers(Vec<&'a Subscription>),
    /// No subscription receives it, with the reason.
    NoReader(String),
    /// No subscription is known to receive it, with the reason for which one may.
    Unknown(String),
}

/// The subscriptions of a topic.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicSubscriptions {
    subscriptions: Vec<Subscription>,
    /// `false` if the topic may have more.
    is_complete: bool,
}

impl TopicSubscriptions {
    #[must_use]
    pub const fn new(subscriptions: Vec<Subscription>, is_complete: bool) -> Self {
        Self { subscriptions, is_complete }
    }

    /// Finds the readers of the messages of a function that announce a stop to a team. An announcement has readers only if it has some with
    /// each severity that its message can have; these are then the readers of the warning.
    #[must_use]
    pub fn announcement_readers(&self, team: &str, function: &str) -> Readership<'_> {
        let readers = |severity| self.message_readers(&MessageAttributes { team, function, severity });
        let rank = |readership: &Readership<'_>| match readership {
            Readership::NoReader(_) => 0,
            Readership::Unknown(_) => 1,
            Readership::Readers(_) => 2,
        };
        let [warning, others @ ..] = ANNOUNCING_SEVERITIES.map(readers);
        others.into_iter().fold(warning, |worst, next| if rank(&next) < rank(&worst) { next } else { worst })
    }

    /// Finds the readers of a message of plain text.
    #[must_use]
    pub fn message_readers(&self, attributes: &MessageAttributes<'_>) -> Readership<'_> {
        let with = |delivery| {
            let all = self.subscriptions.iter();
            all.filter(move |one| one.state == SubscriptionState::Confirmed && one.evaluate(attributes) == delivery)
        };
        let readers: Vec<_> = with(Delivery::Delivered).collect();
        if !readers.is_empty() {
            return Readership::Readers(readers);
        }
        let unknown: Vec<_> = with(Delivery::Unknown).collect();
        if let Some(first) = unknown.first() {
            let reason = match &first.filter {
                SubscriptionFilter::Unreadable(reason) => reason,
                _ => "its filter policy is not one that Curfew can evaluate",
            };
            let endpoint = quoted_unless_word(&first.endpoint);
            let more = match unknown.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let receives = if more.is_empty() { "receives" } else { "receive" };
            return Readership::Unknown(format!(
                "Curfew cannot tell whether {} {endpoint}{more} {receives} {}: {reason}",
                first.protocol,
                attributes.describe(),
            ));
        }
        if !self.is_complete {
            let reason = "no subscription that Curfew could list receives";
            return Readership::Unknown(format!("{reason} {}, but the list is incomplete", attributes.describe()));
        }
        Readership::NoReader(self.explain_no_reader(attributes))
    }

    fn explain_no_reader(&self, attributes: &MessageAttributes<'_>) -> String {
        let count = |state| self.subscriptions.iter().filter(|one| one.state == state).count();
        match (count(SubscriptionState::Confirmed), count(SubscriptionState::Pending)) {
            (0, 0) => "the topic has no subscription".to_owned(),
            (0, 1) => "the only subscription of the topic is not confirmed".to_owned(),
            (0, pending) => format!("none of the {pending} subscriptions of the topic is confirmed"),
            (1, _) => format!("the only confirmed subscription filters out {}", attributes.describe()),
            (confirmed, _) => {
                format!("each of the {confirmed} confirmed subscriptions filters out {}", attributes.describe())
            }
        }
    }

    /// The endpoints to remember for [`Self::lost_endpoints`] of a later run.
    #[must_use]
    pub fn confirmed_endpoints(&self) -> BTreeSet<SubscribedEndpoint> {
        let confirmed = self.subscriptions.iter().filter(|one| one.state == SubscriptionState::Confirmed);
        confirmed.map(Subscription::endpoint_key).collect()
    }

    /// The endpoints that were confirmed in an earlier run and are not now, with their state. A flooded address is pending again; one that
    /// a complete list lacks is deleted.
    #[must_use]
    pub fn lost_endpoints(
        &self,
        confirmed_before: &BTreeSet<SubscribedEndpoint>,
    ) -> Vec<(SubscribedEndpoint, SubscriptionState)> {
        let confirmed = self.confirmed_endpoints();
        let state = |endpoint: &SubscribedEndpoint| {
            let same = self.subscriptions.iter().filter(|one| one.endpoint_key() == *endpoint);
            let states: Vec<_> = same.map(|one| one.state).collect();
            match states.contains(&SubscriptionState::Pending) {
                _ if states.is_empty() && !self.is_complete => None,
                true => Some(SubscriptionState::Pending),
                false => Some(SubscriptionState::Deleted),
            }
        };
        let lost = confirmed_before.difference(&confirmed);
        lost.filter_map(|endpoint| Some((endpoint.clone(), state(endpoint)?))).collect()
    }
}

/// Protocol and endpoint of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SubscribedEndpoint {
    pub protocol: String,
    pub endpoint: String,
}

#[cfg(test)]
mod tests;
