use jiff::SignedDuration;
use model::fixture::{NOW, time};
use proptest::prelude::*;

use super::*;

const HOUR: i64 = 3600;

fn usd(usd: u64) -> Rate {
    Rate::from_usd_micros_per_hour(usd * 1_000_000)
}

/// 48 hours of work within 52, decided every ten minutes.
fn situation() -> DeadlineSituation {
    DeadlineSituation {
        work_left_seconds: 48 * HOUR,
        time_left_seconds: 52 * HOUR,
        restart_seconds: 720,
        interval_seconds: 600,
        on_demand: usd(3),
        spot: usd(1),
        running: Capacity::None,
        spot_is_refused: false,
    }
}

fn history(changes: &[(bool, i64)]) -> SpotHistory {
    let mut history = SpotHistory::default();
    for (is_available, seconds) in changes {
        history.observe(*is_available, time(NOW) + SignedDuration::from_secs(*seconds));
    }
    history
}

/// `is_available` is what a launch on Spot would meet; it counts only where the policy asks.
fn check(
    situation: DeadlineSituation,
    changes: &[(bool, i64)],
    (is_available, now_seconds): (bool, i64),
    expect: (Capacity, CapacityReason),
) {
    let now = time(NOW) + SignedDuration::from_secs(now_seconds);
    let decision = choose_by_launch(&situation, &mut history(changes), is_available, now);
    assert_eq!((decision.capacity, decision.reason), expect);
}

#[test]
fn takes_spot_as_soon_as_it_can_be_had() {
    check(situation(), &[], (true, 0), (Capacity::Spot, CapacityReason::SpotPays));
    check(situation(), &[(true, 0), (false, HOUR)], (true, 2 * HOUR), (Capacity::Spot, CapacityReason::SpotPays));
}

#[test]
fn stays_on_spot_while_it_lasts() {
    let situation = DeadlineSituation { running: Capacity::Spot, ..situation() };
    check(situation, &[(true, 0)], (true, HOUR), (Capacity::Spot, CapacityReason::SpotRuns));
}

#[test]
fn waits_for_spot_where_there_is_time() {
    let situation = DeadlineSituation { time_left_seconds: 96 * HOUR, ..situation() };
    check(situation, &[], (false, 0), (Capacity::None, CapacityReason::SpotMayReturn));
    let lost = DeadlineSituation { running: Capacity::Spot, ..situation };
    check(lost, &[(true, 0)], (false, HOUR), (Capacity::None, CapacityReason::SpotMayReturn));
}

#[test]
fn takes_on_demand_where_spot_stays_away() {
    check(situation(), &[(false, 0)], (false, 12 * HOUR), (Capacity::OnDemand, CapacityReason::SpotStaysAway));
}

#[test]
fn asks_again_only_after_a_pause() {
    let situation = DeadlineSituation { running: Capacity::OnDemand, ..situation() };
    let refused = [(true, -HOUR), (false, 0), (false, HOUR)];
    check(situation, &refused, (true, HOUR), (Capacity::OnDemand, CapacityReason::AskingLaterPays));
    check(situation, &refused, (true, 9 * HOUR), (Capacity::Spot, CapacityReason::SpotPays));
    check(situation, &refused, (false, 9 * HOUR), (Capacity::OnDemand, CapacityReason::SpotStaysAway));
}

#[test]
fn a_refusal_does_not_show_whether_spot_is_there_later() {
    let mut history = history(&[(true, -HOUR), (false, 0)]);
    let situation = DeadlineSituation { running: Capacity::OnDemand, ..situation() };
    let before = history;
    for is_available in [false, true] {
        let decision = choose_by_launch(&situation, &mut history, is_available, time(NOW));
        assert_eq!((decision.reason, history), (CapacityReason::AskingLaterPays, before));
    }
}

#[test]
fn takes_on_demand_at_the_last_moment() {
    let last = DeadlineSituation { time_left_seconds: 48 * HOUR + 720 + 600, running: Capacity::Spot, ..situation() };
    check(last, &[(true, 0)], (true, HOUR), (Capacity::Spot, CapacityReason::SpotRuns));
    let over = DeadlineSituation { time_left_seconds: last.time_left_seconds - 1, ..last };
    check(over, &[(true, 0)], (true, HOUR), (Capacity::OnDemand, CapacityReason::NoTimeToLose));
}

#[test]
fn runs_on_on_demand_where_spot_saves_nothing() {
    let situation = DeadlineSituation { spot: usd(3), ..situation() };
    check(situation, &[(true, 0)], (true, 0), (Capacity::OnDemand, CapacityReason::SpotSavesNothing));
}

#[test]
fn a_history_keeps_changes_and_the_last_refusal_only() {
    let seen_once = history(&[(true, 0), (false, HOUR), (false, 3 * HOUR)]);
    let often = [(true, 0), (true, 600), (true, 1200), (false, HOUR), (false, 2 * HOUR), (false, 3 * HOUR)];
    assert_eq!(history(&often), seen_once);
    assert_eq!(serde_json::from_value::<SpotHistory>(serde_json::to_value(seen_once).unwrap()).unwrap(), seen_once);
}

#[test]
fn a_state_of_an_earlier_version_is_read() {
    let earlier = r#"{"current": [false, "2026-09-01T12:00:00Z"], "stays": {"count": 1, "log_thousandths": 693},
        "absences": {"count": 0, "log_thousandths": 0}}"#;
    assert_eq!(serde_json::from_str::<SpotHistory>(earlier).unwrap(), history(&[(false, 0)]));
}

#[test]
fn what_has_lasted_long_is_expected_to_last() {
    let lengths = SpotHistory::default().stay_lengths(time(NOW));
    let another_hour = |age: f64| lengths.chance_to_last(age + 1.0) / lengths.chance_to_last(age);
    assert!(another_hour(0.0) < another_hour(1.0) && another_hour(1.0) < another_hour(10.0));
    assert!((lengths.chance_to_last(lengths.length_at(0.5)) - 0.5).abs() < 1e-6);
}

/// Lengths that were learned have no memory: the age of a stay says little.
#[test]
fn equal_lengths_are_learned() {
    let hours = |n: i64| (n % 2 == 0, n * HOUR);
    let lengths = history(&(0..40).map(hours).collect::<Vec<_>>()).stay_lengths(time(NOW));
    let another_hour = |age: f64| lengths.chance_to_last(age + 1.0) / lengths.chance_to_last(age);
    assert!(another_hour(4.0) < 0.6 && another_hour(0.0) > 0.3, "{} {}", another_hour(0.0), another_hour(4.0));
}

/// A move of the adversary in one interval.
#[derive(Debug, Clone, Copy)]
struct Blow {
    spot_is_available: bool,
    /// The part of an interval on Spot that is lost, in percent.
    lost_percent: i64,
    /// The time until the next decision, in percent of the interval.
    interval_percent: i64,
}

fn any_blow() -> impl Strategy<Value = Blow> {
    (any::<bool>(), 0..=100_i64, 20..=100_i64).prop_map(|(spot_is_available, lost_percent, interval_percent)| Blow {
        spot_is_available,
        lost_percent,
        interval_percent,
    })
}

fn any_situation() -> impl Strategy<Value = DeadlineSituation> {
    let times = (1..20 * HOUR, 0..2 * HOUR, 600..HOUR, 0..10 * HOUR);
    (times, 1..9_u64, 0..9_u64).prop_map(|((work, restart, interval, spare), on_demand, spot)| DeadlineSituation {
        work_left_seconds: work,
        time_left_seconds: work + restart + interval + spare,
        restart_seconds: restart,
        interval_seconds: interval,
        on_demand: usd(on_demand),
        spot: usd(spot),
        running: Capacity::None,
        spot_is_refused: false,
    })
}

/// Lives the job to its end, with the last blow repeated, and gives the time that was left.
fn live(mut now_is: DeadlineSituation, blows: &[Blow]) -> i64 {
    let (mut now, mut history, mut restart_left) = (time(NOW), SpotHistory::default(), 0);
    let mut blows = blows.iter().copied();
    let mut blow = Blow { spot_is_available: false, lost_percent: 100, interval_percent: 100 };
    while now_is.work_left_seconds > 0 {
        blow = blows.next().unwrap_or(blow);
        let before = (now_is.running, blow.spot_is_available);
        let next = choose_by_launch(&now_is, &mut history, blow.spot_is_available, now).capacity;
        assert!(next != Capacity::Spot || blow.spot_is_available, "nothing runs on Spot that cannot be had");
        if next != before.0 || before == (Capacity::Spot, false) {
            restart_left = now_is.restart_seconds;
        }
        let seconds = (now_is.interval_seconds * blow.interval_percent / 100).max(1);
        let useful = match next {
            Capacity::None => 0,
            Capacity::Spot => seconds * (100 - blow.lost_percent) / 100,
            Capacity::OnDemand => seconds,
        };
        let worked = (useful - restart_left).clamp(0, now_is.work_left_seconds);
        let restart_before = restart_left;
        restart_left = (restart_left - useful).max(0);
        let is_last = worked == now_is.work_left_seconds;
        now_is.time_left_seconds -= if is_last { restart_before + worked } else { seconds };
        now_is.work_left_seconds -= worked;
        now += SignedDuration::from_secs(seconds);
        now_is.running = next;
    }
    now_is.time_left_seconds
}

proptest! {
    #[test]
    fn is_never_late_whatever_spot_does(
        situation in any_situation(),
        blows in proptest::collection::vec(any_blow(), 1..200),
    ) {
        prop_assert!(live(situation, &blows) >= 0);
    }
}
