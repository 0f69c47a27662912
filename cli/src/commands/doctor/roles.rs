//! The check of the roles of teams' machines.

use std::collections::BTreeSet;

use model::config::Config;
use operator::doctor::roles;
use operator::doctor::roles::team_roles;

use super::section::{DoctorSection, unanswered, unread};
use store::ReconcilerDocuments as _;

use crate::context::{CommandContext, DeployedResources};

/// IAM is only queried if a team needs its own role.
pub(super) async fn check(context: &CommandContext, deployed: &DeployedResources, config: &Config) -> DoctorSection {
    let with_jobs = match deployed.store.teams_with_jobs().await {
        Ok(teams) => teams,
        Err(error) => return DoctorSection::new(roles::CHECK, vec![unread(&error)], ""),
    };
    let without_iam = team_roles(config, &with_jobs, &BTreeSet::new());
    if without_iam.iter().all(|role| !role.is_needed) {
        return DoctorSection::new(roles::CHECK, Vec::new(), roles::summary(&without_iam));
    }
    match cloud::operator::machine_profiles(&context.aws).await {
        Ok(profiles) => {
            let found = team_roles(config, &with_jobs, &profiles);
            DoctorSection::new(roles::CHECK, roles::check(&found), roles::summary(&found))
        }
        Err(error) => DoctorSection::new(roles::CHECK, vec![unanswered(&error)], ""),
    }
}
