use super::*;

fn office() -> Account {
    let mut account = enforcing_account(instance().tag("curfew:hours", OFFICE), "");
    account.all_are(&busy());
    account
}

#[test]
fn marked_stopped_and_started_in_the_morning() {
    let mut account = office();
    account.run("01 19:25").run("01 19:30").run("01 19:55").run("01 20:00").run("01 20:05").run("02 07:55");
    account.run("02 08:00").run("02 08:05").run("02 08:10");
    assert_snapshot!(account.log, @"
    01 19:25 skipped busy
    01 19:30 mark hours=stop@01T20:00 | notified vision (info)
    01 19:55 skipped marked
    01 20:00 stop for hours | notified vision (info)
    01 20:05 skipped not-running
    02 07:55 skipped not-running
    02 08:00 start | notified vision (info)
    02 08:05 unmark hours and stopped
    02 08:10 skipped busy
    ");
}

#[test]
fn an_unsent_notification_of_a_start_is_owed() {
    let mut account = office();
    account.run("01 19:30").run("01 20:00");
    account.aws.deaf.insert("vision");
    account.run("02 08:00").run("02 08:05");
    account.aws.deaf.clear();
    account.run("02 08:10").run("02 08:15");
    assert_snapshot!(account.log, @"
    01 19:30 mark hours=stop@01T20:00 | notified vision (info)
    01 20:00 stop for hours | notified vision (info)
    02 08:00 start
    02 08:05 unmark hours and stopped | notified untagged (error)
    02 08:10 skipped busy | notified vision (info)
    02 08:15 skipped busy
    ");
}

#[test]
fn a_failed_start_is_notified_once_a_day_and_retried() {
    let mut account = office();
    account.run("01 19:30").run("01 20:00");
    account.aws.refuses = Some("InsufficientInstanceCapacity");
    account.run("02 08:00").run("02 08:05").run("02 19:55").run("02 20:00").run("03 08:00").run("03 08:05");
    account.aws.refuses = None;
    account.run("03 08:10").run("03 08:15");
    assert_snapshot!(account.log, @"
    01 19:30 mark hours=stop@01T20:00 | notified vision (info)
    01 20:00 stop for hours | notified vision (info)
    02 08:00 start (failed) | notified vision (error)
    02 08:05 start (failed)
    02 19:55 start (failed)
    02 20:00 skipped not-running
    03 08:00 start (failed) | notified vision (error)
    03 08:05 start (failed)
    03 08:10 start | notified vision (info)
    03 08:15 unmark hours and stopped
    ");
}

#[test]
fn a_start_without_effect_is_notified_once_a_day() {
    let mut account = office();
    account.run("01 19:30").run("01 20:00").run("02 08:00");
    account.state(InstanceState::Stopped).aws.instances[0].state_reason = Some("Client.InternalError".to_owned());
    account.run("02 08:05");
    account.state(InstanceState::Pending).run("02 08:10");
    account.state(InstanceState::Stopped).run("02 08:15").run("03 08:00");
    account.state(InstanceState::Stopped).run("03 08:05");
    assert_snapshot!(account.log, @"
    01 19:30 mark hours=stop@01T20:00 | notified vision (info)
    01 20:00 stop for hours | notified vision (info)
    02 08:00 start | notified vision (info)
    02 08:05 skipped refused | notified vision (error)
    02 08:10 skipped young
    02 08:15 skipped refused
    03 08:00 start | notified vision (error)
    03 08:05 skipped refused | notified vision (error)
    ");
}

#[test]
fn slightly_moved_hours_are_not_cut_short() {
    let mut account = office();
    account.run("01 19:45").tag("curfew:hours", "Mon-Fri 08:00-20:15 UTC").run("01 19:50").run("01 20:00");
    account.run("01 20:15");
    assert_snapshot!(account.log, @"
    01 19:45 mark hours=stop@01T20:00 | notified vision (info)
    01 19:50 mark hours=stop@01T20:15 | notified vision (info)
    01 20:00 skipped marked
    01 20:15 stop for hours | notified vision (info)
    ");
}

#[test]
fn an_announcement_of_yesterday_does_not_stop_it_early_today() {
    let mut account = office();
    account.run("01 19:30").run("02 19:40").run("02 20:00");
    assert_snapshot!(account.log, @"
    01 19:30 mark hours=stop@01T20:00 | notified vision (info)
    02 19:40 mark hours=stop@02T20:00 | notified vision (info)
    02 20:00 stop for hours | notified vision (info)
    ");
}

#[test]
fn prolonged_hours_withdraw_the_stop() {
    let mut account = office();
    account.run("01 19:30").tag("curfew:hours", "Mon-Fri 08:00-22:00 UTC").run("01 19:35").run("01 21:30");
    assert_snapshot!(account.log, @"
    01 19:30 mark hours=stop@01T20:00 | notified vision (info)
    01 19:35 unmark hours | notified vision (info)
    01 21:30 mark hours=stop@01T22:00 | notified vision (info)
    ");
}

#[test]
fn stopped_by_hand_it_stays_stopped() {
    let mut account = office();
    account.state(InstanceState::Stopped).run("02 08:00");
    assert_snapshot!(account.log, @"02 08:00 skipped not-running");
}

#[test]
fn an_idle_stop_at_the_begin_of_its_hours_is_not_undone_by_them() {
    let mut account = enforcing_account(instance().tag("curfew:hours", "Mon-Fri 13:00-20:00 UTC"), ENFORCED);
    account.aws.instances[0].launched_at = time("2026-08-31T21:00:00Z");
    account.run("01 12:00").run("01 13:00").run("01 13:05").run("02 13:00");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 stop for idle | notified vision (action)
    01 13:05 skipped not-running
    02 13:00 start | notified vision (info)
    ");
}

#[test]
fn a_manual_stop_within_its_hours_stays() {
    let mut account = office();
    account
        .run("01 19:30")
        .run("01 20:00")
        .run("02 08:00")
        .state(InstanceState::Stopped)
        .run("02 08:05")
        .run("02 12:00");
    account.run("03 08:00");
    assert_snapshot!(account.log, @"
    01 19:30 mark hours=stop@01T20:00 | notified vision (info)
    01 20:00 stop for hours | notified vision (info)
    02 08:00 start | notified vision (info)
    02 08:05 skipped not-running
    02 12:00 skipped not-running
    03 08:00 skipped not-running
    ");
}

#[test]
fn an_instance_that_people_started_and_stopped_is_not_started() {
    let mut account = office();
    account.run("01 19:30").run("01 20:00").aws.instances[0].launched_at = time("2026-09-01T21:00:00Z");
    account.run("02 08:00");
    assert_snapshot!(account.log, @"
    01 19:30 mark hours=stop@01T20:00 | notified vision (info)
    01 20:00 stop for hours | notified vision (info)
    02 08:00 skipped not-running
    ");
}

#[test]
fn starts_in_observe_mode_are_notified_once_a_morning() {
    let mut account = enforcing_account(instance().tag("curfew:hours", OFFICE).state(InstanceState::Stopped), "");
    account.stopped_for_hours("2026-08-31T20:00:00Z");
    account.policy.ceiling = Ceiling::fixed(Mode::Observe);
    account.run("01 08:00").run("01 08:05").run("02 08:00");
    assert_snapshot!(account.log, @"
    01 08:00 start (observed) | notified vision (info)
    01 08:05 start (observed)
    02 08:00 start (observed) | notified vision (info)
    ");
}
