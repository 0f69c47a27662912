use model::fixture::{app, endpoint, notebook, time, training_job};
use model::sagemaker::JobBilling;
use serde_json::{Value, json};

use super::*;
use crate::replay::{ReplayAnswer, ReplayedCall};
use crate::sagemaker::tests::{ARN, CREATED, account, answer, error};

async fn seen(aws: &Aws) -> Observation<SageMakerObservation> {
    bills(aws, &["us-east-1".into()], time("2026-09-01T12:00:00Z"), Duration::from_mins(1)).await
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
async fn what_cannot_be_read_hides_no_region_and_a_look_that_fails_nothing_else() {
    let (app, job) = ("app/d-abc/lab/JupyterLab/default", "training-job/bert");
    let calls: [(&str, bool, &[&str]); 8] = [
        ("ListApps", false, &[]),
        ("ListEndpoints", false, &[]),
        ("ListTrainingJobs", false, &[]),
        ("GetResources", false, &[]),
        ("DescribeApp", true, &[app]),
        ("ListTags", true, &[app, job]),
        ("DescribeTrainingJob", true, &[job]),
        // It is among the resources, without its instances.
        ("DescribeEndpoint", true, &[]),
    ];
    for (name, whole, unread) in calls {
        let (aws, _) =
            account(move |call| (call.name == name).then(|| error("AccessDeniedException", "not authorized")));
        let Observation { items, gaps } = seen(&aws).await;
        let found: Vec<&str> = items[0].unread.iter().map(ResourceId::as_str).collect();
        assert_eq!((items[0].whole, found.as_slice()), (whole, unread), "{name}");
        assert!(!gaps.is_empty() && gaps.iter().all(|gap| gap.kind == GapKind::Part), "{name}: {gaps:?}");
    }
    let forbidden = "User is not authorized with an explicit deny in a service control policy";
    let (aws, _) = account(move |call| (call.name == "ListApps").then(|| error("AccessDeniedException", forbidden)));
    let Observation { items, gaps } = seen(&aws).await;
    assert_eq!((items[0].whole, gaps), (false, Vec::new()));
}

/// So many processing jobs ended, the last one the latest; the first one stops.
fn with_processing(count: usize) -> impl Fn(&ReplayedCall) -> Option<ReplayAnswer> {
    move |call| {
        let body = call.parameters.concat();
        let job = |number: usize| {
            json!({
                "ProcessingJobName": format!("p{number}"), "ProcessingJobArn": format!("{ARN}:processing-job/p{number}"),
                "ProcessingJobStatus": if number == 0 { "Stopping" } else { "Completed" }, "CreationTime": CREATED,
                "LastModifiedTime": CREATED + f64::from(u32::try_from(number).unwrap()), "ProcessingStartTime": CREATED,
                "ProcessingResources": { "ClusterConfig": { "InstanceType": "ml.g5.xlarge", "InstanceCount": 1 } },
            })
        };
        match call.name.as_str() {
            "ListProcessingJobs" if body.contains("LastModifiedTimeAfter") => {
                Some(answer(&json!({ "ProcessingJobSummaries": (0..count).map(job).collect::<Vec<_>>() })))
            }
            "DescribeProcessingJob" => {
                let number = (0..count).find(|number| body.contains(&format!("\"p{number}\""))).unwrap();
                Some(answer(&job(number)))
            }
            _ => None,
        }
    }
}

#[tokio::test]
async fn of_very_many_jobs_that_ended_the_newest_are_looked_up_after_those_that_stop() {
    let (aws, calls) = account(with_processing(ENDED_MAX + 50));
    let Observation { items, gaps } = seen(&aws).await;
    assert!(items[0].whole && items[0].unread.is_empty());
    let said: Vec<&str> = gaps.iter().map(|gap| gap.error.as_str()).collect();
    assert_eq!(said, ["50 of 250 jobs that ended lately were not looked up, so when they ended is not exact"]);
    let described = calls.recorded().into_iter().filter(|call| call.name == "DescribeProcessingJob");
    let described: Vec<String> = described.map(|call| call.parameters.concat()).collect();
    let asks = |number: usize| described.iter().any(|body| body.contains(&format!("\"p{number}\"")));
    assert_eq!(
        (described.len(), asks(0), asks(1), asks(50), asks(51), asks(249)),
        (200, true, false, false, true, true)
    );
}
