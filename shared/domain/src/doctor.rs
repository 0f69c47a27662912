//! What `curfew doctor` finds: whether a deployment is alive and safe, each finding with its remedy.
//!
//! Each check is a function from what was looked up to findings. What could not be looked up is a finding too: nobody knows is
//! never "fine".

pub mod alarms;
pub mod configuration;
pub mod permissions;
pub mod quotas;
pub mod runs;
pub mod subscriptions;
pub mod tags;
pub mod telemetry;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::duration;

/// How bad a finding is. Ordered: the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Curfew does not do what it is there for, or could do what it must not.
    Problem,
    /// Somebody should look at it.
    Warning,
    /// It could not be looked at.
    Unknown,
    /// Good to know; nothing has to be done.
    Note,
}

/// One thing that was found, or that could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A region, a function, a resource, or what else it is about.
    #[serde(rename = "where")]
    pub at: String,
    /// What was found, in words.
    pub found: String,
    /// What to do about it, in words or as a command.
    pub remedy: String,
}

impl Finding {
    fn of(severity: Severity, at: impl ToString, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity, at: at.to_string(), found: found.into(), remedy: remedy.into() }
    }

    /// Curfew does not do what it is there for, or could do what it must not.
    pub fn problem(at: impl ToString, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::of(Severity::Problem, at, found, remedy)
    }

    /// Somebody should look at it.
    pub fn warning(at: impl ToString, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::of(Severity::Warning, at, found, remedy)
    }

    /// It could not be looked at.
    pub fn unknown(at: impl ToString, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::of(Severity::Unknown, at, found, remedy)
    }

    /// Good to know.
    pub fn note(at: impl ToString, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::of(Severity::Note, at, found, remedy)
    }
}

/// What one check says, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All of it was looked at, and nothing has to be done.
    Ok,
    /// There is a problem or a warning.
    Finding,
    /// What was looked at is fine, and something could not be looked at.
    Unknown,
}

/// One check, made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Its name, such as `runs`.
    pub check: &'static str,
    /// In one word.
    pub state: State,
    /// The worst first.
    pub findings: Vec<Finding>,
}

impl Checked {
    /// With these findings.
    #[must_use]
    pub fn of(check: &'static str, mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| finding.severity);
        let state = match findings.first().map(|finding| finding.severity) {
            Some(Severity::Problem | Severity::Warning) => State::Finding,
            Some(Severity::Unknown) => State::Unknown,
            Some(Severity::Note) | None => State::Ok,
        };
        Self { check, state, findings }
    }
}

/// What all checks say together: nobody knows only where no check could be made.
#[must_use]
pub fn verdict(checks: &[Checked]) -> State {
    if checks.iter().all(|one| one.state == State::Ok) {
        State::Ok
    } else if checks.iter().all(|one| one.state == State::Unknown) {
        State::Unknown
    } else {
        State::Finding
    }
}

/// As many of these as are shown, and how many more there are.
fn at_most(max: usize, mut findings: Vec<Finding>, of_what: &str) -> Vec<Finding> {
    findings.sort_by_key(|finding| finding.severity);
    let more = findings.len().saturating_sub(max);
    if more == 0 {
        return findings;
    }
    let rest = findings.split_off(max);
    let worst = rest.first().map_or(Severity::Note, |finding| finding.severity);
    let found = format!("and {more} more {of_what}");
    findings.push(Finding::of(worst, "", found, "mend these first, then ask again"));
    findings
}

/// How long ago something was, for people: whole minutes, from a minute on.
#[must_use]
pub fn ago(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    let shown = if seconds < 60 { seconds } else { seconds - seconds % 60 };
    duration::show(SignedDuration::from_secs(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(severities: &[Severity], expect: State) {
        let findings = severities.iter().map(|severity| Finding::of(*severity, "", "", "")).collect();
        assert_eq!(Checked::of("runs", findings).state, expect, "{severities:?}");
    }

    #[test]
    fn a_note_is_no_finding_and_unknown_is_never_fine() {
        check(&[], State::Ok);
        check(&[Severity::Note], State::Ok);
        check(&[Severity::Note, Severity::Unknown], State::Unknown);
        check(&[Severity::Unknown, Severity::Warning], State::Finding);
        check(&[Severity::Note, Severity::Problem], State::Finding);
    }

    #[test]
    fn nobody_knows_where_nothing_could_be_looked_at() {
        let state = |states: &[State]| {
            let checks: Vec<Checked> =
                states.iter().map(|state| Checked { check: "", state: *state, findings: Vec::new() }).collect();
            verdict(&checks)
        };
        assert_eq!(state(&[State::Ok, State::Ok]), State::Ok);
        assert_eq!(state(&[State::Ok, State::Unknown]), State::Finding);
        assert_eq!(state(&[State::Ok, State::Finding]), State::Finding);
        assert_eq!(state(&[State::Unknown, State::Unknown]), State::Unknown);
    }

    #[test]
    fn the_rest_is_counted_and_the_worst_is_shown() {
        let warning = |place: usize| Finding::warning(place, "", "");
        let mut findings: Vec<Finding> = (0..4).map(warning).collect();
        findings.push(Finding::problem("worst", "", ""));
        let shown = at_most(2, findings, "tags");
        assert_eq!(shown.len(), 3);
        assert_eq!(shown[0].at, "worst");
        assert_eq!((shown[2].severity, shown[2].found.as_str()), (Severity::Warning, "and 3 more tags"));
    }
}
