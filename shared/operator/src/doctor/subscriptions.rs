//! The subscriptions of the topic. **OK** if and only if one is confirmed: otherwise Curfew enforces nothing, and its messages reach no
//! one.

use notify::SubscriptionState;

use super::{DoctorFinding, at_most};

/// The check's name.
pub const CHECK: &str = "subscriptions";

const SHOWN_MAX: usize = 20;

/// One subscription of the topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Such as `email`.
    pub protocol: String,
    /// Such as an address.
    pub endpoint: String,
    pub state: SubscriptionState,
}

/// Judges the subscriptions of a topic.
#[must_use]
pub fn check(topic_arn: &str, subscriptions: &[Subscription]) -> Vec<DoctorFinding> {
    let is = |state: SubscriptionState| subscriptions.iter().filter(move |one| one.state == state);
    let mut findings = Vec::new();
    if is(SubscriptionState::Confirmed).next().is_none() {
        let remedy = format!(
            "aws sns subscribe --topic-arn {topic_arn} --protocol email --notification-endpoint ADDRESS, and ask its owner \
             to confirm AWS's mail"
        );
        let found = "the topic has no confirmed subscription: messages reach no one, and Curfew does not enforce";
        findings.push(DoctorFinding::problem(topic_arn, found, remedy));
    }
    let pending = is(SubscriptionState::Pending).map(|Subscription { protocol, endpoint, .. }| {
        DoctorFinding::warning(
            endpoint,
            format!("its subscription ({protocol}) is not confirmed, so it receives nothing"),
            "ask its owner to confirm AWS's message, or subscribe it again; AWS deletes it after a few days",
        )
    });
    findings.extend(at_most(SHOWN_MAX, pending.collect(), "subscriptions"));
    findings
}

/// Judges the subscriptions of the topic for chats: a channel that Amazon Q Developer shows is one of them.
#[must_use]
pub fn check_chat(topic_arn: &str, subscriptions: &[Subscription]) -> Option<DoctorFinding> {
    let is_connected = subscriptions.iter().any(|one| one.state == SubscriptionState::Confirmed);
    (!is_connected).then(|| {
        DoctorFinding::warning(
            topic_arn,
            "no channel is connected to the topic for chats, so its messages reach no one",
            "connect one in the console of Amazon Q Developer in chat applications, or deploy with ChatNotifications=no",
        )
    })
}

/// Summarises the subscriptions for people, if all is well.
#[must_use]
pub fn summary(subscriptions: &[Subscription]) -> String {
    let confirmed = subscriptions.iter().filter(|one| one.state == SubscriptionState::Confirmed).count();
    format!("{confirmed} confirmed")
}

#[cfg(test)]
mod tests {
    use super::SubscriptionState::{Confirmed, Deleted, Pending};
    use super::*;
    use crate::doctor::FindingSeverity;

    const TOPIC_ARN: &str = "arn:aws:sns:us-east-1:123456789012:curfew";

    fn subscriptions(states: &[SubscriptionState]) -> Vec<Subscription> {
        let one = |state: &SubscriptionState| Subscription {
            protocol: "email".to_owned(),
            endpoint: "ada@example.com".to_owned(),
            state: *state,
        };
        states.iter().map(one).collect()
    }

    fn check(states: &[SubscriptionState], expect: &[FindingSeverity]) {
        let findings = super::check(TOPIC_ARN, &subscriptions(states));
        let severities: Vec<FindingSeverity> = findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, expect, "{states:?}");
    }

    #[test]
    fn a_chat_topic_without_a_channel_is_a_warning() {
        let check = |states: &[SubscriptionState]| check_chat(TOPIC_ARN, &subscriptions(states));
        assert_eq!(check(&[Pending, Confirmed]), None);
        for unconfirmed in [&[][..], &[Deleted]] {
            assert_eq!(check(unconfirmed).map(|finding| finding.severity), Some(FindingSeverity::Warning));
        }
    }

    #[test]
    fn somebody_has_to_listen() {
        check(&[Confirmed], &[]);
        check(&[Confirmed, Deleted], &[]);
        check(&[Confirmed, Pending], &[FindingSeverity::Warning]);
        check(&[], &[FindingSeverity::Problem]);
        check(&[Deleted], &[FindingSeverity::Problem]);
        check(&[Pending], &[FindingSeverity::Problem, FindingSeverity::Warning]);
    }
}
