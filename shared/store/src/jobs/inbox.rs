//! The inbox: a TOML document a job, in the folder of its team, and Curfew's answer beside it.

use std::collections::BTreeMap;

use domain::id::TeamName;
use domain::job::{Answered, JobName, Spec};
use jiff::Timestamp;

use super::TOML;
use crate::bucket::{Condition, Found, Listed, Written};
use crate::budgets::folder;
use crate::budgets::list::team_of;
use crate::document::stamped;
use crate::{Store, StoreError};

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
    /// Whether it lies beside an acceptance and a rejection, of which only one can be true.
    pub answered_twice: bool,
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
    /// What it says; or of how many bytes it is, where that is more than [`Spec::BYTES_MAX`].
    pub bytes: Result<Vec<u8>, usize>,
}

/// What was answered to a document of the inbox, or to one that lay there before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answers {
    /// That it was accepted.
    pub accepted: Option<Answered>,
    /// That it was not.
    pub rejected: Option<Answered>,
}

impl Answers {
    /// What was answered to this object; `None` where nothing was, or something that came after it was answered since.
    #[must_use]
    pub fn to(&self, object: &str) -> Option<&Answered> {
        let all = || self.accepted.iter().chain(&self.rejected);
        let own = all().filter(|answered| answered.object == object).max_by_key(|answered| answered.at)?;
        all().all(|answered| answered.at <= own.at).then_some(own)
    }

    /// Of two the other one, once one is to this object.
    #[must_use]
    pub fn outdated(&self, object: &str) -> Option<&Answered> {
        let (accepted, rejected) = (self.accepted.as_ref()?, self.rejected.as_ref()?);
        let own = self.to(object)?;
        Some(if own == accepted { rejected } else { accepted })
    }
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
        let Some(Found { bytes, by, .. }) = self.bucket.find(key, Spec::BYTES_MAX).await? else { return Ok(None) };
        let object = named(by.version, by.etag);
        Ok(Some(Submission { key: key.to_owned(), team, name, object, bytes }))
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

    /// What was answered to a document of the inbox.
    ///
    /// # Errors
    /// Where S3 refused, or an answer is none of Curfew's.
    pub async fn read_answers(&self, submission: &str) -> Result<Answers, StoreError> {
        let accepted = self.left_behind(&answer_key(submission, ACCEPTED), IF_ANSWER_IS_LOST).await?;
        let rejected = self.left_behind(&answer_key(submission, REJECTED), IF_ANSWER_IS_LOST).await?;
        Ok(Answers { accepted, rejected })
    }

    /// Takes an answer away that is true no longer, if it is still that one.
    ///
    /// # Errors
    /// As [`Store::read_answers`].
    pub async fn forget_answer(&self, submission: &str, outdated: &Answered) -> Result<(), StoreError> {
        let key = answer_key(submission, ending(outdated));
        let there: Option<Answered> = self.left_behind(&key, IF_ANSWER_IS_LOST).await?;
        if there.as_ref() == Some(outdated) { self.bucket.delete(&key).await } else { Ok(()) }
    }

    /// Answers a document of the inbox: accepted where the answer names a job, else rejected.
    ///
    /// # Errors
    /// Where S3 refused.
    pub async fn answer(&self, submission: &str, answer: &Answered) -> Result<(), StoreError> {
        let key = answer_key(submission, ending(answer));
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
    let mut answers: BTreeMap<String, Vec<Timestamp>> = BTreeMap::new();
    for Listed { key, written_at } in &listed {
        if let Some(stem) = key.strip_suffix(ACCEPTED).or_else(|| key.strip_suffix(REJECTED)) {
            answers.entry(format!("{stem}{SUBMITTED}")).or_default().push(*written_at);
        }
    }
    let submitted = listed.into_iter().filter(|one| team_and_name(&one.key).is_some());
    submitted
        .map(|Listed { key, written_at }| {
            let answered = answers.get(&key).map(Vec::as_slice).unwrap_or_default();
            Inboxed { answered_at: answered.iter().max().copied(), answered_twice: answered.len() > 1, key, written_at }
        })
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

const fn ending(answer: &Answered) -> &'static str {
    if answer.job.is_some() { ACCEPTED } else { REJECTED }
}

fn answer_key(submission: &str, ending: &str) -> String {
    format!("{}{ending}", submission.strip_suffix(SUBMITTED).unwrap_or(submission))
}

fn named(version: Option<String>, etag: Option<String>) -> String {
    version.or(etag).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use domain::job::JobId;

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
            answered_twice: answered.is_some(),
        };
        assert_eq!(seen, [expect("inbox/vision/a.toml", Some(5)), expect("inbox/vision/b.toml", None)]);
    }

    #[test]
    fn of_two_answers_one_is_outdated_once_the_other_is_to_what_is_there() {
        let answered = |object: &str, second: i64, job: Option<&str>| Answered {
            object: object.to_owned(),
            at: Timestamp::from_second(second).unwrap(),
            job: job.map(|job| JobId::read(job).unwrap()),
            mistakes: Vec::new(),
        };
        let rejected = answered("v1", 1, None);
        let accepted = answered("v2", 1, Some("vision/a-0123abcd"));
        let both = Answers { accepted: Some(accepted.clone()), rejected: Some(rejected.clone()) };
        assert_eq!((both.to("v2"), both.outdated("v2")), (Some(&accepted), Some(&rejected)));
        assert_eq!((both.to("v3"), both.outdated("v3")), (None, None), "what is there now is not answered yet");
        let newer = Answers { rejected: Some(answered("v3", 3, None)), ..both };
        assert_eq!((newer.to("v2"), newer.outdated("v2")), (None, None), "another run has answered what came after");
        assert_eq!(newer.outdated("v3"), Some(&accepted));
        assert_eq!(Answers { rejected: None, ..newer }.outdated("v2"), None);
    }
}
