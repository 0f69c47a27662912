//! The only place that changes a resource of `SageMaker`. In which order a step makes the calls, `execution` says.

use model::sagemaker::{ComputeJob, JobKind, SageMakerKind, SageMakerResource};
use ports::SageMakerWrite;
use serde_json::{Value, json};

use super::calls::sagemaker;
use super::describe::app_key;
use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind};

/// The call that gives an inference component more copies, or none.
pub(super) const SET_COPIES: &str = "sagemaker:UpdateInferenceComponentRuntimeConfig";

pub(super) fn copies(component: &str, count: u32) -> Value {
    json!({ "InferenceComponentName": component, "DesiredRuntimeConfig": { "CopyCount": count } })
}

/// # Errors
/// If `SageMaker` refused, or did not answer.
pub(crate) async fn write(aws: &Aws, resource: &SageMakerResource, write: SageMakerWrite<'_>) -> Result<(), CallError> {
    let (name, arn) = (resource.name(), &resource.arn);
    let (call, body): (&'static str, Value) = match (write, &resource.kind) {
        (SageMakerWrite::AddTags(tags), _) => {
            let tags: Vec<Value> = tags.iter().map(|(key, value)| json!({ "Key": key, "Value": value })).collect();
            ("sagemaker:AddTags", json!({ "ResourceArn": arn, "Tags": tags }))
        }
        (SageMakerWrite::DeleteTags(keys), _) => {
            ("sagemaker:DeleteTags", json!({ "ResourceArn": arn, "TagKeys": keys }))
        }
        (SageMakerWrite::Stop, SageMakerKind::NotebookInstance) => {
            ("sagemaker:StopNotebookInstance", json!({ "NotebookInstanceName": name }))
        }
        (SageMakerWrite::Stop, SageMakerKind::Job(ComputeJob { job, .. })) => match job {
            JobKind::Training => ("sagemaker:StopTrainingJob", json!({ "TrainingJobName": name })),
            JobKind::Processing => ("sagemaker:StopProcessingJob", json!({ "ProcessingJobName": name })),
            JobKind::Tuning => {
                ("sagemaker:StopHyperParameterTuningJob", json!({ "HyperParameterTuningJobName": name }))
            }
        },
        (SageMakerWrite::Stop, SageMakerKind::InferenceComponent(_)) => (SET_COPIES, copies(name, 0)),
        (SageMakerWrite::Start, SageMakerKind::NotebookInstance) => {
            ("sagemaker:StartNotebookInstance", json!({ "NotebookInstanceName": name }))
        }
        (SageMakerWrite::Delete, SageMakerKind::App(app)) => ("sagemaker:DeleteApp", app_key(app)),
        (SageMakerWrite::Delete, SageMakerKind::Endpoint { .. }) => {
            ("sagemaker:DeleteEndpoint", json!({ "EndpointName": name }))
        }
        (SageMakerWrite::Stop | SageMakerWrite::Start | SageMakerWrite::Delete, _) => {
            let message = format!("SageMaker has no such call for {}", resource.id);
            return Err(CallError::new("sagemaker", &resource.region, CallErrorKind::Unsupported, message));
        }
    };
    sagemaker(aws, &resource.region, call, &body).await.map(drop)
}
