//! What earlier runs announced, by the log; and labels that say otherwise.

use reaping::fixture::announced;

use super::*;

/// What happens at noon to an instance that was launched at noon of August 31st, if this was announced.
fn check(rule: Rule, ending: ResourceAction, deadline: &str, usage: &Usage, expect: &str) {
    let mut account = enforcing_account(instance().tag(MARKED, "idle=stop@2026-09-01T11:55:00Z"), ENFORCED);
    account.announced(rule, announced(ending, deadline)).all_are(usage).run("01 12:00");
    assert_eq!(account.log.trim_end(), expect, "{rule} {deadline}");
}

const TOLD_ANEW: &str = "01 12:00 mark idle=stop@01T13:00 | notified vision (warning)";
const STOPPED_NOW: &str = "01 12:00 stop for idle | notified vision (action)";

#[test]
fn a_recent_announcement_is_enforced() {
    check(Rule::Idle, ResourceAction::Stop, "2026-09-01T11:55:00Z", &idle(), STOPPED_NOW);
    check(Rule::Idle, ResourceAction::Stop, "2026-09-01T12:05:00Z", &idle(), "01 12:00 mark idle=stop@01T12:05");
}

#[test]
fn an_announcement_from_before_a_restart_is_made_again() {
    check(Rule::Idle, ResourceAction::Stop, "2026-08-31T11:59:59Z", &idle(), TOLD_ANEW);
    check(Rule::Idle, ResourceAction::Stop, "2026-08-31T11:59:59Z", &busy(), "01 12:00 unmark idle");
}

#[test]
fn an_announcement_for_another_rule_is_none() {
    check(Rule::Lifetime, ResourceAction::Stop, "2026-09-01T11:55:00Z", &idle(), TOLD_ANEW);
}

#[test]
fn an_announcement_of_a_harsher_action_is_enforced_mildly() {
    check(Rule::Idle, ResourceAction::Terminate, "2026-09-01T11:55:00Z", &idle(), STOPPED_NOW);
}

#[test]
fn a_label_alone_announces_nothing() {
    for label in
        ["idle=stop@2026-09-01T11:55:00Z", "idle=terminate@9999-12-30T22:00:00Z", "i-0other idle=stop", "yes", ""]
    {
        let check = |usage: &Usage, expect: &str| {
            let mut account = enforcing_account(instance().tag(MARKED, label), ENFORCED);
            account.all_are(usage).run("01 12:00").run("01 12:05");
            assert_eq!(account.log.trim_end(), expect, "{label}");
        };
        check(&idle(), &format!("{TOLD_ANEW}\n01 12:05 skipped marked"));
    }
}

#[test]
fn an_announcement_of_a_milder_action_is_made_again() {
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
fn an_announcement_older_than_a_week_is_made_again() {
    let old = instance().launched("2026-08-01T00:00:00Z");
    let mut account = enforcing_account(old, ENFORCED);
    account.announced(Rule::Idle, announced(ResourceAction::Stop, "2026-08-25T11:59:59Z")).run("01 12:00");
    assert_snapshot!(account.log, @"01 12:00 mark idle=stop@01T13:00 | notified vision (warning)");
}

#[test]
fn an_announcement_before_keep_until_is_made_again() {
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
    01 12:05 unmark idle (observed) | notified vision (info)
    01 13:05 notify idle, Configured (observed) | notified vision (info)
    01 13:10 mark idle=stop@01T14:10 | notified vision (warning)
    01 14:10 stop for idle | notified vision (action)
    ");
}
