//! The inbox: a TOML document a job, in the folder of its team, and Curfew's answer beside it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::TeamName;
use model::listing::ListedObject;
use model::ownership::is_team;
use model::team_folder::{decode_folder, team_folder};

use crate::keys::active_key;
use crate::{InboxAnswer, JobId, JobName, QueueItem};

const INBOX: &str = "inbox/";
const ACCEPTED: &str = ".accepted.json";
const REJECTED: &str = ".rejected.json";
const SUBMITTED: &str = ".toml";

/// The additional bytes in the name of an answer.
const ANSWER_BYTES_MORE: usize = ACCEPTED.len() - SUBMITTED.len();

/// Amazon S3 user guide, "Naming Amazon S3 objects".
const KEY_BYTES_MAX: usize = 1_024;

/// The parts of a job's longest key besides `<team>/<job>`: the top folder, an attempt, a step, a file's name.
const JOB_KEY_BYTES_MORE: usize = 256;

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
    /// Its content; or its size in bytes, if that exceeds [`JobSpec::BYTES_MAX`](crate::JobSpec::BYTES_MAX).
    pub bytes: Result<Vec<u8>, usize>,
}

impl Submission {
    /// The document at a key of the inbox before it is read: without a version and without content. `None` for a key of another kind.
    #[must_use]
    pub fn from_key(key: &str) -> Option<Self> {
        let (folder, name) = team_and_name(key)?;
        let (team, canonical_folder) = match folder {
            Some(InboxFolder { team, is_canonical: true }) => (Some(team), None),
            Some(InboxFolder { team, is_canonical: false }) => (None, Some(format!("{INBOX}{}/", team_folder(&team)))),
            None => (None, None),
        };
        let (object, bytes) = (String::new(), Ok(Vec::new()));
        Some(Self { key: key.to_owned(), team, canonical_folder, name, object, bytes })
    }
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

/// Returns `true` if the document at this key of the inbox can be answered: its answers have longer names.
#[must_use]
pub fn is_answerable(key: &str) -> bool {
    key.len() + ANSWER_BYTES_MORE <= KEY_BYTES_MAX
}

/// Returns `true` if the documents of a job can be written: a team's name may be too long for a key.
#[must_use]
pub fn has_legal_keys(job: &JobId) -> bool {
    active_key(job).len() + JOB_KEY_BYTES_MORE <= KEY_BYTES_MAX
}

/// The key of a team's document of that name in the inbox.
#[must_use]
pub fn submission_key(team: &TeamName, name: &JobName) -> String {
    format!("{INBOX}{}/{}{SUBMITTED}", team_folder(team), name.as_str())
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
        let team = TeamName::new(decode_folder(spelt).filter(|team| is_team(team))?);
        Some(Self { is_canonical: team_folder(&team) == spelt, team })
    }
}

/// The team of a folder, if it is spelt as Curfew spells it.
pub(crate) fn team_in_folder(spelt: &str) -> Option<TeamName> {
    InboxFolder::from_name(spelt).filter(|folder| folder.is_canonical).map(|folder| folder.team)
}

/// The folder, if it names a team, and the name; `None` for a key that submits no job.
fn team_and_name(key: &str) -> Option<(Option<InboxFolder>, String)> {
    let path = key.strip_prefix(INBOX)?.strip_suffix(SUBMITTED)?;
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_one = !folder.is_empty() && !folder.contains('/');
    Some((is_one.then(|| InboxFolder::from_name(folder)).flatten(), name.to_owned()))
}

/// An answer to a document of the inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    Accepted,
    Rejected,
}

impl AnswerKind {
    /// An answer that names a job accepts its document.
    #[must_use]
    pub const fn from_answer(answer: &InboxAnswer) -> Self {
        if answer.job.is_some() { Self::Accepted } else { Self::Rejected }
    }

    const fn ending(self) -> &'static str {
        match self {
            Self::Accepted => ACCEPTED,
            Self::Rejected => REJECTED,
        }
    }
}

/// The key of the answer to the document at a key of the inbox.
#[must_use]
pub fn answer_key(submission: &str, kind: AnswerKind) -> String {
    format!("{}{}", submission.strip_suffix(SUBMITTED).unwrap_or(submission), kind.ending())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobId;

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
        let canonical = |spelt: &str| InboxFolder::from_name(spelt).map(|found| team_folder(&found.team));
        assert_eq!(canonical("v%69sion").as_deref(), Some("vision"));
        assert_eq!(canonical("vision%20"), None, "the blank is invisible");
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
