//! What holds of every ranking.

use proptest::prelude::*;

use super::*;

fn any_pools() -> impl Strategy<Value = Vec<CapacityPool>> {
    let region = prop::sample::select(vec!["eu-west-1", "us-east-1", "us-east-2"]);
    let zone = prop::sample::select(vec!["a", "b", "c", "d", "e", "f"]);
    let name = prop::sample::select(TYPES.map(|(name, ..)| name).to_vec());
    let any_pool =
        (region, zone, name, any::<bool>(), 0..2_u8).prop_map(|(region, zone, name, spot, subnet)| CapacityPool {
            spot,
            subnet: format!("subnet-{zone}{subnet}").as_str().into(),
            ..pool(&format!("{region}{zone}"), name)
        });
    prop::collection::vec(any_pool, 0..150)
}

fn any_terms() -> impl Strategy<Value = JobTerms> {
    let types = prop::collection::vec(prop::sample::select(TYPES.map(|(name, ..)| name).to_vec()), 0..3);
    let rate = (1..60_000_000_u64).prop_map(Rate::from_usd_micros_per_hour);
    let spot = (prop::option::of(rate), prop::option::of(0..20_000_i64));
    let spot = prop::option::of(spot.prop_map(|(max_rate, fallback_to_on_demand_after_seconds)| SpotSpec {
        max_rate,
        fallback_to_on_demand_after_seconds,
    }));
    (1..9_u32, 0..50_u32, types, spot)
        .prop_map(|(count, memory, types, spot)| JobTerms { spot, ..asking(count, memory, &types) })
}

fn any_document() -> impl Strategy<Value = PriceDocument> {
    let zone = prop::sample::select(vec!["eu-west-1a", "us-east-1a", "us-east-1b", "us-east-1c", "us-east-2a"]);
    let name = prop::sample::select(TYPES.map(|(name, ..)| name).to_vec());
    let on_spot = prop::collection::vec((zone, name.clone(), 0..40_000_000_u64), 0..30);
    let region = prop::sample::select(vec!["eu-west-1", "us-east-1", "us-east-2"]);
    let listed = prop::collection::vec((region, name, prop::option::of(0..60_000_000_u64)), 0..20);
    (on_spot, listed).prop_map(|(on_spot, listed)| {
        let mut document = live(&on_spot);
        for (region, name, price) in listed {
            document.learn_listed(region.into(), name.into(), price, time(NOW));
        }
        document
    })
}

fn zones<'a>(places: impl Iterator<Item = (&'a Region, &'a String)>) -> BTreeSet<(&'a Region, &'a String)> {
    places.collect()
}

proptest! {
    #[test]
    fn candidates_fit_are_in_order_and_within_their_bounds(
        terms in any_terms(),
        (pools, shuffled) in any_pools().prop_flat_map(|pools| (Just(pools.clone()), Just(pools).prop_shuffle())),
        document in any_document(),
        unplaced_minutes in prop::option::of(0..600_i64),
    ) {
        let ranking = ranked(&terms, &pools, document.clone(), unplaced_minutes);
        prop_assert_eq!(&ranking, &ranked(&terms, &shuffled, document.clone(), unplaced_minutes), "whatever order they came in");
        let Ok(Ranking { candidates, images, .. }) = ranking else { return Ok(()) };
        prop_assert!(!candidates.is_empty() && candidates.len() <= Ranking::MAX);
        prop_assert!(candidates.is_sorted_by_key(|one| one.rate));
        let prices = book(document);
        let fits = |pool: &&CapacityPool| {
            pool.architecture == "x86_64"
                && pool.gpus >= terms.gpu.count
                && (u64::from(pool.gpu_memory_mib) + 1) << 20 > u64::from(terms.gpu.memory_gib_min) * 1_000_000_000
        };
        let fewest = pools.iter().filter(fits).map(|pool| pool.gpus).min();
        let listed = |pool: &CapacityPool| prices.on_demand(&pool.region, &pool.instance_type).map(|quote| quote.rate).filter(|rate| *rate > Rate::ZERO);
        let cheapest = pools.iter().filter(fits).filter(|pool| Some(pool.gpus) == fewest).filter_map(|pool| listed(pool).or(prices.lowest_on_demand(&pool.instance_type))).min();
        for one in &candidates {
            let is_candidate = |pool: &&CapacityPool| (&pool.zone, &pool.subnet, &pool.instance_type) == (&one.zone, &one.subnet, &one.instance_type);
            let matching: Vec<&CapacityPool> = pools.iter().filter(is_candidate).collect();
            let pool = matching[0];
            prop_assert!(pool.gpus >= terms.gpu.count && (u64::from(pool.gpu_memory_mib) + 1) << 20 > u64::from(terms.gpu.memory_gib_min) * 1_000_000_000);
            prop_assert!(terms.gpu.types.is_empty() || terms.gpu.types.contains(&one.instance_type));
            prop_assert!(!terms.gpu.types.is_empty() || pool.architecture == "x86_64");
            if terms.gpu.types.is_empty() {
                prop_assert_eq!(Some(pool.gpus), fewest);
                let says_a_price = one.lifecycle == Lifecycle::Spot && terms.spot.as_ref().is_some_and(|spot| spot.max_rate.is_some());
                let within = listed(pool).zip(cheapest).is_some_and(|(rate, cheapest)| rate <= cheapest + cheapest + cheapest);
                prop_assert!(within || says_a_price, "{one:?}");
            }
            prop_assert!(one.rate > Rate::ZERO && one.rate <= one.rate_max);
            let image = &images[usize::from(one.image)];
            prop_assert_eq!(image.ami.as_str(), format!("ami-{}-{}", pool.region, pool.architecture));
            prop_assert!(one.quota.is_some());
            let listed = prices.on_demand(&one.region, &one.instance_type).map(|quote| quote.rate);
            if one.lifecycle == Lifecycle::Spot {
                let spot = terms.spot.as_ref().unwrap();
                prop_assert!(matching.iter().any(|pool| pool.spot));
                prop_assert!(spot.max_rate.is_none_or(|max| one.rate_max <= max));
                prop_assert!(listed.is_none_or(|listed| listed == Rate::ZERO || one.rate_max <= listed));
            } else {
                prop_assert_eq!(Some(one.rate_max), listed);
                let may = terms.spot.as_ref().is_none_or(|spot| {
                    let after = spot.fallback_to_on_demand_after_seconds;
                    unplaced_minutes.zip(after).is_some_and(|(minutes, after)| minutes * 60 >= after)
                });
                prop_assert!(may);
            }
        }
        let distinct: BTreeSet<_> = candidates
            .iter()
            .map(|one| (&one.zone, &one.subnet, &one.instance_type, one.lifecycle))
            .collect();
        prop_assert_eq!(distinct.len(), candidates.len());
    }

    #[test]
    fn no_zone_is_forgotten_for_the_sake_of_a_cheaper_one(pools in any_pools()) {
        let names: Vec<&str> = TYPES.iter().map(|(name, ..)| *name).collect();
        let Ok(ranking) = ranked(&asking(1, 0, &names), &pools, live(&[]), None) else { return Ok(()) };
        let priced = pools.iter().filter(|pool| book(live(&[])).on_demand(&pool.region, &pool.instance_type).is_some());
        let all = zones(priced.map(|pool| (&pool.region, &pool.zone)));
        let kept = zones(ranking.candidates.iter().map(|one| (&one.region, &one.zone)));
        prop_assert_eq!(all, kept);
    }
}
