use std::collections::BTreeSet;

use model::fixture::time;
use model::mode::Mode;

use super::*;
use crate::budget::{BudgetReservation, CostExplorerFigures, UnpricedResource};

const NOW: &str = "2026-11-22T00:50:00Z";

fn november() -> BudgetMonth {
    BudgetMonth::named("2026-11", &Config::default()).unwrap()
}

fn usd(usd: f64) -> Amount {
    Amount::from_usd(usd)
}

/// Of vision, five minutes old: 84 % of $5,000 are spent.
fn within_budget() -> Budget {
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

fn spent(amount: f64, verdict: BudgetVerdict) -> Budget {
    Budget { spent_usd: usd(amount), verdict, ..within_budget() }
}

fn overview_of(documents: &[(&str, Budget)], config: &str, period: BudgetMonth) -> BudgetOverview {
    let documents = documents.iter().map(|(team, budget)| {
        let whose = if *team == "account" { BudgetHolder::Account } else { holder(team) };
        (whose, budget.clone())
    });
    BudgetOverview::from_documents(documents.collect(), None, &Config::read(config).unwrap(), period, time(NOW))
}

fn row(budget: Budget) -> BudgetRow {
    BudgetRow::from_document(&holder("vision"), Some(budget), &november(), time(NOW))
}

#[test]
fn figures_are_fresh_for_an_hour_and_final_after_the_month() {
    let state = |as_of: Option<&str>, now: &str| state(as_of.map(time), &november(), time(now));
    assert_eq!(state(None, NOW), BudgetDataState::Absent);
    assert_eq!(state(Some("2026-11-21T23:50:00Z"), NOW), BudgetDataState::Fresh);
    assert_eq!(state(Some("2026-11-21T23:49:59Z"), NOW), BudgetDataState::Stale);
    assert_eq!(state(Some("2026-11-22T00:51:00Z"), NOW), BudgetDataState::Fresh, "by another clock");
    assert_eq!(
        state(Some("2026-11-30T23:50:00Z"), "2026-12-01T00:10:00Z"),
        BudgetDataState::Final,
        "but for ten minutes"
    );
    assert_eq!(state(Some("2026-11-30T22:59:00Z"), "2026-11-30T23:58:00Z"), BudgetDataState::Fresh);
    assert_eq!(state(Some("2026-11-30T22:59:00Z"), "2026-12-01T00:00:00Z"), BudgetDataState::Stale);
    assert_eq!(state(Some("2026-12-01T00:00:00Z"), "2027-06-01T00:00:00Z"), BudgetDataState::Final);
}

#[test]
fn the_account_is_first_and_then_the_team_nearest_to_its_limit() {
    let documents = [
        ("account", Budget { budget_usd: None, ..within_budget() }),
        ("little", spent(10.0, BudgetVerdict::Ok)),
        ("much", spent(6_000.0, BudgetVerdict::Hold)),
        ("free", Budget { budget_usd: None, spent_usd: usd(9_000.0), ..within_budget() }),
        ("cheap", Budget { budget_usd: None, spent_usd: usd(1.0), ..within_budget() }),
        ("reserved", Budget { as_of: None, ..within_budget() }),
        ("untagged", Budget { budget_usd: None, spent_usd: usd(2.0), ..within_budget() }),
    ];
    let overview = overview_of(&documents, "[teams.new]\nmonthly_budget_usd = 1\n[teams.other]\n", november());
    let names: Vec<String> = overview.rows.iter().map(BudgetRow::name).collect();
    let expected = ["(account)", "much", "little", "free", "(no team)", "cheap", "reserved", "new"];
    assert_eq!(names, expected);
}

#[test]
fn nothing_of_a_past_month_is_missed_but_what_was_there() {
    let october = BudgetMonth::named("2026-10", &Config::default()).unwrap();
    let overview = overview_of(&[], "[teams.new]\nmonthly_budget_usd = 1\n", october);
    assert_eq!(overview.rows.len(), 1);
    insta::assert_snapshot!(overview.problems().join("\n"), @"(account): nothing is known of 2026-10; no ledger was kept then, or its documents are gone");
    assert_eq!(overview.conclusion(), BudgetConclusion::Unknown);
}

#[test]
fn unknown_budgets_come_before_exceeded_ones() {
    let account = ("account", spending(&["vision"]));
    let conclusion = |budget: Budget| overview_of(&[account.clone(), ("vision", budget)], "", november()).conclusion();
    assert_eq!(conclusion(within_budget()), BudgetConclusion::WithinBudget);
    for verdict in [BudgetVerdict::Notify, BudgetVerdict::Hold, BudgetVerdict::Stop] {
        assert_eq!(conclusion(spent(5_000.0, verdict)), BudgetConclusion::OverBudget);
        let stale = Budget { as_of: Some(time("2026-11-20T00:00:00Z")), ..spent(5_000.0, verdict) };
        assert_eq!(conclusion(stale), BudgetConclusion::Unknown);
    }
    assert_eq!(overview_of(&[("vision", within_budget())], "", november()).conclusion(), BudgetConclusion::Unknown);
}

#[test]
fn stale_and_absent_say_what_to_do() {
    let old = Budget { as_of: Some(time("2026-11-21T20:50:00Z")), ..within_budget() };
    let overview =
        overview_of(&[("account", old.clone()), ("vision", old)], "[teams.nlp]\nmonthly_budget_usd = 1\n", november());
    insta::assert_snapshot!(overview.problems().join("\n"), @r"
    (account), vision: the figures are older than 1h; nothing is stopped and no job is launched by them. enforce-budgets should run every 15 minutes: curfew doctor says whether it does
    nlp: nothing is known of 2026-11 yet; enforce-budgets writes it every 15 minutes: curfew doctor says whether it runs
    ");
    let ages: Vec<String> = overview.rows.iter().map(|row| overview.how_old(row)).collect();
    assert_eq!(ages, ["4h ago: stale", "4h ago: stale", "never"]);
    let october = BudgetMonth::named("2026-10", &Config::default()).unwrap();
    let not_final = Budget { as_of: Some(time("2026-10-30T00:00:00Z")), ..within_budget() };
    insta::assert_snapshot!(overview_of(&[("account", not_final)], "", october).problems().join("\n"), @"(account): the last figures are of more than 1h before 2026-10 ended, and what was spent after them is not in them; the ledger of that month may have it: s3://<state bucket>/ledger/2026-10/");
}

#[test]
fn the_action_is_named_as_far_as_it_is_enforced() {
    let follows = |verdict, mode| row(Budget { mode, ..spent(5_000.0, verdict) }).consequence();
    assert_eq!(follows(BudgetVerdict::Notify, Mode::Observe), "over: notify only");
    assert_eq!(follows(BudgetVerdict::Hold, Mode::Enforce), "over: no new jobs");
    assert_eq!(follows(BudgetVerdict::Hold, Mode::Observe), "over: no new jobs in enforce mode");
    assert_eq!(follows(BudgetVerdict::Stop, Mode::Enforce), "over: instances are stopped");
    assert_eq!(row(within_budget()).consequence(), "ok");
    assert_eq!(
        row(Budget { forecast_usd: Some(usd(5_000.0)), ..within_budget() }).consequence(),
        "ok; the forecast exceeds it"
    );
    assert_eq!(row(Budget { budget_usd: None, ..within_budget() }).consequence(), "no budget");
    assert_eq!(row(Budget { as_of: None, ..within_budget() }).consequence(), "unknown");
}

fn lines(row: &BudgetRow) -> String {
    let line = |BudgetFigure { label, figure, words }: BudgetFigure| format!("{label:9} {figure:>10}  {words}");
    row.facts().into_iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_figure_is_said_with_what_it_is_based_on() {
    let (instances, at) = (BTreeSet::new(), time(NOW));
    let reservation = BudgetReservation {
        number: 1,
        usd: usd(200.0),
        spent_usd: usd(80.0),
        since: at,
        instances,
        until: at,
        ended: None,
    };
    let budget = Budget {
        uncertain_usd: usd(3.2),
        blind_since: Some(time("2026-11-21T22:30:00Z")),
        reserved_usd: usd(120.0),
        reservations: [("vision/train".to_owned(), reservation)].into(),
        billed: Some(CostExplorerFigures {
            usd: usd(4_000.0),
            all_usd: usd(4_500.0),
            from: "2026-11-01".to_owned(),
            until: "2026-11-20".to_owned(),
            ..CostExplorerFigures::default()
        }),
        ..within_budget()
    };
    insta::assert_snapshot!(lines(&row(budget)), @r"
    budget     $5,000.00  
    spent      $4,210.13  84 % of the budget; up to $3.20 more, because some stops were not observed; and what ran after 2026-11-21 22:30 UTC is not in it
    reserved     $120.00  for 1 job
    left         $669.87  at most
    forecast   $4,900.00  98 % of the budget; as the last 7 days
    burn rate   $12.30/h  as far as prices are known
    verdict               ok
    billed     $4,000.00  by Cost Explorer for the GPU instances, 2026-11-01 to before 2026-11-20 (UTC); the ledger says the same. All of EC2 and EBS: $4,500.00
    ");
    let unlimited = Budget { budget_usd: None, remaining_usd: None, forecast_usd: None, ..within_budget() };
    insta::assert_snapshot!(lines(&row(unlimited)), @r"
    budget             -  none; the configuration sets it: monthly_budget_usd in [teams.vision]
    spent      $4,210.13  
    reserved       $0.00  
    forecast           -  as the last 7 days
    burn rate   $12.30/h  as far as prices are known
    verdict               no budget
    ");
    assert_eq!(lines(&row(Budget { as_of: None, ..within_budget() })), "");
    let closed = Budget { as_of: Some(time("2026-11-30T23:55:00Z")), ..within_budget() };
    let closed = BudgetRow::from_document(&holder("vision"), Some(closed), &november(), time("2026-12-24T00:00:00Z"));
    assert!(!lines(&closed).contains("forecast") && !lines(&closed).contains("burn rate"));
}

#[test]
fn unpriced_types_are_named_up_to_a_limit() {
    let unpriced_rows = |count: usize| {
        let resource = UnpricedResource {
            resource: "i-0abc".into(),
            region: "us-east-1".into(),
            what: "g9".to_owned(),
            seconds: 7_200,
        };
        row(Budget { unpriced: vec![resource; count], ..within_budget() }).describe_unpriced()
    };
    assert_eq!(unpriced_rows(0), [""; 0]);
    assert_eq!(unpriced_rows(1), ["i-0abc (g9, us-east-1) for 2h"]);
    assert_eq!(
        (unpriced_rows(5).len(), unpriced_rows(6)[5].as_str(), unpriced_rows(7)[5].as_str()),
        (5, "1 other", "2 others")
    );
}

fn spending(teams: &[&str]) -> Budget {
    Budget { teams: teams.iter().map(|team| ((*team).to_owned(), usd(1.0))).collect(), ..within_budget() }
}

#[test]
fn a_team_that_is_gone_is_no_trouble() {
    let old = Budget { as_of: Some(time("2026-11-20T00:00:00Z")), ..spent(6_000.0, BudgetVerdict::Stop) };
    let check = |account: Budget, config: &str, expect: (BudgetDataState, BudgetConclusion)| {
        let overview = overview_of(&[("account", account), ("ghost", old.clone())], config, november());
        let ghost = overview.rows.iter().find(|row| row.team.is_some()).unwrap();
        assert_eq!((ghost.state, overview.conclusion()), expect);
        assert_eq!(overview.problems().is_empty(), expect.0 == BudgetDataState::Gone);
    };
    let trouble = (BudgetDataState::Stale, BudgetConclusion::Unknown);
    check(spending(&["vision"]), "", (BudgetDataState::Gone, BudgetConclusion::WithinBudget));
    check(spending(&["ghost"]), "", trouble);
    check(spending(&["vision"]), "[teams.ghost]\n", trouble);
    check(Budget { as_of: Some(time("2026-11-20T00:00:00Z")), ..spending(&[]) }, "", trouble);
    check(Budget { as_of: None, ..spending(&[]) }, "", trouble);
    let all = Budget { teams: (0..HOLDERS_MAX).map(|team| (team.to_string(), usd(1.0))).collect(), ..within_budget() };
    check(all, "", trouble);
    let overview =
        overview_of(&[("account", spending(&[])), ("ghost", old), ("vision", within_budget())], "", november());
    let last = overview.rows.last().unwrap();
    assert_eq!((last.name().as_str(), last.consequence(), last.over), ("ghost", "not configured any more", false));
    assert_eq!(overview.how_old(last), "2d ago");
    assert!(!lines(last).contains("forecast") && !lines(last).contains("burn rate"));
}

#[test]
fn an_unknown_team_is_answered_with_the_existing_ones() {
    let check = |team: &str, account: Budget, config: &str| {
        let documents = BTreeMap::from([(BudgetHolder::Account, account), (holder("ghost"), within_budget())]);
        unknown_team_message(&holder(team), &documents, &Config::read(config).unwrap(), &november(), time(NOW))
            .unwrap_or_default()
    };
    let teams = || spending(&["nlp", "untagged", "vision"]);
    assert_eq!(
        check("vison", teams(), "[teams.research]\n"),
        "no team vison: neither in the configuration nor in the ledger of 2026-11; there are nlp, research, untagged, vision"
    );
    assert!(check("vison", spending(&[]), "").ends_with("of 2026-11; there is none yet"));
    assert_eq!(
        check("(no team)", spending(&["nlp"]), ""),
        "(no team): all that the ledger of 2026-11 has belongs to a team"
    );
    for known in ["vision", "research", "ghost", "(no team)", "untagged", "(account)"] {
        assert_eq!(check(known, teams(), "[teams.research]\n"), "", "{known}");
    }
    let old = Budget { as_of: Some(time("2026-11-20T00:00:00Z")), ..teams() };
    assert_eq!(check("vison", old, ""), "", "unknown");
    let many: Vec<String> = (10..33).map(|team| format!("t{team}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(check("vison", spending(&many), "").ends_with("t28, t29, 3 more"));
}

#[test]
fn the_table_s_own_names_are_understood() {
    for row in [BudgetHolder::Account, holder("untagged"), holder("vision")] {
        assert_eq!(holder(&BudgetRow::from_document(&row, None, &november(), time(NOW)).name()), row);
    }
}

#[test]
fn the_accounts_document_is_read_only_if_needed() {
    let needs = |team: &str, document: Option<&Budget>| needs_account(&holder(team), document, &november(), time(NOW));
    assert!(!needs("vision", Some(&within_budget())));
    assert!(needs("vision", None) && !needs("(account)", None));
    assert!(needs("vision", Some(&Budget { as_of: None, ..within_budget() })));
    assert!(needs("vision", Some(&Budget { as_of: Some(time("2026-11-20T00:00:00Z")), ..within_budget() })));
}

#[test]
fn an_incomplete_figure_has_a_plus() {
    let g9 = UnpricedResource {
        resource: "i-0abc".into(),
        region: "us-east-1".into(),
        what: "g9".to_owned(),
        seconds: 7_200,
    };
    let without_price = Budget { unpriced: vec![g9], ..within_budget() };
    let uncertain = Budget { uncertain_usd: usd(0.01), ..within_budget() };
    let blind = Budget { blind_since: Some(time("2026-11-22T00:10:00Z")), ..within_budget() };
    for budget in [&without_price, &uncertain, &blind] {
        assert_eq!(row(budget.clone()).spent().unwrap(), "$4,210.13+");
    }
    let nothing_priced = Budget { spent_usd: Amount::ZERO, usd_per_hour: 0.0, ..without_price.clone() };
    assert_eq!(row(nothing_priced.clone()).spent().unwrap(), "unknown");
    let facts = row(nothing_priced).facts();
    let figures =
        ["spent", "burn rate"].map(|label| facts.iter().find(|fact| fact.label == label).unwrap().figure.as_str());
    assert_eq!(figures, ["unknown"; 2]);
    let exact = Budget { uncertain_usd: usd(0.009), ..within_budget() };
    assert_eq!((row(exact.clone()).spent().unwrap().as_str(), row(exact.clone()).at_least), ("$4,210.13", false));
    assert_eq!(row(Budget { as_of: None, ..without_price.clone() }).spent(), None);
    let documents =
        [("account", without_price.clone()), ("nlp", uncertain), ("blind", blind), ("vision", without_price)];
    insta::assert_snapshot!(overview_of(&documents, "", november()).footnote().unwrap(), @"+ at least this much: something has no known price, and is in no figure ((account), vision); a stop was not observed (nlp); something that runs was not seen lately (blind)");
    assert_eq!(overview_of(&[("account", exact)], "", november()).footnote(), None);
}

#[test]
fn where_a_budget_is_set_is_named() {
    let unset = |team: &str| {
        let budget = Budget { budget_usd: None, ..within_budget() };
        BudgetRow::from_document(&holder(team), Some(budget), &november(), time(NOW)).facts().remove(0).words
    };
    assert_eq!(unset("research"), "none; the configuration sets it: monthly_budget_usd in [teams.research]");
    assert!(unset("a/b c").ends_with("[teams.\"a/b c\"]"));
    assert!(unset("(account)").ends_with("monthly_budget_usd in [account]"));
    assert_eq!(unset("untagged"), "none: what has no team can have no budget");
}

#[test]
fn the_text_of_an_exceeded_budget_has_the_excess_and_of_others_the_rest() {
    let over = row(Budget { remaining_usd: Some(Amount::ZERO), ..spent(5_600.85, BudgetVerdict::Notify) });
    assert!(lines(&over).contains("over by      $600.85") && !lines(&over).contains("left"), "{}", lines(&over));
    assert_eq!(over.remedy_is(), "What would bring it back under its budget");
    let full = row(Budget { remaining_usd: Some(Amount::ZERO), ..spent(5_000.0, BudgetVerdict::Notify) });
    assert!(lines(&full).contains("left           $0.00"), "{}", lines(&full));
    assert_eq!(row(spent(950.0, BudgetVerdict::Ok)).remedy_is(), "What would keep it under its budget");
    assert_eq!(["untagged", "vision"].map(words::shown), ["(no team)", "vision"]);
}

#[test]
fn a_first_month_says_since_when_the_ledger_is_kept() {
    let first = Budget { ledger_since: Some(time("2026-11-20T10:00:00Z")), ..within_budget() };
    let sentence = "the ledger starts at 2026-11-20 10:00 UTC: what stopped before is not in it";
    assert!(lines(&row(first)).contains(sentence));
    assert!(!lines(&row(within_budget())).contains("ledger"));
}
