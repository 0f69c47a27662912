//! The inbox: a TOML document a job, in the folder of its team, and Curfew's answer beside it.

use std::collections::BTreeMap;

use domain::id::TeamName;
use domain::job::{Answered, JobName};
use jiff::Timestamp;

use super::TOML;
use crate::bucket::{Condition, Listed, Written};
use crate::budgets::folder;
use crate::budgets::list::team_of;
use crate::document::{read, stamped};
use crate::{BYTES_MAX, Store, StoreError};

const INBOX: &str = "inbox/";
const ACCEPTED: &str = ".accepted.json";
const REJECTED: &str = ".rejected.json";
const SUBMITTED: &str = ".toml";

/// The most objects of the inbox, answers included: nobody empties it, and a list of so many takes ten calls.
const KEYS_MAX: usize = 10_000;

const IF_ANSWER_IS_LOST: &str = "it is answered again";

/// One document of the inbox, as a list tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inboxed {
    /// Its key.
    pub key: String,
    /// When it was written, to the second.
    pub written_at: Timestamp,
    /// When the newest answer to it was written, to the second; `None` where there is none.
    pub answered_at: Option<Timestamp>,
}

/// One document of the inbox, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Its key.
    pub key: String,
    /// The team whose folder it is in; `None` where it is in none.
    pub team: Option<TeamName>,
    /// Its name without `.toml`.
    pub name: String,
    /// Its version; in a bucket without versions its `ETag`.
    pub object: String,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// A document that was just put into the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// Its key.
    pub key: String,
    /// Its version; in a bucket without versions its `ETag`: what its answer will name.
    pub object: String,
}

impl Store {
    /// Every document of the inbox, in order, and whether it was answered.
    ///
    /// # Errors
    /// Where S3 refused, or there are more than a run can look at.
    pub async fn inbox(&self) -> Result<Vec<Inboxed>, StoreError> {
        Ok(with_answers(self.bucket.list(INBOX, KEYS_MAX).await?))
    }

    /// One document of the inbox; `None` where there is none at that key, or the key is of something else.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn read_submission(&self, key: &str) -> Result<Option<Submission>, StoreError> {
        let Some((team, name)) = team_and_name(key) else { return Ok(None) };
        let Some(found) = self.bucket.get(key, BYTES_MAX).await? else { return Ok(None) };
        let object = named(found.version, found.etag);
        Ok(Some(Submission { key: key.to_owned(), team, name, object, bytes: found.bytes }))
    }

    /// Puts a document into a team's folder of the inbox.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn submit(&self, team: &TeamName, name: &JobName, text: &str) -> Result<Submitted, StoreError> {
        let key = submission_key(team, name);
        let put = self.bucket.put_as(TOML, &key, text.as_bytes().to_vec(), Condition::None).await;
        put.map(|Written { etag, version }| Submitted { object: named(version, etag), key })
    }

    /// The newest answer to a document of the inbox; `None` where there is none.
    ///
    /// # Errors
    /// Where S3 refused, or an answer is none of Curfew's.
    pub async fn read_answer(&self, submission: &str) -> Result<Option<Answered>, StoreError> {
        let mut newest: Option<Answered> = None;
        for answer in [ACCEPTED, REJECTED].map(|ending| answer_key(submission, ending)) {
            if let Some(object) = self.bucket.get(&answer, BYTES_MAX).await? {
                let answered: Answered = read(&object.bytes, &self.bucket.address(&answer), IF_ANSWER_IS_LOST)?;
                newest = newest.into_iter().chain([answered]).max_by_key(|answered| answered.at);
            }
        }
        Ok(newest)
    }

    /// Answers a document of the inbox: accepted where the answer names a job, else rejected.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn answer(&self, submission: &str, answer: &Answered) -> Result<(), StoreError> {
        let key = answer_key(submission, if answer.job.is_some() { ACCEPTED } else { REJECTED });
        let bytes = stamped(answer, &self.bucket.address(&key))?;
        self.bucket.put(&key, bytes, Condition::None).await.map(drop)
    }
}

/// Where a team's document of that name lies in the inbox.
#[must_use]
pub fn submission_key(team: &TeamName, name: &JobName) -> String {
    format!("{INBOX}{}/{}{SUBMITTED}", folder(team), name.as_str())
}

fn with_answers(listed: Vec<Listed>) -> Vec<Inboxed> {
    let mut answers: BTreeMap<String, Timestamp> = BTreeMap::new();
    for Listed { key, written_at } in &listed {
        if let Some(stem) = key.strip_suffix(ACCEPTED).or_else(|| key.strip_suffix(REJECTED)) {
            let newest = answers.entry(format!("{stem}{SUBMITTED}")).or_insert(*written_at);
            *newest = (*newest).max(*written_at);
        }
    }
    let submitted = listed.into_iter().filter(|one| team_and_name(&one.key).is_some());
    submitted
        .map(|Listed { key, written_at }| Inboxed { answered_at: answers.get(&key).copied(), key, written_at })
        .collect()
}

/// The team, where the key has one folder that names one, and the name; `None` where nobody asks for a job there.
fn team_and_name(key: &str) -> Option<(Option<TeamName>, String)> {
    let path = key.strip_prefix(INBOX)?.strip_suffix(SUBMITTED)?;
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_one = !folder.is_empty() && !folder.contains('/');
    let team = is_one.then(|| team_of(folder)).flatten().map(TeamName::new);
    Some((team, name.to_owned()))
}

fn answer_key(submission: &str, ending: &str) -> String {
    format!("{}{ending}", submission.strip_suffix(SUBMITTED).unwrap_or(submission))
}

fn named(version: Option<String>, etag: Option<String>) -> String {
    version.or(etag).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_key(key: &str, expect: Option<(Option<&str>, &str)>) {
        let expect = expect.map(|(team, name)| (team.map(TeamName::from), name.to_owned()));
        assert_eq!(team_and_name(key), expect, "{key}");
    }

    #[test]
    fn the_folder_is_the_team_and_the_file_the_name() {
        check_key("inbox/vision/llama.toml", Some((Some("vision"), "llama")));
        check_key("inbox/a%2Fb/x.toml", Some((Some("a/b"), "x")));
        check_key("inbox/Bild Köln/x y.toml", Some((Some("Bild Köln"), "x y")));
    }

    #[test]
    fn what_is_in_no_teams_folder_has_no_team() {
        check_key("inbox/x.toml", Some((None, "x")));
        check_key("inbox/a/b/x.toml", Some((None, "x")));
        check_key("inbox/%FF/x.toml", Some((None, "x")));
    }

    #[test]
    fn only_toml_of_the_inbox_asks_for_a_job() {
        for key in ["inbox/vision/x.accepted.json", "inbox/vision/x.rejected.json", "jobs/vision/x/spec.toml", "inbox/"]
        {
            check_key(key, None);
        }
    }

    #[test]
    fn the_newest_answer_counts() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let listed = |key: &str, second| Listed { key: key.to_owned(), written_at: at(second) };
        let seen = with_answers(vec![
            listed("inbox/vision/a.accepted.json", 5),
            listed("inbox/vision/a.rejected.json", 3),
            listed("inbox/vision/a.toml", 4),
            listed("inbox/vision/b.toml", 4),
        ]);
        let expect = |key: &str, answered: Option<i64>| Inboxed {
            key: key.to_owned(),
            written_at: at(4),
            answered_at: answered.map(at),
        };
        assert_eq!(seen, [expect("inbox/vision/a.toml", Some(5)), expect("inbox/vision/b.toml", None)]);
    }
}
