use insta::assert_snapshot;
use jiff::SignedDuration;
use model::config::Config;
use model::fixture::{NOW, time};
use proptest::prelude::*;

use super::*;
use crate::JobSpec;
use crate::next::tests::fixture::ranking;

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
        spot_is_available: false,
        sees_spot_return: true,
    }
}

fn history(changes: &[(bool, i64)]) -> SpotHistory {
    let mut history = SpotHistory::default();
    for (is_available, seconds) in changes {
        history.observe(*is_available, time(NOW) + SignedDuration::from_secs(*seconds));
    }
    history
}

fn check(situation: DeadlineSituation, changes: &[(bool, i64)], now_seconds: i64, expect: (Capacity, CapacityReason)) {
    let now = time(NOW) + SignedDuration::from_secs(now_seconds);
    let decision = choose_capacity(&situation, &history(changes), now);
    assert_eq!((decision.capacity, decision.reason), expect);
}

#[test]
fn takes_spot_as_soon_as_it_can_be_had() {
    let situation = DeadlineSituation { spot_is_available: true, ..situation() };
    check(situation, &[(true, 0)], 0, (Capacity::Spot, CapacityReason::SpotPays));
}

#[test]
fn stays_on_spot_while_it_lasts() {
    let situation = DeadlineSituation { spot_is_available: true, running: Capacity::Spot, ..situation() };
    check(situation, &[(true, 0)], HOUR, (Capacity::Spot, CapacityReason::SpotRuns));
}

#[test]
fn waits_for_spot_where_there_is_time() {
    let situation = DeadlineSituation { time_left_seconds: 96 * HOUR, ..situation() };
    check(situation, &[(false, 0)], 600, (Capacity::None, CapacityReason::SpotMayReturn));
}

#[test]
fn takes_on_demand_where_spot_stays_away() {
    check(situation(), &[(false, 0)], 12 * HOUR, (Capacity::OnDemand, CapacityReason::SpotStaysAway));
}

#[test]
fn takes_spot_to_observe_it_if_only_a_launch_shows_it() {
    let unseen = DeadlineSituation {
        spot_is_available: true,
        running: Capacity::OnDemand,
        sees_spot_return: false,
        ..situation()
    };
    check(unseen, &[(false, 0), (true, 600)], 600, (Capacity::Spot, CapacityReason::SpotPays));
    let tight = DeadlineSituation { time_left_seconds: 48 * HOUR + 720 + 600 + 60, ..unseen };
    check(tight, &[(false, 0), (true, 600)], 600, (Capacity::OnDemand, CapacityReason::SpotIsYoung));
}

#[test]
fn leaves_on_demand_only_for_spot_that_has_lasted() {
    let situation = DeadlineSituation { spot_is_available: true, running: Capacity::OnDemand, ..situation() };
    let flickers: Vec<(bool, i64)> = (0..24).map(|n| (n % 2 == 1, n * 600)).collect();
    check(situation, &flickers, 23 * 600, (Capacity::OnDemand, CapacityReason::SpotIsYoung));
    check(situation, &flickers, 23 * 600 + 12 * HOUR, (Capacity::Spot, CapacityReason::SpotPays));
}

#[test]
fn takes_on_demand_at_the_last_moment() {
    let last = DeadlineSituation {
        time_left_seconds: 48 * HOUR + 720 + 600,
        spot_is_available: true,
        running: Capacity::Spot,
        ..situation()
    };
    check(last, &[(true, 0)], HOUR, (Capacity::Spot, CapacityReason::SpotRuns));
    let over = DeadlineSituation { time_left_seconds: last.time_left_seconds - 1, ..last };
    check(over, &[(true, 0)], HOUR, (Capacity::OnDemand, CapacityReason::NoTimeToLose));
}

#[test]
fn runs_on_on_demand_where_spot_saves_nothing() {
    let situation = DeadlineSituation { spot: usd(3), spot_is_available: true, ..situation() };
    check(situation, &[(true, 0)], 0, (Capacity::OnDemand, CapacityReason::SpotSavesNothing));
}

#[test]
fn a_history_keeps_changes_only() {
    let seen_once = history(&[(true, 0), (false, HOUR)]);
    assert_eq!(history(&[(true, 0), (true, 600), (true, 1200), (false, HOUR), (false, 2 * HOUR)]), seen_once);
    assert_eq!(serde_json::from_value::<SpotHistory>(serde_json::to_value(seen_once).unwrap()).unwrap(), seen_once);
}

#[test]
fn a_long_stay_is_expected_to_last() {
    let history = history(&[(true, 0)]);
    let left = |hours: i64| history.likely_hours_left(time(NOW) + SignedDuration::from_hours(hours));
    assert!(left(0) < left(1) && left(1) < left(10));
}

#[test]
fn a_looser_deadline_is_expected_to_cost_less() {
    let terms = |limits: &str| {
        let text = format!("owner = \"ada\"\ncommand = \"x\"\n[checkpoint]\n[limits]\n{limits}");
        JobSpec::read(&text, "x", None, &Config::default(), &"us-east-1".into(), time(NOW)).unwrap().terms
    };
    let asked = terms("within = \"60h\"\nestimated_runtime = \"48h\"");
    let candidates = ranking(time(NOW)).candidates;
    let costs = expected_costs(&asked, &candidates, time(NOW));
    let rows: Vec<String> = costs
        .iter()
        .map(|one| format!("{:?}: {} ({} to {})", one.within_seconds, one.usd, one.usd_low, one.usd_high))
        .collect();
    assert_snapshot!(rows.join("\n"), @r"
    Some(173700): $192.67 ($192.67 to $192.67)
    Some(216000): $106.05 ($23.30 to $183.13)
    Some(324000): $81.77 ($19.75 to $170.33)
    None: $22.50 ($19.73 to $22.42)
    ");
    assert_eq!(expected_costs(&asked, &candidates, time(NOW)), costs);
    assert!(expected_costs(&terms("within = \"60h\""), &candidates, time(NOW)).is_empty());
    assert!(expected_costs(&asked, &candidates[..1], time(NOW)).is_empty());
}

/// What an adversary does in an interval.
#[derive(Debug, Clone, Copy)]
struct Blow {
    spot_is_available: bool,
    /// How much of an interval on Spot is lost, in percent.
    lost_percent: i64,
    /// How early the next decision comes, in percent of the interval.
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
    (times, 1..9_u64, 0..9_u64, any::<bool>()).prop_map(
        |((work, restart, interval, spare), on_demand, spot, sees_spot_return)| DeadlineSituation {
            work_left_seconds: work,
            time_left_seconds: work + restart + interval + spare,
            restart_seconds: restart,
            interval_seconds: interval,
            on_demand: usd(on_demand),
            spot: usd(spot),
            running: Capacity::None,
            spot_is_available: false,
            sees_spot_return,
        },
    )
}

/// Lives the job to its end, with the last blow repeated, and gives the time that was left.
fn live(mut now_is: DeadlineSituation, blows: &[Blow]) -> i64 {
    let (mut now, mut history, mut restart_left) = (time(NOW), SpotHistory::default(), 0);
    let mut blows = blows.iter().copied();
    let mut blow = Blow { spot_is_available: false, lost_percent: 100, interval_percent: 100 };
    while now_is.work_left_seconds > 0 {
        blow = blows.next().unwrap_or(blow);
        now_is.spot_is_available = blow.spot_is_available;
        history.observe(blow.spot_is_available, now);
        let before = (now_is.running, now_is.spot_is_available);
        let next = choose_capacity(&now_is, &history, now).capacity;
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
