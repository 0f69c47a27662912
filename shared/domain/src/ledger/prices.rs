//! What the ledger learns of prices.

use jiff::Timestamp;

use super::{Inspected, Known};
use crate::money::Rate;
use crate::price::{PriceBook, Quote, Source};

/// What is known of an instance's price, each with the moment from which it holds. What is paid for in advance costs nothing more.
#[must_use]
pub fn of_instance(prices: &PriceBook, one: &Inspected) -> Known {
    match prices.saved_by_ending(&one.instance) {
        Some(Quote { source: Source::Prepaid, .. }) => vec![(Timestamp::UNIX_EPOCH, Rate::ZERO)],
        _ => prices.known(&one.instance),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{InstanceBuilder, instance};
    use crate::instance::{Prepaid, Purchase};

    fn check(of: InstanceBuilder, expect: &[(&str, u64)]) {
        let one = Inspected { instance: of.build(), ended_at: None };
        let expect: Known = expect
            .iter()
            .map(|(at, usd_micros)| (at.parse().unwrap(), Rate::from_usd_micros_per_hour(*usd_micros)))
            .collect();
        assert_eq!(of_instance(&PriceBook::dated(), &one), expect);
    }

    #[test]
    fn a_table_holds_from_its_day() {
        check(instance(), &[("2026-09-24T00:00:00Z", 1_006_000)]);
    }

    #[test]
    fn what_is_paid_in_advance_costs_nothing_more() {
        check(instance().prepaid(Prepaid::DedicatedHost), &[("1970-01-01T00:00:00Z", 0)]);
        check(instance().purchase(Purchase::CapacityBlock), &[("1970-01-01T00:00:00Z", 0)]);
    }

    #[test]
    fn of_spot_without_a_history_nobody_knows() {
        check(instance().purchase(Purchase::SpotOneTime), &[]);
    }
}
