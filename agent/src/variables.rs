//! The environment of a command.
//!
//! - `CURFEW_JOB`: the job, `<team>/<job>`; `CURFEW_TEAM`: its team;
//! - `CURFEW_ATTEMPT`: 1, 2, …; `CURFEW_BUCKET` and `CURFEW_REGION`: the state bucket;
//! - `CURFEW_ENDS_AT`: the latest time at which the agent sends the signal to end, as `2026-09-01T12:00:00Z`;
//! - `CURFEW_CHECKPOINT_DIR`: the directory of its checkpoints, if the spec has one. If it resumes from a checkpoint, `CURFEW_RESUME_STEP` is its step,
//!   `CURFEW_RESUME_FROM` the one path to resume from, and `CURFEW_RESUME_ALL` all of its paths, one in each line. Otherwise they are absent;
//!   so is the step of files without a number;
//! - `CURFEW_SIGNAL`: the signal that announces the loss of the machine;
//! - `CURFEW_OUTPUTS_OF_<NAME>`: where the outputs of a job are that it comes after ([`crate::outputs::find_earlier`]).
//!
//! `AWS_EC2_METADATA_DISABLED` is `true`, unless the job asks for the instance metadata.
//!
//! `HOME`, `USER`, `LOGNAME` and `SHELL` are those of the user, `PYTHONUNBUFFERED` is 1, so that the log is not late, and the spec's `env` comes
//! last.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jobs::MachineIdentity;

use crate::attempt::AssignedJob;
use crate::restore::RestoredCheckpoint;
use crate::user::User;

pub(crate) type VariableMap = BTreeMap<String, String>;

pub(crate) struct VariableSources<'a> {
    pub(crate) identity: &'a MachineIdentity,
    pub(crate) asked: &'a AssignedJob,
    pub(crate) user: &'a User,
    pub(crate) restored: &'a RestoredCheckpoint,
}

/// The variables that identify the attempt of a process.
pub(crate) fn identity_variables(identity: &MachineIdentity) -> [(&'static str, String); 2] {
    [("CURFEW_JOB", identity.job.to_string()), ("CURFEW_ATTEMPT", identity.attempt.to_string())]
}

pub(crate) fn build_variables(from: &VariableSources<'_>, ends_at: Timestamp) -> VariableMap {
    let VariableSources { identity, asked, user, restored } = from;
    let mut all: Vec<(&str, String)> = vec![
        ("PYTHONUNBUFFERED", "1".to_owned()),
        ("HOME", user.home.clone()),
        ("USER", user.name.clone()),
        ("LOGNAME", user.name.clone()),
        ("SHELL", "/bin/sh".to_owned()),
        ("CURFEW_TEAM", identity.job.team.to_string()),
        ("CURFEW_BUCKET", identity.bucket.clone()),
        ("CURFEW_REGION", identity.region.to_string()),
        ("CURFEW_ENDS_AT", format!("{ends_at:.0}")),
    ];
    all.extend(identity_variables(identity));
    if !asked.work.metadata {
        // An SDK then says at once that it has no credentials.
        all.push(("AWS_EC2_METADATA_DISABLED", "true".to_owned()));
    }
    if let Some(checkpoint) = &asked.checkpoint {
        all.push(("CURFEW_CHECKPOINT_DIR", checkpoint.dir.clone()));
        all.push(("CURFEW_SIGNAL", checkpoint.signal.clone()));
    }
    if let Some(path) = &restored.resume {
        let paths: Vec<String> = restored.entries.iter().map(|path| path.display().to_string()).collect();
        all.extend(restored.step.map(|step| ("CURFEW_RESUME_STEP", step.to_string())));
        all.push(("CURFEW_RESUME_FROM", path.display().to_string()));
        all.push(("CURFEW_RESUME_ALL", paths.join("\n")));
    }
    let own = all.into_iter().map(|(name, value)| (name.to_owned(), value));
    own.chain(asked.work.env.clone()).collect()
}
