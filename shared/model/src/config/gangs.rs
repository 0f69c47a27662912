//! `[gangs]`: instances that work together.

use serde::{Deserialize, Deserializer, Serialize};

use super::checks;

/// `[gangs]`: how to know instances that work together, of which a stop of one ends the work of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GangsConfig {
    /// The tag whose value names the gang of an instance; empty: no tag does.
    #[serde(deserialize_with = "optional_tag_key")]
    pub tag: String,
    /// `true` if the instances of one placement group are a gang.
    pub placement_groups: bool,
}

impl Default for GangsConfig {
    fn default() -> Self {
        Self { tag: String::new(), placement_groups: true }
    }
}

fn optional_tag_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let key = String::deserialize(deserializer)?;
    if key.is_empty() {
        return Ok(key);
    }
    checks::check_tag_key(&key).map(|()| key).map_err(serde::de::Error::custom)
}
