//! Notifying people by SNS.

use aws_sdk_sns::types::{MessageAttributeValue, Subscription};
use model::id::Region;
use notify::{Message, SubscriptionState};

use crate::aws::Aws;
use crate::error::{CallError, call_error};

/// Pages of 100 subscriptions: more unconfirmed ones are of no use.
pub(crate) const PAGES_MAX: usize = 20;

/// Returns `true` if the topic has a confirmed subscription.
///
/// # Errors
/// If the subscriptions cannot be listed.
pub async fn has_confirmed_subscription(aws: &Aws, topic_arn: &str) -> Result<bool, CallError> {
    let region = region_of(topic_arn, aws.home());
    let client = aws.sns(&region);
    let mut pages = client.list_subscriptions_by_topic().topic_arn(topic_arn).into_paginator().send();
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next().await else { break };
        let page = page.map_err(|error| call_error("sns:ListSubscriptionsByTopic", &region, &error))?;
        if page.subscriptions().iter().any(|one| state(one) == SubscriptionState::Confirmed) {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(crate) fn state(subscription: &Subscription) -> SubscriptionState {
    SubscriptionState::from_arn(subscription.subscription_arn().unwrap_or_default())
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
