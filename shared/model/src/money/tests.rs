use proptest::prelude::*;

use super::*;

/// Micro-USD per month of the largest volume that EBS offers (io2: 64 TiB, 256,000 IOPS), and then some.
const LARGEST: u64 = 100_000_000_000;

fn monthly(usd_micros: u64) -> Rate {
    Rate::from_usd_micros_per_month(usd_micros)
}

#[test]
fn a_short_hour_is_whole_dollars_from_ten_on() {
    let shown = |usd_micros| format_hourly_rate_shortly(Rate::from_usd_micros_per_hour(usd_micros));
    assert_eq!(shown(1_006_000), "$1.01/h");
    assert_eq!(shown(9_996_000), "$10.00/h");
    assert_eq!(shown(55_040_000), "$55/h");
    assert_eq!(shown(1_234_500_000), "$1,235/h");
}

#[test]
fn a_month_is_shown_to_the_cent() {
    let shown = |usd_micros| format_monthly_rate(Some(monthly(usd_micros)));
    assert_eq!(shown(8_000_000), "$8.00 a month");
    assert_eq!(shown(80_000), "$0.08 a month");
    assert_eq!(shown(1_875_000), "$1.88 a month");
    assert_eq!(shown(1_638_400_000), "$1,638.40 a month");
    assert_eq!(shown(0), "$0.00 a month");
    assert_eq!(format_monthly_rate(None), "price unknown");
}

#[test]
fn an_amount_is_exact_until_it_is_shown() {
    let second = Amount::from_rate(Rate::from_usd_micros_per_hour(1), 1);
    assert_eq!((second.usd_micros(), (0..3_600).map(|_| second).sum::<Amount>().usd_micros()), (0, 1));
    let month = Amount::from_rate(Rate::from_usd_micros_per_hour(55_040_000), 730 * 3_600);
    assert_eq!((month.to_string(), month.usd()), ("$40,179.20".to_owned(), 40_179.2));
    let budget_percent = |usd| Amount::from_usd(usd).percent_of(Amount::from_usd(5_000.0));
    assert_eq!([3_999.99, 4_000.0, 12_500.0].map(budget_percent), [Some(79), Some(80), Some(250)]);
    assert_eq!(Amount::from_usd(1.0).percent_of(Amount::ZERO), None);
    assert_eq!([-1.0, f64::NAN].map(Amount::from_usd), [Amount::ZERO; 2]);
}

#[test]
fn an_amount_is_divided_without_leaving_integers() {
    let (day, rate) = (86_400, Rate::from_usd_micros_per_hour(55_040_000));
    let spent = Amount::from_rate(rate, day);
    assert_eq!((spent.lasts_at(rate), spent.lasts_at(Rate::ZERO)), (Some(day), None));
    assert_eq!((spent.spread_over(day), spent.spread_over(0)), (Some(rate), None));
    assert_eq!((spent.scaled(7 * day, day), spent.scaled(1, 0)), (Amount::from_rate(rate, 7 * day), Amount::ZERO));
}

#[test]
fn thousands_are_set_apart() {
    let by_the_hour = |usd_micros| format_rate(Some(Rate::from_usd_micros_per_hour(usd_micros)));
    assert_eq!(by_the_hour(999_994_999), "$999.99/h ($729,996 a month)");
    assert_eq!(by_the_hour(1_234_567_890_000), "$1,234,567.89/h ($901,234,559 a month)");
    assert_eq!(by_the_hour(1_006_000), "$1.01/h ($734 a month)");
    assert_eq!([0, 99, 99_999, 100_000, 19_539_473].map(usd), ["0.00", "0.99", "999.99", "1,000.00", "195,394.73"]);
}

#[test]
fn a_month_is_a_number_with_at_most_two_decimals_or_null() {
    #[derive(Serialize)]
    struct Evidence {
        #[serde(serialize_with = "as_usd_per_month")]
        usd_per_month: Option<Rate>,
    }
    let json = |usd_per_month| serde_json::to_string(&Evidence { usd_per_month }).unwrap();
    assert_eq!(json(Some(monthly(8_000_000))), r#"{"usd_per_month":8.0}"#);
    assert_eq!(json(Some(monthly(3_661_640_000))), r#"{"usd_per_month":3661.64}"#);
    assert_eq!(json(Some(monthly(70_000))), r#"{"usd_per_month":0.07}"#);
    assert_eq!(json(None), r#"{"usd_per_month":null}"#);
}

#[test]
fn the_largest_rate_is_shown_and_does_not_overflow() {
    let largest = Rate::from_usd_micros_per_hour(u64::MAX);
    assert!(largest.usd_cents_per_month() > 0);
    assert_eq!(format_rate(Some(largest)), "$18,446,744,073,709.55/h ($18,446,744,073,709 a month)");
    assert!(monthly(u64::MAX).usd_cents_per_month() > 0);
}

proptest! {
    /// Never less than the true price, and more by less than a tenth of a cent a month.
    #[test]
    fn a_monthly_price_is_rounded_up_by_less_than_it_shows(usd_micros in 0..LARGEST) {
        let kept = monthly(usd_micros).usd_micros_per_hour() * HOURS_PER_MONTH;
        prop_assert!(kept >= usd_micros);
        prop_assert!(kept - usd_micros < USD_MICROS_PER_CENT / 10);
    }

    #[test]
    fn an_amount_survives_writing_and_reading(usd_micros in 0..1_u64 << 49) {
        let json = serde_json::to_string(&Amount::from_usd_micros(usd_micros)).unwrap();
        prop_assert_eq!(serde_json::from_str::<Amount>(&json).unwrap().usd_micros(), usd_micros, "{}", json);
    }

    #[test]
    fn whole_cents_are_shown_as_they_are(cents in 0..LARGEST / USD_MICROS_PER_CENT) {
        prop_assert_eq!(monthly(cents * USD_MICROS_PER_CENT).usd_cents_per_month(), cents);
    }

    #[test]
    fn what_is_shown_is_within_a_cent_of_the_price(usd_micros in 0..LARGEST) {
        let shown = monthly(usd_micros).usd_cents_per_month() * USD_MICROS_PER_CENT;
        prop_assert!(shown.abs_diff(usd_micros) < USD_MICROS_PER_CENT, "{shown} micro-USD for {usd_micros}");
    }
}
