use std::time::Duration;

use model::fixture::{app, endpoint, inference_component, notebook, time, training_job};
use model::id::Region;
use model::observation::GapKind;
use model::sagemaker::{
    ActivityQuestion, ActivitySignal, ProductionSign, SageMakerKind, SageMakerResource, SageMakerStatus, StudioApp,
};
use model::usage::{MetricSeries, PERIOD, Statistic};
use ports::{SageMakerCloud as _, SageMakerWrite};
use serde_json::{Value, json};

use super::{describe, observe, write};
use crate::aws::Aws;
use crate::error::CallErrorKind;
use crate::replay::{ReplayAnswer, ReplayedCall, ReplayedCalls, aws};

pub(super) const ARN: &str = "arn:aws:sagemaker:us-east-1:123456789012";
/// Three days before the fixtures' noon, and the noon itself.
pub(super) const CREATED: f64 = 1_788_004_800.0;
const USED: f64 = 1_788_238_800.0;
const LOOKED: f64 = 1_788_263_400.0;

pub(super) fn answer(document: &Value) -> ReplayAnswer {
    ReplayAnswer::Raw(200, document.to_string().into_bytes())
}

pub(super) fn error(code: &str, message: &str) -> ReplayAnswer {
    ReplayAnswer::Raw(400, json!({ "__type": code, "message": message }).to_string().into_bytes())
}

/// An account with one of each, and with `other` where it answers something else.
pub(super) fn account(
    other: impl Fn(&ReplayedCall) -> Option<ReplayAnswer> + Send + Sync + 'static,
) -> (Aws, ReplayedCalls) {
    aws(move |call| {
        if let Some(answer) = other(call) {
            return answer;
        }
        let owner = json!([{ "Key": "Team", "Value": "vision" }, { "Key": "Owner", "Value": "ada" }]);
        let named = |kind: &str, name: &str, status: &str| {
            json!({
                format!("{kind}Name"): name, format!("{kind}Status"): status, "CreationTime": CREATED, "LastModifiedTime": CREATED,
            })
        };
        let with = |mut document: Value, more: Value| {
            document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            document
        };
        let notebook = || {
            let more = json!({ "NotebookInstanceArn": format!("{ARN}:notebook-instance/research"), "InstanceType": "ml.g5.xlarge" });
            with(named("NotebookInstance", "research", "InService"), more)
        };
        let endpoint =
            || with(named("Endpoint", "llm", "InService"), json!({ "EndpointArn": format!("{ARN}:endpoint/llm") }));
        let app = json!({
            "DomainId": "d-abc", "SpaceName": "lab", "AppType": "JupyterLab", "AppName": "default", "Status": "InService",
            "CreationTime": CREATED, "ResourceSpec": { "InstanceType": "ml.g5.xlarge" },
        });
        let job = || {
            let more = json!({ "TrainingJobArn": format!("{ARN}:training-job/bert") });
            with(named("TrainingJob", "bert", "InProgress"), more)
        };
        answer(&match call.name.as_str() {
            "ListNotebookInstances" => json!({ "NotebookInstances": [notebook()] }),
            "ListApps" => json!({ "Apps": [app] }),
            "ListEndpoints" => json!({ "Endpoints": [endpoint()] }),
            "ListTrainingJobs" => json!({ "TrainingJobSummaries": [job()] }),
            "ListProcessingJobs" => json!({ "ProcessingJobSummaries": [] }),
            "ListHyperParameterTuningJobs" => json!({ "HyperParameterTuningJobSummaries": [] }),
            "GetResources" => json!({ "ResourceTagMappingList": [
                { "ResourceARN": format!("{ARN}:notebook-instance/research"), "Tags": owner },
                { "ResourceARN": format!("{ARN}:endpoint/llm"), "Tags": owner },
            ] }),
            "ListTags" if call.parameters[0].contains(":domain/") => json!({ "Tags": [] }),
            "ListTags" => json!({ "Tags": owner }),
            "DescribeNotebookInstance" => notebook(),
            "DescribeApp" => with(
                app,
                json!({
                    "AppArn": format!("{ARN}:app/d-abc/lab/jupyterlab/default"), "LastUserActivityTimestamp": USED,
                    "LastHealthCheckTimestamp": LOOKED,
                }),
            ),
            "DescribeEndpoint" => with(
                endpoint(),
                json!({
                    "EndpointConfigName": "llm-config", "ProductionVariants": [{ "VariantName": "main", "CurrentInstanceCount": 1 }],
                }),
            ),
            "DescribeEndpointConfig" => json!({
                "EndpointConfigName": "llm-config",
                "ProductionVariants": [{ "VariantName": "main", "ModelName": "llm", "InstanceType": "ml.g5.xlarge" }],
            }),
            "DescribeScalableTargets" => {
                json!({ "ScalableTargets": [{ "ResourceId": "endpoint/llm-2/variant/main" }] })
            }
            "DescribeTrainingJob" => {
                with(job(), json!({ "ResourceConfig": { "InstanceType": "ml.g5.xlarge", "InstanceCount": 1 } }))
            }
            "DescribeInstanceTypes" => return types(&["g5.xlarge"]),
            _ => json!({}),
        })
    })
}

/// `DescribeInstanceTypes` of types with a GPU.
fn types(names: &[&str]) -> ReplayAnswer {
    let one = |name: &&str| {
        format!(
            "<item><instanceType>{name}</instanceType><gpuInfo><gpus><item><manufacturer>NVIDIA</manufacturer><count>1</count>\
             </item></gpus></gpuInfo></item>"
        )
    };
    ReplayAnswer::ok(format!("<instanceTypeSet>{}</instanceTypeSet>", names.iter().map(one).collect::<String>()))
}

async fn seen(aws: &Aws) -> model::sagemaker::ObservedSageMaker {
    observe(aws, &["us-east-1".into()], Duration::from_mins(1), |_| true).await
}

#[tokio::test]
async fn everything_is_seen_with_what_decisions_need() {
    let (aws, calls) = account(|_| None);
    let mut seen = seen(&aws).await;
    seen.items.sort_by(|one, other| one.id.cmp(&other.id));
    let expect = [app().build(), endpoint().build(), notebook().build(), training_job().build()];
    assert_eq!((seen.items, seen.gaps), (expect.to_vec(), Vec::new()));
    let count = |name: &str| calls.names().iter().filter(|call| *call == name).count();
    // The app, its space and its domain; the job. Endpoints and notebook instances have theirs from one list.
    assert_eq!((count("ListTags"), count("GetResources"), count("DescribeScalableTargets")), (4, 1, 1));
    assert_eq!((count("DescribeNotebookInstance"), count("DescribeEndpoint"), calls.names().len()), (0, 1, 18));
}

#[tokio::test]
async fn what_is_looked_up_again_is_what_was_seen() {
    let (aws, _) = account(|_| None);
    for resource in seen(&aws).await.items {
        assert_eq!(describe(&aws, &resource).await.unwrap(), resource);
    }
}

#[tokio::test]
async fn a_resource_without_an_accelerator_is_not_curfews() {
    let without = "<instanceTypeSet><item><instanceType>g5.xlarge</instanceType></item></instanceTypeSet>";
    let (aws, _) = account(move |call| (call.name == "DescribeInstanceTypes").then(|| ReplayAnswer::ok(without)));
    assert_eq!(seen(&aws).await.items, []);
    // EC2 does not know the type, so the answer is unknown.
    let (aws, _) = account(|call| (call.name == "DescribeInstanceTypes").then(|| types(&[])));
    assert_eq!(seen(&aws).await.items.len(), 4);
}

#[tokio::test]
async fn what_cannot_be_looked_up_is_left_out_with_a_gap() {
    let denied = |name: &'static str| {
        account(move |call| (call.name == name).then(|| error("AccessDeniedException", "not authorized")))
    };
    let check = async |name: &'static str, left: usize, kind: GapKind| {
        let (aws, _) = denied(name);
        let seen = seen(&aws).await;
        let gaps: Vec<_> = seen.gaps.iter().map(|gap| (gap.call.clone(), gap.kind)).collect();
        assert_eq!(seen.items.len(), left, "{name}: {seen:?}");
        assert!(gaps.iter().all(|(call, of)| call.ends_with(name) && *of == kind) && !gaps.is_empty(), "{gaps:?}");
    };
    check("ListApps", 3, GapKind::Listing).await;
    check("DescribeApp", 3, GapKind::Listing).await;
    check("ListTags", 2, GapKind::Listing).await;
    check("GetResources", 2, GapKind::Listing).await;
    check("DescribeTrainingJob", 3, GapKind::Listing).await;
    // The endpoint stays, and is skipped until more of it is known.
    check("DescribeEndpoint", 4, GapKind::Part).await;
    check("DescribeScalableTargets", 4, GapKind::Part).await;
}

async fn endpoint_with(name: &'static str, document: Value) -> SageMakerResource {
    let (aws, _) = account(move |call| (call.name == name).then(|| answer(&document)));
    let seen = seen(&aws).await;
    seen.items.into_iter().find(|one| matches!(one.kind, SageMakerKind::Endpoint { .. })).unwrap()
}

#[tokio::test]
async fn an_endpoint_shows_its_signs_of_production() {
    let described = |more: Value| {
        let mut document = json!({
            "EndpointName": "llm", "EndpointArn": format!("{ARN}:endpoint/llm"), "EndpointStatus": "InService",
            "CreationTime": CREATED, "LastModifiedTime": CREATED, "EndpointConfigName": "llm-config",
            "ProductionVariants": [{ "VariantName": "main", "CurrentInstanceCount": 1 }],
        });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        document
    };
    let signs = async |more: Value| {
        let endpoint = endpoint_with("DescribeEndpoint", described(more)).await;
        endpoint.endpoint().unwrap().signs.iter().copied().collect::<Vec<_>>()
    };
    assert_eq!(signs(json!({})).await, []);
    assert_eq!(
        signs(json!({ "AsyncInferenceConfig": { "OutputConfig": {} } })).await,
        [ProductionSign::AsyncInference]
    );
    let shadows = json!({ "ShadowProductionVariants": [{ "VariantName": "shadow" }] });
    assert_eq!(signs(shadows).await, [ProductionSign::ShadowVariants]);
    let serverless = json!({ "ProductionVariants": [{ "VariantName": "main", "CurrentServerlessConfig": { "MemorySizeInMB": 2048 } }] });
    assert_eq!(signs(serverless).await, [ProductionSign::Serverless]);
    let config = json!({ "EndpointConfigName": "llm-config", "ProductionVariants": [{ "VariantName": "main", "InstanceType": "ml.g5.xlarge" }] });
    let components = endpoint_with("DescribeEndpointConfig", config).await;
    assert!(components.endpoint().unwrap().signs.contains(&ProductionSign::InferenceComponents));
    let scaled = json!({ "ScalableTargets": [{ "ResourceId": "endpoint/llm/variant/main" }] });
    assert_eq!(endpoint_with("DescribeScalableTargets", scaled).await.endpoint().unwrap().is_autoscaled, Some(true));
}

#[tokio::test]
async fn an_inference_component_has_the_facts_of_its_endpoint() {
    let look = async |copies: u32, minimum: u32, beside: usize, scaled: &'static str| {
        let (aws, _) = account(move |call| {
            let found = match call.name.as_str() {
                "DescribeInferenceComponent" => json!({
                    "InferenceComponentName": "llama", "InferenceComponentArn": format!("{ARN}:inference-component/llama"),
                    "InferenceComponentStatus": "InService", "EndpointName": "llm", "VariantName": "main",
                    "RuntimeConfig": { "DesiredCopyCount": copies }, "CreationTime": CREATED, "LastModifiedTime": CREATED,
                }),
                "DescribeEndpointConfig" => json!({ "ProductionVariants": [{
                    "VariantName": "main", "InstanceType": "ml.g5.xlarge",
                    "ManagedInstanceScaling": { "Status": "ENABLED", "MinInstanceCount": minimum },
                }] }),
                "ListInferenceComponents" => json!({ "InferenceComponents": vec![json!({}); beside] }),
                "DescribeScalableTargets" => json!({ "ScalableTargets": [{ "ResourceId": scaled }] }),
                _ => return None,
            };
            Some(answer(&found))
        });
        let found = describe(&aws, &inference_component().build()).await.unwrap();
        let SageMakerKind::InferenceComponent(component) = &found.kind else { panic!("{found:?}") };
        let facts = (component.copies, component.frees_instances, component.is_autoscaled);
        (found.id.to_string(), found.status, facts, found.instances.is_some())
    };
    let (running, stopped) = (SageMakerStatus::Running, SageMakerStatus::Stopped);
    let id = || "inference-component/llama".to_owned();
    assert_eq!(look(2, 0, 1, "endpoint/llm").await, (id(), running, (2, true, Some(false)), true));
    assert_eq!(look(2, 1, 2, "inference-component/llama").await, (id(), running, (2, false, Some(true)), false));
    assert_eq!(look(0, 0, 1, "inference-component/llama-2").await, (id(), stopped, (0, true, Some(false)), true));
}

#[tokio::test]
async fn an_endpoint_without_its_configuration_cannot_be_made_again() {
    let (aws, _) = account(|call| {
        let gone = || error("ValidationException", "Could not find endpoint configuration \"llm-config\".");
        (call.name == "DescribeEndpointConfig").then(gone)
    });
    let found = describe(&aws, &endpoint().build()).await.unwrap();
    assert_eq!((found.endpoint().unwrap().config.clone(), found.endpoint_origin()), (None, None));
}

#[tokio::test]
async fn what_is_gone_is_not_found() {
    let (aws, _) = account(|call| match call.name.as_str() {
        "DescribeEndpoint" => Some(error("ValidationException", "Could not find endpoint \"llm\".")),
        "DescribeApp" => Some(error("ResourceNotFound", "App does not exist")),
        "DescribeNotebookInstance" => Some(error("ValidationException", "RecordNotFound")),
        _ => None,
    });
    for resource in [endpoint().build(), app().build(), notebook().build()] {
        assert_eq!(describe(&aws, &resource).await.unwrap_err().kind, CallErrorKind::NotFound, "{}", resource.id);
    }
}

#[tokio::test]
async fn an_app_that_is_being_deleted_is_gone_without_its_tags() {
    let deleting = json!({
        "DomainId": "d-abc", "SpaceName": "lab", "AppType": "JupyterLab", "AppName": "default", "Status": "Deleting",
        "AppArn": format!("{ARN}:app/d-abc/lab/jupyterlab/default"), "CreationTime": CREATED,
    });
    let (aws, calls) = account(move |call| (call.name == "DescribeApp").then(|| answer(&deleting)));
    assert_eq!(describe(&aws, &app().build()).await.unwrap().status, SageMakerStatus::Deleting);
    assert_eq!(calls.names(), ["DescribeApp"]);
}

#[tokio::test]
async fn each_kind_ends_by_its_own_call() {
    let check = async |resource: SageMakerResource, action: SageMakerWrite<'_>, expect: &str| {
        let (aws, calls) = aws(|_| ReplayAnswer::Raw(200, Vec::new()));
        write(&aws, &resource, action).await.unwrap();
        assert_eq!(calls.said(), [expect]);
    };
    check(notebook().build(), SageMakerWrite::Stop, r#"StopNotebookInstance {"NotebookInstanceName":"research"}"#)
        .await;
    check(notebook().build(), SageMakerWrite::Start, r#"StartNotebookInstance {"NotebookInstanceName":"research"}"#)
        .await;
    check(endpoint().build(), SageMakerWrite::Delete, r#"DeleteEndpoint {"EndpointName":"llm"}"#).await;
    let none = r#"UpdateInferenceComponentRuntimeConfig {"DesiredRuntimeConfig":{"CopyCount":0},"InferenceComponentName":"llama"}"#;
    check(inference_component().build(), SageMakerWrite::Stop, none).await;
    check(training_job().build(), SageMakerWrite::Stop, r#"StopTrainingJob {"TrainingJobName":"bert"}"#).await;
    let delete = r#"DeleteApp {"AppName":"default","AppType":"JupyterLab","DomainId":"d-abc","SpaceName":"lab"}"#;
    check(app().build(), SageMakerWrite::Delete, delete).await;
    let by_user = app().with(|app| {
        if let SageMakerKind::App(StudioApp { owner, .. }) = &mut app.kind {
            *owner = model::sagemaker::AppOwner::UserProfile("ada".to_owned());
        }
    });
    let delete = r#"DeleteApp {"AppName":"default","AppType":"JupyterLab","DomainId":"d-abc","UserProfileName":"ada"}"#;
    check(by_user.build(), SageMakerWrite::Delete, delete).await;
    let (aws, calls) = aws(|_| ReplayAnswer::Raw(200, Vec::new()));
    assert_eq!(write(&aws, &app().build(), SageMakerWrite::Start).await.unwrap_err().kind, CallErrorKind::Unsupported);
    assert!(calls.names().is_empty());
}

#[tokio::test]
async fn a_question_without_an_answer_is_left_out() {
    let question = |name: &str, signal| ActivityQuestion {
        resource: name.into(),
        signal,
        series: MetricSeries {
            namespace: "AWS/SageMaker".to_owned(),
            metric: "Invocations".to_owned(),
            dimensions: Vec::new(),
        },
        statistic: Statistic::Sum,
        period: PERIOD,
        from: time("2026-08-31T12:00:00Z"),
        until: time("2026-09-01T12:00:00Z"),
    };
    let questions =
        [question("endpoint/a", ActivitySignal::Requests), question("endpoint/b", ActivitySignal::Requests)];
    let (aws, calls) = aws(|_| error("AccessDenied", "no"));
    let (found, gaps) = aws.activity(&Region::from("us-east-1"), &questions, Duration::from_mins(1)).await;
    assert!(found.is_empty() && gaps.len() == 1, "{gaps:?}");
    assert_eq!(calls.names().len(), 1);
}
