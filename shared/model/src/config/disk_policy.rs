//! `local_disk`: the fate of NVMe instance storage.

use std::fmt;

use jiff::SignedDuration;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::duration::{format_exact_duration, parse};
use crate::fault::InvalidValue;

/// Permission for a stop to lose NVMe instance storage, which does not survive a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DiskPolicy {
    /// Never lose it: notify only.
    Keep,
    /// The storage may be lost.
    Expendable,
    /// The storage may be lost, with at least this grace.
    ExpendableAfter(SignedDuration),
}

impl DiskPolicy {
    /// Reads it from a tag or a document.
    ///
    /// # Errors
    /// If it is something else, with the legal values.
    pub fn read(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "keep" => Ok(Self::Keep),
            "expendable" => Ok(Self::Expendable),
            _ => parse(text).map(Self::ExpendableAfter).map_err(|_| {
                InvalidValue::new(format!(
                    "`{text}` is not possible; write `keep`, `expendable`, or a duration such as `24h`: the grace before a stop"
                ))
            }),
        }
    }

    /// The shortest grace before an action that loses the storage; `None` if none may.
    #[must_use]
    pub const fn grace_min(self) -> Option<SignedDuration> {
        match self {
            Self::Keep => None,
            Self::Expendable => Some(SignedDuration::ZERO),
            Self::ExpendableAfter(grace) => Some(grace),
        }
    }
}

impl fmt::Display for DiskPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Expendable => f.write_str("expendable"),
            Self::ExpendableAfter(grace) => f.write_str(&format_exact_duration(*grace)),
        }
    }
}

impl Serialize for DiskPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DiskPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PolicyVisitor;

        impl Visitor<'_> for PolicyVisitor {
            type Value = DiskPolicy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`keep`, `expendable` or a duration such as `24h`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<DiskPolicy, E> {
                DiskPolicy::read(text).map_err(E::custom)
            }
        }

        deserializer.deserialize_any(PolicyVisitor)
    }
}

/// `[idle] local_disk`: `keep` while nobody has chosen it. Two are equal if they have the same effect.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccountDiskPolicy(Option<DiskPolicy>);

impl AccountDiskPolicy {
    /// The policy that the document has.
    #[must_use]
    pub const fn chosen(self) -> Option<DiskPolicy> {
        self.0
    }

    /// The policy in force.
    #[must_use]
    pub fn in_force(self) -> DiskPolicy {
        self.0.unwrap_or(DiskPolicy::Keep)
    }
}

impl PartialEq for AccountDiskPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.in_force() == other.in_force()
    }
}

impl Serialize for AccountDiskPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.in_force().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AccountDiskPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DiskPolicy::deserialize(deserializer).map(|policy| Self(Some(policy)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn check(text: &str, expect: Option<DiskPolicy>) {
        assert_eq!(DiskPolicy::read(text).ok(), expect, "{text:?}");
        assert_eq!(expect.map(|policy| policy.to_string()), expect.map(|_| text.to_owned()));
    }

    #[test]
    fn it_is_a_word_or_a_grace() {
        check("keep", Some(DiskPolicy::Keep));
        check("expendable", Some(DiskPolicy::Expendable));
        check("1d2h", Some(DiskPolicy::ExpendableAfter(SignedDuration::from_hours(26))));
        for text in ["", "Keep", "24", "never"] {
            check(text, None);
        }
    }

    #[test]
    fn a_default_is_not_chosen_and_has_the_same_effect() {
        let read = |text: &str| Config::read(text).unwrap().idle.local_disk;
        assert_eq!((read("").chosen(), read("").in_force()), (None, DiskPolicy::Keep));
        let keep = read("[idle]\nlocal_disk = \"keep\"");
        assert_eq!((keep.chosen(), keep), (Some(DiskPolicy::Keep), read("")));
        assert_ne!(read("[idle]\nlocal_disk = \"24h\""), keep);
    }
}
