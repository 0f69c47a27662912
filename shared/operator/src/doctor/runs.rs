//! **Alive** if and only if the newest record of a function in `plans/` is at most three periods of its schedule old. A function that
//! records only runs with steps or gaps cannot be judged by that, nor one that runs once a day: their alarms report whether they run
//! (`RunJobsNotRunAlarm` and `SendReportNotRunAlarm` in `template.yaml`). Each gap of a run of the last three periods is a warning.

use jiff::{SignedDuration, Timestamp};
use model::duration;
use plan::report::{RecordedGap, RunRecord};

use super::{DoctorFinding, ago, at_most};

/// The check's name.
pub const CHECK: &str = "runs";

/// Number of runs that may be missing in a row.
const PERIODS_MAX: i32 = 3;
/// The most gaps of one run that are shown.
const GAPS_SHOWN_MAX: usize = 10;

/// A function and how often it runs, as `template.yaml` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduledFunction {
    /// Its name, such as `reap-instances`.
    pub function: &'static str,
    /// Interval between two runs.
    pub every: SignedDuration,
    /// The runs that leave a record.
    pub records: RecordPolicy,
}

/// The runs of a function that leave a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordPolicy {
    /// Every run leaves a record.
    EveryRun,
    /// Only runs with steps or gaps leave a record.
    Events,
    /// Every run leaves a record, but there may be none on the day of the deployment.
    Daily,
}

impl ScheduledFunction {
    /// A function without a record for longer is paused or broken.
    #[must_use]
    pub fn alive_within(self) -> SignedDuration {
        self.every.saturating_mul(PERIODS_MAX)
    }
}

/// Every function.
pub const FUNCTIONS: [ScheduledFunction; 6] = [
    ScheduledFunction {
        function: "reap-instances",
        every: SignedDuration::from_mins(5),
        records: RecordPolicy::EveryRun,
    },
    ScheduledFunction {
        function: "reap-volumes",
        every: SignedDuration::from_hours(1),
        records: RecordPolicy::EveryRun,
    },
    ScheduledFunction {
        function: "enforce-budgets",
        every: SignedDuration::from_mins(15),
        records: RecordPolicy::EveryRun,
    },
    ScheduledFunction { function: "run-jobs", every: SignedDuration::from_mins(1), records: RecordPolicy::Events },
    ScheduledFunction { function: "send-report", every: SignedDuration::from_hours(24), records: RecordPolicy::Daily },
    ScheduledFunction {
        function: "reap-sagemaker",
        every: SignedDuration::from_hours(1),
        records: RecordPolicy::EveryRun,
    },
];

/// Judges one function by its newest record; `deployed` is its name in Lambda, if known.
#[must_use]
pub fn check(
    scheduled: ScheduledFunction,
    deployed: Option<&str>,
    last: Option<&RunRecord>,
    now: Timestamp,
) -> Vec<DoctorFinding> {
    let ScheduledFunction { function, every, records } = scheduled;
    let is_old = last.is_none_or(|last| now.duration_since(last.at) > scheduled.alive_within());
    if is_old && records != RecordPolicy::EveryRun {
        return Vec::new();
    }
    let Some(last) = last else {
        let found = "no run of today or yesterday has left a record";
        return vec![DoctorFinding::problem(function, found, remedy(function, deployed))];
    };
    let mut findings = Vec::new();
    if is_old {
        let (when, every) = (ago(now, last.at), duration::format_duration(every));
        let found = format!("its last run was {when} ago, and it should run every {every}");
        findings.push(DoctorFinding::problem(function, found, remedy(function, deployed)));
    }
    let missed = last.gaps.iter().map(|RecordedGap { region, call, error }| {
        let found = format!("its last run, {} ago, could not read everything in {region}", ago(now, last.at));
        DoctorFinding::warning(function, found, format!("{call}: {error}"))
    });
    findings.extend(at_most(GAPS_SHOWN_MAX, missed.collect(), "gaps"));
    findings
}

/// Summarises the last run for people, if all is well: its time and its mode.
#[must_use]
pub fn summary(scheduled: ScheduledFunction, last: Option<&RunRecord>, now: Timestamp) -> String {
    let function = scheduled.function;
    let ran = last.map(|last| format!("{} ago in {} mode", ago(now, last.at), last.mode.as_str()));
    match (ran, scheduled.records) {
        (Some(ran), RecordPolicy::EveryRun | RecordPolicy::Daily) => format!("{function} ran {ran}"),
        (Some(ran), RecordPolicy::Events) => format!("{function} last acted {ran} (its alarm reports whether it runs)"),
        (None, _) => format!("{function} left no record today or yesterday (its alarm reports whether it runs)"),
    }
}

fn remedy(function: &str, deployed: Option<&str>) -> String {
    let name = deployed.unwrap_or(function);
    format!(
        "check the schedule of the Lambda function {name}, its reserved concurrency (0 pauses it), its log group, and the queue \
         of failed events"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::mode::Mode;
    use reaping::fixture::{NOW, time};

    use super::*;
    use crate::doctor::FindingSeverity;

    /// A run so many minutes ago of a function that runs every five, and how many gaps it had.
    fn check(minutes_ago: Option<i64>, gaps: usize, expect: &[FindingSeverity]) {
        check_of(FUNCTIONS[0], minutes_ago, gaps, expect);
    }

    fn check_of(scheduled: ScheduledFunction, minutes_ago: Option<i64>, gaps: usize, expect: &[FindingSeverity]) {
        let last = minutes_ago.map(|minutes| recorded(minutes, gaps));
        let findings = super::check(scheduled, None, last.as_ref(), time(NOW));
        let severities: Vec<FindingSeverity> = findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, expect, "{} {minutes_ago:?} {gaps}", scheduled.function);
    }

    fn recorded(minutes_ago: i64, gaps: usize) -> RunRecord {
        let missed =
            RecordedGap { region: "us-east-1".into(), call: "ec2:DescribeInstances".to_owned(), error: String::new() };
        RunRecord {
            function: FUNCTIONS[0].function.to_owned(),
            run: "5f1c2a7e".into(),
            at: time(NOW) - SignedDuration::from_mins(minutes_ago),
            mode: Mode::Enforce,
            regions: Vec::new(),
            seen: 0,
            steps: Vec::new(),
            skipped: BTreeMap::new(),
            skipped_costs: BTreeMap::new(),
            gaps: vec![missed; gaps],
            usage: None,
        }
    }

    #[test]
    fn three_missing_runs_are_too_many() {
        check(Some(0), 0, &[]);
        check(Some(15), 0, &[]);
        check(Some(16), 0, &[FindingSeverity::Problem]);
        check(None, 0, &[FindingSeverity::Problem]);
    }

    #[test]
    fn each_gap_is_a_warning() {
        check(Some(1), 2, &[FindingSeverity::Warning; 2]);
        check(Some(1), 200, &[FindingSeverity::Warning; GAPS_SHOWN_MAX + 1]);
        check(Some(60), 1, &[FindingSeverity::Problem, FindingSeverity::Warning]);
    }

    #[test]
    fn the_silence_of_one_that_records_events_says_nothing() {
        let run_jobs = FUNCTIONS[3];
        assert_eq!((run_jobs.function, run_jobs.records), ("run-jobs", RecordPolicy::Events));
        check_of(run_jobs, None, 0, &[]);
        check_of(run_jobs, Some(600), 0, &[]);
        check_of(run_jobs, Some(600), 2, &[]);
        check_of(run_jobs, Some(3), 2, &[FindingSeverity::Warning; 2]);
    }

    #[test]
    fn a_summary_says_no_more_than_records_do() {
        let say = |scheduled, last: Option<&RunRecord>| summary(scheduled, last, time(NOW));
        let last = recorded(4, 0);
        assert_eq!(say(FUNCTIONS[0], Some(&last)), "reap-instances ran 4m ago in enforce mode");
        let alarm = "(its alarm reports whether it runs)";
        assert_eq!(say(FUNCTIONS[3], Some(&last)), format!("run-jobs last acted 4m ago in enforce mode {alarm}"));
        assert_eq!(say(FUNCTIONS[3], None), format!("run-jobs left no record today or yesterday {alarm}"));
    }

    #[test]
    fn the_remedy_names_the_deployed_function() {
        let findings = super::check(FUNCTIONS[1], Some("curfew-reap-volumes"), None, time(NOW));
        assert!(findings[0].remedy.contains("Lambda function curfew-reap-volumes"), "{findings:?}");
    }
}
