//! The folders of teams, of any size.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jobs::{JobId, QueueItem};
use model::id::TeamName;
use serde::{Deserialize, Serialize};

use super::inbox::ANSWER_BYTES_MORE;
use super::keys::team_and_job;
use crate::bucket::{ListDepth, ListPart, ListedObject};
use crate::budgets::list::team_of;
use crate::document::StoredDocument;
use crate::{Store, StoreError, Versioned};

/// A list of this length takes five calls. Above it, each team's folder is listed by itself.
const LISTED_MAX: usize = 5_000;

/// Pages of a list (Amazon S3 API reference, "`ListObjectsV2`").
const TEAMS_PAGES_MAX: usize = 1;
const TEAM_PAGES_MAX: usize = 5;

/// Jobs stay under `jobs/` for ever.
const JOBS_PAGES_MAX: usize = 30;

/// Amazon S3 user guide, "Naming Amazon S3 objects".
const KEY_BYTES_MAX: usize = 1_024;

/// The parts of a job's longest key besides `<team>/<job>`: the top folder, an attempt, a step, a file's name.
const JOB_KEY_BYTES_MORE: usize = 256;

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

impl StoredDocument for Bookmarks {
    const IF_LOST: &'static str = "what is too much for one run is then looked at from its beginning";
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
        let team = team_of(folder.strip_prefix(self.as_str())?.strip_suffix('/')?)?;
        (!team.is_empty()).then(|| TeamName::new(team))
    }

    /// Folders for the jobs of a team; objects otherwise.
    fn depth(self, folder: &str) -> ListDepth {
        if self == Self::Jobs || folder == self.as_str() { ListDepth::Children } else { ListDepth::All }
    }
}

/// The folder of a key directly under a top folder; the top folder, if it is in none.
pub(super) fn folder_below<'k>(top: &str, key: &'k str) -> &'k str {
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

/// Returns `true` if the document at this key of the inbox can be answered: its answers have longer names.
#[must_use]
pub fn is_answerable(key: &str) -> bool {
    key.len() + ANSWER_BYTES_MORE <= KEY_BYTES_MAX
}

/// Returns `true` if the documents of a job can be written: a team's name may be too long for a key.
#[must_use]
pub fn has_legal_keys(job: &JobId) -> bool {
    super::keys::active_key(job).len() + JOB_KEY_BYTES_MORE <= KEY_BYTES_MAX
}

impl Store {
    /// Everything under a top folder, in order; `None` if that is more than one list.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn list_backlog(&self, backlog: Backlog) -> Result<Option<Vec<ListedObject>>, StoreError> {
        match self.bucket.list(backlog.as_str(), LISTED_MAX).await {
            Ok(all) => Ok(Some(all)),
            Err(StoreError::TooMany { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The folders directly under a top folder, from that one on.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn list_team_folders(
        &self,
        backlog: Backlog,
        after: Option<&str>,
    ) -> Result<ListPart<String>, StoreError> {
        let top = backlog.as_str();
        let ListPart { items, stopped_at } =
            self.bucket.list_part(top, ListDepth::Children, after, TEAMS_PAGES_MAX).await?;
        let folders = items.into_iter().map(|item| item.key).filter(|key| key.ends_with('/') && key != top);
        Ok(ListPart { items: folders.collect(), stopped_at })
    }

    /// The objects in the folder of a team, or directly in the top folder, from that key on.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn list_team_part(
        &self,
        backlog: Backlog,
        folder: &str,
        after: Option<&str>,
    ) -> Result<ListPart<ListedObject>, StoreError> {
        let is_first_look = backlog == Backlog::Jobs && after.is_none();
        let pages_max = if is_first_look { JOBS_PAGES_MAX } else { TEAM_PAGES_MAX };
        self.bucket.list_part(folder, backlog.depth(folder), after, pages_max).await
    }

    /// The bookmarks of earlier runs.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn read_bookmarks(&self, function: &str) -> Result<Versioned<Bookmarks>, StoreError> {
        self.read_cache(&bookmarks_key(function)).await
    }

    /// Writes the bookmarks of this run. If another run was faster, its bookmarks are as good.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn write_bookmarks(&self, function: &str, bookmarks: &Versioned<Bookmarks>) -> Result<(), StoreError> {
        self.write_cache(&bookmarks_key(function), &bookmarks.value, bookmarks.etag.as_deref()).await.map(drop)
    }
}

fn bookmarks_key(function: &str) -> String {
    format!("notices/{function}/bookmarks.json")
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

    #[test]
    fn a_name_with_too_long_an_answer_is_refused() {
        let key = |bytes| format!("{:x<1$}.toml", "inbox/vision/", bytes - ".toml".len());
        assert!(is_answerable(&key(1_015)) && !is_answerable(&key(1_016)));
        let answer = key(1_015).replace(".toml", ".accepted.json");
        assert_eq!(answer.len(), KEY_BYTES_MAX);
        let job = |team: &str| JobId::read(&format!("{team}/llama-0123abcd")).unwrap();
        assert!(has_legal_keys(&job("vision")) && !has_legal_keys(&job(&"x".repeat(800))));
    }
}
