use jiff::tz::TimeZone;

use super::*;
use crate::organization::{organization_digest, organization_mail, render_organization_html};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn id(text: &str) -> AccountId {
    AccountId::parse(text).unwrap()
}

fn sum(usd: f64, unknown: u64) -> KnownSum<Amount> {
    KnownSum::new(Amount::from_usd(usd), unknown)
}

const NOW: &str = "2026-11-20T12:00:00Z";
const ONE: &str = "111122223333";
const OTHER: &str = "222233334444";
const THIRD: &str = "333344445555";

fn month() -> CalendarMonth {
    CalendarMonth::read("2026-11", &TimeZone::UTC).unwrap()
}

fn figures(as_of: &str, teams: &[(&str, f64)]) -> AccountFigures {
    let of = |spent: f64| Figures {
        spent: sum(spent, 0),
        budget_usd: Some(Amount::from_usd(100.0)),
        forecast_usd: Some(Amount::from_usd(2.0 * spent)),
        previous_month: Some(sum(spent / 2.0, 0)),
        saved: Some(sum(spent / 4.0, 0)),
        ..Figures::default()
    };
    AccountFigures {
        account_name: Some("research".to_owned()),
        month: "2026-11".to_owned(),
        as_of: at(as_of),
        mode: None,
        budget_usd: Some(Amount::from_usd(200.0)),
        forecast_usd: Some(Amount::from_usd(50.0)),
        teams: teams
            .iter()
            .map(|(team, spent)| TeamFigures { team: (*team).to_owned(), figures: of(*spent) })
            .collect(),
        other_teams: None,
    }
}

fn published(account: &str, beat: Option<AccountFigures>) -> PublishedMonth {
    PublishedMonth { account: id(account), beat, daily: None, heard_before: None, problems: Vec::new() }
}

fn report(published: Vec<PublishedMonth>) -> OrganizationReport {
    OrganizationReport::new(&month(), at(NOW), published, [], &BTreeMap::new(), Vec::new())
}

#[test]
fn a_team_is_summed_across_its_accounts() {
    let found = report(vec![
        published(ONE, Some(figures(NOW, &[("vision", 12.0), ("nlp", 4.0)]))),
        published(OTHER, Some(figures(NOW, &[("vision", 8.0)]))),
    ]);
    assert_eq!((found.sums.spent, found.sums.budget), (sum(24.0, 0), Some(Amount::from_usd(400.0))));
    let accounts: Vec<_> = found.accounts.iter().map(|row| (row.account.as_str(), row.sums.spent)).collect();
    assert_eq!(accounts, [(ONE, sum(16.0, 0)), (OTHER, sum(8.0, 0))]);
    let vision = &found.teams[0];
    assert_eq!((vision.team.as_str(), vision.sums.spent, vision.sums.forecast), ("vision", sum(20.0, 0), sum(40.0, 0)));
    assert_eq!(vision.accounts, BTreeMap::from([(id(ONE), sum(12.0, 0)), (id(OTHER), sum(8.0, 0))]));
    assert_eq!(vision.sums.saved, sum(5.0, 0));
    let digest = organization_digest(&found);
    assert!(
        digest.starts_with("$24.00 spent on GPUs in 2026-11 in 2 accounts; $100.00 expected by its end.\n"),
        "{digest}"
    );
    assert!(digest.contains("Saved most:\n         $4.00  research (111122223333)"), "{digest}");
}

#[test]
fn a_silent_account_is_named_and_makes_every_sum_a_lower_bound() {
    let found = report(vec![
        published(ONE, Some(figures(NOW, &[("vision", 12.0)]))),
        published(OTHER, Some(figures("2026-11-20T08:00:00Z", &[("vision", 8.0)]))),
    ]);
    assert_eq!(found.silent_accounts().map(|row| row.account.as_str()).collect::<Vec<_>>(), [OTHER]);
    assert_eq!((found.sums.spent, found.teams[0].sums.spent), (sum(20.0, 1), sum(20.0, 1)));
    let shown = "research (222233334444): not heard of since 2026-11-20 08:00 UTC";
    let mail = organization_mail(&found);
    assert!(organization_digest(&found).contains(shown), "{}", organization_digest(&found));
    assert!(render_organization_html(&found).contains(shown) && mail.page.contains(shown));
    assert!(
        mail.html.contains("not heard of since 2026-11-20 08:00 UTC")
            && mail.subject.starts_with("Curfew: at least $20.00")
    );
}

#[test]
fn an_account_without_figures_is_unknown_and_never_zero() {
    let silent = PublishedMonth { heard_before: Some(at("2026-10-31T23:45:00Z")), ..published(OTHER, None) };
    let report =
        OrganizationReport::new(&month(), at(NOW), vec![silent], [id(THIRD), id(OTHER)], &BTreeMap::new(), Vec::new());
    assert_eq!(report.sums.spent.known(), None);
    let rows: Vec<_> = report.accounts.iter().map(|row| (row.account.as_str(), row.heard_at, row.is_silent)).collect();
    assert_eq!(rows, [(OTHER, Some(at("2026-10-31T23:45:00Z")), true), (THIRD, None, true)]);
    let digest = organization_digest(&report);
    assert!(digest.starts_with("What was spent on GPUs in 2026-11 in 2 accounts is unknown"), "{digest}");
    assert!(digest.contains("333344445555: no figures of this month or the one before."), "{digest}");
    for sums in report.accounts.iter().map(|row| row.sums) {
        assert_eq!((sums.saved.known(), sums.waste.known(), sums.previous_month.known()), (None, None, None));
    }
}

#[test]
fn the_newest_spend_counts_once() {
    let morning = figures("2026-11-20T06:00:00Z", &[("vision", 10.0)]);
    let mut beat = figures(NOW, &[("vision", 12.0)]);
    (beat.teams[0].figures.saved, beat.teams[0].figures.previous_month) = (None, None);
    let both = |beat: &AccountFigures, daily: &AccountFigures| {
        report(vec![PublishedMonth { daily: Some(daily.clone()), ..published(ONE, Some(beat.clone())) }]).sums
    };
    let sums = both(&beat, &morning);
    assert_eq!((sums.spent, sums.saved), (sum(12.0, 0), sum(2.5, 0)));
    let late = figures(NOW, &[("vision", 13.0)]);
    assert_eq!(both(&figures("2026-11-20T11:59:00Z", &[("vision", 12.0)]), &late).spent, sum(13.0, 0));
}

#[test]
fn a_month_that_is_over_was_published_until_its_end() {
    let over = |as_of: &str| {
        let published = vec![published(ONE, Some(figures(as_of, &[("vision", 12.0)])))];
        OrganizationReport::new(&month(), at("2026-12-09T12:00:00Z"), published, [], &BTreeMap::new(), Vec::new())
    };
    assert_eq!(
        (over("2026-12-01T06:00:00Z").sums.spent, over("2026-11-30T23:45:00Z").sums.spent),
        (sum(12.0, 0), sum(12.0, 0))
    );
    assert_eq!(over("2026-11-29T12:00:00Z").sums.spent, sum(12.0, 1));
}

#[test]
fn what_an_account_calls_itself_stays_text_and_changes_no_other_row() {
    let hostile = "<script>alert(1)</script>\u{202e}\nhttps://evil.example";
    let mut liar = figures(NOW, &[(hostile, 1e9), ("vision", 1.0)]);
    liar.account_name = Some(hostile.to_owned());
    let honest = || published(ONE, Some(figures(NOW, &[("vision", 12.0)])));
    let lying = PublishedMonth { problems: vec![format!("does not count: {hostile}")], ..published(OTHER, Some(liar)) };
    let found = report(vec![lying, honest()]);
    let row = |report: &OrganizationReport| report.accounts.iter().find(|row| row.account == id(ONE)).cloned();
    assert_eq!(row(&found), row(&report(vec![honest()])));
    let mail = organization_mail(&found);
    for text in [&mail.page, &mail.html, &mail.text] {
        assert!(!text.contains('\u{202e}'), "{text}");
    }
    assert!(!mail.page.contains("<script>alert") && !mail.html.contains("<script>alert"));
    assert!(!mail.text.contains("https://evil") && !mail.html.contains("https://evil"));
}

#[test]
fn a_budget_that_accounts_share_counts_once() {
    let shared = |accounts: &[&str]| {
        let accounts = accounts.iter().map(|account| id(account)).collect();
        BTreeMap::from([(TeamName::from("vision"), BudgetOfAccounts { budget: Amount::from_usd(150.0), accounts })])
    };
    let beats = || {
        let of = |spent: f64| Some(figures(NOW, &[("vision", spent)]));
        vec![published(ONE, of(90.0)), published(OTHER, of(30.0)), published(THIRD, of(5.0))]
    };
    let report = |shared: &_, beats| OrganizationReport::new(&month(), at(NOW), beats, [], shared, Vec::new());
    let found = report(&shared(&[ONE, OTHER]), beats());
    let vision = &found.teams[0];
    // The third account has a budget of its own.
    assert_eq!((vision.sums.spent, vision.sums.budget), (sum(125.0, 0), Some(Amount::from_usd(250.0))));
    let budget = vision.shared_budget.clone().unwrap();
    assert_eq!((budget.budget_usd, budget.spent, budget.accounts), (Amount::from_usd(150.0), sum(120.0, 0), 2));
    let line = "Budgets that accounts share:\n       $120.00  vision in 2 accounts, of $150.00";
    assert!(organization_digest(&found).contains(line), "{}", organization_digest(&found));
    assert!(render_organization_html(&found).contains("2 accounts share a budget of $150.00, and spent $120.00"));
    // What is not known of one of them, the budget does not know; nobody spends on it, and it is named all the same.
    let unknown = report(&shared(&[ONE, "999999999999"]), beats());
    assert_eq!(unknown.teams[0].shared_budget.clone().unwrap().spent, sum(90.0, 1));
    let nothing = report(&shared(&[ONE, OTHER]), Vec::new());
    assert_eq!(nothing.teams[0].shared_budget.clone().unwrap().spent, sum(0.0, 2));
    assert!(organization_digest(&nothing).contains("unknown  vision in 2 accounts, of $150.00"));
}
