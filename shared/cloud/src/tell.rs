//! Telling people, by SNS.

use aws_sdk_sns::types::MessageAttributeValue;
use domain::id::Region;
use domain::news::Message;

use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind};

/// SNS API reference, "Publish": a subject has fewer than 100 characters.
const SUBJECT_MAX: usize = 99;

/// How many have confirmed that they listen.
///
/// # Errors
/// Where the topic cannot be read.
pub async fn listeners(aws: &Aws, topic_arn: &str) -> Result<u32, CallError> {
    const CALL: &str = "sns:GetTopicAttributes";
    let region = region_of(topic_arn, aws.home());
    let answer = aws.sns(&region).get_topic_attributes().topic_arn(topic_arn).send().await;
    let answer = answer.map_err(|error| CallError::of(CALL, &region, &error))?;
    let confirmed = answer.attributes().and_then(|attributes| attributes.get("SubscriptionsConfirmed")?.parse().ok());
    let message = "the answer does not say how many subscriptions are confirmed".to_owned();
    confirmed.ok_or(CallError { call: CALL, region, kind: CallErrorKind::Other, message })
}

/// Sends one message.
///
/// # Errors
/// Where SNS did not take it.
pub async fn publish(aws: &Aws, topic_arn: &str, message: &Message) -> Result<(), CallError> {
    let region = region_of(topic_arn, aws.home());
    let mut call =
        aws.sns(&region).publish().topic_arn(topic_arn).subject(subject(&message.subject)).message(&message.body);
    let attributes = [("team", message.team.as_str()), ("function", message.function), ("severity", message.severity)];
    for (name, value) in attributes {
        // An attribute without a value is refused, with the whole message (SNS developer guide, "Message attributes").
        if let (false, Ok(attribute)) = (value.is_empty(), attribute(value)) {
            call = call.message_attributes(name, attribute);
        }
    }
    let answer = call.send().await;
    answer.map(drop).map_err(|error| CallError::of("sns:Publish", &region, &error))
}

fn attribute(value: &str) -> Result<MessageAttributeValue, aws_sdk_sns::error::BuildError> {
    MessageAttributeValue::builder().data_type("String").string_value(value).build()
}

/// A subject that SNS takes: a message must not fail by its title.
fn subject(text: &str) -> String {
    let line = text.chars().map(|letter| if letter.is_ascii_graphic() || letter == ' ' { letter } else { '?' });
    let line: String = line.take(SUBJECT_MAX).collect();
    let line = line.trim();
    if line.is_empty() { "Curfew".to_owned() } else { line.to_owned() }
}

/// `arn:aws:sns:<region>:<account>:<name>`.
fn region_of(topic_arn: &str, home: &Region) -> Region {
    topic_arn.split(':').nth(3).filter(|region| !region.is_empty()).map_or_else(|| home.clone(), Region::from)
}

#[cfg(test)]
mod tests;
