//! Delivering notifications: to the topics, and copies of them to the other channels.
//!
//! The topics decide: what one does not accept is sent to it again, and no mark is written for what no reader can have. A chat gets each
//! message that the teams' topic accepted, and the event bus each notification once, when it counts as sent. What they do not accept is a
//! gap, and is not sent again: people are notified of the gap as of any other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join;
use futures::{StreamExt, stream};
use model::channels::Audience;
use model::notification_log::{Notification, NotificationLogs};
use model::observation::Gap;
use model::ownership::OwnerSender;
use notify::{AcceptedNotifications, Answers, Delivery, Event, Message, OwnerMail, Recipients, ReplyUrls};
use plan::Step;
use plan::report::{OutcomeKind, Report, StepOutcome};
use ports::{CallError, Cloud, Documents};

use crate::{AT_ONCE, Run, answer_timeout};

/// A channel that hangs must not take the time in which a run marks and records what it has announced: ten seconds.
const CHANNEL_TIMEOUT: Duration = Duration::from_secs(4);

/// SES allows an account 14 mails a second and more, once it may mail anybody (Amazon SES developer guide, "Managing your sending limits").
const MAILS_AT_ONCE: usize = 2;

impl<C: Cloud, D: Documents> Run<'_, C, D> {
    /// Sends the messages about the account, each team its own, and the mails to owners.
    pub(crate) async fn notify_teams(
        &self,
        report: &mut Report,
        notifications: &[Notification],
        memory: &NotificationLogs,
        recipients: Recipients<'_>,
    ) -> Delivery {
        let audiences: Vec<Audience> = self.channels.topics.all().map(|(audience, _)| audience).collect();
        let urls = self.write_reply_links(report, notifications).await;
        let linked = notify::with_links(notifications, &urls);
        let sending: Vec<Audience> =
            audiences.iter().copied().filter(|audience| recipients.postponed != Some(*audience)).collect();
        let mails = recipients.owner_sender.map(|sender| notify::owner_mails(report, &linked, sender));
        let refusals = self.mail_owners(recipients.owner_sender, mails.unwrap_or_default()).await;
        let unmailed: BTreeSet<String> = refusals.keys().cloned().collect();
        let heard = recipients.without_unheard(&linked, report.function, &unmailed);
        let messages = notify::messages(report, &heard, memory, &sending, recipients.subscriptions);
        let sent = stream::iter(messages).map(|message| async move {
            let sent = self.publish(&message).await;
            (message, sent)
        });
        let sent: Vec<(Message, Result<(), CallError>)> = sent.buffered(AT_ONCE).collect().await;
        let (mut errors, mut messages) = (Vec::new(), Vec::new());
        for (message, sent) in sent {
            let is_accepted = sent.is_ok();
            errors.extend(sent.err().map(|error| (message.teams.clone(), error)));
            messages.push((message, is_accepted));
        }
        let answers = Answers { audiences: &audiences, messages: &messages, unmailed };
        let delivery = Delivery::new(answers, report, notifications, recipients);
        let find_error = |step: &Step| {
            let team = notify::team_attribute(&step.target);
            let owner_refusal = step.target.owner.as_ref().and_then(|owner| refusals.get(owner));
            let topic_refusal = || errors.iter().find(|(teams, _)| teams.contains(&team)).map(|(_, error)| error);
            owner_refusal.or_else(topic_refusal)
        };
        set_reason_not_marked(report, &AcceptedNotifications::new(notifications, &delivery), find_error);
        // SES refuses all mails for the same reason, or some owners do.
        let gaps = errors.iter().map(|(_, error)| error.gap()).chain(refusals.values().next().map(CallError::gap));
        report.gaps.extend(gaps);
        let is_copied = |message: &&Message| {
            message.audience == Audience::Team && delivery.is_accepted(Audience::Team, &message.team)
        };
        let copied: Vec<&Message> = messages.iter().map(|(message, _)| message).filter(is_copied).collect();
        let counted: Vec<&Notification> = notifications.iter().filter(|one| delivery.is_settled(one)).collect();
        let gaps = self.copy_to_channels(&copied, &urls, &notify::events(report, &counted)).await;
        report.gaps.extend(gaps);
        delivery
    }

    /// Sends the mails to owners. Returns the owners of whose mails SES did not accept all, with its answer.
    async fn mail_owners(&self, sender: Option<&OwnerSender>, mails: Vec<OwnerMail>) -> BTreeMap<String, CallError> {
        let Some(sender) = sender else { return BTreeMap::new() };
        let sent = stream::iter(mails).map(|OwnerMail { owner, message }| async move {
            let left = answer_timeout(self.deadline.duration_since((self.clock)()));
            let sent = tokio::time::timeout(left, self.cloud.mail(sender.address(), &owner, &message)).await;
            let sent = sent.unwrap_or_else(|_| Err(CallError::timed_out("ses:SendEmail", self.cloud.home(), left)));
            sent.err().map(|error| (owner, error))
        });
        sent.buffer_unordered(MAILS_AT_ONCE).filter_map(std::future::ready).collect().await
    }

    /// Sends one message while the run has time, because a pace holds messages up. The next run sends the others.
    async fn publish(&self, message: &Message) -> Result<(), CallError> {
        let left = answer_timeout(self.deadline.duration_since((self.clock)()));
        let topic_arn = self.channels.topics.arn(message.audience).unwrap_or(&self.channels.topics.teams);
        let sent = tokio::time::timeout(left, self.cloud.publish(topic_arn, message)).await;
        sent.unwrap_or_else(|_| Err(CallError::timed_out("sns:Publish", self.cloud.home(), left)))
    }

    /// Sends a message about the deployment to both topics, and returns the gap of one that did not accept it.
    ///
    /// # Errors
    /// If no topic accepted it.
    pub(crate) async fn publish_to_all(&self, message: &Message) -> Result<Vec<Gap>, CallError> {
        let (mut errors, mut is_accepted) = (Vec::new(), false);
        for (audience, _) in self.channels.topics.all() {
            let team = audience.team_attribute(&message.team).to_owned();
            let sent = self.publish(&Message { audience, team, ..message.clone() }).await;
            is_accepted |= sent.is_ok();
            errors.extend(sent.err());
        }
        match errors.pop() {
            Some(error) if !is_accepted => Err(error),
            error => Ok(errors.into_iter().chain(error).map(|error| error.gap()).collect()),
        }
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

/// Says at each step whose announcement no reader has, why it is not marked.
fn set_reason_not_marked<'a>(
    report: &mut Report,
    accepted: &AcceptedNotifications<'_>,
    find_error: impl Fn(&Step) -> Option<&'a CallError>,
) {
    let is_unmarked = |(step, outcome): &&mut (Step, StepOutcome)| {
        let is_announcement = step.action.announced_actions().is_some() && outcome.kind == OutcomeKind::NotReached;
        is_announcement && !accepted.has_announcement(step)
    };
    for (step, outcome) in report.steps.iter_mut().filter(is_unmarked) {
        let Some(error) = find_error(step) else { continue };
        outcome.error = Some(format!("not marked, because its subscribers could not be notified: {error}"));
    }
}
