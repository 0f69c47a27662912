use model::fixture::time;

use super::*;
use crate::telemetry::GpuSample;

fn minute(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

/// A command that began after five minutes.
fn running() -> WorkMonitor {
    let mut monitor = WorkMonitor::default();
    monitor.begin_activity(Heartbeat::RUNNING, minute(5));
    monitor
}

/// It writes a checkpoint every quarter of an hour, as far as it says.
fn with_steps(has_resumed: bool, step: Option<u64>) -> WorkMonitor {
    let mut monitor = running();
    monitor.expect_steps(minute(15), has_resumed, step);
    monitor
}

fn step(monitor: &mut WorkMonitor, number: impl Into<Option<u64>>, at: i64) {
    let changed_at = time("2026-11-22T05:00:00Z") + minute(at);
    monitor.observe_steps(true, Some((number.into(), changed_at)), minute(at));
}

fn steps(monitor: &mut WorkMonitor, all: &[(u64, i64)]) {
    for (number, at) in all {
        step(monitor, *number, *at);
    }
}

fn gpus(monitor: &mut WorkMonitor, percent: Option<u32>, until: i64) {
    for at in 5..until {
        monitor.observe_gpus(&[GpuSample { utilization_percent: percent, ..GpuSample::default() }], minute(at));
    }
}

/// There is no stall a minute before, and this one at that minute.
#[track_caller]
fn check(mut monitor: WorkMonitor, at: i64, expect: &str) {
    assert_eq!(monitor.find_stall(minute(at - 1)), None, "a minute before");
    let stall = monitor.find_stall(minute(at)).unwrap();
    assert_eq!(stall.words, expect);
    let seconds = monitor.to_signs(minute(at)).stalled_seconds.unwrap();
    assert_eq!(Some(seconds), u64::try_from(stall.lasts.as_secs()).ok());
}

#[track_caller]
fn check_none(mut monitor: WorkMonitor, at: i64) {
    assert_eq!(monitor.find_stall(minute(at)), None);
}

#[test]
fn a_step_is_overdue_after_three_intervals() {
    let mut monitor = with_steps(false, None);
    steps(&mut monitor, &[(1, 20), (2, 35), (7, 45)]);
    gpus(&mut monitor, Some(100), 90);
    monitor.observe_output(minute(60));
    check(
        monitor.clone(),
        90,
        "the command has completed no new checkpoint for 45m, since step 7: `checkpoint.every` is 15m; its last output was 30m ago, and a GPU works",
    );
    // Loading took longest, and says nothing of the steps; one interval was longer than expected.
    let mut slow = with_steps(false, None);
    steps(&mut slow, &[(1, 200), (2, 220), (3, 230)]);
    check(
        slow,
        290,
        "the command has completed no new checkpoint for 1h, since step 3: before that it completed one at least every 20m; it has written no \
         output, and GPU use is not known",
    );
    step(&mut monitor, 8, 91);
    check_none(monitor, 92);
}

#[test]
fn idle_gpus_between_two_steps_are_a_silence() {
    let mut monitor = with_steps(false, None);
    step(&mut monitor, 1, 65);
    gpus(&mut monitor, Some(0), 90);
    check(
        monitor,
        85,
        "the command has shown no sign of work for 20m: no output and no new checkpoint, and every GPU is idle",
    );
}

#[test]
fn the_first_interval_counts_until_there_is_another() {
    let mut monitor = with_steps(false, None);
    step(&mut monitor, 1, 65);
    gpus(&mut monitor, Some(100), 245);
    check_none(monitor.clone(), 244);
    assert!(monitor.find_stall(minute(245)).is_some());
}

#[test]
fn short_intervals_are_given_ten_minutes() {
    let mut monitor = running();
    monitor.expect_steps(minute(1), false, None);
    steps(&mut monitor, &[(1, 6), (2, 7), (3, 8)]);
    check(
        monitor,
        18,
        "the command has completed no new checkpoint for 10m, since step 3: `checkpoint.every` is 1m; it has written no output, and GPU use is not \
         known",
    );
}

#[test]
fn what_was_restored_is_no_new_step() {
    let mut monitor = with_steps(true, Some(20));
    step(&mut monitor, 20, 6);
    assert_eq!(monitor.to_signs(minute(10)).step_seconds, None);
    gpus(&mut monitor, Some(100), 50);
    monitor.observe_output(minute(50));
    check(
        monitor,
        50,
        "the command has completed no new checkpoint for 45m, since it resumed from step 20: `checkpoint.every` is 15m; it still writes output, \
         and a GPU works",
    );
}

#[test]
fn every_new_save_is_a_step() {
    // Files without a number, one that is written over, and numbers that begin again.
    let mut monitor = with_steps(true, None);
    step(&mut monitor, None, 6);
    assert_eq!(monitor.to_signs(minute(10)).step_seconds, None);
    for (number, at) in [(None, 30), (None, 60), (Some(9), 90), (Some(9), 120), (Some(1), 150)] {
        step(&mut monitor, number, at);
        assert_eq!(monitor.to_signs(minute(at + 1)).step_seconds, Some(60), "{number:?}");
    }
    // A time in the future hides no step with a higher number.
    monitor.observe_steps(true, Some((Some(2), Timestamp::MAX)), minute(160));
    step(&mut monitor, 3, 170);
    assert_eq!(monitor.to_signs(minute(171)).step_seconds, Some(60));
}

#[test]
fn before_the_first_checkpoint_silence_counts() {
    // Nothing in the directory: `no-checkpoint` says so.
    let mut monitor = with_steps(false, None);
    gpus(&mut monitor, Some(100), 500);
    check_none(monitor, 500);
    let mut monitor = with_steps(false, None);
    gpus(&mut monitor, Some(0), 50);
    check(
        monitor,
        25,
        "the command has shown no sign of work for 20m: no output and no new checkpoint, and every GPU is idle",
    );
    // Something that is never complete.
    let mut monitor = with_steps(false, None);
    monitor.observe_steps(true, None, minute(10));
    gpus(&mut monitor, Some(100), 50);
    check(
        monitor,
        50,
        "the command has completed no new checkpoint for 45m, since it began: `checkpoint.every` is 15m; it has written no output, and a GPU works",
    );
}

#[test]
fn any_sign_of_work_ends_a_silence() {
    let unknown = "the command has shown no sign of work for 20m: no output, and GPU use is not known";
    check(running(), 25, unknown);
    let mut monitor = running();
    gpus(&mut monitor, None, 25);
    check(monitor.clone(), 25, unknown);
    monitor.observe_output(minute(30));
    check(monitor.clone(), 50, unknown);
    monitor.observe_gpus(&[GpuSample { utilization_percent: Some(5), ..GpuSample::default() }], minute(60));
    check(monitor, 80, unknown);
}

#[test]
fn each_activity_has_its_own_signs() {
    let monitor_during = |activity: &'static str| {
        let mut monitor = running();
        monitor.begin_activity(activity, minute(100));
        monitor
    };
    let mut setup = monitor_during(Heartbeat::SETUP);
    check(setup.clone(), 120, "`setup` has written no output for 20m; GPU use is not known");
    setup.observe_output(minute(119));
    check(setup, 139, "`setup` has written no output for 20m; GPU use is not known");
    let mut fetch = monitor_during(Heartbeat::FETCHING);
    fetch.observe_data(minute(130));
    check(fetch, 150, "no data of the inputs has arrived for 20m");
    check(monitor_during("restoring"), 160, "the agent has been restoring for 1h");
    check_none(WorkMonitor::default(), 10_000);
}

#[test]
fn idleness_is_of_the_command_alone() {
    let mut monitor = running();
    gpus(&mut monitor, Some(0), 105);
    assert_eq!(monitor.gpus_idle_for(minute(105)), Some(minute(71)));
    assert_eq!(monitor.to_signs(minute(105)).gpu_idle_seconds, Some(71 * 60));
    monitor.begin_activity("flushing", minute(105));
    monitor.observe_gpus(&[GpuSample { utilization_percent: Some(0), ..GpuSample::default() }], minute(150));
    assert_eq!((monitor.gpus_idle_for(minute(200)), monitor.to_signs(minute(106))), (None, WorkSigns::default()));
}

#[test]
fn ages_of_a_machine_are_bounded() {
    let signs = WorkSigns { step_seconds: Some(u64::MAX), gpu_idle_seconds: Some(60), ..WorkSigns::default() };
    assert_eq!(signs.shown(), WorkSigns { step_seconds: Some(AGE_SECONDS_MAX), ..signs });
    let mut monitor = with_steps(true, Some(u64::MAX));
    step(&mut monitor, 7, 10);
    monitor.find_stall(SignedDuration::MAX).unwrap();
    monitor.find_stall(SignedDuration::MIN);
}
