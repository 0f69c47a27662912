//! Names and identities of jobs.

use std::fmt;

use model::digest::to_hex;
use model::fault::{InvalidValue, shortened};
use model::foreign_text::shell_word;
use model::id::TeamName;
use model::ownership::is_team;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// The most of a text that an error repeats, in characters: more than any job's name has.
const SHOWN_CHARACTERS_MAX: usize = 256;

/// The longest name: `<team>/<name>-<8 hex>` fits a tag, and the hash of a client token stays distinct.
const NAME_CHARACTERS_MAX: usize = 63;

/// The name that a person gives a job: letters, digits, `-`, `_` and `.`, beginning with a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobName(String);

impl JobName {
    /// Reads a name.
    ///
    /// # Errors
    /// What is legal, where it is none.
    pub fn read(text: &str) -> Result<Self, InvalidValue> {
        let is_legal = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
        let begins = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        if begins && text.len() <= NAME_CHARACTERS_MAX && text.chars().all(is_legal) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidValue::new(format!(
            "a name is 1 to {NAME_CHARACTERS_MAX} letters, digits, `-`, `_` and `.`, and begins with a letter or a digit"
        )))
    }

    /// Returns the name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One job: `<team>/<name>-<8 hex>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    pub team: TeamName,
    /// `<name>-<8 hex>`.
    pub job: String,
}

/// A text that names no job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no job: a job is `<team>/<name>-<8 hex>`")]
pub struct UnreadableJob(pub String);

impl JobId {
    /// The job that this very object of the inbox asks for: however often it is read, it is the same one.
    #[must_use]
    pub fn from_object(team: TeamName, name: &JobName, object: &str) -> Self {
        Self { team, job: format!("{}-{}", name.as_str(), fingerprint(object)) }
    }

    /// Reads `<team>/<job>`.
    ///
    /// # Errors
    /// Where it is none.
    pub fn read(text: &str) -> Result<Self, UnreadableJob> {
        let read = text.rsplit_once('/').filter(|(team, job)| is_team(team) && is_job(job));
        let (team, job) = read.ok_or_else(|| UnreadableJob(shortened(text, SHOWN_CHARACTERS_MAX)))?;
        Ok(Self { team: TeamName::from(team), job: job.to_owned() })
    }

    /// The name that a person gave it: the job without its `-<8 hex>`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.job.rsplit_once('-').map_or(self.job.as_str(), |(name, _)| name)
    }

    /// One word of a command, for people to paste into a shell: a team's name may have blanks and quotes.
    #[must_use]
    pub fn to_shell_word(&self) -> String {
        shell_word(&self.to_string())
    }
}

/// Returns `true` for `<name>-<8 hex>`, as [`JobId::from_object`] makes it. Without these digits a folder beside a job's could pass for a
/// job.
pub(crate) fn is_job(text: &str) -> bool {
    let is_hex = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let is_made =
        |(name, digits): (&str, &str)| JobName::read(name).is_ok() && digits.len() == 8 && digits.bytes().all(is_hex);
    text.rsplit_once('-').is_some_and(is_made)
}

/// The first eight hex digits of a version or an `ETag` that consists of such; of any other those of its SHA-256.
fn fingerprint(object: &str) -> String {
    let object = object.trim_matches('"');
    let digits: String = object.chars().filter(|character| *character != '-').take(8).collect();
    let is_hex = object.chars().all(|character| character.is_ascii_hexdigit() || character == '-');
    if is_hex && digits.len() == 8 {
        return digits.to_ascii_lowercase();
    }
    to_hex(&Sha256::digest(object.as_bytes())[..4])
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.team, self.job)
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(object: &str, expect: &str) {
        let name = JobName::read("llama-ft").unwrap();
        assert_eq!(
            JobId::from_object(TeamName::from("vision"), &name, object).to_string(),
            format!("vision/llama-ft-{expect}")
        );
    }

    #[test]
    fn an_etag_and_a_version_of_hex_begin_the_same() {
        check("\"0123456789abcdef0123456789abcdef\"", "01234567");
        check("0123ABCD-4567-89ab-cdef-0123456789ab", "0123abcd");
        check("0123456789abcdef0123456789abcdef-12", "01234567");
    }

    #[test]
    fn any_other_version_is_hashed() {
        check("3sL4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY+MTRCxf3vjVBH40Nr8X8gdRQBpUMLUo", "8543f3f5");
        check("12", "6b51d431");
    }

    #[test]
    fn a_job_is_read_as_it_is_written() {
        let id = JobId::read("vision/llama-1a2b3c4d").unwrap();
        assert_eq!((id.team.as_str(), id.job.as_str()), ("vision", "llama-1a2b3c4d"));
        assert_eq!((id.name(), id.to_shell_word().as_str()), ("llama", "vision/llama-1a2b3c4d"));
        let odd = JobId::read("it's $(reboot)/llama-1a2b3c4d").unwrap();
        assert_eq!(odd.to_shell_word(), r"'it'\''s $(reboot)/llama-1a2b3c4d'");
        for wrong in
            ["vision", "/x", "vision/", "", "/llama-1a2b3c4d", " vision/llama-1a2b3c4d", "vision /llama-1a2b3c4d"]
        {
            assert!(JobId::read(wrong).is_err(), "{wrong}");
        }
    }

    /// A line break in user data would begin another line of a script that root runs.
    #[test]
    fn no_team_has_a_control_character() {
        for control in ['\n', '\r', '\t', '\0', '\u{1b}', '\u{7f}', '\u{85}', '\u{9b}'] {
            for team in [format!("vis{control}ion"), format!("{control}vision"), format!("vision{control}")] {
                assert!(!is_team(&team), "{team:?}");
                assert!(JobId::read(&format!("{team}/llama-1a2b3c4d")).is_err(), "{team:?}");
            }
        }
        for team in ["vision", "Bild Köln", "a/b", "it's \"$(reboot)\" `reboot`", "\u{1f980}"] {
            assert!(is_team(team), "{team}");
        }
    }

    #[test]
    fn a_job_has_its_eight_digits() {
        for job in
            ["llama", "attempts", "llama-1a2b3c4", "llama-1a2b3c4d5", "llama-1A2B3C4D", "llama-1a2b3c4g", "-1a2b3c4d"]
        {
            assert!(JobId::read(&format!("vision/{job}")).is_err(), "{job}");
        }
        for job in ["..-1a2b3c4d", "ll ama-1a2b3c4d", "llama-1a2b3c4d\n", "lla\nma-1a2b3c4d"] {
            assert!(JobId::read(&format!("vision/{job}")).is_err(), "{job}");
        }
        assert!(JobId::read("a/b/x.y_z-1-1a2b3c4d").is_ok());
    }
}
