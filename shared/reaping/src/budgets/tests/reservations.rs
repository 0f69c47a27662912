//! Reservations of jobs on a budget.

use super::*;

fn wanted(usd_wanted: f64) -> ReservationRequest {
    ReservationRequest {
        job: "vision/llama-1".to_owned(),
        number: 1,
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
    reserve(document, &vision(), &wanted(want), enforced(&Config::read(config).unwrap()), at)
}

#[test]
fn a_job_is_launched_where_its_worst_case_fits() {
    let mut document = vision_budget(vec![spend("i-1", 4_000.0)], HOLDS);
    let refused = reserved(&mut document, 1_000.01, HOLDS, now()).unwrap_err();
    assert_snapshot!(refused, @"vision/llama-1 may cost up to $1,000.01, but the budget of team vision has $1,000.00 left: $5,000.00 for 2026-11, less $4,000.00 spent and $0.00 reserved, as of 2026-11-22T12:00:00Z");
    assert!(document.reservations.is_empty());
    assert_eq!(reserved(&mut document, 1_000.0, HOLDS, now()), Ok(ReservationOutcome::Fits));
    assert_eq!((document.reserved_usd, document.remaining_usd), (usd(1_000.0), Some(Amount::ZERO)));
    // The same job again takes the place of its own reservation; another has no room.
    assert_eq!(reserved(&mut document, 900.0, HOLDS, now()), Ok(ReservationOutcome::Fits));
    let other = ReservationRequest { job: "vision/other-2".to_owned(), ..wanted(100.01) };
    let config = Config::read(HOLDS).unwrap();
    assert!(reserve(&mut document, &vision(), &other, enforced(&config), now()).is_err());
    // One of before comes late, and so does its end.
    let late = ReservationRequest { number: 0, ..wanted(1.0) };
    let overtaken = reserve(&mut document, &vision(), &late, enforced(&config), now());
    assert_eq!(overtaken, Err(ReservationRefusal::Overtaken));
    let mut releases = |number: u32| release(&mut document, "vision/llama-1", number, usd(100.0), now());
    // Nothing was launched by it, so nothing of it stays.
    assert!(!releases(0) && releases(1) && !releases(1));
    assert_eq!((document.reserved_usd, document.remaining_usd), (Amount::ZERO, Some(usd(1_000.0))));
    assert!(reserve(&mut document, &vision(), &other, enforced(&config), now()).is_ok());
}

#[test]
fn jobs_wait_while_a_budget_is_unknown() {
    let at = |text: &str| -> Timestamp { text.parse().unwrap() };
    let known = || vision_budget(vec![spend("i-1", 0.0)], HOLDS);
    let refusal = |mut document: Budget, now| reserved(&mut document, 1.0, HOLDS, now).unwrap_err().to_string();
    assert_snapshot!(refusal(Budget::default(), now()), @"it is unknown how much of the budget of team vision is spent: there are no figures for 2026-11 yet; enforce-budgets writes them every quarter of an hour");
    assert_snapshot!(refusal(known(), at("2026-11-22T13:00:01Z")), @"it is unknown how much of the budget of team vision is spent: it was last counted at 2026-11-22T12:00:00Z, more than an hour ago; enforce-budgets does not run");
    assert_snapshot!(refusal(known(), at("2026-12-01T00:00:00Z")), @"it is unknown how much of the budget of team vision is spent: there are no figures for 2026-12 yet; enforce-budgets writes them every quarter of an hour");
    let blind = Budget { blind_since: Some(at("2026-11-22T10:59:59Z")), ..known() };
    assert_snapshot!(refusal(blind, now()), @"it is unknown how much of the budget of team vision is spent: something that runs was last seen at 2026-11-22T10:59:59Z; see the gaps of enforce-budgets");
    assert_eq!(reserved(&mut known(), 1.0, HOLDS, at("2026-11-22T13:00:00Z")), Ok(ReservationOutcome::Fits));
}

#[test]
fn a_budget_that_only_notifies_or_observes_lets_jobs_go_with_its_reason() {
    for config in [HOLDS.replace("hold", "notify"), HOLDS.replace("enforce", "observe")] {
        let mut document = vision_budget(vec![spend("i-1", 6_000.0)], &config);
        assert!(matches!(
            reserved(&mut document, 1.0, &config, now()),
            Ok(ReservationOutcome::Anyway(ReservationRefusal::TooMuch(_)))
        ));
        assert_eq!(document.reserved_usd, usd(1.0));
    }
    let mut new = Budget::default();
    assert_eq!(reserved(&mut new, 1.0, "", now()), Ok(ReservationOutcome::Fits));
    assert_eq!(new.month, "2026-11");
}

/// $100 for a job that ends on the second of December.
fn reservation(since: Timestamp) -> BudgetReservation {
    let until = "2026-12-02T00:00:00Z".parse().unwrap();
    BudgetReservation {
        number: 1,
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
    assert!(
        launched(&mut stored, "vision/llama-1", &["i-1".into()]) && !launched(&mut stored, "vision/x", &["i-1".into()])
    );
    let volume = Spend { on: Some("i-1".into()), ..job_spend("vol-1", "vision/llama-1", since, 1.0) };
    let copied = job_spend("i-3", "vision/llama-1", since, 4.0);
    let other_job = job_spend("i-2", "vision/other", since, 5.0);
    let spends = spends(vec![job_spend("i-1", "vision/llama-1", since, 29.0), volume, copied, other_job]);
    let earlier = BTreeMap::new();
    let at = |now| BudgetBooks::new(enforced(&config), &spends, &earlier, now).budget_of(&vision(), &stored);
    let budget = at(now());
    // A copied tag of the job does not count.
    assert_eq!((budget.spent_usd, budget.reserved_usd), (usd(39.0), usd(70.0)));
    assert_eq!(budget.remaining_usd, Some(usd(4_891.0)));
    assert!(at(now() + SignedDuration::from_secs(1)).reservations.is_empty());
    // Its end is known to the beat after it alone.
    let mut ended = budget;
    assert!(release(&mut ended, "vision/llama-1", 1, usd(31.0), now()));
    assert_eq!((ended.reserved_usd, ended.remaining_usd), (usd(1.0), Some(usd(4_960.0))));
    // A run that knows a smaller spend releases it once more.
    assert!(release(&mut ended, "vision/llama-1", 1, usd(200.0), now() + SignedDuration::from_secs(9)));
    assert_eq!((ended.reserved_usd, ended.reservations["vision/llama-1"].ended), (usd(1.0), Some(now())));
    assert!(!release(&mut ended, "vision/other", 1, usd(1.0), now()));
    let books = |now| BudgetBooks::new(enforced(&config), &spends, &earlier, now);
    assert_eq!(books(now()).budget_of(&vision(), &ended).reservations.len(), 1);
    assert!(books(now() + SignedDuration::from_secs(1)).budget_of(&vision(), &ended).reservations.is_empty());
}

#[test]
fn uncertain_spend_is_kept_free() {
    let uncertain = Spend { uncertain: usd(10.0), ..stopped("i-3", 4_000.0) };
    let mut document = vision_budget(vec![uncertain], HOLDS);
    assert_eq!(document.remaining_usd, Some(usd(990.0)));
    assert!(matches!(reserved(&mut document, 990.01, HOLDS, now()), Err(ReservationRefusal::TooMuch(_))));
    assert_eq!(reserved(&mut document, 990.0, HOLDS, now()), Ok(ReservationOutcome::Fits));
}

#[test]
fn what_is_reserved_is_not_spent_and_a_beat_keeps_it() {
    let (config, since) = (Config::read(HOLDS).unwrap(), "2026-11-22T09:00:00Z".parse().unwrap());
    let reservation_with = |usd_reserved: f64| BudgetReservation {
        number: 1,
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
    let earlier = BTreeMap::from([(vision(), document("2026-10", reservation_with(7.0)))]);
    let budget = BudgetBooks::new(enforced(&config), &spends, &earlier, now())
        .budget_of(&vision(), &document("2026-11", reservation_with(3_000.0)));
    assert_eq!(
        (budget.verdict, budget.spent_usd, budget.reserved_usd),
        (BudgetVerdict::Ok, usd(4_000.0), usd(3_000.0))
    );
}

#[test]
fn a_reservation_goes_on_into_the_next_month_with_what_is_left_of_it() {
    let since: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    let december: Timestamp = "2026-12-01T00:15:00Z".parse().unwrap();
    let config = Config::read(HOLDS).unwrap();
    let mut november = Budget { month: "2026-11".to_owned(), ..Budget::default() };
    november.reservations.insert("vision/llama-1".to_owned(), reservation(since));
    assert!(launched(&mut november, "vision/llama-1", &["i-1".into()]));
    let copied = job_spend("i-2", "vision/llama-1", since, 2.0);
    let spends = LedgerSpends {
        before: vec![job_spend("i-1", "vision/llama-1", since, 40.0), copied.clone()],
        ..spends(vec![job_spend("i-1", "vision/llama-1", since, 3.0), copied])
    };
    let earlier = BTreeMap::from([(vision(), november)]);
    let books = BudgetBooks::new(enforced(&config), &spends, &earlier, december);
    let document = books.documents(&BTreeMap::new()).remove(&vision()).unwrap();
    assert_eq!((document.spent_usd, document.reserved_usd), (usd(5.0), usd(57.0)));
    // Once more, and nothing changes.
    assert_eq!(books.budget_of(&vision(), &document), document);
}
