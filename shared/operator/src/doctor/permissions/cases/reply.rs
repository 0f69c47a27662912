//! `reply`: it keeps, protects and starts again the one resource that a link is about, or asks to keep the one box.

use model::curfew_tags::{DELETED_AT, KEEP_UNTIL, MARKED, MODE, PROTECTED, SNAPSHOT_OF, STOPPED};

use super::ExpectedPermission::{Always, Never};
use super::RequestTarget::{Instance, Snapshot, Volume};
use super::sagemaker::{APP, ENDPOINT, NOTEBOOK, START_NOTEBOOK};
use super::{
    CREATE_TAGS, CaseBuilder, DELETE_TAGS, FunctionActions, GET, OTHERS, PUT, PermissionCase, SAGEMAKER_ADD_TAGS,
    SAGEMAKER_DELETE_TAGS, TAGS_OF_OTHERS, ask, tagging,
};

const START: &str = "ec2:StartInstances";

const KEEPS: &str = "the reader of a link keeps a resource";
const AGAIN: &str = "the reader of a link starts again what Curfew stopped";
const NOT_STOPPED: &str = "it starts only what Curfew stopped";
const ENDS_NOTHING: &str = "whoever has a link must end and launch nothing by it";

pub(super) const ACTIONS: FunctionActions<'static> = FunctionActions {
    done: &[
        (ask(START, Instance, &[STOPPED]), AGAIN),
        (ask(START_NOTEBOOK, NOTEBOOK, &[STOPPED]), AGAIN),
        (tagging(CREATE_TAGS, Instance, &[], &[KEEP_UNTIL]), KEEPS),
        (tagging(CREATE_TAGS, Instance, &[], &[PROTECTED]), KEEPS),
        (tagging(CREATE_TAGS, Volume, &[], &[KEEP_UNTIL]), KEEPS),
        (tagging(CREATE_TAGS, Volume, &[], &[PROTECTED]), KEEPS),
        (tagging(SAGEMAKER_ADD_TAGS, ENDPOINT, &[], &[KEEP_UNTIL]), KEEPS),
        (tagging(SAGEMAKER_ADD_TAGS, ENDPOINT, &[], &[PROTECTED]), KEEPS),
    ],
    never: &[
        (ask(START, Instance, &[MARKED]), NOT_STOPPED),
        (ask(START_NOTEBOOK, NOTEBOOK, &[MARKED]), NOT_STOPPED),
        (tagging(CREATE_TAGS, Snapshot, &[], &[KEEP_UNTIL]), TAGS_OF_OTHERS),
    ],
    denied: &[
        (tagging(CREATE_TAGS, Instance, &[], &[KEEP_UNTIL, MARKED]), TAGS_OF_OTHERS),
        (tagging(CREATE_TAGS, Volume, &[], &[MODE]), TAGS_OF_OTHERS),
        (tagging(SAGEMAKER_ADD_TAGS, ENDPOINT, &[], &[MODE]), TAGS_OF_OTHERS),
        (tagging(DELETE_TAGS, Instance, &[KEEP_UNTIL], &[KEEP_UNTIL]), TAGS_OF_OTHERS),
        (tagging(SAGEMAKER_DELETE_TAGS, ENDPOINT, &[KEEP_UNTIL], &[KEEP_UNTIL]), TAGS_OF_OTHERS),
        (ask("ec2:RunInstances", Instance, &[]), ENDS_NOTHING),
        (ask("ec2:StopInstances", Instance, &[MARKED]), ENDS_NOTHING),
        (ask("ec2:TerminateInstances", Instance, &[MARKED]), ENDS_NOTHING),
        (ask("ec2:CreateSnapshot", Volume, &[MARKED]), ENDS_NOTHING),
        (ask("ec2:DeleteVolume", Volume, &[MARKED]), ENDS_NOTHING),
        (ask("ec2:DeleteSnapshot", Snapshot, &[SNAPSHOT_OF, DELETED_AT]), ENDS_NOTHING),
        (ask("sagemaker:StopNotebookInstance", NOTEBOOK, &[MARKED]), ENDS_NOTHING),
        (ask("sagemaker:DeleteApp", APP, &[MARKED]), ENDS_NOTHING),
        (ask("sagemaker:DeleteEndpoint", ENDPOINT, &[MARKED]), ENDS_NOTHING),
    ],
    own: &[("replies/", true), ("notices/reap-instances/", false), ("notices/reap-sagemaker/", false)],
    further: boxes,
    is_reader: false,
    other: "reap-volumes",
};

/// Builds the cases of a box's job: it reads the state, asks to extend it, and writes nothing else of it.
fn boxes(table: &CaseBuilder<'_>) -> Vec<PermissionCase> {
    vec![
        table.object(GET, "jobs/vision/my-box/state.json", Always, "a page says until when a box is up"),
        table.object(PUT, "jobs/vision/my-box/extend.json", Always, "the reader of a link keeps a box"),
        table.object(PUT, "jobs/vision/my-box/state.json", Never, "only run-jobs writes this"),
        table.object(PUT, "jobs/vision/my-box/cancel.json", Never, ENDS_NOTHING),
        table.object(GET, "jobs/vision/my-box/spec.toml", Never, OTHERS),
    ]
}
