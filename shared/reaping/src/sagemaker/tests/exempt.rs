//! Resources that nothing ends, whatever else holds.

use super::*;

/// Every kind, with each sign of production and without.
fn kinds() -> Vec<SageMakerResource> {
    let endpoints = [
        endpoint(),
        endpoint().facts(|facts| facts.is_autoscaled = Some(true)),
        endpoint().facts(|facts| facts.is_autoscaled = None),
        endpoint().facts(|facts| facts.signs = [ProductionSign::AsyncInference].into()),
        endpoint().facts(|facts| facts.signs = [ProductionSign::InferenceComponents].into()),
    ];
    let others = [notebook(), app(), training_job(), training_job().job(JobKind::Tuning), inference_component()];
    endpoints.into_iter().chain(others).map(SageMakerBuilder::build).collect()
}

const TAGS: [(&str, &str); 11] = [
    ("Name", "x"),
    ("curfew:mode", "enforce"),
    ("curfew:mode", "observe"),
    ("curfew:on-idle", "terminate"),
    ("curfew:on-idle", "oops"),
    ("curfew:protected", ""),
    ("curfew:keep-until", "2026-09-30"),
    (MARKED, "idle=delete@2026-09-01T11:00:00Z"),
    (MARKED, "idle=stop@2026-09-01T11:00:00Z"),
    ("aws:cloudformation:stack-id", "x"),
    ("Team", "speech"),
];

/// A protected resource is never ended, whatever else holds; and every resource is in the plan exactly once.
#[test]
fn nothing_ends_what_is_exempt_unknown_or_not_announced() {
    let activities = [
        inactive(),
        Activity::Active(time(NOW)),
        unknown(UnknownActivity::NotAsked),
        unknown(UnknownActivity::HealthCheck),
        unknown(UnknownActivity::TooFewSamples(model::sagemaker::ActivitySignal::Gpu(0))),
    ];
    let mut ended = 0;
    for kind in kinds() {
        for (one, another) in TAGS.iter().flat_map(|one| TAGS.iter().map(move |another| (one, another))) {
            for (activity, status) in activities.iter().flat_map(|activity| {
                [SageMakerStatus::Running, SageMakerStatus::Changing].map(|status| (activity, status))
            }) {
                let mut resource = SageMakerResource { status, ..kind.clone() };
                resource.tags.extend([one, another].map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
                ended += usize::from(is_ended(&resource, activity));
            }
        }
    }
    assert!(ended > 0, "nothing was ended at all");
}

fn is_ended(resource: &SageMakerResource, activity: &Activity) -> bool {
    let seen = ObservedSageMaker { items: vec![resource.clone()], gaps: Vec::new() };
    let activities = Activities::from([((resource.region.clone(), resource.id.clone()), activity.clone())]);
    let memory = NotificationLogs::from([(resource.region.clone(), logged(resource))]);
    let plan = decide(&seen, &activities, &memory, &enforcing(ENFORCE), time(NOW));
    assert_eq!(plan.steps.len() + plan.skipped.len(), 1, "{resource:?}");
    let ends = |step: &&Step| step.mode == Mode::Enforce && step.action.stops_or_deletes();
    let Some(step) = plan.steps.iter().find(ends) else { return false };
    assert!(resource.tags.contains_key(MARKED) && matches!(activity, Activity::Inactive(_)), "{step:?}");
    assert_eq!((resource.status, step.notify_only), (SageMakerStatus::Running, None), "{step:?}");
    for key in ["curfew:protected", "curfew:keep-until", "aws:cloudformation:stack-id"] {
        assert!(!resource.tags.contains_key(key), "{step:?}");
    }
    assert!(resource.tags.get("curfew:on-idle").is_none_or(|action| action == "terminate"), "{step:?}");
    if let Some(facts) = resource.endpoint() {
        assert!(facts.signs.is_empty() && facts.is_autoscaled == Some(false), "{step:?}");
    }
    true
}
