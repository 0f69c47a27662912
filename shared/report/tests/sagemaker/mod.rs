//! What runs under `SageMaker`, beside instances: endpoints of one name in two regions, and a job that Curfew stopped.

use billing::ledger::{BillingState, Ledger, LedgerBeat, PurchaseTerms, RunFacts, RunKind, Sighting};
use model::fixture::time;
use report::MonthReport;
use serde_json::{Value, json};

use crate::fixture::{Machine, facts, november, record, step, stopped_at};

const NOW: &str = "2026-11-11T10:00:00Z";

/// Of team vision, at $1 an hour since the morning before.
fn run(id: &str, life: BillingState) -> Sighting {
    let (began, terms) = (time("2026-11-10T10:00:00Z"), PurchaseTerms::OnDemand);
    let what = "ml.g5.xlarge";
    let machine =
        Machine { resource: id, what, team: "vision", terms, job: None, began, life, usd_micros_per_hour: 1_000_000 };
    let sighting = machine.sighting();
    Sighting { facts: RunFacts { kind: RunKind::SageMaker, ..sighting.facts }, ..sighting }
}

fn ledger(region: &str, items: Vec<Sighting>) -> Ledger {
    let mut ledger = Ledger::new(&november(), &region.into());
    ledger.observe_sagemaker(&LedgerBeat {
        at: time(NOW),
        region: region.into(),
        whole: true,
        items,
        unread: std::collections::BTreeSet::new(),
    });
    ledger
}

fn steps(id: &str, action: &str) -> Vec<Value> {
    vec![step(id, "vision", action, "done")]
}

#[test]
fn what_ran_under_sagemaker_counts_and_a_stopped_job_saves_nothing() {
    let job = run("training-job/bert", stopped_at(time("2026-11-10T22:00:00Z")));
    let home = ledger("us-east-1", vec![run("endpoint/llm", BillingState::Live), job]);
    let marked = record("2026-11-10T12:00:00Z", &steps("endpoint/llm", "mark"), &json!({}));
    let stopped = record("2026-11-10T22:00:00Z", &steps("training-job/bert", "stop"), &json!({}));
    let newest = record(NOW, &[], &json!({ "marked": ["endpoint/llm"] }));
    let mut facts = facts(NOW, home, &[marked, stopped], newest);
    facts.ledgers.push(ledger("eu-west-1", vec![run("endpoint/llm", BillingState::Live)]));
    let report = MonthReport::from_facts(&facts);
    let [team] = &report.teams[..] else { panic!("{:?}", report.teams) };
    let idle = (team.idle_seconds / 3_600, team.idle_cost.to_string());
    // Two endpoints for 24 hours, and a job for 12. Only one of the endpoints was announced.
    assert_eq!(
        (team.spent.to_string(), team.saved.to_string(), idle),
        ("$60.00".into(), "unknown".into(), (22, "$22.00".into()))
    );
}

/// A deleted endpoint saves its price until there is one of its name again.
#[test]
fn an_endpoint_that_is_made_again_saves_nothing_any_more() {
    let again = Sighting { began: time("2026-11-11T04:00:00Z"), ..run("endpoint/llm", BillingState::Live) };
    let deleted = record("2026-11-10T22:00:00Z", &steps("endpoint/llm", "delete"), &json!({}));
    let facts = facts(NOW, ledger("us-east-1", vec![again]), &[deleted], record(NOW, &[], &json!({})));
    let report = MonthReport::from_facts(&facts);
    assert_eq!(
        report.savings.iter().map(|line| line.saved.map(|saved| saved.to_string())).collect::<Vec<_>>(),
        [Some("$6.00".into())]
    );
}
