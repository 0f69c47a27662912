use super::refused_for_good::PROTECTED_FROM_STOP;
use super::*;

fn member(id: &str) -> InstanceBuilder {
    instance().id(id).with(|instance| instance.placement_group = Some("llama".to_owned()))
}

fn pair(config: &str) -> Account {
    fleet([member("i-1"), member("i-2")], config)
}

#[test]
fn a_gang_is_announced_and_stopped_together() {
    let mut account = pair(ENFORCED);
    account.run("01 12:00").run("01 12:30").run("01 13:00").run("01 13:05");
    assert_snapshot!(account.log, @"
    01 12:00 i-1 mark idle=stop@01T13:00, i-2 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:30 i-1 skipped marked, i-2 skipped marked
    01 13:00 i-1 stop for idle, i-2 stop for idle | notified vision (action)
    01 13:05 i-1 skipped not-running, i-2 skipped not-running
    ");
}

#[test]
fn one_member_that_works_again_calls_the_stop_of_all_off() {
    let mut account = pair(ENFORCED);
    account.run("01 12:00");
    account.usages.insert("i-2".into(), busy());
    account.run("01 13:00").run("01 13:05");
    assert_snapshot!(account.log, @"
    01 12:00 i-1 mark idle=stop@01T13:00, i-2 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 i-1 unmark idle, i-2 unmark idle | notified vision (info)
    01 13:05 i-1 skipped busy, i-2 skipped busy
    ");
}

#[test]
fn the_stop_of_all_waits_for_the_latest_deadline() {
    let mut account = fleet([member("i-1")], ENFORCED);
    account.run("01 12:00");
    account.aws.instances.push(member("i-2").build());
    account.all_are(&idle()).run("01 12:30").run("01 13:00").run("01 13:25").run("01 13:30");
    assert_snapshot!(account.log, @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:30 i-2 mark idle=stop@01T13:30, i-1 skipped marked | notified vision (warning)
    01 13:00 i-2 skipped marked, i-1 skipped marked
    01 13:25 i-2 skipped marked, i-1 skipped marked
    01 13:30 i-1 stop for idle, i-2 stop for idle | notified vision (action)
    ");
}

#[test]
fn one_member_that_somebody_protects_holds_all() {
    let mut account = pair(ENFORCED);
    account.run("01 12:00");
    account.aws.now = time("2026-09-01T13:00:00Z");
    let plan = account.plan();
    assert!(plan.steps.iter().all(|step| step.action.as_str() == "stop") && plan.steps.len() == 2);
    // Between the decision and the first stop.
    account.aws.instances[1].tags.insert("curfew:protected".to_owned(), String::new());
    let report = account.aws.carry_out(plan, &account.policy.clone());
    let outcomes: Vec<OutcomeKind> = report.steps.iter().map(|(_, outcome)| outcome.kind).collect();
    assert_eq!(outcomes, [OutcomeKind::Changed, OutcomeKind::Changed]);
    assert!(account.aws.instances.iter().all(|instance| instance.state == InstanceState::Running));
    account.log.clear();
    account.run("01 13:05").run("01 13:10");
    assert_snapshot!(account.log, @"
    01 13:05 i-1 unmark idle, i-2 skipped protected | notified vision (info)
    01 13:10 i-1 notify idle, Gang, i-2 skipped protected | notified vision (warning)
    ");
}

#[test]
fn a_step_about_one_member_alone_stops_nothing() {
    let mut account = pair(ENFORCED);
    account.run("01 12:00");
    account.aws.now = time("2026-09-01T13:00:00Z");
    let mut plan = account.plan();
    plan.steps.truncate(1);
    let report = account.aws.carry_out(plan, &account.policy.clone());
    assert_eq!(report.steps[0].1.kind, OutcomeKind::Changed);
    assert_eq!(
        report.steps[0].1.error.as_deref(),
        Some("i-2 of its gang is not stopped in this run, so this instance keeps running")
    );
    assert!(account.aws.instances.iter().all(|instance| instance.state == InstanceState::Running));
}

#[test]
fn the_limits_count_all_members() {
    let mut account = pair("mode = \"enforce\"\n[limits]\nactions_max = 1");
    account.run("01 12:00").run("01 13:00");
    assert_snapshot!(account.log, @"
    01 12:00 i-1 mark idle=stop@01T13:00, i-2 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 i-1 stop for idle (not reached), i-2 stop for idle (not reached) | notified vision (error)
    ");
}

#[test]
fn a_passed_expiry_ends_the_one_that_carries_it() {
    let expired = member("i-1").tag("curfew:expires-at", "2026-09-01T11:00:00Z");
    let mut account = fleet([expired, member("i-2")], ENFORCED);
    account.all_are(&busy()).run("01 12:00").run("01 12:15");
    assert_snapshot!(account.log, @"
    01 12:00 i-1 mark expired=stop@01T12:15, i-2 skipped busy | notified vision (warning)
    01 12:15 i-1 stop for expired, i-2 skipped busy | notified vision (action)
    ");
}

#[test]
fn what_ec2_refuses_for_one_member_is_tried_first_the_next_day() {
    let mut account = pair(ENFORCED);
    account.run("01 12:00");
    let (_, code, words) = PROTECTED_FROM_STOP;
    account.aws.refuses_for_good = Some((RefusedCall::StopOf("i-2"), code, words));
    account.run("01 13:00");
    // Somebody starts it again.
    account.aws.instances[0].state = InstanceState::Running;
    account.run("01 13:05").run("02 13:05");
    assert_snapshot!(account.log, @"
    01 12:00 i-1 mark idle=stop@01T13:00, i-2 mark idle=stop@01T13:00 | notified vision (warning)
    01 13:00 i-1 stop for idle, i-2 stop for idle (failed) | notified vision (error)
    01 13:05 i-1 mark idle=stop@01T14:05, i-2 unmark idle leaving idle=stop@01T13:00 and stopped | notified vision (warning)
    02 13:05 i-1 stop for idle (changed), i-2 stop for idle (failed) | notified vision (error)
    ");
}
