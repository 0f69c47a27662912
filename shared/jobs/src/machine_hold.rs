//! The hold that a person puts on the machine of a job by a tag: `run-jobs` neither terminates nor replaces such a machine.

use jiff::Timestamp;
use model::curfew_tags::{CurfewTags, KEEP_UNTIL, MODE, PROTECTED, kept_until};
use model::instance::{Instance, Tags};
use model::mode::Mode;
use serde::{Deserialize, Serialize};

/// The tag that holds a machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum MachineHold {
    /// `curfew:protected`.
    Protected,
    /// `curfew:keep-until`, which is in force.
    Kept { until: Timestamp },
    /// `curfew:mode=observe`.
    Observing,
    /// An unreadable `curfew` tag: its author had an intention.
    Unreadable {
        /// Its key.
        tag: String,
    },
}

impl MachineHold {
    /// The hold that the tags of an instance put on it now, the strongest first.
    #[must_use]
    pub fn read(instance: &Instance, now: Timestamp) -> Option<Self> {
        if is_protected(&instance.tags) {
            return Some(Self::Protected);
        }
        if let Some(until) = kept_until(&instance.tags).filter(|until| now < *until) {
            return Some(Self::Kept { until });
        }
        match CurfewTags::read(instance) {
            Ok(says) => (says.mode == Some(Mode::Observe)).then_some(Self::Observing),
            Err(unreadable) => unreadable.into_iter().next().map(|one| Self::Unreadable { tag: one.key }),
        }
    }

    /// Its name in documents.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Protected => "protected",
            Self::Kept { .. } => "kept",
            Self::Observing => "observing",
            Self::Unreadable { .. } => "unreadable",
        }
    }

    /// Describes the hold for people, to follow the machine's id.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Protected => format!("carries the tag {PROTECTED}"),
            Self::Kept { until } => format!("carries the tag {KEEP_UNTIL}, in force until {until}"),
            Self::Observing => format!("carries the tag {MODE}=observe"),
            Self::Unreadable { tag } => format!("carries the tag {tag:?}, which cannot be read"),
        }
    }
}

/// Returns `true` if a machine carries `curfew:protected`. A typo never kills, so the key counts in any case.
#[must_use]
pub fn is_protected(tags: &Tags) -> bool {
    tags.keys().any(|key| key.trim().eq_ignore_ascii_case(PROTECTED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::fixture::{NOW, instance, time};

    fn check(tags: &[(&str, &str)], expect: Option<&str>) {
        let mut given = instance().tag("curfew:job", "vision/a-0123abcd").tag("curfew:mode", "enforce").build();
        given.tags.extend(tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        let found = MachineHold::read(&given, time(NOW));
        assert_eq!(found.as_ref().map(MachineHold::as_str), expect, "{tags:?}");
    }

    #[test]
    fn tags_of_people_protect_a_machine_and_curfews_own_do_not() {
        check(&[], None);
        check(&[("curfew:attempt", "3"), ("curfew:expires-at", "2026-09-01T11:00:00Z"), ("team", "vision")], None);
        check(&[("curfew:marked", "i-0abc expired=terminate@2026-09-01T11:59:00Z")], None);
        for key in ["curfew:protected", "Curfew:Protected "] {
            check(&[(key, "")], Some("protected"));
        }
        check(&[("curfew:keep-until", "2026-09-01T12:00:01Z")], Some("kept"));
        check(&[("curfew:keep-until", "2026-09-01T12:00:00Z")], None);
        check(&[("curfew:mode", "observe")], Some("observing"));
        for (key, value) in [("curfew:keep-until", "soon"), ("curfew:mode", "obsrve"), ("Curfew:keep", "x")] {
            check(&[(key, value)], Some("unreadable"));
        }
    }
}
