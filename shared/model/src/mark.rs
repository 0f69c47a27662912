//! The mark: the state machine's memory, on the resource itself, as the value of the tag `curfew:marked`.
//!
//! `<resource id> <rule>=<action>@<RFC 3339 deadline>`, further rules after a blank.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::sha256_hex;
use crate::id::ResourceId;
use crate::moment;
use crate::rule::{ResourceAction, Rule};

/// The age after which an announcement is void: whatever delayed the action, people are notified again.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What was announced for one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnnouncedAction {
    /// What will be done.
    pub ending: ResourceAction,
    /// From when on, in whole seconds.
    pub deadline: Timestamp,
}

impl AnnouncedAction {
    /// Whether it still binds at `now`, for something that lives since `since`: neither of an earlier life, nor forgotten.
    #[must_use]
    pub fn is_fresh(self, since: Timestamp, now: Timestamp) -> bool {
        self.deadline >= since && now.duration_since(self.deadline) <= FORGOTTEN_AFTER
    }
}

/// As tags are written. Rounded down, so that a grace of `0s` is over in the next run, however soon that comes.
#[must_use]
pub fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// What was announced for one resource, by rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The resource that it is about, by its id or the hash of that: a copied tag names another. See [`Mark::is_about`].
    pub resource: ResourceId,
    /// Never empty on a resource.
    pub entries: BTreeMap<Rule, AnnouncedAction>,
}

/// An id of EC2 has 21 characters, and one of `SageMaker` up to 200: with all rules it would not fit a tag.
const ID_BYTES_MAX: usize = 26;

impl Mark {
    /// What is announced for one resource.
    #[must_use]
    pub fn new(id: &ResourceId, entries: BTreeMap<Rule, AnnouncedAction>) -> Self {
        Self { resource: name_in_tag(id), entries }
    }

    /// Whether it is about this resource: a copied tag names another.
    #[must_use]
    pub fn is_about(&self, id: &ResourceId) -> bool {
        self.resource == name_in_tag(id)
    }
}

/// The id; a long one by the beginning of its hash.
fn name_in_tag(id: &ResourceId) -> ResourceId {
    if id.as_str().len() <= ID_BYTES_MAX {
        return id.clone();
    }
    let hash = sha256_hex(id.as_str().as_bytes());
    ResourceId::new(format!("id-{}", &hash[..16]))
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.resource.fmt(f)?;
        self.entries.iter().try_for_each(|(rule, said)| write!(f, " {rule}={}@{}", said.ending, said.deadline))
    }
}

/// A text that is no mark.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not what Curfew writes there; remove the tag, and Curfew announces anew")]
pub struct UnreadableMark(String);

impl FromStr for Mark {
    type Err = UnreadableMark;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unreadable = || UnreadableMark(text.to_owned());
        let mut words = text.split(' ');
        let resource = words.next().filter(|word| !word.is_empty()).ok_or_else(unreadable)?;
        let mut entries = BTreeMap::new();
        for word in words {
            let (rule, announced) = word.split_once('=').ok_or_else(unreadable)?;
            let (ending, deadline) = announced.split_once('@').ok_or_else(unreadable)?;
            let announced = AnnouncedAction {
                ending: ResourceAction::read(ending).ok_or_else(unreadable)?,
                deadline: moment::read(deadline).ok_or_else(unreadable)?,
            };
            if entries.insert(Rule::read(rule).ok_or_else(unreadable)?, announced).is_some() {
                return Err(unreadable());
            }
        }
        if entries.is_empty() {
            return Err(unreadable());
        }
        Ok(Self { resource: ResourceId::from(resource), entries })
    }
}

impl Serialize for Mark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_writing_and_reading() {
        let text = "i-0abc untagged=stop@2026-09-02T08:00:00Z idle=terminate@2026-09-01T12:00:00Z";
        assert_eq!(text.parse::<Mark>().unwrap().to_string(), text);
    }

    #[test]
    fn an_impossible_document_is_refused() {
        for text in [
            "",
            "i-0abc",
            "i-0abc ",
            "i-0abc idle",
            "i-0abc idle=stop",
            "i-0abc idle=stop@soon",
            "i-0abc idle=explode@2026-09-01T12:00:00Z",
            "i-0abc bored=stop@2026-09-01T12:00:00Z",
            "i-0abc idle=stop@2026-09-01T12:00:00Z  idle=stop@2026-09-01T12:00:00Z",
            "i-0abc idle=stop@2026-09-01T12:00:00Z idle=stop@2026-09-01T12:00:00Z",
        ] {
            assert!(text.parse::<Mark>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_longest_mark_fits_a_tag_value() {
        let deadline = "2026-09-01T12:00:00Z".parse().unwrap();
        let of_instance = Rule::OF_INSTANCES.map(|rule| (rule, ResourceAction::Terminate));
        let of_sagemaker = Rule::OF_SAGEMAKER.map(|rule| (rule, ResourceAction::Delete));
        for (resource, ends) in [
            ("i-0123456789abcdef0", of_instance.as_slice()),
            ("vol-0123456789abcdef0", &[(Rule::Orphaned, ResourceAction::SnapshotAndDelete)]),
            (&format!("app/{0}/{0}/jupyterlab/{0}", "n".repeat(63)), &of_sagemaker),
        ] {
            let entries =
                ends.iter().map(|(rule, ending)| (*rule, AnnouncedAction { ending: *ending, deadline })).collect();
            let id = ResourceId::from(resource);
            let mark = Mark::new(&id, entries);
            assert!(mark.is_about(&id) && !mark.is_about(&"i-1".into()), "{mark}");
            // EC2 user guide, "Tag restrictions": 256 characters.
            assert!(mark.to_string().len() <= 256, "{mark}");
        }
    }

    #[test]
    fn an_announcement_binds_in_its_own_life_and_for_a_week() {
        let check = |deadline: &str, since: &str, now: &str, expect: bool| {
            let announced = AnnouncedAction { ending: ResourceAction::Stop, deadline: deadline.parse().unwrap() };
            assert_eq!(announced.is_fresh(since.parse().unwrap(), now.parse().unwrap()), expect, "{deadline} at {now}");
        };
        check("2026-09-01T12:00:00Z", "2026-09-01T12:00:00Z", "2026-09-01T12:00:00Z", true);
        check("2026-09-01T11:59:59Z", "2026-09-01T12:00:00Z", "2026-09-01T12:00:00Z", false);
        check("2026-09-02T12:00:00Z", "2026-09-01T12:00:00Z", "2026-09-01T12:00:00Z", true);
        check("2026-09-01T12:00:00Z", "2026-08-01T12:00:00Z", "2026-09-08T12:00:00Z", true);
        check("2026-09-01T12:00:00Z", "2026-08-01T12:00:00Z", "2026-09-08T12:00:01Z", false);
    }
}
