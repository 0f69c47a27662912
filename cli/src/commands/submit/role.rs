//! Whether the machines of a job would get a role: without one it is held.

use cloud::operator::has_instance_profile;
use jobs::JobTerms;
use jobs::machine_role::{MachineRole, depends_on_jobs, machine_role, missing_role};
use model::config::Config;
use model::id::TeamName;
use model::team_role::team_role;
use store::Store;

use crate::command_error::{describe_call_error, describe_store_error};
use crate::context::CommandContext;
use crate::screen;

/// Why it would be held, if it would. If that is unknown, a warning says so.
pub(super) async fn missing(
    context: &CommandContext,
    store: &Store,
    config: &Config,
    team: &TeamName,
    terms: &JobTerms,
) -> Option<String> {
    let named = terms.machine.instance_profile.as_deref();
    let has_other_teams = if named.is_none() && depends_on_jobs(team, config) {
        match store.teams_with_jobs().await {
            Ok(with_jobs) => with_jobs.iter().any(|other| other != team),
            Err(error) => {
                screen::warn(format!("the role of its machines is unknown: {}", describe_store_error(&error)));
                return None;
            }
        }
    } else {
        false
    };
    let role = machine_role(named, team, config, has_other_teams);
    let profile = match role {
        MachineRole::Shared => return None,
        MachineRole::Named(profile) => profile.to_owned(),
        MachineRole::Team => match team_role(team) {
            Ok(profile) => profile,
            Err(why) => return Some(why.to_string()),
        },
    };
    match has_instance_profile(&context.aws, &profile).await {
        Ok(true) => None,
        Ok(false) => Some(missing_role(team, role, &profile)),
        Err(error) => {
            screen::warn(format!(
                "whether its machines get the role {profile} is unknown: {}",
                describe_call_error(&error)
            ));
            None
        }
    }
}
