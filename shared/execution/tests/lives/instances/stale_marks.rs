use super::*;

/// What happens at noon, and at 13:00, to an idle instance that carries `mark` and was launched at noon of August 31st.
fn check(mark: &str, usage: &Usage, expect: &str) {
    let mut account = enforcing_account(instance().tag(MARKED, mark), ENFORCED);
    account.all_are(usage).run("01 12:00");
    assert_eq!(account.log.trim_end(), expect, "{mark}");
}

const TOLD_ANEW: &str = "01 12:00 mark idle=stop@01T13:00 | notified vision (warning)";

#[test]
fn a_recent_mark_is_enforced() {
    check("i-0abc idle=stop@2026-09-01T11:55:00Z", &idle(), "01 12:00 stop for idle | notified vision (action)");
    check("i-0abc idle=stop@2026-09-01T12:05:00Z", &idle(), "01 12:00 skipped marked");
}

#[test]
fn a_copied_mark_is_announced_again_or_removed_silently() {
    check("i-0other idle=stop@2026-09-01T11:55:00Z", &idle(), TOLD_ANEW);
    check("i-0other idle=stop@2026-09-01T11:55:00Z", &busy(), "01 12:00 unmark idle");
}

#[test]
fn a_mark_from_before_a_restart_is_announced_again() {
    check("i-0abc idle=stop@2026-08-31T11:59:59Z", &idle(), TOLD_ANEW);
    check("i-0abc idle=stop@2026-08-31T11:59:59Z", &busy(), "01 12:00 unmark idle");
}

#[test]
fn a_mark_of_another_rule_is_announced_again() {
    check("i-0abc lifetime=stop@2026-09-01T11:55:00Z", &idle(), TOLD_ANEW);
}

#[test]
fn a_mark_of_a_milder_action_is_announced_again() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.run("01 12:00").tag("curfew:on-idle", "terminate").run("01 12:30").run("01 13:00").run("01 13:30");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:30 mark idle=terminate@01T13:30 | notified vision (warning)
    01 13:00 skipped marked
    01 13:30 terminate for idle | notified vision (action)
    ");
}

#[test]
fn a_mark_of_a_harsher_action_is_enforced_mildly() {
    check("i-0abc idle=terminate@2026-09-01T11:55:00Z", &idle(), "01 12:00 stop for idle | notified vision (action)");
}

#[test]
fn a_mark_older_than_a_week_is_announced_again() {
    let old = instance().launched("2026-08-01T00:00:00Z");
    let mut account = enforcing_account(old.tag(MARKED, "i-0abc idle=stop@2026-08-25T11:59:59Z"), ENFORCED);
    account.run("01 12:00");
    assert_snapshot!(account.log, @"01 12:00 mark idle=stop@01T13:00 | notified vision (warning)");
}

#[test]
fn a_mark_before_keep_until_is_announced_again() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.run("01 12:00").tag("curfew:keep-until", "2026-09-01T18:00:00Z");
    account.run("01 13:00").run("01 17:55").run("01 18:00").run("01 19:00");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 skipped kept
    01 17:55 skipped kept
    01 18:00 mark idle=stop@01T19:00 | notified vision (warning)
    01 19:00 stop for idle | notified vision (action)
    ");
}

#[test]
fn a_withdrawal_stays_in_force_while_its_instance_is_skipped() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.run("01 12:00").config("").all_are(&busy()).run("01 12:05");
    account.tag("curfew:keep-until", "2026-09-01T12:12:00Z").run("01 12:10");
    account.config(ENFORCED).all_are(&idle()).run("01 13:00").run("01 14:00");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:05 unmark idle (observed) | notified vision (info)
    01 12:10 skipped kept
    01 13:00 mark idle=stop@01T14:00 | notified vision (warning)
    01 14:00 stop for idle | notified vision (action)
    ");
}

#[test]
fn a_withdrawal_stays_in_force_while_its_instance_is_stopped() {
    let mut account = enforcing_account(instance(), "mode = \"enforce\"\n[idle]\ngrace = \"4h\"");
    account.run("01 12:00").config("").all_are(&busy()).run("01 12:05");
    account.state(InstanceState::Stopped).run("01 12:10").state(InstanceState::Pending).run("01 12:15");
    account.state(InstanceState::Running).config(ENFORCED).all_are(&idle()).run("01 16:00");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T16:00 | notified vision (warning)
    01 12:05 unmark idle (observed) | notified vision (info)
    01 12:10 skipped not-running
    01 12:15 skipped young
    01 16:00 mark idle=stop@01T17:00 | notified vision (warning)
    ");
}

#[test]
fn a_withdrawal_in_notify_only_mode_stays_in_force() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.run("01 12:00").config("[idle]\naction = \"notify\"").run("01 12:05").run("01 13:05");
    account.config(ENFORCED).run("01 13:10").run("01 14:10");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:05 notify idle, Configured (observed) | notified vision (info)
    01 13:05 skipped notified
    01 13:10 mark idle=stop@01T14:10 | notified vision (warning)
    01 14:10 stop for idle | notified vision (action)
    ");
}
