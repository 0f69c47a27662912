//! Prints the page of a made-up month with every section: `cargo run -p report --example sample > sample.html`; with the argument `organization` that
//! of three accounts.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "an example")]

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::collections::BTreeMap;

use billing::budget::{Budget, BudgetHolder};
use billing::ledger::{BillingState, CalendarMonth, Ledger, LedgerBeat, PurchaseTerms, Sighting, Tariff};
use fixture::{
    Machine, attempt, checkpoints, facts, job, ledger, own_runs, record, step, stopped_at, usage_facts, used,
};
use jiff::SignedDuration;
use jiff::tz::TimeZone;
use model::account::AccountId;
use model::fixture::time;
use model::money::Amount;
use plan::report::RunRecord;
use report::{
    AccountFigures, MonthFacts, MonthReport, OrganizationReport, PublishedMonth, render_html, render_organization_html,
};
use serde_json::{Value, json};

const NOW: &str = "2026-11-23T06:00:00Z";
/// The last two show that nothing long breaks the page.
const TEAMS: [&str; 8] = [
    "vision",
    "nlp",
    "speech",
    "robotics",
    "search",
    "ads",
    "research and development of foundation models for everything",
    "a-team-whose-name-has-sixty-characters-and-not-a-single-blank",
];
/// Types with their on-demand price per hour in micro-USD.
const TYPES: [(&str, u64); 5] = [
    ("p5.48xlarge", 55_040_000),
    ("p4d.24xlarge", 21_957_642),
    ("g5.12xlarge", 5_672_000),
    ("g6.12xlarge", 4_601_600),
    ("g5.xlarge", 1_006_000),
];

/// Forty instances. Two of three were stopped after some hours, and every fourth was a job's on Spot.
fn machines() -> Vec<Sighting> {
    let machine = |place: usize| {
        let place_i64 = i64::try_from(place).unwrap();
        let (what, usd_micros) = TYPES[place % TYPES.len()];
        let is_spot = place.is_multiple_of(4);
        let began = time("2026-11-01T07:30:00Z") + SignedDuration::from_hours(13 * place_i64);
        let ended = began + SignedDuration::from_hours(5 + 11 * (place_i64 % 7));
        let is_live = place.is_multiple_of(3) && place > 30;
        Machine {
            resource: &format!("i-0{place:016x}"),
            what,
            team: TEAMS[place % 7 * 5 % TEAMS.len()],
            terms: if is_spot { PurchaseTerms::Spot } else { PurchaseTerms::OnDemand },
            job: is_spot.then(|| format!("vision/llama-{place:08x}")),
            began,
            life: if is_live { BillingState::Live } else { stopped_at(ended) },
            usd_micros_per_hour: if is_spot { usd_micros * 2 / 5 } else { usd_micros },
        }
        .sighting()
    };
    let owned = |mut sighting: Sighting| {
        sighting.facts.owner = Some("ada.lovelace@research.example".to_owned());
        sighting
    };
    let mut all: Vec<Sighting> = (0..40).map(machine).map(owned).collect();
    // One has no known price.
    (all[3].facts.tariff, all[3].prices) = (Tariff::new("unknown"), Vec::new());
    all
}

fn beat(at: &str, items: Vec<Sighting>) -> LedgerBeat {
    LedgerBeat {
        at: time(at),
        region: "us-east-1".into(),
        whole: true,
        items,
        unread: std::collections::BTreeSet::new(),
    }
}

/// The month before: one instance of nlp from the second to the twenty-eighth.
fn october() -> Ledger {
    let month = CalendarMonth::read("2026-10", &TimeZone::UTC).unwrap();
    let mut ledger = Ledger::new(&month, &"us-east-1".into());
    let machine = Machine {
        resource: "i-0ccccccccccccccc1",
        what: "p4d.24xlarge",
        team: TEAMS[1],
        terms: PurchaseTerms::OnDemand,
        job: None,
        began: time("2026-10-02T00:00:00Z"),
        life: stopped_at(time("2026-10-28T00:00:00Z")),
        usd_micros_per_hour: 21_957_642,
    };
    ledger.observe(&beat("2026-10-01T00:05:00Z", Vec::new()));
    ledger.observe(&beat("2026-10-31T23:55:00Z", vec![machine.sighting()]));
    ledger
}

/// Every sixth instance was announced as idle, and stopped two hours later.
fn records(machines: &[Sighting]) -> Vec<RunRecord> {
    let stops = machines.iter().step_by(6).filter_map(|machine| match machine.life {
        BillingState::Ended { at: Some(at), .. } => Some((at, machine)),
        _ => None,
    });
    let machine_step = |machine: &Sighting, action: &str| {
        let team = machine.facts.team.as_ref().map_or("", |team| team.as_str());
        let rate = machine.prices[0].1.usd_micros_per_hour();
        let usd = f64::from(u32::try_from(rate).unwrap()) / 1e6;
        let named = json!({ "what": machine.facts.what, "saves_usd_per_hour": usd });
        merged(step(machine.resource.as_str(), team, action, "done"), &named)
    };
    let records_of_stop = |(at, machine): (jiff::Timestamp, &Sighting)| {
        let announced = (at - SignedDuration::from_hours(2)).to_string();
        [
            record(&announced, &[machine_step(machine, "mark")], &json!({})),
            record(&at.to_string(), &[machine_step(machine, "stop")], &json!({})),
        ]
    };
    stops.flat_map(records_of_stop).collect()
}

/// Returns the findings of the newest run: one of each kind of waste.
fn newest() -> RunRecord {
    let found = |id: &str, team: usize, action: &str, outcome: &str, usd: f64| {
        let what = json!({ "what": "g5.12xlarge", "name": "notebook of ada", "saves_usd_per_hour": usd });
        merged(step(id, TEAMS[team], action, outcome), &what)
    };
    let steps = [
        found("i-0aaaaaaaaaaaaaaa1", 0, "stop", "not-reached", 5.672),
        found("i-0aaaaaaaaaaaaaaa2", 6, "stop", "observed", 5.672),
        found("i-0aaaaaaaaaaaaaaa3", 7, "stop", "failed", 1.006),
        found("i-0aaaaaaaaaaaaaaa4", 1, "mark", "done", 21.96),
        found("i-0aaaaaaaaaaaaaaa5", 2, "notify", "done", 1.006),
    ];
    record(NOW, &steps, &json!({ "usage-unknown": ["i-00000000000000021"], "kept": ["i-00000000000000024"] }))
}

fn merged(mut step: Value, more: &Value) -> Value {
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    step
}

fn main() {
    let report = sample_report();
    let page = match std::env::args().nth(1).as_deref() {
        Some("organization") => render_organization_html(&organization(&report)),
        _ => render_html(&report),
    };
    println!("{page}");
}

/// Three accounts: one as the sample, one that is silent, and one whose figures do not count.
fn organization(report: &MonthReport) -> OrganizationReport {
    let (now, month) = (time(NOW), CalendarMonth::read("2026-11", &TimeZone::UTC).unwrap());
    let published = |id: &str, name: &str, hours: i64| PublishedMonth {
        account: AccountId::parse(id).unwrap(),
        beat: None,
        daily: Some(AccountFigures {
            account_name: Some(name.to_owned()),
            as_of: now - SignedDuration::from_hours(hours),
            ..AccountFigures::from_report(report)
        }),
        heard_before: None,
        problems: Vec::new(),
    };
    let refused = PublishedMonth {
        daily: None,
        problems: vec![
            "accounts/333344445555/figures/2026-11.json does not count: they have the team \"vision\" twice".to_owned(),
        ],
        ..published("333344445555", "", 0)
    };
    let accounts = vec![published("111122223333", "research", 0), published("222233334444", TEAMS[6], 30), refused];
    OrganizationReport::new(&month, now, accounts, [], &BTreeMap::new(), Vec::new())
}

fn sample_report() -> MonthReport {
    let items = machines();
    let records = records(&items);
    let usd = |usd: f64| Some(Amount::from_usd(usd));
    let account = Budget { budget_usd: usd(30_000.0), forecast_usd: usd(34_400.0), ..Budget::default() };
    let team = |index: usize, budget: f64, forecast: f64| {
        let budget = Budget { budget_usd: usd(budget), forecast_usd: usd(forecast), ..Budget::default() };
        (BudgetHolder::Team(TEAMS[index].into()), budget)
    };
    let budgets =
        BTreeMap::from([(BudgetHolder::Account, account), team(0, 9_000.0, 8_100.0), team(1, 12_000.0, 13_400.0)]);
    let gaps = vec!["the ledger of eu-central-1 could not be read: s3:GetObject on s3://curfew-state/ledger/2026-11/eu-central-1.json failed: AccessDenied".to_owned()];
    let mut november = ledger(NOW, items);
    november.observe(&beat("2026-11-01T00:05:00Z", Vec::new()));
    let llama = "vision/llama-00000000";
    let facts = MonthFacts {
        budgets,
        gaps,
        unread_ledgers: 1,
        runs: own_runs(),
        jobs: vec![job("vision", "llama-00000000")],
        attempts: BTreeMap::from([(llama.to_owned(), vec![attempt(false, "i-00000000000000000", 2_100_000)])]),
        checkpoints: checkpoints(&[
            (TEAMS[0], "llama-00000000", 640),
            (TEAMS[0], "bert-11111111", 1_900),
            (TEAMS[7], "gpt-22222222", 80),
        ]),
        usage: Some(usage_facts(&[
            used("i-0bbbbbbbbbbbbbbb1", TEAMS[0], true),
            used("i-0bbbbbbbbbbbbbbb2", TEAMS[7], true),
            used("i-0bbbbbbbbbbbbbbb3", TEAMS[6], false),
        ])),
        previous_ledgers: vec![october()],
        unread_previous_ledgers: 0,
        ..facts(NOW, november, &records, newest())
    };
    let mut report = MonthReport::from_facts(&facts);
    report.account = Some("123456789012".to_owned());
    report
}
