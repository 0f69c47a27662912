//! What is kept of a run.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Tariff;
use crate::id::{ResourceId, TeamName};

/// What a run is, and whose.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Facts {
    /// What it is a run of.
    pub kind: Kind,
    /// Its team, by its tags.
    pub team: Option<TeamName>,
    /// Its owner, by its tags.
    pub owner: Option<String>,
    /// Its `Name` tag.
    pub name: Option<String>,
    /// What it is, for people: `g5.xlarge`, `500 GiB gp3`.
    pub what: String,
    /// How it is bought.
    pub terms: Terms,
    /// The job, `<team>/<job>`, that it says it is of.
    pub job: Option<String>,
    /// Of a volume: the instance that it hangs on.
    pub attached_to: Option<ResourceId>,
    /// What sets its price.
    pub tariff: Tariff,
}

/// What a run is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An accelerated instance.
    Instance,
    /// A volume that hangs on one.
    Volume,
}

/// How something is bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Terms {
    /// By the second, at a price that hardly changes: one that is learnt later held before as well.
    OnDemand,
    /// By the second, at a price that does: what is not known is not guessed.
    Spot,
    /// In an on-demand capacity reservation: billed as on demand, and without the instance the reservation is billed the same.
    Reserved,
    /// In a Capacity Block, or on a dedicated host: paid otherwise than by the instance, and nobody knows what for each.
    Prepaid,
}

/// How good the source of a run's facts is. The better one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Source {
    /// Seen after its end, or in the month before: of these the earliest counts.
    Outside,
    /// Seen running after the month: of these the earliest counts.
    After,
    /// Seen running in the month: of these the latest counts.
    #[default]
    Within,
}

/// What is kept of a run: facts of which any two can be joined, in any order and any number of times.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) facts: Facts,
    pub(super) source: Source,
    /// When the facts were seen.
    pub(super) facts_at: Timestamp,
    /// The latest moment at which it was seen running; an hour after the month for all that are later.
    pub(super) seen: Option<Timestamp>,
    /// When it was stopped, by EC2's own word.
    pub(super) stopped: Option<Timestamp>,
    /// When it was terminated, by EC2's own word.
    pub(super) terminated: Option<Timestamp>,
    /// The first beat that saw that it had ended, where EC2 did not say when.
    pub(super) ended_by: Option<Timestamp>,
    /// Whether EC2 took it back; `None` where nobody saw why it ended.
    pub(super) reclaimed: Option<bool>,
}

impl Entry {
    /// Both together.
    pub(super) fn join(&mut self, other: &Self) {
        if other.outranks(self) {
            (self.source, self.facts_at, self.facts) = (other.source, other.facts_at, other.facts.clone());
        }
        self.seen = self.seen.max(other.seen);
        self.stopped = earliest(self.stopped, other.stopped);
        self.terminated = earliest(self.terminated, other.terminated);
        self.ended_by = earliest(self.ended_by, other.ended_by);
        self.reclaimed = self.reclaimed.max(other.reclaimed);
    }

    /// Of two of one moment the greater counts, so that their order does not.
    fn outranks(&self, other: &Self) -> bool {
        let by_time = match self.source {
            Source::Within => self.facts_at.cmp(&other.facts_at),
            Source::After | Source::Outside => other.facts_at.cmp(&self.facts_at),
        };
        self.source.cmp(&other.source).then(by_time).then_with(|| self.facts.cmp(&other.facts)).is_gt()
    }
}

/// The earlier of what is known.
pub(super) fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}
