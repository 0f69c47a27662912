//! Prices by their sources: live, dated, and none.

mod families;
mod volumes;

use model::config::Config;
use model::fixture::{InstanceBuilder, NOW, instance, time, volume};
use model::instance::{InstanceState, PrepaidCapacity};

use super::*;

const AS_OF: &str = "2026-09-01T00:00:00Z";

#[test]
fn a_price_is_known_or_not_but_never_guessed() {
    let book = PriceBook::dated();
    let usd = |instance: InstanceBuilder| rate(book.saved_by_ending(&instance.build())).map(Rate::usd_per_hour);
    let p5 = || instance().of_type("p5.48xlarge");
    assert_eq!(usd(p5()), Some(55.04));
    assert_eq!(usd(p5().in_zone("us-east-1a")), Some(55.04));
    assert_eq!(usd(p5().in_zone("us-east-1-bos-1a")), None);
    assert_eq!(usd(p5().region("eu-west-1")), None);
    assert_eq!(usd(instance().of_type("p9.48xlarge")), None);
    assert_eq!(usd(p5().purchase(PurchaseOption::SpotOneTime).in_zone("us-east-1a")), None);
    assert_eq!(usd(p5().prepaid(PrepaidCapacity::CapacityReservation)), Some(0.0));
}

/// What is shown of an instance at [`NOW`] with that document.
fn check(of: InstanceBuilder, live: &PriceDocument, config: &str, expect: &str) {
    let config = Config::read(config).unwrap();
    let book = PriceBook::from_document(live.clone(), &config.prices, time(NOW));
    assert_eq!(format_quote(book.saved_by_ending(&of.build())), expect, "{live:?} {config:?}");
}

fn listed(usd_micros: Option<u64>, as_of: &str) -> PriceDocument {
    let mut document = PriceDocument::default();
    document.learn_listed("us-east-1".into(), "g5.xlarge".into(), usd_micros, time(as_of));
    document
}

#[test]
fn a_live_price_wins_over_the_table_and_an_old_one_is_named_until_it_no_longer_counts() {
    check(instance(), &PriceDocument::default(), "", "$1.01/h ($734 a month; table of 2026-09-24)");
    check(instance(), &listed(Some(2_000_000), AS_OF), "", "$2.00/h ($1,460 a month)");
    check(
        instance(),
        &listed(Some(2_000_000), "2026-08-28T12:00:00Z"),
        "",
        "$2.00/h ($1,460 a month; Price List of 2026-08-28)",
    );
    let forgotten = listed(Some(2_000_000), "2026-08-25T11:59:59Z");
    check(instance(), &forgotten, "", "$1.01/h ($734 a month; table of 2026-09-24)");
}

#[test]
fn where_the_list_does_not_say_one_price_neither_does_the_table() {
    check(instance(), &listed(None, AS_OF), "", "price unknown");
    check(instance().region("ap-east-2"), &listed(Some(1), AS_OF), "", "price unknown");
}

#[test]
fn a_discount_is_of_its_family_on_demand() {
    let config = "[prices]\ndiscount_percent = { g5 = 12.5, p5 = 50 }";
    let live = listed(Some(2_000_000), AS_OF);
    check(instance(), &live, config, "$1.75/h ($1,277 a month)");
    check(instance(), &PriceDocument::default(), config, "$0.88/h ($642 a month; table of 2026-09-24)");
    check(instance().of_type("p5en.48xlarge"), &live, config, "$63.30/h ($46,206 a month; table of 2026-09-24)");
    check(on_spot("us-east-1a"), &spot(), config, "$0.40/h ($292 a month; Spot price of 2026-09-01 11:50 UTC)");
}

#[test]
fn a_discount_is_exact_to_the_micro_usd() {
    let of = |percent, usd_micros| {
        let rate = Discount::from_percent(percent).apply_to(Rate::from_usd_micros_per_hour(usd_micros));
        rate.usd_micros_per_hour()
    };
    assert_eq!([of(0.0, 7), of(100.0, 7), of(12.5, 55_040_000), of(33.3333, 3_000_000)], [7, 0, 48_160_000, 2_000_001]);
    assert_eq!([of(50.0, 1), of(50.0, 3), of(-3.0, 10), of(f64::NAN, 10)], [1, 2, 10, 10]);
    assert_eq!(of(0.0, u64::MAX), u64::MAX);
}

fn on_spot(zone: &str) -> InstanceBuilder {
    instance().purchase(PurchaseOption::SpotOneTime).in_zone(zone)
}

fn change(zone: &str, from: &str, usd_micros_per_hour: u64) -> SpotPrice {
    SpotPrice { instance_type: "g5.xlarge".into(), zone: zone.to_owned(), from: time(from), usd_micros_per_hour }
}

fn g5() -> BTreeSet<TypeName> {
    BTreeSet::from(["g5.xlarge".into()])
}

/// Asked for at 11:50.
fn spot() -> PriceDocument {
    let mut document = PriceDocument::default();
    let changes = vec![
        change("us-east-1a", "2026-08-30T00:00:00Z", 300_000),
        change("us-east-1a", "2026-09-01T11:00:00Z", 400_000),
        change("us-east-1b", "2026-08-30T00:00:00Z", 350_000),
    ];
    document.learn_spot(&"us-east-1".into(), &g5(), changes, time("2026-09-01T11:50:00Z"));
    document
}

#[test]
fn spot_has_the_price_of_its_zone_for_an_hour() {
    check(on_spot("us-east-1a"), &spot(), "", "$0.40/h ($292 a month; Spot price of 2026-09-01 11:50 UTC)");
    check(on_spot("us-east-1b"), &spot(), "", "$0.35/h ($255 a month; Spot price of 2026-09-01 11:50 UTC)");
    check(on_spot("us-east-1c"), &spot(), "", "price unknown");
    check(instance().purchase(PurchaseOption::SpotOneTime), &spot(), "", "price unknown");
    check(on_spot("us-east-1a").of_type("g5.2xlarge"), &spot(), "", "price unknown");
    let mut old = spot();
    old.learn_spot(&"us-east-1".into(), &g5(), Vec::new(), time("2026-09-01T10:59:59Z"));
    check(on_spot("us-east-1a"), &old, "", "price unknown");
}

#[test]
fn the_ledger_learns_from_when_on_each_price_holds() {
    let known = |document: &PriceDocument, of: InstanceBuilder| {
        let book = PriceBook::from_document(document.clone(), &PricesConfig::default(), time(NOW));
        let known = book.known_rates(&of.build());
        known.into_iter().map(|(from, rate)| format!("{from} {rate}")).collect::<Vec<_>>()
    };
    let changes = ["2026-08-30T00:00:00Z $0.30/h", "2026-09-01T11:00:00Z $0.40/h"];
    assert_eq!(known(&spot(), on_spot("us-east-1a")), changes);
    assert!(known(&spot(), on_spot("us-east-1c")).is_empty());
    assert_eq!(known(&spot(), instance()), ["2026-09-24T00:00:00Z $1.01/h"]);
    let mut says_the_same = listed(Some(2_000_000), "2026-08-30T00:00:00Z");
    says_the_same.learn_listed("us-east-1".into(), "g5.xlarge".into(), Some(2_000_000), time(AS_OF));
    assert_eq!(known(&says_the_same, instance()), ["2026-08-30T00:00:00Z $2.00/h"]);
    says_the_same.learn_listed("us-east-1".into(), "g5.xlarge".into(), Some(3_000_000), time(NOW));
    assert_eq!(known(&says_the_same, instance()), ["2026-09-01T12:00:00Z $3.00/h"]);
}

#[test]
fn a_reserved_instance_saves_nothing() {
    let book = PriceBook::from_document(listed(Some(2_000_000), AS_OF), &PricesConfig::default(), time(NOW));
    let check = |of: InstanceBuilder, expect: &str| {
        let instance = of.build();
        assert_eq!(book.saved_by_ending(&instance).map(|saved| saved.rate), Some(Rate::ZERO), "{instance:?}");
        assert_eq!(format_quote(book.running_cost(&instance)), expect, "{instance:?}");
        // The ledger has the same, and never a zero for an unknown price.
        let known: Vec<Rate> = book.known_rates(&instance).into_iter().map(|(_, rate)| rate).collect();
        assert_eq!(known, Vec::from_iter(rate(book.running_cost(&instance))), "{instance:?}");
    };
    let block = || instance().purchase(PurchaseOption::CapacityBlock);
    check(instance().prepaid(PrepaidCapacity::CapacityReservation), "$2.00/h ($1,460 a month)");
    check(instance().prepaid(PrepaidCapacity::CapacityReservation).in_zone("us-east-1-bos-1a"), "price unknown");
    check(instance().prepaid(PrepaidCapacity::CapacityReservation).of_type("p9.48xlarge"), "price unknown");
    check(instance().prepaid(PrepaidCapacity::DedicatedHost), "price unknown");
    check(block(), "price unknown");
    // EC2 names the reservation of a Capacity Block as well.
    check(block().prepaid(PrepaidCapacity::CapacityReservation), "price unknown");
}

#[test]
fn the_ledger_learns_the_same_of_volumes() {
    let known = |document: PriceDocument| {
        let book = PriceBook::from_document(document, &PricesConfig::default(), time(NOW));
        book.known_rates_of_volume(&gp3()).into_iter().map(|(from, rate)| format!("{from} {rate}")).collect::<Vec<_>>()
    };
    assert_eq!(known(PriceDocument::default()), ["2026-09-30T00:00:00Z $0.01/h"]);
    let mut document = PriceDocument::default();
    let prices =
        || StoragePrices { gib_month: BTreeMap::from([("gp3".to_owned(), 7_300_000)]), ..StoragePrices::default() };
    document.learn_storage("us-east-1".into(), prices(), time("2026-08-30T00:00:00Z"));
    document.learn_storage("us-east-1".into(), prices(), time(AS_OF));
    assert_eq!(known(document), ["2026-08-30T00:00:00Z $1.00/h"]);
}

#[test]
fn only_missing_or_old_prices_are_requested() {
    let instances = [
        instance().build(),
        instance().of_type("p5.48xlarge").build(),
        on_spot("us-east-1a").build(),
        on_spot("eu-west-1a").region("eu-west-1").build(),
        instance().of_type("g6.xlarge").state(InstanceState::Terminated).build(),
    ];
    let regions = [Region::from("us-east-1")];
    let mut known = listed(None, "2026-08-31T12:00:01Z");
    known.spot = spot().spot;
    let wanted = known.wanted(&instances, &regions, &BTreeSet::new(), time(NOW));
    assert_eq!(
        wanted.listed,
        [
            // What has ended since the last run ran at that price.
            PriceQuery::Instance("us-east-1".into(), "g6.xlarge".into()),
            PriceQuery::Instance("us-east-1".into(), "p5.48xlarge".into()),
            PriceQuery::Storage("us-east-1".into())
        ]
    );
    let spot: Vec<String> =
        wanted.spot.iter().map(|(region, (types, since))| format!("{region} {} {since}", types.len())).collect();
    assert_eq!(spot, ["eu-west-1 1 2026-09-01T11:00:00Z", "us-east-1 1 2026-09-01T11:40:00Z"]);

    known.learn_spot(&"us-east-1".into(), &g5(), Vec::new(), time("2026-09-01T11:50:01Z"));
    known.learn_storage("us-east-1".into(), StoragePrices::default(), time(AS_OF));
    known.learn_listed("us-east-1".into(), "p5.48xlarge".into(), Some(1), time(NOW));
    assert_eq!(known.wanted(&instances[..3], &regions, &BTreeSet::new(), time(NOW)), PriceQueries::default());
    let ended_on_spot = [on_spot("us-east-1a").of_type("p5.48xlarge").state(InstanceState::ShuttingDown).build()];
    assert_eq!(known.wanted(&ended_on_spot, &regions, &BTreeSet::new(), time(NOW)).spot.len(), 1);
    let of_tomorrow = listed(Some(1), "2026-09-02T12:00:00Z");
    assert_eq!(of_tomorrow.wanted(&instances[..1], &[], &BTreeSet::new(), time(NOW)).listed.len(), 1);
}

/// Since when changes are asked for of what that runs on Spot, after prices that were asked for at 11:50.
fn check_since(now: &str, expect: &str) {
    let mut known = spot();
    known.prune(time(now));
    let wanted = known.wanted(&[on_spot("us-east-1a").build()], &[], &BTreeSet::new(), time(now));
    let since: Vec<String> = wanted.spot.values().map(|(_, since)| since.to_string()).collect();
    assert_eq!(since, [expect], "{now}");
}

#[test]
fn after_a_while_without_an_answer_every_change_since_is_asked_for() {
    check_since("2026-09-01T12:05:00Z", "2026-09-01T11:40:00Z");
    check_since("2026-09-02T12:00:00Z", "2026-09-01T11:40:00Z");
    check_since("2026-09-08T11:50:00Z", "2026-09-01T11:50:00Z");
    // A week at most.
    check_since("2026-09-20T12:00:00Z", "2026-09-20T11:00:00Z");
}

#[test]
fn a_run_asks_the_list_only_so_much() {
    let instances: Vec<Instance> = (0..60).map(|n| instance().of_type(&format!("g5.{n}xlarge")).build()).collect();
    let wanted = PriceDocument::default().wanted(&instances, &["us-east-1".into()], &BTreeSet::new(), time(NOW));
    assert_eq!(wanted.listed.len(), 50);
    assert!(matches!(wanted.listed[49], PriceQuery::Instance(..)));
}

#[test]
fn expired_reservations_are_dropped() {
    let mut document = spot();
    document.learn_listed("us-east-1".into(), "g5.xlarge".into(), Some(1), time("2026-08-25T11:59:59Z"));
    document.learn_storage("us-east-1".into(), StoragePrices::default(), time("2026-08-25T11:59:59Z"));
    let later = time("2026-09-01T17:30:00Z");
    document.prune(later);
    assert!(document.on_demand.is_empty() && document.storage.is_empty());
    let zones = &document.spot[&Region::from("us-east-1")][&TypeName::from("g5.xlarge")].zones;
    // What was in force when that which is kept began is kept.
    assert_eq!(zones["us-east-1a"].values().copied().collect::<Vec<_>>(), [400_000]);
    assert_eq!(zones["us-east-1b"].values().copied().collect::<Vec<_>>(), [350_000]);
    document.prune(time("2026-09-08T11:50:01Z"));
    assert_eq!(document, PriceDocument::default());
}

#[test]
fn a_document_survives_writing_and_reading() {
    let mut document = spot();
    document.learn_listed("us-east-1".into(), "g5.xlarge".into(), None, time(NOW));
    document.learn_storage("us-east-1".into(), dated::storage(&"us-east-1".into()).unwrap().0, time(NOW));
    let json = serde_json::to_string(&document).unwrap();
    assert_eq!(serde_json::from_str::<PriceDocument>(&json).unwrap(), document);
    assert_eq!(serde_json::from_str::<PriceDocument>("{}").unwrap(), PriceDocument::default());
}

#[test]
fn a_damaged_moment_makes_the_document_unreadable() {
    let read = |as_of: &str, from: &str| {
        let listed = format!(r#"{{"usd_micros_per_hour":1,"as_of":"{as_of}","from":"{from}"}}"#);
        let storage = format!(r#"{{"as_of":"{as_of}","from":"{from}"}}"#);
        let spot = format!(r#"{{"as_of":"{as_of}","zones":{{}}}}"#);
        let document = |of: &str| serde_json::from_str::<PriceDocument>(of).is_ok();
        [
            document(&format!(r#"{{"on_demand":{{"us-east-1":{{"g5.xlarge":{listed}}}}}}}"#)),
            document(&format!(r#"{{"storage":{{"us-east-1":{storage}}}}}"#)),
            document(&format!(r#"{{"spot":{{"us-east-1":{{"g5.xlarge":{spot}}}}}}}"#)),
        ]
    };
    assert_eq!(read(NOW, NOW), [true; 3]);
    assert_eq!(read("-009999-01-02T01:59:59Z", NOW), [false; 3]);
    assert_eq!(read("9999-12-30T22:00:00Z", NOW), [false; 3]);
    assert_eq!(read(NOW, "-009999-01-02T01:59:59Z"), [false, false, true]);
}

#[test]
fn a_price_of_the_future_is_none() {
    let of_table = "$1.01/h ($734 a month; table of 2026-09-24)";
    check(instance(), &listed(Some(2_000_000), "2026-09-01T13:00:00Z"), "", "$2.00/h ($1,460 a month)");
    check(instance(), &listed(Some(2_000_000), "2026-09-01T13:00:01Z"), "", of_table);
    let mut ahead = listed(Some(2_000_000), "2999-01-01T00:00:00Z");
    check(instance(), &ahead, "", of_table);
    ahead.learn_storage("us-east-1".into(), StoragePrices::default(), time("2999-01-01T00:00:00Z"));
    ahead.spot = spot().spot;
    ahead.learn_spot(&"us-east-1".into(), &g5(), Vec::new(), time("2026-09-01T13:00:01Z"));
    check(on_spot("us-east-1a"), &ahead, "", "price unknown");
    ahead.prune(time(NOW));
    assert_eq!(ahead, PriceDocument::default());
}

#[test]
fn storage_of_the_list_wins_and_what_it_leaves_out_the_table_knows() {
    let shown = |prices: StoragePrices, region: &str, volume: Volume| {
        let mut document = PriceDocument::default();
        document.learn_storage(region.into(), prices, time(AS_OF));
        let book = PriceBook::from_document(document, &PricesConfig::default(), time(NOW));
        let zone = format!("{region}a");
        format_monthly_quote(book.volume_cost(&Volume { region: region.into(), zone, ..volume }))
    };
    let of_list =
        || StoragePrices { gib_month: BTreeMap::from([("gp3".to_owned(), 90_000)]), ..StoragePrices::default() };
    assert_eq!(shown(of_list(), "eu-west-1", gp3()), "$9.00 a month");
    assert_eq!(shown(of_list(), "us-east-1", gp3()), "$9.00 a month");
    let faster = || Volume { iops: Some(4_000), ..gp3() };
    assert_eq!(shown(of_list(), "eu-west-1", faster()), "price unknown");
    assert_eq!(shown(of_list(), "us-east-1", faster()), "$13.00 a month (table of 2026-09-30)");
}

#[test]
fn figures_of_tables_are_named_together() {
    let book = PriceBook::dated();
    let (volume, instance) = (book.volume_cost(&gp3()).unwrap(), book.saved_by_ending(&instance().build()).unwrap());
    let prepaid = Quote { rate: Rate::ZERO, source: PriceSource::Prepaid { costs: Some(instance.rate) } };
    let all = [volume, prepaid, instance, volume].map(Some);
    assert_eq!(
        format_quote_sum(all.into_iter()),
        "$2.03/h ($1,484 a month; table of 2026-09-24, table of 2026-09-30), of which stops save $1.03/h"
    );
    assert_eq!(
        format_quote_sum([Some(instance), None].into_iter()),
        "at least $1.01/h ($734 a month; table of 2026-09-24); 1 without a price"
    );
    assert_eq!(format_quote_sum([None, None].into_iter()), "price unknown");
    assert_eq!(with_caveats("x".to_owned(), [volume, volume].into_iter()), "x (table of 2026-09-30)");
    assert_eq!(caveats([prepaid].into_iter()), None);
    assert_eq!(format_quote(Some(prepaid)), "$1.01/h ($734 a month), of which a stop saves nothing");
    assert_eq!(describe_cost(Some(prepaid)), "It costs $1.01/h ($734 a month), of which a stop saves nothing");
    assert_eq!(describe_saving(Some(prepaid)), "That saves nothing: its capacity is paid for anyway.");
    let unknown = Quote { source: PriceSource::Prepaid { costs: None }, ..prepaid };
    assert_eq!(describe_cost(Some(unknown)), "Its price is unknown, and a stop saves nothing of it");
}

/// A gp3 volume of 100 GiB as it comes.
fn gp3() -> Volume {
    Volume { size_gib: 100, ..volume().build() }
}

/// Figures of each source, in several regions.
#[test]
fn the_table_has_the_prices_of_its_sources() {
    let usd = |region: &str, name: &str| {
        rate(PriceBook::dated().on_demand(&region.into(), &name.into())).map(Rate::usd_per_hour)
    };
    for (region, name, expect) in [
        // aws/karpenter-provider-aws, of 2026-07-20.
        ("us-east-1", "p5.4xlarge", 6.88),
        ("us-east-1", "p6-b200.48xlarge", 113.9328),
        ("us-east-1", "p6-b300.48xlarge", 142.416),
        ("us-east-1", "g7e.2xlarge", 3.36312),
        ("us-east-1", "g7.48xlarge", 28.51328),
        ("us-east-1", "g6e.2xlarge", 2.24208),
        ("us-east-1", "g5g.xlarge", 0.42),
        ("us-east-1", "trn1.2xlarge", 1.34375),
        ("us-east-1", "trn1n.32xlarge", 24.78),
        ("us-east-1", "inf2.48xlarge", 12.98127),
        ("us-east-1", "p3dn.24xlarge", 31.212),
        ("us-east-1", "dl1.24xlarge", 13.10904),
        ("us-east-1", "inf1.24xlarge", 4.721),
        ("us-east-1", "g4ad.16xlarge", 3.468),
        ("us-east-1", "vt1.24xlarge", 5.2),
        ("us-gov-west-1", "p4d.24xlarge", 26.3511),
        // The other sources.
        ("eu-south-2", "g7.2xlarge", 2.646),
        ("eu-central-1", "dl2q.24xlarge", 11.5952),
        ("eu-central-1", "g5.xlarge", 1.258),
        ("sa-east-1", "inf1.24xlarge", 7.8),
        ("eu-west-1", "vt1.24xlarge", 5.87294),
    ] {
        assert_eq!(usd(region, name), Some(expect), "{name} in {region}");
    }
    assert_eq!((usd("ap-east-2", "g5.xlarge"), usd("cn-north-1", "g4dn.xlarge")), (None, None));
    assert_eq!(table_regions().len(), 30);
}
