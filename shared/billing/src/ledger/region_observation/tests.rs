use jiff::SignedDuration;
use jiff::tz::TimeZone;
use model::fixture::{InstanceBuilder, NOW, instance, time, volume};
use model::instance::PrepaidCapacity;

use super::*;
use crate::ledger::{CalendarMonth, Ledger, RunCost, TimeSpan};
use crate::price::{PriceBook, PriceDocument};

fn inspected(given: InstanceBuilder) -> InspectedInstance {
    InspectedInstance { instance: given.build(), ended_at: Some(time(NOW)) }
}

fn beat(instances: Vec<InspectedInstance>, volumes: Vec<AttachedVolume>) -> LedgerBeat {
    let look = RegionObservation { region: "us-east-1".into(), whole: true, instances, volumes };
    let known = vec![(time("2026-09-24T17:45:00Z"), Rate::ZERO)];
    look.to_beat(time(NOW), &Config::default(), |_| known.clone(), |_| known.clone())
}

fn sighting(given: InstanceBuilder) -> Sighting {
    beat(vec![inspected(given)], vec![]).items.remove(0)
}

#[test]
fn a_stopping_instance_is_not_billed() {
    let life = |state| sighting(instance().state(state)).life;
    let ended = |terminated| BillingState::Ended { at: Some(time(NOW)), terminated, reclaimed: false };
    assert_eq!([InstanceState::Pending, InstanceState::Running].map(life), [BillingState::Live; 2]);
    assert_eq!([InstanceState::Stopping, InstanceState::Stopped].map(life), [ended(false); 2]);
    assert_eq!([InstanceState::ShuttingDown, InstanceState::Terminated].map(life), [ended(true); 2]);
}

#[test]
fn an_observation_with_unknown_states_is_not_whole() {
    let beat = beat(vec![inspected(instance().state(InstanceState::Unknown))], vec![]);
    assert_eq!((beat.whole, beat.items.len()), (false, 0));
}

#[test]
fn ec2_takes_spot_instances_back_by_two_codes() {
    let reclaimed = |code: &str| {
        let mut seen = inspected(instance().state(InstanceState::Terminated));
        seen.instance.state_reason = Some(code.to_owned());
        matches!(seen.life(), Some(BillingState::Ended { reclaimed: true, .. }))
    };
    let codes = ["Server.SpotInstanceTermination", "Server.SpotInstanceShutdown", "Client.UserInitiatedShutdown"];
    assert_eq!(codes.map(reclaimed), [true, true, false]);
}

#[test]
fn the_tariff_has_everything_that_sets_a_price() {
    let check = |given: InstanceBuilder, expect: &str| assert_eq!(sighting(given).facts.tariff.as_str(), expect);
    check(instance(), "g5.xlarge on demand");
    check(instance().purchase(PurchaseOption::SpotOneTime).in_zone("us-east-1a"), "g5.xlarge on Spot in us-east-1a");
    check(instance().prepaid(PrepaidCapacity::CapacityReservation), "g5.xlarge on demand");
    check(instance().prepaid(PrepaidCapacity::DedicatedHost), "g5.xlarge on a dedicated host");
    let block = || instance().purchase(PurchaseOption::CapacityBlock);
    check(block().prepaid(PrepaidCapacity::CapacityReservation), "g5.xlarge in a capacity block");
    check(instance().purchase(PurchaseOption::CapacityBlock), "g5.xlarge in a capacity block");
    let interruptible = instance().purchase(PurchaseOption::InterruptibleReservation);
    check(interruptible, "g5.xlarge in an interruptible reservation");
    let mut windows = inspected(instance().in_zone("us-east-1-bos-1a"));
    windows.instance.plain_linux = false;
    let sighting = beat(vec![windows], vec![]).items.remove(0);
    assert_eq!(sighting.facts.tariff.as_str(), "g5.xlarge on demand in us-east-1-bos-1a, not plain Linux");
}

#[test]
fn a_price_counts_from_the_second_since_when_it_is_known() {
    let from = |given: InstanceBuilder| sighting(given).prices[0].0;
    assert_eq!(from(instance()), time("2026-09-24T17:45:00Z"));
    assert_eq!(from(instance().purchase(PurchaseOption::SpotPersistent)), time("2026-09-24T17:45:00Z"));
}

#[test]
fn a_volume_without_a_team_tag_belongs_to_its_instances_team() {
    let host = inspected(instance().id("i-1").tag("Name", "host").tag(JOB, "vision/llama-1"));
    let on = |volume| AttachedVolume { volume, on: "i-1".into(), since: time(NOW) };
    let volumes = vec![on(volume().untagged().build()), on(volume().untagged().tag("Team", "nlp").build())];
    let facts: Vec<RunFacts> =
        beat(vec![host], volumes).items.into_iter().skip(1).map(|sighting| sighting.facts).collect();
    let teams: Vec<&str> =
        facts.iter().filter_map(|facts| facts.team.as_ref()).map(model::id::TeamName::as_str).collect();
    assert_eq!((teams, facts[1].owner.as_deref()), (vec!["vision", "nlp"], Some("ada")));
    assert_eq!((facts[0].name.as_deref(), facts[0].job.as_deref()), (None, Some("vision/llama-1")));
    let words = (facts[0].what.as_str(), facts[0].tariff.as_str());
    assert_eq!(words, ("500 GiB gp3", "500 GiB gp3, 3000 IOPS, 125 MiB/s, in us-east-1a"));
}

/// What an instance on demand costs that was launched an hour before the first of these beats, in the ledger that saw it under each of
/// these configurations, every quarter of an hour another one; a list says $2 an hour.
fn check_discounts(configs: &[&str], expect: &str) {
    let mut live = PriceDocument::default();
    live.learn_listed("us-east-1".into(), "g5.xlarge".into(), Some(2_000_000), time("2026-09-01T10:00:00Z"));
    let one = instance().launched("2026-09-01T11:00:00Z");
    let look = RegionObservation {
        region: "us-east-1".into(),
        whole: true,
        instances: vec![InspectedInstance { instance: one.build(), ended_at: None }],
        volumes: vec![],
    };
    let beats = configs.iter().zip(0..).map(|(config, quarters)| {
        let at = time(NOW) + SignedDuration::from_mins(15 * quarters);
        let config = Config::read(config).unwrap();
        let prices = PriceBook::from_document(live.clone(), &config.prices, at);
        look.to_beat(at, &config, |one| prices.known_rates(&one.instance), |_| KnownPrices::new())
    });
    let beats: Vec<LedgerBeat> = beats.collect();
    let month = CalendarMonth::containing(time(NOW), &TimeZone::UTC);
    let ledger_of = |beats: &mut dyn Iterator<Item = &LedgerBeat>| {
        let mut ledger = Ledger::new(&month, &"us-east-1".into());
        for beat in beats {
            ledger.observe(beat);
        }
        ledger
    };
    let ledger = ledger_of(&mut beats.iter());
    assert_eq!(ledger, ledger_of(&mut beats.iter().rev()), "{configs:?}");
    let spent: RunCost =
        ledger.runs().map(|run| run.spent(TimeSpan { to: ledger.as_of().unwrap(), ..month.span() })).sum();
    assert_eq!(spent.amount.to_string(), expect, "{configs:?}");
}

#[test]
fn a_discount_counts_from_the_beat_that_found_it() {
    let half = "[prices]\ndiscount_percent = { g5 = 50 }";
    check_discounts(&[""], "$2.00");
    check_discounts(&["", half], "$2.50");
    check_discounts(&["", half, half], "$2.75");
    check_discounts(&["", half, "[prices]\ndiscount_percent = { g5 = 12.5 }"], "$2.75");
    check_discounts(&[half, "", ""], "$1.75");
    check_discounts(&["", "[prices]\ndiscount_percent = { p5 = 50 }", ""], "$3.00");
}
