mod advice;
mod reservations;
mod retag;
mod text;
mod turn;

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::*;
use insta::assert_snapshot;
use jiff::{SignedDuration, Timestamp};
use model::ceiling::Ceiling;
use model::config::{Config, OverBudget};
use model::mode::Mode;
use model::money::{Amount, Rate};
use model::notification_log::{NotificationEntry, NotificationKey, NotificationLog, NotificationLogs, ResourceRecord};
use plan::{Action, Plan};

use super::{close, decide};

/// A Sunday, eight days and a half before the month's end.
const NOW: &str = "2026-11-22T12:00:00Z";
const HOME: &str = "us-east-1";
static ENFORCING: Ceiling = Ceiling::fixed(Mode::Enforce);
const HOLDS: &str = "mode = \"enforce\"\n[teams.vision]\nmonthly_budget_usd = 5000\nover_budget = \"hold\"\n";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn vision() -> BudgetHolder {
    BudgetHolder::Team("vision".into())
}

fn usd(usd: f64) -> Amount {
    Amount::from_usd(usd)
}

/// A g5.xlarge of vision that runs, and has for as long as that cost.
fn spend(id: &str, spent: f64) -> Spend {
    let rate = Rate::from_usd_micros_per_hour(1_006_000);
    Spend {
        resource: id.into(),
        region: HOME.into(),
        what: "g5.xlarge".to_owned(),
        ends: SavingAction::Stopping,
        on: None,
        name: Some("bench".to_owned()),
        owner: Some("ada".to_owned()),
        team: Some("vision".into()),
        job: None,
        spent: usd(spent),
        uncertain: Amount::ZERO,
        unpriced_seconds: 0,
        table: None,
        is_running: true,
        seen_until: now(),
        rate: Some(rate),
        lately: Amount::from_rate(rate, 7 * 86_400),
        since: BTreeMap::new(),
        folded: None,
    }
}

fn stopped(id: &str, spent: f64) -> Spend {
    Spend { is_running: false, rate: None, lately: Amount::ZERO, ..spend(id, spent) }
}

fn job_spend(id: &str, job: &str, since: Timestamp, spent: f64) -> Spend {
    Spend { job: Some(job.to_owned()), since: BTreeMap::from([(since, usd(spent))]), ..spend(id, spent) }
}

fn spends(current: Vec<Spend>) -> LedgerSpends {
    LedgerSpends { current, ledger_began: Some("2026-10-01T00:00:00Z".parse().unwrap()), ..LedgerSpends::default() }
}

fn enforced(config: &Config) -> BudgetTerms<'_> {
    BudgetTerms { config, ceiling: &ENFORCING }
}

fn documents_at(spends: &LedgerSpends, config: &str, now: Timestamp) -> BTreeMap<BudgetHolder, Budget> {
    let (config, earlier) = (Config::read(config).unwrap(), BTreeMap::new());
    BudgetBooks::new(enforced(&config), spends, &earlier, now).documents(&BTreeMap::new())
}

fn vision_budget(vision_spends: Vec<Spend>, config: &str) -> Budget {
    documents_at(&spends(vision_spends), config, now()).remove(&vision()).unwrap()
}

fn decided(documents: &BTreeMap<BudgetHolder, Budget>, config: &str, memory: &NotificationLogs) -> Plan {
    decide(documents, &Config::read(config).unwrap(), &ENFORCING, memory, &HOME.into())
}

fn no_notifications() -> NotificationLogs {
    NotificationLogs::from([(HOME.into(), NotificationLog::default())])
}

fn already_notified(threshold: u16, budget: f64) -> NotificationLogs {
    notified_at(threshold, BudgetLimit { budget: usd(budget), over_budget: OverBudget::Hold, mode: Mode::Enforce })
}

fn notified_at(threshold: u16, limit: BudgetLimit) -> NotificationLogs {
    let entry = NotificationEntry { at: now(), what: budget_fingerprint("2026-11", &limit, threshold) };
    let notified = BTreeMap::from([(NotificationKey::budget(threshold), entry)]);
    let resources = BTreeMap::from([("vision".into(), ResourceRecord { notified, ..ResourceRecord::default() })]);
    NotificationLogs::from([(HOME.into(), NotificationLog { resources, ..NotificationLog::default() })])
}

/// Action of the step, or the reason of the skip; and whether people were already notified.
fn describe_spend(spent: f64, config: &str, memory: &NotificationLogs) -> String {
    describe_decision(vision_budget(vec![spend("i-1", spent)], config), config, memory)
}

fn describe_decision(document: Budget, config: &str, memory: &NotificationLogs) -> String {
    let documents = BTreeMap::from([(vision(), document)]);
    let plan = decided(&documents, config, memory);
    match (&plan.steps[..], &plan.skipped[..]) {
        ([step], []) => {
            let plan::Facts::OverBudget(evidence) = &step.evidence.facts else { panic!("{step:?}") };
            let suffix = if step.already_notified { ", already notified" } else { "" };
            format!("{} at {} in {:?}{suffix}", step.action.as_str(), evidence.threshold_percent, step.mode)
        }
        ([], [skipped]) => serde_json::to_string(&skipped.reason).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_highest_share_that_is_reached_speaks_once() {
    let check = |spent, memory: &NotificationLogs, expect: &str| {
        assert_eq!(describe_spend(spent, HOLDS, memory), expect, "{spent}");
    };
    check(2_499.99, &no_notifications(), "\"within-budget\"");
    check(2_500.0, &no_notifications(), "notify at 50 in Enforce");
    check(2_600.0, &already_notified(50, 5_000.0), "\"notified\"");
    check(4_000.0, &already_notified(50, 5_000.0), "notify at 80 in Enforce");
    check(4_999.99, &already_notified(80, 5_000.0), "\"notified\"");
    check(2_600.0, &already_notified(50, 4_000.0), "notify at 50 in Enforce");
    check(5_000.0, &already_notified(80, 5_000.0), "hold at 100 in Enforce");
    check(5_000.0, &already_notified(100, 5_000.0), "hold at 100 in Enforce, already notified");
}

#[test]
fn a_receding_spend_is_not_notified_again() {
    let check = |spent, memory: &NotificationLogs, expect: &str| {
        assert_eq!(describe_spend(spent, HOLDS, memory), expect, "{spent}");
    };
    check(3_950.0, &already_notified(80, 5_000.0), "\"notified\"");
    check(4_950.0, &already_notified(100, 5_000.0), "\"notified\"");
    check(3_950.0, &already_notified(80, 4_000.0), "notify at 50 in Enforce");
}

#[test]
fn a_hold_that_becomes_enforced_is_notified_again() {
    let limit = |over_budget, mode| BudgetLimit { budget: usd(5_000.0), over_budget, mode };
    let check = |threshold, spent, before: BudgetLimit, config: &str, expect: &str| {
        assert_eq!(describe_spend(spent, config, &notified_at(threshold, before)), expect, "{before:?}: {config}");
    };
    check(100, 5_000.0, limit(OverBudget::Hold, Mode::Observe), HOLDS, "hold at 100 in Enforce");
    check(100, 5_000.0, limit(OverBudget::Notify, Mode::Enforce), HOLDS, "hold at 100 in Enforce");
    check(
        100,
        5_000.0,
        limit(OverBudget::Hold, Mode::Enforce),
        &HOLDS.replace("hold", "stop"),
        "hold at 100 in Enforce",
    );
    check(100, 5_000.0, limit(OverBudget::Hold, Mode::Enforce), HOLDS, "hold at 100 in Enforce, already notified");
    // Below, nothing follows yet; and where people are notify only, nothing ever does.
    check(80, 4_000.0, limit(OverBudget::Notify, Mode::Observe), HOLDS, "\"notified\"");
    check(100, 5_000.0, limit(OverBudget::Notify, Mode::Observe), &HOLDS.replace("hold", "notify"), "\"notified\"");
}

#[test]
fn what_could_not_be_made_anew_goes_by_what_is_set_now() {
    let old = vision_budget(vec![spend("i-1", 5_500.0)], &HOLDS.replace("hold", "notify"));
    let listed = format!("{HOLDS}notify_at_percent = [50]\n");
    assert_eq!(describe_decision(old.clone(), &listed, &no_notifications()), "hold at 100 in Enforce");
    let raised = HOLDS.replace("5000", "10000");
    assert_eq!(describe_decision(old.clone(), &raised, &no_notifications()), "notify at 50 in Enforce");
    let plan = decided(&BTreeMap::from([(vision(), old)]), &raised, &no_notifications());
    let plan::Facts::OverBudget(evidence) = &plan.steps[0].evidence.facts else { panic!("{plan:?}") };
    assert_eq!(evidence.percent, 55);
    let words = "has spent $5,500.00 of its budget of $10,000.00 for 2026-11 (55 %), as of 2026-11-22T12:00:00Z; $4,500.00 is left. Once it is spent, no further job is launched.";
    assert!(evidence.text.contains(words) && !evidence.text.contains("brings it back"), "{}", evidence.text);
}

#[test]
fn an_unreadable_budget_is_never_within() {
    assert_eq!(describe_decision(Budget::default(), HOLDS, &no_notifications()), "\"budget-unknown\"");
    let plan = decided(&BTreeMap::from([(vision(), Budget::default())]), HOLDS, &no_notifications());
    let (target, resource_memory) = (&plan.skipped[0].target, &plan.skipped[0].memory);
    assert_eq!(target.team, Some("vision".into()));
    // Its notifications are not forgotten.
    assert!(resource_memory.active_keys.contains(&NotificationKey::budget(100)));
}

#[test]
fn without_memory_nothing_is_notified_and_jobs_are_held_anyway() {
    assert_eq!(describe_spend(2_500.0, HOLDS, &NotificationLogs::new()), "\"notified\"");
    assert_eq!(describe_spend(5_000.0, HOLDS, &NotificationLogs::new()), "hold at 100 in Enforce, already notified");
}

#[test]
fn a_held_team_is_notified_whatever_the_list_says() {
    let quiet = format!("{HOLDS}notify_at_percent = [90, 20, 90]\n");
    assert_eq!(describe_spend(1_000.0, &quiet, &no_notifications()), "notify at 20 in Enforce");
    assert_eq!(describe_spend(5_000.0, &quiet, &no_notifications()), "hold at 100 in Enforce");
    let silent = HOLDS.replace("hold", "notify") + "notify_at_percent = []\n";
    assert_eq!(describe_spend(50_000.0, &silent, &no_notifications()), "\"within-budget\"");
    let far = HOLDS.replace("hold", "notify") + "notify_at_percent = [100, 120, 200]\n";
    assert_eq!(describe_spend(6_100.0, &far, &no_notifications()), "notify at 120 in Enforce");
}

#[test]
fn a_budget_follows_its_teams_mode() {
    let observing = HOLDS.replace("[teams.vision]", "[teams.vision]\nmode = \"observe\"");
    assert_eq!(describe_spend(5_000.0, &observing, &no_notifications()), "hold at 100 in Observe");
    assert_eq!(describe_spend(9.0, "[teams.vision]\n", &no_notifications()), "\"without-budget\"");
}

#[test]
fn a_budget_of_nothing_is_over_with_the_first_cent() {
    let zero_budget = HOLDS.replace("5000", "0");
    assert_eq!(describe_spend(0.0, &zero_budget, &no_notifications()), "\"within-budget\"");
    assert_eq!(describe_spend(0.01, &zero_budget, &no_notifications()), "hold at 100 in Enforce");
}

#[test]
fn an_unknown_price_and_an_unseen_end_never_count() {
    let unpriced = Spend { rate: None, unpriced_seconds: 900_000, ..spend("i-2", 0.0) };
    let uncertain = Spend { uncertain: usd(10_000.0), ..stopped("i-3", 10.0) };
    let budget = vision_budget(vec![unpriced, uncertain], &HOLDS.replace("hold", "stop"));
    assert_eq!((budget.verdict, budget.spent_usd, budget.uncertain_usd), (BudgetVerdict::Ok, usd(10.0), usd(10_000.0)));
    assert_eq!(budget.unpriced.len(), 1);
}

#[test]
fn runs_of_one_resource_are_one_spender_and_the_rest_is_counted() {
    let many = (0..8_u8).map(|nth| stopped(&format!("i-{nth}"), f64::from(nth)));
    let budget = vision_budget(many.chain([stopped("i-1", 10.0)]).collect(), HOLDS);
    let top: Vec<String> = budget.top.iter().map(|one| format!("{} {}", one.resource, one.usd)).collect();
    assert_eq!(top, ["i-1 $11.00", "i-7 $7.00", "i-6 $6.00", "i-5 $5.00", "i-4 $4.00"]);
    assert_eq!((budget.others.count, budget.others.usd), (2, usd(5.0)));
}

#[test]
fn what_has_no_team_counts_for_the_account_and_has_no_budget() {
    let config = format!("{HOLDS}[teams.untagged]\nmonthly_budget_usd = 1\n[account]\nmonthly_budget_usd = 100\n");
    let orphan = Spend { team: None, ..spend("i-9", 70.0) };
    let documents = documents_at(&spends(vec![orphan, spend("i-1", 50.0)]), &config, now());
    let untagged = &documents[&BudgetHolder::Team("untagged".into())];
    assert_eq!((untagged.budget_usd, untagged.spent_usd), (None, usd(70.0)));
    let account = &documents[&BudgetHolder::Account];
    assert_eq!((account.verdict, account.spent_usd), (BudgetVerdict::Notify, usd(120.0)));
    assert_eq!(account.teams, BTreeMap::from([("untagged".to_owned(), usd(70.0)), ("vision".to_owned(), usd(50.0))]));
}

#[test]
fn a_running_resource_that_the_last_beat_missed_is_reported() {
    let seen = |minutes: i64| {
        let old = Spend { seen_until: now() - SignedDuration::from_mins(minutes), ..spend("i-1", 1.0) };
        vision_budget(vec![spend("i-2", 1.0), old.clone(), Spend { is_running: false, ..old }], HOLDS).blind_since
    };
    assert_eq!(seen(20), None);
    assert_eq!(seen(21), Some(now() - SignedDuration::from_mins(21)));
}

#[test]
fn a_beat_that_comes_late_writes_nothing_over_a_later_one() {
    let later = vision_budget(vec![spend("i-1", 50.0)], HOLDS);
    let config = Config::read(HOLDS).unwrap();
    let (spends, earlier) = (spends(vec![spend("i-1", 40.0)]), BTreeMap::new());
    let budget_at = |now| BudgetBooks::new(enforced(&config), &spends, &earlier, now).budget_of(&vision(), &later);
    assert_eq!(budget_at(now() - SignedDuration::from_mins(15)), later);
    assert_eq!(budget_at(now() + SignedDuration::from_mins(15)).spent_usd, usd(40.0));
}

#[test]
fn the_reaper_reads_only_what_may_stop() {
    let config = format!(
        "{}[teams.audio]\nover_budget = \"stop\"\n[account]\nmonthly_budget_usd = 9\n",
        HOLDS.replace("hold", "stop")
    );
    assert_eq!(needed_by_the_reaper(&Config::read(&config).unwrap()), [vision()].into());
    assert_eq!(needed_by_the_reaper(&Config::default()), [].into());
    assert_eq!(Budget::default().to_status(), None);
}

#[test]
fn a_document_names_a_ledger_that_began_within_the_month() {
    let since = |began: &str| {
        let spends = LedgerSpends { ledger_began: Some(began.parse().unwrap()), ..spends(vec![spend("i-1", 1.0)]) };
        documents_at(&spends, HOLDS, now()).remove(&vision()).unwrap().ledger_since.map(|at| at.to_string())
    };
    assert_eq!(since("2026-11-20T10:00:00Z").as_deref(), Some("2026-11-20T10:00:00Z"));
    assert_eq!(since("2026-11-01T00:00:00Z"), None);
    assert_eq!(since("2026-10-01T00:00:00Z"), None);
}

#[test]
fn however_many_have_a_budget_none_goes_without_a_document() {
    let named = |from: usize, to: usize| (from..to).map(|n| format!("team-{n:04}"));
    let check = |with_budget: usize, without: usize, expect: (usize, usize)| {
        let mut config: String = named(0, with_budget)
            .fold(String::new(), |all, team| all + &format!("[teams.{team}]\nmonthly_budget_usd = 9\n"));
        config += &named(with_budget, with_budget + without)
            .fold(String::new(), |all, team| all + &format!("[teams.{team}]\n"));
        let config = Config::read(&config).unwrap();
        let (no_documents, dearest) = (BTreeMap::new(), format!("team-{:04}", with_budget + without - 1));
        let spends = spends(vec![Spend { team: Some(dearest.as_str().into()), ..spend("i-1", 5.0) }]);
        let books = BudgetBooks::new(enforced(&config), &spends, &no_documents, now());
        let holders = books.holders(&no_documents);
        assert_eq!((holders.len(), books.left_out(&no_documents)), expect, "{with_budget} {without}");
        assert!(holders.contains(&BudgetHolder::Account));
        assert!(named(0, with_budget).all(|team| holders.contains(&BudgetHolder::Team(team.as_str().into()))));
        // Of those without a budget, first who spends.
        assert_eq!(
            holders.contains(&BudgetHolder::Team(dearest.as_str().into())),
            expect.0 > with_budget + 1 || without == 0
        );
    };
    check(10, 20, (31, 0));
    check(505, 0, (506, 0));
    check(505, 20, (506, 20));
    check(100, 500, (500, 101));
}

#[test]
fn no_two_budgets_share_a_name() {
    let teams = ["account", "team account", "team team account", "team", "team accounts", "vision"];
    let holders = teams.map(|team| BudgetHolder::Team(team.into())).into_iter().chain([BudgetHolder::Account]);
    let names: Vec<String> = holders.map(|holder| resource_of(&holder).to_string()).collect();
    assert_snapshot!(names.join(", "), @"team account, team team account, team team team account, team, team accounts, vision, account");
}
