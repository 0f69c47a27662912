//! Notifying people by SNS.

use aws_sdk_sns::Client;
use aws_sdk_sns::types::MessageAttributeValue;
use model::channels::{Audience, MessageTopics};
use model::id::Region;
use model::subscriptions::{Subscription, SubscriptionFilter, SubscriptionState, TopicSubscriptions};
use notify::Message;

use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind, call_error};

/// Pages of 100 subscriptions.
const PAGES_MAX: usize = 20;

/// Filter policies that are read at most, one after another. With a subscription that has none, no further one is read.
const FILTERS_MAX: usize = 200;

const LIST: &str = "sns:ListSubscriptionsByTopic";
const READ_ATTRIBUTES: &str = "sns:GetSubscriptionAttributes";

/// Returns `true` if a topic has a confirmed subscription.
///
/// # Errors
/// If the subscriptions of a topic cannot be listed, and no other has one.
pub(crate) async fn has_confirmed_subscription(aws: &Aws, topics: &MessageTopics) -> Result<bool, CallError> {
    let mut unread = None;
    for (audience, topic_arn) in topics.all() {
        match list(aws, (audience, topic_arn), ListedSubscription::is_readable).await {
            Ok((listed, _)) if listed.iter().any(ListedSubscription::is_readable) => return Ok(true),
            Ok(_) => {}
            Err(error) => unread = Some(error),
        }
    }
    unread.map_or(Ok(false), Err)
}

/// Reads the subscriptions of the topics with their filter policies, up to the first reader of all messages. A policy that cannot be read is
/// unreadable, as one of another account is ("Not authorized to access this subscription").
///
/// # Errors
/// If the subscriptions of a topic cannot be listed.
pub async fn subscriptions(aws: &Aws, topics: &MessageTopics) -> Result<TopicSubscriptions, CallError> {
    let (mut subscriptions, mut is_complete) = (Vec::new(), true);
    let mut filters = FilterReader { aws, read: 0, unread: None };
    for topic in topics.all() {
        let (listed, has_all) = list(aws, topic, |_| false).await?;
        is_complete &= has_all;
        for ListedSubscription { arn, mut subscription } in listed {
            if subscription.is_readable() {
                let Some(filter) = filters.read(topic.1, &arn).await else { continue };
                subscription.filter = filter;
            }
            subscriptions.push(subscription);
        }
    }
    Ok(TopicSubscriptions::new(subscriptions, is_complete))
}

/// Reads the filter policies of confirmed subscriptions, one after another.
struct FilterReader<'a> {
    aws: &'a Aws,
    read: usize,
    /// The reason why no further one is read.
    unread: Option<String>,
}

impl FilterReader<'_> {
    /// Reads the filter of a subscription; `None` if it was deleted since it was listed.
    async fn read(&mut self, topic_arn: &str, arn: &str) -> Option<SubscriptionFilter> {
        if self.unread.is_none() && self.read == FILTERS_MAX {
            self.unread = Some(format!("it reads no more than {FILTERS_MAX} filter policies"));
        }
        if let Some(reason) = &self.unread {
            return Some(SubscriptionFilter::Unreadable(reason.clone()));
        }
        self.read += 1;
        let region = region_of(topic_arn, self.aws.home());
        match filter(&self.aws.sns(&region), &region, arn).await {
            Ok(filter) => {
                let is_enough = filter == SubscriptionFilter::None;
                self.unread = is_enough.then(|| "one without a filter policy was found before".to_owned());
                Some(filter)
            }
            Err(error) if error.kind == CallErrorKind::NotFound => None,
            Err(error) => {
                // The others would keep a run waiting as long.
                self.unread = error.kind.is_unanswered().then(|| error.to_string());
                Some(SubscriptionFilter::Unreadable(error.to_string()))
            }
        }
    }
}

struct ListedSubscription {
    arn: String,
    /// Without its filter policy, which the list does not have.
    subscription: Subscription,
}

impl ListedSubscription {
    fn is_readable(&self) -> bool {
        self.subscription.is_readable()
    }
}

/// Lists the subscriptions, up to the first that is `enough`. The second value is `true` if the list has all of them.
async fn list(
    aws: &Aws,
    (audience, topic_arn): (Audience, &str),
    enough: impl Fn(&ListedSubscription) -> bool,
) -> Result<(Vec<ListedSubscription>, bool), CallError> {
    let region = region_of(topic_arn, aws.home());
    let client = aws.sns(&region);
    let mut pages = client.list_subscriptions_by_topic().topic_arn(topic_arn).into_paginator().send();
    let mut all: Vec<ListedSubscription> = Vec::new();
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next().await else { return Ok((all, true)) };
        let page = page.map_err(|error| call_error(LIST, &region, &error))?;
        all.extend(page.subscriptions().iter().map(|one| {
            let arn = one.subscription_arn().unwrap_or_default();
            ListedSubscription {
                arn: arn.to_owned(),
                subscription: Subscription {
                    audience,
                    protocol: one.protocol().unwrap_or_default().to_owned(),
                    endpoint: one.endpoint().unwrap_or_default().to_owned(),
                    state: SubscriptionState::from_arn(arn),
                    filter: SubscriptionFilter::None,
                },
            }
        }));
        if all.iter().any(&enough) {
            break;
        }
    }
    Ok((all, false))
}

async fn filter(client: &Client, region: &Region, arn: &str) -> Result<SubscriptionFilter, CallError> {
    let answer = client.get_subscription_attributes().subscription_arn(arn).send().await;
    let answer = answer.map_err(|error| call_error(READ_ATTRIBUTES, region, &error))?;
    let attribute = |name: &str| answer.attributes().and_then(|all| all.get(name)).map(String::as_str);
    // Without a filter policy the attribute is missing, as is everything in half an answer.
    if attribute("SubscriptionArn") != Some(arn) {
        let message = "the answer does not name the subscription";
        return Err(CallError::new(READ_ATTRIBUTES, region, CallErrorKind::Incomplete, message));
    }
    Ok(SubscriptionFilter::from_attributes(attribute("FilterPolicy"), attribute("FilterPolicyScope")))
}

/// Sends one message.
///
/// # Errors
/// If SNS did not accept it.
pub async fn publish(aws: &Aws, topic_arn: &str, message: &Message) -> Result<(), CallError> {
    let region = region_of(topic_arn, aws.home());
    let mut call = aws.sns(&region).publish().topic_arn(topic_arn).subject(&message.subject).message(&message.body);
    let attributes = [("team", message.team.as_str()), ("function", message.function), ("severity", message.severity)];
    for (name, value) in attributes {
        // SNS refuses the whole message for an attribute without a value (SNS developer guide, "Message attributes").
        if let (false, Ok(attribute)) = (value.is_empty(), attribute(value)) {
            call = call.message_attributes(name, attribute);
        }
    }
    let answer = call.send().await;
    answer.map(drop).map_err(|error| call_error("sns:Publish", &region, &error))
}

fn attribute(value: &str) -> Result<MessageAttributeValue, aws_sdk_sns::error::BuildError> {
    MessageAttributeValue::builder().data_type("String").string_value(value).build()
}

/// `arn:aws:sns:<region>:<account>:<name>`.
pub(crate) fn region_of(topic_arn: &str, home: &Region) -> Region {
    topic_arn.split(':').nth(3).filter(|region| !region.is_empty()).map_or_else(|| home.clone(), Region::from)
}

#[cfg(test)]
mod tests;
