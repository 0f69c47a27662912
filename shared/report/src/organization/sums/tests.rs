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
        known_since: None,
        is_final: false,
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
    let reported = |account: &str, figures: AccountFigures| PublishedMonth {
        daily: Some(figures.clone()),
        ..published(account, Some(figures))
    };
    let found = report(vec![
        reported(ONE, figures(NOW, &[("vision", 12.0), ("nlp", 4.0)])),
        reported(OTHER, figures(NOW, &[("vision", 8.0)])),
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
    assert_eq!((found.sums.spent, found.teams[0].sums.spent), (sum(20.0, 2), sum(20.0, 1)));
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
fn a_month_that_is_over_is_complete_if_its_end_is_known() {
    let over = |figures: AccountFigures| {
        let published = vec![published(ONE, Some(figures))];
        let now = at("2026-12-09T12:00:00Z");
        OrganizationReport::new(&month(), now, published, [], &BTreeMap::new(), Vec::new())
    };
    let spent = |as_of: &str, is_final: bool| {
        let report = over(AccountFigures { is_final, ..figures(as_of, &[("vision", 12.0)]) });
        let exported = report.accounts[0].teams[0].figures.spent;
        (exported.is_complete(), report.accounts[0].sums.spent.is_complete(), report.teams[0].sums.spent.is_complete())
    };
    assert_eq!(spent("2026-12-01T06:00:00Z", false), (true, true, true));
    // Of the last minutes nothing is known.
    assert_eq!(spent("2026-11-30T23:45:00Z", false), (false, false, false));
    assert_eq!(spent("2026-11-29T12:00:00Z", false), (false, false, false));
    // In the east the month ends earlier, and no account closes one in its middle.
    assert_eq!(spent("2026-11-30T14:00:00Z", true), (true, true, true));
    assert_eq!(spent("2026-11-15T14:00:00Z", true), (false, false, false));
    // Its last morning may not know what Curfew saved in the last hours.
    let morning = Some(figures("2026-11-30T06:00:00Z", &[("vision", 11.0)]));
    let beat = AccountFigures { is_final: true, ..figures("2026-12-01T00:00:00Z", &[("vision", 12.0)]) };
    let both = vec![PublishedMonth { daily: morning, ..published(ONE, Some(beat)) }];
    let report = OrganizationReport::new(&month(), at("2026-12-01T06:30:00Z"), both, [], &BTreeMap::new(), Vec::new());
    assert_eq!((report.sums.spent, report.sums.saved), (sum(12.0, 0), sum(2.75, 1)));
    assert_eq!(report.silent_accounts().count(), 0);
}

#[test]
fn an_account_in_which_nothing_runs_has_spent_nothing_and_says_nothing_else() {
    let beat = || figures(NOW, &[]);
    let without_daily = report(vec![published(ONE, Some(beat()))]).sums;
    assert_eq!(without_daily.spent, sum(0.0, 0));
    for sum in [without_daily.previous_month, without_daily.last_week, without_daily.previous_week, without_daily.saved]
    {
        assert_eq!(sum.known(), None);
    }
    assert_eq!(without_daily.waste.known(), None);
    // The morning knows the rest, also of teams that have spent nothing since.
    let known = Figures { previous_month: Some(sum(40.0, 0)), saved: Some(sum(3.0, 0)), ..Figures::default() };
    let daily = AccountFigures {
        other_teams: Some(OtherTeams { teams: 0, figures: known }),
        ..figures("2026-11-20T06:00:00Z", &[])
    };
    let both = report(vec![PublishedMonth { daily: Some(daily), ..published(ONE, Some(beat())) }]).sums;
    assert_eq!((both.spent, both.previous_month, both.saved), (sum(0.0, 0), sum(40.0, 0), sum(3.0, 0)));
    assert_eq!(both.last_week.known(), None);
}

#[test]
fn a_spend_that_is_a_lower_bound_makes_its_forecast_one() {
    let mut partial = figures(NOW, &[("vision", 12.0)]);
    partial.add_unseen(1);
    let found = report(vec![published(ONE, Some(partial)), published(OTHER, Some(figures(NOW, &[("nlp", 1.0)])))]);
    assert_eq!(
        (found.sums.spent.to_string(), found.sums.forecast.to_string()),
        ("at least $13.00".into(), "at least $100.00".into())
    );
    let team = |name: &str| found.teams.iter().find(|row| row.team == name).unwrap().sums;
    assert_eq!(team("vision").forecast.to_string(), "at least $24.00");
    // The other team may run in the region that was not seen.
    assert_eq!(team("nlp").spent.to_string(), "at least $1.00");
    // A ledger that was begun later lacks what ended before.
    let late = AccountFigures { known_since: Some(at("2026-11-12T09:00:00Z")), ..figures(NOW, &[("vision", 12.0)]) };
    let found = report(vec![published(ONE, Some(late))]);
    assert_eq!(found.sums.spent.to_string(), "at least $12.00");
    assert!(
        render_organization_html(&found).contains("as of 2026-11-20 12:00 UTC, and known since 2026-11-12 09:00 UTC")
    );
    // Nothing known is no zero.
    let nothing = AccountFigures { forecast_usd: Some(Amount::ZERO), ..figures(NOW, &[]) };
    let mut unseen = nothing.clone();
    unseen.add_unseen(1);
    let sums = |figures: AccountFigures| report(vec![published(ONE, Some(figures))]).sums;
    assert_eq!((sums(unseen.clone()).spent.known(), sums(unseen).forecast.known()), (None, None));
    assert_eq!(sums(nothing).spent, sum(0.0, 0));
    assert_eq!(report(Vec::new()).sums.spent.known(), None);
}

#[test]
fn a_team_lacks_the_accounts_that_may_have_spent_on_it() {
    let named = |account| published(account, Some(figures(NOW, &[("vision", 12.0)])));
    let spent = |other: PublishedMonth| report(vec![named(ONE), other]).teams[0].sums.spent;
    assert_eq!(spent(named(OTHER)), sum(24.0, 0));
    assert_eq!(spent(published(OTHER, Some(figures(NOW, &[])))), sum(12.0, 0));
    assert_eq!(spent(published(OTHER, None)), sum(12.0, 1));
    let mut many = figures(NOW, &[]);
    many.other_teams = Some(OtherTeams { teams: 7, figures: Figures { spent: sum(3.0, 0), ..Figures::default() } });
    assert_eq!(spent(published(OTHER, Some(many))), sum(12.0, 1));
    let shared = BudgetOfAccounts { budget: Amount::from_usd(150.0), accounts: BTreeSet::from([id(ONE), id(THIRD)]) };
    let shared = BTreeMap::from([(TeamName::from("vision"), shared)]);
    let report = OrganizationReport::new(&month(), at(NOW), vec![named(ONE)], [], &shared, Vec::new());
    assert_eq!(report.teams[0].sums.spent, sum(12.0, 1));
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
