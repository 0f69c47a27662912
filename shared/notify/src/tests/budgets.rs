//! Messages about budgets.

use super::*;
use billing::budget::{Budget, BudgetBooks, BudgetTerms, LedgerSpends};
use model::ceiling::Ceiling;
use model::config::Config;
use model::money::Amount;
use reaping::budgets::decide as decide_budgets;

/// A beat in which so much of a budget of $100 is spent, of the team vision or of the account.
pub(super) fn beat(section: &str, over_budget: &str, spent: f64, mode: Mode) -> Report {
    let text = format!("mode = \"enforce\"\n[{section}]\nmonthly_budget_usd = 100\nover_budget = \"{over_budget}\"\n");
    let config = Config::read(&text).unwrap();
    let holder = if section == "account" { BudgetHolder::Account } else { BudgetHolder::Team("vision".into()) };
    let (no_spends, earlier) = (LedgerSpends::default(), BTreeMap::new());
    let document = BudgetBooks::new(
        BudgetTerms { config: &config, ceiling: &Ceiling::fixed(mode) },
        &no_spends,
        &earlier,
        time(NOW),
    )
    .budget_of(&holder, &Budget::default());
    let spent_usd = Amount::from_usd(spent);
    let verdict = BudgetLimit::from_config(&holder, &config, &Ceiling::fixed(mode)).unwrap().verdict(spent_usd);
    let documents = BTreeMap::from([(holder, Budget { spent_usd, verdict, ..document })]);
    let plan = decide_budgets(&documents, &config, &Ceiling::fixed(mode), &no_memory(), &home());
    let report = Report::from_plan(plan, "enforce-budgets", "run-1".into(), time(NOW), mode, vec![home()]);
    let outcome = if mode == Mode::Enforce { OutcomeKind::Done } else { OutcomeKind::Observed };
    with(report, &StepOutcome::from_kind(outcome))
}

#[test]
fn a_spent_budget_is_an_action_only_where_something_is_really_held() {
    let severity = |over, spent, mode| message(&beat("teams.vision", over, spent, mode)).severity;
    for over in ["notify", "hold", "stop"] {
        assert_eq!(severity(over, 50.0, Mode::Enforce), "warning", "{over}");
        assert_eq!(severity(over, 50.0, Mode::Observe), "info", "{over}");
        assert_eq!(severity(over, 100.0, Mode::Observe), "info", "{over}");
        let held = if over == "notify" { "warning" } else { "action" };
        assert_eq!(severity(over, 100.0, Mode::Enforce), held, "{over}");
    }
}

#[test]
fn a_notify_only_budget_has_no_disclaimer_of_observe_mode() {
    let has_disclaimer = |over, mode| message(&beat("teams.vision", over, 100.0, mode)).body.contains("Observe mode");
    assert_eq!(["notify", "hold", "stop"].map(|over| has_disclaimer(over, Mode::Observe)), [false, true, true]);
    assert_eq!(["notify", "hold", "stop"].map(|over| has_disclaimer(over, Mode::Enforce)), [false; 3]);
}

#[test]
fn the_account_is_not_called_resources_without_a_team() {
    let account = beat("account", "notify", 100.0, Mode::Enforce);
    let sent = message(&account);
    assert_eq!(
        (sent.team.as_str(), sent.subject.as_str()),
        (NO_TEAM, "Curfew: Budget of the account: $100.00 of $100.00 for 2026-09 spent (100 %)")
    );
    let gap = Gap::new(&home(), "ce:GetCostAndUsage", "AccessDenied", GapKind::Part);
    let blind = Report { gaps: vec![gap], ..account };
    assert_eq!(message(&blind).subject, "Curfew could not complete ce:GetCostAndUsage in us-east-1 (+1 more)");
    let without_team = planned(untagged(), &idle(), "[untagged]\nmode = \"enforce\"");
    let stops = "Curfew: i-0abc (g5.xlarge, no team) stops 13:00 UTC, $1.01/h";
    assert_eq!(message(&without_team).subject, stops);
    let both = Report { gaps: blind.gaps, ..without_team };
    assert_eq!(message(&both).subject, format!("{stops} (+1 more)"));
}

#[test]
fn the_first_line_names_the_budget_and_its_spend() {
    let vision = |over, spent, mode| first_line(&beat("teams.vision", over, spent, mode));
    assert_snapshot!(vision("notify", 50.0, Mode::Enforce), @"Budget of team vision: $50.00 of $100.00 for 2026-09 spent (50 %) at 2026-09-01 12:00 UTC.");
    assert_snapshot!(vision("hold", 100.0, Mode::Enforce), @"Curfew holds the jobs of team vision: $100.00 of $100.00 for 2026-09 spent (100 %) at 2026-09-01 12:00 UTC.");
    assert_snapshot!(vision("stop", 100.0, Mode::Observe), @"Curfew would hold the jobs of team vision: $100.00 of $100.00 for 2026-09 spent (100 %) at 2026-09-01 12:00 UTC.");
    assert_snapshot!(first_line(&beat("account", "notify", 80.0, Mode::Enforce)), @"Budget of the account: $80.00 of $100.00 for 2026-09 spent (80 %) at 2026-09-01 12:00 UTC.");
}
