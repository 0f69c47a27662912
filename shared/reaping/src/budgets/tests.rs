mod retag;
mod turn;

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::*;
use insta::assert_snapshot;
use jiff::{SignedDuration, Timestamp};
use model::config::{Config, OverBudget};
use model::mode::Mode;
use model::money::{Amount, Rate};
use model::notification_log::{NotificationEntry, NotificationKey, NotificationLog, NotificationLogs};
use plan::{Action, Plan};

use super::{close, decide};

/// A Sunday, eight days and a half before the month's end.
const NOW: &str = "2026-11-22T12:00:00Z";
const HOME: &str = "us-east-1";
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

fn of_job(id: &str, job: &str, since: Timestamp, spent: f64) -> Spend {
    Spend { job: Some(job.to_owned()), since: BTreeMap::from([(since, usd(spent))]), ..spend(id, spent) }
}

fn spends(of_month: Vec<Spend>) -> LedgerSpends {
    LedgerSpends { of_month, ledger_began: Some("2026-10-01T00:00:00Z".parse().unwrap()), ..LedgerSpends::default() }
}

fn documents_at(spends: &LedgerSpends, config: &str, now: Timestamp) -> BTreeMap<BudgetHolder, Budget> {
    let (config, earlier) = (Config::read(config).unwrap(), BTreeMap::new());
    BudgetBooks::new((&config, Mode::Enforce), spends, &earlier, now).documents(&BTreeMap::new())
}

fn of_vision(of_month: Vec<Spend>, config: &str) -> Budget {
    documents_at(&spends(of_month), config, now()).remove(&vision()).unwrap()
}

fn decided(documents: &BTreeMap<BudgetHolder, Budget>, config: &str, memory: &NotificationLogs) -> Plan {
    decide(documents, &Config::read(config).unwrap(), Mode::Enforce, memory, &HOME.into())
}

fn nothing_told() -> NotificationLogs {
    NotificationLogs::from([(HOME.into(), NotificationLog::default())])
}

fn told(threshold: u16, budget: f64) -> NotificationLogs {
    told_of(threshold, BudgetLimit { budget: usd(budget), over_budget: OverBudget::Hold, mode: Mode::Enforce })
}

fn told_of(threshold: u16, limit: BudgetLimit) -> NotificationLogs {
    let said = NotificationEntry { at: now(), what: budget_fingerprint("2026-11", &limit, threshold) };
    let told = BTreeMap::from([("vision".into(), BTreeMap::from([(NotificationKey::budget(threshold), said)]))]);
    NotificationLogs::from([(HOME.into(), NotificationLog { notified: told, ..NotificationLog::default() })])
}

/// Action of the step, or why it is skipped; and whether people have heard.
fn of_step(spent: f64, config: &str, memory: &NotificationLogs) -> String {
    of_document(of_vision(vec![spend("i-1", spent)], config), config, memory)
}

fn of_document(document: Budget, config: &str, memory: &NotificationLogs) -> String {
    let documents = BTreeMap::from([(vision(), document)]);
    let plan = decided(&documents, config, memory);
    match (&plan.steps[..], &plan.skipped[..]) {
        ([step], []) => {
            let plan::Evidence::OverBudget(evidence) = &step.evidence else { panic!("{step:?}") };
            let told = if step.already_notified { ", told" } else { "" };
            format!("{} at {} in {:?}{told}", step.action.as_str(), evidence.threshold_percent, step.mode)
        }
        ([], [skipped]) => serde_json::to_string(&skipped.reason).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_highest_share_that_is_reached_speaks_once() {
    let check =
        |spent, memory: &NotificationLogs, expect: &str| assert_eq!(of_step(spent, HOLDS, memory), expect, "{spent}");
    check(2_499.99, &nothing_told(), "\"within-budget\"");
    check(2_500.0, &nothing_told(), "notify at 50 in Enforce");
    check(2_600.0, &told(50, 5_000.0), "\"notified\"");
    check(4_000.0, &told(50, 5_000.0), "notify at 80 in Enforce");
    check(4_999.99, &told(80, 5_000.0), "\"notified\"");
    check(2_600.0, &told(50, 4_000.0), "notify at 50 in Enforce");
    check(5_000.0, &told(80, 5_000.0), "hold at 100 in Enforce");
    check(5_000.0, &told(100, 5_000.0), "hold at 100 in Enforce, told");
}

#[test]
fn what_recedes_is_not_told_again() {
    let check =
        |spent, memory: &NotificationLogs, expect: &str| assert_eq!(of_step(spent, HOLDS, memory), expect, "{spent}");
    check(3_950.0, &told(80, 5_000.0), "\"notified\"");
    check(4_950.0, &told(100, 5_000.0), "\"notified\"");
    check(3_950.0, &told(80, 4_000.0), "notify at 50 in Enforce");
}

#[test]
fn a_hold_that_becomes_real_is_told_anew() {
    let limit = |over_budget, mode| BudgetLimit { budget: usd(5_000.0), over_budget, mode };
    let check = |threshold, spent, before: BudgetLimit, config: &str, expect: &str| {
        assert_eq!(of_step(spent, config, &told_of(threshold, before)), expect, "{before:?}: {config}");
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
    check(100, 5_000.0, limit(OverBudget::Hold, Mode::Enforce), HOLDS, "hold at 100 in Enforce, told");
    // Below, nothing follows yet; and where people are notify only, nothing ever does.
    check(80, 4_000.0, limit(OverBudget::Notify, Mode::Observe), HOLDS, "\"notified\"");
    check(100, 5_000.0, limit(OverBudget::Notify, Mode::Observe), &HOLDS.replace("hold", "notify"), "\"notified\"");
}

#[test]
fn what_could_not_be_made_anew_goes_by_what_is_set_now() {
    let old = of_vision(vec![spend("i-1", 5_500.0)], &HOLDS.replace("hold", "notify"));
    let listed = format!("{HOLDS}notify_at_percent = [50]\n");
    assert_eq!(of_document(old.clone(), &listed, &nothing_told()), "hold at 100 in Enforce");
    let raised = HOLDS.replace("5000", "10000");
    assert_eq!(of_document(old.clone(), &raised, &nothing_told()), "notify at 50 in Enforce");
    let plan = decided(&BTreeMap::from([(vision(), old)]), &raised, &nothing_told());
    let plan::Evidence::OverBudget(evidence) = &plan.steps[0].evidence else { panic!("{plan:?}") };
    assert_eq!(evidence.percent, 55);
    let words = "has spent $5,500.00 of its budget of $10,000.00 for 2026-11 (55 %), as of 2026-11-22T12:00:00Z; $4,500.00 is left. Once it is spent, no further job is launched.";
    assert!(evidence.text.contains(words) && !evidence.text.contains("brings it back"), "{}", evidence.text);
}

#[test]
fn of_what_could_not_be_read_nobody_says_that_it_is_within() {
    assert_eq!(of_document(Budget::default(), HOLDS, &nothing_told()), "\"budget-unknown\"");
    let plan = decided(&BTreeMap::from([(vision(), Budget::default())]), HOLDS, &nothing_told());
    let (target, resource_memory) = (&plan.skipped[0].target, &plan.skipped[0].memory);
    assert_eq!(target.team, Some("vision".into()));
    // What was told of it is not forgotten.
    assert!(resource_memory.active_keys.contains(&NotificationKey::budget(100)));
}

#[test]
fn without_its_memory_nothing_is_told_and_jobs_are_held_all_the_same() {
    assert_eq!(of_step(2_500.0, HOLDS, &NotificationLogs::new()), "\"notified\"");
    assert_eq!(of_step(5_000.0, HOLDS, &NotificationLogs::new()), "hold at 100 in Enforce, told");
}

#[test]
fn whoever_is_held_hears_of_it_whatever_the_list_says() {
    let quiet = format!("{HOLDS}notify_at_percent = [90, 20, 90]\n");
    assert_eq!(of_step(1_000.0, &quiet, &nothing_told()), "notify at 20 in Enforce");
    assert_eq!(of_step(5_000.0, &quiet, &nothing_told()), "hold at 100 in Enforce");
    let silent = HOLDS.replace("hold", "notify") + "notify_at_percent = []\n";
    assert_eq!(of_step(50_000.0, &silent, &nothing_told()), "\"within-budget\"");
    let far = HOLDS.replace("hold", "notify") + "notify_at_percent = [100, 120, 200]\n";
    assert_eq!(of_step(6_100.0, &far, &nothing_told()), "notify at 120 in Enforce");
}

#[test]
fn a_budget_follows_its_teams_mode() {
    let observing = HOLDS.replace("[teams.vision]", "[teams.vision]\nmode = \"observe\"");
    assert_eq!(of_step(5_000.0, &observing, &nothing_told()), "hold at 100 in Observe");
    assert_eq!(of_step(9.0, "[teams.vision]\n", &nothing_told()), "\"without-budget\"");
}

#[test]
fn a_budget_of_nothing_is_over_with_the_first_cent() {
    let nothing = HOLDS.replace("5000", "0");
    assert_eq!(of_step(0.0, &nothing, &nothing_told()), "\"within-budget\"");
    assert_eq!(of_step(0.01, &nothing, &nothing_told()), "hold at 100 in Enforce");
}

#[test]
fn an_unknown_price_and_an_unseen_end_never_count() {
    let unpriced = Spend { rate: None, unpriced_seconds: 900_000, ..spend("i-2", 0.0) };
    let uncertain = Spend { uncertain: usd(10_000.0), ..stopped("i-3", 10.0) };
    let budget = of_vision(vec![unpriced, uncertain], &HOLDS.replace("hold", "stop"));
    assert_eq!((budget.verdict, budget.spent_usd, budget.uncertain_usd), (BudgetVerdict::Ok, usd(10.0), usd(10_000.0)));
    assert_eq!(budget.unpriced.len(), 1);
}

#[test]
fn runs_of_one_resource_are_one_spender_and_the_rest_is_counted() {
    let many = (0..8_u8).map(|nth| stopped(&format!("i-{nth}"), f64::from(nth)));
    let budget = of_vision(many.chain([stopped("i-1", 10.0)]).collect(), HOLDS);
    let top: Vec<String> = budget.top.iter().map(|one| format!("{} {}", one.resource, one.usd)).collect();
    assert_eq!(top, ["i-1 $11.00", "i-7 $7.00", "i-6 $6.00", "i-5 $5.00", "i-4 $4.00"]);
    assert_eq!((budget.others.count, budget.others.usd), (2, usd(5.0)));
}

#[test]
fn what_has_no_team_counts_for_the_account_and_has_no_budget() {
    let config = format!("{HOLDS}[teams.untagged]\nmonthly_budget_usd = 1\n[account]\nmonthly_budget_usd = 100\n");
    let orphan = Spend { team: None, ..spend("i-9", 70.0) };
    let found = documents_at(&spends(vec![orphan, spend("i-1", 50.0)]), &config, now());
    let untagged = &found[&BudgetHolder::Team("untagged".into())];
    assert_eq!((untagged.budget_usd, untagged.spent_usd), (None, usd(70.0)));
    let account = &found[&BudgetHolder::Account];
    assert_eq!((account.verdict, account.spent_usd), (BudgetVerdict::Notify, usd(120.0)));
    assert_eq!(account.teams, BTreeMap::from([("untagged".to_owned(), usd(70.0)), ("vision".to_owned(), usd(50.0))]));
}

fn wanted(usd_wanted: f64) -> ReservationRequest {
    ReservationRequest {
        job: "vision/llama-1".to_owned(),
        usd: usd(usd_wanted),
        until: "2026-12-02T00:00:00Z".parse().unwrap(),
    }
}

fn reserved(
    document: &mut Budget,
    want: f64,
    config: &str,
    at: Timestamp,
) -> Result<ReservationOutcome, ReservationRefusal> {
    reserve(document, &vision(), &wanted(want), (&Config::read(config).unwrap(), Mode::Enforce), at)
}

#[test]
fn a_job_is_launched_where_its_worst_case_fits() {
    let mut document = of_vision(vec![spend("i-1", 4_000.0)], HOLDS);
    let refused = reserved(&mut document, 1_000.01, HOLDS, now()).unwrap_err();
    assert_snapshot!(refused, @"vision/llama-1 may cost up to $1,000.01, but the budget of team vision has $1,000.00 left: $5,000.00 for 2026-11, less $4,000.00 spent and $0.00 reserved, as of 2026-11-22T12:00:00Z");
    assert!(document.reservations.is_empty());
    assert_eq!(reserved(&mut document, 1_000.0, HOLDS, now()), Ok(ReservationOutcome::Fits));
    assert_eq!((document.reserved_usd, document.remaining_usd), (usd(1_000.0), Some(Amount::ZERO)));
    // The same job again takes the place of its own reservation; another has no room.
    assert_eq!(reserved(&mut document, 900.0, HOLDS, now()), Ok(ReservationOutcome::Fits));
    let other = ReservationRequest { job: "vision/other-2".to_owned(), ..wanted(100.01) };
    let config = Config::read(HOLDS).unwrap();
    assert!(reserve(&mut document, &vision(), &other, (&config, Mode::Enforce), now()).is_err());
    assert!(withdraw(&mut document, "vision/llama-1") && !withdraw(&mut document, "vision/llama-1"));
    assert!(reserve(&mut document, &vision(), &other, (&config, Mode::Enforce), now()).is_ok());
}

#[test]
fn where_nobody_can_say_jobs_wait() {
    let at = |text: &str| -> Timestamp { text.parse().unwrap() };
    let known = || of_vision(vec![spend("i-1", 0.0)], HOLDS);
    let refusal = |mut document: Budget, now| reserved(&mut document, 1.0, HOLDS, now).unwrap_err().to_string();
    assert_snapshot!(refusal(Budget::default(), now()), @"it is unknown how much of the budget of team vision is spent: there are no figures for 2026-11 yet; enforce-budgets writes them every quarter of an hour");
    assert_snapshot!(refusal(known(), at("2026-11-22T13:00:01Z")), @"it is unknown how much of the budget of team vision is spent: it was last counted at 2026-11-22T12:00:00Z, more than an hour ago; enforce-budgets does not run");
    assert_snapshot!(refusal(known(), at("2026-12-01T00:00:00Z")), @"it is unknown how much of the budget of team vision is spent: there are no figures for 2026-12 yet; enforce-budgets writes them every quarter of an hour");
    let blind = Budget { blind_since: Some(at("2026-11-22T10:59:59Z")), ..known() };
    assert_snapshot!(refusal(blind, now()), @"it is unknown how much of the budget of team vision is spent: something that runs was last seen at 2026-11-22T10:59:59Z; see the gaps of enforce-budgets");
    assert_eq!(reserved(&mut known(), 1.0, HOLDS, at("2026-11-22T13:00:00Z")), Ok(ReservationOutcome::Fits));
}

#[test]
fn what_only_notifies_or_observes_lets_jobs_go_and_says_what_it_thinks() {
    for config in [HOLDS.replace("hold", "notify"), HOLDS.replace("enforce", "observe")] {
        let mut document = of_vision(vec![spend("i-1", 6_000.0)], &config);
        assert!(matches!(
            reserved(&mut document, 1.0, &config, now()),
            Ok(ReservationOutcome::Anyway(ReservationRefusal::TooMuch(_)))
        ));
        assert_eq!(document.reserved_usd, usd(1.0));
    }
    let mut unheard = Budget::default();
    assert_eq!(reserved(&mut unheard, 1.0, "", now()), Ok(ReservationOutcome::Fits));
    assert_eq!(unheard.month, "2026-11");
}

/// $100 for a job that ends on the second of December.
fn reservation(since: Timestamp) -> BudgetReservation {
    let until = "2026-12-02T00:00:00Z".parse().unwrap();
    BudgetReservation {
        usd: usd(100.0),
        spent_usd: Amount::ZERO,
        since,
        instances: BTreeSet::new(),
        until,
        ended: None,
    }
}

#[test]
fn a_reservation_shrinks_by_what_its_job_spends_and_ends_with_it() {
    let since: Timestamp = "2026-11-22T09:00:00Z".parse().unwrap();
    let config = Config::read(HOLDS).unwrap();
    let mut stored = Budget::default();
    stored.reservations.insert("vision/llama-1".to_owned(), BudgetReservation { until: now(), ..reservation(since) });
    assert!(launched(&mut stored, "vision/llama-1", "i-1".into()) && !launched(&mut stored, "vision/x", "i-1".into()));
    let volume = Spend { on: Some("i-1".into()), ..of_job("vol-1", "vision/llama-1", since, 1.0) };
    let copied = of_job("i-3", "vision/llama-1", since, 4.0);
    let of_other = of_job("i-2", "vision/other", since, 5.0);
    let spends = spends(vec![of_job("i-1", "vision/llama-1", since, 29.0), volume, copied, of_other]);
    let earlier = BTreeMap::new();
    let at = |now| BudgetBooks::new((&config, Mode::Enforce), &spends, &earlier, now).budget_of(&vision(), &stored);
    let budget = at(now());
    // Not by what only says that it is of the job.
    assert_eq!((budget.spent_usd, budget.reserved_usd), (usd(39.0), usd(70.0)));
    assert_eq!(budget.remaining_usd, Some(usd(4_891.0)));
    assert!(at(now() + SignedDuration::from_secs(1)).reservations.is_empty());
    // Its end is known to the beat after it alone.
    let mut ended = budget;
    assert!(release(&mut ended, "vision/llama-1", usd(31.0), now()));
    assert_eq!((ended.reserved_usd, ended.remaining_usd), (usd(1.0), Some(usd(4_960.0))));
    // It is said once more, by a run that knows of less.
    assert!(release(&mut ended, "vision/llama-1", usd(200.0), now() + SignedDuration::from_secs(9)));
    assert_eq!((ended.reserved_usd, ended.reservations["vision/llama-1"].ended), (usd(1.0), Some(now())));
    assert!(!release(&mut ended, "vision/other", usd(1.0), now()));
    let books = |now| BudgetBooks::new((&config, Mode::Enforce), &spends, &earlier, now);
    assert_eq!(books(now()).budget_of(&vision(), &ended).reservations.len(), 1);
    assert!(books(now() + SignedDuration::from_secs(1)).budget_of(&vision(), &ended).reservations.is_empty());
}

#[test]
fn what_may_be_spent_besides_is_kept_free() {
    let uncertain = Spend { uncertain: usd(10.0), ..stopped("i-3", 4_000.0) };
    let mut document = of_vision(vec![uncertain], HOLDS);
    assert_eq!(document.remaining_usd, Some(usd(990.0)));
    assert!(matches!(reserved(&mut document, 990.01, HOLDS, now()), Err(ReservationRefusal::TooMuch(_))));
    assert_eq!(reserved(&mut document, 990.0, HOLDS, now()), Ok(ReservationOutcome::Fits));
}

#[test]
fn what_is_reserved_is_not_spent_and_a_beat_keeps_it() {
    let (config, since) = (Config::read(HOLDS).unwrap(), "2026-11-22T09:00:00Z".parse().unwrap());
    let of = |usd_reserved: f64| BudgetReservation {
        usd: usd(usd_reserved),
        spent_usd: Amount::ZERO,
        since,
        until: "2026-12-02T00:00:00Z".parse().unwrap(),
        instances: BTreeSet::new(),
        ended: None,
    };
    let document = |month: &str, one: BudgetReservation| Budget {
        month: month.to_owned(),
        reservations: BTreeMap::from([("vision/llama-1".to_owned(), one)]),
        ..Budget::default()
    };
    let spends = spends(vec![spend("i-1", 4_000.0)]);
    // The month before has the same job, as it stood there.
    let earlier = BTreeMap::from([(vision(), document("2026-10", of(7.0)))]);
    let budget = BudgetBooks::new((&config, Mode::Enforce), &spends, &earlier, now())
        .budget_of(&vision(), &document("2026-11", of(3_000.0)));
    assert_eq!(
        (budget.verdict, budget.spent_usd, budget.reserved_usd),
        (BudgetVerdict::Ok, usd(4_000.0), usd(3_000.0))
    );
}

#[test]
fn what_runs_and_was_not_seen_by_the_last_beat_is_said() {
    let seen = |minutes: i64| {
        let old = Spend { seen_until: now() - SignedDuration::from_mins(minutes), ..spend("i-1", 1.0) };
        of_vision(vec![spend("i-2", 1.0), old.clone(), Spend { is_running: false, ..old }], HOLDS).blind_since
    };
    assert_eq!(seen(20), None);
    assert_eq!(seen(21), Some(now() - SignedDuration::from_mins(21)));
}

#[test]
fn a_reservation_goes_on_into_the_next_month_with_what_is_left_of_it() {
    let since: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    let december: Timestamp = "2026-12-01T00:15:00Z".parse().unwrap();
    let config = Config::read(HOLDS).unwrap();
    let mut november = Budget { month: "2026-11".to_owned(), ..Budget::default() };
    november.reservations.insert("vision/llama-1".to_owned(), reservation(since));
    assert!(launched(&mut november, "vision/llama-1", "i-1".into()));
    let copied = of_job("i-2", "vision/llama-1", since, 2.0);
    let spends = LedgerSpends {
        before: vec![of_job("i-1", "vision/llama-1", since, 40.0), copied.clone()],
        ..spends(vec![of_job("i-1", "vision/llama-1", since, 3.0), copied])
    };
    let earlier = BTreeMap::from([(vision(), november)]);
    let books = BudgetBooks::new((&config, Mode::Enforce), &spends, &earlier, december);
    let document = books.documents(&BTreeMap::new()).remove(&vision()).unwrap();
    assert_eq!((document.spent_usd, document.reserved_usd), (usd(5.0), usd(57.0)));
    // Once more, and nothing changes.
    assert_eq!(books.budget_of(&vision(), &document), document);
}

#[test]
fn a_beat_that_comes_late_writes_nothing_over_a_later_one() {
    let later = of_vision(vec![spend("i-1", 50.0)], HOLDS);
    let config = Config::read(HOLDS).unwrap();
    let (spends, earlier) = (spends(vec![spend("i-1", 40.0)]), BTreeMap::new());
    let of = |now| BudgetBooks::new((&config, Mode::Enforce), &spends, &earlier, now).budget_of(&vision(), &later);
    assert_eq!(of(now() - SignedDuration::from_mins(15)), later);
    assert_eq!(of(now() + SignedDuration::from_mins(15)).spent_usd, usd(40.0));
}

fn said(of_month: Vec<Spend>, config: &str) -> String {
    let documents = BTreeMap::from([(vision(), of_vision(of_month, config))]);
    let plan = decided(&documents, config, &nothing_told());
    let plan::Evidence::OverBudget(evidence) = &plan.steps[0].evidence else { panic!("{plan:?}") };
    assert!(matches!(plan.steps[0].action, Action::Budget(_)));
    evidence.text.clone()
}

#[test]
fn what_people_hear() {
    let p5 = Spend {
        rate: Some(Rate::from_usd_micros_per_hour(55_040_000)),
        what: "p5.48xlarge".to_owned(),
        ..spend("i-5", 3_900.0)
    };
    assert_snapshot!(said(vec![p5.clone(), stopped("i-1", 200.0)], HOLDS), @r#"Team vision has spent $4,100.00 of its budget of $5,000.00 for 2026-11 (82 %), as of 2026-11-22T12:00:00Z; $900.00 is left. Once it is spent, no further job is launched. The most was spent on i-5 (p5.48xlarge "bench", owner ada, us-east-1) $3,900.00, still running at $55.04/h; i-1 (g5.xlarge "bench", owner ada, us-east-1) $200.00. By the end of the month, $4,305.22 will be spent: $4,100.00 spent, and for the 8d12h left $24.14 a day, the mean of the 7d since 2026-11-15T12:00:00Z. What runs now costs $55.04/h, which spends the remainder by 2026-11-23T04:21:06Z; $4.41/h would last until the month ends at 2026-12-01T00:00:00Z. To stay within it, stop i-5 (p5.48xlarge, us-east-1, $55.04/h). The command: aws ec2 stop-instances --region us-east-1 --instance-ids i-5"#);
    let unpriced = Spend { rate: None, unpriced_seconds: 12_000, uncertain: usd(4.5), ..spend("i-2", 0.0) };
    assert_snapshot!(said(vec![p5.clone(), Spend { resource: "i-6".into(), spent: usd(2_000.0), ..p5 }, unpriced], &HOLDS.replace("hold", "stop")), @r#"Team vision has spent $5,900.00 of its budget of $5,000.00 for 2026-11 (118 %), as of 2026-11-22T12:00:00Z; $0.00 is left. No further job is launched this month, and instances that run are stopped, each after its own announcement. The most was spent on i-5 (p5.48xlarge "bench", owner ada, us-east-1) $3,900.00, still running at $55.04/h; i-6 (p5.48xlarge "bench", owner ada, us-east-1) $2,000.00, still running at $55.04/h. Not counted, because the price is unknown: i-2 (g5.xlarge, us-east-1), which ran for 3h20m. Up to $4.50 more may be spent, on resources with an unobserved stop, or not seen since. By the end of the month, $6,515.67 will be spent: $5,900.00 spent, and for the 8d12h left $72.43 a day, the mean of the 7d since 2026-11-15T12:00:00Z. Nothing brings it back under its budget this month: it is $900.00 over. The next month begins at 2026-12-01T00:00:00Z; a larger budget is set by monthly_budget_usd in config/curfew.toml. To spend no more, stop i-5 (p5.48xlarge, us-east-1, $55.04/h), i-6 (p5.48xlarge, us-east-1, $55.04/h). The command: aws ec2 stop-instances --region us-east-1 --instance-ids i-5 i-6"#);
    let within = said(vec![spend("i-1", 2_600.0)], HOLDS);
    assert_snapshot!(within, @r#"Team vision has spent $2,600.00 of its budget of $5,000.00 for 2026-11 (52 %), as of 2026-11-22T12:00:00Z; $2,400.00 is left. Once it is spent, no further job is launched. The most was spent on i-1 (g5.xlarge "bench", owner ada, us-east-1) $2,600.00, still running at $1.01/h. By the end of the month, $2,805.22 will be spent: $2,600.00 spent, and for the 8d12h left $24.14 a day, the mean of the 7d since 2026-11-15T12:00:00Z."#);
}

#[test]
fn people_hear_of_nothing_that_cost_nothing_and_of_one_other() {
    let small = |id: &str, spent: f64| stopped(id, spent);
    let config = "[teams.vision]\nmonthly_budget_usd = 10\n";
    let said = |of_month| said(of_month, config);
    let few = said(vec![small("i-1", 9.5), small("i-2", 0.004)]);
    assert_snapshot!(few, @r#"Team vision has spent $9.50 of its budget of $10.00 for 2026-11 (95 %), as of 2026-11-22T12:00:00Z; $0.50 is left. The most was spent on i-1 (g5.xlarge "bench", owner ada, us-east-1) $9.50. By the end of the month, $9.50 will be spent: $9.50 spent, and for the 8d12h left $0.00 a day, the mean of the 7d since 2026-11-15T12:00:00Z."#);
    let six = (1..=6_u8).map(|nth| small(&format!("i-{nth}"), f64::from(nth))).chain([small("i-7", 0.004)]);
    let unpriced = |id: &str, seconds| Spend { unpriced_seconds: seconds, rate: None, ..spend(id, 0.0) };
    let many = said(six.chain([unpriced("i-8", 7_200), unpriced("i-9", 3_600)]).collect());
    assert_snapshot!(many, @r#"Team vision has spent $21.00 of its budget of $10.00 for 2026-11 (210 %), as of 2026-11-22T12:00:00Z; $0.00 is left. The most was spent on i-6 (g5.xlarge "bench", owner ada, us-east-1) $6.00; i-5 (g5.xlarge "bench", owner ada, us-east-1) $5.00; i-4 (g5.xlarge "bench", owner ada, us-east-1) $4.00; i-3 (g5.xlarge "bench", owner ada, us-east-1) $3.00; i-2 (g5.xlarge "bench", owner ada, us-east-1) $2.00; 1 other $1.00. Not counted, because the price is unknown: i-8 (g5.xlarge, us-east-1), which ran for 2h; and 1 other. By the end of the month, $431.45 will be spent: $21.00 spent, and for the 8d12h left $48.29 a day, the mean of the 7d since 2026-11-15T12:00:00Z. Nothing brings it back under its budget this month: it is $11.00 over. The next month begins at 2026-12-01T00:00:00Z; a larger budget is set by monthly_budget_usd in config/curfew.toml."#);
}

#[test]
fn what_is_advised_can_be_done() {
    let check = |of_month: Vec<Spend>| of_vision(of_month, HOLDS).remedy.join("\n");
    let dear = |id: &str, region: &str, usd_per_hour: u64| Spend {
        region: region.into(),
        rate: Some(Rate::from_usd_micros_per_hour(usd_per_hour * 1_000_000)),
        ..spend(id, 700.0)
    };
    // In two regions, one on Spot.
    let spot = Spend { ends: SavingAction::Terminating, ..dear("i-3", HOME, 40) };
    assert_snapshot!(check(vec![dear("i-1", HOME, 20), dear("i-2", "eu-west-1", 30), spot]), @"
        What runs now costs $90.00/h, which spends the remainder by 2026-11-23T20:13:20Z; $14.22/h would last until the month ends at 2026-12-01T00:00:00Z.
        To stay within it, stop i-3 (g5.xlarge on Spot, us-east-1, $40.00/h), i-2 (g5.xlarge, eu-west-1, $30.00/h), i-1 (g5.xlarge, us-east-1, $20.00/h).
        A Spot instance of a one-time request can only be terminated; of a persistent one, cancel the request first.
        The command: aws ec2 stop-instances --region eu-west-1 --instance-ids i-2; aws ec2 stop-instances --region us-east-1 --instance-ids i-1
        ");
    // More than are named.
    let many = (1..=6).map(|nth| dear(&format!("i-{nth}"), HOME, 100 - nth)).chain([stopped("i-9", 5_000.0)]);
    assert_snapshot!(check(many.collect()), @"
        Nothing brings it back under its budget this month: it is $4,200.00 over. The next month begins at 2026-12-01T00:00:00Z; a larger budget is set by monthly_budget_usd in config/curfew.toml.
        To spend no more, stop i-1 (g5.xlarge, us-east-1, $99.00/h), i-2 (g5.xlarge, us-east-1, $98.00/h), i-3 (g5.xlarge, us-east-1, $97.00/h), i-4 (g5.xlarge, us-east-1, $96.00/h), i-5 (g5.xlarge, us-east-1, $95.00/h), 1 other ($94.00/h).
        The command: aws ec2 stop-instances --region us-east-1 --instance-ids i-1 i-2 i-3 i-4 i-5
        ");
    // What is paid for anyway, and a volume.
    let reserved = Spend { ends: SavingAction::Nothing, ..dear("i-1", HOME, 98) };
    assert_snapshot!(check(vec![reserved.clone()]), @"
        What runs now costs $98.00/h, which spends the remainder by 2026-11-24T07:52:39Z; $21.08/h would last until the month ends at 2026-12-01T00:00:00Z.
        Stopping instances saves none of that: it is for volumes, or for capacity that is paid for anyway.
        ");
    assert_snapshot!(check(vec![reserved, dear("i-2", HOME, 2)]), @"
        What runs now costs $100.00/h, which spends the remainder by 2026-11-24T00:00:00Z; $17.65/h would last until the month ends at 2026-12-01T00:00:00Z.
        Nothing keeps it until then; to spend it later, stop i-2 (g5.xlarge, us-east-1, $2.00/h).
        The command: aws ec2 stop-instances --region us-east-1 --instance-ids i-2
        ");
    // Nothing that runs, and exactly spent.
    assert_snapshot!(check(vec![stopped("i-1", 5_000.0)]), @"Nothing brings it back under its budget this month: all of it is spent. The next month begins at 2026-12-01T00:00:00Z; a larger budget is set by monthly_budget_usd in config/curfew.toml.");
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
fn a_ledger_that_began_within_the_month_says_so() {
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
        let (nothing, dearest) = (BTreeMap::new(), format!("team-{:04}", with_budget + without - 1));
        let spends = spends(vec![Spend { team: Some(dearest.as_str().into()), ..spend("i-1", 5.0) }]);
        let books = BudgetBooks::new((&config, Mode::Enforce), &spends, &nothing, now());
        let holders = books.holders(&nothing);
        assert_eq!((holders.len(), books.left_out(&nothing)), expect, "{with_budget} {without}");
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

#[test]
fn the_tables_are_named_by_which_some_of_it_is_counted() {
    let table = |of| Some(billing::price::PriceSource::Table { of });
    let found = said(
        vec![
            Spend { table: table("2026-09-24"), ..spend("i-1", 2_000.0) },
            Spend { table: table("2026-09-24"), ..spend("i-2", 1_000.0) },
            Spend { table: table("2026-09-30"), ..spend("vol-3", 2_000.0) },
            spend("i-4", 500.0),
        ],
        HOLDS,
    );
    let words =
        "Some prices are not from the Price List, but from the table of 2026-09-24, and of the table of 2026-09-30.";
    assert!(found.contains(words), "{found}");
}
