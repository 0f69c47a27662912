//! `[projects]`: the projects that may run GPU instances.

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize};

use super::checks;
use super::sections::RuleAction;
use crate::duration;

/// `[projects]`: instances of a project that is not on the account's list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectsConfig {
    /// The tag whose value is the project.
    #[serde(deserialize_with = "checks::tag_key")]
    pub tag: String,
    /// The projects that may run; empty: every project.
    #[serde(deserialize_with = "projects")]
    pub allowed: Vec<String>,
    /// Time from the announcement to the action.
    #[serde(with = "duration")]
    pub grace: SignedDuration,
    pub action: RuleAction,
}

impl Default for ProjectsConfig {
    fn default() -> Self {
        Self {
            tag: "Project".to_owned(),
            allowed: Vec::new(),
            grace: SignedDuration::from_hours(24),
            action: RuleAction::Notify,
        }
    }
}

impl ProjectsConfig {
    /// `true` if there is no list, or a project is on it. People write names in any capitals, and with blanks around them.
    #[must_use]
    pub fn allows(&self, project: &str) -> bool {
        let project = project.trim().to_lowercase();
        self.allowed.is_empty() || self.allowed.iter().any(|allowed| allowed.trim().to_lowercase() == project)
    }
}

fn projects<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let projects = Vec::<String>::deserialize(deserializer)?;
    if projects.iter().any(|project| project.trim().is_empty()) {
        let problem = "a blank name is no project; write the names that may run, or no list for all of them";
        return Err(serde::de::Error::custom(problem));
    }
    Ok(projects)
}
