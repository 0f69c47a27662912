//! The effect of a retag on budgets.

use billing::ledger::{
    BillingState, CalendarMonth, Ledger, LedgerBeat, PurchaseTerms, RunFacts, RunKind, Sighting, Tariff,
};

use super::*;

/// An instance of $1 an hour, launched 110 hours before noon, and its team at each of the last beats, an hour apart.
fn ledger_spends(teams: &[&str]) -> LedgerSpends {
    let sighting = |team: &str| Sighting {
        resource: "i-1".into(),
        began: now() - SignedDuration::from_hours(110),
        facts: RunFacts {
            kind: RunKind::Instance,
            team: Some(team.into()),
            owner: None,
            name: None,
            what: "g5.xlarge".to_owned(),
            terms: PurchaseTerms::OnDemand,
            job: None,
            attached_to: None,
            tariff: Tariff::new("g5.xlarge on demand"),
        },
        life: BillingState::Live,
        prices: vec![("2026-09-24T00:00:00Z".parse().unwrap(), Rate::from_usd_micros_per_hour(1_000_000))],
    };
    let month = CalendarMonth::read("2026-11", &jiff::tz::TimeZone::UTC).unwrap();
    let mut ledger = Ledger::new(&month, &HOME.into());
    for (hours, team) in (0..).zip(teams.iter().rev()) {
        let at = now() - SignedDuration::from_hours(hours);
        ledger.observe(&LedgerBeat {
            at,
            region: HOME.into(),
            whole: true,
            items: vec![sighting(team)],
            unread: std::collections::BTreeSet::new(),
        });
    }
    LedgerSpends::from_ledgers(&[ledger], &[], [], now())
}

#[test]
fn a_retag_moves_no_history_to_another_team_and_stops_no_instance() {
    let config = "mode = \"enforce\"\n[teams.victim]\nmonthly_budget_usd = 100\nover_budget = \"stop\"\n";
    let spent_after = |teams: &[&str]| {
        let documents = documents_at(&ledger_spends(teams), config, now());
        let team_budget = |team: &str| documents[&BudgetHolder::Team(team.into())].clone();
        let (victim, vision) = (team_budget("victim"), team_budget("vision"));
        assert_eq!(documents[&BudgetHolder::Account].spent_usd, usd(110.0));
        assert_eq!((victim.burn(), vision.burn()), (Rate::from_usd_micros_per_hour(1_000_000), Rate::ZERO));
        assert!(vision.top.iter().all(|one| !one.running));
        (vision.spent_usd, victim.spent_usd, victim.verdict)
    };
    assert_eq!(spent_after(&["vision", "victim"]), (usd(110.0), usd(0.0), BudgetVerdict::Ok));
    assert_eq!(spent_after(&["vision", "victim", "victim"]), (usd(109.0), usd(1.0), BudgetVerdict::Ok));
}
