//! The subscriptions of the topics, and which of them receive a message.
//!
//! A confirmed subscription is a reader of a message only if SNS delivers the message to it. So a stop has to be announced to a
//! subscription whose filter policy lets the announcement through; one that Curfew cannot evaluate counts as none.
//!
//! An announcement is a message of severity `warning`: where its readers do not get the greater severity of other paragraphs, it is a message
//! of its own.

mod filter_policy;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::channels::Audience;
use crate::digest::sha256_hex;
use crate::foreign_text::quoted_unless_word;
use crate::notification_log::{NO_TEAM, Severity};

pub use filter_policy::{Delivery, FilterPolicy, FilterPolicyError};

/// Endpoint of each channel of Amazon Q Developer in chat applications, which shows no plain text ("Custom notifications using Amazon Q
/// Developer in chat applications", its administrator guide).
const CHAT_ENDPOINT: &str = "https://global.sns-api.chatbot.amazonaws.com";

/// One subscription of a topic.
#[derive(Debug, Clone, PartialEq)]
pub struct Subscription {
    pub audience: Audience,
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
    /// The owner has not confirmed it, or SNS has suspended an address that got more than 10 messages a second, so that it is pending again (SNS
    /// developer guide, "Email subscription setup and management").
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

impl Subscription {
    /// Returns `true` for a channel of Slack or Teams, where no one reads what is not written for it.
    #[must_use]
    pub fn is_chat(&self) -> bool {
        self.protocol == "https" && self.endpoint.trim_end_matches('/') == CHAT_ENDPOINT
    }

    /// Returns `true` if somebody reads what its filter lets through.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.state == SubscriptionState::Confirmed && !self.is_chat()
    }

    /// A fingerprint of topic, protocol and endpoint, which names nobody.
    #[must_use]
    pub fn key(&self) -> String {
        let topic = match self.audience {
            Audience::Team => "",
            Audience::Account => "account ",
        };
        let hash = sha256_hex(format!("{topic}{} {}", self.protocol, self.endpoint).as_bytes());
        format!("{hash:.16}")
    }

    /// Predicts whether somebody can read a message of plain text that is sent to both topics.
    #[must_use]
    pub fn evaluate(&self, attributes: &MessageAttributes<'_>) -> Delivery {
        match &self.filter {
            _ if !self.is_readable() => Delivery::FilteredOut,
            SubscriptionFilter::None => Delivery::Delivered,
            // No plain text of Curfew is JSON.
            SubscriptionFilter::Policy(policy) => policy.evaluate(&attributes.to_map(self.audience), ""),
            SubscriptionFilter::Unreadable(_) => Delivery::Unknown,
        }
    }
}

/// The attributes of a message, by which SNS filters it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageAttributes<'a> {
    pub team: &'a str,
    pub function: &'a str,
    pub severity: Severity,
}

impl MessageAttributes<'_> {
    /// The attributes that have a value: SNS refuses any other. A message about the account names no team.
    fn to_map(self, audience: Audience) -> Map<String, Value> {
        let all = [
            ("team", audience.team_attribute(self.team)),
            ("function", self.function),
            ("severity", self.severity.as_str()),
        ];
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readership<R = ()> {
    /// The subscriptions that receive it, at least one.
    Readers(R),
    /// No subscription receives it, with the reason.
    NoReader(String),
    /// No subscription is known to receive it, with the reason for which one may.
    Unknown(String),
}

impl<R> Readership<R> {
    pub(crate) fn without_readers(self) -> Readership {
        match self {
            Self::Readers(_) => Readership::Readers(()),
            Self::NoReader(reason) => Readership::NoReader(reason),
            Self::Unknown(reason) => Readership::Unknown(reason),
        }
    }
}

/// The keys of subscriptions, each with the last time at which a run saw it confirmed.
pub type KnownReaders = BTreeMap<String, Timestamp>;

/// The subscriptions of the topics.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicSubscriptions {
    subscriptions: Vec<Subscription>,
    /// `false` if a topic may have more.
    is_complete: bool,
}

impl TopicSubscriptions {
    #[must_use]
    pub const fn new(subscriptions: Vec<Subscription>, is_complete: bool) -> Self {
        Self { subscriptions, is_complete }
    }

    /// Finds the readers of the messages by which a function announces a stop to a team.
    #[must_use]
    pub fn announcement_readers(&self, team: &str, function: &str) -> Readership<Vec<&Subscription>> {
        self.message_readers(&MessageAttributes { team, function, severity: Severity::Warning })
    }

    /// Returns `true` if each of an audience that may receive an announcement certainly receives a message of this severity as well.
    #[must_use]
    pub fn is_read_with_severity(&self, severity: Severity, audience: Audience, team: &str, function: &str) -> bool {
        let evaluate = |one: &Subscription, severity| one.evaluate(&MessageAttributes { team, function, severity });
        let all = self.subscriptions.iter().filter(|one| one.audience == audience);
        let mut readers = all.filter(|one| evaluate(one, Severity::Warning) != Delivery::FilteredOut);
        readers.all(|one| evaluate(one, severity) == Delivery::Delivered)
    }

    /// Finds the topics on which somebody is known to read what a function announces to a team.
    #[must_use]
    pub fn reading_audiences(&self, team: &str, function: &str) -> BTreeSet<Audience> {
        match self.announcement_readers(team, function) {
            Readership::Readers(readers) => readers.iter().map(|one| one.audience).collect(),
            Readership::NoReader(_) | Readership::Unknown(_) => BTreeSet::new(),
        }
    }

    /// Finds the readers of a message of plain text.
    #[must_use]
    pub fn message_readers(&self, attributes: &MessageAttributes<'_>) -> Readership<Vec<&Subscription>> {
        let with = |delivery| {
            let all = self.subscriptions.iter();
            all.filter(move |one| one.evaluate(attributes) == delivery)
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

    /// The readers to remember with what was announced last at that time: the subscriptions that are confirmed, and those of `before` that are
    /// pending again. One that was seen confirmed then keeps its time, so that the log does not change in every run.
    #[must_use]
    pub fn readers_to_remember(&self, before: &KnownReaders, announced_at: Timestamp, now: Timestamp) -> KnownReaders {
        let reader = |one: &Subscription| {
            let (key, is_readable) = (one.key(), one.is_readable());
            let known = before.get(&key).copied().filter(|seen_at| !is_readable || *seen_at >= announced_at);
            let seen_at = known.or(is_readable.then_some(now.max(announced_at)))?;
            (is_readable || one.state == SubscriptionState::Pending).then_some((key, seen_at))
        };
        self.subscriptions.iter().filter_map(reader).collect()
    }

    /// The keys of the subscriptions that are pending.
    #[must_use]
    pub fn pending_keys(&self) -> BTreeSet<String> {
        let pending = self.subscriptions.iter().filter(|one| one.state == SubscriptionState::Pending);
        pending.map(Subscription::key).collect()
    }

    /// Returns `true` if somebody reads something: a subscription is confirmed.
    #[must_use]
    pub fn has_confirmed(&self) -> bool {
        self.count(SubscriptionState::Confirmed) > 0
    }

    /// Counts those of one state.
    #[must_use]
    pub fn count(&self, state: SubscriptionState) -> usize {
        self.subscriptions.iter().filter(|one| one.state == state && !one.is_chat()).count()
    }

    /// The subscriptions, in the order in which SNS lists them.
    #[must_use]
    pub fn all(&self) -> &[Subscription] {
        &self.subscriptions
    }

    fn explain_no_reader(&self, attributes: &MessageAttributes<'_>) -> String {
        match (self.count(SubscriptionState::Confirmed), self.count(SubscriptionState::Pending)) {
            (0, 0) if self.subscriptions.iter().any(Subscription::is_chat) => {
                "only a chat is subscribed to the topic, and it shows no plain text: connect it to the topic for chats, and subscribe \
                 somebody by e-mail"
                    .to_owned()
            }
            (0, 0) => "the topic has no subscription".to_owned(),
            (0, 1) => "the only subscription of the topic is not confirmed".to_owned(),
            (0, pending) => format!("none of the {pending} subscriptions of the topic is confirmed"),
            (1, _) => format!("the only confirmed subscription filters out {}", attributes.describe()),
            (confirmed, _) => {
                format!("each of the {confirmed} confirmed subscriptions filters out {}", attributes.describe())
            }
        }
    }
}

#[cfg(test)]
mod tests;
