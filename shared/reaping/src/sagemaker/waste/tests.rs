use insta::assert_snapshot;
use model::fixture::{NOW, SageMakerBuilder, endpoint, inference_component, time, training_job};
use model::notification_log::{NotificationEntry, NotificationLogs, ResourceRecord};
use model::observation::Observation;
use model::sagemaker::{ActivitySamples, ProductionSign};
use model::usage::Sample;
use plan::{SkipReason, Skipped};

use super::*;
use crate::fixture::enforcing;
use crate::sagemaker::{Activities, decide};
use crate::scan;

const CREATED: &str = "2026-08-01T12:20:00Z";

/// The hours of the long window that ends before noon.
const HOURS: i64 = 14 * 24;

fn old() -> SageMakerBuilder {
    endpoint().created(CREATED)
}

/// One sample of each of the last hours.
fn hourly(hours: i64, value: f64) -> Vec<Sample> {
    (1..=hours).map(|hour| (time("2026-09-01T11:00:00Z") - HOUR * i32::try_from(hour).unwrap(), value)).collect()
}

/// The activity of an endpoint that was used an hour ago, with these samples of requests and of its GPUs.
fn judged(of: SageMakerBuilder, requests: Vec<Sample>, gpu: Vec<Sample>, config: &str) -> Activity {
    let (resource, config) = (of.build(), Config::read(config).unwrap());
    let signals = [(ActivitySignal::Requests, requests), (ActivitySignal::Gpu(0), gpu)];
    let answers = ActivitySamples::from([(resource.id.clone(), signals.into())]);
    evaluate_low_use(&resource, Activity::Active(time("2026-09-01T11:00:00Z")), &answers, &config, time(NOW))
}

fn is_low(of: SageMakerBuilder, requests: Vec<Sample>, gpu: Vec<Sample>, config: &str) -> bool {
    matches!(judged(of, requests, gpu, config), Activity::LowUse(_))
}

#[test]
fn few_requests_and_quiet_gpus_are_low_use() {
    assert!(is_low(old(), hourly(10, 4.0), hourly(HOURS, 1.0), ""));
    // 99 a day, and 100.
    assert!(is_low(old(), vec![(time("2026-08-30T11:00:00Z"), 1399.0)], hourly(HOURS, 1.0), ""));
    assert!(!is_low(old(), vec![(time("2026-08-30T11:00:00Z"), 1400.0)], hourly(HOURS, 1.0), ""));
    assert!(!is_low(old(), hourly(10, 4.0), hourly(HOURS, 5.0), ""));
    assert!(is_low(old(), hourly(10, 4.0), hourly(HOURS, 5.0), "[idle]\ngpu_below_percent = 6"));
    assert!(!is_low(old(), hourly(10, 4.0), hourly(HOURS, 1.0), "[sagemaker]\nlow_use_requests_per_day = 0"));
    assert!(!is_low(old(), hourly(10, 4.0), hourly(HOURS, 1.0), "[sagemaker]\nlow_use_requests_per_day = 2"));
}

#[test]
fn what_is_unknown_is_no_low_use() {
    let quiet = || hourly(HOURS, 1.0);
    // It was used, so a window without any request is one of missing metrics.
    assert!(!is_low(old(), Vec::new(), quiet(), ""));
    assert!(!is_low(old(), hourly(10, 4.0), Vec::new(), ""));
    assert!(!is_low(old(), hourly(10, 4.0), hourly(300, 1.0), ""));
    assert!(is_low(old(), hourly(10, 4.0), hourly(303, 1.0), ""));
    assert!(!is_low(old(), hourly(10, -1.0), quiet(), ""));
    assert!(!is_low(old(), hourly(10, 4.0), [hourly(HOURS, 1.0), hourly(1, f64::NAN)].concat(), ""));
    let (resource, used) = (old().build(), Activity::Active(time(NOW)));
    let evaluated = evaluate_low_use(&resource, used.clone(), &ActivitySamples::new(), &Config::default(), time(NOW));
    assert_eq!(evaluated, used);
}

#[test]
fn only_one_old_variant_that_nothing_scales_is_judged() {
    let low = |of: SageMakerBuilder| is_low(of, hourly(10, 4.0), hourly(HOURS, 1.0), "");
    assert!(low(endpoint().created("2026-08-18T11:00:00Z")));
    assert!(!low(endpoint().created("2026-08-18T11:00:01Z")));
    assert!(!low(old().modified("2026-08-30T12:00:00Z")));
    assert!(!low(old().facts(|facts| facts.is_autoscaled = Some(true))));
    assert!(!low(old().facts(|facts| facts.is_autoscaled = None)));
    assert!(!low(old().facts(|facts| facts.variants.push("canary".to_owned()))));
    assert!(!low(old().facts(|facts| facts.signs = [ProductionSign::AsyncInference].into())));
    assert!(!low(inference_component().created(CREATED)));
}

#[test]
fn a_run_asks_once_a_day_until_it_has_notified() {
    let (resource, config) = (old().build(), Config::default());
    let ask = |activity: &Activity, log: Option<&NotificationLog>, now: &str| {
        low_use_questions(&resource, activity, log, &config, time(now))
    };
    let (used, log) = (Activity::Active(time(NOW)), NotificationLog::default());
    let asked = ask(&used, Some(&log), "2026-09-01T12:44:00Z");
    let described: Vec<String> = asked
        .iter()
        .map(|one| {
            format!(
                "{:?} of {} each {:#} from {} to {}",
                one.statistic, one.series.metric, one.period, one.from, one.until
            )
        })
        .collect();
    assert_snapshot!(described.join("\n"), @"
    Sum of Invocations each 1h from 2026-08-18T12:00:00Z to 2026-09-01T12:00:00Z
    Average of GPUUtilization each 1h from 2026-08-18T12:00:00Z to 2026-09-01T12:00:00Z
    ");
    assert_eq!(ask(&used, Some(&log), "2026-09-01T13:44:00Z"), []);
    assert_eq!(ask(&used, None, "2026-09-01T13:44:00Z").len(), 2);
    let inactive = crate::sagemaker::NOT_ASKED;
    assert_eq!(ask(&inactive, None, NOW), []);
    let notified = |what: &str| {
        let entry = NotificationEntry::new(time(NOW), what);
        let notified = [(FindingKind::LowUse.key(), entry)].into();
        let record = ResourceRecord { notified, ..ResourceRecord::about(resource.created_at) };
        NotificationLog { resources: [(resource.id.clone(), record)].into(), ..NotificationLog::default() }
    };
    assert_eq!(ask(&used, Some(&notified(CREATED)), "2026-09-01T12:44:00Z"), []);
    // Of its life before the last change.
    assert_eq!(ask(&used, Some(&notified("2026-07-01T00:00:00Z")), "2026-09-01T12:44:00Z").len(), 2);
}

fn skipped(of: SageMakerBuilder, activity: Activity, config: &str) -> Skipped {
    let resource = of.build();
    let activities = Activities::from([((resource.region.clone(), resource.id.clone()), activity)]);
    let seen = Observation { items: vec![resource], gaps: Vec::new() };
    let mut plan = decide(&seen, &activities, &NotificationLogs::new(), &enforcing(config), time(NOW));
    assert_eq!(plan.steps, []);
    plan.skipped.remove(0)
}

#[test]
fn the_owner_of_a_little_used_endpoint_learns_what_would_serve_it() {
    let low = judged(old(), hourly(10, 4.0), hourly(HOURS, 1.0), "");
    let found = skipped(old(), low.clone(), "");
    let finding = found.finding.unwrap();
    assert_eq!((found.reason, finding.kind, finding.what.as_str()), (SkipReason::Busy, FindingKind::LowUse, CREATED));
    assert_snapshot!(finding.text, @"40 requests from 2026-08-18T11:00:00Z to 2026-09-01T11:00:00Z (2.9 a day), GPUs at 1 % on average. If its callers can wait, asynchronous inference serves the same model, and can scale to no instance between requests; batch transform serves requests that can be collected. Serverless inference has no GPU. Its price is unknown");
    // Notified once: neither a day without a question nor one without facts takes that back.
    let keeps = |of: SageMakerBuilder, activity| {
        skipped(of, activity, "").memory.active_keys.contains(&FindingKind::LowUse.key())
    };
    assert!(keeps(old(), low) && keeps(old(), Activity::Active(time(NOW))));
    assert!(keeps(old().facts(|facts| facts.is_autoscaled = None), Activity::Active(time(NOW))));
    assert!(!keeps(old().facts(|facts| facts.is_autoscaled = Some(true)), Activity::Active(time(NOW))));
}

fn checkpointed() -> SageMakerBuilder {
    training_job().compute_job(|job| {
        job.has_checkpoints = true;
        job.billing.started_at = Some(time("2026-09-01T11:00:00Z"));
    })
}

#[test]
fn training_on_demand_is_found_where_managed_spot_could_run_it() {
    let found = |of: SageMakerBuilder, config: &str| {
        let skipped = skipped(of, Activity::Active(time(NOW)), config);
        let key = FindingKind::OnDemandTraining.key();
        assert_eq!(skipped.finding.is_some(), skipped.memory.active_keys.contains(&key));
        skipped.finding
    };
    let finding = found(checkpointed(), "").unwrap();
    assert_eq!(finding.kind, FindingKind::OnDemandTraining);
    assert_snapshot!(finding.text, @"it trains on demand and copies checkpoints to S3. If its program goes on from them, managed Spot can run the next one: set EnableManagedSpotTraining and MaxWaitTimeInSeconds. What that saves is known once such a job has ended, by its BillableTimeInSeconds. Its price is unknown");
    assert_eq!(found(checkpointed(), "[sagemaker]\non_demand_training = false"), None);
    let without = |change: fn(&mut ComputeJob)| assert_eq!(found(checkpointed().compute_job(change), ""), None);
    without(|job| job.has_checkpoints = false);
    without(|job| job.excludes_spot = true);
    without(|job| job.billing.is_managed_spot = true);
    without(|job| job.billing.started_at = None);
    without(|job| job.billing.started_at = Some(time("2026-09-01T11:00:01Z")));
    without(|job| job.job = JobKind::Processing);
    without(|job| {
        job.tuning_job = Some(model::id::Arn::new("arn:aws:sagemaker:us-east-1:1:hyper-parameter-tuning-job/x"));
    });
}

#[test]
fn a_scan_shows_both() {
    let found = |of: SageMakerBuilder, activity: Activity| {
        let resource = of.build();
        let activities = Activities::from([((resource.region.clone(), resource.id.clone()), activity)]);
        let mut found = scan::sagemaker(&[resource], &activities, &enforcing(""), time(NOW)).items;
        let one = found.remove(0);
        (one.kinds, one.in_short)
    };
    let low = judged(old(), hourly(10, 4.0), hourly(HOURS, 1.0), "");
    assert_eq!(found(old(), low), (vec![scan::FindingKind::LowUse], "2.9 requests a day, GPUs at 1 %".to_owned()));
    let (kinds, _) = found(checkpointed(), Activity::Active(time(NOW)));
    assert_eq!(kinds, [scan::FindingKind::OnDemandTraining]);
}
