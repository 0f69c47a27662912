//! `reap-sagemaker`.

use model::curfew_tags::{KEEP_UNTIL, MARKED, MODE, PROTECTED, STOPPED};

use super::ExpectedPermission::Never;
use super::budgets::DENIED;
use super::{
    ALL_TAGS, CaseBuilder, ENDS, FunctionActions, MARKS, PEOPLE, PermissionCase, ReasonedRequest, RequestTarget,
    SAGEMAKER_ADD_TAGS, SAGEMAKER_DELETE_TAGS, TAGS_OF_OTHERS, UNMARKED, ask, tagging,
};

pub(super) const NOTEBOOK: RequestTarget =
    RequestTarget::SageMaker { kind: "notebook-instance", words: "a notebook instance" };
pub(super) const APP: RequestTarget = RequestTarget::SageMaker { kind: "app", words: "an app" };
pub(super) const ENDPOINT: RequestTarget = RequestTarget::SageMaker { kind: "endpoint", words: "an endpoint" };
const COMPONENT: RequestTarget =
    RequestTarget::SageMaker { kind: "inference-component", words: "an inference component" };
const TRAINING: RequestTarget = RequestTarget::SageMaker { kind: "training-job", words: "a training job" };
const PROCESSING: RequestTarget = RequestTarget::SageMaker { kind: "processing-job", words: "a processing job" };
const TUNING: RequestTarget =
    RequestTarget::SageMaker { kind: "hyper-parameter-tuning-job", words: "a hyperparameter tuning job" };

const STOP: &str = "sagemaker:StopNotebookInstance";
pub(super) const START_NOTEBOOK: &str = "sagemaker:StartNotebookInstance";
const DELETE_APP: &str = "sagemaker:DeleteApp";
const DELETE_ENDPOINT: &str = "sagemaker:DeleteEndpoint";
const SET_COPIES: &str = "sagemaker:UpdateInferenceComponentRuntimeConfig";
const STOP_TRAINING: &str = "sagemaker:StopTrainingJob";
const STOP_PROCESSING: &str = "sagemaker:StopProcessingJob";
const STOP_TUNING: &str = "sagemaker:StopHyperParameterTuningJob";

const STAYS: &str = "by these everything that it ends can be made again";

const KEPT: [&str; 7] = [
    "sagemaker:DeleteNotebookInstance",
    "sagemaker:DeleteSpace",
    "sagemaker:DeleteUserProfile",
    "sagemaker:DeleteDomain",
    "sagemaker:DeleteEndpointConfig",
    "sagemaker:DeleteInferenceComponent",
    "sagemaker:DeleteModel",
];

/// Requests that the function makes after it has announced them.
const DONE: &[ReasonedRequest] = &[
    (ask(STOP, NOTEBOOK, &[MARKED]), ENDS),
    (ask(START_NOTEBOOK, NOTEBOOK, &[STOPPED]), "it starts again what it has stopped, at the next working hours"),
    (ask(DELETE_APP, APP, &[MARKED]), ENDS),
    (ask(DELETE_ENDPOINT, ENDPOINT, &[MARKED]), ENDS),
    (ask(SET_COPIES, COMPONENT, &[MARKED]), ENDS),
    (ask(STOP_TRAINING, TRAINING, &[MARKED]), ENDS),
    (ask(STOP_PROCESSING, PROCESSING, &[MARKED]), ENDS),
    (ask(STOP_TUNING, TUNING, &[MARKED]), ENDS),
    (tagging(SAGEMAKER_ADD_TAGS, NOTEBOOK, &[], &[MARKED, STOPPED]), MARKS),
    (tagging(SAGEMAKER_ADD_TAGS, APP, &[], &[MARKED]), MARKS),
    (tagging(SAGEMAKER_ADD_TAGS, ENDPOINT, &[], &[MARKED]), MARKS),
    (tagging(SAGEMAKER_ADD_TAGS, COMPONENT, &[], &[MARKED]), MARKS),
    (tagging(SAGEMAKER_ADD_TAGS, TRAINING, &[], &[MARKED]), MARKS),
    (tagging(SAGEMAKER_ADD_TAGS, PROCESSING, &[], &[MARKED]), MARKS),
    (tagging(SAGEMAKER_ADD_TAGS, TUNING, &[], &[MARKED]), MARKS),
    (tagging(SAGEMAKER_DELETE_TAGS, ENDPOINT, &[MARKED], &[MARKED]), "it calls off what it announced"),
];

const NOT_EVEN_SO: [ReasonedRequest; 5] = [
    (tagging(SAGEMAKER_ADD_TAGS, ENDPOINT, &[], &[PROTECTED]), PEOPLE),
    (tagging(SAGEMAKER_ADD_TAGS, ENDPOINT, &[], &[MODE]), PEOPLE),
    (tagging(SAGEMAKER_ADD_TAGS, ENDPOINT, &[], &[KEEP_UNTIL]), PEOPLE),
    (tagging(SAGEMAKER_DELETE_TAGS, ENDPOINT, &[MARKED], &[PROTECTED]), PEOPLE),
    (tagging(SAGEMAKER_DELETE_TAGS, ENDPOINT, &[MARKED], &[MODE, MARKED]), PEOPLE),
];

pub(super) const ACTIONS: FunctionActions<'static> = FunctionActions {
    done: DONE,
    never: &[
        (ask(STOP, NOTEBOOK, &[]), UNMARKED),
        (ask(START_NOTEBOOK, NOTEBOOK, &[]), "it starts only what it has stopped"),
        (ask(DELETE_APP, APP, &[]), UNMARKED),
        (ask(DELETE_ENDPOINT, ENDPOINT, &[]), UNMARKED),
        (ask(SET_COPIES, COMPONENT, &[]), UNMARKED),
        (ask(STOP_TRAINING, TRAINING, &[]), UNMARKED),
        (ask(STOP_PROCESSING, PROCESSING, &[]), UNMARKED),
        (ask(STOP_TUNING, TUNING, &[]), UNMARKED),
        (tagging(SAGEMAKER_ADD_TAGS, ENDPOINT, &[], &[MARKED, "Name"]), TAGS_OF_OTHERS),
        (tagging(SAGEMAKER_DELETE_TAGS, ENDPOINT, &[MARKED], &[]), ALL_TAGS),
    ],
    denied: DENIED,
    own: &[("notices/reap-sagemaker/", true), ("budgets/", false), ("prices/", false)],
    further,
    is_reader: false,
    other: "reap-instances",
};

fn further(table: &CaseBuilder<'_>) -> Vec<PermissionCase> {
    // All about one resource, because the policies name no kind here: so they are one question to IAM.
    let arn = ENDPOINT.arn(table.place);
    let kept =
        KEPT.map(|action| PermissionCase { even_so: true, ..table.case(action, &arn, "what must stay", Never, STAYS) });
    let never = NOT_EVEN_SO.map(|(ask, why)| PermissionCase { even_so: true, ..table.ec2(ask, Never, why) });
    kept.into_iter().chain(never).collect()
}
