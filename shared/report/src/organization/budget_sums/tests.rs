use std::iter::once;

use billing::budget::SharingAccount;
use model::config::{HubConfig, Overlay};
use model::fixture::time;

use super::*;
use crate::organization::{Figures, OtherTeams, TeamFigures};

const NOW: &str = "2026-11-20T12:00:00Z";
const OWN: &str = "111122223333";
const OTHER: &str = "444455556666";
const LIAR: &str = "777788889999";

fn account(id: &str) -> AccountId {
    AccountId::parse(id).unwrap()
}

fn month() -> CalendarMonth {
    CalendarMonth::read("2026-11", &TimeZone::UTC).unwrap()
}

/// Vision is shared by all three, nlp by two.
fn shared() -> SharedBudgets {
    let list = |team: &str, accounts: &[&str]| {
        format!("[teams.{team}]\nmonthly_budget_usd = 100\nbudget_accounts = {accounts:?}\n")
    };
    let hub = list("vision", &[OWN, OTHER, LIAR]) + &list("nlp", &[OWN, OTHER]);
    let config = Overlay::new(&HubConfig::read(&hub).unwrap(), OWN, "").unwrap().config;
    SharedBudgets::from_config(&config).unwrap()
}

fn sum(usd: f64, unknown: u64) -> KnownSum<Amount> {
    KnownSum::new(Amount::from_usd(usd), unknown)
}

fn figures(teams: &[(&str, f64)], as_of: &str) -> AccountFigures {
    let row = |(team, spent): &(&str, f64)| TeamFigures {
        team: (*team).to_owned(),
        figures: Figures { spent: sum(*spent, 0), ..Figures::default() },
    };
    AccountFigures {
        account_name: None,
        month: "2026-11".to_owned(),
        as_of: time(as_of),
        known_since: None,
        is_final: false,
        mode: None,
        budget_usd: None,
        forecast_usd: None,
        teams: teams.iter().map(row).collect(),
        other_teams: None,
    }
}

type Published = Vec<(&'static str, Result<AccountFigures, ShareProblem>)>;

fn sums(published: Published) -> BTreeMap<AccountId, BudgetSums> {
    let spend = |figures: AccountFigures| PublishedSpend::from_figures(&figures, &shared());
    let published = published.into_iter().map(|(id, figures)| (account(id), figures.map(spend))).collect();
    let sums = shared().sums(&month(), &published, time(NOW));
    sums.into_iter().map(|sums| (sums.account.clone(), sums)).collect()
}

fn total(sums: &BTreeMap<AccountId, BudgetSums>, id: &str, team: &str) -> KnownSum<Amount> {
    sums[&account(id)].teams.iter().find(|sum| sum.team.as_str() == team).unwrap().total
}

fn honest() -> Published {
    vec![
        (OWN, Ok(figures(&[("vision", 10.0), ("nlp", 1.0)], NOW))),
        (OTHER, Ok(figures(&[("vision", 5.0), ("nlp", 2.0), ("audio", 7.0)], NOW))),
    ]
}

#[test]
fn each_account_gets_the_budgets_that_it_shares() {
    let found = sums(honest().into_iter().chain(once((LIAR, Ok(figures(&[], NOW))))).collect());
    let teams = |id: &str| found[&account(id)].teams.iter().map(|sum| sum.team.to_string()).collect::<Vec<_>>();
    assert_eq!((teams(OWN), teams(LIAR)), (vec!["nlp".to_owned(), "vision".to_owned()], vec!["vision".to_owned()]));
    // What is not named has spent nothing.
    assert_eq!((total(&found, OWN, "vision"), total(&found, OWN, "nlp")), (sum(15.0, 0), sum(3.0, 0)));
    let document = &found[&account(OWN)];
    assert_eq!((document.month.as_str(), document.made_at), ("2026-11", time(NOW)));
    let vision = &document.teams[1];
    assert_eq!(vision.shares.iter().map(|share| share.account.as_str()).collect::<Vec<_>>(), [OWN, OTHER, LIAR]);
    assert!(vision.shares.iter().all(|share| share.seconds_old == Some(0) && share.as_of == Some(time(NOW))));
    let stored = BudgetSums::key(&account(OWN), "2026-11");
    assert_eq!(stored, "sums/111122223333/2026-11.json");
}

#[test]
fn what_one_account_publishes_changes_no_share_of_another() {
    let honest_nlp = sum(3.0, 0);
    let many = OtherTeams { teams: 900, figures: Figures::default() };
    let hidden = AccountFigures { other_teams: Some(many), ..figures(&[("a", 9.0)], NOW) };
    for (published, vision) in [
        (Some(Err(ShareProblem::Refused)), sum(15.0, 1)),
        (None, sum(15.0, 1)),
        (Some(Ok(hidden)), sum(15.0, 1)),
        (Some(Ok(figures(&[("vision", 4.0)], "2026-11-20T10:59:59Z"))), sum(19.0, 1)),
        (Some(Ok(figures(&[("nlp", 1e9), ("vision", 1e9)], NOW))), sum(1e9 + 15.0, 0)),
    ] {
        let found = sums(honest().into_iter().chain(published.map(|figures| (LIAR, figures))).collect());
        assert_eq!((total(&found, OWN, "vision"), total(&found, OTHER, "nlp")), (vision, honest_nlp));
    }
    // An account that no budget names has no document and no share.
    let stranger = honest().into_iter().chain(once(("999999999999", Ok(figures(&[("vision", 1e9)], NOW)))));
    let found = sums(stranger.collect());
    assert_eq!((total(&found, OWN, "vision"), found.len()), (sum(15.0, 1), 3));
}

#[test]
fn an_account_reads_the_sum_of_the_others() {
    let found = sums(honest());
    let own = account(OWN);
    let budgets = SharingAccount { account: &own, month: "2026-11", now: time(NOW) }
        .budgets(&shared().0, Ok(Some(found[&own].clone())));
    // Its own present spend counts, not that of the sum.
    assert_eq!(budgets[&TeamName::from("nlp")].counted_others(), Amount::from_usd(2.0));
    assert_eq!(budgets[&TeamName::from("vision")].others, sum(5.0, 1));
}

#[test]
fn around_the_end_of_a_month_there_are_two() {
    let months = |now: &str| present_months(time(now)).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(months(NOW), ["2026-11"]);
    assert_eq!(months("2026-11-30T09:59:59Z"), ["2026-11"]);
    assert_eq!(months("2026-11-30T10:00:00Z"), ["2026-11", "2026-12"]);
    assert_eq!(months("2026-12-01T11:59:59Z"), ["2026-11", "2026-12"]);
    assert_eq!(months("2026-12-01T12:00:00Z"), ["2026-12"]);
}

#[test]
fn without_a_shared_budget_there_is_nothing_to_sum() {
    assert_eq!(SharedBudgets::from_config(&Config::default()), None);
}
