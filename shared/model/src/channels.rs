//! The recipients of Curfew's notifications.

use serde::{Deserialize, Serialize};

use crate::account::AccountId;

/// The channels of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationChannels {
    /// The SNS topics of messages for people. What they do not accept, a later run sends again.
    pub topics: MessageTopics,
    /// The SNS topic for chats, which gets a copy of each message that the teams' topic accepted.
    pub chat_topic_arn: Option<String>,
    /// The name of the `EventBridge` bus that gets each notification as an event.
    pub event_bus: Option<String>,
    /// The address of the function that answers links, with `/` at its end. Without it, announcements have no links.
    pub reply_url: Option<String>,
}

/// The ARNs of the topics that people subscribe to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageTopics {
    /// The topic with the messages about each team.
    pub teams: String,
    /// The topic with one message a run about everything, for the address of the deployment.
    pub account: Option<String>,
}

/// The subscribers of one of the topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Audience {
    /// Each message is about the whole account. It is sent first.
    Account,
    /// Each message is about one team.
    #[default]
    Team,
}

impl Audience {
    /// Returns `true` for the default, which documents leave out.
    #[must_use]
    pub const fn is_team(&self) -> bool {
        matches!(self, Self::Team)
    }

    /// The `team` attribute of a message about this team. One about the account has none.
    #[must_use]
    pub const fn team_attribute(self, team: &str) -> &str {
        match self {
            Self::Account => "",
            Self::Team => team,
        }
    }
}

impl NotificationChannels {
    /// The teams' topic alone.
    #[must_use]
    pub const fn topic(topic_arn: String) -> Self {
        Self { topics: MessageTopics::teams(topic_arn), chat_topic_arn: None, event_bus: None, reply_url: None }
    }
}

impl MessageTopics {
    /// The teams' topic alone.
    #[must_use]
    pub const fn teams(topic_arn: String) -> Self {
        Self { teams: topic_arn, account: None }
    }

    /// The topic of an audience, if the deployment has it.
    #[must_use]
    pub fn arn(&self, audience: Audience) -> Option<&str> {
        match audience {
            Audience::Team => Some(&self.teams),
            Audience::Account => self.account.as_deref(),
        }
    }

    /// The topics that the deployment has.
    pub fn all(&self) -> impl Iterator<Item = (Audience, &str)> {
        [Audience::Account, Audience::Team].into_iter().filter_map(|audience| Some((audience, self.arn(audience)?)))
    }
}

/// The number of the account in the ARN of the stack's topic; `None` if it has none.
#[must_use]
pub fn account_of_topic(topic_arn: &str) -> Option<String> {
    AccountId::parse(topic_arn.split(':').nth(4)?).ok().map(|account| account.to_string())
}
