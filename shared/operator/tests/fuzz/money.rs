//! Money of a stranger: runs at the ends of the calendar, prices and documents with any number. Nothing panics of them, and what another team spent
//! stays what it is.

use std::collections::BTreeMap;

use billing::budget::overview::BudgetOverview;
use billing::budget::{
    Budget, BudgetBooks, BudgetHolder, BudgetMonth, BudgetTerms, LedgerSpends, ReservationRequest, explain, reserve,
};
use billing::ledger::{CalendarMonth, FoldLimits, InspectedInstance, Ledger, RegionObservation};
use jiff::{SignedDuration, Timestamp};
use model::ceiling::Ceiling;
use model::config::Config;
use model::instance::{Instance, InstanceState, Tags};
use model::mode::Mode;
use model::money::{Amount, Rate};
use model::notification_log::{NotificationLog, NotificationLogs};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::strangers::{home, moment, tags};
use super::{cases, instance, now};

const CONFIG: &str = r#"
    mode = "enforce"
    [account]
    monthly_budget_usd = 1000
    over_budget = "hold"
    [teams.sound]
    monthly_budget_usd = 100
    over_budget = "stop"
    [teams.vision]
    monthly_budget_usd = 1
"#;

fn number() -> impl Strategy<Value = Value> {
    select(vec![json!(0), json!(1), json!(-1), json!(1e308), json!(9e15), json!(u64::MAX), json!(1e-300)])
}

/// A budget document that anybody may have damaged.
fn document() -> impl Strategy<Value = Value> {
    let at = || moment().prop_map(|at| json!(at.to_string()));
    let months = select(vec!["2026-09", "2026-08", "9999-12", "-009999-01", ""]);
    (months, at(), vec(number(), 7), vec(at(), 3)).prop_map(|(month, as_of, numbers, moments)| {
        json!({
            "team": "vision", "month": month, "as_of": as_of, "budget_usd": numbers[0], "spent_usd": numbers[1], "uncertain_usd": numbers[2],
            "reserved_usd": numbers[3], "forecast_usd": numbers[4], "usd_per_hour": numbers[5], "blind_since": moments[0],
            "unpriced": [{ "resource": "i-1", "region": "us-east-1", "what": "x", "seconds": u64::MAX }],
            "reservations": { "vision/x": { "usd": numbers[6], "since": moments[1], "until": moments[2] } },
        })
    })
}

fn team_tags(team: &str) -> Tags {
    BTreeMap::from([("Team".to_owned(), team.to_owned())])
}

proptest! {
    #![proptest_config(cases(4))]

    #[test]
    fn a_stranger_changes_no_other_budget(
        of_stranger in tags(), launched_at in moment(), ended_at in prop::option::of(moment()), price_from in moment(),
        micros in select(vec![0, 1, 1_000_000, u64::MAX]),
        state in select(vec![InstanceState::Running, InstanceState::Stopped, InstanceState::Terminated]),
        stored in document(), beats in vec(0_i64..40_000, 1..5), at_month_end in any::<bool>(),
    ) {
        let config = Config::read(CONFIG).unwrap();
        // Of another type: the price of a type is that of all who run it.
        let instance_type = "p4d.24xlarge".into();
        let stranger = Instance { launched_at, state, instance_type, ..instance("i-1", of_stranger) };
        let sound = instance("i-9", team_tags("sound"));
        let is_strangers = |holder: &BudgetHolder| *holder != BudgetHolder::Team("sound".into());
        let stored = serde_json::from_value::<Budget>(stored).ok().map(|budget| (BudgetHolder::Team("vision".into()), budget));
        let stored: BTreeMap<BudgetHolder, Budget> = stored.into_iter().collect();
        let now = if at_month_end { BudgetMonth::containing(now(), &config).to - SignedDuration::from_secs(1) } else { now() };
        let month = CalendarMonth::containing(now, &config.account.zone());

        let budgets = |instances: &[&Instance]| {
            let mut ledger = Ledger::new(&month, &home());
            for minutes_ago in &beats {
                let look = RegionObservation {
                    region: home(),
                    whole: true,
                    instances: instances.iter().map(|one| InspectedInstance { instance: (*one).clone(), ended_at }).collect(),
                    volumes: Vec::new(),
                };
                let price = |one: &InspectedInstance| {
                    let is_sound = one.instance.id.as_str() == "i-9";
                    let (from, micros) = if is_sound { (Timestamp::UNIX_EPOCH, 1_000_000) } else { (price_from, micros) };
                    vec![(from, Rate::from_usd_micros_per_hour(micros))]
                };
                ledger.observe(&look.to_beat(now - SignedDuration::from_mins(*minutes_ago), &config, price, |_| Vec::new()));
            }
            ledger.fold(&FoldLimits { bytes_max: 1, ..FoldLimits::default() });
            let written = serde_json::to_value(&ledger).unwrap();
            let ledger: Ledger = serde_json::from_value(written).unwrap();
            let spends = LedgerSpends::from_ledgers(&[ledger], &[], &stored, now);
            let nothing = BTreeMap::new();
            BudgetBooks::new(BudgetTerms { config: &config, ceiling: &Ceiling::fixed(Mode::Enforce) }, &spends, &nothing, now).documents(&stored)
        };
        let (with, without) = (budgets(&[&stranger, &sound]), budgets(&[&sound]));
        let sound_budget = BudgetHolder::Team("sound".into());
        prop_assert_eq!(with.get(&sound_budget), without.get(&sound_budget));

        let memory = NotificationLogs::from([(home(), NotificationLog::default())]);
        for documents in [&with, &stored] {
            let plan = reaping::budgets::decide(documents, &config, &Ceiling::fixed(Mode::Enforce), &memory, &home());
            prop_assert!(plan.skipped.iter().all(|one| one.reason != plan::SkipReason::Bug), "{plan:?}");
            let period = BudgetMonth::containing(now, &config);
            let overview = BudgetOverview::from_documents(documents.clone(), None, &config, period, now);
            let _ = (overview.conclusion(), overview.problems());
            for (holder, budget) in documents.iter().filter(|(holder, _)| is_strangers(holder)) {
                let _ = explain::describe_budget(holder, budget, 100);
                let wanted = ReservationRequest { job: "vision/y".to_owned(), usd: Amount::from_usd(1e300), until: launched_at, number: 1 };
                let _ = reserve(&mut budget.clone(), holder, &wanted, BudgetTerms { config: &config, ceiling: &Ceiling::fixed(Mode::Enforce) }, now);
            }
        }
    }
}
