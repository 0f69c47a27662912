//! The words of a message about each kind of step.

use super::*;

#[test]
fn an_announcement_has_evidence_owner_cost_deadline_and_the_command_to_keep() {
    let named = instance().tag("Name", "bench").instance_storage(250).tag("curfew:local-disk", "expendable");
    assert_snapshot!(message(&planned(named, &idle(), ENFORCED)).body, @r#"
    Will lose: the NVMe scratch of i-0abc (250 GB). Curfew will stop i-0abc (g5.xlarge "bench") of team vision at 2026-09-01 13:00 UTC: $1.01/h.

    i-0abc (g5.xlarge "bench", owner "ada", us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It will be stopped at 2026-09-01T13:00:00Z. It costs $1.01/h ($734 a month; table of 2026-09-24).
    Keep it: curfew keep i-0abc 7d

    Run run-1 of reap-instances at 2026-09-01T12:00:00Z; its audit record is plans/2026-09-01/reap-instances/run-1.json.
    "#);
}

#[test]
fn a_message_in_observe_mode_has_its_disclaimer() {
    let message = message(&planned(instance(), &idle(), ""));
    assert_snapshot!(message.body, @r#"
    Curfew would stop i-0abc (g5.xlarge) of team vision at 2026-09-01 13:00 UTC: $1.01/h.
    Observe mode: Curfew only notifies, and changes nothing.

    i-0abc (g5.xlarge, owner "ada", us-east-1): idle from 2026-09-01T10:50:00Z to 2026-09-01T11:50:00Z: 1 GPU at 0 % at most, CPU 0.10 vCPUs, network 0.10 Mbit/s. It would be stopped at 2026-09-01T13:00:00Z. It costs $1.01/h ($734 a month; table of 2026-09-24).
    Keep it: curfew keep i-0abc 7d

    Run run-1 of reap-instances at 2026-09-01T12:00:00Z; its audit record is plans/2026-09-01/reap-instances/run-1.json.
    "#);
}

#[test]
fn every_kind_of_step_names_the_resource_its_type_its_owner_and_its_region() {
    let marked = || instance().tag(MARKED, DUE);
    let office = || instance().tag("curfew:hours", "Mon-Fri 08:00-20:00 UTC");
    let night = office().state(InstanceState::Stopped).tag(STOPPED, "hours 2026-08-31T20:00:00Z");
    let who = ["i-0abc", "g5.xlarge", "ada", "us-east-1"];
    for report in [
        planned(instance(), &idle(), ENFORCED),
        done(marked(), &idle(), ENFORCED),
        done(marked(), &busy(), ENFORCED),
        done(instance().launched("2026-08-01T00:00:00Z"), &busy(), ENFORCED),
        done(night, &unknown(), ENFORCED),
        planned(instance(), &unknown(), ENFORCED),
        planned(instance().tag("curfew:mode", "on"), &idle(), ENFORCED),
        planned(instance().tag("eks:cluster-name", "ml"), &idle(), ENFORCED),
        with(planned(marked(), &idle(), ENFORCED), &StepOutcome::with(OutcomeKind::Failed, "UnauthorizedOperation")),
    ] {
        let severity = message(&report).severity;
        check(&report, severity, &who);
    }
}

#[test]
fn a_message_states_the_cost_or_that_it_is_unknown() {
    let elsewhere = || instance().region("ap-east-2");
    check(&planned(instance(), &idle(), ENFORCED), "warning", &["$1.01/h"]);
    check(&planned(elsewhere(), &idle(), ENFORCED), "warning", &["Its price is unknown"]);
    check(&planned(instance(), &unknown(), ENFORCED), "info", &["$1.01/h", "nvidia_gpu"]);
    check(&done(instance().tag(MARKED, DUE), &idle(), ENFORCED), "action", &["$1.01/h"]);
    check(&done(instance().launched("2026-08-01T00:00:00Z"), &busy(), ENFORCED), "warning", &["$1.01/h"]);
}

#[test]
fn an_announcement_gives_every_deadline_and_every_reason() {
    let both = "[untagged]\nmode = \"enforce\"";
    let report = planned(untagged().tag("Team", "vision"), &idle(), both);
    check(&report, "warning", &["2026-09-01T13:00:00Z", "2026-09-02T12:00:00Z", "Owner", "idle", "no owner"]);
}

#[test]
fn a_stop_has_its_undo_command() {
    let undo = "aws ec2 start-instances --region us-east-1 --instance-ids i-0abc";
    check(&done(instance().tag(MARKED, DUE), &idle(), ENFORCED), "action", &["stopped", undo]);
}

#[test]
fn a_cancellation_names_the_announced_action() {
    check(
        &done(instance().tag(MARKED, DUE), &busy(), ENFORCED),
        "info",
        &["called off", "idle", "2026-09-01T11:55:00Z"],
    );
}

#[test]
fn a_failure_has_its_reason_and_the_next_try() {
    let failed = StepOutcome::with(OutcomeKind::Failed, "UnauthorizedOperation: ec2:StopInstances");
    let report = with(planned(instance().tag(MARKED, DUE), &idle(), ENFORCED), &failed);
    check(&report, "error", &["could not stop", "UnauthorizedOperation: ec2:StopInstances", "tries again"]);
    let applied = Report { has_only_chosen_resources: true, ..report };
    check(&applied, "error", &["could not stop it: UnauthorizedOperation: ec2:StopInstances"]);
}

#[test]
fn what_the_limits_hold_names_the_limit() {
    let mut report = planned(instance().tag(MARKED, DUE), &idle(), "mode = \"enforce\"\n[limits]\nactions_max = 0\n");
    let held = report.steps[0].0.held.unwrap().to_string();
    report = with(report, &StepOutcome::with(OutcomeKind::NotReached, held));
    check(
        &report,
        "error",
        &["actions_max = 0", "It was not stopped: 1 of 1 instances", "a person must approve that (`curfew plans`)"],
    );
    assert_eq!(notify(&report)[0].loses, None);
}

#[test]
fn a_morning_that_begins_with_a_failed_start_is_an_error() {
    let night = || {
        instance()
            .tag("curfew:hours", "Mon-Fri 08:00-20:00 UTC")
            .tag(STOPPED, "hours 2026-08-31T20:00:00Z")
            .state(InstanceState::Stopped)
    };
    check(&done(night(), &unknown(), ""), "info", &["requested the start of i-0abc", "Mon-Fri 08:00-20:00 UTC"]);
    let mut again = done(night(), &unknown(), "");
    let failed = Instance { state_reason: Some("Client.InternalError".to_owned()), ..night().build() };
    again.steps[0].0.action = Action::Instance(failed, InstanceAction::Start);
    check(&again, "error", &["Client.InternalError"]);
    let refused = StepOutcome::with(OutcomeKind::Failed, "InsufficientInstanceCapacity");
    check(&with(planned(night(), &unknown(), ""), &refused), "error", &["could not start", "InsufficientInstance"]);
}

#[test]
fn an_unreadable_tag_is_quoted_with_what_is_legal() {
    let typo = planned(instance().tag("curfew:idle-after", "soon"), &idle(), ENFORCED);
    check(&typo, "warning", &["curfew:idle-after=soon", "30m"]);
}

#[test]
fn somebody_elses_is_named_by_its_controller() {
    let member = planned(instance().tag("aws:autoscaling:groupName", "workers"), &idle(), ENFORCED);
    check(&member, "info", &["Auto Scaling group (workers)", "idle", "Curfew skips it"]);
}

#[test]
fn where_no_label_fits_a_command_makes_room() {
    let full = (0..48).fold(instance(), |instance, number| instance.tag(&format!("k{number}"), ""));
    let command =
        "Remove a tag that nothing needs: aws ec2 delete-tags --region us-east-1 --resources i-0abc --tags Key=KEY";
    check(&done(full, &idle(), ENFORCED), "warning", &["remove some tags.", command]);
}
