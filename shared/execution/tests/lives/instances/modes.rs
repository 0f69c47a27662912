use super::*;

#[test]
fn observe_mode_notifies_once_and_enforcing_starts_over() {
    let mut account = enforcing_account(instance(), "");
    account.run("01 12:00").run("01 12:05").run("01 13:00").run("01 13:05").run("01 13:10");
    assert_eq!(account.tag_of(MARKED), None);
    account.config(ENFORCED).run("01 13:15").run("01 13:20").run("01 14:15");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 (observed) | notified vision (info)
    01 12:05 mark idle=stop@01T13:00 (observed)
    01 13:00 stop for idle (observed) | notified vision (info)
    01 13:05 stop for idle (observed)
    01 13:10 stop for idle (observed)
    01 13:15 mark idle=stop@01T14:15 | notified vision (warning)
    01 13:20 skipped marked
    01 14:15 stop for idle | notified vision (action)
    ");
}

#[test]
fn every_run_lists_notify_only_findings_without_another_query() {
    let mut account = enforcing_account(instance(), "");
    account.run("01 12:00");
    account.usages.clear();
    account.run("01 12:05").run("01 13:05");
    account.all_are(&idle()).run("01 13:10").usages.clear();
    account.run("01 13:15").run("01 13:20");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 (observed) | notified vision (info)
    01 12:05 mark idle=stop@01T13:00 (observed)
    01 13:05 mark idle=stop@01T13:00 (observed)
    01 13:10 stop for idle (observed) | notified vision (info)
    01 13:15 stop for idle (observed)
    01 13:20 stop for idle (observed)
    ");
}

#[test]
fn a_withdrawal_without_writes_stays_in_force() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.run("01 12:00").policy.ceiling = Ceiling::fixed(Mode::Observe);
    account.all_are(&busy()).run("01 12:05");
    account.all_are(&idle()).run("01 13:30").policy.ceiling = Ceiling::fixed(Mode::Enforce);
    account.run("01 13:35").run("01 14:35");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:05 unmark idle (observed) | notified vision (info)
    01 13:30 mark idle=stop@01T14:30 (observed) | notified vision (info)
    01 13:35 mark idle=stop@01T14:35 | notified vision (warning)
    01 14:35 stop for idle | notified vision (action)
    ");
}

#[test]
fn observe_mode_of_the_function_stops_everything() {
    let mut account = enforcing_account(instance().tag("curfew:mode", "enforce").tag("curfew:hours", OFFICE), ENFORCED);
    account.policy.ceiling = Ceiling::fixed(Mode::Observe);
    account.run("01 12:00").run("01 13:00").run("01 13:05").run("01 19:30").run("01 20:00").run("01 20:05");
    let seen = account.aws.instances[0].tags.keys().filter(|key| *key == MARKED || *key == STOPPED).count();
    assert_eq!(seen, 0);
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 (observed) | notified vision (info)
    01 13:00 stop for idle (observed) | notified vision (info)
    01 13:05 stop for idle (observed)
    01 19:30 mark idle=stop@01T13:00 hours=stop@01T20:00 (observed) | notified vision (info)
    01 20:00 stop for hours (observed) | notified vision (info)
    01 20:05 stop for hours (observed)
    ");
}

#[test]
fn a_second_rule_is_notified_while_another_is_due_in_observe_mode() {
    let mut account = enforcing_account(instance(), "[lifetime]\naction = \"stop\"\nmax = \"25h\"");
    account.run("01 12:00").run("01 13:00").run("01 13:05").run("01 13:10");
    account.run("02 13:05").run("02 13:10");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 (observed) | notified vision (info)
    01 13:00 stop for idle (observed) | notified vision (info)
    01 13:05 mark idle=stop@01T13:00 lifetime=stop@02T13:05 (observed) | notified vision (info)
    01 13:10 stop for idle (observed)
    02 13:05 stop for idle (observed)
    02 13:10 stop for idle (observed)
    ");
}

/// It has run for longer than `[lifetime] max`, which only notifies.
#[test]
fn a_rule_that_only_notifies_comes_after_the_observed_announcement() {
    let old = || instance().launched("2026-08-15T12:00:00Z");
    let mut observed = enforcing_account(old(), "");
    observed.run("01 12:00").run("01 12:05").usages.clear();
    observed.run("01 12:10").all_are(&idle()).run("01 13:00").run("01 13:05");
    assert_snapshot!(observed.log, @"
    01 12:00 mark idle=stop@01T13:00 (observed) | notified vision (info)
    01 12:05 notify lifetime, Configured (observed) | notified vision (info)
    01 12:10 mark idle=stop@01T13:00 (observed)
    01 13:00 stop for idle (observed) | notified vision (info)
    01 13:05 stop for idle (observed)
    ");
    // Its hours are enforced, and the other rules are observed.
    let mut mixed = enforcing_account(old().tag("curfew:hours", "Mon-Fri 08:00-12:20 UTC"), "");
    mixed.run("01 12:00").run("01 12:05").run("01 12:10");
    assert_snapshot!(mixed.log, @"
    01 12:00 mark hours=stop@01T12:20 | notified vision (info)
    01 12:05 mark idle=stop@01T13:05 (observed) | notified vision (info)
    01 12:10 notify lifetime, Configured (observed) | notified vision (info)
    ");
}

#[test]
fn without_a_required_tag_the_teams_mode_does_not_apply() {
    let of_team = "[teams.vision]\nmode = \"enforce\"\n";
    let ownerless = || untagged().tag("Team", "vision");
    let mut observed = enforcing_account(ownerless(), of_team);
    observed.run("01 12:00").run("02 12:00").run("02 12:05");
    assert_snapshot!(observed.log, @"
    01 12:00 mark untagged=stop@02T12:00 idle=stop@01T13:00 (observed) | notified vision (info)
    02 12:00 stop for idle (observed) | notified vision (info)
    02 12:05 stop for idle (observed)
    ");
    let mut enforced =
        enforcing_account(ownerless(), "[untagged]\nmode = \"enforce\"\n[teams.vision]\nmode = \"observe\"");
    enforced.run("01 12:00").run("01 13:00");
    assert_snapshot!(enforced.log, @"
    01 12:00 mark untagged=stop@02T12:00 idle=stop@01T13:00 | notified vision (warning)
    01 13:00 stop for idle | notified vision (action)
    ");
}

#[test]
fn its_own_tag_comes_first() {
    let mut out = enforcing_account(
        instance().tag("curfew:mode", "observe").tag("curfew:expires-at", "2026-09-01T11:00:00Z"),
        ENFORCED,
    );
    out.run("01 12:00").run("01 12:05");
    assert_snapshot!(out.log, @"
    01 12:00 mark expired=stop@01T12:15 idle=stop@01T13:00 (observed) | notified vision (info)
    01 12:05 mark expired=stop@01T12:15 idle=stop@01T13:00 (observed)
    ");
    let mut opted_in = enforcing_account(instance().tag("curfew:mode", "enforce"), "");
    opted_in.run("01 12:00").run("01 13:00");
    assert_snapshot!(opted_in.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 stop for idle | notified vision (action)
    ");
}
