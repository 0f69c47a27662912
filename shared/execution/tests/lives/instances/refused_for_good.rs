//! What EC2 refuses until a person lifts it: told once a day with what lifts it, and no pending work.

use super::*;

pub(super) const PROTECTED_FROM_STOP: (RefusedCall, &str, &str) = (
    RefusedCall::Stop,
    "OperationNotPermitted",
    "The instance 'i-0abc' may not be stopped. Modify its 'disableApiStop' instance attribute and try again.",
);
const FORBIDDEN_TAGS: (RefusedCall, &str, &str) =
    (RefusedCall::Tag, "TagPolicyViolation", "The tag policy does not allow the specified value");

#[test]
fn stop_protection_is_tried_once_a_day_and_told_with_its_remedy() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.aws.refuses_for_good = Some(PROTECTED_FROM_STOP);
    account.run("01 12:00").run("01 13:00");
    let [message] = &account.aws.messages[..] else { panic!("{:?}", account.aws.messages) };
    assert!(
        message.body.contains("switch off disableApiStop to let Curfew stop it. Curfew tries again once a day."),
        "{message:?}"
    );
    account.run("01 13:05").run("02 12:55").run("02 13:00").run("02 13:05");
    account.aws.refuses_for_good = None;
    account.run("03 12:55").run("03 13:00");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 stop for idle (failed) | notified vision (error)
    01 13:05 unmark idle leaving idle=stop@01T13:00 and stopped
    02 12:55 skipped refused
    02 13:00 stop for idle (failed) | notified vision (error)
    02 13:05 unmark idle leaving idle=stop@01T13:00 and stopped
    03 12:55 skipped refused
    03 13:00 stop for idle | notified vision (action)
    ");
}

#[test]
fn a_refusal_whose_message_was_refused_too_is_told_by_the_next_run() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.aws.refuses_for_good = Some(PROTECTED_FROM_STOP);
    account.run("01 12:00").aws.deaf.insert("vision");
    account.run("01 13:00").aws.deaf.clear();
    account.run("01 13:05");
    let told: Vec<&str> =
        account.aws.messages.iter().filter(|one| one.team == "vision").map(|one| one.body.as_str()).collect();
    assert!(told.len() == 1 && told[0].contains("switch off disableApiStop"), "{told:?}");
}

#[test]
fn refused_actions_hold_nothing_of_others() {
    let config = "mode = \"enforce\"\n[limits]\nactions_max = 1\n";
    let mut account = enforcing_account(instance().id("i-000"), config);
    account.aws.refuses_for_good = Some(PROTECTED_FROM_STOP);
    account.run("01 12:00").run("01 13:00");
    account.aws.instances.push(instance().id("i-001").launched("2026-08-31T07:00:00Z").build());
    account.all_are(&idle());
    account.run("01 13:05").run("01 14:05");
    // One of each is what the limit allows: the old refusal counts in none, and the new action is tried.
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 stop for idle (failed) | notified vision (error)
    01 13:05 i-000 unmark idle leaving idle=stop@01T13:00 and stopped, i-001 mark idle=stop@01T14:05 | notified vision (warning)
    01 14:05 i-001 stop for idle (failed), i-000 skipped refused | notified vision (error)
    ");
}

#[test]
fn a_refusal_is_of_its_announcement_alone() {
    let config = "mode = \"enforce\"\n[limits]\nactions_max = 1\n";
    let mut account = fleet([instance().id("i-000"), instance().id("i-001")], config);
    account.aws.refuses_for_good = Some(PROTECTED_FROM_STOP);
    account.usages.insert("i-001".into(), busy());
    account.run("01 12:00").run("01 13:00");
    account.all_are(&busy()).run("01 14:00");
    account.aws.refuses_for_good = None;
    account.all_are(&idle()).run("03 12:00").run("03 13:00");
    // What was refused two days ago, and called off, is new: two are above the limit.
    assert_snapshot!(account.log, @"
    01 12:00 i-000 mark idle=stop@01T13:00, i-001 skipped busy | notified vision (warning)
    01 13:00 i-000 stop for idle (failed), i-001 skipped busy | notified vision (error)
    01 14:00 i-000 unmark idle and stopped, i-001 skipped busy | notified vision (info)
    03 12:00 i-000 mark idle=stop@03T13:00, i-001 mark idle=stop@03T13:00 | notified vision (warning)
    03 13:00 i-000 stop for idle (not reached), i-001 stop for idle (not reached) | notified vision (error)
    ");
}

#[test]
fn limits_that_allow_nothing_hold_what_was_refused_as_well() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.aws.refuses_for_good = Some(PROTECTED_FROM_STOP);
    account.run("01 12:00").run("01 13:00").run("01 13:05");
    account.config("mode = \"enforce\"\n[limits]\nactions_max = 0\n").run("02 13:05");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 stop for idle (failed) | notified vision (error)
    01 13:05 unmark idle leaving idle=stop@01T13:00 and stopped
    02 13:05 stop for idle (not reached) | notified vision (error)
    ");
}

#[test]
fn a_night_stop_that_could_not_be_undone_is_none() {
    let mut account = enforcing_account(instance().tag("curfew:hours", OFFICE), ENFORCED);
    account.all_are(&busy());
    account.run("01 19:30");
    account.aws.refuses_for_good = Some(FORBIDDEN_TAGS);
    account.run("01 20:00").run("01 20:05");
    assert_snapshot!(account.log, @"
    01 19:30 mark hours=stop@01T20:00 | notified vision (info)
    01 20:00 stop for hours (failed) | notified vision (error)
    01 20:05 skipped refused
    ");
}

#[test]
fn a_refused_stop_does_not_hide_a_termination() {
    let config = "mode = \"enforce\"\n[lifetime]\naction = \"terminate\"\nmax = \"1d\"\ngrace = \"1h\"";
    let mut account = enforcing_account(instance().launched("2026-08-31T12:30:00Z"), config);
    account.aws.refuses_for_good = Some(PROTECTED_FROM_STOP);
    account.run("01 12:00").run("01 12:31").run("01 13:00").run("01 13:05").run("01 13:31");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:31 mark idle=stop@01T13:00 lifetime=terminate@01T13:31 | notified vision (warning)
    01 13:00 stop for idle (failed) | notified vision (error)
    01 13:05 unmark idle leaving idle=stop@01T13:00 and stopped
    01 13:31 terminate for lifetime | notified vision (action)
    ");
}

#[test]
fn an_instance_without_room_for_the_mark_is_promised_nothing() {
    let full = (0..48).fold(instance(), |full, number| full.tag(&format!("k{number}"), "v"));
    let mut account = enforcing_account(full, ENFORCED);
    account.run("01 12:00");
    let text = "Curfew only notifies: with Curfew's labels it, or its snapshot, would have more than the 50 tags";
    assert!(account.aws.messages[0].body.contains(text), "{:?}", account.aws.messages);
    account.run("01 12:05").aws.instances[0].tags.remove("k0");
    account.run("01 12:15").run("01 13:15");
    assert_snapshot!(account.log, @"
    01 12:00 notify idle, TooManyTags | notified vision (warning)
    01 12:05 skipped notified
    01 12:15 mark idle=stop@01T13:15 | notified vision (warning)
    01 13:15 stop for idle | notified vision (action)
    ");
}

#[test]
fn where_a_tag_policy_refuses_the_mark_the_announcement_is_called_off() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.aws.refuses_for_good = Some(FORBIDDEN_TAGS);
    account.run("01 12:00").run("01 12:05").run("01 12:10").run("01 13:10").run("02 12:05").run("02 12:10");
    account.aws.refuses_for_good = None;
    account.run("03 12:05").run("03 12:10").run("03 13:05");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 (failed) | notified vision (warning)
    01 12:05 unmark idle | notified vision (error)
    01 12:10 notify idle, TagPolicy | notified vision (warning)
    01 13:10 skipped notified
    02 12:05 mark idle=stop@02T13:05 (failed) | notified vision (error)
    02 12:10 skipped notified
    03 12:05 mark idle=stop@03T13:05 | notified vision (warning)
    03 12:10 skipped marked
    03 13:05 stop for idle | notified vision (action)
    ");
}

#[test]
fn an_owners_own_moment_needs_no_label() {
    let mut account = enforcing_account(instance().tag("curfew:expires-at", "2026-09-01T12:30:00Z"), ENFORCED);
    account.all_are(&busy());
    account.aws.refuses_for_good = Some(FORBIDDEN_TAGS);
    account.run("01 12:00").run("01 12:30");
    assert_snapshot!(account.log, @"
    01 12:00 skipped busy
    01 12:30 mark expired=stop@01T12:30 and stop for expired | notified vision (action)
    ");
}
