use model::fixture::time;

use super::*;

const RATE: Rate = Rate::from_usd_micros_per_hour(1_000_000);
const SPAN: (&str, &str) = ("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z");
/// A Monday.
const STOPPED: &str = "2026-11-09T14:00:00Z";

fn span(from: &str, to: &str) -> TimeSpan {
    TimeSpan { from: time(from), to: time(to) }
}

fn ended(resource: &str, action: EndingAction, at: &str) -> EndedResource {
    EndedResource {
        region: "us-east-1".into(),
        resource: resource.into(),
        what: "g5.xlarge".to_owned(),
        team: Some("vision".into()),
        rule: "idle".to_owned(),
        action,
        at: time(at),
        rate: Some(RATE),
        remaining_rate: Rate::ZERO,
        hours: None,
        audit_key: "plans/2026-11-09/reap-instances/run.json".to_owned(),
    }
}

fn stopped(at: &str) -> EndedResource {
    ended("i-1", EndingAction::Stop, at)
}

fn with_hours(at: &str) -> EndedResource {
    EndedResource { hours: Some(Hours::read("Mon-Fri 08:00-20:00 UTC").unwrap()), ..stopped(at) }
}

fn started(starts: &[(&str, &str)]) -> StartIndex {
    let mut index = StartIndex::default();
    let key = StartKey { region: "us-east-1".into(), team: Some("vision".into()), what: "g5.xlarge".to_owned() };
    for (resource, at) in starts {
        index.add(&"us-east-1".into(), &(*resource).into(), time(at), Some(key.clone()));
    }
    index
}

/// `expect`: of each action its resource, until when it counts, why, and what it saves.
fn check(of: Vec<EndedResource>, starts: &[(&str, &str)], expect: &[&str]) {
    let saved = savings(of, &started(starts), span(SPAN.0, SPAN.1));
    let shown = |line: &SavingLine| {
        let saved = line.saved.map_or("unknown".to_owned(), |saved| saved.to_string());
        format!("{} {} {} {saved}", line.ended.resource, line.counted.to.strftime("%d %H:%M"), line.limit.describe())
    };
    assert_eq!(saved.lines.iter().map(shown).collect::<Vec<_>>(), expect);
    assert_eq!(saved.total, saved.lines.iter().filter_map(|line| line.saved).sum());
}

#[test]
fn a_stop_counts_until_the_next_start_and_for_seven_days_at_most() {
    check(vec![stopped(STOPPED)], &[("i-1", "2026-11-10T08:00:00Z")], &["i-1 10 08:00 started again $18.00"]);
    check(vec![stopped(STOPPED)], &[("i-1", "2026-11-08T08:00:00Z")], &["i-1 16 14:00 7 days were over $168.00"]);
    check(vec![stopped("2026-11-30T20:00:00Z")], &[], &["i-1 01 00:00 still counting $4.00"]);
}

#[test]
fn usual_hours_end_it_the_next_time_they_end() {
    check(vec![with_hours(STOPPED)], &[], &["i-1 09 20:00 its usual hours ended $6.00"]);
    let friday = "2026-11-13T20:00:00Z";
    let monday = ("i-1", "2026-11-16T08:00:00Z");
    check(vec![with_hours(friday)], &[monday], &["i-1 16 08:00 started again $60.00"]);
    check(vec![with_hours(friday)], &[], &["i-1 16 20:00 its usual hours ended $72.00"]);
}

#[test]
fn only_a_terminated_instance_is_replaced_and_one_launch_replaces_one() {
    let launch = ("i-3", "2026-11-09T18:00:00Z");
    let terminated = |resource: &str, at| ended(resource, EndingAction::Terminate, at);
    let both = vec![terminated("i-2", "2026-11-09T15:00:00Z"), terminated("i-1", STOPPED)];
    let expect = ["i-1 09 18:00 replaced by another instance $4.00", "i-2 16 15:00 7 days were over $168.00"];
    check(both, &[launch], &expect);
    check(vec![stopped(STOPPED)], &[launch], &["i-1 16 14:00 7 days were over $168.00"]);
    let other_team = EndedResource { team: None, ..terminated("i-1", STOPPED) };
    check(vec![other_team], &[launch], &["i-1 16 14:00 7 days were over $168.00"]);
}

#[test]
fn two_stops_without_a_start_count_once() {
    let again = "2026-11-09T14:05:00Z";
    let once = ["i-1 16 14:00 7 days were over $168.00", "i-1 09 14:05 counted with an earlier action $0.00"];
    check(vec![stopped(again), stopped(STOPPED)], &[], &once);
    let twice = ["i-1 09 14:03 started again $0.05", "i-1 16 14:05 7 days were over $168.00"];
    check(vec![stopped(STOPPED), stopped(again)], &[("i-1", "2026-11-09T14:03:00Z")], &twice);
}

#[test]
fn an_unknown_price_saves_nothing_and_a_volume_what_its_snapshot_leaves() {
    let unpriced = EndedResource { rate: None, ..stopped(STOPPED) };
    check(vec![unpriced.clone()], &[], &["i-1 16 14:00 7 days were over unknown"]);
    assert_eq!(savings([unpriced], &StartIndex::default(), span(SPAN.0, SPAN.1)).unpriced, 1);
    let remaining_rate = Rate::from_usd_micros_per_hour(250_000);
    let volume = EndedResource { remaining_rate, ..ended("vol-1", EndingAction::Delete, STOPPED) };
    check(vec![volume], &[], &["vol-1 16 14:00 7 days were over $126.00"]);
}

#[test]
fn a_stop_before_the_span_saves_within_it_and_one_after_it_nothing() {
    let before = stopped("2026-10-30T00:00:00Z");
    check(vec![before], &[], &["i-1 06 00:00 7 days were over $120.00"]);
    check(vec![stopped("2026-10-20T00:00:00Z"), stopped("2026-12-02T00:00:00Z")], &[], &[]);
}

#[test]
fn the_spans_of_two_reports_add_up_to_that_of_both() {
    let of = || vec![stopped("2026-10-30T00:00:00Z"), ended("i-2", EndingAction::Stop, STOPPED)];
    let total = |from, to| savings(of(), &StartIndex::default(), span(from, to)).total;
    let (from, middle, to) = ("2026-10-29T00:00:00Z", "2026-11-10T00:00:00Z", "2026-12-01T00:00:00Z");
    assert_eq!(total(from, middle) + total(middle, to), total(from, to));
}
