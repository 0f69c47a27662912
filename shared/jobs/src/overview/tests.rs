use super::*;
use crate::{CapacityWait, HoldReason, JobEnd, LaunchHold, LossReason, MachineReplacement, RetryWait, WorkSigns};
use model::fixture::time;
use model::money::Rate;

const NOW: &str = "2026-11-22T05:00:00Z";

fn placed(attempt: u32) -> JobMachine {
    JobMachine {
        instance: "i-0123456789abcdef0".into(),
        members: Vec::new(),
        launch: String::new(),
        region: "us-east-1".into(),
        zone: "us-east-1a".to_owned(),
        instance_type: "g6.xlarge".into(),
        lifecycle: Lifecycle::Spot,
        rate_max: Rate::from_usd_micros_per_hour(800_000),
        rate: Rate::from_usd_micros_per_hour(300_000),
        attempt,
        candidate: 0,
        transfer: None,
        launched_at: time("2026-11-22T03:00:00Z"),
        ends_at: time("2026-11-22T11:00:00Z"),
    }
}

fn job(phase: Phase) -> Job {
    let id = JobId { team: "vision".into(), job: "llama-1a2b3c4d".to_owned() };
    let job =
        Job::submitted(id, Some("ada".to_owned()), crate::next::tests::fixture::terms(), time("2026-11-22T02:59:00Z"));
    Job { attempt: 2, phase, lost: Some(LossReason::HeartbeatStopped), ..job }
}

fn check(phase: Phase, state: &str, why: &str, until: Option<&str>) {
    let overview = JobOverview::from_job(&job(phase), time(NOW));
    assert_eq!((overview.state, overview.why.as_str()), (state, why));
    assert_eq!(overview.until, until.map(time));
    assert_eq!(overview.over, matches!(state, "succeeded" | "failed" | "expired" | "cancelled"));
}

#[test]
fn each_state_says_why_and_until_when() {
    check(
        Phase::Submitted,
        "submitted",
        "its last machine stopped sending heartbeats for 10 minutes; Curfew ranks places for another one next",
        None,
    );
    check(
        Phase::Running(placed(2)),
        "running",
        "the previous machine stopped sending heartbeats for 10 minutes",
        Some("2026-11-22T11:00:00Z"),
    );
    let until = time("2026-11-22T05:04:00Z");
    let waiting = CapacityWait { until, passes: 2, message: "no capacity".to_owned() };
    check(Phase::Waiting(waiting), "waiting", "no capacity", Some("2026-11-22T05:04:00Z"));
    let held = LaunchHold { by: HoldReason::Budget, why: "the budget is spent".to_owned(), until, passes: 0 };
    check(Phase::Held(held), "held", "the budget is spent", Some("2026-11-22T05:04:00Z"));
    let why = "attempt 1: the command has failed; retry 1 of 2 at 05:04 UTC".to_owned();
    let retrying = RetryWait { machine: None, why: why.clone(), since: time("2026-11-22T05:00:00Z"), until };
    check(Phase::Retrying(retrying), "waiting", &why, Some("2026-11-22T05:04:00Z"));
    let ended = JobEnd {
        result: JobResult::Expired,
        why: "its time is over".to_owned(),
        at: time("2026-11-22T04:00:00Z"),
        machine: None,
        released: true,
        closed: true,
    };
    check(Phase::Ended(ended), "expired", "its time is over", Some("2026-11-22T04:00:00Z"));
}

#[test]
fn a_released_reservation_is_gone() {
    let check = |phase: Phase, granted: bool, expect: bool| {
        let rate = Rate::from_usd_micros_per_hour(1_000_000);
        let (usd, until) = (Amount::from_usd(8.0), time(NOW));
        let transfer_usd = Amount::ZERO;
        let reserved = JobReservation { number: 1, rate, transfer_usd, usd, until, granted, released: false };
        let still = still_reserved(&Job { reserved: Some(reserved), ..job(phase.clone()) });
        assert_eq!(still, expect.then_some(reserved), "{phase:?} {granted}");
    };
    let ended = |released: bool| {
        let (result, why, at) = (JobResult::Succeeded, String::new(), time(NOW));
        Phase::Ended(JobEnd { result, why, at, machine: None, released, closed: released })
    };
    check(Phase::Running(placed(1)), true, true);
    check(Phase::Reserving, false, false);
    check(ended(false), true, true);
    check(ended(true), true, false);
}

#[test]
fn a_launch_says_what_is_asked_for() {
    let launching = LaunchInProgress {
        candidate: 0,
        pass: 1,
        at: time(NOW),
        ends_at: time("2026-11-22T13:00:00Z"),
        quotas: Vec::new(),
        avoid: None,
        unanswered: false,
        refused: crate::RefusedCandidates::default(),
        replaces: None,
    };
    let ranking = crate::next::tests::fixture::ranking(time(NOW));
    let ranked = Job { ranking: Some(ranking), ..job(Phase::Launching(launching.clone())) };
    assert_eq!(JobOverview::from_job(&ranked, time(NOW)).why, "a g6.xlarge on Spot is requested in us-east-1a");
    assert_eq!(why(&job(Phase::Launching(launching)), None), "a machine is requested");
}

#[test]
fn the_used_time_includes_the_running_machine() {
    let overview = JobOverview::from_job(&job(Phase::Running(placed(2))), time(NOW));
    assert_eq!((overview.seconds, overview.cost_usd_max), (7_200, Amount::from_usd(1.6)));
}

#[test]
fn a_step_has_the_time_that_its_own_heartbeat_says() {
    let mut job = job(Phase::Running(placed(2)));
    job.progress.step = Some(7);
    let overview = JobOverview::from_job(&job, time(NOW));
    let beat = |attempt, step| Heartbeat {
        attempt,
        work: WorkSigns { step_seconds: Some(600), ..WorkSigns::default() },
        gpu_box: None,
        ..crate::completion::tests::heartbeat(Some(step), None)
    };
    let check = |beat: Heartbeat, expect: Option<&str>| {
        assert_eq!(overview.clone().with_step_time(&beat, time(NOW)).step_at, expect.map(time));
    };
    check(beat(2, 7), Some("2026-11-22T04:50:00Z"));
    check(beat(1, 7), None);
    check(beat(2, 8), None);
    check(Heartbeat { work: WorkSigns::default(), ..beat(2, 7) }, None);
}

#[test]
fn a_measured_power_narrows_the_energy_of_its_machine() {
    let job = job(Phase::Running(placed(2)));
    let overview = JobOverview::from_job(&job, time(NOW));
    let width = |overview: &JobOverview| {
        let energy = overview.footprint.energy.known().unwrap();
        energy.high() - energy.low()
    };
    let work = |id: &str| GpuWork { instance: id.into(), milliwatts: Some(50_000), utilization_percent: Some(90) };
    let measured = overview.clone().with_gpu_work(&job, &work("i-0123456789abcdef0"), time(NOW));
    assert!(width(&measured) < width(&overview), "{measured:?}");
    assert_eq!(overview.clone().with_gpu_work(&job, &work("i-2"), time(NOW)), overview, "another machine's");
}

#[test]
fn a_gang_is_named_with_all_its_machines() {
    let members = vec!["i-1".into(), "i-2".into(), "i-3".into()];
    let machine = JobMachine { members, launch: "0123456789abcdef".to_owned(), ..placed(2) };
    let (lost, since) = (LossReason::Reclaimed, time(NOW));
    let interrupted = JobOverview::from_job(
        &job(Phase::Interrupted(MachineReplacement { machine: machine.clone(), lost, since })),
        time(NOW),
    );
    let words =
        format!("one of i-0123456789abcdef0 and 3 more {}; all are replaced once they are gone", lost.describe());
    assert_eq!(interrupted.why, words);
    // The energy of one node is not that of all.
    let running = job(Phase::Running(machine));
    let work = GpuWork { instance: "i-0123456789abcdef0".into(), milliwatts: Some(1), utilization_percent: None };
    let overview = JobOverview::from_job(&running, time(NOW));
    assert_eq!(overview.clone().with_gpu_work(&running, &work, time(NOW)), overview);
}

#[test]
fn the_step_of_a_gang_is_as_old_as_its_last_node_says() {
    let mut running = job(Phase::Running(placed(2)));
    running.progress.step = Some(120);
    let beat = |step, step_seconds| {
        let beat: Heartbeat = serde_json::from_str(r#"{"at": "2026-11-22T05:00:00Z", "attempt": 2}"#).unwrap();
        let work = WorkSigns { step_seconds: Some(step_seconds), ..WorkSigns::default() };
        (time(NOW), Heartbeat { step: Some(step), work, ..beat })
    };
    let age = |beats: NodeHeartbeats| JobOverview::from_job(&running, time(NOW)).with_node_step_times(&beats).step_at;
    let beats = NodeHeartbeats::from([(0, beat(120, 30)), (1, beat(120, 8)), (2, beat(130, 2))]);
    assert_eq!(age(beats), Some(time("2026-11-22T04:59:52Z")));
    assert_eq!(age(NodeHeartbeats::from([(2, beat(130, 2))])), None);
    assert_eq!(age(NodeHeartbeats::new()), None);
}
