//! The alarms of the stack. **OK** if and only if it has alarms, none is in alarm, and all have their actions enabled.

use jiff::{SignedDuration, Timestamp};
use model::foreign_text::shell_word;

use super::{DoctorFinding, ago};

/// The check's name.
pub const CHECK: &str = "alarms";

/// An alarm of a metric that comes once an hour may lack data for a while.
const WITHOUT_DATA_MAX: SignedDuration = SignedDuration::from_hours(24);

/// One alarm of `CloudWatch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// Its name.
    pub name: String,
    /// The alarm's own description.
    pub description: Option<String>,
    /// Its state.
    pub state: AlarmState,
    /// Time since which the alarm has this state.
    pub since: Option<Timestamp>,
    /// `true` if the alarm does anything when it goes off.
    pub actions_enabled: bool,
}

/// `StateValue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlarmState {
    /// `OK`
    Fine,
    /// `ALARM`
    Alarm,
    /// `INSUFFICIENT_DATA`
    WithoutData,
}

/// Returns `true` if an alarm is of this stack: `<stack>-<logical id>-<random>`, and every logical id of one ends in `Alarm`. Names of
/// other stacks may begin with this one's.
#[must_use]
pub fn is_of_stack(name: &str, stack: &str) -> bool {
    let rest = name.strip_prefix(stack).and_then(|rest| rest.strip_prefix('-'));
    rest.and_then(|rest| rest.split('-').next()).is_some_and(|logical_id| logical_id.ends_with("Alarm"))
}

/// Judges the alarms of a stack.
#[must_use]
pub fn check(stack: &str, alarms: &[Alarm], now: Timestamp) -> Vec<DoctorFinding> {
    if alarms.is_empty() {
        let found = "it has no alarms, so no one is notified if Curfew stops running";
        return vec![DoctorFinding::problem(format!("stack {stack}"), found, "deploy the stack again")];
    }
    alarms.iter().flat_map(|alarm| check_alarm(alarm, now)).collect()
}

fn check_alarm(alarm: &Alarm, now: Timestamp) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    let since = alarm.since.map(|since| format!(" for {}", ago(now, since))).unwrap_or_default();
    let says = alarm.description.as_deref().unwrap_or("it has no description; look at its metric");
    match alarm.state {
        AlarmState::Fine => {}
        AlarmState::Alarm => findings.push(DoctorFinding::problem(&alarm.name, format!("it is in alarm{since}"), says)),
        AlarmState::WithoutData => {
            if alarm.since.is_some_and(|since| now.duration_since(since) > WITHOUT_DATA_MAX) {
                findings.push(DoctorFinding::note(&alarm.name, format!("it has had no data{since}"), says));
            }
        }
    }
    if !alarm.actions_enabled {
        let remedy = format!("aws cloudwatch enable-alarm-actions --alarm-names {}", shell_word(&alarm.name));
        findings.push(DoctorFinding::warning(&alarm.name, "its actions are disabled, so it notifies no one", remedy));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::FindingSeverity;
    use reaping::fixture::{NOW, time};

    fn check(state: AlarmState, hours: i64, actions_enabled: bool, expect: &[FindingSeverity]) {
        let alarm = Alarm {
            name: "curfew-FailedEventsAlarm-1".to_owned(),
            description: Some("Look at the queue.".to_owned()),
            state,
            since: Some(time(NOW) - SignedDuration::from_hours(hours)),
            actions_enabled,
        };
        let findings = super::check("curfew", &[alarm], time(NOW));
        let severities: Vec<FindingSeverity> = findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, expect, "{state:?}");
    }

    #[test]
    fn alarms_are_judged_by_their_state() {
        check(AlarmState::Fine, 100, true, &[]);
        check(AlarmState::Alarm, 0, true, &[FindingSeverity::Problem]);
        check(AlarmState::WithoutData, 24, true, &[]);
        check(AlarmState::WithoutData, 25, true, &[FindingSeverity::Note]);
        check(AlarmState::Fine, 0, false, &[FindingSeverity::Warning]);
    }

    #[test]
    fn none_at_all_is_a_problem() {
        assert_eq!(super::check("curfew", &[], time(NOW))[0].severity, FindingSeverity::Problem);
    }

    #[test]
    fn an_alarm_of_another_stack_is_not_of_this_one() {
        let check = |name: &str, expect| assert_eq!(is_of_stack(name, "curfew"), expect, "{name}");
        check("curfew-FailedEventsAlarm-1ABC", true);
        check("curfew-ReapInstancesNotRunAlarm-1ABC", true);
        check("curfew-test-FailedEventsAlarm-1ABC", false);
        check("curfewFailedEventsAlarm", false);
        check("curfew-latency", false);
    }
}
