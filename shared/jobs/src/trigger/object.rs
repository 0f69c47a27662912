//! The documents of triggers in the state bucket, and the state beside each.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::TeamName;
use model::listing::ListedObject;
use model::team_folder::team_folder;

use crate::inbox::team_in_folder;

/// The top folder, with a folder a team.
pub const TRIGGERS: &str = "triggers/";
const DOCUMENT: &str = ".toml";
const STATE: &str = ".state.json";

/// The folder of a team's schedules below that of its triggers. A team has one part of a key, so no team's folder is called that.
const SCHEDULES: &str = "schedules";

/// The objects of a folder that are read, as many as one call lists.
pub const FOLDER_MAX: usize = 1_000;

/// One trigger or schedule, as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerObject {
    pub key: String,
    /// The team of its folder; `None` outside of any team's folder.
    pub team: Option<TeamName>,
    /// Its name without `.toml`.
    pub name: String,
    /// `true` if it is in the folder of schedules.
    pub is_schedule: bool,
    /// Time of its own write; `None` if it was not listed.
    pub written_at: Option<Timestamp>,
    /// Time at which its state was written; `None` without one.
    pub state_written_at: Option<Timestamp>,
}

/// List of all triggers.
#[derive(Debug, Default)]
pub struct TriggerListing {
    /// Triggers in the order of folders, and of keys in each.
    pub triggers: Vec<TriggerObject>,
    /// The folders with more objects than are listed, each with its team.
    pub cut_off: Vec<(Option<TeamName>, String)>,
}

impl TriggerListing {
    /// The triggers of all folders, as they were listed.
    #[must_use]
    pub fn from_folders(folders: BTreeMap<String, Vec<ListedObject>>) -> Self {
        let mut listing = Self::default();
        for (folder, mut listed) in folders {
            if listed.len() > FOLDER_MAX {
                listed.truncate(FOLDER_MAX);
                let spelt = folder.strip_prefix(TRIGGERS).and_then(|spelt| spelt.strip_suffix('/'));
                listing.cut_off.push((spelt.and_then(team_in_folder), folder));
            }
            listing.triggers.extend(match_states(listed));
        }
        listing
    }
}

impl TriggerObject {
    /// `None` if the key is of no trigger, such as that of a state.
    #[must_use]
    pub fn from_key(key: &str) -> Option<Self> {
        let path = key.strip_prefix(TRIGGERS)?.strip_suffix(DOCUMENT)?;
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let (spelt, below) = folder.split_once('/').unwrap_or((folder, ""));
        let is_schedule = below.split('/').next() == Some(SCHEDULES);
        // Deeper is no team's place: a schedule there never runs, and its writer is notified.
        let team = team_in_folder(spelt).filter(|_| below.is_empty() || below == SCHEDULES);
        let (key, name) = (key.to_owned(), name.to_owned());
        Some(Self { key, team, name, is_schedule, written_at: None, state_written_at: None })
    }
}

/// The key of a team's trigger.
#[must_use]
pub fn trigger_key(team: &TeamName, name: &str) -> String {
    format!("{TRIGGERS}{}/{name}{DOCUMENT}", team_folder(team))
}

/// The folder of a team's schedules.
#[must_use]
pub fn schedules_folder(team: &TeamName) -> String {
    format!("{TRIGGERS}{}/{SCHEDULES}/", team_folder(team))
}

/// The key of a team's schedule.
#[must_use]
pub fn schedule_key(team: &TeamName, name: &str) -> String {
    format!("{}{name}{DOCUMENT}", schedules_folder(team))
}

/// The key of the state of a trigger or a schedule.
#[must_use]
pub fn state_key(trigger: &str) -> String {
    format!("{}{STATE}", trigger.strip_suffix(DOCUMENT).unwrap_or(trigger))
}

fn match_states(listed: Vec<ListedObject>) -> Vec<TriggerObject> {
    let states: BTreeMap<String, Timestamp> =
        listed.iter().filter(|one| one.key.ends_with(STATE)).map(|one| (one.key.clone(), one.written_at)).collect();
    let trigger = |ListedObject { key, written_at, .. }: &ListedObject| {
        let state_written_at = states.get(&state_key(key)).copied();
        Some(TriggerObject { written_at: Some(*written_at), state_written_at, ..TriggerObject::from_key(key)? })
    };
    listed.iter().filter_map(trigger).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_is_of_the_team_of_its_folder_and_has_its_state_beside_it() {
        let listed = |key: &str, second| {
            let written_at = Timestamp::from_second(second).unwrap();
            ListedObject { key: key.to_owned(), written_at, bytes: 0 }
        };
        let found = match_states(vec![
            listed("triggers/a%2Fb/x.toml", 1),
            listed("triggers/v%69sion/x.toml", 1),
            listed("triggers/vision/schedules/sub/x.toml", 1),
            listed("triggers/vision/schedules/x.state.json", 8),
            listed("triggers/vision/schedules/x.toml", 1),
            listed("triggers/vision/sub/schedules/x.toml", 1),
            listed("triggers/vision/sub/x.toml", 1),
            listed("triggers/vision/x.state.json", 7),
            listed("triggers/vision/x.toml", 1),
            listed("triggers/x.toml", 1),
        ]);
        let seen: Vec<_> = found
            .iter()
            .map(|one| {
                let written = one.state_written_at.map(Timestamp::as_second);
                (one.team.as_ref().map(TeamName::as_str), one.name.as_str(), one.is_schedule, written)
            })
            .collect();
        assert_eq!(schedule_key(&"a/b".into(), "x"), "triggers/a%2Fb/schedules/x.toml");
        assert_eq!(
            seen,
            [
                (Some("a/b"), "x", false, None),
                (None, "x", false, None),
                (None, "x", true, None),
                (Some("vision"), "x", true, Some(8)),
                (None, "x", false, None),
                (None, "x", false, None),
                (Some("vision"), "x", false, Some(7)),
                (None, "x", false, None)
            ]
        );
    }
}
