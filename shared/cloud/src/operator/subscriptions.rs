//! The subscriptions of the topic.

use operator::doctor::subscriptions::Subscription;

use crate::aws::Aws;
use crate::error::{CallError, call_error};
use crate::sns::{PAGES_MAX, region_of, state};

/// Every subscription of a topic; needs `sns:ListSubscriptionsByTopic`.
///
/// # Errors
/// If they cannot be listed.
pub async fn subscriptions(aws: &Aws, topic_arn: &str) -> Result<Vec<Subscription>, CallError> {
    let region = region_of(topic_arn, aws.home());
    let client = aws.sns(&region);
    let mut pages = client.list_subscriptions_by_topic().topic_arn(topic_arn).into_paginator().send();
    let mut all = Vec::new();
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next().await else { break };
        let page = page.map_err(|error| call_error("sns:ListSubscriptionsByTopic", &region, &error))?;
        all.extend(page.subscriptions().iter().map(|one| Subscription {
            protocol: one.protocol().unwrap_or_default().to_owned(),
            endpoint: one.endpoint().unwrap_or_default().to_owned(),
            state: state(one),
        }));
    }
    Ok(all)
}
