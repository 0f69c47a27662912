//! The top folders in which each team has a folder, and their entries.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::TeamName;
use model::listing::ListedObject;
use model::team_folder::decode_folder;
use serde::{Deserialize, Serialize};

use super::QueueItem;
use crate::JobId;
use crate::keys::team_and_job;

/// A top folder in which each team has a folder of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backlog {
    /// Documents that teams submit.
    Inbox,
    /// The index of unfinished jobs.
    Active,
    Jobs,
}

/// A job by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEntry {
    pub job: JobId,
    key: String,
    since: Timestamp,
}

/// The keys after which the next run lists folders that are too large for one run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Bookmarks {
    /// Keys by folder.
    pub after: BTreeMap<String, String>,
}

impl Backlog {
    /// Its name, with its `/`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inbox => "inbox/",
            Self::Active => "active/",
            Self::Jobs => "jobs/",
        }
    }

    /// The folder of a key: its team's, or the top folder.
    #[must_use]
    pub fn folder_of(self, key: &str) -> &str {
        folder_below(self.as_str(), key)
    }

    /// The team of a folder; `None` for a folder that no team can have.
    #[must_use]
    pub fn team(self, folder: &str) -> Option<TeamName> {
        let team = decode_folder(folder.strip_prefix(self.as_str())?.strip_suffix('/')?)?;
        (!team.is_empty()).then(|| TeamName::new(team))
    }
}

/// The folder of a key directly under a top folder; the top folder, if it is in none.
#[must_use]
pub fn folder_below<'k>(top: &str, key: &'k str) -> &'k str {
    let top = top.len();
    let end = key.get(top..).and_then(|rest| rest.find('/')).map_or(top, |slash| top + slash + 1);
    key.get(..end).unwrap_or(key)
}

impl JobEntry {
    /// `None` if it names no job.
    #[must_use]
    pub fn read(backlog: Backlog, ListedObject { key, written_at, .. }: ListedObject) -> Option<Self> {
        let path = key.strip_prefix(backlog.as_str())?;
        let job = team_and_job(path.strip_suffix('/').unwrap_or(path))?;
        Some(Self { job, key, since: written_at })
    }
}

impl QueueItem for JobEntry {
    fn key(&self) -> &str {
        &self.key
    }

    fn since(&self) -> Timestamp {
        self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_counted_to_the_folder_of_its_team() {
        let check = |key: &str, folder: &str, team: Option<&str>| {
            assert_eq!(Backlog::Inbox.folder_of(key), folder);
            assert_eq!(Backlog::Inbox.team(folder), team.map(TeamName::from), "{key}");
        };
        check("inbox/vision/x.toml", "inbox/vision/", Some("vision"));
        check("inbox/vision/x/y.toml", "inbox/vision/", Some("vision"));
        check("inbox/a%2Fb/x.toml", "inbox/a%2Fb/", Some("a/b"));
        check("inbox/x.toml", "inbox/", None);
        check("inbox//x.toml", "inbox//", None);
    }

    #[test]
    fn a_job_is_named_by_its_folder_and_by_the_index() {
        let entry = |backlog, key: &str| {
            JobEntry::read(backlog, ListedObject { key: key.to_owned(), written_at: Timestamp::MIN, bytes: 0 })
                .map(|entry| entry.job)
        };
        let job = JobId::read("vision/llama-0123abcd").unwrap();
        assert_eq!(entry(Backlog::Active, "active/vision/llama-0123abcd"), Some(job.clone()));
        assert_eq!(entry(Backlog::Jobs, "jobs/vision/llama-0123abcd/"), Some(job));
        assert_eq!(entry(Backlog::Jobs, "jobs/vision/"), None);
    }
}
