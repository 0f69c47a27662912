use model::fixture::time;
use proptest::prelude::*;

use super::*;

fn hours(usd: &[f64]) -> Vec<HourSpend> {
    let from = time("2026-11-01T00:00:00Z");
    usd.iter().map(|usd| HourSpend { from, spent: Amount::from_usd(*usd) }).collect()
}

/// What is paid an hour, what is saved, and how much of it is used.
fn check(usd: &[f64], discount_percent: f64, expect: (&str, &str, u64)) {
    let best = best_commitment(&hours(usd), PlanDiscount::from_percent(discount_percent).unwrap());
    assert_eq!((best.rate.to_string().as_str(), best.saved.to_string().as_str(), best.used_percent), expect);
}

#[test]
fn a_level_spend_is_covered_whole() {
    check(&[10.0; 24], 30.0, ("$7.00/h", "$72.00", 100));
}

#[test]
fn a_peak_is_covered_only_if_it_lasts_longer_than_the_discount_pays_for() {
    // A quarter of the hours: a discount of 30 % needs them in 70 % of all hours.
    check(&[2.0, 2.0, 2.0, 10.0], 30.0, ("$1.40/h", "$2.40", 100));
    check(&[2.0, 10.0, 10.0, 10.0], 30.0, ("$7.00/h", "$4.00", 80));
    check(&[0.0, 0.0, 0.0, 10.0], 30.0, ("$0.00/h", "$0.00", 0));
}

#[test]
fn nothing_spent_is_nothing_committed() {
    check(&[], 30.0, ("$0.00/h", "$0.00", 0));
    check(&[0.0; 3], 30.0, ("$0.00/h", "$0.00", 0));
}

#[test]
fn a_discount_is_more_than_nothing_and_less_than_all() {
    for percent in [0.0, 0.000_04, -1.0, 99.999_96, 100.0, f64::NAN, f64::INFINITY] {
        assert_eq!(PlanDiscount::from_percent(percent), None, "{percent}");
    }
}

#[test]
fn the_curve_is_drawn_with_the_line_of_the_commitment() {
    let all = hours(&[1.0, 1.0, 4.0, 2.0]);
    let best = best_commitment(&all, PlanDiscount::from_percent(40.0).unwrap());
    insta::assert_snapshot!(draw_commitment(&all, &best).join("\n"), @r"
       $4.00/h |█
       $3.60/h |█
       $3.20/h |█
       $2.80/h |█
       $2.40/h |█
       $2.00/h |██
       $1.60/h |██
       $1.20/h |██    <- covered by the commitment
       $0.80/h |████
       $0.40/h |████
               +----
                4 hours, the dearest first
    ");
    assert_eq!(draw_commitment(&[], &best), Vec::<String>::new());
}

/// What it costs to cover so much, in millionths of a micro-dollar.
fn cost(spends: &[u64], covered: u64, paid: u128) -> u128 {
    spends.iter().map(|spent| u128::from(covered) * paid + u128::from(spent.saturating_sub(covered)) * MILLION).sum()
}

proptest! {
    #[test]
    fn no_other_commitment_costs_less(
        spends in prop::collection::vec(0_u64..50_000_000, 0..60),
        percent in 1_u32..99,
        others in prop::collection::vec(0_u64..60_000_000, 20),
    ) {
        let discount = PlanDiscount::from_percent(f64::from(percent)).unwrap();
        let from = time("2026-11-01T00:00:00Z");
        let hours: Vec<HourSpend> =
            spends.iter().map(|spent| HourSpend { from, spent: Amount::from_usd_micros(*spent) }).collect();
        let best = best_commitment(&hours, discount);
        let paid = discount.paid_millionths();
        let cost_of_best = cost(&spends, best.covered.usd_micros_per_hour(), paid);
        prop_assert_eq!(best.cost.usd_micros(), u64::try_from(cost_of_best.div_ceil(MILLION)).unwrap());
        for covered in others.into_iter().chain([0]) {
            prop_assert!(cost_of_best <= cost(&spends, covered, paid), "{covered}");
        }
    }
}
