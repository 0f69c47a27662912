use model::fixture::{app, endpoint, notebook, time, training_job};
use model::sagemaker::JobBilling;
use serde_json::{Value, json};

use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall};
use crate::sagemaker::tests::{ARN, CREATED, account, answer, error};

async fn seen(aws: &Aws) -> Observation<SageMakerObservation> {
    bills(aws, &["us-east-1".into()], time("2026-09-01T12:00:00Z"), Duration::from_secs(5)).await
}

/// A job that ended an hour after it began.
fn ended(status: &str) -> Value {
    json!({
        "TrainingJobName": "gpt", "TrainingJobArn": format!("{ARN}:training-job/gpt"), "TrainingJobStatus": status,
        "CreationTime": CREATED, "LastModifiedTime": CREATED, "TrainingStartTime": CREATED, "TrainingEndTime": CREATED + 3600.0,
        "BillableTimeInSeconds": 600, "EnableManagedSpotTraining": true,
        "ResourceConfig": { "InstanceType": "ml.g5.xlarge", "InstanceCount": 1 },
    })
}

/// Of an account where a job has ended, and an earlier list has it already.
fn with_ended(call: &ReplayedCall) -> Option<ReplayAnswer> {
    let body = call.parameters.concat();
    match call.name.as_str() {
        "ListTrainingJobs" if body.contains("LastModifiedTimeAfter") => {
            let running = json!({ "TrainingJobArn": format!("{ARN}:training-job/bert"), "TrainingJobStatus": "InProgress", "CreationTime": CREATED });
            Some(answer(&json!({ "TrainingJobSummaries": [ended("Completed"), running] })))
        }
        "DescribeTrainingJob" if body.contains("gpt") => Some(answer(&ended("Completed"))),
        _ => None,
    }
}

#[tokio::test]
async fn the_ledger_sees_what_runs_and_which_jobs_ended() {
    let (aws, calls) = account(with_ended);
    let Observation { items, gaps } = seen(&aws).await;
    let [mut look] = <[_; 1]>::try_from(items).unwrap();
    look.resources.sort_by(|one, other| one.id.cmp(&other.id));
    let billing = JobBilling {
        started_at: Some(time("2026-08-29T12:00:00Z")),
        ended_at: Some(time("2026-08-29T13:00:00Z")),
        is_managed_spot: true,
        billable_seconds: Some(600),
    };
    let ended = training_job().id("training-job/gpt").status(SageMakerStatus::Stopped).billing(|of| *of = billing);
    let ended = ended.with(|job| job.arn = format!("{ARN}:training-job/gpt").as_str().into()).build();
    let endpoint = endpoint().facts(|facts| facts.is_autoscaled = None).build();
    let expect = [app().build(), endpoint, notebook().build(), training_job().build(), ended];
    assert_eq!((look.whole, look.resources, gaps), (true, expect.to_vec(), Vec::new()));
    let count = |name: &str| calls.names().iter().filter(|call| *call == name).count();
    assert_eq!((count("ListTrainingJobs"), count("ListProcessingJobs"), count("DescribeTrainingJob")), (2, 2, 2));
    assert_eq!((count("DescribeScalableTargets"), count("ListHyperParameterTuningJobs")), (0, 0));
    let asked = calls.recorded().into_iter().map(|call| call.parameters.concat());
    // 10:30, an hour and a half before noon.
    assert!(asked.filter(|body| body.contains("\"LastModifiedTimeAfter\":1788258600")).count() == 2);
}

#[tokio::test]
async fn what_cannot_be_read_leaves_the_look_incomplete_and_hides_no_region() {
    let calls = [
        "ListApps",
        "DescribeApp",
        "ListTags",
        "GetResources",
        "DescribeTrainingJob",
        "DescribeEndpoint",
        "ListEndpoints",
    ];
    for name in calls {
        let (aws, _) =
            account(move |call| (call.name == name).then(|| error("AccessDeniedException", "not authorized")));
        let Observation { items, gaps } = seen(&aws).await;
        assert!(!items[0].whole, "{name}");
        assert!(!gaps.is_empty() && gaps.iter().all(|gap| gap.kind == GapKind::Part), "{name}: {gaps:?}");
    }
    let forbidden = "User is not authorized with an explicit deny in a service control policy";
    let (aws, _) = account(move |call| (call.name == "ListApps").then(|| error("AccessDeniedException", forbidden)));
    let Observation { items, gaps } = seen(&aws).await;
    assert_eq!((items[0].whole, gaps), (false, Vec::new()));
}
