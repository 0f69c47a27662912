//! The price of a volume.

use super::*;

fn of_type(volume_type: &str, size_gib: u64, iops: Option<u64>) -> Volume {
    Volume { volume_type: volume_type.to_owned(), size_gib, iops, throughput_mibps: None, ..gp3() }
}

fn a_month(volume: Volume) -> String {
    model::money::format_monthly_rate(rate(PriceBook::dated().volume_cost(&volume)))
}

#[test]
fn a_volume_costs_its_size() {
    assert_eq!(a_month(gp3()), "$8.00 a month");
    assert_eq!(a_month(Volume { size_gib: 1, ..gp3() }), "$0.08 a month");
    assert_eq!(a_month(of_type("gp2", 16_384, Some(16_000))), "$1,638.40 a month");
    assert_eq!(a_month(of_type("st1", 500, None)), "$22.50 a month");
    assert_eq!(a_month(of_type("sc1", 125, None)), "$1.88 a month");
    assert_eq!(a_month(of_type("standard", 20, None)), "$1.00 a month");
}

#[test]
fn a_volume_costs_what_is_provisioned_beyond_the_free_part() {
    assert_eq!(a_month(Volume { iops: Some(4_000), ..gp3() }), "$13.00 a month");
    assert_eq!(a_month(Volume { throughput_mibps: Some(1_000), ..gp3() }), "$43.00 a month");
    assert_eq!(a_month(Volume { iops: Some(16_000), throughput_mibps: Some(1_000), ..gp3() }), "$108.00 a month");
    assert_eq!(a_month(of_type("io1", 30, Some(300))), "$23.25 a month");
    assert_eq!(a_month(Volume { iops: None, throughput_mibps: None, ..gp3() }), a_month(gp3()));
}

#[test]
fn the_iops_of_io2_cost_less_in_each_tier() {
    let iops = |iops| a_month(of_type("io2", 1_000, Some(iops)));
    assert_eq!(iops(100), "$131.50 a month");
    assert_eq!(iops(32_000), "$2,205.00 a month");
    assert_eq!(iops(32_002), "$2,205.09 a month");
    assert_eq!(iops(64_000), "$3,661.00 a month");
    assert_eq!(iops(64_020), "$3,661.64 a month");
    assert_eq!(iops(256_000), "$9,776.20 a month");
}

#[test]
fn the_price_of_a_volume_is_known_or_not_but_never_guessed() {
    let unknown = "price unknown";
    assert_eq!(a_month(Volume { region: "us-east-2".into(), zone: "us-east-2a".to_owned(), ..gp3() }), unknown);
    assert_eq!(a_month(Volume { zone: "us-east-1-bos-1a".to_owned(), ..gp3() }), unknown);
    assert_eq!(a_month(Volume { zone: "us-east-1-wl1-bos-wlz-1".to_owned(), ..gp3() }), unknown);
    assert_eq!(a_month(Volume { zone: String::new(), ..gp3() }), unknown);
    assert_eq!(a_month(of_type("gp4", 100, Some(3_000))), unknown);
    assert_eq!(a_month(of_type("io1", 100, None)), unknown);
    assert_eq!(a_month(of_type("io2", 100, None)), unknown);
    assert_eq!(a_month(Volume { size_gib: u64::MAX, ..gp3() }), unknown);
    assert_eq!(a_month(Volume { iops: Some(u64::MAX), ..gp3() }), unknown);
}
