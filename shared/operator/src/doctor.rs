//! The checks of `curfew doctor`, which show whether a deployment is alive and safe, each finding with its remedy.
//!
//! Each check is a function from what was looked up to findings. A failed look-up is a finding too: unknown never counts as fine.

pub mod alarms;
pub mod channels;
pub mod configuration;
pub mod gang;
pub mod partition;
pub mod permissions;
pub mod quotas;
pub mod roles;
pub mod runs;
pub mod subscriptions;
pub mod tags;
pub mod telemetry;
pub mod version;

use jiff::{SignedDuration, Timestamp};
use model::duration;
use serde::Serialize;

/// The severity of a finding. Ordered: the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// Curfew does not work, or could do what it must not.
    Problem,
    /// Somebody should look at it.
    Warning,
    /// The check could not be made.
    Unknown,
    /// Information that asks for no action.
    Note,
}

/// One thing that was found, or that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    pub severity: FindingSeverity,
    /// A region, a function, a resource, or what else it is about.
    #[serde(rename = "where")]
    pub at: String,
    /// The finding, in words for people.
    pub found: String,
    /// The remedy: a sentence or a command.
    pub remedy: String,
}

impl DoctorFinding {
    fn new(severity: FindingSeverity, at: impl ToString, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity, at: at.to_string(), found: found.into(), remedy: remedy.into() }
    }

    pub fn problem(at: impl ToString, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(FindingSeverity::Problem, at, found, remedy)
    }

    pub fn warning(at: impl ToString, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(FindingSeverity::Warning, at, found, remedy)
    }

    pub fn unknown(at: impl ToString, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(FindingSeverity::Unknown, at, found, remedy)
    }

    pub fn note(at: impl ToString, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(FindingSeverity::Note, at, found, remedy)
    }
}

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// Everything was checked, and nothing has to be done.
    Ok,
    /// There is a problem or a warning.
    Finding,
    /// Everything that was checked is fine, and something could not be checked.
    Unknown,
}

/// One check with its findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    /// Its name, such as `runs`.
    pub check: &'static str,
    pub state: CheckState,
    /// The worst first.
    pub findings: Vec<DoctorFinding>,
}

impl CheckResult {
    #[must_use]
    pub fn new(check: &'static str, mut findings: Vec<DoctorFinding>) -> Self {
        findings.sort_by_key(|finding| finding.severity);
        let state = match findings.first().map(|finding| finding.severity) {
            Some(FindingSeverity::Problem | FindingSeverity::Warning) => CheckState::Finding,
            Some(FindingSeverity::Unknown) => CheckState::Unknown,
            Some(FindingSeverity::Note) | None => CheckState::Ok,
        };
        Self { check, state, findings }
    }
}

/// The result of all checks together: unknown only if no check could be made.
#[must_use]
pub fn verdict(checks: &[CheckResult]) -> CheckState {
    if checks.iter().all(|one| one.state == CheckState::Ok) {
        CheckState::Ok
    } else if checks.iter().all(|one| one.state == CheckState::Unknown) {
        CheckState::Unknown
    } else {
        CheckState::Finding
    }
}

/// The first `max` findings, and how many more there are.
fn at_most(max: usize, mut findings: Vec<DoctorFinding>, objects: &str) -> Vec<DoctorFinding> {
    findings.sort_by_key(|finding| finding.severity);
    let more = findings.len().saturating_sub(max);
    if more == 0 {
        return findings;
    }
    let rest = findings.split_off(max);
    let worst = rest.first().map_or(FindingSeverity::Note, |finding| finding.severity);
    let found = format!("and {more} more {objects}");
    findings.push(DoctorFinding::new(worst, "", found, "fix these first, then run the check again"));
    findings
}

/// Formats the time since `then` for people: in whole minutes, from a minute on.
#[must_use]
pub fn ago(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    let shown = if seconds < 60 { seconds } else { seconds.saturating_sub(seconds % 60) };
    duration::format_duration(SignedDuration::from_secs(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(severities: &[FindingSeverity], expect: CheckState) {
        let findings = severities.iter().map(|severity| DoctorFinding::new(*severity, "", "", "")).collect();
        assert_eq!(CheckResult::new("runs", findings).state, expect, "{severities:?}");
    }

    #[test]
    fn a_note_is_no_finding_and_unknown_is_never_fine() {
        check(&[], CheckState::Ok);
        check(&[FindingSeverity::Note], CheckState::Ok);
        check(&[FindingSeverity::Note, FindingSeverity::Unknown], CheckState::Unknown);
        check(&[FindingSeverity::Unknown, FindingSeverity::Warning], CheckState::Finding);
        check(&[FindingSeverity::Note, FindingSeverity::Problem], CheckState::Finding);
    }

    #[test]
    fn without_any_answer_the_verdict_is_unknown() {
        let state = |states: &[CheckState]| {
            let checks: Vec<CheckResult> =
                states.iter().map(|state| CheckResult { check: "", state: *state, findings: Vec::new() }).collect();
            verdict(&checks)
        };
        assert_eq!(state(&[CheckState::Ok, CheckState::Ok]), CheckState::Ok);
        assert_eq!(state(&[CheckState::Ok, CheckState::Unknown]), CheckState::Finding);
        assert_eq!(state(&[CheckState::Ok, CheckState::Finding]), CheckState::Finding);
        assert_eq!(state(&[CheckState::Unknown, CheckState::Unknown]), CheckState::Unknown);
    }

    #[test]
    fn the_rest_is_counted_and_the_worst_is_shown() {
        let warning = |place: usize| DoctorFinding::warning(place, "", "");
        let mut findings: Vec<DoctorFinding> = (0..4).map(warning).collect();
        findings.push(DoctorFinding::problem("worst", "", ""));
        let shown = at_most(2, findings, "tags");
        assert_eq!(shown.len(), 3);
        assert_eq!(shown[0].at, "worst");
        assert_eq!((shown[2].severity, shown[2].found.as_str()), (FindingSeverity::Warning, "and 3 more tags"));
    }
}
