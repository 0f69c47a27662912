use std::collections::BTreeSet;

use billing::price::{PriceDocument, SpotPrice};
use model::config::PricesConfig;
use model::fixture::time;
use proptest::prelude::*;

use super::*;
use crate::{tabled_offers, tabled_types};

const NOW: &str = "2026-11-24T12:00:00Z";

/// Offers with one type that has no price.
fn offers() -> Vec<GpuOffer> {
    let unpriced = tabled_types().into_iter().filter(|offer| offer.instance_type.as_str() == "p5e.48xlarge");
    let unpriced = unpriced.map(|offer| GpuOffer { region: "us-east-1".into(), ..offer });
    tabled_offers(&["us-east-1".into(), "us-east-2".into()]).into_iter().chain(unpriced).collect()
}

fn request() -> PlacementRequest {
    PlacementRequest {
        architecture: "x86_64".to_owned(),
        lifecycles: vec![Lifecycle::OnDemand],
        duration: RunDuration::Unknown,
        data: None,
        features: Vec::new(),
        rank_by: RankBy::Price,
    }
}

/// What fits one GPU of so many GB fits.
fn at_least(gb: u64) -> impl Fn(MachineShape) -> Option<FittingGpus<u64>> {
    move |shape| {
        let fit = shape.gpu_memory_bytes;
        (fit >= gb * 999_000_000).then_some(FittingGpus { gpus: 1, fit })
    }
}

fn ranked(request: &PlacementRequest, prices: &PriceBook, gb: u64) -> Vec<RankedPlace<u64>> {
    let (quotas, interruptions) = (AccountQuotas::default(), InterruptionHistory::new());
    let facts = PlacementFacts { prices, quotas: &quotas, interruptions: &interruptions };
    rank_places(request, &offers(), facts, at_least(gb))
}

/// `type region price`, of the first ones.
fn show<F>(places: &[RankedPlace<F>], count: usize) -> Vec<String> {
    let line = |place: &RankedPlace<F>| {
        let price = place.usd_per_hour.map_or("unknown".to_owned(), |rate| rate.to_string());
        format!("{} {} {price}", place.instance_type, place.region)
    };
    places.iter().take(count).map(line).collect()
}

#[test]
fn the_cheapest_that_fits_comes_first_and_what_has_no_price_last() {
    let places = ranked(&request(), &PriceBook::dated(), 24);
    assert_eq!(
        show(&places, 3),
        ["g6.xlarge us-east-1 $0.80/h", "g6.xlarge us-east-2 $0.80/h", "g6.2xlarge us-east-1 $0.98/h"]
    );
    let first_unknown = places.iter().position(|place| place.usd_per_hour.is_none()).unwrap();
    assert!(places[first_unknown..].iter().all(|place| place.usd_per_hour.is_none()));
    assert!(places.iter().all(|place| place.gpu_name != "T4"));
    assert_eq!(places[0].price_source.as_deref(), Some("table of 2026-09-24"));
    assert!(places[0].footprint_per_hour.operational.is_complete());
}

fn live(spot: &[(&str, u64)]) -> PriceBook {
    let mut document = PriceDocument::default();
    let now = time(NOW);
    for (zone, usd_micros_per_hour) in spot {
        let instance_type = TypeName::from("g5.xlarge");
        let change = SpotPrice {
            instance_type: instance_type.clone(),
            zone: (*zone).to_owned(),
            from: now,
            usd_micros_per_hour: *usd_micros_per_hour,
        };
        document.learn_spot(&"us-east-1".into(), &BTreeSet::from([instance_type]), vec![change], now);
    }
    PriceBook::from_document(document, &PricesConfig::default(), now)
}

#[test]
fn on_spot_the_cheapest_zone_counts_and_no_price_is_taken_from_on_demand() {
    let request = PlacementRequest { lifecycles: vec![Lifecycle::Spot], ..request() };
    let places =
        ranked(&request, &live(&[("us-east-1a", 400_000), ("us-east-1b", 300_000), ("us-east-1-bos-1a", 1)]), 24);
    assert_eq!(places[0].zone.as_deref(), Some("us-east-1b"));
    assert_eq!(show(&places, 2), ["g5.xlarge us-east-1 $0.30/h", "g6.xlarge us-east-1 unknown"]);
}

#[test]
fn what_is_not_sold_on_spot_is_no_place() {
    let offers: Vec<GpuOffer> = offers().into_iter().map(|offer| GpuOffer { spot: Some(false), ..offer }).collect();
    let request = PlacementRequest { lifecycles: vec![Lifecycle::Spot], ..request() };
    let (prices, quotas, interruptions) = (PriceBook::dated(), AccountQuotas::default(), InterruptionHistory::new());
    let facts = PlacementFacts { prices: &prices, quotas: &quotas, interruptions: &interruptions };
    assert_eq!(rank_places(&request, &offers, facts, at_least(1)), []);
}

#[test]
fn a_type_that_the_quota_refuses_comes_after_what_it_allows_and_says_why() {
    let granted = BTreeMap::from([("us-east-1".into(), BTreeMap::from([("L-DB2E81BA".to_owned(), 8.0)]))]);
    let used = BTreeMap::from([(("us-east-1".into(), "L-DB2E81BA"), 4)]);
    let quotas = AccountQuotas { granted, used };
    let (prices, interruptions) = (PriceBook::dated(), InterruptionHistory::new());
    let facts = PlacementFacts { prices: &prices, quotas: &quotas, interruptions: &interruptions };
    let places = rank_places(&request(), &offers(), facts, at_least(24));
    let of = |name: &str| {
        places
            .iter()
            .position(|place| place.instance_type.as_str() == name && place.region.as_str() == "us-east-1")
            .unwrap()
    };
    assert!(of("g6.xlarge") < of("p4d.24xlarge") && of("p4d.24xlarge") < of("g6.12xlarge"));
    assert_eq!(
        places[of("g6.12xlarge")].quota,
        QuotaVerdict::Refused { code: "L-DB2E81BA", granted_vcpus: 8.0, used_vcpus: 4, needed_vcpus: 48 }
    );
    assert_eq!(places[of("p4d.24xlarge")].quota, QuotaVerdict::Unknown);
}

#[test]
fn what_a_gpu_has_not_in_hardware_is_said_and_changes_no_rank() {
    let request = PlacementRequest { features: vec![GpuFeature::Bf16], ..request() };
    let places = ranked(&request, &PriceBook::dated(), 8);
    let lacking = places.iter().filter(|place| !place.lacks.is_empty());
    assert!(lacking.clone().count() > 0 && lacking.into_iter().all(|place| place.gpu_name == "T4"));
    assert_eq!(show(&places, 1), ["g4dn.xlarge us-east-1 $0.53/h"]);
    assert_eq!(places[0].lacks, [GpuFeature::Bf16]);
}

#[test]
fn by_the_job_a_dear_type_wins_if_it_is_fast_enough() {
    let work = TokenWork::Training { tokens: 1e9, operations_per_token: 6.0 * 7e9, has_bound: true };
    let request = PlacementRequest { duration: RunDuration::Tokens(work), ..request() };
    let places = ranked(&request, &PriceBook::dated(), 24);
    let lines: Vec<String> =
        places.iter().take(3).map(|place| format!("{} {}", place.instance_type, place.cost.unwrap().least)).collect();
    assert_eq!(lines, ["g6e.xlarge $139.48", "g6e.xlarge $139.48", "g6e.2xlarge $168.04"]);
    // Seven of its GPUs are idle: it takes as long as one GPU, and costs eight times as much.
    let idle = places.iter().find(|place| place.instance_type.as_str() == "p5.48xlarge").unwrap();
    let hours = |place: &RankedPlace<u64>| place.run.unwrap().least_seconds / 3_600;
    assert_eq!((idle.used_gpus, idle.gpus, hours(idle)), (1, 8, 27));
    // Where its peak is in no table, how long it takes is unknown.
    let unknown_offer = GpuOffer { gpu_name: "X9000".to_owned(), ..offers()[0].clone() };
    let (prices, quotas, interruptions) = (PriceBook::dated(), AccountQuotas::default(), InterruptionHistory::new());
    let facts = PlacementFacts { prices: &prices, quotas: &quotas, interruptions: &interruptions };
    let place = rank_places(&request, &[unknown_offer], facts, at_least(24)).remove(0);
    assert_eq!((place.run, place.cost), (None, None));
}

#[test]
fn by_carbon_a_place_without_a_factor_comes_last() {
    let mut offers = offers();
    let without_factor = GpuOffer { region: "ap-east-2".into(), ..offers[0].clone() };
    let without_model = GpuOffer { instance_type: "g99.xlarge".into(), ..offers[0].clone() };
    offers.extend([without_factor, without_model]);
    let (prices, quotas, interruptions) = (PriceBook::dated(), AccountQuotas::default(), InterruptionHistory::new());
    let facts = PlacementFacts { prices: &prices, quotas: &quotas, interruptions: &interruptions };
    let by_carbon = PlacementRequest { rank_by: RankBy::Carbon, ..request() };
    let places = rank_places(&by_carbon, &offers, facts, at_least(8));
    let carbon: Vec<Option<u64>> = places.iter().map(|place| place.most_carbon(&by_carbon.duration)).collect();
    let known = carbon.iter().take_while(|carbon| carbon.is_some()).count();
    assert!(carbon[known..].iter().all(Option::is_none) && carbon.len() == known + 2, "{carbon:?}");
    assert!(carbon[..known].is_sorted());
    // A cleaner grid, though it costs the same.
    assert_eq!(show(&places, 1), ["g4dn.xlarge us-east-1 $0.53/h"]);
    let json = serde_json::to_value(places.last().unwrap()).unwrap();
    assert_eq!(json["footprint_per_hour"]["operational_kg_co2e"], serde_json::Value::Null);
}

/// No published peak: an hour of it compares with no whole run.
#[test]
fn by_carbon_a_gpu_of_unknown_speed_comes_last() {
    let mut offers = offers();
    let unknown = GpuOffer { instance_type: "p3.2xlarge".into(), gpu_name: "V100".to_owned(), ..offers[0].clone() };
    offers.push(unknown);
    let (prices, quotas, interruptions) = (PriceBook::dated(), AccountQuotas::default(), InterruptionHistory::new());
    let facts = PlacementFacts { prices: &prices, quotas: &quotas, interruptions: &interruptions };
    let work = TokenWork::Training { tokens: 1e9, operations_per_token: 6.0 * 7e9, has_bound: true };
    let request = PlacementRequest { duration: RunDuration::Tokens(work), rank_by: RankBy::Carbon, ..request() };
    let places = rank_places(&request, &offers, facts, at_least(8));
    assert_eq!(places.last().unwrap().gpu_name, "V100");
}

#[test]
fn by_time_the_fastest_comes_first() {
    let work = TokenWork::Training { tokens: 1e9, operations_per_token: 6.0 * 7e9, has_bound: true };
    let request = PlacementRequest { duration: RunDuration::Tokens(work), rank_by: RankBy::Time, ..request() };
    let places = ranked(&request, &PriceBook::dated(), 24);
    assert_eq!(places[0].gpu_name, "B200");
    let seconds: Vec<Option<u64>> = places.iter().map(RankedPlace::least_seconds).collect();
    assert!(seconds.is_sorted() && seconds[0].is_some(), "{seconds:?}");
}

#[test]
fn data_elsewhere_costs_egress_and_time() {
    let data = DataPlace { region: "us-east-2".into(), bytes: 1_000_000_000_000 };
    let request = PlacementRequest { data: Some(data), duration: RunDuration::Seconds(3_600), ..request() };
    let places = ranked(&request, &PriceBook::dated(), 24);
    let of = |name: &str, region: &str| {
        let place = places
            .iter()
            .find(|place| place.instance_type.as_str() == name && place.region.as_str() == region)
            .unwrap();
        let data = place.data.unwrap();
        (data.egress.to_string(), data.load_seconds_least.unwrap())
    };
    // 8,000 Gbit: at 5 Gbit/s with few vCPUs, else at half of the network.
    assert_eq!(of("g6.xlarge", "us-east-1"), ("$10.00".to_owned(), 1_600));
    assert_eq!(of("g6.12xlarge", "us-east-1"), ("$10.00".to_owned(), 400));
    assert_eq!(of("p6-b200.48xlarge", "us-east-2"), ("$0.00".to_owned(), 80));
    let cost = |region: &str| {
        let is_it =
            |place: &&RankedPlace<u64>| place.instance_type.as_str() == "g6.xlarge" && place.region.as_str() == region;
        places.iter().find(is_it).unwrap().cost.unwrap().least.to_string()
    };
    assert_eq!((cost("us-east-1").as_str(), cost("us-east-2").as_str()), ("$11.16", "$0.98"));
}

#[test]
fn what_the_ledger_saw_of_spot_stands_beside_spot_alone() {
    let seen = Interruptions { runs: 10, interrupted: 3, unknown: 1, seconds: 360_000 };
    let interruptions = InterruptionHistory::from([(("us-east-1".into(), "g5.xlarge".into()), seen)]);
    let request = PlacementRequest { lifecycles: vec![Lifecycle::Spot, Lifecycle::OnDemand], ..request() };
    let (prices, quotas) = (PriceBook::dated(), AccountQuotas::default());
    let facts = PlacementFacts { prices: &prices, quotas: &quotas, interruptions: &interruptions };
    let places = rank_places(&request, &offers(), facts, at_least(24));
    let with: Vec<Lifecycle> =
        places.iter().filter(|place| place.interruptions.is_some()).map(|place| place.lifecycle).collect();
    assert_eq!(with, [Lifecycle::Spot]);
}

proptest! {
    #[test]
    fn the_order_is_total_and_no_place_is_lost(gb in 1_u64..200, seed in any::<u64>(), hours in 0_u64..1_000) {
        let request = PlacementRequest {
            lifecycles: vec![Lifecycle::Spot, Lifecycle::OnDemand],
            duration: if hours == 0 { RunDuration::Unknown } else { RunDuration::Seconds(hours * 3_600) },
            ..request()
        };
        let (prices, quotas, interruptions) = (live(&[("us-east-1a", 1 + seed % 9_000_000)]), AccountQuotas::default(), InterruptionHistory::new());
        let facts = PlacementFacts { prices: &prices, quotas: &quotas, interruptions: &interruptions };
        let mut shuffled = offers();
        let places = rank_places(&request, &shuffled, facts, at_least(gb));
        let turn = usize::try_from(seed % 50).unwrap();
        shuffled.rotate_left(turn);
        prop_assert_eq!(&places, &rank_places(&request, &shuffled, facts, at_least(gb)));
        let fitting = offers().iter().filter(|offer| offer.architecture == "x86_64" && at_least(gb)(offer.shape()).is_some()).count();
        prop_assert_eq!(places.len(), 2 * fitting);
        let costs: Vec<_> = places.iter().filter_map(|place| place.usd_per_hour).collect();
        prop_assert!(costs.is_sorted());
    }
}
