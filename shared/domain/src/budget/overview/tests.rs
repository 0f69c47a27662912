use std::collections::BTreeSet;

use super::*;
use crate::budget::{Billed, Reservation, Unpriced};
use crate::fixture::time;
use crate::mode::Mode;

const NOW: &str = "2026-11-22T00:50:00Z";

fn november() -> Period {
    Period::named("2026-11", &Config::default()).unwrap()
}

fn usd(usd: f64) -> Amount {
    Amount::from_usd(usd)
}

/// Of vision, five minutes old: 84 % of $5,000 are spent.
fn standing() -> Budget {
    Budget {
        team: Some("vision".into()),
        month: "2026-11".to_owned(),
        as_of: Some(time("2026-11-22T00:45:00Z")),
        budget_usd: Some(usd(5_000.0)),
        spent_usd: usd(4_210.13),
        remaining_usd: Some(usd(789.87)),
        forecast_usd: Some(usd(4_900.0)),
        forecast_method: "as the last 7 days".to_owned(),
        usd_per_hour: 12.3,
        ..Budget::default()
    }
}

fn spent(amount: f64, verdict: Verdict) -> Budget {
    Budget { spent_usd: usd(amount), verdict, ..standing() }
}

fn of(documents: &[(&str, Budget)], config: &str, period: Period) -> Overview {
    let documents = documents.iter().map(|(team, budget)| {
        let whose = if *team == "account" { Holder::Account } else { holder(team) };
        (whose, budget.clone())
    });
    Overview::of(documents.collect(), None, &Config::read(config).unwrap(), period, time(NOW))
}

fn one(budget: Budget) -> Row {
    Row::of(&holder("vision"), Some(budget), &november(), time(NOW))
}

#[test]
fn figures_hold_for_an_hour_or_for_good_once_the_month_is_over() {
    let state = |as_of: Option<&str>, now: &str| state(as_of.map(time), &november(), time(now));
    assert_eq!(state(None, NOW), State::Absent);
    assert_eq!(state(Some("2026-11-21T23:50:00Z"), NOW), State::Fresh);
    assert_eq!(state(Some("2026-11-21T23:49:59Z"), NOW), State::Stale);
    assert_eq!(state(Some("2026-11-22T00:51:00Z"), NOW), State::Fresh, "by another clock");
    assert_eq!(state(Some("2026-11-30T23:50:00Z"), "2026-12-01T00:10:00Z"), State::Final, "but for ten minutes");
    assert_eq!(state(Some("2026-11-30T22:59:00Z"), "2026-11-30T23:58:00Z"), State::Fresh);
    assert_eq!(state(Some("2026-11-30T22:59:00Z"), "2026-12-01T00:00:00Z"), State::Stale);
    assert_eq!(state(Some("2026-12-01T00:00:00Z"), "2027-06-01T00:00:00Z"), State::Final);
}

#[test]
fn the_account_is_first_and_then_whoever_is_nearest_to_the_end() {
    let documents = [
        ("account", Budget { budget_usd: None, ..standing() }),
        ("little", spent(10.0, Verdict::Ok)),
        ("much", spent(6_000.0, Verdict::Hold)),
        ("free", Budget { budget_usd: None, spent_usd: usd(9_000.0), ..standing() }),
        ("cheap", Budget { budget_usd: None, spent_usd: usd(1.0), ..standing() }),
        ("reserved", Budget { as_of: None, ..standing() }),
        ("untagged", Budget { budget_usd: None, spent_usd: usd(2.0), ..standing() }),
    ];
    let overview = of(&documents, "[teams.new]\nmonthly_budget_usd = 1\n[teams.other]\n", november());
    let names: Vec<String> = overview.rows.iter().map(Row::name).collect();
    let expected = ["(account)", "much", "little", "free", "(no team)", "cheap", "reserved", "new"];
    assert_eq!(names, expected);
}

#[test]
fn nothing_of_a_past_month_is_missed_but_what_was_there() {
    let october = Period::named("2026-10", &Config::default()).unwrap();
    let overview = of(&[], "[teams.new]\nmonthly_budget_usd = 1\n", october);
    assert_eq!(overview.rows.len(), 1);
    insta::assert_snapshot!(overview.troubles().join("\n"), @"of (account): nothing is known of 2026-10; no ledger was kept then, or its documents are gone");
    assert_eq!(overview.conclusion(), Conclusion::Unknown);
}

#[test]
fn what_nobody_can_say_comes_before_who_is_over() {
    let account = ("account", standing());
    let conclusion = |budget: Budget| of(&[account.clone(), ("vision", budget)], "", november()).conclusion();
    assert_eq!(conclusion(standing()), Conclusion::Fine);
    for verdict in [Verdict::Notify, Verdict::Hold, Verdict::Stop] {
        assert_eq!(conclusion(spent(5_000.0, verdict)), Conclusion::Over);
        let stale = Budget { as_of: Some(time("2026-11-20T00:00:00Z")), ..spent(5_000.0, verdict) };
        assert_eq!(conclusion(stale), Conclusion::Unknown);
    }
    assert_eq!(of(&[("vision", standing())], "", november()).conclusion(), Conclusion::Unknown);
}

#[test]
fn stale_and_absent_say_what_to_do() {
    let old = Budget { as_of: Some(time("2026-11-21T20:50:00Z")), ..standing() };
    let overview =
        of(&[("account", old.clone()), ("vision", old)], "[teams.nlp]\nmonthly_budget_usd = 1\n", november());
    insta::assert_snapshot!(overview.troubles().join("\n"), @r"
    of (account), vision: the figures are older than 1h; nothing ends and no job is launched on them. enforce-budgets should run every 15 minutes: curfew doctor says whether it does
    of nlp: nothing is known of 2026-11 yet; enforce-budgets writes it every 15 minutes: curfew doctor says whether it runs
    ");
    let ages: Vec<String> = overview.rows.iter().map(|row| overview.how_old(row)).collect();
    assert_eq!(ages, ["4h ago: stale", "4h ago: stale", "never"]);
    let october = Period::named("2026-10", &Config::default()).unwrap();
    let unclosed = Budget { as_of: Some(time("2026-10-30T00:00:00Z")), ..standing() };
    insta::assert_snapshot!(of(&[("account", unclosed)], "", october).troubles().join("\n"), @"of (account): the last figures are of more than 1h before 2026-10 ended, and what was spent after them is not in them; the ledger of that month may have it: s3://<state bucket>/ledger/2026-10/");
}

#[test]
fn what_follows_is_said_as_far_as_it_is_enforced() {
    let follows = |verdict, mode| one(Budget { mode, ..spent(5_000.0, verdict) }).follows();
    assert_eq!(follows(Verdict::Notify, Mode::Observe), "over: people are told");
    assert_eq!(follows(Verdict::Hold, Mode::Enforce), "over: no new jobs");
    assert_eq!(follows(Verdict::Hold, Mode::Observe), "over: no new jobs, if it were enforced");
    assert_eq!(follows(Verdict::Stop, Mode::Enforce), "over: instances end");
    assert_eq!(one(standing()).follows(), "ok");
    assert_eq!(one(Budget { forecast_usd: Some(usd(5_000.0)), ..standing() }).follows(), "ok; the forecast is over");
    assert_eq!(one(Budget { budget_usd: None, ..standing() }).follows(), "no budget");
    assert_eq!(one(Budget { as_of: None, ..standing() }).follows(), "nobody can say");
}

fn shown(row: &Row) -> String {
    let line = |Fact { label, figure, words }: Fact| format!("{label:9} {figure:>10}  {words}");
    row.facts().into_iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_figure_is_said_with_what_it_is_based_on() {
    let (instances, at) = (BTreeSet::new(), time(NOW));
    let reservation =
        Reservation { usd: usd(200.0), spent_usd: usd(80.0), since: at, instances, until: at, ended: None };
    let budget = Budget {
        uncertain_usd: usd(3.2),
        blind_since: Some(time("2026-11-21T22:30:00Z")),
        reserved_usd: usd(120.0),
        reservations: [("vision/train".to_owned(), reservation)].into(),
        billed: Some(Billed {
            usd: usd(4_000.0),
            all_usd: usd(4_500.0),
            from: "2026-11-01".to_owned(),
            until: "2026-11-20".to_owned(),
            ..Billed::default()
        }),
        ..standing()
    };
    insta::assert_snapshot!(shown(&one(budget)), @r"
    budget     $5,000.00  
    spent      $4,210.13  84 % of the budget; up to $3.20 more, as nobody saw when some of it ended; and what ran after 2026-11-21 22:30 UTC is not in it
    reserved     $120.00  for 1 job
    left         $789.87  
    forecast   $4,900.00  98 % of the budget; as the last 7 days
    burns now   $12.30/h  as far as prices are known
    verdict               ok
    billed     $4,000.00  by Cost Explorer for the GPU instances, 2026-11-01 to before 2026-11-20 (UTC); the ledger says the same. All of EC2 and EBS: $4,500.00
    ");
    let unlimited = Budget { budget_usd: None, remaining_usd: None, forecast_usd: None, ..standing() };
    insta::assert_snapshot!(shown(&one(unlimited)), @r"
    budget             -  none; the configuration sets it: monthly_budget_usd in its section
    spent      $4,210.13  
    reserved       $0.00  
    forecast           -  as the last 7 days
    burns now   $12.30/h  as far as prices are known
    verdict               no budget
    ");
    assert_eq!(shown(&one(Budget { as_of: None, ..standing() })), "");
    let closed = Budget { as_of: Some(time("2026-11-30T23:55:00Z")), ..standing() };
    let closed = Row::of(&holder("vision"), Some(closed), &november(), time("2026-12-24T00:00:00Z"));
    assert!(!shown(&closed).contains("forecast") && !shown(&closed).contains("burns"));
}

#[test]
fn what_has_no_price_is_named_as_far_as_somebody_reads_it() {
    let one = |count: usize| {
        let unpriced =
            Unpriced { resource: "i-0abc".into(), region: "us-east-1".into(), what: "g9".to_owned(), seconds: 7_200 };
        one(Budget { unpriced: vec![unpriced; count], ..standing() }).unpriced()
    };
    assert_eq!(one(0), [""; 0]);
    assert_eq!(one(1), ["i-0abc (g9, us-east-1) for 2h"]);
    assert_eq!((one(5).len(), one(6)[5].as_str(), one(7)[5].as_str()), (5, "1 other", "2 others"));
}
