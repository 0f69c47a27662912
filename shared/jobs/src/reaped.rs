//! Whether Curfew itself has ended a machine, by its tags: EC2 reports it like an action of a person.

use jiff::Timestamp;
use model::curfew_tags::{MARKED, STOPPED};
use model::instance::{Instance, InstanceState};
use model::mark::Mark;
use model::rule::{ResourceAction, Rule};

/// The rule by which `reap-instances` has ended this instance: of the due announcements the earliest, or the rule of its stop tag. `None` if no
/// announcement was due: then another actor ended it.
///
/// Curfew writes the mark before it terminates an instance. The mark stays on it for as long as EC2 shows the instance.
#[must_use]
pub fn reaped(instance: &Instance, now: Timestamp) -> Option<Rule> {
    let mark: Option<Mark> = instance.tags.get(MARKED).and_then(|text| text.parse().ok());
    let entries = mark.filter(|mark| mark.is_about(&instance.id)).into_iter().flat_map(|mark| mark.entries);
    let due = entries.filter(|(_, said)| {
        let ends = matches!(said.ending, ResourceAction::Stop | ResourceAction::Terminate);
        ends && said.deadline <= now && said.is_fresh(instance.launched_at, now)
    });
    let by_mark = due.min_by_key(|(rule, said)| (said.deadline, *rule)).map(|(rule, _)| rule);
    // One that runs again keeps the tag, and may be ended by anybody.
    let is_stopped = matches!(instance.state, InstanceState::Stopping | InstanceState::Stopped);
    let stopped = instance.tags.get(STOPPED).filter(|_| is_stopped);
    by_mark.or_else(|| Rule::read(stopped?.split_whitespace().next()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::fixture::{NOW, instance, time};

    fn check(state: InstanceState, tags: &[(&str, &str)], expect: Option<Rule>) {
        let mut given = instance().build();
        given.id = "i-1".into();
        given.state = state;
        given.tags.extend(tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        assert_eq!(reaped(&given, time(NOW)), expect, "{state:?} {tags:?}");
    }

    #[test]
    fn the_earliest_due_action_is_the_one_that_happened() {
        let check = |mark: &str, expect: Option<Rule>| check(InstanceState::Terminated, &[(MARKED, mark)], expect);
        check("i-1 expired=terminate@2026-09-01T11:59:00Z", Some(Rule::Expired));
        check(
            "i-1 idle=terminate@2026-09-01T11:00:00Z untagged=stop@2026-09-01T10:00:00Z expired=terminate@2026-09-02T00:00:00Z",
            Some(Rule::Untagged),
        );
        check("i-1 idle=terminate@2026-09-01T12:00:01Z", None);
        check("i-1 idle=notify@2026-09-01T11:00:00Z", None);
        check("i-2 expired=terminate@2026-09-01T11:59:00Z", None);
        check("i-1 expired=terminate@2026-08-01T00:00:00Z", None);
        check("yes", None);
    }

    #[test]
    fn a_stop_counts_while_it_lasts() {
        let stopped = [(STOPPED, "over-budget 2026-09-01T11:30:00Z")];
        check(InstanceState::Stopped, &stopped, Some(Rule::OverBudget));
        check(InstanceState::Stopping, &stopped, Some(Rule::OverBudget));
        check(InstanceState::Terminated, &stopped, None);
        check(InstanceState::Stopped, &[(STOPPED, "who knows")], None);
        check(InstanceState::Stopped, &[], None);
    }
}
