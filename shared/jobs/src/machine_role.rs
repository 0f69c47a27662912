//! The role that the machines of a job get, by the name of its instance profile.
//!
//! A machine gets the role of its team **if and only if** all of these hold:
//! - its job names no instance profile;
//! - `[jobs] shared_role` is not `"allow"`;
//! - the account has another team than the job's: one that the configuration names; or, where that leaves open which teams have jobs, one
//!   that a job was ever accepted of.
//!
//! Otherwise it gets the role that Curfew's stack makes for all. A team cannot make the others fewer: the configuration is the
//! administrator's, and only run-jobs writes what lies under `jobs/`. An unreadable list isolates, or waits: it never shares.

use model::config::{Config, SharedRole};
use model::fault::InvalidValue;
use model::id::TeamName;
use model::team_role::{create_team_command, team_role};

use super::team_access::AllowList;
use super::{Job, JobId};

/// The instance profiles that a stack makes for all teams, of a first and of a restored one (`JobProfile` in template.yaml).
pub const SHARED_PROFILES: [&str; 2] = ["curfew-job", "curfew-restored-job"];

/// The role that the machines of a job get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineRole<'a> {
    /// The role of an instance profile which the spec names.
    Named(&'a str),
    /// The one that Curfew's stack makes for all teams.
    Shared,
    /// The team's own.
    Team,
}

/// Returns `true` if the configuration names another team than this one.
fn names_another(config: &Config, team: &TeamName) -> bool {
    config.named_teams().any(|name| name != team)
}

/// Returns `true` if the role of a team's machines depends on which teams there are jobs of: the configuration does not settle it.
#[must_use]
pub fn depends_on_jobs(team: &TeamName, config: &Config) -> bool {
    config.jobs.shared_role == SharedRole::Deny && config.has_jobs_of_any_team() && !names_another(config, team)
}

/// Returns `true` if each team's machines have a role of their own. `has_other_teams`: jobs of another team were accepted.
#[must_use]
pub fn is_isolated(team: &TeamName, config: &Config, has_other_teams: bool) -> bool {
    let has_others = names_another(config, team) || (has_other_teams && config.has_jobs_of_any_team());
    config.jobs.shared_role == SharedRole::Deny && has_others
}

/// The role of a job's machines.
#[must_use]
pub fn machine_role<'a>(
    named: Option<&'a str>,
    team: &TeamName,
    config: &Config,
    has_other_teams: bool,
) -> MachineRole<'a> {
    match named {
        Some(profile) => MachineRole::Named(profile),
        None if is_isolated(team, config, has_other_teams) => MachineRole::Team,
        None => MachineRole::Shared,
    }
}

/// Explains why machines of a team get no role, where EC2 does not know the instance profile.
#[must_use]
pub fn missing_role(team: &TeamName, role: MachineRole<'_>, profile: &str) -> String {
    match role {
        MachineRole::Team => format!(
            "the account has more than one team, and EC2 knows no instance profile {profile} for the machines of {team}. Make it: {}. A new \
             one takes EC2 up to some minutes. To give all teams one role instead: [jobs] shared_role = \"allow\". Where a folder of the inbox \
             was misspelt: name the teams in the configuration, and only they count",
            create_team_command(team)
        ),
        MachineRole::Named(_) => format!(
            "EC2 knows no instance profile {profile}, which [machine] instance_profile names. Make it, with a role under the path /curfew/; \
             or submit the job with another. A new one takes EC2 up to some minutes"
        ),
        MachineRole::Shared => format!(
            "EC2 knows no instance profile {profile}, which CURFEW_JOB_PROFILE of run-jobs names. Deploy Curfew's stack again, which makes it"
        ),
    }
}

impl Job {
    /// The role of its machines, as far as is known since it was last ranked.
    #[must_use]
    pub fn machine_role(&self, config: &Config) -> MachineRole<'_> {
        let has_other_teams = self.ranking.as_ref().is_some_and(|ranking| ranking.has_other_teams);
        machine_role(self.terms.machine.instance_profile.as_deref(), &self.job.team, config, has_other_teams)
    }

    /// Checks that its machines may have the role that they would get.
    ///
    /// # Errors
    /// Why they may not: the configuration allows the profile no longer, or the team can have none.
    pub fn check_role(&self, config: &Config, has_other_teams: bool) -> Result<(), InvalidValue> {
        let JobId { team, .. } = &self.job;
        match machine_role(self.terms.machine.instance_profile.as_deref(), team, config, has_other_teams) {
            MachineRole::Named(profile) => AllowList::InstanceProfiles.check(profile, Some(team), config),
            MachineRole::Team => team_role(team).map(drop),
            MachineRole::Shared => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn team(name: &str) -> TeamName {
        TeamName::from(name)
    }

    fn check(config: &str, has_other_teams: bool, expect: MachineRole<'_>) {
        let config = Config::read(config).unwrap();
        assert_eq!(machine_role(None, &team("vision"), &config, has_other_teams), expect, "{config:?}");
    }

    #[test]
    fn one_team_alone_has_the_shared_role() {
        check("", false, MachineRole::Shared);
        check("[teams.vision]", false, MachineRole::Shared);
        check("[teams.vision]\n[teams.untagged]", false, MachineRole::Shared);
    }

    #[test]
    fn a_second_team_isolates_the_roles() {
        check("", true, MachineRole::Team);
        check("[teams.vision]\n[teams.nlp]", false, MachineRole::Team);
        check("[teams.nlp]", false, MachineRole::Team);
        check("[jobs]\nshared_role = \"deny\"\n[teams.nlp]", true, MachineRole::Team);
    }

    #[test]
    fn an_administrator_may_share_the_role_and_a_spec_may_name_another() {
        check("[jobs]\nshared_role = \"allow\"\n[teams.nlp]", true, MachineRole::Shared);
        let named = machine_role(Some("training"), &team("vision"), &Config::default(), true);
        assert_eq!(named, MachineRole::Named("training"));
    }

    #[test]
    fn a_configured_role_needs_no_list() {
        let depends = |config: &str| depends_on_jobs(&team("vision"), &Config::read(config).unwrap());
        assert!(depends("") && depends("[jobs]\nteams = \"any\"\n[teams.vision]"));
        assert!(!depends("[teams.vision]") && !depends("[teams.nlp]") && !depends("[jobs]\nshared_role = \"allow\""));
    }

    #[test]
    fn a_profile_is_allowed_to_one_team_and_no_other() {
        let config = Config::read("[teams.vision]\ninstance_profiles = [\"training\"]\n[teams.nlp]").unwrap();
        let check = |name: &str| AllowList::InstanceProfiles.check("training", Some(&team(name)), &config);
        assert_eq!(check("vision"), Ok(()));
        for other in ["nlp", "Vision", "vision2"] {
            let refused = check(other).unwrap_err().to_string();
            assert!(refused.contains(&format!("[teams.{other}]")) && refused.contains("it allows none"), "{refused}");
        }
    }

    #[test]
    fn a_folder_of_no_configured_team_withdraws_no_role() {
        check("[teams.vision]", true, MachineRole::Shared);
        check("[jobs]\nteams = \"any\"\n[teams.vision]", true, MachineRole::Team);
    }

    #[test]
    fn a_missing_role_is_notified_with_the_remedy() {
        let message = missing_role(&team("vision"), MachineRole::Team, "curfew-job-vision");
        assert!(
            message.contains("Make it: curfew team create vision.") && message.contains("shared_role"),
            "{message}"
        );
    }
}
