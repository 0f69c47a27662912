use jiff::tz::TimeZone;
use model::fixture::{SageMakerBuilder, app, endpoint, notebook, time, training_job};
use model::money::Rate;

use super::*;
use crate::ledger::{CalendarMonth, Ledger, RunCost};

const STARTED: &str = "2026-08-29T12:00:00Z";

/// It began on its instances when it was made.
fn started_job_of(kind: JobKind) -> SageMakerBuilder {
    training_job().job(kind).billing(|billing| billing.started_at = Some(time(STARTED)))
}

fn started_job() -> SageMakerBuilder {
    started_job_of(JobKind::Training)
}

/// What a beat of noon, 1 September, says of a resource: its life, and what sets its price.
fn check(resource: SageMakerBuilder, expect: &str) {
    let look = SageMakerObservation { region: "us-east-1".into(), whole: true, resources: vec![resource.build()] };
    let beat = look.to_beat(time("2026-09-01T12:00:00Z"), &Config::default(), |_| Vec::new());
    let said = |item: &Sighting| {
        let until = match item.life {
            BillingState::Live => "now".to_owned(),
            BillingState::Ended { at, .. } => at.map_or_else(|| "?".to_owned(), |at| at.to_string()),
        };
        let RunFacts { tariff, terms, .. } = &item.facts;
        format!("{} {until}: {}, {terms:?}", item.began, tariff.as_str())
    };
    let found: Vec<String> = beat.items.iter().map(said).collect();
    let found = if beat.whole { found } else { [found, vec!["not whole".to_owned()]].concat() };
    assert_eq!(found.join("; "), expect);
}

#[test]
fn a_life_of_each_kind_is_a_run() {
    check(notebook(), "2026-08-29T12:00:00Z now: SageMaker Notebk: ml.g5.xlarge, OnDemand");
    let started_again = notebook().modified("2026-08-31T12:00:00Z");
    check(started_again, "2026-08-31T12:00:00Z now: SageMaker Notebk: ml.g5.xlarge, OnDemand");
    check(notebook().status(SageMakerStatus::Stopped), "");
    check(notebook().status(SageMakerStatus::Stopping), "");
    check(app(), "2026-08-29T12:00:00Z now: SageMaker Studio:JupyterLab- ml.g5.xlarge, OnDemand");
    check(app().status(SageMakerStatus::Deleting), "");
    let hosting = "2026-08-29T12:00:00Z now: SageMaker Host: ml.g5.xlarge, OnDemand";
    check(endpoint(), hosting);
    check(endpoint().modified("2026-08-31T12:00:00Z"), hosting);
    check(endpoint().status(SageMakerStatus::Changing), hosting);
    check(endpoint().status(SageMakerStatus::Deleting), "");
    let scaled = |machines: &[(&str, u32)]| {
        let machines: BTreeMap<TypeName, u32> = machines.iter().map(|(name, count)| ((*name).into(), *count)).collect();
        endpoint().facts(|facts| facts.machines = Some(machines))
    };
    let several = scaled(&[("g5.xlarge", 2), ("g5.2xlarge", 1)]);
    check(several, "2026-08-29T12:00:00Z now: SageMaker Host: ml.g5.2xlarge and 2 x ml.g5.xlarge, OnDemand");
    check(scaled(&[("g5.xlarge", 0)]), "2026-08-29T12:00:00Z now: SageMaker Host: no instance, OnDemand");
    check(
        endpoint().facts(|facts| {
            facts.signs.insert(ProductionSign::Serverless);
        }),
        "",
    );
}

#[test]
fn a_job_is_billed_from_its_start_on_its_instances() {
    check(started_job(), "2026-08-29T12:00:00Z now: SageMaker Train: ml.g5.xlarge, OnDemand");
    check(
        started_job_of(JobKind::Processing),
        "2026-08-29T12:00:00Z now: SageMaker Processing: ml.g5.xlarge, OnDemand",
    );
    check(
        started_job().status(SageMakerStatus::Stopping),
        "2026-08-29T12:00:00Z now: SageMaker Train: ml.g5.xlarge, OnDemand",
    );
    check(started_job().billing(|billing| billing.started_at = None), "");
    check(started_job_of(JobKind::Tuning), "");
    let ended = |seconds: Option<u64>, is_managed_spot: bool| {
        started_job().status(SageMakerStatus::Stopped).billing(|billing| {
            billing.ended_at = Some(time("2026-08-29T13:00:00Z"));
            (billing.billable_seconds, billing.is_managed_spot) = (seconds, is_managed_spot);
        })
    };
    check(ended(None, false), "2026-08-29T12:00:00Z 2026-08-29T13:00:00Z: SageMaker Train: ml.g5.xlarge, OnDemand");
    check(
        ended(Some(3_540), false),
        "2026-08-29T12:00:00Z 2026-08-29T12:59:00Z: SageMaker Train: ml.g5.xlarge, OnDemand",
    );
    check(
        ended(Some(600), true),
        "2026-08-29T12:00:00Z 2026-08-29T12:10:00Z: SageMaker Train: ml.g5.xlarge, ManagedSpot",
    );
    check(ended(None, true), "2026-08-29T12:00:00Z ?: SageMaker Train: ml.g5.xlarge, ManagedSpot");
}

#[test]
fn what_may_be_billed_is_no_reason_to_call_the_rest_gone() {
    check(endpoint().facts(|facts| facts.machines = None), "not whole");
    check(endpoint().with(|endpoint| endpoint.kind = SageMakerKind::Endpoint { facts: None }), "not whole");
    check(started_job().with(|job| job.instances = None), "not whole");
    // An end without its time, in words that came after this code.
    check(started_job().status(SageMakerStatus::Other), "not whole");
}

/// What the first day of September cost, as beats at these hours saw it, at $1/h each.
fn day(looks: &[(i64, SageMakerBuilder)]) -> RunCost {
    let september = CalendarMonth::read("2026-09", &TimeZone::UTC).unwrap();
    let mut ledger = Ledger::new(&september, &"us-east-1".into());
    let midnight = time("2026-09-01T00:00:00Z");
    for (hour, resource) in looks {
        let at = midnight + SignedDuration::from_hours(*hour);
        let resources = vec![resource.clone().build()];
        let look = SageMakerObservation { region: "us-east-1".into(), whole: true, resources };
        let rate = |resource: &SageMakerResource| {
            let count: u32 = resource.machines().unwrap_or_default().values().sum();
            vec![(time(STARTED), Rate::from_usd_micros_per_hour(1_000_000 * u64::from(count)))]
        };
        ledger.observe_sagemaker(&look.to_beat(at, &Config::default(), rate));
    }
    let until = midnight + SignedDuration::from_hours(24);
    ledger.runs().map(|run| run.spent(crate::ledger::TimeSpan { from: midnight, to: until })).sum()
}

fn usd(cost: RunCost) -> (u64, u64) {
    (cost.amount.usd_micros() / 10_000, cost.uncertain.usd_micros() / 10_000)
}

#[test]
fn managed_spot_may_have_cost_nothing_until_its_billable_seconds_are_known() {
    let job = |change: fn(&mut JobBilling)| {
        started_job().billing(|billing| {
            (billing.started_at, billing.is_managed_spot) = (Some(time("2026-09-01T01:00:00Z")), true);
            change(billing);
        })
    };
    let running = job(|_| {});
    // Up to 23 hours, as long as nothing else is seen.
    assert_eq!(usd(day(&[(5, running.clone())])), (0, 2_300));
    let ended = job(|billing| {
        (billing.ended_at, billing.billable_seconds) = (Some(time("2026-09-01T09:00:00Z")), Some(7_200));
    });
    assert_eq!(usd(day(&[(5, running.clone()), (10, ended.status(SageMakerStatus::Stopped))])), (200, 0));
    // Nobody saw how it ended: at most until the beat that no longer saw it.
    assert_eq!(usd(day(&[(5, running), (10, notebook().status(SageMakerStatus::Stopped))])), (0, 901));
}

#[test]
fn an_endpoint_that_scales_costs_what_each_beat_saw() {
    let of = |count| endpoint().facts(|facts| facts.machines = Some(BTreeMap::from([("g5.xlarge".into(), count)])));
    let seen = [(0, of(1)), (6, of(3)), (12, of(0)), (18, of(2)), (24, of(2))];
    assert_eq!(usd(day(&seen)), (100 * (6 + 18 + 12), 0));
}
