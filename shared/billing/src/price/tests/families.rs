//! Prices of whole families of types, which a command asks for and caches.

use super::*;

#[test]
fn a_family_of_a_region_is_one_question() {
    let wanted = |names: &[(&str, &str)], known: &PriceDocument| {
        let types = names.iter().map(|(region, name)| (Region::from(*region), TypeName::from(*name))).collect();
        known.wanted_of_families(&types, &BTreeSet::from(["eu-west-1".into()]), time(NOW)).listed
    };
    let family = |region: &str, family| PriceQuery::Family(region.into(), family);
    let names = [
        ("us-east-1", "g5.xlarge"),
        ("us-east-1", "p5.48xlarge"),
        ("us-east-1", "inf2.xlarge"),
        ("eu-west-1", "g6.xlarge"),
    ];
    assert_eq!(
        wanted(&names, &PriceDocument::default()),
        [
            family("eu-west-1", list::InstanceFamily::Gpu),
            family("us-east-1", list::InstanceFamily::Gpu),
            family("us-east-1", list::InstanceFamily::MachineLearning),
            PriceQuery::Storage("eu-west-1".into()),
        ]
    );
    let mut known = listed(Some(2_000_000), AS_OF);
    known.learn_storage("eu-west-1".into(), StoragePrices::default(), time(AS_OF));
    assert_eq!(wanted(&names[..1], &known), []);
    assert_eq!(wanted(&names[..2], &known), [family("us-east-1", list::InstanceFamily::Gpu)]);
}

#[test]
fn a_cache_is_believed_for_a_day() {
    let kept = |document: PriceDocument| document.cacheable(time(NOW)) != PriceDocument::default();
    assert!(kept(listed(Some(2_000_000), AS_OF)) && kept(listed(None, AS_OF)));
    assert!(!kept(listed(Some(2_000_000), "2026-08-31T11:59:59Z")), "older than a day");
    assert!(!kept(listed(Some(2_000_000), "2026-09-01T12:00:01Z")), "of the future");
    assert!(!kept(listed(Some(0), AS_OF)) && !kept(listed(Some(u64::MAX), AS_OF)));
    assert!(!kept(spot()));
    let storage_document = |usd_micros| {
        let gib_month = BTreeMap::from([("gp3".to_owned(), usd_micros)]);
        let mut document = PriceDocument::default();
        document.learn_storage(
            "eu-west-1".into(),
            StoragePrices { gib_month, ..StoragePrices::default() },
            time(AS_OF),
        );
        document
    };
    assert!(kept(storage_document(90_000)) && !kept(storage_document(0)));
    let mut large = PriceDocument::default();
    for place in 0..20_001 {
        large.learn_listed("us-east-1".into(), TypeName::new(format!("g{place}.xlarge")), Some(1), time(AS_OF));
    }
    assert!(!kept(large));
}

#[test]
fn an_answer_of_a_family_adds_what_has_no_price_of_today() {
    let mut known = listed(Some(2_000_000), AS_OF);
    let answer = || BTreeMap::from([("g5.xlarge".into(), Some(1_006_000)), ("g6.xlarge".into(), None)]);
    known.learn_family(&"us-east-1".into(), answer(), time(NOW));
    let price = |known: &PriceDocument, name: &str| {
        known.on_demand[&Region::from("us-east-1")][&TypeName::from(name)].usd_micros_per_hour
    };
    assert_eq!((price(&known, "g5.xlarge"), price(&known, "g6.xlarge")), (Some(2_000_000), None));
    let mut old = listed(Some(2_000_000), "2026-08-30T12:00:00Z");
    old.learn_family(&"us-east-1".into(), answer(), time(NOW));
    assert_eq!(price(&old, "g5.xlarge"), Some(1_006_000));
}

#[test]
fn the_younger_of_two_list_prices_counts() {
    let mut known = listed(Some(1_000_000), "2026-08-31T00:00:00Z");
    known.merge(listed(Some(2_000_000), AS_OF));
    assert_eq!(known, listed(Some(2_000_000), AS_OF));
    known.merge(listed(Some(1_000_000), "2026-08-31T00:00:00Z"));
    assert_eq!(known, listed(Some(2_000_000), AS_OF));
}
