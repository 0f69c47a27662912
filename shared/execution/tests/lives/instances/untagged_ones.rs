use super::*;

#[test]
fn work_defers_an_announced_action() {
    let mut account = enforcing_account(untagged(), UNTAGGED_ENFORCED);
    account.all_are(&unknown()).run("01 12:00").all_are(&busy()).run("01 12:05").run("02 12:00").run("02 12:05");
    account.all_are(&unknown()).run("02 13:10");
    assert_snapshot!(account.log, @"
    01 12:00 mark untagged=stop@02T12:00 | notified untagged (warning)
    01 12:05 skipped marked
    02 12:00 skipped marked
    02 12:05 skipped marked
    02 13:10 stop for untagged | notified untagged (action)
    ");
}

#[test]
fn work_is_notified_once_without_an_announcement() {
    let mut account = enforcing_account(untagged(), UNTAGGED_ENFORCED);
    account.all_are(&busy()).run("01 12:00").run("01 12:05").run("02 12:05");
    assert_snapshot!(account.log, @"
    01 12:00 notify untagged, Busy | notified untagged (warning)
    01 12:05 skipped notified
    02 12:05 skipped notified
    ");
}

#[test]
fn a_gap_in_the_metrics_stops_nothing() {
    let mut account = enforcing_account(untagged(), UNTAGGED_ENFORCED);
    account.all_are(&unknown()).run("01 12:00");
    account.usages.clear();
    account.run("02 12:00");
    account.all_are(&busy()).run("02 12:05");
    assert_snapshot!(account.log, @"
    01 12:00 mark untagged=stop@02T12:00 | notified untagged (warning)
    02 12:00 skipped marked
    02 12:05 skipped marked
    ");
}

#[test]
fn tags_withdraw_the_announcement() {
    let mut account = enforcing_account(untagged(), UNTAGGED_ENFORCED);
    account.all_are(&busy());
    account.config("[untagged]\nmode = \"enforce\"\nspare_busy = false").run("01 12:00");
    account.tag("Team", "vision").tag("Owner", "ada").run("01 12:05").run("01 12:10");
    assert_snapshot!(account.log, @"
    01 12:00 mark untagged=stop@02T12:00 | notified untagged (warning)
    01 12:05 unmark untagged | notified vision (info)
    01 12:10 skipped busy
    ");
}
