//! `reap-volumes`.

use model::curfew_tags::{DELETED_AT, KEEP_UNTIL, MARKED, MODE, PROTECTED, RESTORE, SNAPSHOT_OF, UNATTACHED_SINCE};

use super::RequestTarget::{Instance, Snapshot, Volume};
use super::{
    ALL_TAGS, CREATE_TAGS, DELETE_TAGS, ENDS, Ec2Request, FunctionActions, MARKS, OTHERS, PEOPLE, TAGS_OF_OTHERS,
    UNMARKED, ask, nothing_else, tagging,
};

const SNAPSHOT: &str = "ec2:CreateSnapshot";
const DELETE: &str = "ec2:DeleteVolume";
const DELETE_SNAPSHOT: &str = "ec2:DeleteSnapshot";

const SAFETY: &str = "it makes a snapshot before it deletes a volume";
const ALONG: &str = "a snapshot gets the tags of its volume";
const SAYS_OF_WHAT: &str = "a snapshot must name its volume";
const OF_OTHERS: &str = "it must not delete or claim snapshots of others";

pub(super) const ACTIONS: FunctionActions<'static> = FunctionActions {
    done: &[
        (ask(DELETE, Volume, &[MARKED]), ENDS),
        (ask(SNAPSHOT, Volume, &[MARKED]), SAFETY),
        (tagging(SNAPSHOT, Snapshot, &[], &[SNAPSHOT_OF, RESTORE, MODE, "Name"]), SAFETY),
        (at_creation(&[SNAPSHOT_OF, RESTORE, MODE, "Name"]), ALONG),
        (tagging(CREATE_TAGS, Volume, &[], &[UNATTACHED_SINCE]), "EC2 does not report since when it is unattached"),
        (tagging(CREATE_TAGS, Volume, &[UNATTACHED_SINCE], &[MARKED]), MARKS),
        (tagging(DELETE_TAGS, Volume, &[MARKED], &[MARKED, UNATTACHED_SINCE]), "it calls off what it announced"),
        (tagging(CREATE_TAGS, Snapshot, &[SNAPSHOT_OF], &[DELETED_AT]), "a snapshot expires by this tag"),
        (ask(DELETE_SNAPSHOT, Snapshot, &[SNAPSHOT_OF, DELETED_AT, MODE]), "it deletes its expired snapshots"),
    ],
    never: &[
        (ask(DELETE, Volume, &[]), UNMARKED),
        (ask(DELETE, Volume, &[UNATTACHED_SINCE]), UNMARKED),
        (ask(SNAPSHOT, Volume, &[]), UNMARKED),
        (tagging(SNAPSHOT, Snapshot, &[], &[RESTORE]), SAYS_OF_WHAT),
        (at_creation(&[RESTORE]), SAYS_OF_WHAT),
        (at_creation(&[SNAPSHOT_OF, DELETED_AT]), "a new snapshot must not be expired already"),
        (ask(DELETE_SNAPSHOT, Snapshot, &[SNAPSHOT_OF]), "its volume may exist"),
        (tagging(CREATE_TAGS, Snapshot, &[], &[SNAPSHOT_OF]), OF_OTHERS),
        (tagging(CREATE_TAGS, Snapshot, &[], &[DELETED_AT]), OF_OTHERS),
        (tagging(CREATE_TAGS, Snapshot, &[SNAPSHOT_OF], &[DELETED_AT, "Name"]), TAGS_OF_OTHERS),
        (tagging(CREATE_TAGS, Snapshot, &[SNAPSHOT_OF], &[]), TAGS_OF_OTHERS),
        (tagging(DELETE_TAGS, Snapshot, &[SNAPSHOT_OF, DELETED_AT], &[DELETED_AT]), TAGS_OF_OTHERS),
        (tagging(CREATE_TAGS, Volume, &[], &[MARKED, "Name"]), TAGS_OF_OTHERS),
        (tagging(DELETE_TAGS, Volume, &[MARKED], &[]), ALL_TAGS),
        (tagging(CREATE_TAGS, Instance, &[], &[MARKED]), OTHERS),
        (ask("ec2:StopInstances", Instance, &[MARKED]), OTHERS),
        (ask("ec2:TerminateInstances", Instance, &[MARKED]), OTHERS),
    ],
    denied: &[
        (ask(DELETE_SNAPSHOT, Snapshot, &[]), OF_OTHERS),
        (ask(DELETE_SNAPSHOT, Snapshot, &[DELETED_AT]), OF_OTHERS),
        (at_creation(&[SNAPSHOT_OF, PROTECTED]), PEOPLE),
        (tagging(CREATE_TAGS, Volume, &[], &[PROTECTED]), PEOPLE),
        (tagging(CREATE_TAGS, Volume, &[], &[MODE]), PEOPLE),
        (tagging(CREATE_TAGS, Volume, &[], &[KEEP_UNTIL]), PEOPLE),
        (tagging(DELETE_TAGS, Volume, &[MARKED], &[PROTECTED]), PEOPLE),
        (tagging(DELETE_TAGS, Volume, &[MARKED], &[MODE, MARKED]), PEOPLE),
    ],
    own: &[("notices/reap-volumes/", true), ("active/", false), ("prices/", false)],
    further: nothing_else,
    is_reader: false,
    other: "reap-instances",
};

/// Tags that a snapshot is created with.
const fn at_creation(keys: &'static [&'static str]) -> Ec2Request {
    Ec2Request { action: CREATE_TAGS, on: Snapshot, tags: &[], keys, creating: Some("CreateSnapshot") }
}
