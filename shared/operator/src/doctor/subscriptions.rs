//! The subscriptions of the topic. **OK** if and only if somebody reads what Curfew announces to each team: for the others it enforces
//! nothing.

use std::collections::BTreeMap;

use model::config::Config;
use model::foreign_text::quoted_unless_word;
use model::id::TeamName;
use model::mode::Mode;
use model::notification_log::NO_TEAM;
use model::subscriptions::{Readership, Subscription, SubscriptionState, TopicSubscriptions};

use super::{DoctorFinding, at_most};

/// The check's name.
pub const CHECK: &str = "subscriptions";

const SHOWN_MAX: usize = 20;

/// The functions that announce what they do. A filter policy may choose among them.
const ANNOUNCING_FUNCTIONS: [&str; 4] = ["reap-instances", "reap-volumes", "reap-sagemaker", "enforce-budgets"];

/// Judges the subscriptions of a topic for the teams of a configuration.
#[must_use]
pub fn check(topic_arn: &str, subscriptions: &TopicSubscriptions, config: Option<&Config>) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    if subscriptions.has_confirmed() {
        let teams = config.map(|config| unread_teams(topic_arn, subscriptions, config)).unwrap_or_default();
        findings.extend(at_most(SHOWN_MAX, teams, "teams"));
    } else {
        let remedy = format!(
            "aws sns subscribe --topic-arn {topic_arn} --protocol email --notification-endpoint ADDRESS, and ask its owner \
             to confirm AWS's mail"
        );
        let found = "the topic has no confirmed subscription: messages reach no one, and Curfew does not enforce";
        findings.push(DoctorFinding::problem(topic_arn, found, remedy));
    }
    let pending = subscriptions.all().iter().filter(|one| one.state == SubscriptionState::Pending);
    let pending = pending.map(|Subscription { protocol, endpoint, .. }| {
        DoctorFinding::warning(
            endpoint,
            format!("its subscription ({protocol}) is not confirmed, so it receives nothing"),
            "ask its owner to confirm AWS's message, or subscribe it again; AWS deletes it after a few days. One that was confirmed before was \
             suspended by SNS, because it got more than 10 messages a second",
        )
    });
    findings.extend(at_most(SHOWN_MAX, pending.collect(), "subscriptions"));
    findings
}

/// The teams whose announcements no one is known to read: problems where Curfew would enforce for them.
fn unread_teams(topic_arn: &str, subscriptions: &TopicSubscriptions, config: &Config) -> Vec<DoctorFinding> {
    let named = config.named_teams().map(|team| (Some(team), config.team(team).and_then(|team| team.mode)));
    let no_team = (None, Some(config.mode.max(config.untagged.mode)));
    let finding = |(team, mode): (Option<&TeamName>, Option<Mode>)| {
        let mode = mode.unwrap_or(config.mode);
        let name = team.map_or(NO_TEAM, |team| team.as_str());
        let (reason, functions) = unread_functions(subscriptions, name)?;
        let consequence = match mode {
            Mode::Enforce => "so Curfew does not enforce for it",
            Mode::Observe => "so nobody learns what Curfew would do",
        };
        let found = match functions.as_slice() {
            all if all.len() == ANNOUNCING_FUNCTIONS.len() => format!("{reason}, {consequence}"),
            some => format!("{reason} from {}, {consequence}", some.join(", ")),
        };
        let remedy = format!(
            "subscribe somebody to {topic_arn}, or let a filter policy through: \
             {{\"team\": [\"{name}\"], \"severity\": [\"warning\", \"action\", \"error\"]}}"
        );
        let subject = team.map_or("resources without a team".to_owned(), |team| {
            format!("team {}", quoted_unless_word(team.as_str()))
        });
        Some(match mode {
            Mode::Enforce => DoctorFinding::problem(subject, found, remedy),
            Mode::Observe => DoctorFinding::warning(subject, found, remedy),
        })
    };
    named.chain([no_team]).filter_map(finding).collect()
}

/// The functions whose announcements to a team no one is known to read, with the reason that holds for most of them.
fn unread_functions(subscriptions: &TopicSubscriptions, team: &str) -> Option<(String, Vec<&'static str>)> {
    let mut by_reason: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
    for function in ANNOUNCING_FUNCTIONS {
        match subscriptions.announcement_readers(team, function) {
            Readership::Readers(_) => {}
            Readership::NoReader(reason) | Readership::Unknown(reason) => {
                by_reason.entry(reason).or_default().push(function);
            }
        }
    }
    by_reason.into_iter().max_by_key(|(_, functions)| functions.len())
}

/// Judges the subscriptions of the topic for chats: a channel that Amazon Q Developer shows is one of them.
#[must_use]
pub fn check_chat(topic_arn: &str, subscriptions: &TopicSubscriptions) -> Option<DoctorFinding> {
    let is_connected = subscriptions.all().iter().any(|one| one.state == SubscriptionState::Confirmed);
    (!is_connected).then(|| {
        DoctorFinding::warning(
            topic_arn,
            "no channel is connected to the topic for chats, so its messages reach no one",
            "connect one in the console of Amazon Q Developer in chat applications, or deploy with ChatNotifications=no",
        )
    })
}

/// Judges the subscriptions of the topic for alarms: they have to reach somebody also where nobody receives the messages.
#[must_use]
pub fn check_alarms(topic_arn: &str, subscriptions: &TopicSubscriptions) -> Option<DoctorFinding> {
    (!subscriptions.has_confirmed()).then(|| {
        DoctorFinding::warning(
            topic_arn,
            "no subscription of the topic for alarms is confirmed, so nobody learns that Curfew itself fails",
            format!("confirm AWS's second mail, or: aws sns subscribe --topic-arn {topic_arn} --protocol email --notification-endpoint ADDRESS"),
        )
    })
}

/// Summarises the subscriptions for people, if all is well.
#[must_use]
pub fn summary(subscriptions: &TopicSubscriptions) -> String {
    format!("{} confirmed", subscriptions.count(SubscriptionState::Confirmed))
}

#[cfg(test)]
mod tests {
    use model::channels::Audience;
    use model::fixture;
    use model::subscriptions::SubscriptionFilter;
    use model::subscriptions::SubscriptionState::{Confirmed, Deleted, Pending};

    use super::*;
    use crate::doctor::FindingSeverity;

    const TOPIC_ARN: &str = "arn:aws:sns:us-east-1:123456789012:curfew";

    fn subscriptions(states: &[SubscriptionState]) -> TopicSubscriptions {
        let one = |state: &SubscriptionState| Subscription {
            audience: Audience::Team,
            protocol: "email".to_owned(),
            endpoint: "ada@example.com".to_owned(),
            state: *state,
            filter: SubscriptionFilter::None,
        };
        TopicSubscriptions::new(states.iter().map(one).collect(), true)
    }

    fn check(states: &[SubscriptionState], expect: &[FindingSeverity]) {
        let findings = super::check(TOPIC_ARN, &subscriptions(states), None);
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
    fn alarms_need_a_reader_of_their_own() {
        let check = |states: &[SubscriptionState]| check_alarms(TOPIC_ARN, &subscriptions(states));
        assert_eq!(check(&[Pending, Confirmed]), None);
        for unconfirmed in [&[][..], &[Pending]] {
            assert_eq!(check(unconfirmed).map(|finding| finding.severity), Some(FindingSeverity::Warning));
        }
    }

    #[test]
    fn a_subscription_must_be_confirmed() {
        check(&[Confirmed], &[]);
        check(&[Confirmed, Deleted], &[]);
        check(&[Confirmed, Pending], &[FindingSeverity::Warning]);
        check(&[], &[FindingSeverity::Problem]);
        check(&[Deleted], &[FindingSeverity::Problem]);
        check(&[Pending], &[FindingSeverity::Problem, FindingSeverity::Warning]);
    }

    #[test]
    fn each_team_needs_a_reader() {
        let check = |policies: &[Option<&str>], config: &str, expect: &[&str]| {
            let config = Config::read(config).unwrap();
            let findings = super::check(TOPIC_ARN, &fixture::subscriptions(policies), Some(&config));
            let found: Vec<String> =
                findings.iter().map(|one| format!("{:?} {}: {}", one.severity, one.at, one.found)).collect();
            assert_eq!(found, expect, "{policies:?} {config:?}");
        };
        let teams = "[teams.vision]\nmode = \"enforce\"\n[teams.nlp]";
        check(&[None], teams, &[]);
        check(
            &[Some(r#"{"team": ["nlp", "untagged"]}"#)],
            teams,
            &[
                "Problem team vision: the only confirmed subscription filters out messages of severity warning about team vision, so Curfew does \
               not enforce for it",
            ],
        );
        check(
            &[
                Some(r#"{"team": ["vision", "untagged"], "function": [{"anything-but": ["reap-volumes"]}]}"#),
                Some(r#"{"team": ["nlp"], "severity": ["error"]}"#),
            ],
            teams,
            &[
                "Problem team vision: each of the 2 confirmed subscriptions filters out messages of severity warning about team vision from \
                 reap-volumes, so Curfew does not enforce for it",
                "Warning team nlp: each of the 2 confirmed subscriptions filters out messages of severity warning about team nlp, so nobody \
                 learns what Curfew would do",
                "Warning resources without a team: each of the 2 confirmed subscriptions filters out messages of severity warning about \
                 resources without a team from reap-volumes, so nobody learns what Curfew would do",
            ],
        );
    }
}
