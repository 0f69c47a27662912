use proptest::prelude::*;

use super::super::limits::{Left, most, rounded_up, use_up};
use super::fixture::*;
use crate::money::{Amount, Rate};

#[track_caller]
fn check(change: impl FnOnce(&mut crate::job::Job), expect_seconds: i64) {
    let given = submitted().job(change);
    let left = Left::of(&given.job, Rate::from_usd_micros_per_hour(2_000_000), at(HOUR));
    assert_eq!(left.seconds, expect_seconds);
    assert_eq!(left.end(at(HOUR)), at(HOUR + expect_seconds.max(0)));
}

#[test]
fn the_least_of_what_the_limits_leave_is_left() {
    check(|_| {}, 8 * HOUR);
    check(|job| job.used.seconds = 3 * HOUR, 5 * HOUR);
    check(|job| job.terms.finish_by = Some(at(3 * HOUR)), 2 * HOUR);
    check(|job| job.terms.max_usd = Some(Amount::from_usd(3.0)), 90 * MINUTE);
    check(|job| (job.terms.max_usd, job.used.usd) = (Some(Amount::from_usd(3.0)), Amount::from_usd(2.0)), 30 * MINUTE);
}

#[test]
fn what_is_over_is_over() {
    check(|job| job.used.seconds = 9 * HOUR, -HOUR);
    check(|job| job.terms.finish_by = Some(at(0)), -HOUR);
    check(|job| (job.terms.max_usd, job.used.usd) = (Some(Amount::from_usd(3.0)), Amount::from_usd(4.0)), 0);
}

#[test]
fn an_end_is_a_whole_second_and_never_past_the_end_of_time() {
    let now = at(0) + jiff::SignedDuration::from_millis(999);
    assert_eq!(Left::of_any(&submitted().job, now).end(now), at(8 * HOUR));
    let endless = submitted().job(|job| job.terms.max_runtime_seconds = i64::MAX);
    assert_eq!(Left::of_any(&endless.job, now).end(now), jiff::Timestamp::MAX);
}

#[test]
fn a_machine_counts_from_its_launch_to_its_end_and_at_most_until_it_must_be_gone() {
    let seconds = |seconds| most(&placed("i-1", 1), at(seconds)).0;
    assert_eq!([-HOUR, 0, HOUR, 8 * HOUR, 48 * HOUR].map(seconds), [0, 0, HOUR, 8 * HOUR, 8 * HOUR + 10 * MINUTE]);
    let usd = |seconds| most(&placed("i-1", 1), at(seconds)).1.usd_micros();
    assert_eq!([0, 60, 3_600].map(usd), [16_667, 16_667, 1_000_000]);
}

proptest! {
    /// No job is charged less than its machine took, and what is written down is not less than what was counted.
    #[test]
    fn what_is_counted_is_written_down_whole(rate in 0..1_u64 << 30, seconds in 0..HOUR * 24 * 365) {
        let mut machine = placed("i-1", 1);
        machine.rate_max = Rate::from_usd_micros_per_hour(rate);
        machine.ends_at = at(seconds);
        let used = use_up(submitted().job, &machine, at(seconds)).used;
        let exact = Amount::of(machine.rate_max, u64::try_from(seconds).unwrap());
        prop_assert!(used.usd >= exact);
        let read: crate::job::Used = serde_json::from_str(&serde_json::to_string(&used).unwrap()).unwrap();
        prop_assert_eq!(read, used);
        prop_assert_eq!(rounded_up(used.usd), used.usd);
    }
}
