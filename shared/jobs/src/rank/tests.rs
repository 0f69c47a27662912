//! Candidates: which pools qualify, in which order, and why none does.

mod by_default;
mod cpu_jobs;
mod hardware;
mod network;
mod nodes;
mod properties;

use billing::price::SpotPrice;
use insta::assert_snapshot;
use model::config::PricesConfig;
use model::fixture::{NOW, time};

use super::*;
use crate::{GpuSpec, MachineSpec};

/// As EC2 has them: type, architecture, GPUs, MiB of each.
const TYPES: [(&str, &str, u32, u32); 7] = [
    ("g4dn.xlarge", "x86_64", 1, 16_384),
    ("g5.xlarge", "x86_64", 1, 22_888),
    ("g5.12xlarge", "x86_64", 4, 22_888),
    ("g5g.xlarge", "arm64", 1, 16_384),
    ("g6.xlarge", "x86_64", 1, 22_888),
    ("p4d.24xlarge", "x86_64", 8, 40_960),
    ("p5.48xlarge", "x86_64", 8, 81_920),
];

fn pool(zone: &str, name: &str) -> CapacityPool {
    let (_, architecture, gpus, gpu_memory_mib) = TYPES.iter().find(|(type_name, ..)| *type_name == name).unwrap();
    CapacityPool {
        region: zone[..zone.len() - 1].into(),
        zone: zone.to_owned(),
        subnet: format!("subnet-{zone}").as_str().into(),
        instance_type: name.into(),
        architecture: (*architecture).to_owned(),
        gpus: *gpus,
        gpu_name: String::new(),
        gpu_memory_mib: *gpu_memory_mib,
        vcpus: 4,
        memory_mib: 16 * 1_024,
        spot: true,
        network: PoolNetwork::default(),
    }
}

fn image(region: &str, architecture: &str) -> (Region, MachineImage) {
    let image = MachineImage {
        ami: format!("ami-{region}-{architecture}").as_str().into(),
        architecture: architecture.to_owned(),
        agent_sha256: "0".repeat(64),
        root_device: "/dev/xvda".to_owned(),
        root_gib: 65,
        is_for_all: true,
        other_devices: Vec::new(),
    };
    (region.into(), image)
}

fn images() -> Vec<(Region, MachineImage)> {
    let regions = ["ap-east-2", "eu-west-1", "us-east-1", "us-east-2"];
    regions.iter().flat_map(|region| ["arm64", "x86_64"].map(|architecture| image(region, architecture))).collect()
}

fn terms() -> JobTerms {
    JobTerms {
        tags: std::collections::BTreeMap::new(),
        gpu: GpuSpec { count: 1, nodes: 1, name: None, memory_gib_min: 0, types: Vec::new() },
        network: None,
        spot: None,
        max_runtime_seconds: 3_600,
        finish_by: None,
        estimated_runtime_seconds: None,
        max_usd: None,
        max_rate: None,
        gpu_box: None,
        retries: 0,
        bucket_region: None,
        checkpoint: None,
        machine: MachineSpec::default(),
    }
}

fn on_spot(max_usd: Option<u64>, fallback_seconds: Option<i64>) -> JobTerms {
    let max_rate = max_usd.map(Rate::from_usd_micros_per_hour);
    JobTerms { spot: Some(SpotSpec { max_rate, fallback_to_on_demand_after_seconds: fallback_seconds }), ..terms() }
}

fn asking(count: u32, memory_gib_min: u32, types: &[&str]) -> JobTerms {
    let types = types.iter().map(|name| TypeName::from(*name)).collect();
    JobTerms { gpu: GpuSpec { count, nodes: 1, name: None, memory_gib_min, types }, ..terms() }
}

/// Zone, type, micro-USD per hour, since an hour.
fn live(on_spot: &[(&str, &str, u64)]) -> PriceDocument {
    let mut document = PriceDocument::default();
    for (zone, name, usd_micros_per_hour) in on_spot {
        let change = SpotPrice {
            instance_type: (*name).into(),
            zone: (*zone).to_owned(),
            from: time(NOW) - SignedDuration::from_hours(1),
            usd_micros_per_hour: *usd_micros_per_hour,
        };
        let types = BTreeSet::from([TypeName::from(*name)]);
        document.learn_spot(&zone[..zone.len() - 1].into(), &types, vec![change], time(NOW));
    }
    document
}

fn policy(config: &Config) -> LaunchPolicy<'_> {
    static TEAM: std::sync::LazyLock<TeamName> = std::sync::LazyLock::new(|| "vision".into());
    LaunchPolicy { config, team: &TEAM }
}

fn book(document: PriceDocument) -> PriceBook {
    PriceBook::from_document(document, &PricesConfig::default(), time(NOW))
}

fn ranked(
    terms: &JobTerms,
    pools: &[CapacityPool],
    document: PriceDocument,
    unplaced_minutes: Option<i64>,
) -> Result<Ranking, LaunchObstacle> {
    let unplaced_since = unplaced_minutes.map(|minutes| time(NOW) - SignedDuration::from_mins(minutes));
    rank(terms, pools, images(), &book(document), unplaced_since, policy(&Config::default()), time(NOW))
}

/// `zone type lifecycle rate/rate_max quota image`, a line each.
fn shown(ranking: &Ranking) -> String {
    let line = |one: &Candidate| {
        let lifecycle = serde_json::to_value(one.lifecycle).unwrap();
        let quota = one.quota.as_ref().map_or("-", |quota| quota.0.as_str());
        let image = &ranking.images[usize::from(one.image)].ami;
        let (rate, rate_max) = (one.rate.usd_micros_per_hour(), one.rate_max.usd_micros_per_hour());
        let lifecycle = lifecycle.as_str().unwrap();
        format!("{} {} {lifecycle} {rate}/{rate_max} {quota} {image}", one.zone, one.instance_type)
    };
    ranking.candidates.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn check(terms: &JobTerms, pools: &[CapacityPool], on_spot: &[(&str, &str, u64)]) -> String {
    check_after(None, terms, pools, on_spot)
}

fn check_after(
    minutes: Option<i64>,
    terms: &JobTerms,
    pools: &[CapacityPool],
    on_spot: &[(&str, &str, u64)],
) -> String {
    match ranked(terms, pools, live(on_spot), minutes) {
        Ok(ranking) => shown(&ranking),
        Err(words) => format!("none: {words}"),
    }
}

/// With a configuration.
fn check_config(config: &str, terms: &JobTerms, pools: &[CapacityPool], on_spot: &[(&str, &str, u64)]) -> String {
    let config = Config::read(config).unwrap();
    match rank(terms, pools, images(), &book(live(on_spot)), None, policy(&config), time(NOW)) {
        Ok(ranking) => format!("{}\n{}", shown(&ranking), ranking.left_out.unwrap_or_default()),
        Err(words) => format!("none: {words}"),
    }
}

fn two_zones() -> Vec<CapacityPool> {
    vec![
        pool("us-east-1a", "g5.xlarge"),
        pool("us-east-1b", "g5.xlarge"),
        pool("us-east-1b", "g6.xlarge"),
        pool("us-east-1b", "g5.12xlarge"),
    ]
}

#[test]
fn on_demand_the_cheapest_comes_first_and_zones_of_one_price_by_name() {
    assert_snapshot!(check(&terms(), &two_zones(), &[("us-east-1a", "g5.xlarge", 1)]), @r"
    us-east-1b g6.xlarge on-demand 804800/804800 L-DB2E81BA ami-us-east-1-x86_64
    us-east-1a g5.xlarge on-demand 1006000/1006000 L-DB2E81BA ami-us-east-1-x86_64
    us-east-1b g5.xlarge on-demand 1006000/1006000 L-DB2E81BA ami-us-east-1-x86_64
    ");
}

#[test]
fn spot_is_ranked_by_its_price_in_each_zone_and_bounded_by_on_demand() {
    let prices = [("us-east-1a", "g5.xlarge", 500_000), ("us-east-1b", "g5.xlarge", 400_000)];
    assert_snapshot!(check(&on_spot(None, None), &two_zones(), &prices), @r"
    us-east-1b g5.xlarge spot 400000/1006000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1a g5.xlarge spot 500000/1006000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1b g6.xlarge spot 804800/804800 L-3819A6DF ami-us-east-1-x86_64
    ");
}

#[test]
fn a_limit_bounds_spot_and_leaves_out_what_costs_more() {
    let prices = [("us-east-1a", "g5.xlarge", 500_000), ("us-east-1b", "g5.xlarge", 400_000)];
    assert_snapshot!(check(&on_spot(Some(450_000), None), &two_zones(), &prices), @r"
    us-east-1b g5.xlarge spot 400000/450000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1b g6.xlarge spot 450000/450000 L-3819A6DF ami-us-east-1-x86_64
    ");
    assert_snapshot!(check(&on_spot(Some(500_000), None), &two_zones()[..2], &prices), @r"
    us-east-1b g5.xlarge spot 400000/500000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1a g5.xlarge spot 500000/500000 L-3819A6DF ami-us-east-1-x86_64
    ");
}

#[test]
fn a_spot_price_above_on_demand_is_left_out() {
    let prices = [("us-east-1a", "g5.xlarge", 1_006_001), ("us-east-1b", "g5.xlarge", 1_006_000)];
    assert_snapshot!(check(&on_spot(Some(9_000_000), None), &two_zones()[..2], &prices), @"us-east-1b g5.xlarge spot 1006000/1006000 L-3819A6DF ami-us-east-1-x86_64");
    assert_snapshot!(check(&on_spot(None, None), &two_zones()[..1], &prices), @"none: every Spot price that is known is above its limit: the cheapest is g5.xlarge in us-east-1a at $1.006001/h, above what it costs on demand, $1.006/h");
}

#[test]
fn on_demand_is_a_way_out_after_its_time_and_not_a_moment_sooner() {
    let terms = on_spot(Some(600_000), Some(7_200));
    let prices = [("us-east-1a", "g5.xlarge", 500_000), ("us-east-1b", "g5.xlarge", 700_000)];
    assert_snapshot!(check_after(None, &terms, &two_zones()[..2], &prices), @"us-east-1a g5.xlarge spot 500000/600000 L-3819A6DF ami-us-east-1-x86_64");
    assert_snapshot!(check_after(Some(119), &terms, &two_zones()[..2], &prices), @"us-east-1a g5.xlarge spot 500000/600000 L-3819A6DF ami-us-east-1-x86_64");
    assert_snapshot!(check_after(Some(120), &terms, &two_zones()[..2], &prices), @r"
    us-east-1a g5.xlarge spot 500000/600000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1a g5.xlarge on-demand 1006000/1006000 L-DB2E81BA ami-us-east-1-x86_64
    us-east-1b g5.xlarge on-demand 1006000/1006000 L-DB2E81BA ami-us-east-1-x86_64
    ");
    assert_snapshot!(check_after(Some(100_000), &on_spot(Some(600_000), None), &two_zones()[..2], &prices), @"us-east-1a g5.xlarge spot 500000/600000 L-3819A6DF ami-us-east-1-x86_64");
}

#[test]
fn at_equal_prices_the_smaller_machine_comes_first() {
    let pools = [
        pool("us-east-1a", "p4d.24xlarge"),
        pool("us-east-1b", "p5.48xlarge"),
        pool("us-east-1c", "g5.12xlarge"),
        pool("us-east-1d", "g5.xlarge"),
        pool("us-east-1e", "g4dn.xlarge"),
    ];
    let prices = pools.each_ref().map(|pool| (pool.zone.as_str(), pool.instance_type.as_str(), 300_000));
    let named: Vec<&str> = pools.iter().map(|pool| pool.instance_type.as_str()).collect();
    let terms = JobTerms { gpu: asking(1, 0, &named).gpu, ..on_spot(None, None) };
    assert_snapshot!(check(&terms, &pools, &prices), @r"
    us-east-1e g4dn.xlarge spot 300000/526000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1d g5.xlarge spot 300000/1006000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1c g5.12xlarge spot 300000/5672000 L-3819A6DF ami-us-east-1-x86_64
    us-east-1a p4d.24xlarge spot 300000/21957642 L-7212CCBC ami-us-east-1-x86_64
    us-east-1b p5.48xlarge spot 300000/55040000 L-C4BD4855 ami-us-east-1-x86_64
    ");
}

#[test]
fn each_region_and_architecture_boots_its_own_image() {
    let prices = [("us-east-1a", "g5g.xlarge", 100_000), ("eu-west-1a", "g5.xlarge", 200_000)];
    let pools = [pool("us-east-1a", "g5g.xlarge"), pool("eu-west-1a", "g5.xlarge"), pool("us-east-1a", "g5.xlarge")];
    let terms = JobTerms { gpu: asking(1, 0, &["g5.xlarge", "g5g.xlarge"]).gpu, ..on_spot(Some(300_000), None) };
    assert_snapshot!(check(&terms, &pools, &prices), @r"
    us-east-1a g5g.xlarge spot 100000/300000 L-3819A6DF ami-us-east-1-arm64
    eu-west-1a g5.xlarge spot 200000/300000 L-3819A6DF ami-eu-west-1-x86_64
    us-east-1a g5.xlarge spot 300000/300000 L-3819A6DF ami-us-east-1-x86_64
    ");
    let ranking = ranked(&terms, &pools, live(&prices), None).unwrap();
    assert_eq!(ranking.images.len(), 3, "no other image is kept: {:?}", ranking.images);
}

#[test]
fn an_unknown_price_is_not_guessed() {
    // Neither list nor table has ap-east-2, nor a Local Zone, at any price limit.
    let elsewhere = [pool("ap-east-2a", "g5.xlarge"), pool("ap-east-2b", "g5.xlarge")];
    assert_snapshot!(check(&terms(), &elsewhere, &[]), @"none: no price is known of g5.xlarge in ap-east-2, and none is guessed: it is asked for again");
    assert_snapshot!(check(&on_spot(None, None), &elsewhere, &[("ap-east-2a", "g5.xlarge", 1)]), @"none: no price is known of g5.xlarge in ap-east-2, and none is guessed: it is asked for again");
    assert_snapshot!(check(&on_spot(Some(2), None), &elsewhere, &[("ap-east-2a", "g5.xlarge", 1)]), @"ap-east-2a g5.xlarge spot 1/2 L-3819A6DF ami-ap-east-2-x86_64");
    let local = CapacityPool { zone: "us-east-1-bos-1a".to_owned(), ..pool("us-east-1a", "g5.xlarge") };
    assert_snapshot!(check(&terms(), std::slice::from_ref(&local), &[]), @"none: no price is known of g5.xlarge in us-east-1, and none is guessed: it is asked for again");
    assert_snapshot!(check(&on_spot(Some(2), None), &[local], &[]), @"none: no price is known of g5.xlarge in us-east-1, and none is guessed: it is asked for again");
}

#[test]
fn a_free_machine_is_a_mistake_of_the_list() {
    let mut document = live(&[("us-east-1a", "g5.xlarge", 0)]);
    document.learn_listed("us-east-1".into(), "g5.xlarge".into(), Some(0), time(NOW));
    for terms in [terms(), on_spot(None, None), on_spot(Some(1), None)] {
        assert!(ranked(&terms, &two_zones()[..1], document.clone(), None).is_err());
    }
}

#[test]
fn the_notification_names_what_does_not_fit() {
    let all: Vec<CapacityPool> = TYPES.iter().map(|(name, ..)| pool("us-east-1a", name)).collect();
    assert_snapshot!(check(&terms(), &[], &[]), @"none: no zone of the home region has both a subnet that may be used and any GPU instance type");
    assert_snapshot!(check(&asking(1, 0, &["g9.xlarge", "p5.48xlarge"]), &[], &[]), @"none: no zone of the home region has both a subnet that may be used and one of g9.xlarge, p5.48xlarge");
    assert_snapshot!(check(&asking(1, 0, &["g9.xlarge"]), &all, &[]), @"none: no zone of us-east-1 that may be used has g9.xlarge");
    assert_snapshot!(check(&asking(16, 0, &[]), &all, &[]), @"none: no type that fits has 16 GPUs; the most are 8, of p4d.24xlarge");
    assert_snapshot!(check(&asking(1, 25, &["g5.xlarge", "g6.xlarge"]), &all, &[]), @"none: no type that fits has 1 GPU or more with 25 GiB of memory each; the largest is 22.3 GiB, of g5.xlarge");
    assert_snapshot!(check(&asking(8, 100, &[]), &all, &[]), @"none: no type that fits has 8 GPUs or more with 100 GiB of memory each; the largest is 80 GiB, of p5.48xlarge");
    let mut offloads = asking(1, 0, &["g5.xlarge"]);
    offloads.machine.memory_gib = 17;
    assert_snapshot!(check(&offloads, &all, &[]), @"none: no type that fits has 17 GiB of memory for what `gpu.model.offload` takes; the largest is g5.xlarge, with 16 GiB");
    let no_spot: Vec<CapacityPool> = all.iter().map(|pool| CapacityPool { spot: false, ..pool.clone() }).collect();
    assert_snapshot!(check(&on_spot(None, Some(60)), &no_spot, &[]), @"none: AWS sells none of these on Spot: g4dn.xlarge, g5.xlarge, g6.xlarge; set `spot.fallback_to_on_demand_after`, or `spot.enabled = false`; left out: g5.12xlarge with 4 GPUs at $5.67/h, p4d.24xlarge with 8 GPUs at $21.96/h, p5.48xlarge with 8 GPUs at $55.04/h: more than 1 GPU; to allow one, name it in `gpu.types`");
}

#[test]
fn it_is_said_which_image_is_missing() {
    let pools = [pool("us-east-1a", "g5g.xlarge")];
    let none = rank(
        &asking(1, 0, &["g5g.xlarge"]),
        &pools,
        vec![image("us-east-1", "x86_64")],
        &book(live(&[])),
        None,
        policy(&Config::default()),
        time(NOW),
    );
    assert_snapshot!(none.unwrap_err().to_string(), @"there is no image to boot for arm64 in us-east-1");
}

#[test]
fn nothing_is_launched_in_an_unobserved_region() {
    let config = Config::read("regions = [\"eu-west-1\"]").unwrap();
    let rank =
        |pools: &[CapacityPool]| rank(&terms(), pools, images(), &book(live(&[])), None, policy(&config), time(NOW));
    assert_snapshot!(rank(&two_zones()).unwrap_err().to_string(), @"Curfew does not cover us-east-1: `regions` of its configuration does not name it, so nothing would terminate a machine there, or count its cost");
}

/// What has to be asked first: types on demand, types on Spot.
fn asked(terms: &JobTerms, known: &PriceDocument) -> (Vec<String>, Vec<String>) {
    let pools = [pool("us-east-1a", "g5.xlarge"), pool("us-east-1b", "g5.xlarge"), pool("us-east-1a", "p5.48xlarge")];
    let wanted = prices_wanted(terms, &pools, known, policy(&Config::default()), time(NOW));
    let spot = wanted.spot.values().flat_map(|(types, _)| types.iter().map(ToString::to_string));
    (wanted.listed.iter().map(|question| format!("{question:?}")).collect(), spot.collect())
}

#[test]
fn prices_are_requested_once_and_only_for_fitting_types() {
    let small = |terms: JobTerms| JobTerms { gpu: asking(1, 0, &["g5.xlarge"]).gpu, ..terms };
    let (listed, spot) = asked(&small(terms()), &PriceDocument::default());
    assert_eq!((listed.len(), spot.len()), (1, 0), "{listed:?} {spot:?}");
    let (listed, spot) = asked(&on_spot(None, None), &PriceDocument::default());
    assert_eq!((listed.len(), spot), (1, vec!["g5.xlarge".to_owned()]), "no price of what the job does not get");
    let both = |terms: JobTerms| JobTerms { gpu: asking(1, 0, &["g5.xlarge", "p5.48xlarge"]).gpu, ..terms };
    let (listed, spot) = asked(&both(on_spot(None, None)), &PriceDocument::default());
    assert_eq!((listed.len(), spot), (2, vec!["g5.xlarge".to_owned(), "p5.48xlarge".to_owned()]));
    let mut known = live(&[("us-east-1a", "g5.xlarge", 5)]);
    known.learn_listed("us-east-1".into(), "p5.48xlarge".into(), Some(7), time(NOW));
    let (listed, spot) = asked(&both(on_spot(None, None)), &known);
    assert_eq!((listed.len(), spot), (1, vec!["p5.48xlarge".to_owned()]));
    assert!(listed[0].contains("g5.xlarge"), "{listed:?}");
    assert_eq!(asked(&asking(64, 0, &[]), &PriceDocument::default()), (Vec::new(), Vec::new()));
}

#[test]
fn the_transfer_of_checkpoints_counts_for_the_order_and_not_for_the_price() {
    let by = |size_gb: Option<u32>| {
        let checkpoint =
            crate::next::tests::fixture::terms().checkpoint.map(|one| crate::CheckpointSpec { size_gb, ..one });
        let terms = JobTerms { checkpoint, bucket_region: Some("us-east-2".into()), ..on_spot(Some(500_000), None) };
        let prices = [("us-east-1a", "g6.xlarge", 200_000), ("us-east-2a", "g6.xlarge", 300_000)];
        let ranking =
            ranked(&terms, &[pool("us-east-1a", "g6.xlarge"), pool("us-east-2a", "g6.xlarge")], live(&prices), None);
        let shown = |one: &Candidate| {
            let transfer = one.transfer.map(|one| (one.usd_per_hour.usd_micros_per_hour(), one.usd_per_machine.usd()));
            (one.zone.clone(), one.rate.usd_micros_per_hour(), transfer)
        };
        ranking.unwrap().candidates.iter().map(shown).collect::<Vec<_>>()
    };
    let (here, there) = (("us-east-2a".to_owned(), 300_000, None), "us-east-1a".to_owned());
    assert_eq!(by(None), [(there.clone(), 200_000, None), here.clone()]);
    assert_eq!(by(Some(2)), [(there.clone(), 200_000, Some((80_000, 0.04))), here.clone()]);
    assert_eq!(by(Some(3)), [here, (there, 200_000, Some((120_000, 0.06)))]);
}

/// The MiB that EC2 reports, and the nominal size (EC2 user guide, "Instance types", accelerated computing).
#[test]
fn a_gpu_has_the_memory_that_it_is_sold_with() {
    let fits = |mib: u32, asked: u32| {
        let pools = [CapacityPool { gpu_memory_mib: mib, ..pool("us-east-1a", "g5.xlarge") }];
        ranked(&asking(1, asked, &[]), &pools, PriceDocument::default(), None).is_ok()
    };
    for (mib, sold) in
        [(15_258, 16), (16_384, 16), (22_888, 24), (24_576, 24), (45_776, 48), (81_920, 80), (144_384, 141)]
    {
        assert!(fits(mib, sold), "{sold} GB are {mib} MiB");
    }
    assert!(!fits(22_887, 24) && !fits(22_888, 25) && !fits(15_258, 17) && fits(1, 0));
}

#[test]
fn more_than_are_kept_are_cut_to_the_cheapest_and_one_of_each_zone() {
    let subnets = |zone: &str, name: &str, count: usize| -> Vec<CapacityPool> {
        let numbered =
            |number| CapacityPool { subnet: format!("subnet-{number:03}").as_str().into(), ..pool(zone, name) };
        (0..count).map(numbered).collect()
    };
    let pools = [subnets("us-east-1a", "g6.xlarge", 100), subnets("us-east-1b", "g5.xlarge", 100)].concat();
    let ranking = ranked(&terms(), &pools, live(&[]), None).unwrap();
    let count_in = |zone: &str| ranking.candidates.iter().filter(|one| one.zone == zone).count();
    assert_eq!((count_in("us-east-1a"), count_in("us-east-1b")), (59, 1));
    assert_eq!(ranking.candidates.last().unwrap().zone, "us-east-1b");
}

/// What is given to [`next`](crate::next) is what was ranked from the very job.
#[test]
fn without_any_spot_it_falls_back_to_the_on_demand_cost() {
    use crate::{EffectResult, HoldReason, Job, JobFacts, JobId, Phase, next};
    let pools = [CapacityPool { spot: false, ..pool("us-east-1a", "g6.xlarge") }];
    let id = JobId::read("vision/llama-1a2b3c4d").unwrap();
    let terms = JobTerms { max_runtime_seconds: 8 * 3_600, ..on_spot(None, Some(2 * 3_600)) };
    let mut job = Job::submitted(id, None, terms, time(NOW));
    let placed_after = (0..1_000).map(|minutes| minutes * 10).find(|minutes| {
        let now = time(NOW) + SignedDuration::from_mins(*minutes);
        let known = JobFacts { may_act: true, head: Some(None), cancel: Some(None), ..JobFacts::default() };
        (job, _) = next(&job, &known, now);
        let ranked = rank(
            &job.terms,
            &pools,
            images(),
            &book(PriceDocument::default()),
            job.unplaced_since,
            policy(&Config::default()),
            now,
        );
        (job, _) = next(&job, &JobFacts { answer: Some(EffectResult::Ranked(ranked)), ..known }, now);
        let is_held = matches!(&job.phase, Phase::Held(held) if held.by == HoldReason::Unplaceable);
        assert!(is_held || job.phase == Phase::Reserving, "{:?}", job.phase);
        !is_held
    });
    assert_eq!(placed_after, Some(120));
    assert!(job.ranking.unwrap().candidates.iter().all(|one| one.lifecycle == Lifecycle::OnDemand));
}
