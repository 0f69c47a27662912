//! Delivering notifications: to the topic, and copies of them to the other channels.
//!
//! The topic decides: what it does not accept is sent again, and no mark is written for it. A chat gets each message that the topic
//! accepted, and the event bus each notification once, when it counts as sent. What they do not accept is a gap, and is not sent
//! again: people are notified of the gap as of any other.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join;
use futures::{StreamExt, stream};
use model::notification_log::{Notification, NotificationLogs};
use model::observation::Gap;
use model::subscriptions::TopicSubscriptions;
use notify::{Event, Message, ReplyUrls};
use plan::Step;
use plan::report::{OutcomeKind, Report, StepOutcome};
use ports::{CallError, Cloud, Documents};

use crate::{AT_ONCE, Run, answer_timeout};

/// A channel that hangs must not take the time in which a run marks and records what it has announced: ten seconds.
const CHANNEL_TIMEOUT: Duration = Duration::from_secs(4);

impl<C: Cloud, D: Documents> Run<'_, C, D> {
    /// Sends each team its messages; returns the teams whose messages SNS accepted in full.
    pub(crate) async fn notify_teams(
        &self,
        report: &mut Report,
        notifications: &[Notification],
        memory: &NotificationLogs,
        subscriptions: Option<&TopicSubscriptions>,
    ) -> BTreeSet<String> {
        let urls = self.write_reply_links(report, notifications).await;
        let messages = notify::messages(report, &notify::with_links(notifications, &urls), memory, subscriptions);
        let mut delivered: BTreeSet<String> = messages.iter().map(|message| message.team.clone()).collect();
        let sent = stream::iter(&messages).map(|message| async move { (&message.team, self.publish(message).await) });
        for (team, taken) in sent.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
            let Err(error) = taken else { continue };
            delivered.remove(team);
            let unmarked = |(step, outcome): &&mut (Step, StepOutcome)| {
                let is_of_team = notify::team_attribute(&step.target) == *team && !step.already_notified;
                is_of_team && step.action.announced_actions().is_some() && outcome.kind == OutcomeKind::NotReached
            };
            for (_, outcome) in report.steps.iter_mut().filter(unmarked) {
                outcome.error = Some(format!("not marked, because its subscribers could not be notified: {error}"));
            }
            report.gaps.push(error.gap());
        }
        let accepted: Vec<&Message> = messages.iter().filter(|message| delivered.contains(&message.team)).collect();
        let counted: Vec<&Notification> = notifications.iter().filter(|one| one.counts_as_sent(&delivered)).collect();
        let gaps = self.copy_to_channels(&accepted, &urls, &notify::events(report, &counted)).await;
        report.gaps.extend(gaps);
        delivered
    }

    /// Sends one message while the run has time, because a pace holds messages up. The next run sends the others.
    async fn publish(&self, message: &Message) -> Result<(), CallError> {
        let left = answer_timeout(self.deadline.duration_since((self.clock)()));
        let sent = tokio::time::timeout(left, self.cloud.publish(&self.channels.topic_arn, message)).await;
        sent.unwrap_or_else(|_| Err(CallError::timed_out("sns:Publish", self.cloud.home(), left)))
    }

    /// Copies messages to the chat topic and sends events to the bus, where the deployment has them.
    pub(crate) async fn copy_to_channels(&self, messages: &[&Message], urls: &ReplyUrls, events: &[Event]) -> Vec<Gap> {
        let (chat, bus) = join(self.copy_to_chat(messages, urls), self.send_events(events)).await;
        [chat, bus].into_iter().filter_map(Result::err).map(|error| error.gap()).collect()
    }

    async fn copy_to_chat(&self, messages: &[&Message], urls: &ReplyUrls) -> Result<(), CallError> {
        let Some(topic_arn) = self.channels.chat_topic_arn.as_deref().filter(|_| !messages.is_empty()) else {
            return Ok(());
        };
        let copies = stream::iter(messages).map(|message| async move {
            self.cloud.publish_to_chat(topic_arn, &notify::to_chat(message, urls, &self.id)).await
        });
        let first_refusal = async {
            let refusals = copies.buffer_unordered(AT_ONCE).filter_map(async |sent| sent.err());
            refusals.collect::<Vec<CallError>>().await.into_iter().next().map_or(Ok(()), Err)
        };
        let sent = self.within_timeout("sns:Publish", first_refusal).await;
        sent.map_err(|error| CallError {
            message: format!("to the chat topic {topic_arn}: {}", error.message),
            ..error
        })
    }

    async fn send_events(&self, events: &[Event]) -> Result<(), CallError> {
        match &self.channels.event_bus {
            Some(bus) if !events.is_empty() => {
                self.within_timeout("events:PutEvents", self.cloud.put_events(bus, events)).await
            }
            _ => Ok(()),
        }
    }

    async fn within_timeout(
        &self,
        call: &'static str,
        sent: impl Future<Output = Result<(), CallError>>,
    ) -> Result<(), CallError> {
        let sent = tokio::time::timeout(CHANNEL_TIMEOUT, sent).await;
        sent.unwrap_or_else(|_| Err(CallError::timed_out(call, self.cloud.home(), CHANNEL_TIMEOUT)))
    }
}
