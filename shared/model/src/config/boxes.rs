//! `[boxes]` of the configuration.

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::checks;
use crate::duration::{self, format_exact_duration};

/// `[boxes]`: limits of the machines that people work on. A team may have lower ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BoxesConfig {
    /// The most boxes of one owner in a team that are up at once.
    #[serde(deserialize_with = "checks::boxes")]
    pub per_owner_max: u32,
    /// The longest life of a machine, and its default.
    #[serde(deserialize_with = "box_runtime", serialize_with = "duration::serialize")]
    pub runtime_max: SignedDuration,
    /// The shortest idle time after which a box ends.
    #[serde(deserialize_with = "box_idle", serialize_with = "duration::serialize")]
    pub idle_min: SignedDuration,
    /// The longest one.
    #[serde(deserialize_with = "box_idle", serialize_with = "duration::serialize")]
    pub idle_max: SignedDuration,
    /// The largest home, in GiB.
    #[serde(deserialize_with = "checks::home_gib")]
    pub home_gib_max: u32,
}

impl Default for BoxesConfig {
    fn default() -> Self {
        Self {
            per_owner_max: 2,
            runtime_max: SignedDuration::from_hours(24),
            // Shorter, it would end while somebody reads; longer, it is no limit.
            idle_min: SignedDuration::from_mins(15),
            idle_max: SignedDuration::from_hours(4),
            home_gib_max: 1_024,
        }
    }
}

/// A machine has to boot first, and nobody works for longer than a week.
const RUNTIME_RANGE: [SignedDuration; 2] = [SignedDuration::from_mins(15), SignedDuration::from_hours(7 * 24)];

const IDLE_RANGE: [SignedDuration; 2] = [SignedDuration::from_mins(5), SignedDuration::from_hours(24)];

pub(super) fn box_runtime<'de, D: Deserializer<'de>, T: From<SignedDuration>>(deserializer: D) -> Result<T, D::Error> {
    between(deserializer, RUNTIME_RANGE)
}

pub(super) fn box_idle<'de, D: Deserializer<'de>, T: From<SignedDuration>>(deserializer: D) -> Result<T, D::Error> {
    between(deserializer, IDLE_RANGE)
}

fn between<'de, D: Deserializer<'de>, T: From<SignedDuration>>(
    deserializer: D,
    [least, most]: [SignedDuration; 2],
) -> Result<T, D::Error> {
    let length = duration::deserialize(deserializer)?;
    if (least..=most).contains(&length) {
        return Ok(length.into());
    }
    let [length, least, most] = [length, least, most].map(format_exact_duration);
    Err(serde::de::Error::custom(format!("`{length}` is not possible; write {least} to {most}")))
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
pub(super) fn serialize_some<S: Serializer>(length: &Option<SignedDuration>, serializer: S) -> Result<S::Ok, S::Error> {
    length.map(format_exact_duration).serialize(serializer)
}
