//! The hub's document that counts in an account: the one that was just read, or the last copy of it.

use jiff::{SignedDuration, Timestamp};

use super::super::{Config, ConfigError, KEY};
use super::HubConfig;
use crate::duration::format_duration;

/// Key of the account's copy of the hub's document, in its own state bucket.
pub const HUB_COPY_KEY: &str = "config/hub.toml";

/// Age from which an unchanged copy is written again. So its age is known to the hour, at 24 writes a day.
const RENEWED_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// The answer of the hub's bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubAnswer {
    Document(Vec<u8>),
    /// There certainly is no document.
    Absent,
    /// The bucket refused or did not answer, with its reason.
    Failed(String),
}

/// The account's copy as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubCopy {
    /// The hub bucket that it was read from, as its writer noted it.
    pub hub: String,
    /// The account that it counts in, as its writer noted it.
    pub account: Option<String>,
    pub document: Vec<u8>,
    /// Time of its last write, by S3's clock.
    pub read_at: Timestamp,
}

/// The hub's document that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubDocument {
    Known {
        document: String,
        /// Time at which it was read from the hub.
        read_at: Timestamp,
        /// Reason why the copy counts, with its age; `None` where the hub itself answered.
        problem: Option<String>,
        /// `true` if the copy is to be written.
        is_to_keep: bool,
    },
    /// The hub could not be read yet: its lines are unknown.
    Unknown(String),
}

/// A configuration in force, and what is known about the organization's hub.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigInForce {
    pub config: Config,
    pub hub: HubStatus,
}

/// State of the hub's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubStatus {
    /// This account has no hub.
    NoHub,
    /// Its lines are known. `problem`: they are those of the last copy, and why.
    Known { read_at: Timestamp, problem: Option<String> },
    /// Its lines are unknown, with the reason; the account's own are all that there is.
    Unknown(String),
}

impl From<Config> for ConfigInForce {
    fn from(config: Config) -> Self {
        Self { config, hub: HubStatus::NoHub }
    }
}

impl HubStatus {
    /// Reason for lines that are unknown.
    #[must_use]
    pub fn unknown(&self) -> Option<&str> {
        match self {
            Self::Unknown(reason) => Some(reason),
            Self::NoHub | Self::Known { .. } => None,
        }
    }

    /// The problem that people have to know.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::NoHub => None,
            Self::Known { problem, .. } => problem.as_deref(),
            Self::Unknown(reason) => Some(reason),
        }
    }
}

impl HubDocument {
    /// The document that counts for a function that asked the hub bucket `hub`.
    #[must_use]
    pub fn from_answer(hub: &str, answer: HubAnswer, copy: Option<HubCopy>, now: Timestamp) -> Self {
        let copy = copy.filter(|copy| copy.hub == hub);
        let problem = match answer {
            HubAnswer::Document(bytes) => match text(&bytes) {
                Ok(document) => {
                    let is_fresh = |copy: &HubCopy| now.duration_since(copy.read_at) < RENEWED_AFTER;
                    let is_kept = copy.is_some_and(|copy| copy.document == bytes && is_fresh(&copy));
                    return Self::Known { document, read_at: now, problem: None, is_to_keep: !is_kept };
                }
                Err(error) => format!("the configuration of the hub s3://{hub} is refused: {error}"),
            },
            HubAnswer::Absent if copy.as_ref().is_none_or(|copy| copy.document.is_empty()) => {
                let is_kept = copy.is_some_and(|copy| now.duration_since(copy.read_at) < RENEWED_AFTER);
                return Self::Known { document: String::new(), read_at: now, problem: None, is_to_keep: !is_kept };
            }
            HubAnswer::Absent => {
                format!("the hub has no s3://{hub}/{KEY} any more; to take its lines back, put an empty document there")
            }
            HubAnswer::Failed(reason) => format!("the configuration of the hub cannot be read: {reason}"),
        };
        match Self::from_copy(None, copy) {
            Self::Known { document, read_at, is_to_keep, .. } => {
                let age = format_duration(now.duration_since(read_at).max(SignedDuration::ZERO));
                let problem = format!("{problem}; the copy of {read_at} counts, which is {age} old");
                Self::Known { document, read_at, problem: Some(problem), is_to_keep }
            }
            Self::Unknown(_) => Self::Unknown(format!(
                "{problem}; it was never read here, so Curfew announces, stops and deletes nothing, and begins no job, until it is"
            )),
        }
    }

    /// The document that counts for whoever reads the copy alone. `hub`: the bucket that it has to be of, where that is known.
    #[must_use]
    pub fn from_copy(hub: Option<&str>, copy: Option<HubCopy>) -> Self {
        let copy = copy.filter(|copy| hub.is_none_or(|hub| copy.hub == hub));
        match copy.and_then(|copy| Some((text(&copy.document).ok()?, copy.read_at))) {
            Some((document, read_at)) => Self::Known { document, read_at, problem: None, is_to_keep: false },
            None => Self::Unknown(
                "reap-instances has not read the configuration of the hub yet, so nothing is announced, stopped or deleted, and no job \
                 begins, until it has"
                    .to_owned(),
            ),
        }
    }
}

/// The text of a legal document.
fn text(document: &[u8]) -> Result<String, ConfigError> {
    HubConfig::read_bytes(document)?;
    Ok(String::from_utf8_lossy(document).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::time;

    const HUB: &str = "curfew-hub";
    const NOW: &str = "2026-09-01T12:00:00Z";
    const STRICT: &str = "mode = \"enforce\"";

    fn copy(hub: &str, document: &str, read_at: &str) -> HubCopy {
        HubCopy { hub: hub.to_owned(), account: None, document: document.into(), read_at: time(read_at) }
    }

    fn document(text: &str) -> HubAnswer {
        HubAnswer::Document(text.into())
    }

    /// The text that counts, its problem, and `true` if the copy is written.
    fn check(answer: HubAnswer, copy: impl Into<Option<HubCopy>>, expect: (&str, Option<&str>, bool)) {
        let found = HubDocument::from_answer(HUB, answer, copy.into(), time(NOW));
        let HubDocument::Known { document, problem, is_to_keep, .. } = found else { panic!("{found:?}") };
        assert_eq!((document.as_str(), problem.as_deref(), is_to_keep), expect);
    }

    #[test]
    fn a_document_that_is_read_counts_and_is_kept_once_an_hour_or_as_it_changes() {
        check(document(STRICT), None, (STRICT, None, true));
        check(document(STRICT), copy(HUB, STRICT, "2026-09-01T11:01:00Z"), (STRICT, None, false));
        check(document(STRICT), copy(HUB, STRICT, "2026-09-01T11:00:00Z"), (STRICT, None, true));
        check(document(STRICT), copy(HUB, "", "2026-09-01T11:59:00Z"), (STRICT, None, true));
        check(document(STRICT), copy("other", STRICT, "2026-09-01T11:59:00Z"), (STRICT, None, true));
        // A copy that somebody wrote in the hub's name counts for nothing while the hub answers.
        check(document(STRICT), copy(HUB, "mode = \"observe\"", "2026-09-01T11:59:00Z"), (STRICT, None, true));
    }

    #[test]
    fn the_last_copy_counts_while_the_hub_cannot_be_read() {
        let kept = || copy(HUB, STRICT, "2026-09-01T07:00:00Z");
        let age = "the copy of 2026-09-01T07:00:00Z counts, which is 5h old";
        check(
            HubAnswer::Failed("AccessDenied".to_owned()),
            kept(),
            (STRICT, Some(&format!("the configuration of the hub cannot be read: AccessDenied; {age}")), false),
        );
        check(
            document("[idle]\nwindow = \"soon\""),
            kept(),
            (
                STRICT,
                Some(&format!(
                    "the configuration of the hub s3://curfew-hub is refused: config/curfew.toml, line 2, column 10, key `idle.window`: \
                     `soon` is not a duration; write a number and a unit of s, m, h, d or w, such as `30m`, `1h30m` or `0s`, ten years \
                     at most; {age}"
                )),
                false,
            ),
        );
        let gone = "the hub has no s3://curfew-hub/config/curfew.toml any more; to take its lines back, put an empty document there";
        check(HubAnswer::Absent, kept(), (STRICT, Some(&format!("{gone}; {age}")), false));
        check(document(""), kept(), ("", None, true));
    }

    #[test]
    fn a_hub_without_a_configuration_says_nothing() {
        check(HubAnswer::Absent, None, ("", None, true));
        check(HubAnswer::Absent, copy(HUB, "", "2026-09-01T11:30:00Z"), ("", None, false));
        check(HubAnswer::Absent, copy("other", STRICT, "2026-09-01T11:30:00Z"), ("", None, true));
    }

    #[test]
    fn a_hub_that_was_never_read_is_unknown() {
        let is_unknown =
            |answer, copy| matches!(HubDocument::from_answer(HUB, answer, copy, time(NOW)), HubDocument::Unknown(_));
        let failed = || HubAnswer::Failed("AccessDenied".to_owned());
        assert!(is_unknown(failed(), None) && is_unknown(document("mode = 1"), None));
        // The copy of another hub, or one that nobody can read.
        assert!(
            is_unknown(failed(), Some(copy("other", STRICT, NOW)))
                && is_unknown(failed(), Some(copy(HUB, "mode = 1", NOW)))
        );
        let by_copy = |hub, copy| matches!(HubDocument::from_copy(hub, copy), HubDocument::Known { .. });
        assert!(by_copy(Some(HUB), Some(copy(HUB, STRICT, NOW))) && by_copy(None, Some(copy("other", STRICT, NOW))));
        assert!(!by_copy(Some(HUB), Some(copy("other", STRICT, NOW))) && !by_copy(Some(HUB), None));
    }
}
