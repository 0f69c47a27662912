use std::collections::BTreeMap;

use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall, ReplayedCalls, aws};

const NOW: &str = "2026-09-01T12:00:00Z";
const TIMEOUT: Duration = Duration::from_mins(1);

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// A page of `GetProducts` with one product of that price in each of these attributes' words.
fn listed(usd: &str, attributes: &str, unit: &str, next: Option<&str>) -> ReplayAnswer {
    let product = format!(
        r#"{{"product":{{"productFamily":"Storage","attributes":{{"regionCode":"us-east-1",{attributes}}}}},
            "terms":{{"OnDemand":{{"a":{{"priceDimensions":{{"b":{{"unit":"{unit}","pricePerUnit":{{"USD":"{usd}"}}}}}}}}}}}}}}"#
    );
    // The products come as texts within the answer's JSON.
    let text = format!("\"{}\"", product.replace('\n', " ").replace('"', "\\\""));
    let next = next.map(|token| format!(r#","NextToken":"{token}""#)).unwrap_or_default();
    ReplayAnswer::Raw(200, format!(r#"{{"FormatVersion":"aws_v1","PriceList":[{text}]{next}}}"#).into())
}

const G5: &str = r#""instanceType":"g5.xlarge","operatingSystem":"Linux","tenancy":"Shared","preInstalledSw":"NA",
                    "capacitystatus":"Used","marketoption":"OnDemand""#;

fn wants(questions: &[PriceQuery]) -> PriceQueries {
    PriceQueries { listed: questions.to_vec(), spot: BTreeMap::new() }
}

fn g5() -> PriceQuery {
    PriceQuery::Instance("us-east-1".into(), "g5.xlarge".into())
}

/// What is known after asking, and the gaps.
async fn check(
    wanted: PriceQueries,
    script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (PriceDocument, Vec<Gap>, ReplayedCalls) {
    let (aws, calls) = aws(script);
    let mut known = PriceDocument::default();
    let gaps = prices(&aws, &mut known, &wanted, now(), TIMEOUT).await;
    (known, gaps, calls)
}

/// What the list said of every type that it was asked about.
fn learnt(known: &PriceDocument) -> Vec<Option<u64>> {
    known.on_demand.values().flat_map(|types| types.values()).map(|listed| listed.usd_micros_per_hour).collect()
}

#[tokio::test]
async fn one_call_asks_for_one_type_by_all_its_attributes() {
    let (known, gaps, calls) = check(wants(&[g5()]), |_| listed("1.0060000000", G5, "Hrs", None)).await;
    assert_eq!((learnt(&known), gaps), (vec![Some(1_006_000)], Vec::new()));
    let all = calls.recorded();
    assert_eq!((all.len(), all[0].region.as_str()), (1, "pricing"));
    let body = all[0].parameters.concat();
    for (field, value) in list::instance_filters(&"us-east-1".into(), &"g5.xlarge".into()) {
        assert!(
            body.contains(&format!(r#"{{"Field":"{field}","Type":"TERM_MATCH","Value":"{value}"}}"#)),
            "{field}: {body}"
        );
    }
    assert!(body.contains(r#""ServiceCode":"AmazonEC2""#), "{body}");
}

#[tokio::test]
async fn what_the_list_does_not_say_is_known_to_be_unknown() {
    let nothing = |_: &ReplayedCall| ReplayAnswer::Raw(200, br#"{"PriceList":[]}"#.to_vec());
    let (known, gaps, _) = check(wants(&[g5()]), nothing).await;
    assert_eq!((learnt(&known), gaps), (vec![None], Vec::new()));
}

#[tokio::test]
async fn a_broken_answer_teaches_nothing_and_is_a_gap() {
    let (known, gaps, calls) =
        check(wants(&[g5()]), |_| ReplayAnswer::Raw(200, br#"{"PriceList":["{\"product\":"]}"#.to_vec())).await;
    assert_eq!((learnt(&known), calls.recorded().len()), (Vec::new(), 3));
    assert!(gaps[0].error.starts_with("a product of the Price List cannot be read"), "{gaps:?}");
    let (known, gaps, calls) = check(wants(&[g5()]), |_| ReplayAnswer::Raw(200, Vec::new())).await;
    assert_eq!((learnt(&known), calls.recorded().len()), (Vec::new(), 3));
    assert_eq!(gaps[0].error, "the answer of the Price List has no list");
}

#[tokio::test]
async fn another_region_answers_where_one_does_not_and_a_refusal_is_final() {
    let trouble = || ReplayAnswer::Raw(500, br#"{"__type":"InternalErrorException","Message":"no"}"#.to_vec());
    let tries = std::sync::atomic::AtomicUsize::new(0);
    let (known, gaps, calls) =
        check(wants(&[g5()]), move |_| match tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 | 1 => trouble(),
            _ => listed("1.0060000000", G5, "Hrs", None),
        })
        .await;
    assert_eq!((learnt(&known), gaps.len(), calls.recorded().len()), (vec![Some(1_006_000)], 0, 3));

    let denied = |_: &ReplayedCall| {
        ReplayAnswer::Raw(400, br#"{"__type":"AccessDeniedException","Message":"not you"}"#.to_vec())
    };
    let (known, gaps, calls) =
        check(wants(&[g5(), PriceQuery::Instance("us-east-1".into(), "g6.xlarge".into())]), denied).await;
    assert_eq!((known, calls.recorded().len(), gaps.len()), (PriceDocument::default(), 2, 1));
    assert!(gaps[0].error.contains("grant pricing:GetProducts") && gaps[0].error.contains("1 more"), "{gaps:?}");
}

#[test]
fn the_nearest_is_asked_first() {
    let first = |home: &str| endpoints(&Region::from(home))[0].as_str().to_owned();
    assert_eq!(
        ["us-west-2", "eu-west-1", "ap-northeast-1", "sa-east-1", "me-central-1"].map(first),
        ["us-east-1", "eu-central-1", "ap-south-1", "us-east-1", "eu-central-1"]
    );
}

#[tokio::test]
async fn storage_is_asked_family_by_family_and_page_by_page() {
    let script = |call: &ReplayedCall| {
        let body = call.parameters.concat();
        let gp3 = |usage: &str| format!(r#""volumeApiName":"gp3","usagetype":"EBS:{usage}""#);
        if body.contains(r#""Value":"Storage""#) && !body.contains("NextToken") {
            listed("0.0800000000", &gp3("VolumeUsage.gp3"), "GB-Mo", Some("two"))
        } else if body.contains(r#""Value":"Storage""#) {
            listed("0.0450000000", r#""volumeApiName":"st1","usagetype":"EBS:VolumeUsage.st1""#, "GB-Mo", None)
        } else if body.contains(r#""Value":"System Operation""#) {
            listed("0.0050000000", &gp3("VolumeP-IOPS.gp3"), "IOPS-Mo", None)
        } else {
            listed("40.9600000000", &gp3("VolumeP-Throughput.gp3"), "GiBps-mo", None)
        }
    };
    let (known, gaps, calls) = check(wants(&[PriceQuery::Storage("us-east-1".into())]), script).await;
    assert_eq!((gaps, calls.recorded().len()), (Vec::new(), 4));
    let prices = &known.storage[&Region::from("us-east-1")].prices;
    assert_eq!(prices.gib_month, BTreeMap::from([("gp3".to_owned(), 80_000), ("st1".to_owned(), 45_000)]));
    assert_eq!((prices.iops_month["gp3"], prices.gibps_month), (5_000, Some(40_960_000)));
}

#[tokio::test]
async fn a_list_without_end_is_a_gap() {
    let pages = std::sync::atomic::AtomicUsize::new(0);
    let (known, gaps, calls) = check(wants(&[g5()]), move |_| {
        let page = pages.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        listed("1.0060000000", G5, "Hrs", Some(&page.to_string()))
    })
    .await;
    assert_eq!((learnt(&known), gaps.len()), (Vec::new(), 1));
    assert!(calls.recorded().len() <= 3 * (PAGES_MAX + 1), "{}", calls.recorded().len());
}

fn spot(types: &[&str]) -> PriceQueries {
    let types = types.iter().map(|name| TypeName::from(*name)).collect();
    let since = "2026-09-01T11:00:00Z".parse().unwrap();
    PriceQueries { listed: Vec::new(), spot: BTreeMap::from([("eu-west-1".into(), (types, since))]) }
}

#[tokio::test]
async fn spot_prices_are_of_their_zone_and_of_plain_linux() {
    let item = |zone: &str, product: &str, usd: &str, at: &str| {
        format!(
            "<item><instanceType>g5.xlarge</instanceType><availabilityZone>{zone}</availabilityZone>\
             <productDescription>{product}</productDescription><spotPrice>{usd}</spotPrice><timestamp>{at}</timestamp></item>"
        )
    };
    let items = [
        item("eu-west-1a", LINUX, "0.400000", "2026-09-01T11:30:00.000Z"),
        item("eu-west-1a", LINUX, "0.300000", "2026-08-31T10:00:00.000Z"),
        item("eu-west-1b", "Windows", "9.000000", "2026-09-01T11:30:00.000Z"),
        item("eu-west-1c", LINUX, "cheap", "2026-09-01T11:30:00.000Z"),
        item("eu-west-1c", LINUX, "0.000000", "2026-09-01T11:30:00.000Z"),
    ];
    let page = format!("<spotPriceHistorySet>{}</spotPriceHistorySet><nextToken/>", items.concat());
    let (known, gaps, calls) = check(spot(&["g5.xlarge", "g6.xlarge"]), move |_| ReplayAnswer::ok(page.clone())).await;
    assert_eq!(gaps, []);
    let zones = &known.spot[&Region::from("eu-west-1")][&TypeName::from("g5.xlarge")].zones;
    let changes: Vec<String> = zones["eu-west-1a"].iter().map(|(from, usd)| format!("{from} {usd}")).collect();
    assert_eq!(
        (zones.len(), changes),
        (1, vec!["2026-08-31T10:00:00Z 300000".into(), "2026-09-01T11:30:00Z 400000".into()])
    );
    assert_eq!(
        calls.said(),
        ["DescribeSpotPriceHistory EndTime=2026-09-01T12:00:00Z InstanceType.1=g5.xlarge InstanceType.2=g6.xlarge \
          MaxResults=1000 ProductDescription.1=Linux/UNIX StartTime=2026-09-01T11:00:00Z"]
    );
}

#[tokio::test]
async fn a_spot_history_that_is_refused_or_silent_is_a_gap() {
    let denied = |_: &ReplayedCall| ReplayAnswer::error("UnauthorizedOperation", "not you");
    let (known, gaps, _) = check(spot(&["g5.xlarge"]), denied).await;
    assert_eq!((known, gaps.len(), gaps[0].call.as_str()), (PriceDocument::default(), 1, SPOT_PRICES));
    let (aws, _) = aws(|_| ReplayAnswer::Silence);
    let mut known = PriceDocument::default();
    let wanted = PriceQueries { listed: vec![g5()], ..spot(&["g5.xlarge"]) };
    let gaps = prices(&aws, &mut known, &wanted, now(), Duration::from_millis(50)).await;
    let calls: Vec<&str> = gaps.iter().map(|gap| gap.call.as_str()).collect();
    assert_eq!((calls, known), (vec![SPOT_PRICES, GET_PRODUCTS], PriceDocument::default()));
}

async fn check_partition(home: &str, expect_calls: usize) {
    let config = aws_config::SdkConfig::builder()
        .behavior_version(aws_config::BehaviorVersion::latest())
        .region(aws_config::Region::new(home.to_owned()));
    let aws = Aws::with(config.build());
    let spot = BTreeMap::from([(Region::from(home), (BTreeSet::from([TypeName::new("g5.xlarge")]), now()))]);
    let listed = vec![PriceQuery::Instance(home.into(), "g5.xlarge".into()), PriceQuery::Storage(home.into())];
    let mut known = PriceDocument::default();
    let gaps = prices(&aws, &mut known, &PriceQueries { listed, spot }, now(), TIMEOUT).await;
    assert!(
        learnt(&known).is_empty() && known.storage.is_empty(),
        "{home}: the dated table counts, where it has the price"
    );
    let calls: Vec<&str> = gaps.iter().map(|gap| gap.call.as_str()).collect();
    assert_eq!(calls, vec![SPOT_PRICES; expect_calls], "{home}: a call without credentials is a gap");
}

#[tokio::test]
async fn prices_that_are_not_in_usd_are_not_asked_for() {
    check_partition("us-gov-west-1", 1).await;
    check_partition("cn-north-1", 0).await;
}
