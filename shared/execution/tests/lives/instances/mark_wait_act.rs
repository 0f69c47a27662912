use super::*;

#[test]
fn notifies_marks_waits_and_stops() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.run("01 12:00").run("01 12:05").run("01 12:55").run("01 13:00").run("01 13:05");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:05 skipped marked
    01 12:55 skipped marked
    01 13:00 stop for idle | notified vision (action)
    01 13:05 skipped not-running
    ");
    assert_eq!(account.tag_of(STOPPED), Some("idle 2026-09-01T13:00:00Z"));
    assert_eq!(account.tag_of(MARKED), None);
}

#[test]
fn a_resolved_violation_is_unmarked_and_starts_over() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.run("01 12:00").all_are(&busy()).run("01 12:30").run("01 12:35");
    account.all_are(&idle()).run("01 14:00");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:30 unmark idle | notified vision (info)
    01 12:35 skipped busy
    01 14:00 mark idle=stop@01T15:00 | notified vision (warning)
    ");
}

#[test]
fn unknown_neither_acts_nor_unmarks() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.run("01 12:00").all_are(&unknown()).run("01 12:30").run("01 13:30");
    account.usages.clear();
    account.run("01 13:35").all_are(&idle()).run("01 13:40");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:30 skipped marked | notified vision (info)
    01 13:30 skipped marked
    01 13:35 skipped marked
    01 13:40 stop for idle | notified vision (action)
    ");
}

#[test]
fn without_grace_a_stop_still_takes_two_runs() {
    let mut account = enforcing_account(instance(), &format!("{ENFORCED}[idle]\ngrace = \"0s\""));
    account.run("01 12:00").run("01 12:05");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T12:00 | notified vision (warning)
    01 12:05 stop for idle | notified vision (action)
    ");
}

#[test]
fn an_instance_stopped_and_started_by_hand_starts_over() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.run("01 12:00").run("01 13:00");
    account.state(InstanceState::Running).aws.instances[0].launched_at = time("2026-09-01T14:00:00Z");
    account.run("01 16:00").run("01 16:05").run("01 17:05");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 stop for idle | notified vision (action)
    01 16:00 mark idle=stop@01T17:00 | notified vision (warning)
    01 16:05 unmark idle leaving idle=stop@01T17:00 and stopped
    01 17:05 stop for idle | notified vision (action)
    ");
}

#[test]
fn expired_is_marked_and_enforced_in_one_run() {
    let mut account = enforcing_account(instance().tag("curfew:expires-at", "2026-09-01T12:00:00Z"), "");
    account.all_are(&busy()).run("01 11:55").run("01 12:00").run("01 12:05");
    assert_snapshot!(account.log, @"
    01 11:55 skipped busy
    01 12:00 mark expired=stop@01T12:00 and stop for expired | notified vision (action)
    01 12:05 skipped not-running
    ");
}

#[test]
fn one_time_spot_is_notified_or_terminated() {
    let spot = || instance().purchase(PurchaseOption::SpotOneTime);
    let mut told = enforcing_account(spot(), ENFORCED);
    told.run("01 12:00").run("01 13:00").run("02 13:00");
    assert_snapshot!(told.log, @"
    01 12:00 notify idle, CannotBeStopped | notified vision (warning)
    01 13:00 skipped notified
    02 13:00 skipped notified
    ");
    let mut ended = enforcing_account(spot().tag("curfew:on-idle", "terminate"), ENFORCED);
    ended.run("01 12:00").run("01 13:00").run("01 13:05");
    assert_snapshot!(ended.log, @"
    01 12:00 mark idle=terminate@01T13:00 | notified vision (warning)
    01 13:00 terminate for idle | notified vision (action)
    01 13:05
    ");
}
