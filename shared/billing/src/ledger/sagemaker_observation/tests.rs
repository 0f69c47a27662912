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

fn whole_look(resources: Vec<SageMakerResource>) -> SageMakerObservation {
    SageMakerObservation { region: "us-east-1".into(), whole: true, resources, unread: BTreeSet::new() }
}

/// What a beat of noon, 1 September, says of a resource: its life, and what sets its price.
fn check(resource: SageMakerBuilder, expect: &str) {
    let look = whole_look(vec![resource.build()]);
    let beat = look.to_beat(time("2026-09-01T12:00:00Z"), &Config::default(), |_| Vec::new());
    let describe = |item: &Sighting| {
        let until = match item.life {
            BillingState::Live => "now".to_owned(),
            BillingState::Ended { at, .. } => at.map_or_else(|| "?".to_owned(), |at| at.to_string()),
        };
        let RunFacts { tariff, terms, .. } = &item.facts;
        format!("{} {until}: {}, {terms:?}", item.began, tariff.as_str())
    };
    let found: Vec<String> = beat.items.iter().map(describe).collect();
    let unread = beat.unread.iter().map(|id| format!("unread {id}"));
    assert_eq!(found.into_iter().chain(unread).collect::<Vec<_>>().join("; "), expect);
    assert!(beat.whole);
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
fn what_runs_on_unknown_instances_has_no_price_and_hides_nothing_else() {
    let hosting = "2026-08-29T12:00:00Z now: SageMaker Host: unknown instances, OnDemand";
    check(endpoint().facts(|facts| facts.machines = None), hosting);
    check(endpoint().with(|endpoint| endpoint.kind = SageMakerKind::Endpoint { facts: None }), hosting);
    let training = "2026-08-29T12:00:00Z now: SageMaker Train: unknown instances, OnDemand";
    check(started_job().with(|job| job.instances = None), training);
    // An end without its time, in words that came after this code.
    check(started_job().status(SageMakerStatus::Other), &format!("unread {}", training_job().build().id));
}

/// Which runs are over after a whole beat at 12:00 and one at 12:15, which sees these resources and could not read those.
fn check_ended(second: &[SageMakerBuilder], unread: &[&str], expect: &[&str]) {
    let september = CalendarMonth::read("2026-09", &TimeZone::UTC).unwrap();
    let mut ledger = Ledger::new(&september, &"us-east-1".into());
    let first = whole_look(vec![notebook().build(), endpoint().build(), started_job().build(), app().build()]);
    let second = SageMakerObservation {
        unread: unread.iter().map(|id| (*id).into()).collect(),
        ..whole_look(second.iter().map(|one| one.clone().build()).collect())
    };
    let price = |_: &SageMakerResource| vec![(time(STARTED), Rate::from_usd_micros_per_hour(1_000_000))];
    let beats = [(first, "2026-09-01T12:00:00Z"), (second, "2026-09-01T12:15:00Z")];
    for (look, at) in &beats {
        ledger.observe_sagemaker(&look.to_beat(time(at), &Config::default(), price));
    }
    let mut other = Ledger::new(&september, &"us-east-1".into());
    for (look, at) in beats.iter().rev() {
        other.observe_sagemaker(&look.to_beat(time(at), &Config::default(), price));
    }
    assert_eq!(ledger, other);
    let abroad = SageMakerObservation { region: "eu-west-1".into(), ..beats[1].0.clone() };
    assert!(!other.observe_sagemaker(&abroad.to_beat(time(beats[1].1), &Config::default(), price)));
    assert_eq!(ledger, other);
    let read: Ledger = serde_json::from_str(&serde_json::to_string(&ledger).unwrap()).unwrap();
    assert_eq!(read, ledger);
    let ended: Vec<&str> = read.runs().filter(|run| !run.is_running()).map(|run| run.resource.as_str()).collect();
    assert_eq!(ended, expect);
}

#[test]
fn what_could_not_be_read_ends_not_and_all_else_does() {
    let (app, job, notebook) = ("app/d-abc/lab/jupyterlab/default", "training-job/bert", "notebook-instance/research");
    check_ended(&[endpoint()], &[], &[app, notebook, job]);
    // One team's endpoint without a configuration leaves another team's notebook instance its end.
    check_ended(&[endpoint().facts(|facts| facts.machines = None)], &[], &[app, notebook, job]);
    check_ended(&[endpoint()], &[job], &[app, notebook]);
    check_ended(&[endpoint()], &["app/d-abc/lab/JupyterLab/default"], &[notebook, job]);
    check_ended(&[endpoint(), started_job().status(SageMakerStatus::Other)], &[], &[app, notebook]);
    // No single resource is to blame for so many.
    let many: Vec<String> = (0..33).map(|number| format!("training-job/{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    check_ended(&[endpoint()], &many[..32], &[app, notebook, job]);
    check_ended(&[endpoint()], &many, &[]);
}

#[test]
fn an_endpoint_counts_without_a_price_from_when_its_instances_are_unknown() {
    let unknown = endpoint().facts(|facts| facts.machines = None);
    let cost = day(&[(0, endpoint()), (6, unknown.clone()), (24, unknown)]);
    assert_eq!((usd(cost), cost.unpriced_seconds), ((600, 0), 18 * 3_600));
}

/// What the first day of September cost, as beats at these hours saw it, at $1/h each.
fn day(looks: &[(i64, SageMakerBuilder)]) -> RunCost {
    let september = CalendarMonth::read("2026-09", &TimeZone::UTC).unwrap();
    let mut ledger = Ledger::new(&september, &"us-east-1".into());
    let midnight = time("2026-09-01T00:00:00Z");
    for (hour, resource) in looks {
        let at = midnight + SignedDuration::from_hours(*hour);
        let look = whole_look(vec![resource.clone().build()]);
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
    // No beat saw how it ended: at most until the beat that no longer saw it.
    assert_eq!(usd(day(&[(5, running), (10, notebook().status(SageMakerStatus::Stopped))])), (0, 901));
}

#[test]
fn an_endpoint_that_scales_costs_what_each_beat_saw() {
    let machines =
        |count| endpoint().facts(|facts| facts.machines = Some(BTreeMap::from([("g5.xlarge".into(), count)])));
    let seen = [(0, machines(1)), (6, machines(3)), (12, machines(0)), (18, machines(2)), (24, machines(2))];
    assert_eq!(usd(day(&seen)), (100 * (6 + 18 + 12), 0));
}
