use model::ceiling::Ceiling;
use model::config::{Config, OverBudget};
use model::fixture::time;
use model::mode::Mode;
use serde_json::json;

use super::*;
use crate::budget::overview::BudgetOverview;
use crate::budget::{
    Budget, BudgetBooks, BudgetHolder, BudgetLimit, BudgetMonth, BudgetTerms, BudgetVerdict, LedgerSpends,
    ReservationOutcome, ReservationRequest, SavingAction, Spend, explain,
};

const MONTH: &str = "2026-11";
const NOW: &str = "2026-11-20T12:00:00Z";
const OWN: &str = "111122223333";
const OTHER: &str = "444455556666";
const THIRD: &str = "777788889999";

fn account(id: &str) -> AccountId {
    AccountId::parse(id).unwrap()
}

fn usd(usd: f64) -> Amount {
    Amount::from_usd(usd)
}

fn sum(usd: f64, unknown: u64) -> KnownSum<Amount> {
    KnownSum::new(Amount::from_usd(usd), unknown)
}

fn share(id: &str, spent: f64, as_of: &str) -> AccountShare {
    AccountShare::new(account(id), sum(spent, 0), time(as_of), time(NOW))
}

/// A sum of vision that is five minutes old.
fn sums(shares: Vec<AccountShare>) -> BudgetSums {
    let total = shares.iter().map(|share| share.spent).sum();
    let teams = vec![TeamSum { team: "vision".into(), total, shares }];
    BudgetSums { account: account(OWN), month: MONTH.to_owned(), made_at: time("2026-11-20T11:55:00Z"), teams }
}

fn whole() -> BudgetSums {
    sums(vec![share(OWN, 100.0, NOW), share(OTHER, 40.0, NOW), share(THIRD, 2.0, NOW)])
}

/// The shared budget of vision in the own account.
fn budget(sums: Result<Option<BudgetSums>, String>) -> SharedBudget {
    let shared = BTreeMap::from([
        (TeamName::from("vision"), [OWN, OTHER, THIRD].map(account).into()),
        (TeamName::from("nlp"), [OTHER, THIRD].map(account).into()),
    ]);
    let mut found = SharingAccount { account: &account(OWN), month: MONTH, now: time(NOW) }.budgets(&shared, sums);
    assert_eq!(found.len(), 1, "of a budget without this account nothing is known");
    found.remove("vision").unwrap()
}

fn reason(sums: BudgetSums) -> String {
    let found = budget(Ok(Some(sums)));
    assert_eq!(
        (found.counts, found.counted_others(), found.others),
        (CountedSpend::Own, Amount::ZERO, KnownSum::unknown())
    );
    found.reason.unwrap()
}

#[test]
fn the_spend_of_the_others_counts_by_a_young_sum() {
    let found = budget(Ok(Some(whole())));
    assert_eq!((found.counts, found.counted_others(), found.accounts), (CountedSpend::Sum, usd(42.0), 3));
    let by = "by the hub's sum of 2026-11-20T11:55:00Z";
    assert_eq!(found.describe(), format!("3 accounts share the budget; the 2 other accounts spent $42.00, {by}"));
    let json = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<SharedBudget>(&json).unwrap(), found);
}

#[test]
fn an_old_share_is_a_lower_bound_and_a_missing_one_counts_for_nothing() {
    let missing = AccountShare::unknown(account(THIRD), ShareProblem::Refused);
    let found = budget(Ok(Some(sums(vec![share(OTHER, 40.0, "2026-11-20T09:00:00Z"), missing]))));
    assert_eq!((found.counted_others(), found.others), (usd(40.0), sum(40.0, 2)));
    assert_eq!(
        found.describe(),
        "3 accounts share the budget; the 2 other accounts spent at least $40.00, by the hub's sum of 2026-11-20T11:55:00Z; the share of \
         444455556666 was 3h old, and may be more; 777788889999 has published what does not count: its share is unknown"
    );
    // Nothing known is unknown, and not zero.
    let nothing = budget(Ok(Some(sums(Vec::new()))));
    assert_eq!((nothing.counted_others(), nothing.others), (Amount::ZERO, sum(0.0, 2)));
    assert!(nothing.describe().contains("the 2 other accounts spent unknown"), "{}", nothing.describe());
}

#[test]
fn without_a_young_sum_the_own_spend_counts_alone() {
    assert_eq!(budget(Err("AccessDenied".to_owned())).reason.as_deref(), Some("AccessDenied"));
    assert_eq!(budget(Ok(None)).reason.as_deref(), Some("the hub has no sum of 2026-11 for this account yet"));
    let at = |made_at: &str| BudgetSums { made_at: time(made_at), ..whole() };
    assert_eq!(budget(Ok(Some(at("2026-11-20T11:00:00Z")))).counts, CountedSpend::Sum);
    assert_eq!(reason(at("2026-11-20T10:59:59Z")), "the hub's sum is of 2026-11-20T10:59:59Z, more than an hour ago");
    assert_eq!(budget(Ok(Some(at("2026-11-20T12:15:00Z")))).counts, CountedSpend::Sum);
    assert_eq!(reason(at("2026-11-20T12:15:01Z")), "the hub's sum is of the future: 2026-11-20T12:15:01Z");
    assert_eq!(reason(BudgetSums { teams: Vec::new(), ..whole() }), "the hub's sum does not have this team yet");
    let shown = budget(Ok(None)).describe();
    assert_eq!(
        shown,
        "3 accounts share the budget, and only this one counts: the hub has no sum of 2026-11 for this account yet"
    );
}

#[test]
fn a_sum_that_is_none_of_this_account_and_month_does_not_count() {
    let foreign = "the hub's sum is of another account or month";
    assert_eq!(reason(BudgetSums { account: account(OTHER), ..whole() }), foreign);
    assert_eq!(reason(BudgetSums { month: "2026-10".to_owned(), ..whole() }), foreign);
    let rich = sums(vec![share(OTHER, 2e9, NOW)]);
    assert_eq!(reason(rich), "the hub's sum has more than any account can spend");
    // An account that this one's list does not have has no share.
    let mut stranger = whole();
    stranger.teams[0].shares.push(share("999999999999", 5_000.0, NOW));
    assert_eq!(budget(Ok(Some(stranger))).counted_others(), usd(42.0));
}

#[test]
fn a_share_that_is_no_amount_is_no_document() {
    for hostile in ["-1", "1e999", "NaN", "\"1\""] {
        let text = json!({"account": OWN, "month": MONTH, "made_at": NOW, "teams": [{"team": "vision", "total": {"usd": 1, "unknown": 0},
            "shares": [{"account": OTHER, "spent": {"usd": "HOSTILE", "unknown": 0}}]}]});
        let text = text.to_string().replace("\"HOSTILE\"", hostile);
        assert!(serde_json::from_str::<BudgetSums>(&text).is_err(), "{hostile}");
    }
}

// What a budget makes of it

const CONFIG: &str = "mode = \"enforce\"\n[teams.vision]\nmonthly_budget_usd = 100\nover_budget = \"stop\"";

/// The document of a beat in which the own account has spent that much.
fn document(spent: f64, shared: Option<SharedBudget>) -> Budget {
    let config = Config::read(CONFIG).unwrap();
    let ceiling = Ceiling::fixed(Mode::Enforce);
    let spends = LedgerSpends { current: vec![spend(spent)], ..LedgerSpends::default() };
    let shared = shared.map(|shared| BTreeMap::from([(TeamName::from("vision"), shared)])).unwrap_or_default();
    let nothing = BTreeMap::new();
    let terms = BudgetTerms { config: &config, ceiling: &ceiling };
    let books = BudgetBooks::new(terms, &spends, &nothing, time(NOW)).with_shared(&shared);
    books.budget_of(&vision(), &Budget::default())
}

fn vision() -> BudgetHolder {
    BudgetHolder::Team("vision".into())
}

fn spend(spent: f64) -> Spend {
    Spend {
        resource: "i-1".into(),
        region: "us-east-1".into(),
        what: "g5.xlarge".to_owned(),
        ends: SavingAction::Stopping,
        on: None,
        name: None,
        owner: None,
        team: Some("vision".into()),
        job: None,
        spent: usd(spent),
        uncertain: Amount::ZERO,
        unpriced_seconds: 0,
        table: None,
        is_running: false,
        seen_until: time(NOW),
        rate: None,
        lately: usd(spent),
        since: BTreeMap::new(),
        folded: None,
    }
}

fn by_sum() -> SharedBudget {
    budget(Ok(Some(whole())))
}

#[test]
fn the_budget_is_spent_by_all_accounts_together() {
    let (alone, within, over) = (document(60.0, None), document(57.9, Some(by_sum())), document(58.0, Some(by_sum())));
    assert_eq!(
        [alone.verdict, within.verdict, over.verdict],
        [BudgetVerdict::Ok, BudgetVerdict::Ok, BudgetVerdict::Stop]
    );
    assert_eq!((over.spent_usd, over.counted_usd(), over.remaining_usd), (usd(58.0), usd(100.0), Some(Amount::ZERO)));
    let status = over.to_status().unwrap();
    assert_eq!((status.verdict, status.spent, status.others), (BudgetVerdict::Stop, usd(100.0), usd(42.0)));
    // A document without it stays as it was.
    assert!(!serde_json::to_string(&alone).unwrap().contains("shared"));
    // Where the hub's sum does not count, the own spend does.
    let own = document(58.0, Some(budget(Ok(None))));
    assert_eq!((own.verdict, own.remaining_usd), (BudgetVerdict::Ok, Some(usd(42.0))));
    // Of what is unknown nothing is held.
    let missing = sums(vec![AccountShare::unknown(account(OTHER), ShareProblem::Unpublished)]);
    assert_eq!(document(99.0, Some(budget(Ok(Some(missing))))).verdict, BudgetVerdict::Ok);
}

#[test]
fn another_limit_is_compared_with_the_same_spend() {
    let over = document(58.0, Some(by_sum()));
    let limit = BudgetLimit { budget: usd(101.0), over_budget: OverBudget::Stop, mode: Mode::Enforce };
    assert_eq!((over.under(&limit).verdict, over.under(&limit).remaining_usd), (BudgetVerdict::Ok, Some(usd(1.0))));
}

#[test]
fn a_message_says_which_spend_counted() {
    let describe = |document: &Budget| {
        let percent = document.counted_usd().percent_of(usd(100.0)).unwrap();
        explain::describe_budget(&vision(), document, percent)
    };
    let shown = describe(&document(58.0, Some(by_sum())));
    let expect = "Team vision has spent $100.00 of its budget of $100.00 for 2026-11 (100 %), as of 2026-11-20T12:00:00Z; $0.00 is left. 3 accounts \
                  share the budget; the 2 other accounts spent $42.00, by the hub's sum of 2026-11-20T11:55:00Z. In this account $58.00 was spent. ";
    assert!(shown.starts_with(expect), "{shown}");
    let shown = describe(&document(58.0, Some(budget(Ok(None)))));
    let expect = "Team vision has spent $58.00 of its budget of $100.00 for 2026-11 (58 %), as of 2026-11-20T12:00:00Z; at most $42.00 is left. 3 \
                  accounts share the budget, and only this one counts: the hub has no sum of 2026-11 for this account yet. In this account $58.00";
    assert!(shown.starts_with(expect), "{shown}");
}

#[test]
fn a_job_is_launched_by_what_all_accounts_leave() {
    let config = Config::read(CONFIG).unwrap();
    let ceiling = Ceiling::fixed(Mode::Enforce);
    let reserve = |shared| {
        let request = ReservationRequest { job: "vision/a".to_owned(), number: 1, usd: usd(30.0), until: time(NOW) };
        let terms = BudgetTerms { config: &config, ceiling: &ceiling };
        super::super::reserve(&mut document(40.0, shared), &vision(), &request, terms, time(NOW))
    };
    assert_eq!(
        (reserve(None), reserve(Some(budget(Ok(None))))),
        (Ok(ReservationOutcome::Fits), Ok(ReservationOutcome::Fits))
    );
    let refused = reserve(Some(by_sum())).unwrap_err().to_string();
    assert!(
        refused.contains(
            "has $18.00 left: $100.00 for 2026-11, less $82.00 spent ($42.00 of it in accounts that share it)"
        ),
        "{refused}"
    );
}

#[test]
fn people_are_shown_both() {
    let config = Config::read(CONFIG).unwrap();
    let overview = |document| {
        let period = BudgetMonth::containing(time(NOW), &config);
        BudgetOverview::from_documents([(vision(), document)].into(), Some(&vision()), &config, period, time(NOW))
    };
    let by_all = overview(document(58.0, Some(by_sum())));
    assert_eq!((by_all.rows[0].percent, by_all.rows[0].over), (Some(100), true));
    let facts = by_all.rows[0].facts();
    let fact = |label| {
        facts.iter().find(|fact| fact.label == label).map(|fact| (fact.figure.as_str(), fact.words.as_str())).unwrap()
    };
    assert_eq!(fact("spent"), ("$58.00", "with the other accounts 100 % of the budget"));
    assert_eq!(fact("shared"), ("$42.00", by_sum().describe().as_str()));
    assert!(by_all.shared_notes()[0].starts_with("vision: 3 accounts share the budget; "));
    let own = overview(document(58.0, Some(budget(Ok(None)))));
    let facts = own.rows[0].facts();
    assert_eq!(
        (own.rows[0].percent, facts.iter().find(|fact| fact.label == "shared").unwrap().figure.as_str()),
        (Some(58), "-")
    );
}
