//! The tags of owners by their structure: `model` reads the tags, the oracle the structure.

use model::instance::Tags;
use model::mode::Mode;

use crate::chance::stamp;
use crate::settings::{self, TEAMS};

/// Unreadable tags, which protect.
pub(crate) const TYPOS: [(&str, &str); 8] = [
    ("curfew:mode", "Observe"),
    ("Curfew:Protected", "yes"),
    ("curfew:keep-untill", "2030-01-01"),
    ("curfew:keep-until", "friday"),
    ("curfew:local-disk", "maybe"),
    ("curfew:hours", "9 to 5"),
    ("curfew:idle-after", "soon"),
    ("curfew:snapshot_of", "vol-0abc"),
];

#[derive(Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a tag that is there or not")]
pub(crate) struct OwnerTags {
    /// An index into [`TEAMS`].
    pub(crate) team: Option<usize>,
    /// The team is under a mistyped key, so there is none.
    pub(crate) team_mistyped: bool,
    pub(crate) owner: bool,
    pub(crate) protected: bool,
    pub(crate) kept_until: Option<i64>,
    pub(crate) mode: Option<Mode>,
    /// An index into [`TYPOS`].
    pub(crate) typo: Option<usize>,
    /// An index into the account's jobs.
    pub(crate) job: Option<usize>,
    /// Tags that apply to instances only.
    pub(crate) of_an_instance: bool,
    /// The number of further tags.
    pub(crate) further: usize,
}

impl OwnerTags {
    pub(crate) fn team(&self) -> Option<usize> {
        self.team.filter(|_| !self.team_mistyped)
    }

    /// The tags that its owner wrote.
    pub(crate) fn tags(&self) -> Tags {
        let mut tags = Tags::new();
        let mut tag = |key: &str, value: String| drop(tags.insert(key.to_owned(), value));
        if let Some(team) = self.team {
            tag(if self.team_mistyped { "team" } else { "Team" }, TEAMS[team].to_owned());
        }
        if self.owner {
            tag("Owner", "ada".to_owned());
        }
        if self.protected {
            tag("curfew:protected", "yes".to_owned());
        }
        if let Some(until) = self.kept_until {
            tag("curfew:keep-until", stamp(until).to_string());
        }
        if let Some(mode) = self.mode {
            tag("curfew:mode", settings::mode(mode).to_owned());
        }
        if let Some(job) = self.job {
            tag("curfew:job", job_name(job));
        }
        if self.of_an_instance {
            tag("curfew:idle-after", "off".to_owned());
            tag("curfew:stopped", "idle 2026-01-01T00:00:00Z".to_owned());
        }
        for number in 0..self.further {
            tag(&format!("note-{number}"), "it's \"x\" – π".to_owned());
        }
        if let Some((key, value)) = self.typo.map(|typo| TYPOS[typo]) {
            tag(key, value.to_owned());
        }
        tags
    }
}

pub(crate) fn job_name(job: usize) -> String {
    format!("{}/train-{job}", TEAMS[job % TEAMS.len()])
}
