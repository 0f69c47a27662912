//! The maximum mode of resources.
//!
//! `CURFEW_MODE` is that of the deployment. Beyond it, Curfew enforces for a team only where somebody reads what it announces to that team.

use std::collections::BTreeSet;

use crate::id::TeamName;
use crate::mode::Mode;
use crate::notification_log::NO_TEAM;
use crate::subscriptions::{Readership, TopicSubscriptions};

/// The maximum mode of the resources of each team.
#[derive(Debug, Clone, PartialEq)]
pub struct Ceiling {
    /// `CURFEW_MODE`.
    mode: Mode,
    readers: AnnouncementReaders,
}

/// The readers of announcements, as far as they are known.
#[derive(Debug, Clone, PartialEq)]
enum AnnouncementReaders {
    /// Nothing is to be announced, or somebody else has looked after its readers.
    NotNeeded,
    OfTopic {
        function: &'static str,
        subscriptions: TopicSubscriptions,
    },
    /// The subscriptions could not be read, with the reason.
    Unknown(String),
}

/// What the readers of a team's announcements allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Announceability {
    /// Somebody reads them.
    Announceable,
    /// No one reads them: the team is in observe mode. With the reason.
    Unread(String),
    /// Nobody is known to read them: nothing ends in this run. With the reason.
    Unknown(String),
}

impl Ceiling {
    /// The same maximum for every team, whoever reads what is announced.
    #[must_use]
    pub const fn fixed(mode: Mode) -> Self {
        Self { mode, readers: AnnouncementReaders::NotNeeded }
    }

    /// The maximum for the announcements of a function to a topic.
    #[must_use]
    pub fn with_readers(mode: Mode, function: &'static str, subscriptions: TopicSubscriptions) -> Self {
        Self { mode, readers: AnnouncementReaders::OfTopic { function, subscriptions } }
    }

    /// The maximum while the subscriptions of the topic are unknown, for this reason.
    #[must_use]
    pub const fn with_unknown_readers(mode: Mode, reason: String) -> Self {
        Self { mode, readers: AnnouncementReaders::Unknown(reason) }
    }

    /// The maximum by the deployment alone.
    #[must_use]
    pub const fn of_deployment(&self) -> Mode {
        self.mode
    }

    /// The subscriptions of the topic, if they were read.
    #[must_use]
    pub const fn subscriptions(&self) -> Option<&TopicSubscriptions> {
        match &self.readers {
            AnnouncementReaders::OfTopic { subscriptions, .. } => Some(subscriptions),
            AnnouncementReaders::NotNeeded | AnnouncementReaders::Unknown(_) => None,
        }
    }

    /// What the readers of this team's announcements allow; `None` is what belongs to no team.
    #[must_use]
    pub fn announceability(&self, team: Option<&TeamName>) -> Announceability {
        let (function, subscriptions) = match &self.readers {
            AnnouncementReaders::NotNeeded => return Announceability::Announceable,
            AnnouncementReaders::Unknown(reason) => return Announceability::Unknown(reason.clone()),
            AnnouncementReaders::OfTopic { function, subscriptions } => (function, subscriptions),
        };
        match subscriptions.announcement_readers(team.map_or(NO_TEAM, |team| team.as_str()), function) {
            Readership::Readers(_) => Announceability::Announceable,
            Readership::NoReader(reason) => Announceability::Unread(reason),
            Readership::Unknown(reason) => Announceability::Unknown(reason),
        }
    }

    /// Returns `true` if a subscription that was confirmed before is pending again: SNS has suspended it. `readers` are the keys of those that were
    /// confirmed when something was announced.
    #[must_use]
    pub fn has_suspended(&self, readers: &BTreeSet<String>) -> bool {
        self.subscriptions().is_some_and(|subscriptions| subscriptions.has_suspended(readers))
    }

    /// The maximum for what is not announced yet. Where the readers are unknown it is that of the deployment, and the run ends nothing.
    #[must_use]
    pub fn of(&self, team: Option<&TeamName>) -> Mode {
        let is_unread = || matches!(self.announceability(team), Announceability::Unread(_));
        if self.mode == Mode::Enforce && is_unread() { Mode::Observe } else { self.mode }
    }

    /// The maximum for what was announced in enforce mode, when `readers` were confirmed: what they have read goes on while their subscription is
    /// suspended.
    #[must_use]
    pub fn of_announced(&self, team: Option<&TeamName>, readers: &BTreeSet<String>) -> Mode {
        if self.has_suspended(readers) { self.mode } else { self.of(team) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscriptions::{Subscription, SubscriptionFilter, SubscriptionState};

    const POLICY: &str = r#"{"team": ["vision"]}"#;

    fn subscription(state: SubscriptionState, policy: Option<&str>) -> Subscription {
        Subscription {
            protocol: "email".to_owned(),
            endpoint: "ada@example.com".to_owned(),
            state,
            filter: SubscriptionFilter::from_attributes(policy, None),
        }
    }

    fn ceiling(mode: Mode, subscriptions: &[Subscription]) -> Ceiling {
        Ceiling::with_readers(mode, "reap-instances", TopicSubscriptions::new(subscriptions.to_vec(), true))
    }

    #[test]
    fn a_team_without_a_reader_is_in_observe_mode() {
        use Mode::{Enforce, Observe};
        use SubscriptionState::{Confirmed, Pending};
        let (vision, nlp) = (TeamName::from("vision"), TeamName::from("nlp"));
        let filtered = subscription(Confirmed, Some(POLICY));
        let pending = subscription(Pending, None);
        let another = Subscription { endpoint: "grace@example.com".to_owned(), ..filtered.clone() };
        let unreadable = subscription(Confirmed, Some("{"));
        // The maximum for the team, for what belongs to none, and for what was announced to the team.
        let cases: [(&str, Vec<Subscription>, &TeamName, [Mode; 3]); 7] = [
            ("no subscription", vec![], &nlp, [Observe; 3]),
            ("somebody reads all", vec![filtered.clone(), subscription(Confirmed, None)], &nlp, [Enforce; 3]),
            ("its own subscription", vec![filtered.clone()], &vision, [Enforce, Observe, Enforce]),
            ("another team's", vec![filtered.clone()], &nlp, [Observe; 3]),
            ("suspended", vec![pending.clone()], &nlp, [Observe, Observe, Enforce]),
            ("another team's, and suspended", vec![another, pending], &nlp, [Observe, Observe, Enforce]),
            ("unknown: the run ends nothing", vec![unreadable], &nlp, [Enforce; 3]),
        ];
        let readers = TopicSubscriptions::new(vec![filtered], true).readers_to_remember(&BTreeSet::new());
        for (name, subscriptions, team, expect) in cases {
            let ceiling = ceiling(Enforce, &subscriptions);
            let found = [ceiling.of(Some(team)), ceiling.of(None), ceiling.of_announced(Some(team), &readers)];
            assert_eq!(found, expect, "{name}");
        }
        let never_confirmed = ceiling(Enforce, &[subscription(Pending, None)]);
        assert_eq!(never_confirmed.of_announced(Some(&nlp), &BTreeSet::new()), Observe);
    }

    #[test]
    fn the_deployment_is_the_maximum() {
        let readers = [subscription(SubscriptionState::Confirmed, None)];
        for ceiling in [
            ceiling(Mode::Observe, &readers),
            Ceiling::fixed(Mode::Observe),
            Ceiling::with_unknown_readers(Mode::Observe, "throttled".to_owned()),
        ] {
            assert_eq!(
                (ceiling.of(None), ceiling.of_announced(None, &BTreeSet::new())),
                (Mode::Observe, Mode::Observe),
                "{ceiling:?}"
            );
        }
        let unknown = Ceiling::with_unknown_readers(Mode::Enforce, "throttled".to_owned());
        assert_eq!(unknown.announceability(None), Announceability::Unknown("throttled".to_owned()));
        assert_eq!(Ceiling::fixed(Mode::Enforce).of(None), Mode::Enforce);
    }
}
