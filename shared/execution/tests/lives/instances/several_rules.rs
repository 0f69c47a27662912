use super::*;

const BOTH: &str = "mode = \"enforce\"\n[lifetime]\naction = \"terminate\"\nmax = \"1d\"\ngrace = \"30m\"";

#[test]
fn each_keeps_its_own_deadline_and_the_earliest_acts() {
    let mut account = enforcing_account(instance(), BOTH);
    account.run("01 11:55").run("01 12:05").run("01 12:30").run("01 12:35").run("01 12:40");
    assert_snapshot!(account.log, @"
    01 11:55 mark idle=stop@01T12:55 | notified vision (warning)
    01 12:05 mark idle=stop@01T12:55 lifetime=terminate@01T12:35 | notified vision (warning)
    01 12:30 skipped marked
    01 12:35 terminate for lifetime | notified vision (action)
    01 12:40
    ");
}

#[test]
fn one_violation_is_resolved_and_the_other_stays() {
    let mut account = enforcing_account(instance(), BOTH);
    account.run("01 11:55").run("01 12:05").all_are(&busy()).run("01 12:10").run("01 12:35");
    assert_snapshot!(account.log, @"
    01 11:55 mark idle=stop@01T12:55 | notified vision (warning)
    01 12:05 mark idle=stop@01T12:55 lifetime=terminate@01T12:35 | notified vision (warning)
    01 12:10 unmark idle leaving lifetime=terminate@01T12:35 | notified vision (info)
    01 12:35 terminate for lifetime | notified vision (action)
    ");
}

#[test]
fn the_first_of_two_is_called_off_aloud() {
    let config = "mode = \"enforce\"\n[lifetime]\naction = \"terminate\"\nmax = \"1d\"\ngrace = \"2h\"";
    let mut account = enforcing_account(instance(), config);
    account.run("01 11:55").run("01 12:05").all_are(&busy()).run("01 12:10").run("01 12:15");
    assert_snapshot!(account.log, @"
    01 11:55 mark idle=stop@01T12:55 | notified vision (warning)
    01 12:05 mark idle=stop@01T12:55 lifetime=terminate@01T14:05 | notified vision (warning)
    01 12:10 unmark idle leaving lifetime=terminate@01T14:05 | notified vision (info)
    01 12:15 skipped marked
    ");
}

#[test]
fn a_notify_only_finding_hides_no_other_and_is_notified_once() {
    let mut account = enforcing_account(instance(), "mode = \"enforce\"\n[lifetime]\nmax = \"1h\"");
    account.run("01 12:00").run("01 12:05").run("01 12:10").run("01 13:00").run("01 13:05");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:05 notify lifetime, Configured | notified vision (warning)
    01 12:10 skipped marked
    01 13:00 stop for idle | notified vision (action)
    01 13:05 skipped not-running
    ");
}

#[test]
fn held_gpu_memory_is_notified_once_and_again_after_work() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.all_are(&reserved()).run("01 12:00").run("01 12:05").run("02 13:00");
    account.all_are(&busy()).run("02 13:05").all_are(&reserved()).run("02 15:00");
    assert_snapshot!(account.log, @"
    01 12:00 notify idle, Reserved | notified vision (warning)
    01 12:05 skipped notified
    02 13:00 skipped notified
    02 13:05 skipped busy
    02 15:00 notify idle, Reserved | notified vision (warning)
    ");
}

#[test]
fn an_owners_own_deadline_marks_nothing_unannounced() {
    let mut account = enforcing_account(instance().tag("curfew:expires-at", "2026-09-01T12:00:00Z"), ENFORCED);
    account.all_are(&busy()).run("01 11:55").all_are(&idle()).run("01 12:00");
    assert_snapshot!(account.log, @"
    01 11:55 skipped busy
    01 12:00 mark expired=stop@01T12:00 and stop for expired | notified vision (action)
    ");
}

#[test]
fn an_expiry_that_was_past_when_first_seen_waits() {
    let mut account = enforcing_account(instance().tag("curfew:expires-at", "2026-09-01T11:59:59Z"), ENFORCED);
    account.run("01 12:00").run("01 12:10").run("01 12:15");
    assert_snapshot!(account.log, @"
    01 12:00 mark expired=stop@01T12:15 idle=stop@01T13:00 | notified vision (warning)
    01 12:10 skipped marked
    01 12:15 stop for expired | notified vision (action)
    ");
}

#[test]
fn an_owners_own_deadline_needs_no_further_mark() {
    let mut account = enforcing_account(instance().tag("curfew:expires-at", "2026-09-01T12:30:00Z"), ENFORCED);
    account.run("01 12:00").run("01 12:30");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:30 stop for expired | notified vision (action)
    ");
}
