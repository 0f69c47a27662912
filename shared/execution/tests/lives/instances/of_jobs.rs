//! Instances that name a job, by the state of that job.

use jobs::Phase;

use super::*;
use reaping::fixture::{jobs, launching, placed};
use reaping::job_ownership::JobStates;

const NAMED: &str = "vision/llama-0123abcd";
/// The tags that "launch more like this" would copy.
const OPTED_IN: &str = "curfew:mode";

fn of_job() -> InstanceBuilder {
    instance().tag("curfew:job", NAMED).tag("curfew:attempt", "2").tag(OPTED_IN, "enforce")
}

fn ours() -> JobStates {
    jobs(Phase::Running(placed("i-0abc", "us-east-1")))
}

fn of_another() -> JobStates {
    jobs(Phase::Running(placed("i-0other", "us-east-1")))
}

/// It violates every rule: idle for hours, without an owner, too old.
const STRICT: &str =
    "mode = \"enforce\"\n[untagged]\nmode = \"enforce\"\n[lifetime]\nmax = \"1h\"\naction = \"stop\"\n";

fn check(of: InstanceBuilder, known: JobStates, config: &str, runs: &[&str]) -> String {
    let mut account = enforcing_account(of, config);
    account.policy.jobs = known;
    for run in runs {
        account.run(run);
    }
    account.log
}

#[test]
fn a_jobs_machine_knows_no_rule_but_its_expiry() {
    let idle_and_without_owner = || of_job().tag("Owner", "");
    assert_snapshot!(check(idle_and_without_owner(), ours(), STRICT, &["01 12:00", "02 12:00"]), @"
    01 12:00 skipped live-job
    02 12:00 skipped live-job
    ");
    let expiring = || of_job().tag("curfew:expires-at", "2026-09-01T13:00:00Z");
    assert_snapshot!(check(expiring(), ours(), STRICT, &["01 12:00", "01 13:00"]), @"
    01 12:00 skipped live-job
    01 13:00 mark expired=terminate@01T13:00 and terminate for expired | notified vision (action)
    ");
}

#[test]
fn a_possible_job_machine_is_only_subject_to_its_expiry() {
    for unknown in [JobStates::default(), jobs(launching())] {
        let log = check(of_job().tag("Owner", ""), unknown.clone(), STRICT, &["01 12:00", "03 12:00"]);
        assert_eq!(log, "01 12:00 skipped job-unknown\n03 12:00 skipped job-unknown\n");
        let expiring = of_job().tag("curfew:expires-at", "2026-09-01T13:00:00Z");
        let log = check(expiring, unknown, STRICT, &["01 12:00", "01 13:00"]);
        assert_eq!(
            log,
            "01 12:00 skipped job-unknown\n01 13:00 mark expired=terminate@01T13:00 and terminate for expired | notified vision (action)\n"
        );
    }
}

/// The machine's deadline by its job is 2 September, 12:10.
const LIVE_AND_OVERDUE: [&str; 2] = ["02 12:05", "02 12:10"];

fn check_deadline(of: InstanceBuilder, known: JobStates, expect: &str) {
    let log = check(of, known, "mode = \"enforce\"", &LIVE_AND_OVERDUE);
    assert!(log.lines().last().unwrap().starts_with(&format!("02 12:10 {expect}")), "{log}");
}

#[test]
fn only_protected_spares_a_jobs_machine_past_its_deadline() {
    let terminated = "mark expired=terminate@02T12:10 and terminate for expired | notified";
    let tagged = |key: &str, value: &str| of_job().tag("curfew:expires-at", "2026-09-02T12:10:00Z").tag(key, value);
    for (key, value, before) in [
        ("curfew:keep-until", "2027-01-01", "kept"),
        ("curfew:mode", "observe", "live-job"),
        ("curfew:idle-after", "soon", "unreadable"),
        ("Curfew:Keep", "", "unreadable"),
        ("curfew:expires-at", "never", "unreadable"),
        ("curfew:expires-at", "2027-01-01T00:00:00Z", "live-job"),
        ("aws:autoscaling:groupName", "workers", "foreign-owned"),
    ] {
        let log = check(tagged(key, value), ours(), STRICT, &LIVE_AND_OVERDUE);
        assert!(log.starts_with(&format!("02 12:05 skipped {before}")), "{key}={value}: {log}");
        check_deadline(tagged(key, value), ours(), terminated);
    }
    check_deadline(tagged("curfew:protected", ""), ours(), "skipped protected");
    check_deadline(tagged("Curfew:Protected", ""), ours(), "skipped unreadable");
}

#[test]
fn a_job_tag_alone_sets_no_deadline() {
    let kept = || of_job().tag("curfew:expires-at", "2026-09-02T12:10:00Z").tag("curfew:keep-until", "2027-01-01");
    for known in [of_another(), JobStates::default(), jobs(launching())] {
        check_deadline(kept(), known, "skipped kept");
    }
}

#[test]
fn an_instance_with_a_foreign_job_tag_is_notified_and_stopped_like_an_untagged_one() {
    assert_snapshot!(check(of_job(), of_another(), UNTAGGED_ENFORCED, &["01 12:00", "01 12:05", "02 12:00"]), @"
    01 12:00 mark untagged=stop@02T12:00 idle=stop@01T13:00 | notified vision (warning)
    01 12:05 skipped marked
    02 12:00 stop for idle | notified vision (action)
    ");
    // Its tags have no opt-in: the account decides.
    let runs = &["01 12:00", "01 12:05", "02 12:00", "02 12:05"];
    assert_snapshot!(check(of_job(), of_another(), "mode = \"enforce\"", runs), @"
    01 12:00 mark untagged=stop@02T12:00 idle=stop@01T13:00 (observed) | notified vision (info)
    01 12:05 mark untagged=stop@02T12:00 idle=stop@01T13:00 (observed)
    02 12:00 stop for idle (observed) | notified vision (info)
    02 12:05 stop for idle (observed)
    ");
    // But they opt out.
    let opted_out = of_job().tag(OPTED_IN, "observe");
    assert_snapshot!(check(opted_out, of_another(), UNTAGGED_ENFORCED, &["01 12:00", "02 12:00"]), @"
    01 12:00 mark untagged=stop@02T12:00 idle=stop@01T13:00 (observed) | notified vision (info)
    02 12:00 stop for idle (observed) | notified vision (info)
    ");
}

#[test]
fn a_just_launched_instance_may_still_belong_to_its_job() {
    let young = of_job().launched("2026-09-01T11:55:00Z");
    assert_snapshot!(check(young, of_another(), UNTAGGED_ENFORCED, &["01 12:00", "01 12:05"]), @"
    01 12:00 mark idle=stop@01T13:00 | notified vision (warning)
    01 12:05 mark untagged=stop@02T12:05 idle=stop@01T13:00 | notified vision (warning)
    ");
}

#[test]
fn an_instance_with_a_foreign_job_tag_expires_but_loses_no_disk() {
    let expiring = of_job().tag("curfew:expires-at", "2026-09-01T13:00:00Z");
    assert_snapshot!(check(expiring, of_another(), UNTAGGED_ENFORCED, &["01 12:00", "01 13:00"]), @"
    01 12:00 mark untagged=stop@02T12:00 idle=stop@01T13:00 | notified vision (warning)
    01 13:00 stop for expired | notified vision (action)
    ");
}

#[test]
fn a_machine_expires_by_its_tag_if_the_state_of_its_job_is_lost() {
    let expiring = of_job().tag("curfew:expires-at", "2026-09-01T13:00:00Z");
    let lost = JobStates(of_another().0.into_keys().map(|job| (job, None)).collect());
    assert_snapshot!(check(expiring, lost, UNTAGGED_ENFORCED, &["01 12:00", "01 13:00"]), @"
    01 12:00 mark untagged=stop@02T12:00 idle=stop@01T13:00 | notified vision (warning)
    01 13:00 terminate for expired | notified vision (action)
    ");
}

#[test]
fn an_announced_action_waits_while_the_use_is_unknown() {
    let mut account = enforcing_account(of_job(), UNTAGGED_ENFORCED);
    account.policy.jobs = of_another();
    account.run("01 12:00");
    account.policy.jobs = JobStates::default();
    account.run("01 12:05").run("02 12:05");
    account.policy.jobs = of_another();
    account.run("02 12:10");
    assert_snapshot!(account.log, @"
    01 12:00 mark untagged=stop@02T12:00 idle=stop@01T13:00 | notified vision (warning)
    01 12:05 skipped marked
    02 12:05 skipped marked
    02 12:10 stop for idle | notified vision (action)
    ");
}

#[test]
fn a_busy_instance_with_a_foreign_job_tag_is_notified_once() {
    let mut account = enforcing_account(of_job(), UNTAGGED_ENFORCED);
    account.policy.jobs = of_another();
    account.all_are(&busy()).run("01 12:00").run("01 12:05").run("02 12:05");
    assert_snapshot!(account.log, @"
    01 12:00 notify untagged, Busy | notified vision (warning)
    01 12:05 skipped notified
    02 12:05 skipped notified
    ");
    // And if the state was not read.
    let mut account = super::enforcing_account(of_job(), UNTAGGED_ENFORCED);
    account.policy.jobs = of_another();
    account.usages.clear();
    account.run("01 12:00").run("01 12:05").run("02 12:05");
    assert_snapshot!(account.log, @"
    01 12:00 skipped usage-unknown | notified vision (info)
    01 12:05 skipped usage-unknown
    02 12:05 skipped usage-unknown
    ");
}

#[test]
fn the_notification_about_a_foreign_job_tag() {
    let mut account = enforcing_account(of_job(), UNTAGGED_ENFORCED);
    account.policy.jobs = of_another();
    account.usages.clear();
    assert_snapshot!(account.plan().skipped[0].finding.as_ref().unwrap().text, @"its curfew:job names vision/llama-0123abcd, which did not launch it. Somebody copied the tag, or EC2's answer to a launch was lost. No job terminates it, so Curfew treats it as untagged. It costs $1.01/h ($734 a month; table of 2026-09-24). If it is yours, remove curfew:job and curfew:attempt; otherwise terminate it");
}

#[test]
fn a_jobs_machine_is_not_started_by_its_hours() {
    let stopped = of_job().tag("curfew:hours", OFFICE).state(InstanceState::Stopped);
    let mut account = enforcing_account(stopped, ENFORCED);
    account.policy.jobs = ours();
    account.stopped_for_hours("2026-08-31T20:00:00Z").run("01 12:00");
    assert_snapshot!(account.log, @"01 12:00 skipped not-running");
}
