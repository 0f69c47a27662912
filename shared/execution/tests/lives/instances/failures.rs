use super::*;

#[test]
fn a_refused_message_leaves_nothing_marked() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.aws.deaf.insert("vision");
    account.run("01 12:00").run("01 12:05");
    account.aws.deaf.clear();
    account.run("01 12:10").run("01 13:10");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 (not reached)
    01 12:05 mark idle=stop@01T13:05 (not reached) | notified untagged (error)
    01 12:10 mark idle=stop@01T13:10 | notified vision (warning)
    01 13:10 stop for idle | notified vision (action)
    ");
}

#[test]
fn a_failed_mark_is_written_later_and_only_the_failure_is_notified() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.aws.refuses = Some("UnauthorizedOperation: ec2:CreateTags");
    account.run("01 12:00").run("01 12:05").run("01 13:05");
    account.aws.refuses = None;
    account.run("01 13:10").run("01 13:15");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 (failed) | notified vision (warning)
    01 12:05 mark idle=stop@01T13:00 (failed) | notified vision (error)
    01 13:05 mark idle=stop@01T13:00 (failed)
    01 13:10 mark idle=stop@01T13:00
    01 13:15 stop for idle | notified vision (action)
    ");
}

#[test]
fn what_is_called_off_is_told_although_its_mark_stays() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.run("01 12:00").all_are(&busy());
    account.aws.refuses = Some("UnauthorizedOperation: ec2:DeleteTags");
    account.run("01 12:05");
    let text = "Curfew could not unmark it: ec2:Write failed in us-east-1: UnauthorizedOperation: ec2:DeleteTags; the action announced for \
                2026-09-01T13:00:00Z (idle) is called off.";
    let [message] = &account.aws.messages[..] else { panic!("{:?}", account.aws.messages) };
    assert!(message.body.contains(text), "{message:?}");
    account.run("01 12:10").run("01 12:15").run("01 12:20");
    account.aws.refuses = None;
    account.run("01 12:25").run("01 12:30");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:05 unmark idle (failed) | notified vision (info)
    01 12:10 unmark idle (failed) | notified vision (error)
    01 12:15 unmark idle (failed)
    01 12:20 unmark idle (failed)
    01 12:25 unmark idle
    01 12:30 skipped busy
    ");
}

#[test]
fn without_its_log_a_region_is_told_of_what_is_observed_and_of_what_awaits_approval() {
    let config = "mode = \"enforce\"\n[limits]\nactions_max = 0\n";
    let observed = instance().id("i-observed").tag("curfew:mode", "observe");
    let expiring = instance().id("i-expiring").tag("curfew:expires-at", "2026-09-01T13:00:00Z");
    let mut account = fleet([instance().id("i-held"), observed, expiring], config);
    account.run("01 12:00");
    account.aws.refuses_log = true;
    account.run("01 13:00");
    assert_snapshot!(account.log, @"
    01 12:00 i-expiring mark idle=stop@01T13:00, i-held mark idle=stop@01T13:00, i-observed mark idle=stop@01T13:00 (observed) | notified vision (warning)
    01 13:00 i-expiring stop for expired (not reached), i-held stop for idle (not reached), i-observed stop for idle (observed) | notified vision (error)
    ");
}

#[test]
fn an_announcement_without_its_label_survives_a_run_with_unknown_use() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.aws.refuses = Some("UnauthorizedOperation: ec2:CreateTags");
    account.run("01 12:00");
    account.aws.refuses = None;
    account.all_are(&NOT_ASKED).run("01 12:05").run("01 13:05");
    account.all_are(&idle()).run("01 13:10").run("01 13:15");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 (failed) | notified vision (warning)
    01 12:05 skipped marked | notified vision (error)
    01 13:05 skipped marked
    01 13:10 mark idle=stop@01T13:00
    01 13:15 stop for idle | notified vision (action)
    ");
}

#[test]
fn a_bug_in_one_step_keeps_no_other_from_its_turn() {
    let mut account = fleet([instance().id("i-1"), instance().id("i-2")], ENFORCED);
    account.run("01 12:00");
    account.aws.panics_once = true;
    account.run("01 13:00").run("01 13:05");
    assert_snapshot!(account.log, @"
    01 12:00 i-1 mark idle=stop@01T13:00, i-2 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 i-1 stop for idle (failed), i-2 stop for idle | notified vision (error)
    01 13:05 i-1 stop for idle, i-2 skipped not-running | notified vision (action)
    ");
}

#[test]
fn an_unreadable_spot_request_defers_an_announced_action() {
    let spot = instance().purchase(PurchaseOption::SpotOneTime).tag("curfew:on-idle", "terminate");
    let mut account = enforcing_account(spot, ENFORCED);
    account.run("01 12:00");
    account.aws.instances[0].purchase = PurchaseOption::SpotUnknown;
    account.run("01 13:00");
    account.aws.instances[0].purchase = PurchaseOption::SpotOneTime;
    account.run("01 13:05");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=terminate@01T13:00 | notified vision (warning)
    01 13:00 skipped marked
    01 13:05 terminate for idle | notified vision (action)
    ");
}

#[test]
fn an_unsent_notification_of_an_action_is_owed() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.run("01 12:00");
    account.aws.deaf.insert("vision");
    account.run("01 13:00").run("01 13:05");
    account.aws.deaf.clear();
    account.run("01 13:10").run("01 13:15");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 stop for idle
    01 13:05 skipped not-running | notified untagged (error)
    01 13:10 skipped not-running | notified vision (action)
    01 13:15 skipped not-running
    ");
}

#[test]
fn a_failed_stop_is_notified_once_a_day_and_retried_in_every_run() {
    let mut account = enforcing_account(instance(), ENFORCED);
    account.run("01 12:00");
    account.aws.refuses = Some("UnauthorizedOperation");
    account.run("01 13:00").run("01 13:05").run("02 13:00");
    account.aws.refuses = None;
    account.run("02 13:05");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 stop for idle (failed) | notified vision (error)
    01 13:05 stop for idle (failed)
    02 13:00 stop for idle (failed) | notified vision (error)
    02 13:05 stop for idle | notified vision (action)
    ");
}

#[test]
fn an_old_stopped_tag_is_removed_from_a_running_instance() {
    let mut account = enforcing_account(instance().tag(STOPPED, "idle 2026-08-30T12:00:00Z"), ENFORCED);
    account.all_are(&busy()).run("01 12:00").run("01 12:05");
    assert_snapshot!(account.log, @"
    01 12:00 unmark idle and stopped
    01 12:05 skipped busy
    ");
}

#[test]
fn a_withdrawal_is_notified_even_beside_a_stale_entry() {
    let old = instance().launched("2026-08-01T00:00:00Z").tag("curfew:expires-at", "2026-12-01T00:00:00Z");
    let mut account = enforcing_account(old, ENFORCED);
    let announced = [(Rule::Idle, "2026-09-01T12:30:00Z"), (Rule::Untagged, "2026-08-10T00:00:00Z")]
        .map(|(rule, deadline)| (rule, reaping::fixture::announced(ResourceAction::Stop, deadline)));
    account.remember(&ResourceRecord { announced: BTreeMap::from(announced), ..ResourceRecord::default() });
    account.all_are(&busy()).run("01 12:00");
    assert_snapshot!(account.log, @"01 12:00 unmark idle | notified vision (info)");
}

#[test]
fn a_wrong_label_does_not_delay_an_announced_action() {
    let mut account = enforcing_account(instance().tag(MARKED, "idle=stop@2026-08-31T00:00:00Z"), ENFORCED);
    account.aws.refuses = Some("UnauthorizedOperation: ec2:CreateTags");
    account.run("01 12:00");
    account.aws.refuses = None;
    account.run("01 13:00").run("01 13:05");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 (failed) | notified vision (warning)
    01 13:00 stop for idle | notified vision (error)
    01 13:05 skipped not-running
    ");
}

#[test]
fn a_gap_is_notified_once_a_day() {
    let mut account = enforcing_account(instance(), "");
    account.all_are(&busy()).gaps =
        vec![Gap::new(&"eu-west-1".into(), "ec2:DescribeInstances", "RequestLimitExceeded", GapKind::Region)];
    account.run("01 12:00").run("01 12:05").run("02 11:55").run("02 12:00");
    account.gaps[0].kind = GapKind::ForbiddenRegion;
    account.run("02 12:05").run("03 12:05").run("09 12:05");
    assert_snapshot!(account.log, @"
    01 12:00 skipped busy | notified untagged (error)
    01 12:05 skipped busy
    02 11:55 skipped busy
    02 12:00 skipped busy | notified untagged (error)
    02 12:05 skipped busy | notified untagged (error)
    03 12:05 skipped busy
    09 12:05 notify lifetime, Configured (observed) | notified vision (info)
    ");
}

#[test]
fn an_action_announced_and_enforced_in_one_run_leaves_no_mark() {
    let mut account = enforcing_account(instance().tag("curfew:expires-at", "2026-09-01T11:59:00Z"), "");
    account.run("01 11:58").run("01 12:00");
    assert_eq!(account.tag_of(MARKED), None);
}
