//! Cost Explorer's figures, beside the ledger. They are a day late and never used to act: the ledger counts.
//!
//! The comparison covers the accelerated instance types that the ledger knows, over whole days of UTC (Cost Explorer has no other) that are
//! over for a day at least (AWS Billing user guide, "Exploring your data using Cost Explorer": refreshed at least once in 24 hours).

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use model::id::TypeName;
use model::moment::before;
use model::money::Amount;

use super::{Budget, BudgetMonth, CostExplorerFigures, STALE_AFTER};
use crate::ledger::{Ledger, RunKind, TimeSpan};

/// A request costs $0.01 (AWS Cost Management pricing).
pub const ASK_EVERY: SignedDuration = SignedDuration::from_hours(24);

const DAY: SignedDuration = SignedDuration::from_hours(24);
const USD_MICROS_PER_USD: i128 = 1_000_000;
/// No account's amount has more digits before the point.
const WHOLE_DIGITS_MAX: usize = 15;

/// Whole days of UTC, the last one not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BilledDays {
    /// The first.
    pub from: Date,
    /// The first that is not asked about.
    pub until: Date,
}

impl BilledDays {
    /// Returns the days of the month that AWS has billed by now and that the ledger, begun at `since`, covers completely; `None` if there
    /// are none yet.
    #[must_use]
    pub fn billed(period: &BudgetMonth, since: Timestamp, now: Timestamp) -> Option<Self> {
        let day = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
        // The first beat of a month is a while after its beginning, and sees all that still runs.
        let begins = if since.duration_since(period.from) <= STALE_AFTER { period.from } else { since };
        let begun = day(begins);
        let from = if midnight(begun)? < begins { begun.tomorrow().ok()? } else { begun };
        let until = day(before(now, DAY).min(period.to));
        (from < until).then_some(Self { from, until })
    }

    /// Returns the start of the first day.
    #[must_use]
    pub fn begin(self) -> Option<Timestamp> {
        midnight(self.from)
    }

    /// Returns the end of the last day: the comparison covers the ledger until then.
    #[must_use]
    pub fn end(self) -> Option<Timestamp> {
        midnight(self.until)
    }
}

fn midnight(date: Date) -> Option<Timestamp> {
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// The days to ask about now; `None` if it was asked within a day, answered or not, or nothing is billed yet. `account` is the account's
/// document.
#[must_use]
pub fn due(account: &Budget, period: &BudgetMonth, since: Timestamp, now: Timestamp) -> Option<BilledDays> {
    if asked_at(account).is_some_and(|asked_at| now.duration_since(asked_at).abs() < ASK_EVERY) {
        return None;
    }
    BilledDays::billed(period, since, now)
}

/// Returns the time of the last query.
fn asked_at(account: &Budget) -> Option<Timestamp> {
    let answered = account.billed.as_ref().map(|billed| billed.asked_at);
    answered.max(account.cost_explorer_failure.as_ref().map(|failure| failure.asked_at))
}

impl Budget {
    /// Takes over the answer or the error of Cost Explorer, if its query is later than this document's.
    pub fn learn_billed(&mut self, from: &Self) {
        if asked_at(from) > asked_at(self) {
            self.billed.clone_from(&from.billed);
            self.cost_explorer_failure.clone_from(&from.cost_explorer_failure);
        }
    }
}

/// Micro-USD of an amount as Cost Explorer writes it, such as `-12.3456789012`, to the nearest; `None` if it is none.
#[must_use]
pub fn usd_micros(text: &str) -> Option<i128> {
    let (is_negative, unsigned) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) || whole.len() > WHOLE_DIGITS_MAX {
        return None;
    }
    let micros: String = fraction.chars().chain("000000".chars()).take(6).collect();
    let rounds_up = fraction.as_bytes().get(6).is_some_and(|digit| *digit >= b'5');
    let amount =
        whole.parse::<i128>().ok()? * USD_MICROS_PER_USD + micros.parse::<i128>().ok()? + i128::from(rounds_up);
    Some(if is_negative { -amount } else { amount })
}

/// Amounts that AWS billed for EC2 compute and EBS in those days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostExplorerBill {
    pub days: BilledDays,
    /// Micro-USD by instance type; what has none, as volumes, is under `NoInstanceType`.
    pub by_type: BTreeMap<TypeName, i128>,
}

/// The instances of the ledger in those days, by type. An unknown price is in no sum; an unseen end
/// counts as the earliest.
#[must_use]
pub fn by_type<'a>(ledgers: impl IntoIterator<Item = &'a Ledger>, days: BilledDays) -> BTreeMap<TypeName, Amount> {
    let (Some(from), Some(to)) = (days.begin(), days.end()) else { return BTreeMap::new() };
    let mut sums: BTreeMap<TypeName, Amount> = BTreeMap::new();
    for ledger in ledgers {
        for run in ledger.runs().filter(|run| run.kind() == RunKind::Instance) {
            let sum = sums.entry(TypeName::from(run.what())).or_default();
            *sum = *sum + run.spent(TimeSpan { from, to }).amount;
        }
        let days = ledger.folded().filter(|(key, _)| key.kind == RunKind::Instance && key.day >= from && key.day < to);
        for (key, folded) in days {
            let sum = sums.entry(TypeName::from(key.what.as_str())).or_default();
            *sum = *sum + folded.spent.amount;
        }
    }
    sums
}

/// The bill beside the ledger's instances of the same days, by type. Types that the ledger does not have are left out: they
/// have no accelerator, so Curfew does not observe them.
#[must_use]
pub fn compare(
    bill: &CostExplorerBill,
    ledger: &BTreeMap<TypeName, Amount>,
    asked_at: Timestamp,
) -> CostExplorerFigures {
    let micros: i128 = ledger.keys().filter_map(|name| bill.by_type.get(name)).sum();
    let known: i128 = ledger.values().map(|amount| i128::from(amount.usd_micros())).sum();
    CostExplorerFigures {
        usd: amount(micros),
        all_usd: amount(bill.by_type.values().sum()),
        from: bill.days.from.to_string(),
        until: bill.days.until.to_string(),
        asked_at,
        ledger_says_more_usd: usd(known - micros),
    }
}

/// Credits can make less than nothing of it, which no amount is.
fn amount(usd_micros: i128) -> Amount {
    Amount::from_usd_micros(u64::try_from(usd_micros.max(0)).unwrap_or(u64::MAX))
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with; 2^53 micro-USD are beyond any account")]
fn usd(usd_micros: i128) -> f64 {
    usd_micros as f64 / 1e6
}

impl CostExplorerFigures {
    /// Describes the figures for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let difference = Amount::from_usd(self.ledger_says_more_usd.abs());
        let compared = if difference.usd_micros() == 0 {
            "the ledger says the same".to_owned()
        } else if self.ledger_says_more_usd < 0.0 {
            format!("the ledger says {difference} less")
        } else {
            // Usage under a Reserved Instance is billed at nothing there.
            format!("the ledger says {difference} more, by prices without Reserved Instances and Savings Plans")
        };
        let Self { from, until, all_usd, .. } = self;
        format!(
            "by Cost Explorer for the GPU instances, {from} to before {until} (UTC); {compared}. All of EC2 and EBS: {all_usd}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::CostExplorerFailure;
    use crate::ledger::{BillingState, CalendarMonth, LedgerBeat, PurchaseTerms, RunFacts, Sighting, Tariff};
    use model::config::Config;
    use model::fixture::time;
    use model::money::Rate;

    fn period(zone: &str) -> BudgetMonth {
        let config = Config::read(&format!("[account]\ntime_zone = \"{zone}\"\n")).unwrap();
        BudgetMonth::named("2026-11", &config).unwrap()
    }

    #[test]
    fn only_whole_days_of_the_month_that_are_over_for_a_day_are_compared() {
        let days = |zone: &str, now: &str| {
            let found = BilledDays::billed(&period(zone), Timestamp::MIN, time(now));
            found.map_or_else(|| "none".to_owned(), |BilledDays { from, until }| format!("{from}..{until}"))
        };
        assert_eq!(days("UTC", "2026-11-02T23:59:59Z"), "none");
        assert_eq!(days("UTC", "2026-11-03T00:00:00Z"), "2026-11-01..2026-11-02");
        assert_eq!(days("Europe/Berlin", "2026-11-21T12:00:00Z"), "2026-11-01..2026-11-20");
        assert_eq!(days("America/New_York", "2026-11-21T12:00:00Z"), "2026-11-02..2026-11-20");
        assert_eq!(days("UTC", "2026-12-24T00:00:00Z"), "2026-11-01..2026-12-01");
        let first_beat = time("2026-11-01T00:10:00Z");
        let whole = BilledDays::billed(&period("UTC"), first_beat, time("2026-11-21T12:00:00Z"));
        assert_eq!(whole.unwrap().from.to_string(), "2026-11-01", "what ran before the first beat was seen by it");
        let late = BilledDays::billed(&period("UTC"), time("2026-11-10T09:00:00Z"), time("2026-11-21T12:00:00Z"));
        assert_eq!(late.unwrap().from.to_string(), "2026-11-11", "a ledger that was begun within the month");
        assert_eq!(days("Europe/Berlin", "2026-12-24T00:00:00Z"), "2026-11-01..2026-11-30");
    }

    #[test]
    fn it_is_asked_once_a_day() {
        let billed = |at: &str| Some(CostExplorerFigures { asked_at: time(at), ..CostExplorerFigures::default() });
        let failure = |at: &str| Some(CostExplorerFailure { asked_at: time(at), error: "no".to_owned() });
        let answered = |at: &str| Budget { billed: billed(at), ..Budget::default() };
        let failed = |at: &str| Budget { cost_explorer_failure: failure(at), ..answered("2026-11-19T12:00:00Z") };
        let now = time("2026-11-21T12:00:00Z");
        let is_due = |account: &Budget| due(account, &period("UTC"), Timestamp::MIN, now).is_some();
        assert!(is_due(&Budget::default()));
        assert!(is_due(&answered("2026-11-20T12:00:00Z")) && is_due(&failed("2026-11-20T12:00:00Z")));
        assert!(!is_due(&answered("2026-11-20T12:00:01Z")) && !is_due(&failed("2026-11-20T12:00:01Z")));
        let early = time("2026-11-01T12:00:00Z");
        assert_eq!(due(&Budget::default(), &period("UTC"), Timestamp::MIN, early), None);
    }

    #[test]
    fn an_answer_is_merged_into_the_document_of_another_run() {
        let billed = |at: &str| Some(CostExplorerFigures { asked_at: time(at), ..CostExplorerFigures::default() });
        let failure = Some(CostExplorerFailure { asked_at: time("2026-11-21T12:00:00Z"), error: "no".to_owned() });
        let old = Budget { billed: billed("2026-11-19T12:00:00Z"), ..Budget::default() };
        let failed = Budget { cost_explorer_failure: failure, ..old.clone() };
        let new = Budget { billed: billed("2026-11-21T12:15:00Z"), ..Budget::default() };
        let learn = |mut there: Budget, from: &Budget| {
            there.learn_billed(from);
            there
        };
        assert_eq!(learn(old.clone(), &failed), failed);
        assert_eq!(learn(failed.clone(), &new), new);
        assert_eq!(learn(new.clone(), &failed), new, "of an earlier question");
    }

    #[test]
    fn amounts_are_read_exactly() {
        for (text, expect) in [
            ("0", Some(0)),
            ("1383.48", Some(1_383_480_000)),
            ("0.0000005", Some(1)),
            ("0.00000049", Some(0)),
            ("-12.3456789012", Some(-12_345_679)),
            ("0.1234564", Some(123_456)),
            ("", None),
            ("-", None),
            (".5", None),
            ("1.", None),
            ("1e3", None),
            ("1,000.00", None),
            ("+1", None),
            ("9999999999999999", None),
        ] {
            assert_eq!(usd_micros(text), expect, "{text:?}");
        }
    }

    /// Two instances at $3.60 an hour, launched on the fifth at noon, and a volume.
    fn ledger() -> Ledger {
        let sighting = |resource: &str, kind: RunKind, what: &str| Sighting {
            resource: resource.into(),
            began: time("2026-11-05T12:00:00Z"),
            facts: RunFacts {
                kind,
                team: None,
                owner: None,
                name: None,
                what: what.to_owned(),
                terms: PurchaseTerms::OnDemand,
                job: None,
                attached_to: None,
                tariff: Tariff::new(what),
            },
            life: BillingState::Live,
            prices: vec![(time("2026-09-24T00:00:00Z"), Rate::from_usd_micros_per_hour(3_600_000))],
        };
        let items = vec![
            sighting("i-1", RunKind::Instance, "g5.xlarge"),
            sighting("i-2", RunKind::Instance, "g5.xlarge"),
            sighting("vol-1", RunKind::Volume, "500 GiB gp3"),
        ];
        let mut ledger = Ledger::new(&CalendarMonth::read("2026-11", &TimeZone::UTC).unwrap(), &"us-east-1".into());
        ledger.observe(&LedgerBeat {
            at: time("2026-11-07T12:00:00Z"),
            region: "us-east-1".into(),
            whole: true,
            items,
            unread: std::collections::BTreeSet::new(),
        });
        ledger
    }

    #[test]
    fn the_instances_of_the_ledger_are_summed_by_type_in_those_days() {
        let days = BilledDays::billed(&period("UTC"), Timestamp::MIN, time("2026-11-07T12:00:00Z")).unwrap();
        let expected = BTreeMap::from([(TypeName::from("g5.xlarge"), Amount::from_usd(2.0 * 12.0 * 3.6))]);
        assert_eq!(by_type([&ledger()], days), expected);
    }

    #[test]
    fn unknown_amounts_are_in_no_difference() {
        let days = BilledDays::billed(&period("UTC"), Timestamp::MIN, time("2026-11-21T12:00:00Z")).unwrap();
        let by_type = [("g5.xlarge", 100_500_000), ("m5.large", 70_000_000), ("NoInstanceType", 9_000_000)];
        let by_type = by_type.into_iter().map(|(name, usd)| (TypeName::from(name), usd)).collect();
        let bill = CostExplorerBill { days, by_type };
        let compared = |amounts: &[(&str, f64)]| {
            let ledger = amounts.iter().map(|(name, usd)| (TypeName::from(*name), Amount::from_usd(*usd))).collect();
            compare(&bill, &ledger, time("2026-11-21T12:00:00Z"))
        };
        let more = compared(&[("g5.xlarge", 101.0), ("p5.48xlarge", 0.25)]);
        assert_eq!((more.usd.usd(), more.all_usd.usd(), more.ledger_says_more_usd), (100.5, 179.5, 0.75));
        insta::assert_snapshot!(more.describe(), @"by Cost Explorer for the GPU instances, 2026-11-01 to before 2026-11-20 (UTC); the ledger says $0.75 more, by prices without Reserved Instances and Savings Plans. All of EC2 and EBS: $179.50");
        insta::assert_snapshot!(compared(&[("g5.xlarge", 100.0)]).describe(), @"by Cost Explorer for the GPU instances, 2026-11-01 to before 2026-11-20 (UTC); the ledger says $0.50 less. All of EC2 and EBS: $179.50");
        insta::assert_snapshot!(compared(&[("g5.xlarge", 100.5)]).describe(), @"by Cost Explorer for the GPU instances, 2026-11-01 to before 2026-11-20 (UTC); the ledger says the same. All of EC2 and EBS: $179.50");
        assert_eq!(compared(&[]).usd, Amount::ZERO);
    }
}
