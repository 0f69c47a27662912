//! The recipients of Curfew's notifications.

/// The channels of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationChannels {
    /// The SNS topic. What it does not accept, a later run sends again.
    pub topic_arn: String,
    /// The SNS topic for chats, which gets a copy of each message that the topic accepted.
    pub chat_topic_arn: Option<String>,
    /// The name of the `EventBridge` bus that gets each notification as an event.
    pub event_bus: Option<String>,
    /// The address of the function that answers links, with `/` at its end. Without it, announcements have no links.
    pub reply_url: Option<String>,
}

impl NotificationChannels {
    /// The topic alone.
    #[must_use]
    pub const fn topic(topic_arn: String) -> Self {
        Self { topic_arn, chat_topic_arn: None, event_bus: None, reply_url: None }
    }
}
