use jiff::tz::TimeZone;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const MONTH: &str = "2026-11";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-11-20T12:00:00Z")
}

fn usd(usd: f64) -> Amount {
    Amount::from_usd(usd)
}

fn sum(amount: f64, unknown: u64) -> KnownSum<Amount> {
    KnownSum::new(usd(amount), unknown)
}

fn month() -> CalendarMonth {
    CalendarMonth::read(MONTH, &TimeZone::UTC).unwrap()
}

fn team(name: &str, spent: f64) -> TeamFigures {
    TeamFigures { team: name.to_owned(), figures: Figures { spent: sum(spent, 0), ..Figures::default() } }
}

fn figures(teams: Vec<TeamFigures>) -> AccountFigures {
    AccountFigures {
        account_name: Some("research".to_owned()),
        month: MONTH.to_owned(),
        as_of: now(),
        known_since: None,
        is_final: false,
        mode: Some(Mode::Observe),
        budget_usd: None,
        forecast_usd: None,
        teams,
        other_teams: None,
    }
}

fn budget(team: Option<&str>, spent: f64, as_of: &str) -> Budget {
    Budget {
        team: team.map(TeamName::from),
        month: MONTH.to_owned(),
        as_of: Some(at(as_of)),
        spent_usd: usd(spent),
        ..Budget::default()
    }
}

/// A beat that saw both regions of the account.
fn beat_of<'a>(budgets: &'a BTreeMap<BudgetHolder, Budget>, month: &'a CalendarMonth) -> PublishedBeat<'a> {
    let (account_name, mode) = (Some("research"), Mode::Enforce);
    PublishedBeat { month, budgets, account_name, mode, is_final: false, seen_regions: 2, unseen_regions: 0 }
}

fn refusal(figures: AccountFigures) -> String {
    figures.checked(&month(), now()).map_or_else(|why| why.to_string(), |_| "counts".to_owned())
}

#[test]
fn each_function_writes_an_object_of_its_own_below_its_account() {
    let account = AccountId::parse("111122223333").unwrap();
    let key = |publisher: Publisher| publisher.key(&account, MONTH);
    assert_eq!(key(Publisher::EnforceBudgets), "accounts/111122223333/figures/2026-11.json");
    assert_eq!(key(Publisher::SendReport), "accounts/111122223333/figures/2026-11.report.json");
    assert_eq!(account_of_folder("accounts/111122223333/"), Some(account));
    for foreign in ["accounts/", "accounts/x/", "accounts/111122223333", "111122223333/", "accounts/1111222233334/"] {
        assert_eq!(account_of_folder(foreign), None, "{foreign}");
    }
}

#[test]
fn what_is_published_is_read_back() {
    let mut published = figures(vec![team("vision", 12.0), team(NO_TEAM, 3.5)]);
    published.teams[0].figures = Figures {
        spent: sum(12.0, 3_600),
        uncertain_usd: usd(1.0),
        budget_usd: Some(usd(100.0)),
        forecast_usd: Some(usd(20.0)),
        previous_month: Some(sum(9.0, 0)),
        last_week: Some(sum(5.0, 0)),
        previous_week: Some(KnownSum::unknown()),
        saved: Some(sum(2.0, 1)),
        waste: Some(KnownSum::new(Rate::from_usd_per_hour(1.5), 0)),
    };
    published.other_teams = Some(OtherTeams { teams: 4, figures: published.teams[1].figures });
    let text = serde_json::to_string(&published).unwrap();
    let read: AccountFigures = serde_json::from_str(&text).unwrap();
    assert_eq!(read, published);
    assert_eq!(read.clone().checked(&month(), now()), Ok(read));
}

#[test]
fn figures_of_another_time_do_not_count() {
    let of = |month: &str, as_of: &str| {
        refusal(AccountFigures { month: month.to_owned(), as_of: at(as_of), ..figures(Vec::new()) })
    };
    assert_eq!(of(MONTH, "2026-11-20T12:10:00Z"), "counts");
    assert_eq!(of(MONTH, "2026-11-20T12:16:00Z"), "they are of the future: as of 2026-11-20T12:16:00Z");
    assert_eq!(of("2026-10", "2026-11-20T12:00:00Z"), "they say that they are of \"2026-10\"");
    // A month begins earlier in the east.
    assert_eq!(of(MONTH, "2026-10-31T10:00:00Z"), "counts");
    assert_eq!(of(MONTH, "2026-10-30T10:00:00Z"), "they are older than their month: as of 2026-10-30T10:00:00Z");
    assert!(!of("\u{1b}[2J", "2026-11-20T12:00:00Z").contains('\u{1b}'));
}

#[test]
fn hostile_figures_do_not_count() {
    let many = |count: usize| (0..count).map(|number| team(&format!("team-{number}"), 1.0)).collect();
    assert_eq!(refusal(figures(many(TEAMS_MAX))), "counts");
    assert_eq!(refusal(figures(many(TEAMS_MAX + 1))), "they have 101 teams, and 100 are the most");
    assert_eq!(refusal(figures(vec![team("a", 1.0), team("a", 2.0)])), "they have the team \"a\" twice");
    assert_eq!(refusal(figures(vec![team(&"a".repeat(257), 1.0)])), "they have a name with more than 256 characters");
    let named = AccountFigures { account_name: Some("a".repeat(257)), ..figures(Vec::new()) };
    assert_eq!(refusal(named), "they have a name with more than 256 characters");
    assert_eq!(refusal(figures(vec![team("a", 2e9)])), "spent of \"a\" is no amount of money of one month");
    let mut others = figures(Vec::new());
    let waste = Some(KnownSum::new(Rate::from_usd_per_hour(2e6), 0));
    others.other_teams = Some(OtherTeams { teams: 1, figures: Figures { waste, ..Figures::default() } });
    assert_eq!(refusal(others), "waste of \"other teams\" is no amount of money of one month");
    let rich = AccountFigures { budget_usd: Some(usd(2e9)), ..figures(Vec::new()) };
    assert_eq!(refusal(rich), "budget_usd of \"the account\" is no amount of money of one month");
}

#[test]
fn a_document_that_says_no_spend_is_none() {
    let document = |team: serde_json::Value| {
        let text = json!({"month": MONTH, "as_of": "2026-11-20T12:00:00Z", "teams": [team]}).to_string();
        serde_json::from_str::<AccountFigures>(&text)
    };
    assert!(document(json!({"team": "a"})).is_err());
    for hostile in ["-1", "1e999", "\"1\"", "[1]"] {
        let text = format!(
            r#"{{"month":"2026-11","as_of":"2026-11-20T12:00:00Z","teams":[{{"team":"a","spent":{{"usd":{hostile},"unknown":0}}}}]}}"#
        );
        assert!(serde_json::from_str::<AccountFigures>(&text).is_err(), "{hostile}");
    }
    let unknown = document(json!({"team": "a", "spent": {"usd": null, "unknown": 0}})).unwrap();
    assert_eq!(unknown.teams[0].figures.spent, KnownSum::unknown());
}

#[test]
fn a_beat_publishes_its_budgets() {
    let beat = "2026-11-20T11:45:00Z";
    let mut account = budget(None, 30.0, beat);
    account.teams =
        [("vision", 20.0), ("nlp", 4.0), ("untagged", 5.0)].map(|(team, spent)| (team.to_owned(), usd(spent))).into();
    let mut vision = budget(Some("vision"), 20.0, beat);
    (vision.budget_usd, vision.forecast_usd, vision.uncertain_usd) = (Some(usd(50.0)), Some(usd(40.0)), usd(1.0));
    let stale = budget(Some("nlp"), 3.0, "2026-11-20T11:00:00Z");
    let mut idle = budget(Some("audio"), 0.0, beat);
    idle.budget_usd = Some(usd(10.0));
    let untagged = Budget { blind_since: Some(at("2026-11-20T10:00:00Z")), ..budget(Some("untagged"), 5.0, beat) };
    let holders = [vision, stale, idle, untagged].map(|one| (BudgetHolder::Team(one.team.clone().unwrap()), one));
    let budgets: BTreeMap<_, _> = holders.into_iter().chain([(BudgetHolder::Account, account)]).collect();
    let published = AccountFigures::from_beat(&beat_of(&budgets, &month())).unwrap();
    let rows: Vec<_> = published.teams.iter().map(|one| (one.team.as_str(), one.figures.spent.to_string())).collect();
    // A document older than the account's is known by its spend alone, and what was not observed makes a lower bound.
    let expect = [("vision", "$20.00"), (NO_TEAM, "at least $5.00"), ("nlp", "at least $4.00"), ("audio", "$0.00")];
    assert_eq!(rows, expect.map(|(team, spent)| (team, spent.to_owned())));
    assert_eq!(
        (published.teams[0].figures.budget_usd, published.teams[0].figures.forecast_usd),
        (Some(usd(50.0)), Some(usd(40.0)))
    );
    assert_eq!((published.as_of, published.mode), (at(beat), Some(Mode::Enforce)));
    // One dollar of teams without a name.
    assert_eq!(published.other_teams.unwrap().figures.spent, sum(1.0, 1));
    let next = CalendarMonth::read("2026-12", &TimeZone::UTC).unwrap();
    assert_eq!(AccountFigures::from_beat(&beat_of(&budgets, &next)), None);
    let unseen = BTreeMap::from([(BudgetHolder::Account, Budget { as_of: None, ..budget(None, 1.0, beat) })]);
    assert_eq!(AccountFigures::from_beat(&beat_of(&unseen, &month())), None);
}

#[test]
fn what_a_beat_did_not_see_is_not_published_as_nothing() {
    let november = month();
    let idle = BTreeMap::from([(BudgetHolder::Account, budget(None, 0.0, "2026-11-20T11:45:00Z"))]);
    let beat =
        |seen_regions, unseen_regions| PublishedBeat { seen_regions, unseen_regions, ..beat_of(&idle, &november) };
    let spent = |beat: &PublishedBeat<'_>| {
        AccountFigures::from_beat(beat).map(|figures| figures.other_teams.map(|others| others.figures.spent))
    };
    // It saw nothing: earlier figures, or none, say more.
    assert_eq!(spent(&beat(0, 1)), None);
    assert_eq!(spent(&beat(1, 1)), Some(Some(sum(0.0, 1))));
    assert_eq!(spent(&beat(2, 0)), Some(None));
    // In a region that was not seen any team may run something, now or earlier in the month.
    let mut account = budget(None, 5.0, "2026-11-20T11:45:00Z");
    account.teams = BTreeMap::from([("vision".to_owned(), usd(5.0))]);
    let vision = (BudgetHolder::Team("vision".into()), budget(Some("vision"), 5.0, "2026-11-20T11:45:00Z"));
    let documents = |account: Budget| BTreeMap::from([(BudgetHolder::Account, account), vision.clone()]);
    let seen = documents(account.clone());
    let partial = PublishedBeat { unseen_regions: 2, ..beat_of(&seen, &november) };
    let published = AccountFigures::from_beat(&partial).unwrap();
    assert_eq!(
        (published.teams[0].figures.spent, published.other_teams.unwrap().figures.spent),
        (sum(5.0, 2), sum(0.0, 2))
    );
    let gap = billing::budget::ObservationGap {
        from: at("2026-11-10T00:00:00Z"),
        to: at("2026-11-10T03:00:00Z"),
        regions: vec!["eu-west-1".into()],
    };
    let blind = documents(Budget { observation_gaps: vec![gap], ..account.clone() });
    assert_eq!(AccountFigures::from_beat(&beat_of(&blind, &month())).unwrap().teams[0].figures.spent, sum(5.0, 1));
    // A ledger is a little younger than its month; a much younger one lacks what ended before.
    let since = |began: &str| {
        let budgets = documents(Budget { ledger_since: Some(at(began)), ..account.clone() });
        AccountFigures::from_beat(&beat_of(&budgets, &month())).unwrap().known_since
    };
    assert_eq!(since("2026-11-01T00:15:00Z"), None);
    assert_eq!(since("2026-11-12T09:00:00Z"), Some(at("2026-11-12T09:00:00Z")));
}

#[test]
fn a_team_that_shares_a_budget_is_named_whatever_it_spends() {
    let many: Vec<TeamFigures> = (0..150).map(|number| team(&format!("team-{number}"), 9.0)).collect();
    let teams: Vec<TeamFigures> = many.into_iter().chain([team("vision", 1.0)]).collect();
    let names = |shared: &[&str]| {
        let shared = shared.iter().map(|name| (*name).to_owned()).collect();
        let published = figures(teams.clone()).bounded(&shared);
        assert_eq!(published.teams.len(), TEAMS_MAX);
        published.teams.iter().any(|row| row.team == "vision")
    };
    assert!(names(&["vision"]) && !names(&[]));
}

#[test]
fn savings_and_waste_of_the_morning_stand_beside_newer_spend() {
    let daily_team = |name: &str, spent: f64, saved: f64| {
        let mut daily = team(name, spent);
        (daily.figures.saved, daily.figures.previous_month) = (Some(sum(saved, 0)), Some(sum(7.0, 0)));
        daily
    };
    let daily = figures(vec![daily_team("vision", 10.0, 2.0), daily_team("gone", 1.0, 3.0)]);
    let joined = figures(vec![team("vision", 12.0), team("new", 1.0)]).with_daily(&daily);
    let row = |name: &str| joined.teams.iter().find(|one| one.team == name).unwrap().figures;
    assert_eq!((row("vision").spent, row("vision").saved), (sum(12.0, 0), Some(sum(2.0, 0))));
    assert_eq!((row("new").saved, row("gone").spent, row("gone").saved), (None, sum(0.0, 0), Some(sum(3.0, 0))));
    // Among other teams it may have spent something: only its savings count there.
    let mut beat = figures(vec![team("vision", 12.0)]);
    beat.other_teams = Some(OtherTeams { teams: 3, figures: team("", 4.0).figures });
    let joined = beat.with_daily(&daily);
    assert_eq!(joined.teams.len(), 1);
    let others = joined.other_teams.unwrap().figures;
    assert_eq!((others.spent, others.saved), (sum(4.0, 0), Some(sum(3.0, 0))));
}

proptest! {
    #[test]
    fn whatever_an_account_has_is_published_so_that_it_counts(
        names in prop::collection::vec("\\PC{0,300}", 0..150), spent in 0.0..1e6_f64,
    ) {
        let teams = names.iter().map(|name| team(name, spent)).collect::<Vec<_>>();
        let total: Amount = teams.iter().filter_map(|one| one.figures.spent.known()).sum();
        let published = figures(teams).bounded(&BTreeSet::new());
        let kept: Amount = published.teams.iter().map(|one| one.figures).chain(published.other_teams.as_ref().map(|others| others.figures))
            .filter_map(|one| one.spent.known()).sum();
        prop_assert_eq!(kept, total);
        let text = serde_json::to_vec(&published).unwrap();
        prop_assert!(text.len() < FIGURES_BYTES_MAX);
        let read: AccountFigures = serde_json::from_slice(&text).unwrap();
        prop_assert!(read.checked(&month(), now()).is_ok());
    }
}
