use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const NOW: &str = "2026-09-01T12:00:30Z";

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn ask(volume: &str, since: Timestamp) -> VolumeUseQuery {
    VolumeUseQuery { region: "us-east-1".into(), volume: volume.into(), since }
}

/// The period in seconds, and from when to when, of a question about one volume.
fn check(since: &str, expect: (i64, &str, &str)) {
    check_at(NOW, since, expect);
}

fn check_at(now: &str, since: &str, (period, from, until): (i64, &str, &str)) {
    let asks = [ask("vol-1", time(since))];
    let calls = calls(asks.iter(), time(now));
    assert_eq!(calls.len(), 1);
    let found = (calls[0].period.as_secs(), calls[0].from(), calls[0].until);
    assert_eq!(found, (period, time(from), time(until)), "{since}");
    assert_eq!(calls[0].questions[0].from, time(from));
}

#[test]
fn minutes_begin_with_the_one_that_it_lies_in() {
    check("2026-08-31T12:00:00Z", (60, "2026-08-31T12:00:00Z", "2026-09-01T12:01:00Z"));
    check("2026-08-31T12:00:59.9Z", (60, "2026-08-31T12:00:00Z", "2026-09-01T12:01:00Z"));
    check(NOW, (60, "2026-09-01T12:00:00Z", "2026-09-01T12:01:00Z"));
}

#[test]
fn longer_periods_begin_after_it() {
    // 15 days before are 12:00:30 of August 17, and an hour is to spare.
    check("2026-08-17T13:00:31Z", (60, "2026-08-17T13:00:00Z", "2026-09-01T12:01:00Z"));
    check("2026-08-17T13:00:30Z", (300, "2026-08-17T13:05:00Z", "2026-09-01T12:05:00Z"));
    check("2026-08-17T13:00:00Z", (300, "2026-08-17T13:00:00Z", "2026-09-01T12:05:00Z"));
    check("2026-08-17T12:59:59Z", (300, "2026-08-17T13:00:00Z", "2026-09-01T12:05:00Z"));
    // 63 days before are 12:00:30 of June 30.
    check("2026-06-30T13:00:31Z", (300, "2026-06-30T13:05:00Z", "2026-09-01T12:05:00Z"));
    check("2026-06-30T13:00:30Z", (3600, "2026-06-30T14:00:00Z", "2026-09-01T13:00:00Z"));
    check("2026-06-30T13:00:00Z", (3600, "2026-06-30T13:00:00Z", "2026-09-01T13:00:00Z"));
    check("2025-12-31T23:59:59Z", (3600, "2026-01-01T00:00:00Z", "2026-09-01T13:00:00Z"));
}

#[test]
fn a_whole_period_ends_at_now() {
    let now = "2026-09-01T12:00:00Z";
    check_at(now, "2026-08-31T12:00:00Z", (60, "2026-08-31T12:00:00Z", now));
    check_at(now, "2026-08-10T12:00:00Z", (300, "2026-08-10T12:00:00Z", now));
    check_at(now, "2026-01-01T12:00:00Z", (3600, "2026-01-01T12:00:00Z", now));
    // What begins just now is asked about with the minute before.
    check_at(now, now, (60, "2026-09-01T11:59:00Z", now));
}

#[test]
fn what_lies_in_the_future_or_is_no_longer_kept_does_not_spoil_a_call() {
    check("2027-01-01T00:00:00Z", (60, "2026-09-01T12:00:00Z", "2026-09-01T12:01:00Z"));
    // 455 days and an hour less before now are 13:00:30 of June 3.
    check("2020-01-01T00:00:00Z", (3600, "2025-06-03T14:00:00Z", "2026-09-01T13:00:00Z"));
    let (first, last) = (Timestamp::MIN.to_string(), Timestamp::MAX.to_string());
    check(&first, (3600, "2025-06-03T14:00:00Z", "2026-09-01T13:00:00Z"));
    check(&last, (60, "2026-09-01T12:00:00Z", "2026-09-01T12:01:00Z"));
}

/// How many questions each call has, of volumes unattached for so many hours.
fn check_sizes(hours: impl Iterator<Item = i64>, expect: &[usize]) {
    let asks: Vec<VolumeUseQuery> =
        hours.map(|hours| ask("vol-1", time(NOW) - SignedDuration::from_hours(hours))).collect();
    let sizes: Vec<usize> = calls(asks.iter(), time(NOW)).iter().map(|call| call.questions.len()).collect();
    assert_eq!(sizes, expect);
}

#[test]
fn few_calls_whatever_the_mixture() {
    check_sizes(std::iter::empty(), &[]);
    check_sizes(std::iter::once(1), &[1]);
    // Each hour of the last two weeks has its own; hours are too long for the youngest.
    check_sizes(0..336, &[300, 36]);
    check_sizes((0..336).cycle().take(500), &[404, 92, 4]);
    check_sizes((0..336).cycle().take(1500), &[500, 500, 440, 60]);
    // Two weeks, two months, two hundred days.
    check_sizes([1, 24 * 30, 24 * 200].into_iter().cycle().take(1500), &[500, 500, 500]);
    check_sizes((0..336).chain(24 * 20..24 * 40).cycle().take(1200), &[500, 500, 188, 12]);
    // Of years there are more days than one call may ask for.
    check_sizes(std::iter::repeat_n(24 * 400, 500), &[252, 248]);
    check_sizes(std::iter::repeat_n(24 * 4000, 500), &[221, 221, 58]);
}

/// How long the periods are, in minutes, of so many volumes that are unattached for so many days.
fn check_period(volumes: usize, days: i64, expect: i64) {
    let asks = vec![ask("vol-1", time(NOW) - SignedDuration::from_hours(24 * days)); volumes];
    let periods: Vec<i64> = calls(asks.iter(), time(NOW)).iter().map(|call| call.period.as_mins()).collect();
    assert_eq!(periods, [expect], "{volumes} volumes of {days} days");
}

#[test]
fn periods_are_as_short_as_the_call_may_have_them() {
    check_period(1, 14, 1);
    check_period(4, 14, 1);
    check_period(5, 14, 5);
    check_period(24, 14, 5);
    check_period(25, 14, 5);
    check_period(26, 14, 10);
    check_period(500, 14, 120);
    check_period(1, 20, 5);
    check_period(500, 20, 180);
    check_period(500, 40, 360);
    check_period(1, 64, 60);
    check_period(500, 200, 1440);
    check_period(500, 1, 10);
}

proptest! {
    #[test]
    fn every_question_is_put_once_and_about_no_less_than_it_needs(ages in vec(-100_000..60_000_000_i64, 0..1200)) {
        let now = time(NOW);
        let since = |seconds: i64| now - SignedDuration::from_secs(seconds);
        let asks: Vec<VolumeUseQuery> =
            ages.iter().enumerate().map(|(number, age)| ask(&format!("vol-{number}"), since(*age))).collect();
        let calls = calls(asks.iter(), now);
        prop_assert!(calls.len() <= 10 + asks.len() / 221, "{} calls", calls.len());
        let mut put = BTreeSet::new();
        for call in &calls {
            prop_assert!(!call.questions.is_empty() && call.questions.len() <= QUERIES_MAX);
            prop_assert!(call.from() < call.until && call.until >= now);
            let period = call.period.as_secs();
            prop_assert_eq!((call.from().as_second() % period, call.until.as_second() % period), (0, 0));
            // `CloudWatch` has periods of that length all over the span.
            let kept = match period { 60 => 15, 300..3600 => 63, _ => 455 };
            let periods = call.until.duration_since(call.from()).as_secs() / period;
            prop_assert!(call.questions.len() * usize::try_from(periods).unwrap() <= DATAPOINTS_MAX);
            prop_assert!(now.duration_since(call.from()) < SignedDuration::from_hours(24 * kept));
            for UseQuestion { ask, from } in &call.questions {
                prop_assert!(put.insert(ask.volume.clone()));
                prop_assert!(call.from() <= *from && *from < call.until);
                let later = from.duration_since(ask.since).as_secs();
                let age = now.duration_since(ask.since);
                let is_kept = age < SignedDuration::from_hours(455 * 24 - 1);
                prop_assert!(later < period || !is_kept, "{later} s later than asked");
                prop_assert!(period == 60 || later * 24 < age.as_secs() || !is_kept, "{later} s of {age:?} are lost");
                // Only minutes, and what lies in the future, begin before it.
                prop_assert!(later >= 0 || period == 60 && (later > -60 || ask.since > now));
            }
        }
        prop_assert_eq!(put.len(), asks.len());
    }
}
