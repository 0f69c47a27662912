use model::instance::InstanceState;

use super::fixture::*;
use crate::*;

fn kept(given: JobInput) -> JobInput {
    let hold = MachineHold::Kept { until: noon_plus(48 * HOUR) };
    given.facts(|facts| facts.machine_hold = Some(hold))
}

fn silent() -> JobInput {
    running().heartbeat_at(HOUR - 11 * MINUTE)
}

#[test]
fn a_held_machine_is_neither_terminated_nor_replaced() {
    check(silent(), "interrupted i-1 HeartbeatStopped: note ended i-1, terminate i-1");
    check(kept(silent()), "running i-1: note held");
    check(kept(running().at_time(9 * HOUR)), "running i-1: note held");
    check(kept(interrupted()), "interrupted i-1 HeartbeatStopped: note held");
    check(kept(running().warned("i-1")), "running i-1: note held");
    for reason in ["Server.SpotInstanceTermination", "Client.InstanceInitiatedShutdown"] {
        check(kept(running().with_machine(InstanceState::Stopped, Some(reason))), "running i-1: note held");
    }
    // What holds is noted once.
    check_nothing(kept(silent()).next());
    check_nothing(kept(interrupted()).next());
}

#[test]
fn a_protecting_tag_changes_nothing_on_a_healthy_machine() {
    check_nothing(kept(running()));
    check(kept(running().result(1, true)), "succeeded with i-1: note over, release");
}

#[test]
fn a_job_that_is_over_does_not_terminate_a_held_machine() {
    check(running().cancelled(), "cancelled with i-1: note over, terminate i-1");
    check(kept(running().cancelled()), "cancelled with i-1: note over, release");
    check(kept(ended(JobResult::Expired)), "expired with i-1: release");
    assert_eq!(kept(ended(JobResult::Expired)).next().job.machine_hold.map(|hold| hold.as_str()), Some("kept"));
    // It does not close before the machine is gone.
    let released = kept(ended(JobResult::Expired)).answered(EffectResult::Released(true)).next();
    check(released.clone().facts(|facts| facts.machine_hold = None), "expired with i-1: terminate i-1");
    check(released.with_machine(InstanceState::Terminated, None), "expired, closed: forget");
}

#[test]
fn the_job_continues_once_the_tag_or_the_machine_is_gone_or_the_machine_is_healthy() {
    let held = kept(silent()).next();
    let without_hold = held.clone().facts(|facts| facts.machine_hold = None);
    check(without_hold, "interrupted i-1 HeartbeatStopped: note ended i-1, terminate i-1");
    assert_eq!(held.clone().heartbeat_at(HOUR).next().job.machine_hold, None);
    check(
        held.clone().with_machine(InstanceState::Terminated, Some("Server.SpotInstanceTermination")),
        "submitted: note lost i-1 Reclaimed, rank",
    );
    // Without a read heartbeat its state is unknown.
    let without_heartbeat = held.facts(|facts| facts.heartbeat = None).next();
    assert!(without_heartbeat.job.machine_hold.is_some());
}

#[test]
fn its_owner_hears_once_by_which_tag_it_is_held() {
    let notification = kept(silent()).next().job.notification().unwrap();
    assert_eq!(notification.fingerprint, "machine-held 1 kept");
    insta::assert_snapshot!(notification.notification.text, @r#"vision/llama-1a2b3c4d (owner "ada"): i-1, the machine of attempt 1, is lost, and Curfew neither terminates nor replaces it: it carries the tag curfew:keep-until, in force until 2026-09-03T12:00:00Z. It costs $1.00/h at most, and its own timer ends it at 2026-09-01T20:00:00Z. Remove or correct the tag, and the job continues.
To stop it: curfew cancel vision/llama-1a2b3c4d"#);
    let over = kept(running().cancelled()).next().job.notification().unwrap();
    assert!(
        over.notification.text.contains("Curfew does not terminate it") && over.notification.loses.is_none(),
        "{}",
        over.notification.text
    );
}
