use model::money::{Amount, Rate};
use proptest::prelude::*;

use super::super::limits::{TimeLeft, most, use_up};
use super::fixture::*;
use crate::transfer::CostMax;
use crate::*;

/// Two dollars an hour, half of it for checkpoints, and one dollar for any runtime.
fn abroad() -> JobMachine {
    let transfer = TransferCost {
        usd_per_hour: Rate::from_usd_micros_per_hour(1_000_000),
        usd_per_machine: Amount::from_usd(1.0),
    };
    JobMachine { transfer: Some(transfer), ..placed("i-1", 1) }
}

#[test]
fn checkpoints_to_another_region_are_paid_from_the_same_money() {
    let given = submitted().job(|job| job.terms.max_usd = Some(Amount::from_usd(4.0)));
    let left = TimeLeft::on_machine(&given.job, abroad().cost_max(), noon_plus(HOUR));
    assert_eq!(left.seconds, 90 * MINUTE);
    let usd = |seconds| most(&abroad(), noon_plus(seconds)).1;
    assert_eq!([0, HOUR].map(usd), [Amount::from_usd_micros(1_033_334), Amount::from_usd(3.0)]);
    let poor = given.job(|job| job.used.usd = Amount::from_usd(2.9));
    let left = TimeLeft::on_machine(&poor.job, abroad().cost_max(), noon_plus(HOUR));
    assert!(left.is_over());
    assert!(
        left.describe(&poor.job).starts_with(
            "of its max_usd of $4.00 $1.10 are left, which last for 3m, as each machine costs $1.00 for checkpoints to another region"
        ),
        "{}",
        left.describe(&poor.job)
    );
}

#[test]
fn a_machine_that_ec2_never_brought_up_has_transferred_nothing() {
    let lost = |reason: &str| {
        let given = running().at_time(0).job(|job| job.phase = Phase::Running(abroad())).without_heartbeat();
        given.with_machine(model::instance::InstanceState::Terminated, Some(reason)).next().job.used.usd.usd_micros()
    };
    assert_eq!(lost("Server.InsufficientInstanceCapacity"), 16_667);
    assert_eq!(lost("Server.SpotInstanceTermination"), 1_033_334);
}

#[track_caller]
fn check(change: impl FnOnce(&mut crate::Job), expect_seconds: i64) {
    let given = submitted().job(change);
    let left = TimeLeft::on_machine(
        &given.job,
        CostMax { rate: Rate::from_usd_micros_per_hour(2_000_000), once: Amount::ZERO },
        noon_plus(HOUR),
    );
    assert_eq!(left.seconds, expect_seconds);
    assert_eq!(left.end(noon_plus(HOUR)), noon_plus(HOUR + expect_seconds.max(0)));
}

#[test]
fn the_least_of_what_the_limits_leave_is_left() {
    check(|_| {}, 8 * HOUR);
    check(|job| job.used.seconds = 3 * HOUR, 5 * HOUR);
    check(|job| job.terms.finish_by = Some(noon_plus(3 * HOUR)), 2 * HOUR);
    check(|job| job.terms.max_usd = Some(Amount::from_usd(3.0)), 90 * MINUTE);
    check(|job| (job.terms.max_usd, job.used.usd) = (Some(Amount::from_usd(3.0)), Amount::from_usd(2.0)), 30 * MINUTE);
}

#[test]
fn what_is_over_is_over() {
    check(|job| job.used.seconds = 9 * HOUR, -HOUR);
    check(|job| job.terms.finish_by = Some(noon_plus(0)), -HOUR);
    check(|job| (job.terms.max_usd, job.used.usd) = (Some(Amount::from_usd(3.0)), Amount::from_usd(4.0)), 0);
}

#[test]
fn an_end_is_a_whole_second_and_never_past_the_end_of_time() {
    let now = noon_plus(0) + jiff::SignedDuration::from_millis(999);
    assert_eq!(TimeLeft::on_any_machine(&submitted().job, now).end(now), noon_plus(8 * HOUR));
    let endless = submitted().job(|job| job.terms.max_runtime_seconds = i64::MAX);
    assert_eq!(TimeLeft::on_any_machine(&endless.job, now).end(now), jiff::Timestamp::MAX);
}

#[test]
fn a_machine_counts_from_its_launch_to_its_end_and_at_most_until_it_must_be_gone() {
    let seconds = |seconds| most(&placed("i-1", 1), noon_plus(seconds)).0;
    assert_eq!([-HOUR, 0, HOUR, 8 * HOUR, 48 * HOUR].map(seconds), [0, 0, HOUR, 8 * HOUR, 8 * HOUR + 10 * MINUTE]);
    let usd = |seconds| most(&placed("i-1", 1), noon_plus(seconds)).1.usd_micros();
    assert_eq!([0, 60, 3_600].map(usd), [16_667, 16_667, 1_000_000]);
}

proptest! {
    /// No job is charged less than its machine took, and what is written down is not less than what was counted.
    #[test]
    fn what_is_counted_is_written_down_whole(rate in 0..1_u64 << 30, seconds in 0..HOUR * 24 * 365) {
        let mut machine = placed("i-1", 1);
        machine.rate_max = Rate::from_usd_micros_per_hour(rate);
        machine.ends_at = noon_plus(seconds);
        let used = use_up(submitted().job, &machine, noon_plus(seconds)).used;
        let exact = Amount::from_rate(machine.rate_max, u64::try_from(seconds).unwrap());
        prop_assert!(used.usd >= exact);
        let read: crate::JobUsage = serde_json::from_str(&serde_json::to_string(&used).unwrap()).unwrap();
        prop_assert_eq!(read, used);
        prop_assert_eq!(used.usd.rounded_up_to(1), used.usd);
    }
}
