//! The inbox: a TOML document a job, in the folder of its team, and Curfew's answer beside it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jobs::{InboxAnswer, JobId, JobName, JobSpec, QueueItem};
use model::id::TeamName;
use model::ownership::is_team;

use super::TOML;
use crate::bucket::{FoundObject, ListedObject, ObjectVersion, WriteCondition};
use crate::budgets::folder;
use crate::budgets::list::team_of;
use crate::document::{is_at_home, stamped};
use crate::{Store, StoreError};

const INBOX: &str = "inbox/";
const ACCEPTED: &str = ".accepted.json";
const REJECTED: &str = ".rejected.json";
const SUBMITTED: &str = ".toml";

/// The additional bytes in the name of an answer.
pub(super) const ANSWER_BYTES_MORE: usize = ACCEPTED.len() - SUBMITTED.len();

const IF_ANSWER_IS_LOST: &str = "it is answered again";

/// One document of the inbox, as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxObject {
    pub key: String,
    /// Time of the write, to the second.
    pub written_at: Timestamp,
    /// Time at which the newest answer to it was written, to the second; `None` without an answer.
    pub answered_at: Option<Timestamp>,
    /// `true` if it has both an acceptance and a rejection; only one can be true.
    pub answered_twice: bool,
}

/// One document of the inbox, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    pub key: String,
    /// The team of its folder; `None` outside of any team's folder.
    pub team: Option<TeamName>,
    /// The correct spelling of its folder, if that is misspelt.
    pub canonical_folder: Option<String>,
    /// Its name without `.toml`.
    pub name: String,
    /// Its version; in a bucket without versions its `ETag`.
    pub object: String,
    /// Its content; or its size in bytes, if that exceeds [`JobSpec::BYTES_MAX`](jobs::JobSpec::BYTES_MAX).
    pub bytes: Result<Vec<u8>, usize>,
}

/// The answers to a document of the inbox, or to an earlier one at its key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InboxAnswers {
    pub accepted: Option<InboxAnswer>,
    /// The rejection.
    pub rejected: Option<InboxAnswer>,
}

impl InboxAnswers {
    /// The answer to this object; `None` if there is none, or only one to a later object. Of two answers to one object the acceptance
    /// counts: a job runs for it.
    #[must_use]
    pub fn to(&self, object: &str) -> Option<&InboxAnswer> {
        let all = || self.accepted.iter().chain(&self.rejected);
        let own = all().find(|answered| answered.object == object)?;
        all().all(|answered| answered.at <= own.at || answered.object == object).then_some(own)
    }

    /// The other answer, if one is to this object.
    #[must_use]
    pub fn outdated(&self, object: &str) -> Option<&InboxAnswer> {
        let (accepted, rejected) = (self.accepted.as_ref()?, self.rejected.as_ref()?);
        let own = self.to(object)?;
        Some(if own == accepted { rejected } else { accepted })
    }
}

/// A newly submitted document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmittedSpec {
    pub key: String,
    /// Its version; in a bucket without versions its `ETag`: its answer will name it.
    pub object: String,
}

impl Store {
    /// One document of the inbox; `None` if there is none at that key, or the key is of another kind.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn read_submission(&self, key: &str) -> Result<Option<Submission>, StoreError> {
        let Some((named, name)) = team_and_name(key) else { return Ok(None) };
        let Some(FoundObject { bytes, by, .. }) = self.bucket.find(key, JobSpec::BYTES_MAX).await? else {
            return Ok(None);
        };
        let object = version_or_etag(by.version, by.etag);
        let (team, canonical_folder) = match named {
            Some(InboxFolder { team, is_canonical: true }) => (Some(team), None),
            Some(InboxFolder { team, is_canonical: false }) => (None, Some(format!("{INBOX}{}/", folder(&team)))),
            None => (None, None),
        };
        Ok(Some(Submission { key: key.to_owned(), team, canonical_folder, name, object, bytes }))
    }

    /// Puts a document into a team's folder of the inbox.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn submit(&self, team: &TeamName, name: &JobName, text: &str) -> Result<SubmittedSpec, StoreError> {
        let key = submission_key(team, name);
        let put = self.bucket.put_as(TOML, &key, text.as_bytes().to_vec(), WriteCondition::None).await;
        put.map(|ObjectVersion { etag, version }| SubmittedSpec { object: version_or_etag(version, etag), key })
    }

    /// The answers to a document of the inbox.
    ///
    /// # Errors
    /// If S3 refused, or an answer is not Curfew's.
    pub async fn read_answers(&self, submission: &str) -> Result<InboxAnswers, StoreError> {
        let team = team_and_name(submission).and_then(|(named, _)| named);
        let team = team.filter(|folder| folder.is_canonical).map(|folder| folder.team);
        let accepted = self.read_answer(submission, ACCEPTED, |job| job.map(|job| &job.team) == team.as_ref()).await?;
        let rejected = self.read_answer(submission, REJECTED, |job| job.is_none()).await?;
        Ok(InboxAnswers { accepted, rejected })
    }

    /// An answer, if its job may have one there: submitters of a team may write anything into its folder of the inbox.
    async fn read_answer(
        &self,
        submission: &str,
        ending: &str,
        is_at_its_place: impl Fn(Option<&JobId>) -> bool,
    ) -> Result<Option<InboxAnswer>, StoreError> {
        let key = answer_key(submission, ending);
        let answer: Option<InboxAnswer> = self.left_behind(&key, IF_ANSWER_IS_LOST).await?;
        if let Some(InboxAnswer { job, .. }) = &answer {
            let says = job.as_ref().map_or_else(|| "no job".to_owned(), ToString::to_string);
            is_at_home(is_at_its_place(job.as_ref()), says, &self.bucket.address(&key), IF_ANSWER_IS_LOST)?;
        }
        Ok(answer)
    }

    /// Deletes an outdated answer, if it is still that one.
    ///
    /// # Errors
    /// As [`Store::read_answers`].
    pub async fn forget_answer(&self, submission: &str, outdated: &InboxAnswer) -> Result<(), StoreError> {
        let key = answer_key(submission, ending(outdated));
        let there: Option<InboxAnswer> = self.left_behind(&key, IF_ANSWER_IS_LOST).await?;
        if there.as_ref() == Some(outdated) { self.bucket.delete(&key).await } else { Ok(()) }
    }

    /// Answers a document of the inbox: accepted if the answer names a job, otherwise rejected.
    ///
    /// # Errors
    /// If S3 refused.
    pub async fn write_answer(&self, submission: &str, answer: &InboxAnswer) -> Result<(), StoreError> {
        let key = answer_key(submission, ending(answer));
        let bytes = stamped(answer, &self.bucket.address(&key))?;
        self.bucket.put(&key, bytes, WriteCondition::None).await.map(drop)
    }
}

/// The key of a team's document of that name in the inbox.
#[must_use]
pub fn submission_key(team: &TeamName, name: &JobName) -> String {
    format!("{INBOX}{}/{}{SUBMITTED}", folder(team), name.as_str())
}

impl QueueItem for InboxObject {
    fn key(&self) -> &str {
        &self.key
    }

    fn since(&self) -> Timestamp {
        self.written_at
    }
}

/// The documents in a listing of the inbox, in order, and whether they were answered.
#[must_use]
pub fn match_answers(listed: Vec<ListedObject>) -> Vec<InboxObject> {
    let mut answers: BTreeMap<String, Vec<Timestamp>> = BTreeMap::new();
    for ListedObject { key, written_at, .. } in &listed {
        if let Some(stem) = key.strip_suffix(ACCEPTED).or_else(|| key.strip_suffix(REJECTED)) {
            answers.entry(format!("{stem}{SUBMITTED}")).or_default().push(*written_at);
        }
    }
    let submitted = listed.into_iter().filter(|one| team_and_name(&one.key).is_some());
    submitted
        .map(|ListedObject { key, written_at, .. }| {
            let answered = answers.get(&key).map(Vec::as_slice).unwrap_or_default();
            InboxObject {
                answered_at: answered.iter().max().copied(),
                answered_twice: answered.len() > 1,
                key,
                written_at,
            }
        })
        .collect()
}

/// A folder of the inbox that names a team.
#[derive(Debug, PartialEq, Eq)]
struct InboxFolder {
    team: TeamName,
    /// `true` if the folder is spelt as Curfew spells it. IAM compares letter by letter, so a policy about `inbox/vision/` does not cover
    /// `inbox/v%69sion/`, and no team owns that.
    is_canonical: bool,
}

impl InboxFolder {
    fn from_name(spelt: &str) -> Option<Self> {
        let team = TeamName::new(team_of(spelt).filter(|team| is_team(team))?);
        Some(Self { is_canonical: folder(&team) == spelt, team })
    }
}

/// The team of a folder, if it is spelt as Curfew spells it.
pub(super) fn team_in_folder(spelt: &str) -> Option<TeamName> {
    InboxFolder::from_name(spelt).filter(|folder| folder.is_canonical).map(|folder| folder.team)
}

/// The folder, if it names a team, and the name; `None` for a key that submits no job.
fn team_and_name(key: &str) -> Option<(Option<InboxFolder>, String)> {
    let path = key.strip_prefix(INBOX)?.strip_suffix(SUBMITTED)?;
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_one = !folder.is_empty() && !folder.contains('/');
    Some((is_one.then(|| InboxFolder::from_name(folder)).flatten(), name.to_owned()))
}

const fn ending(answer: &InboxAnswer) -> &'static str {
    if answer.job.is_some() { ACCEPTED } else { REJECTED }
}

fn answer_key(submission: &str, ending: &str) -> String {
    format!("{}{ending}", submission.strip_suffix(SUBMITTED).unwrap_or(submission))
}

fn version_or_etag(version: Option<String>, etag: Option<String>) -> String {
    version.or(etag).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jobs::JobId;

    use super::*;

    fn check_key(key: &str, expect: Option<(Option<&str>, &str)>) {
        let found = team_and_name(key)
            .map(|(named, name)| (named.filter(|folder| folder.is_canonical).map(|folder| folder.team), name));
        let expect = expect.map(|(team, name)| (team.map(TeamName::from), name.to_owned()));
        assert_eq!(found, expect, "{key}");
    }

    #[test]
    fn the_folder_is_the_team_and_the_file_the_name() {
        check_key("inbox/vision/llama.toml", Some((Some("vision"), "llama")));
        check_key("inbox/a%2Fb/x.toml", Some((Some("a/b"), "x")));
        check_key("inbox/Bild%20Köln/x y.toml", Some((Some("Bild Köln"), "x y")));
    }

    #[test]
    fn an_object_outside_of_team_folders_has_no_team() {
        check_key("inbox/x.toml", Some((None, "x")));
        check_key("inbox/a/b/x.toml", Some((None, "x")));
        check_key("inbox/%FF/x.toml", Some((None, "x")));
    }

    #[test]
    fn a_folder_in_another_spelling_is_no_teams() {
        for spelt in ["v%69sion", "Bild Köln", "a%2fb", "%20vision", "vision%20", " vision", "vis%0Aion", "%09", ".."]
        {
            check_key(&format!("inbox/{spelt}/x.toml"), Some((None, "x")));
        }
        let team_folder = |spelt: &str| InboxFolder::from_name(spelt).map(|found| folder(&found.team));
        assert_eq!(team_folder("v%69sion").as_deref(), Some("vision"));
        assert_eq!(team_folder("vision%20"), None, "the blank is invisible");
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
        let listed = |key: &str, second| ListedObject { key: key.to_owned(), written_at: at(second), bytes: 0 };
        let seen = match_answers(vec![
            listed("inbox/vision/a.accepted.json", 5),
            listed("inbox/vision/a.rejected.json", 3),
            listed("inbox/vision/a.toml", 4),
            listed("inbox/vision/b.toml", 4),
        ]);
        let expect = |key: &str, answered: Option<i64>| InboxObject {
            key: key.to_owned(),
            written_at: at(4),
            answered_at: answered.map(at),
            answered_twice: answered.is_some(),
        };
        assert_eq!(seen, [expect("inbox/vision/a.toml", Some(5)), expect("inbox/vision/b.toml", None)]);
    }

    #[test]
    fn of_two_answers_one_is_outdated_once_the_other_is_to_what_is_there() {
        let answered = |object: &str, second: i64, job: Option<&str>| InboxAnswer {
            object: object.to_owned(),
            at: Timestamp::from_second(second).unwrap(),
            job: job.map(|job| JobId::read(job).unwrap()),
            ..InboxAnswer::default()
        };
        let rejected = answered("v1", 1, None);
        let accepted = answered("v2", 1, Some("vision/a-0123abcd"));
        let both = InboxAnswers { accepted: Some(accepted.clone()), rejected: Some(rejected.clone()) };
        assert_eq!((both.to("v2"), both.outdated("v2")), (Some(&accepted), Some(&rejected)));
        assert_eq!((both.to("v3"), both.outdated("v3")), (None, None), "what is there now is not answered yet");
        let newer = InboxAnswers { rejected: Some(answered("v3", 3, None)), ..both };
        assert_eq!((newer.to("v2"), newer.outdated("v2")), (None, None), "another run has answered what came after");
        assert_eq!(newer.outdated("v3"), Some(&accepted));
        assert_eq!(InboxAnswers { rejected: None, ..newer }.outdated("v2"), None);
    }

    #[test]
    fn a_job_that_was_accepted_is_not_rejected_for_the_same_object() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let accepted = InboxAnswer {
            object: "v1".to_owned(),
            at: at(1),
            job: Some(JobId::read("vision/a-0123abcd").unwrap()),
            ..InboxAnswer::default()
        };
        let rejected = InboxAnswer { at: at(2), job: None, ..accepted.clone() };
        let both = InboxAnswers { accepted: Some(accepted.clone()), rejected: Some(rejected.clone()) };
        assert_eq!((both.to("v1"), both.outdated("v1")), (Some(&accepted), Some(&rejected)));
    }
}
