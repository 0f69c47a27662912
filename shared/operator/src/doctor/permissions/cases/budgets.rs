//! `enforce-budgets`: it changes nothing in EC2. Other functions carry out what follows from a budget.

use model::curfew_tags::{DELETED_AT, MARKED, PROTECTED, SNAPSHOT_OF, STOPPED};

use super::RequestTarget::{Instance, Snapshot, Volume};
use super::{CREATE_TAGS, DELETE_TAGS, FunctionActions, OTHERS, ReasonedRequest, ask, nothing_else, tagging};

const LOOKS: &str = "it only reads: other functions act";

/// Everything that a reaper may do, and no function that only reads.
pub(super) const DENIED: &[ReasonedRequest] = &[
    (ask("ec2:StopInstances", Instance, &[MARKED]), LOOKS),
    (ask("ec2:TerminateInstances", Instance, &[MARKED]), LOOKS),
    (ask("ec2:StartInstances", Instance, &[STOPPED]), LOOKS),
    (ask("ec2:RunInstances", Instance, &[]), LOOKS),
    (ask("ec2:CreateSnapshot", Volume, &[MARKED]), LOOKS),
    (ask("ec2:DeleteVolume", Volume, &[MARKED]), LOOKS),
    (ask("ec2:DeleteSnapshot", Snapshot, &[SNAPSHOT_OF, DELETED_AT]), LOOKS),
    (tagging(CREATE_TAGS, Instance, &[], &[MARKED]), LOOKS),
    (tagging(CREATE_TAGS, Instance, &[], &[PROTECTED]), LOOKS),
    (tagging(DELETE_TAGS, Instance, &[MARKED], &[MARKED]), LOOKS),
];

pub(super) const ACTIONS: FunctionActions<'static> = FunctionActions {
    done: &[],
    never: &[(ask("ec2:RebootInstances", Instance, &[MARKED]), OTHERS)],
    denied: DENIED,
    own: &[
        ("notices/enforce-budgets/", true),
        ("activity/", false),
        ("ledger/", true),
        ("budgets/", true),
        ("prices/", true),
    ],
    further: nothing_else,
    is_reader: false,
    other: "reap-instances",
};
