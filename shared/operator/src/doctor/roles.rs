//! The roles of teams' machines. A role is **missing** if and only if a team's machines need a role of their own, and IAM has no instance
//! profile of that name: then its jobs are held.

use std::collections::BTreeSet;

use jobs::machine_role::is_isolated;
use model::config::Config;
use model::id::TeamName;
use model::team_role::{TEAM_ROLE_PREFIX, create_team_command, team_role};
use serde::Serialize;

use super::{DoctorFinding, at_most};

/// The check's name.
pub const CHECK: &str = "roles";

const SHOWN_MAX: usize = 20;

/// The role of one team's machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TeamRole {
    /// The team.
    pub team: TeamName,
    /// The name of its role and of its instance profile; `None` if it can have none.
    pub role: Option<String>,
    /// `true` if IAM has the role.
    pub exists: bool,
    /// `true` if the team's machines get the role: the account has more than one team, and does not share one role.
    pub is_needed: bool,
    /// The reason why the team can have no role.
    pub problem: Option<String>,
}

impl TeamRole {
    /// Returns `true` if the team's jobs are held because the role does not exist.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        self.is_needed && !self.exists
    }
}

/// Every team that the configuration names; and, where that leaves open which teams have jobs, that a job was ever accepted of; with its
/// role. `profiles`: what IAM has.
#[must_use]
pub fn team_roles(config: &Config, with_jobs: &[TeamName], profiles: &BTreeSet<String>) -> Vec<TeamRole> {
    let teams: BTreeSet<&TeamName> =
        config.named_teams().chain(with_jobs.iter().filter(|team| config.has_jobs_of(team))).collect();
    let has_other_teams = teams.len() > 1;
    let to_team_role = |team: &TeamName| {
        let (role, problem) = match team_role(team) {
            Ok(role) => (Some(role), None),
            Err(problem) => (None, Some(problem.to_string())),
        };
        TeamRole {
            team: team.clone(),
            exists: role.as_ref().is_some_and(|role| profiles.contains(role)),
            role,
            is_needed: is_isolated(team, config, has_other_teams),
            problem,
        }
    };
    teams.into_iter().map(to_team_role).collect()
}

/// Instance profiles that are called as a team's, and belong to none of these.
#[must_use]
pub fn unowned_profiles<'a>(roles: &[TeamRole], profiles: &'a BTreeSet<String>) -> Vec<&'a str> {
    let owned: BTreeSet<&str> = roles.iter().filter_map(|one| one.role.as_deref()).collect();
    let team_profiles = profiles.iter().map(String::as_str).filter(|name| name.starts_with(TEAM_ROLE_PREFIX));
    team_profiles.filter(|name| !owned.contains(name)).collect()
}

/// Judges the roles of all teams.
#[must_use]
pub fn check(roles: &[TeamRole]) -> Vec<DoctorFinding> {
    let missing = roles.iter().filter(|one| one.is_missing()).map(|one| match &one.problem {
        Some(problem) => DoctorFinding::warning(&one.team, "its jobs are held", problem),
        None => DoctorFinding::warning(
            &one.team,
            "its machines have no role of their own, so its jobs are held",
            format!("{}, or [jobs] shared_role = \"allow\"", create_team_command(&one.team)),
        ),
    });
    at_most(SHOWN_MAX, missing.collect(), "teams")
}

/// Summarises the roles for people, if all is well.
#[must_use]
pub fn summary(roles: &[TeamRole]) -> String {
    match roles.iter().filter(|one| one.is_needed).count() {
        0 => "one role for all machines of jobs".to_owned(),
        needed => format!("{needed} teams have a role each"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(config: &str, with_jobs: &[&str], profiles: &[&str]) -> Vec<TeamRole> {
        let with_jobs: Vec<TeamName> = with_jobs.iter().map(|team| TeamName::from(*team)).collect();
        let profiles = profiles.iter().map(|name| (*name).to_owned()).collect();
        team_roles(&Config::read(config).unwrap(), &with_jobs, &profiles)
    }

    fn check(config: &str, with_jobs: &[&str], profiles: &[&str], lacking: &[&str]) {
        let found: Vec<String> =
            super::check(&roles(config, with_jobs, profiles)).into_iter().map(|one| one.at).collect();
        assert_eq!(found, lacking, "{config} {with_jobs:?} {profiles:?}");
    }

    #[test]
    fn one_team_alone_lacks_nothing() {
        check("", &[], &[], &[]);
        check("[teams.vision]\n[teams.untagged]", &["vision"], &[], &[]);
    }

    #[test]
    fn each_of_several_teams_needs_its_own() {
        check("[jobs]\nteams = \"any\"\n[teams.vision]", &["nlp"], &[], &["nlp", "vision"]);
        // What once was a team has no jobs any more.
        check("[teams.vision]", &["nlp"], &[], &[]);
        check("", &["nlp", "vision"], &["curfew-job-nlp"], &["vision"]);
        check("", &["nlp", "vision"], &["curfew-job-nlp", "curfew-job-vision"], &[]);
        check("[jobs]\nshared_role = \"allow\"", &["nlp", "vision"], &[], &[]);
    }

    #[test]
    fn the_remedy_is_the_command_or_why_there_is_none() {
        let findings = super::check(&roles("", &["computer vision", "Köln"], &[]));
        assert_eq!(findings[1].remedy, "curfew team create 'computer vision', or [jobs] shared_role = \"allow\"");
        assert!(findings[0].remedy.contains("beyond ASCII"), "{findings:?}");
    }

    #[test]
    fn a_profile_of_no_team_is_shown() {
        let profiles = ["curfew-job", "curfew-job-nlp", "curfew-job-old", "training"].map(str::to_owned).into();
        let roles = team_roles(&Config::default(), &["nlp".into()], &profiles);
        assert_eq!(unowned_profiles(&roles, &profiles), ["curfew-job-old"]);
    }
}
