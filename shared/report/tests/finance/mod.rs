//! What a reader who answers for the bill needs: every sum with what it leaves out, whose it is, and what it was before.

use std::collections::BTreeMap;

use billing::budget::{Budget, BudgetHolder};
use billing::ledger::{BillingState, CalendarMonth, Ledger, LedgerBeat, PurchaseTerms, Sighting};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::channels::account_of_topic;
use model::fixture::time;
use model::money::Amount;
use report::{ExportFormat, ExportScope, MonthFacts, MonthReport, bucket_export, digest, export, mail, render_html};
use serde_json::json;

use crate::fixture::{Machine, facts, record, step, stopped_at, usage_facts, used};

const NOW: &str = "2026-11-20T10:00:00Z";

/// An on-demand instance of vision, owned by ada, at $1 an hour.
fn machine(resource: &str, began: &str, life: BillingState) -> Sighting {
    let (what, team, terms, began) = ("g5.xlarge", "vision", PurchaseTerms::OnDemand, time(began));
    let machine = Machine { resource, what, team, terms, job: None, began, life, usd_micros_per_hour: 1_000_000 };
    let mut sighting = machine.sighting();
    (sighting.facts.owner, sighting.facts.name) = (Some("ada".to_owned()), Some("llama".to_owned()));
    sighting
}

fn unpriced(resource: &str, began: &str) -> Sighting {
    let machine = machine(resource, began, BillingState::Live);
    let mut facts = machine.facts;
    facts.tariff = billing::ledger::Tariff::new("of no known price");
    Sighting { facts, prices: Vec::new(), ..machine }
}

/// The ledger of a month, with a beat at each of these moments.
fn ledger(month: &str, beats: &[&str], items: &[Sighting]) -> Ledger {
    let mut ledger = Ledger::new(&CalendarMonth::read(month, &TimeZone::UTC).unwrap(), &"us-east-1".into());
    for at in beats {
        let at: Timestamp = time(at);
        let items = items.iter().filter(|item| item.began <= at).cloned().collect();
        let unread = std::collections::BTreeSet::new();
        ledger.observe(&LedgerBeat { at, region: "us-east-1".into(), whole: true, items, unread });
    }
    ledger
}

fn november(items: &[Sighting]) -> MonthFacts {
    let newest = record(NOW, &[step("i-1", "vision", "stop", "observed")], &json!({}));
    facts(NOW, ledger("2026-11", &["2026-11-01T00:05:00Z", NOW], items), &[], newest)
}

/// The digest, the mail and the page.
fn texts(report: &MonthReport) -> [String; 3] {
    [digest(report), mail(report).html, render_html(report)]
}

fn check_all(report: &MonthReport, expect: &str) {
    for text in texts(report) {
        assert!(text.contains(expect), "{expect}: {text}");
    }
}

#[test]
fn spend_without_a_known_price_is_said_beside_each_sum() {
    let priced = machine("i-1", "2026-11-20T00:00:00Z", BillingState::Live);
    let report = MonthReport::from_facts(&november(&[priced.clone(), unpriced("i-2", "2026-11-19T10:00:00Z")]));
    assert!(digest(&report).starts_with("At least $10.00 spent on GPUs in 2026-11"), "{}", digest(&report));
    assert_eq!(mail(&report).subject, "Curfew: at least $10.00 spent on GPUs in 2026-11");
    check_all(&report, "not counted: 1d of running time at an unknown price");
    check_all(&report.for_team("vision"), "not counted: 1d of running time at an unknown price");
    let complete = MonthReport::from_facts(&november(&[priced]));
    assert!(texts(&complete).iter().all(|text| !text.contains("not counted") && !text.contains("t least")));
}

#[test]
fn a_region_that_could_not_be_read_is_in_no_sum() {
    let facts =
        MonthFacts { unread_ledgers: 1, ..november(&[machine("i-1", "2026-11-20T00:00:00Z", BillingState::Live)]) };
    let report = MonthReport::from_facts(&facts);
    assert!(digest(&report).starts_with("At least $10.00 spent on GPUs in 2026-11"), "{}", digest(&report));
    check_all(&report, "not counted: 1 region whose ledger could not be read");
    check_all(&report.for_team("vision"), "not counted: 1 region whose ledger could not be read");
    assert!(digest(&report).contains("the 7 days before: unknown."), "{}", digest(&report));
    let over = MonthReport { is_over: true, ..report };
    check_all(&over, "at least 0.27-4.5 kWh");
    for text in [digest(&over), mail(&over).html] {
        assert!(text.contains("not counted: what a ledger that could not be read would have"), "{text}");
    }
}

#[test]
fn a_month_without_a_ledger_has_no_sum() {
    let facts = MonthFacts { ledgers: Vec::new(), ..november(&[]) };
    let report = MonthReport::from_facts(&facts);
    let first = "What was spent on GPUs in 2026-11 is unknown: no ledger of the month could be read.\n";
    assert!(digest(&report).starts_with(first), "{}", digest(&report));
    check_all(&report, "no ledger of");
    assert!(report.own.is_none(), "no run is known");
    let json = serde_json::to_value(&report).unwrap();
    let unknown =
        json!({ "energy_kwh": null, "operational_kg_co2e": null, "embodied_kg_co2e": null, "gaps": { "ledgers": 1 } });
    assert_eq!((&json["headline"]["spent_usd"], &json["headline"]["footprint"]), (&json!(null), &unknown));
    assert_eq!((json["teams"][0]["spent_usd"].is_number(), &json["days"]), (false, &json!([])));
    let page = render_html(&report);
    assert!(
        page.contains("unknown CO2e") && page.contains("not counted: what a ledger that could not be read would have")
    );
    let unknown = MonthReport::from_facts(&MonthFacts { newest: Vec::new(), days: Vec::new(), ..facts });
    check_all(&unknown, "What Curfew saved is unknown: no audit record of the month is left");
    assert!(texts(&unknown).iter().all(|text| !text.contains("$0.00 spent") && !text.contains("saved $0.00")));
}

#[test]
fn each_says_the_account_and_whose_a_resource_is() {
    let mut report = MonthReport::from_facts(&november(&[machine("i-1", "2026-11-20T00:00:00Z", BillingState::Live)]));
    report.account = account_of_topic("arn:aws:sns:us-east-1:123456789012:curfew");
    check_all(&report, "account 123456789012");
    assert_eq!(mail(&report).subject, "Curfew: $10.00 spent on GPUs in 2026-11 in account 123456789012");
    report.account_name = Some("research".to_owned());
    check_all(&report, "account research (123456789012)");
    check_all(&report.for_team("vision"), "account research (123456789012)");
    assert!(
        digest(&report)
            .contains("\"vision\" (i-1, g5.xlarge), team vision, owner \"ada\": Curfew would stop or delete it")
    );
    assert!(mail(&report).html.contains("(i-1, g5.xlarge), team vision, owner"));
    assert!(render_html(&report).contains("owner ada"));
    assert_eq!([account_of_topic("arn:aws:sns:us-east-1::x"), account_of_topic("topic")], [None, None]);
}

/// $1 an hour from 15 October on.
#[test]
fn last_month_and_last_week_stand_beside_this() {
    let items = [machine("i-1", "2026-10-15T00:00:00Z", BillingState::Live)];
    let beats = ["2026-10-01T00:05:00Z", "2026-10-31T23:55:00Z"];
    let previous_ledgers = vec![ledger("2026-10", &beats, &items)];
    let facts = MonthFacts { previous_ledgers, ..november(&items) };
    let report = MonthReport::from_facts(&facts);
    let text = digest(&report);
    // From the 15th until 10:00 of the 20th; and each week of 168 hours.
    assert!(text.contains("\nThe month before by the same day: $130.00.\n"), "{text}");
    assert!(text.contains("\nThe last 7 days: $168.00; the 7 days before: $168.00.\n"), "{text}");
    check_all(&report, "$130.00");
    // A ledger of October that could not be read is in neither of its sums, and the last 7 days are whole.
    let facts = MonthFacts { unread_previous_ledgers: 1, ..facts };
    let text = digest(&MonthReport::from_facts(&facts));
    assert!(text.contains("\nThe month before by the same day: at least $130.00.\n"), "{text}");
    assert!(text.contains("\nThe last 7 days: $168.00; the 7 days before: $168.00.\n"), "{text}");
    let facts = MonthFacts { unread_previous_ledgers: 0, unread_ledgers: 1, ..facts };
    let text = digest(&MonthReport::from_facts(&facts));
    assert!(text.contains("\nThe month before by the same day: $130.00.\n"), "{text}");
    assert!(text.contains("\nThe last 7 days: at least $168.00; the 7 days before: at least $168.00.\n"), "{text}");
    let over = MonthReport::from_facts(&MonthFacts { now: time("2026-12-01T00:00:00Z"), ..facts });
    assert!(over.headline.past.last_week.is_none() && over.headline.past.previous_month.is_some());
    let first = MonthReport::from_facts(&november(&items));
    assert!(first.headline.past.previous_month.is_none(), "no ledger of October was kept");
}

#[test]
fn a_forecast_above_the_budget_is_said_and_highlighted() {
    let budget = |forecast: f64| {
        let amount = |usd| Some(Amount::from_usd(usd));
        let account = Budget { budget_usd: amount(100.0), forecast_usd: amount(forecast), ..Budget::default() };
        let budgets = BTreeMap::from([(BudgetHolder::Account, account)]);
        MonthReport::from_facts(&MonthFacts { budgets, ..november(&[]) })
    };
    check_all(&budget(142.5), "$42.50 above the budget");
    let [text, html, page] = texts(&budget(99.0));
    assert!(!text.contains("above") && !html.contains("#b3261e") && !page.contains("class=\"alarm\""));
    assert!(texts(&budget(142.5))[1].contains("#b3261e") && texts(&budget(142.5))[2].contains("class=\"alarm\""));
}

#[test]
fn a_month_in_which_nothing_could_cost_less_says_so() {
    let mut working = used("i-9", "vision", true);
    working.hours.iter_mut().for_each(|hour| (hour.utilization, hour.memory_mib) = (vec![99.0; 4], vec![22_000.0; 4]));
    let usage = Some(usage_facts(&[working]));
    let report = MonthReport::from_facts(&MonthFacts { usage, ..november(&[]) });
    check_all(
        &report,
        "By the GPU metrics of 1 of 1 instances on demand in three weeks, and by jobs on demand in 30 days, nothing was found that could cost less.",
    );
}

#[test]
fn the_charges_are_exported_by_resource_team_and_day() {
    let stopped = machine("i-1", "2026-11-18T22:00:00Z", stopped_at(time("2026-11-19T03:00:00Z")));
    let mut hostile = unpriced("i-2", "2026-11-20T08:00:00Z");
    hostile.facts.name = Some("=1+\"1\",x".to_owned());
    let facts = november(&[stopped, hostile]);
    let scope = ExportScope { account: Some("123456789012"), account_name: Some("research"), ..ExportScope::default() };
    let csv = export(&facts, scope, ExportFormat::Csv);
    let account = r#""123456789012","us-east-1","vision","ada","#;
    let expect = [
        r#""day","account","region","team","owner","job","resource","name","kind","type","terms","seconds","cost_usd","uncertain_usd","unpriced_seconds""#.to_owned(),
        format!(r#""2026-11-18",{account},"i-1","llama","instance","g5.xlarge","on-demand","7200","2.000000","0.000000","0""#),
        format!(r#""2026-11-19",{account},"i-1","llama","instance","g5.xlarge","on-demand","10800","3.000000","0.000000","0""#),
        format!(r#""2026-11-20",{account},"i-2","'=1+""1"",x","instance","g5.xlarge","on-demand","7200",,"0.000000","7200""#),
    ];
    assert_eq!(csv.lines().collect::<Vec<_>>(), expect);
    let focus = export(&facts, scope, ExportFormat::Focus);
    let header: Vec<&str> = focus.lines().next().unwrap().split(',').collect();
    assert!(focus.lines().count() == 4 && header.contains(&"\"BilledCost\"") && header.contains(&"\"x_Team\""));
    assert!(focus.contains(r#""2026-11-18T00:00:00Z","2026-11-19T00:00:00Z","2.0000","Hours""#), "{focus}");
    let other = ExportScope { team: Some("nlp"), ..scope };
    assert_eq!(export(&facts, other, ExportFormat::Csv).lines().count(), 1, "the header");
}

/// The mandatory columns of the specification of version 1.2 (`specification/columns/` of its repository).
const FOCUS_MANDATORY: [&str; 21] = [
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
];

/// The cells of the file in the bucket, by column. Only the description has a comma.
fn bucket_rows(facts: &MonthFacts) -> Vec<BTreeMap<String, String>> {
    let text = bucket_export(facts, Some("123456789012"), Some("research")).unwrap();
    let text = text.replace(", estimated by Curfew", "");
    let cells = |line: &str| line.split(',').map(|cell| cell.trim_matches('"').to_owned()).collect::<Vec<_>>();
    let mut lines = text.lines();
    let header = cells(lines.next().unwrap());
    lines.map(|line| header.iter().cloned().zip(cells(line)).collect()).collect()
}

#[test]
fn the_file_in_the_bucket_has_the_columns_of_focus_and_says_that_it_estimates() {
    let priced = machine("i-1", "2026-11-20T08:00:00Z", BillingState::Live);
    let rows = bucket_rows(&november(&[priced, unpriced("i-2", "2026-11-20T08:00:00Z")]));
    assert_eq!(rows.len(), 2);
    for row in &rows {
        let absent: Vec<_> = FOCUS_MANDATORY.iter().filter(|column| !row.contains_key(**column)).collect();
        assert!(absent.is_empty(), "{absent:?}");
        assert_eq!((row["SubAccountId"].as_str(), row["SubAccountName"].as_str()), ("123456789012", "research"));
        assert_eq!((row["x_IsEstimate"].as_str(), row["ServiceSubcategory"].as_str()), ("true", "Virtual Machines"));
        assert_eq!((row["PricingQuantity"].as_str(), row["PricingUnit"].as_str()), ("2.0000", "Hours"));
    }
    let costs = ["BilledCost", "EffectiveCost", "ContractedCost", "ListCost"];
    assert_eq!(costs.map(|column| rows[0][column].as_str()), ["2.000000", "2.000000", "2.000000", ""]);
    assert_eq!(costs.map(|column| rows[1][column].as_str()), ["", "", "", ""], "an unknown price is no cost of 0");
}

#[test]
fn the_documented_table_of_athena_has_the_columns_in_their_order() {
    let page = include_str!("../../../../docs/report.md");
    let (_, table) = page.split_once("CREATE EXTERNAL TABLE curfew_focus (").unwrap();
    let (columns, _) = table.split_once(')').unwrap();
    let documented: Vec<&str> = columns.split(',').map(|column| column.trim().trim_end_matches(" string")).collect();
    let text = bucket_export(&november(&[]), None, None).unwrap();
    assert_eq!(text.lines().next().unwrap().replace('"', "").split(',').collect::<Vec<_>>(), documented);
}

#[test]
fn a_month_with_too_many_lines_is_summed_and_keeps_its_costs() {
    let machines = |count: u32| -> Vec<Sighting> {
        (0..count)
            .map(|n| machine(&format!("i-{n:04}"), "2026-11-20T08:00:00Z", BillingState::Live))
            .chain([unpriced("i-u", "2026-11-20T08:00:00Z")])
            .collect()
    };
    let facts = november(&machines(9));
    let lines = |lines_max| {
        let scope = ExportScope { lines_max: Some(lines_max), ..ExportScope::default() };
        let text = export(&facts, scope, ExportFormat::Csv);
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(10).len(), 10);
    let sum = r#""2026-11-20",,"us-east-1","vision",,,,"10 charges, too many to list","instance","g5.xlarge","on-demand","72000","18.000000","0.000000","7200""#;
    assert_eq!(lines(9), [sum]);
}

#[test]
fn an_incomplete_month_replaces_no_file() {
    let facts = november(&[machine("i-1", "2026-11-20T00:00:00Z", BillingState::Live)]);
    let export = |facts: &MonthFacts| bucket_export(facts, None, None);
    assert!(export(&facts).is_some_and(|text| export(&facts) == Some(text)), "twice the same");
    assert_eq!(export(&MonthFacts { unread_ledgers: 1, ..facts }), None);
    assert_eq!(export(&MonthFacts { ledgers: Vec::new(), ..november(&[]) }), None);
}
