//! The subscriptions of the topic. **OK** if and only if one is confirmed: otherwise Curfew enforces nothing, and its messages reach no
//! one.

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionState {
    Confirmed,
    Pending,
    Deleted,
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

/// For people, if all is well.
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

    fn check(states: &[SubscriptionState], expect: &[FindingSeverity]) {
        let one = |state: &SubscriptionState| Subscription {
            protocol: "email".to_owned(),
            endpoint: "ada@example.com".to_owned(),
            state: *state,
        };
        let subscriptions: Vec<Subscription> = states.iter().map(one).collect();
        let findings = super::check("arn:aws:sns:us-east-1:123456789012:curfew", &subscriptions);
        let severities: Vec<FindingSeverity> = findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, expect, "{states:?}");
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
