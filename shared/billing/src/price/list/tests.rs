//! Products as the Price List writes them, and what is no answer.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A product with one price of that unit, as `GetProducts` returns it.
fn product(family: &str, attributes: Value, unit: &str, usd: &str) -> Value {
    json!({
        "product": {"productFamily": family, "attributes": attributes, "sku": "3AMHWXFMBSN9HBWT"},
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {"3AMHWXFMBSN9HBWT.JRTCKXETXF": {
            "priceDimensions": {"3AMHWXFMBSN9HBWT.JRTCKXETXF.6YS6EN2CT7": {
                "unit": unit, "endRange": "Inf", "description": "as it says", "appliesTo": [],
                "rateCode": "3AMHWXFMBSN9HBWT.JRTCKXETXF.6YS6EN2CT7", "beginRange": "0",
                "pricePerUnit": {"USD": usd}
            }},
            "sku": "3AMHWXFMBSN9HBWT", "effectiveDate": "2026-09-01T00:00:00Z",
            "offerTermCode": "JRTCKXETXF", "termAttributes": {}
        }}},
        "version": "20260924000000", "publicationDate": "2026-09-24T00:00:00Z"
    })
}

fn g5(usd: &str) -> Value {
    let attributes = json!({
        "instanceType": "g5.xlarge", "regionCode": "us-east-1", "location": "US East (N. Virginia)",
        "locationType": "AWS Region", "operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA",
        "capacitystatus": "Used", "marketoption": "OnDemand", "usagetype": "BoxUsage:g5.xlarge", "vcpu": "4"
    });
    product("Compute Instance", attributes, "Hrs", usd)
}

fn with(mut product: Value, pointer: &str, value: Value) -> Value {
    *product.pointer_mut(pointer).unwrap() = value;
    product
}

const DIMENSION: &str = "/terms/OnDemand/3AMHWXFMBSN9HBWT.JRTCKXETXF/priceDimensions";

fn check(products: &[Value], expect: Option<u64>) {
    let texts: Vec<String> = products.iter().map(ToString::to_string).collect();
    let found = on_demand(&texts, &"us-east-1".into(), &"g5.xlarge".into()).unwrap();
    assert_eq!(found.map(Rate::usd_micros_per_hour), expect, "{products:#?}");
}

#[test]
fn one_hourly_price_in_usd_is_the_price() {
    check(&[g5("1.0060000000")], Some(1_006_000));
    check(&[g5("1.0060000000"), g5("1.0060000000")], Some(1_006_000));
    let twice = with(g5("1.0060000000"), "/terms/OnDemand", json!({}));
    check(&[twice], None);
}

#[test]
fn an_ambiguous_product_has_no_price() {
    check(&[], None);
    check(&[g5("1.0060000000"), g5("1.1000000000")], None);
    check(&[g5("1.0060000000"), with(g5("1.0060000000"), DIMENSION, json!({}))], None);
    check(&[g5("0.0000000000")], None);
    check(&[g5("-1.0000000000")], None);
    check(&[g5("9999.0000000000")], Some(9_999_000_000));
    check(&[g5("4294967295.0000000000")], None);
    check(&[g5("a lot")], None);
    let dimension = |of: &Value| of.pointer(DIMENSION).unwrap().as_object().unwrap().values().next().unwrap().clone();
    let one = dimension(&g5("1.0060000000"));
    let tiers =
        json!({"a": with(one.clone(), "/endRange", json!("100")), "b": with(one.clone(), "/beginRange", json!("100"))});
    check(&[with(g5("1"), DIMENSION, tiers)], None);
    let only =
        |change: Value, pointer: &str| with(g5("1"), DIMENSION, json!({"a": with(one.clone(), pointer, change)}));
    check(&[only(json!({"CNY": "7.1000000000"}), "/pricePerUnit")], None);
    check(&[only(json!("Quantity"), "/unit")], None);
    check(&[only(json!("100"), "/beginRange")], None);
}

#[test]
fn filters_name_attributes_as_the_price_list_writes_them() {
    let (region, instance) = ("us-east-1".into(), g5("1.0060000000"));
    for (name, value) in instance_filters(&region, &"g5.xlarge".into()) {
        assert_eq!(instance.pointer(&format!("/product/attributes/{name}")), Some(&json!(value)));
    }
    let volume = product("Storage", json!({"regionCode": "us-east-1"}), "GB-Mo", "0.0800000000");
    let places = storage_filters(&region, "Storage").map(|(name, value)| {
        let within = |folder| volume.pointer(&format!("{folder}/{name}")) == Some(&json!(value));
        (within("/product"), within("/product/attributes"))
    });
    assert_eq!(places, [(false, true), (true, false)]);
}

#[test]
fn unrequested_answers_do_not_count() {
    let other = |name: &str, value: &str| with(g5("9.0"), &format!("/product/attributes/{name}"), json!(value));
    for (name, value) in [
        ("instanceType", "g5.2xlarge"),
        ("regionCode", "us-east-2"),
        ("locationType", "AWS Local Zone"),
        ("operatingSystem", "Windows"),
        ("tenancy", "Dedicated"),
        ("preInstalledSw", "SQL Std"),
        ("capacitystatus", "UnusedCapacityReservation"),
        ("marketoption", "CapacityBlock"),
    ] {
        check(&[other(name, value)], None);
        check(&[other(name, value), g5("1.0060000000")], Some(1_006_000));
    }
}

#[test]
fn an_answer_of_a_family_has_a_price_for_each_type() {
    let of = |name: &str, usd: &str| with(g5(usd), "/product/attributes/instanceType", json!(name));
    let products = [
        g5("1.0060000000"),
        of("g6.xlarge", "0.8048000000"),
        of("g6.12xlarge", "1"),
        of("g6.12xlarge", "2"),
        with(of("g6e.xlarge", "1.861"), "/product/attributes/tenancy", json!("Dedicated")),
        with(of("p5.48xlarge", "55.04"), "/product/attributes/regionCode", json!("us-east-2")),
    ];
    let texts: Vec<String> = products.iter().map(Value::to_string).collect();
    let found = on_demand_of_family(&texts, &"us-east-1".into()).unwrap();
    let found: Vec<_> = found.iter().map(|(name, rate)| (name.as_str(), rate.map(Rate::usd_micros_per_hour))).collect();
    assert_eq!(found, [("g5.xlarge", Some(1_006_000)), ("g6.12xlarge", None), ("g6.xlarge", Some(804_800))]);
    assert!(on_demand_of_family(&["{".to_owned()], &"us-east-1".into()).is_err());
}

#[test]
fn a_family_is_asked_for_as_its_types_are() {
    let (region, name) = ("us-east-1".into(), TypeName::from("g5.xlarge"));
    assert_eq!(family_filters(&region, InstanceFamily::Gpu)[1..], instance_filters(&region, &name)[1..]);
    let family = |name: &str| family_filters(&region, InstanceFamily::from_type(&name.into()))[0].1.to_owned();
    assert_eq!([family("p5.48xlarge"), family("g6f.large")], ["GPU instance"; 2]);
    assert_eq!(["trn1.2xlarge", "inf2.xlarge", "dl1.24xlarge"].map(family), ["Machine Learning ASIC Instances"; 3]);
    assert_eq!(family("vt1.3xlarge"), "Media Accelerator Instances");
}

#[test]
fn what_cannot_be_read_is_an_error() {
    for broken in ["", "null", "{}", "{\"product\":{}}", "{\"product\":{\"attributes\":{}},\"terms\":7}"] {
        let texts = [g5("1").to_string(), broken.to_owned()];
        let error = on_demand(&texts, &"us-east-1".into(), &"g5.xlarge".into()).unwrap_err();
        assert!(error.to_string().starts_with("a product of the Price List cannot be read: "), "{error}");
        assert!(storage(&texts, &"us-east-1".into()).is_err());
    }
}

#[test]
fn storage_is_priced_by_size_iops_and_throughput() {
    let of = |family: &str, name: &str, usage: &str, unit: &str, usd: &str| {
        let attributes = json!({
            "volumeApiName": name, "usagetype": usage, "regionCode": "eu-central-1", "locationType": "AWS Region"
        });
        product(family, attributes, unit, usd).to_string()
    };
    let [storage, operation, throughput] = STORAGE_FAMILIES;
    let products = [
        of(storage, "gp3", "EUC1-EBS:VolumeUsage.gp3", "GB-Mo", "0.0952000000"),
        of(storage, "io1", "EUC1-EBS:VolumeUsage.piops", "GB-Mo", "0.1490000000"),
        of(storage, "io2", "EUC1-EBS:VolumeUsage.io2", "GB-month", "0.1490000000"),
        of(storage, "standard", "EUC1-EBS:VolumeUsage", "GB-Mo", "0.0590000000"),
        of(storage, "", "EUC1-EBS:SnapshotUsage", "GB-Mo", "0.0540000000"),
        of(operation, "gp3", "EUC1-EBS:VolumeP-IOPS.gp3", "IOPS-Mo", "0.0060000000"),
        of(operation, "io1", "EUC1-EBS:VolumeP-IOPS.piops", "IOPS-Mo", "0.0780000000"),
        of(operation, "io2", "EUC1-EBS:VolumeP-IOPS.io2", "IOPS-Mo", "0.0780000000"),
        of(operation, "io2", "EUC1-EBS:VolumeP-IOPS.io2.tier2", "IOPS-Mo", "0.0546000000"),
        of(operation, "standard", "EUC1-EBS:VolumeIOUsage", "IOs", "0.0000000590"),
        of(throughput, "gp3", "EUC1-EBS:VolumeP-Throughput.gp3", "GiBps-mo", "48.7424000000"),
        with(product(storage, json!({"regionCode": "us-east-1"}), "GB-Mo", "1"), "/serviceCode", json!("x"))
            .to_string(),
    ];
    let found = super::storage(&products, &"eu-central-1".into()).unwrap();
    let named = |of: &BTreeMap<String, u64>| of.iter().map(|(k, v)| format!("{k} {v}")).collect::<Vec<_>>().join(", ");
    assert_eq!(named(&found.gib_month), "gp3 95200, io1 149000, io2 149000, standard 59000");
    assert_eq!(named(&found.iops_month), "gp3 6000, io2 78000, io2.tier2 54600, piops 78000");
    assert_eq!(found.gibps_month, Some(48_742_400));
    let twice = [
        of(storage, "gp3", "EBS:VolumeUsage.gp3", "GB-Mo", "1"),
        of(storage, "gp3", "EBS:VolumeUsage.gp3", "GB-Mo", "2"),
    ];
    assert_eq!(super::storage(&twice, &"eu-central-1".into()).unwrap(), StoragePrices::default());
}

#[test]
fn usd_are_read_digit_by_digit() {
    let all = ["21.9576420000", "1", "0.0000005", "0.0000004999", "007.5", "0.0000000000"].map(usd_micros);
    assert_eq!(all, [Some(21_957_642), Some(1_000_000), Some(1), Some(0), Some(7_500_000), Some(0)]);
    for not in ["", ".5", "-1", "1e3", "1,5", "1.2.3", "+1", " 1", "1.0x", "99999999999999999999", "18446744073710"] {
        assert_eq!(usd_micros(not), None, "{not}");
    }
}

proptest! {
    #[test]
    fn every_micro_usd_is_read_as_it_is_written(usd_micros in 0..1_u64 << 60) {
        let text = format!("{}.{:06}0000", usd_micros / 1_000_000, usd_micros % 1_000_000);
        prop_assert_eq!(super::usd_micros(&text), Some(usd_micros));
    }

    #[test]
    fn no_text_is_a_panic(text in ".*", usd in ".*") {
        let _ = super::usd_micros(&usd);
        let _ = on_demand(&[text, g5(&usd).to_string()], &"us-east-1".into(), &"g5.xlarge".into());
    }
}
