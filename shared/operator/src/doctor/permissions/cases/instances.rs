//! `reap-instances`.

use model::curfew_tags::{DELETED_AT, EXPIRES_AT, JOB, KEEP_UNTIL, MARKED, MODE, PROTECTED, SNAPSHOT_OF, STOPPED};

use super::RequestTarget::{Instance, Snapshot, Volume};
use super::{
    ALL_TAGS, Always, CREATE_TAGS, CaseBuilder, DELETE_TAGS, ENDS, FunctionActions, GET, MARKS, Never, OTHERS, PEOPLE,
    PUT, PermissionCase, TAGS_OF_OTHERS, UNMARKED, ask, tagging,
};

const STOP: &str = "ec2:StopInstances";
const TERMINATE: &str = "ec2:TerminateInstances";
const START: &str = "ec2:StartInstances";

const BY_ITS_OWNER: &str = "its owner set when it expires";
const OF_A_JOB: &str = "it terminates machines of jobs past their deadline";

pub(super) const ACTIONS: FunctionActions<'static> = FunctionActions {
    done: &[
        (ask(STOP, Instance, &[MARKED]), ENDS),
        (ask(TERMINATE, Instance, &[MARKED]), ENDS),
        (ask(STOP, Instance, &[EXPIRES_AT]), BY_ITS_OWNER),
        (ask(TERMINATE, Instance, &[EXPIRES_AT]), BY_ITS_OWNER),
        (ask(STOP, Instance, &[JOB]), OF_A_JOB),
        (ask(TERMINATE, Instance, &[JOB]), OF_A_JOB),
        (ask(START, Instance, &[STOPPED]), "it starts again in the morning what it stopped"),
        (tagging(CREATE_TAGS, Instance, &[], &[MARKED]), MARKS),
        (tagging(CREATE_TAGS, Instance, &[], &[MARKED, STOPPED]), MARKS),
        (tagging(DELETE_TAGS, Instance, &[MARKED], &[MARKED]), "it calls off what it announced"),
    ],
    never: &[
        (ask(STOP, Instance, &[]), UNMARKED),
        (ask(TERMINATE, Instance, &[]), UNMARKED),
        (ask(TERMINATE, Instance, &[MODE]), UNMARKED),
        (ask(START, Instance, &[MARKED]), "it starts only what it stopped"),
        (tagging(CREATE_TAGS, Instance, &[], &[MARKED, "Team"]), TAGS_OF_OTHERS),
        (tagging(CREATE_TAGS, Instance, &[], &[EXPIRES_AT]), TAGS_OF_OTHERS),
        (tagging(DELETE_TAGS, Instance, &[MARKED], &[]), ALL_TAGS),
        (tagging(CREATE_TAGS, Volume, &[], &[MARKED]), OTHERS),
        (ask("ec2:DeleteVolume", Volume, &[MARKED]), OTHERS),
        (ask("ec2:DeleteSnapshot", Snapshot, &[SNAPSHOT_OF, DELETED_AT]), OTHERS),
    ],
    denied: &[
        (tagging(CREATE_TAGS, Instance, &[], &[PROTECTED]), PEOPLE),
        (tagging(CREATE_TAGS, Instance, &[], &[MODE]), PEOPLE),
        (tagging(CREATE_TAGS, Instance, &[], &[KEEP_UNTIL]), PEOPLE),
        (tagging(DELETE_TAGS, Instance, &[MARKED], &[PROTECTED, MARKED]), PEOPLE),
    ],
    own: &[("notices/reap-instances/", true), ("activity/", true), ("budgets/", false), ("prices/", false)],
    further: job_cases,
    is_reader: false,
    other: "reap-volumes",
};

/// The function reads the states of jobs, and nothing else about them.
fn job_cases(table: &CaseBuilder<'_>) -> Vec<PermissionCase> {
    vec![
        table.object(GET, "jobs/vision/llama/state.json", Always, "curfew:job alone proves nothing"),
        table.listing("jobs/", Always),
        table.object(GET, "jobs/vision/llama/spec.toml", Never, OTHERS),
        table.object(PUT, "attempts/vision/llama/head.json", Never, OTHERS),
    ]
}
