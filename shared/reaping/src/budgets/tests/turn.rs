//! The turn of a month, and gaps in the observation.

use billing::ledger::{CalendarMonth, Ledger, LedgerBeat};

use super::*;

const END: &str = "2026-12-01T00:00:00Z";
const AFTER: &str = "2026-12-01T00:10:00Z";

fn moment(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The first beat of December, where so much of November's budget was known to be spent ten minutes before its end.
fn closed(known: f64, spent: f64, memory: &NotificationLogs) -> (Budget, Plan) {
    let config = Config::read(HOLDS).unwrap();
    let no_documents = BTreeMap::new();
    let at_last = spends(vec![spend("i-1", known)]);
    let last = BudgetBooks::new(enforced(&config), &at_last, &no_documents, moment("2026-11-30T23:50:00Z"));
    let open = last.budget_of(&vision(), &Budget::default());
    assert!(open.is_open(moment(END)));
    let spends = spends(vec![Spend { seen_until: moment(END), ..spend("i-1", spent) }]);
    let period = BudgetMonth::named("2026-11", &config).unwrap();
    let budget = BudgetBooks::closing(enforced(&config), &spends, &no_documents, period).budget_of(&vision(), &open);
    let december = documents_at(&LedgerSpends::default(), HOLDS, moment(AFTER));
    let plan = decided(&december, HOLDS, memory);
    assert_eq!((plan.steps.len(), plan.skipped.len()), (0, 2));
    let closed = BTreeMap::from([(vision(), budget.clone())]);
    (budget, close(plan, &closed, &config, &ENFORCING, memory, &HOME.into()))
}

#[test]
fn spend_in_the_last_minutes_of_a_month_is_notified_once() {
    let (budget, plan) = closed(4_950.0, 5_050.0, &already_notified(80, 5_000.0));
    assert_eq!(
        (budget.as_of, budget.spent_usd, budget.verdict),
        (Some(moment(END)), usd(5_050.0), BudgetVerdict::Hold)
    );
    assert_eq!((budget.month.as_str(), budget.is_open(moment(END))), ("2026-11", false));
    let [step] = &plan.steps[..] else { panic!("{plan:?}") };
    // Each budget is in the plan once, and no team is held in December for November.
    assert_eq!((plan.seen, plan.skipped.len(), step.action.as_str()), (2, 1, "notify"));
    let plan::Facts::OverBudget(evidence) = &step.evidence.facts else { panic!("{step:?}") };
    assert_eq!((evidence.month.as_str(), evidence.threshold_percent, evidence.as_of), ("2026-11", 100, moment(END)));
    assert_snapshot!(evidence.text, @r#"Team vision has spent $5,050.00 of its budget of $5,000.00 for 2026-11 (101 %), as of 2026-12-01T00:00:00Z; $0.00 is left. The most was spent on i-1 (g5.xlarge "bench", owner "ada", us-east-1) $5,050.00, still running at $1.01/h."#);
}

#[test]
fn a_month_that_ended_as_notified_is_not_notified_again() {
    for (spent, notified_percent) in [(4_960.0, 80), (5_050.0, 100)] {
        let (_, plan) = closed(4_950.0, spent, &already_notified(notified_percent, 5_000.0));
        assert_eq!((plan.steps.len(), plan.skipped.len()), (0, 2), "{spent}");
    }
}

#[test]
fn a_budget_is_in_a_plan_for_one_month_only() {
    let config = Config::read(HOLDS).unwrap();
    let present = vision_budget(vec![spend("i-1", 5_050.0)], HOLDS);
    let documents = BTreeMap::from([(vision(), present.clone())]);
    let plan = decided(&documents, HOLDS, &no_notifications());
    assert_eq!(close(plan.clone(), &documents, &config, &ENFORCING, &no_notifications(), &HOME.into()), plan);
}

#[test]
fn a_month_of_which_no_beat_knew_is_not_closed() {
    assert!(!Budget::default().is_open(moment(END)));
}

#[test]
fn what_was_reserved_is_taken_over_once() {
    let config = Config::read(HOLDS).unwrap();
    let (since, until) = (moment("2026-11-30T12:00:00Z"), moment("2026-12-02T00:00:00Z"));
    let reservation = BudgetReservation {
        number: 1,
        usd: usd(100.0),
        spent_usd: usd(10.0),
        since,
        until,
        instances: BTreeSet::new(),
        ended: None,
    };
    let reservations = BTreeMap::from([("vision/llama-1".to_owned(), reservation)]);
    let earlier = BTreeMap::from([(vision(), Budget { reservations, ..Budget::default() })]);
    let spends = spends(vec![]);
    let takes_over = |now: &str, stored: &Budget| {
        BudgetBooks::new(enforced(&config), &spends, &earlier, moment(now)).takes_over(&vision(), stored)
    };
    assert!(takes_over(AFTER, &Budget::default()));
    let taken =
        BudgetBooks::new(enforced(&config), &spends, &earlier, moment(AFTER)).budget_of(&vision(), &Budget::default());
    assert!(!takes_over(AFTER, &taken), "it has it by now");
    assert!(!takes_over("2026-12-02T00:00:01Z", &Budget::default()), "it is over");
    let december = BudgetBooks::new(enforced(&config), &spends, &earlier, moment(AFTER));
    assert!(!december.takes_over(&BudgetHolder::Account, &Budget::default()), "it is another's");
}

/// A ledger of November with beats at these hours of the 20th.
fn observed_ledger(region: &str, hours: &[i64]) -> Ledger {
    let month = CalendarMonth::read("2026-11", &jiff::tz::TimeZone::UTC).unwrap();
    let mut ledger = Ledger::new(&month, &region.into());
    let mut beat = |at| {
        ledger.observe(&LedgerBeat {
            at,
            region: region.into(),
            whole: true,
            items: Vec::new(),
            unread: std::collections::BTreeSet::new(),
        })
    };
    for hour in 0..=19 * 24 {
        beat(month.span().from + SignedDuration::from_hours(hour));
    }
    for hour in hours {
        beat(moment("2026-11-20T00:00:00Z") + SignedDuration::from_hours(*hour));
    }
    ledger
}

#[test]
fn gaps_in_observation_are_in_the_document_and_the_message() {
    let gaps = |ledgers: &[Ledger]| LedgerSpends::from_ledgers(ledgers, &[], [], moment("2026-11-20T06:00:00Z")).blind;
    let whole = observed_ledger(HOME, &[1, 2, 3, 4, 5]);
    assert!(gaps(std::slice::from_ref(&whole)).is_empty());
    // Of two regions the same three hours; of one the two hours until now besides.
    let ledgers = [observed_ledger(HOME, &[1, 4, 5]), observed_ledger("eu-west-1", &[1, 4]), whole];
    let blind = gaps(&ledgers);
    let config = Config::read(HOLDS).unwrap();
    let spends = LedgerSpends { blind, ..spends(vec![spend("i-1", 4_100.0)]) };
    let budget = documents_at(&spends, HOLDS, now()).remove(&vision()).unwrap();
    assert_snapshot!(budget.observation_gaps.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"), @r"
    eu-west-1 and 1 other region from 2026-11-20T01:00:00Z to 2026-11-20T04:00:00Z
    eu-west-1 from 2026-11-20T04:00:00Z to 2026-11-20T06:00:00Z
    ");
    let documents = BTreeMap::from([(vision(), budget.clone())]);
    let plan = decide(&documents, &config, &ENFORCING, &no_notifications(), &HOME.into());
    let plan::Facts::OverBudget(evidence) = &plan.steps[0].evidence.facts else { panic!("{plan:?}") };
    let (_, gap_text) = evidence.text.split_once("did not observe").unwrap();
    assert_snapshot!(gap_text.split_once(". ").unwrap().0, @" eu-west-1 and 1 other region from 2026-11-20T01:00:00Z to 2026-11-20T04:00:00Z, and 1 other time; no figure includes what started and stopped in that time");
    let read: Budget = serde_json::from_value(serde_json::to_value(&budget).unwrap()).unwrap();
    assert_eq!(read.observation_gaps, budget.observation_gaps);
    let period = BudgetMonth::named("2026-11", &config).unwrap();
    let overview = overview::BudgetOverview::from_documents(documents, None, &config, period, now());
    let facts = overview.rows.iter().flat_map(overview::BudgetRow::facts).filter(|fact| fact.label == "unseen");
    assert_eq!(facts.count(), 1);
}

#[test]
fn a_document_belongs_to_the_holder_that_it_names() {
    let nlp_budget = Budget { team: Some("nlp".into()), ..Budget::default() };
    assert!(
        !nlp_budget.belongs_to(&vision())
            && !nlp_budget.belongs_to(&BudgetHolder::Account)
            && nlp_budget.belongs_to(&BudgetHolder::Team("nlp".into()))
    );
    assert!(Budget::default().belongs_to(&BudgetHolder::Account) && !Budget::default().belongs_to(&vision()));
}
