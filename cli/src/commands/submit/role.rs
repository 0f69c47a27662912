//! The role that the machines of a job would get. Without one it is held.

use cloud::operator::has_instance_profile;
use jobs::JobTerms;
use jobs::machine_role::{MachineRole, depends_on_jobs, machine_role, missing_role};
use model::config::Config;
use model::id::TeamName;
use model::team_role::team_role;
use store::{ReconcilerDocuments as _, Store};

use crate::command_error::{describe_call_error, describe_store_error};
use crate::context::CommandContext;
use crate::screen;

/// The role, and its instance profile.
pub(super) enum JobRole {
    /// The role of Curfew's stack.
    Shared,
    /// An instance profile of this name, if it exists.
    Profile(String),
    /// There is none: why the job would be held.
    Missing(String),
    /// A warning has said why.
    Unknown,
}

pub(super) async fn find(
    context: &CommandContext,
    store: &Store,
    config: &Config,
    team: &TeamName,
    terms: &JobTerms,
) -> JobRole {
    let named = terms.machine.instance_profile.as_deref();
    let has_other_teams = if named.is_none() && depends_on_jobs(team, config) {
        match store.teams_with_jobs().await {
            Ok(with_jobs) => with_jobs.iter().any(|other| other != team),
            Err(error) => {
                screen::warn(format!("the role of its machines is unknown: {}", describe_store_error(&error)));
                return JobRole::Unknown;
            }
        }
    } else {
        false
    };
    let role = machine_role(named, team, config, has_other_teams);
    let profile = match role {
        MachineRole::Shared => return JobRole::Shared,
        MachineRole::Named(profile) => profile.to_owned(),
        MachineRole::Team => match team_role(team) {
            Ok(profile) => profile,
            Err(why) => return JobRole::Missing(why.to_string()),
        },
    };
    match has_instance_profile(&context.aws, &profile).await {
        Ok(true) => JobRole::Profile(profile),
        Ok(false) => JobRole::Missing(missing_role(team, role, &profile)),
        Err(error) => {
            screen::warn(format!(
                "whether its machines get the role {profile} is unknown: {}",
                describe_call_error(&error)
            ));
            JobRole::Unknown
        }
    }
}
