//! The maximum mode of resources.
//!
//! `CURFEW_MODE` is that of the deployment. Beyond it, Curfew enforces for a team only where somebody reads what it announces to that team.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::id::TeamName;
use crate::mode::Mode;
use crate::notification_log::NO_TEAM;
use crate::subscriptions::{KnownReaders, Readership, TopicSubscriptions};

/// The maximum mode of the resources of each team.
#[derive(Debug, Clone)]
pub struct Ceiling {
    /// `CURFEW_MODE`.
    mode: Mode,
    readers: AnnouncementReaders,
}

/// The readers of announcements, as far as they are known.
#[derive(Debug, Clone)]
enum AnnouncementReaders {
    /// Nothing is to be announced, or somebody else has looked after its readers.
    NotNeeded,
    OfTopic(Arc<TopicReaders>),
    /// The subscriptions could not be read, with the reason.
    Unknown(String),
}

#[derive(Debug)]
struct TopicReaders {
    function: &'static str,
    subscriptions: TopicSubscriptions,
    pending: BTreeSet<String>,
    /// The results by team, because each rule of each resource asks.
    known: Mutex<BTreeMap<Option<TeamName>, Readership>>,
}

/// The resource that something is announced about, by those who may read it.
#[derive(Debug, Clone, Copy)]
pub struct AnnouncementTarget<'a> {
    /// `None` if the resource belongs to no team.
    pub team: Option<&'a TeamName>,
    /// `true` if its owner is mailed.
    pub is_owner_mailed: bool,
}

impl<'a> From<Option<&'a TeamName>> for AnnouncementTarget<'a> {
    fn from(team: Option<&'a TeamName>) -> Self {
        Self { team, is_owner_mailed: false }
    }
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
        let (pending, known) = (subscriptions.pending_keys(), Mutex::default());
        let readers = TopicReaders { function, subscriptions, pending, known };
        Self { mode, readers: AnnouncementReaders::OfTopic(Arc::new(readers)) }
    }

    /// The maximum while the subscriptions of the topic are unknown, for this reason.
    #[must_use]
    pub const fn with_unknown_readers(mode: Mode, reason: String) -> Self {
        Self { mode, readers: AnnouncementReaders::Unknown(reason) }
    }

    /// The maximum by the deployment alone: of what needs no announcement.
    #[must_use]
    pub const fn of_deployment(&self) -> Mode {
        self.mode
    }

    /// The subscriptions of the topic, if they were read.
    #[must_use]
    pub fn subscriptions(&self) -> Option<&TopicSubscriptions> {
        match &self.readers {
            AnnouncementReaders::OfTopic(readers) => Some(&readers.subscriptions),
            AnnouncementReaders::NotNeeded | AnnouncementReaders::Unknown(_) => None,
        }
    }

    /// Finds whether somebody reads the announcements about this resource. If no one does, the team is in observe mode. If that is unknown,
    /// nothing is announced, and nothing ends in this run.
    #[must_use]
    pub fn readership<'a>(&self, target: impl Into<AnnouncementTarget<'a>>) -> Readership {
        let target = target.into();
        match &self.readers {
            AnnouncementReaders::NotNeeded => Readership::Readers(()),
            AnnouncementReaders::Unknown(reason) => Readership::Unknown(reason.clone()),
            AnnouncementReaders::OfTopic(_) if target.is_owner_mailed => Readership::Readers(()),
            AnnouncementReaders::OfTopic(readers) => readers.readership(target.team),
        }
    }

    /// Returns `true` if a reader of what was announced then is pending again: SNS has suspended its subscription. The run that announced it must
    /// have found it confirmed, or a later one.
    #[must_use]
    pub fn has_suspended(&self, readers: &KnownReaders, announced_at: Timestamp) -> bool {
        let AnnouncementReaders::OfTopic(topic) = &self.readers else { return false };
        readers.iter().any(|(key, seen_at)| *seen_at >= announced_at && topic.pending.contains(key))
    }

    /// The maximum for what is not announced yet. Where the readers are unknown it is that of the deployment, so that nothing is called off; the run
    /// announces nothing there, and ends nothing.
    #[must_use]
    pub fn of<'a>(&self, target: impl Into<AnnouncementTarget<'a>>) -> Mode {
        let is_unread = || matches!(self.readership(target), Readership::NoReader(_));
        if self.mode == Mode::Enforce && is_unread() { Mode::Observe } else { self.mode }
    }

    /// The maximum for what was announced in enforce mode at that time: what `readers` have received goes on while their subscription is suspended.
    #[must_use]
    pub fn of_announced<'a>(
        &self,
        target: impl Into<AnnouncementTarget<'a>>,
        readers: &KnownReaders,
        announced_at: Timestamp,
    ) -> Mode {
        if self.has_suspended(readers, announced_at) { self.mode } else { self.of(target) }
    }
}

impl TopicReaders {
    fn readership(&self, team: Option<&TeamName>) -> Readership {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let find = || {
            let name = team.map_or(NO_TEAM, |team| team.as_str());
            self.subscriptions.announcement_readers(name, self.function).without_readers()
        };
        known.entry(team.cloned()).or_insert_with(find).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::Audience;
    use crate::fixture::time;
    use crate::subscriptions::{Subscription, SubscriptionFilter, SubscriptionState};

    const POLICY: &str = r#"{"team": ["vision"]}"#;
    const ANNOUNCED: &str = "2026-09-01T12:00:00Z";
    const LATER: &str = "2026-09-01T12:05:00Z";

    fn subscription(name: &str, state: SubscriptionState, policy: Option<&str>) -> Subscription {
        Subscription {
            audience: Audience::Team,
            protocol: "email".to_owned(),
            endpoint: name.to_owned(),
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
        let filtered = subscription("grace", Confirmed, Some(POLICY));
        let everything = subscription("ada", Confirmed, None);
        let suspended = subscription("ada", Pending, None);
        let unreadable = subscription("ada", Confirmed, Some("{"));
        let never_confirmed = subscription("rosa", Pending, None);
        // The maximum for the team, for what belongs to none, and for what was announced to the team.
        let cases: [(&str, Vec<Subscription>, &TeamName, [Mode; 3]); 8] = [
            ("no subscription", vec![], &nlp, [Observe; 3]),
            ("somebody reads all", vec![filtered.clone(), everything.clone()], &nlp, [Enforce; 3]),
            ("its own subscription", vec![filtered.clone()], &vision, [Enforce, Observe, Enforce]),
            ("another team's", vec![filtered.clone()], &nlp, [Observe; 3]),
            ("suspended", vec![suspended.clone()], &nlp, [Observe, Observe, Enforce]),
            ("another team's, and suspended", vec![filtered, suspended.clone()], &nlp, [Observe, Observe, Enforce]),
            ("unknown: the run ends nothing", vec![unreadable], &nlp, [Enforce; 3]),
            ("never confirmed", vec![never_confirmed], &nlp, [Observe; 3]),
        ];
        let (announced_at, seen_at) = (time(ANNOUNCED), time(LATER));
        let readers = KnownReaders::from([(everything.key(), seen_at)]);
        for (name, subscriptions, team, expect) in cases {
            let ceiling = ceiling(Enforce, &subscriptions);
            let found =
                [ceiling.of(Some(team)), ceiling.of(None), ceiling.of_announced(Some(team), &readers, announced_at)];
            assert_eq!(found, expect, "{name}");
        }
        // What is announced while the subscription is suspended has no reader.
        let announced_since = time("2026-09-01T12:10:00Z");
        assert_eq!(ceiling(Enforce, &[suspended]).of_announced(Some(&nlp), &readers, announced_since), Observe);
    }

    #[test]
    fn a_mailed_owner_reads_what_is_announced() {
        let nlp = TeamName::from("nlp");
        let mailed = AnnouncementTarget { team: Some(&nlp), is_owner_mailed: true };
        assert_eq!(ceiling(Mode::Enforce, &[]).of(mailed), Mode::Enforce);
        assert_eq!(ceiling(Mode::Observe, &[]).of(mailed), Mode::Observe);
        let unknown = Ceiling::with_unknown_readers(Mode::Enforce, "throttled".to_owned());
        assert_eq!(unknown.readership(mailed), Readership::Unknown("throttled".to_owned()));
    }

    #[test]
    fn the_deployment_is_the_maximum() {
        let readers = [subscription("ada", SubscriptionState::Confirmed, None)];
        for ceiling in [
            ceiling(Mode::Observe, &readers),
            Ceiling::fixed(Mode::Observe),
            Ceiling::with_unknown_readers(Mode::Observe, "throttled".to_owned()),
        ] {
            let announced = ceiling.of_announced(None, &KnownReaders::new(), time(ANNOUNCED));
            assert_eq!((ceiling.of(None), announced), (Mode::Observe, Mode::Observe), "{ceiling:?}");
        }
        let unknown = Ceiling::with_unknown_readers(Mode::Enforce, "throttled".to_owned());
        assert_eq!(unknown.readership(None), Readership::Unknown("throttled".to_owned()));
        assert_eq!(Ceiling::fixed(Mode::Enforce).of(None), Mode::Enforce);
    }
}
