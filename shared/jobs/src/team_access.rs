//! Access of the jobs of a team to the account: run-jobs has rights that the person who submits a job may not have.
//!
//! The team, and the resources that it names, are checked when a document is read, when a job is ranked, and again before each launch. What
//! the configuration does not list is not allowed.

use model::config::{Config, TeamConfig};
use model::document::{KEY_CHARACTERS_MAX, dotted};
use model::fault::{InvalidValue, shortened};
use model::id::TeamName;
use model::input_source::InputSource;

use super::{Job, MachineImage};

/// A list of `[teams.<name>]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowList {
    InstanceProfiles,
    Subnets,
    SecurityGroups,
    Images,
    Buckets,
}

impl AllowList {
    const fn key(self) -> &'static str {
        match self {
            Self::InstanceProfiles => "instance_profiles",
            Self::Subnets => "subnets",
            Self::SecurityGroups => "security_groups",
            Self::Images => "images",
            Self::Buckets => "buckets",
        }
    }

    fn items(self, team: &TeamConfig) -> Vec<String> {
        match self {
            Self::InstanceProfiles => team.instance_profiles.clone(),
            Self::Subnets => team.subnets.clone(),
            Self::SecurityGroups => team.security_groups.clone(),
            Self::Images => team.images.clone(),
            Self::Buckets => team.buckets.iter().map(ToString::to_string).collect(),
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::InstanceProfiles => "leave it out for the role that Curfew gives the team's machines",
            Self::Subnets | Self::SecurityGroups => "leave it out for the default network",
            Self::Images => "leave it out for that of [jobs] image, or name a public one",
            Self::Buckets => "watch one of these, or ask an administrator to add it",
        }
    }

    /// Checks that the jobs of a team may name this.
    ///
    /// # Errors
    /// That they may not, and what they may.
    pub fn check(self, named: &str, team: Option<&TeamName>, config: &Config) -> Result<(), InvalidValue> {
        self.check_by(named, team, config, |items| items.iter().any(|item| item == named))
    }

    fn check_by(
        self,
        named: &str,
        team: Option<&TeamName>,
        config: &Config,
        allows: impl FnOnce(&[String]) -> bool,
    ) -> Result<(), InvalidValue> {
        let key = self.key();
        let Some(team) = team else {
            return Err(InvalidValue::new(format!("it is in no team's folder, and {key} are allowed team by team")));
        };
        let items = config.team(team).map(|team| self.items(team)).unwrap_or_default();
        if allows(&items) {
            return Ok(());
        }
        let which = if items.is_empty() { "none".to_owned() } else { items.join(", ") };
        Err(InvalidValue::new(format!(
            "{key} of {} in the configuration does not allow {named:?}; it allows {which}; {}",
            section(team),
            self.remedy()
        )))
    }
}

/// Checks that a trigger of a team may see what arrives below a folder of a bucket.
///
/// # Errors
/// That it may not, and what it may.
pub fn check_folder(folder: &InputSource, team: Option<&TeamName>, config: &Config) -> Result<(), InvalidValue> {
    let allowed = team.and_then(|team| config.team(team)).map(|team| team.buckets.as_slice()).unwrap_or_default();
    let is_allowed = allowed.iter().any(|allowed| allowed.covers(folder));
    AllowList::Buckets.check_by(&folder.to_string(), team, config, |_| is_allowed)
}

/// Checks that a team has jobs at all.
///
/// # Errors
/// That the configuration does not name it, and what to write.
pub fn check_team(team: &TeamName, config: &Config) -> Result<(), InvalidValue> {
    if config.has_jobs_of(team) {
        return Ok(());
    }
    let names = config.named_teams().map(TeamName::as_str).collect::<Vec<_>>().join(", ");
    Err(InvalidValue::new(format!(
        "the configuration has no {}, and only its teams have jobs: {names}. Use the folder of one of them; or write this section, or \
         [jobs] teams = \"any\", into the configuration",
        section(team)
    )))
}

fn section(team: &TeamName) -> String {
    format!("[{}]", shortened(&dotted(["teams", team.as_str()].into_iter()), KEY_CHARACTERS_MAX))
}

impl Job {
    /// Checks that its team has jobs, and may use the network that it names.
    ///
    /// # Errors
    /// Why not.
    pub fn check_access(&self, config: &Config) -> Result<(), InvalidValue> {
        let (team, machine) = (&self.job.team, &self.terms.machine);
        check_team(team, config)?;
        let check = |list: AllowList, ids: &[model::id::ResourceId]| {
            ids.iter().try_for_each(|id| list.check(id.as_str(), Some(team), config))
        };
        check(AllowList::Subnets, &machine.subnets)?;
        check(AllowList::SecurityGroups, &machine.security_groups)
    }

    /// Checks that its team may boot the image, by what EC2 said of it when the job was ranked.
    ///
    /// # Errors
    /// Why not.
    pub fn check_image(&self, image: &MachineImage, config: &Config) -> Result<(), InvalidValue> {
        check_image(self.terms.machine.ami.is_some(), image, &self.job.team, config)
    }
}

/// Checks that a team may boot an image. `is_named`: its job names it, rather than the configuration.
///
/// # Errors
/// That it may not, and what to write.
pub fn check_image(is_named: bool, image: &MachineImage, team: &TeamName, config: &Config) -> Result<(), InvalidValue> {
    if !is_named || image.is_for_all {
        return Ok(());
    }
    AllowList::Images
        .check(image.ami.as_str(), Some(team), config)
        .map_err(|problem| InvalidValue::new(format!("EC2 does not say that {} is public, and {problem}", image.ami)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MachineSpec;
    use crate::next::tests::fixture::{noon_plus, ranking, submitted};

    const CONFIG: &str = "[teams.vision]\nsubnets = [\"subnet-0123abcd\"]\nsecurity_groups = [\"sg-0123abcd\"]\n\
                          images = [\"ami-0123abcd\"]\nbuckets = [\"s3://data/vision\", \"own\"]\n[teams.nlp]";

    fn config(text: &str) -> Config {
        Config::read(text).unwrap()
    }

    #[test]
    fn what_a_job_names_is_allowed_to_one_team_and_no_other() {
        let check = |team: &str, subnet: Option<&str>, group: Option<&str>, expect: &str| {
            let ids = |id: Option<&str>| id.into_iter().map(Into::into).collect();
            let given = submitted().job(|job| {
                job.job.team = team.into();
                job.terms.machine =
                    MachineSpec { subnets: ids(subnet), security_groups: ids(group), ..MachineSpec::default() };
            });
            match given.job.check_access(&config(CONFIG)) {
                Ok(()) => assert_eq!("", expect, "{team} {subnet:?} {group:?}"),
                Err(why) => assert!(!expect.is_empty() && why.to_string().contains(expect), "{why}"),
            }
        };
        check("vision", Some("subnet-0123abcd"), Some("sg-0123abcd"), "");
        check("nlp", None, None, "");
        check("nlp", Some("subnet-0123abcd"), None, "subnets of [teams.nlp] in the configuration does not allow");
        check("nlp", None, Some("sg-0123abcd"), "security_groups of [teams.nlp] in the configuration does not allow");
        check(
            "vision",
            Some("subnet-4567abcd"),
            None,
            "it allows subnet-0123abcd; leave it out for the default network",
        );
        check(
            "Vision",
            None,
            None,
            "the configuration has no [teams.Vision], and only its teams have jobs: nlp, vision",
        );
        check("a b", None, None, "no [teams.\"a b\"]");
    }

    #[test]
    fn an_image_is_public_or_listed_or_that_of_the_configuration() {
        let image = |is_for_all| MachineImage {
            ami: "ami-0123abcd".into(),
            is_for_all,
            ..ranking(noon_plus(0)).images.remove(0)
        };
        let check = |is_named, is_for_all, team: &str| {
            check_image(is_named, &image(is_for_all), &team.into(), &config(CONFIG)).map_err(|why| why.to_string())
        };
        assert_eq!(check(true, true, "nlp"), Ok(()));
        assert_eq!(check(true, false, "vision"), Ok(()));
        assert_eq!(check(false, false, "nlp"), Ok(()));
        let refused = check(true, false, "nlp").unwrap_err();
        assert!(
            refused.contains("is public, and images of [teams.nlp] in the configuration does not allow"),
            "{refused}"
        );
    }

    #[test]
    fn a_trigger_sees_only_folders_of_its_team() {
        let check = |team: &str, folder: &str, expect: bool| {
            let folder = InputSource::read(folder).unwrap();
            let is_allowed = check_folder(&folder, Some(&team.into()), &config(CONFIG)).is_ok();
            assert_eq!(is_allowed, expect, "{team} {folder}");
        };
        check("vision", "s3://data/vision/", true);
        check("vision", "s3://data/vision/2026/", true);
        check("vision", "s3://own/", true);
        check("vision", "s3://own/any/", true);
        for beyond in
            ["s3://data/", "s3://data/vision-2/", "s3://data/nlp/vision/", "s3://data2/vision/", "s3://own-2/"]
        {
            check("vision", beyond, false);
        }
        check("nlp", "s3://data/vision/", false);
        check("other", "s3://own/", false);
    }

    #[test]
    fn jobs_are_made_for_teams_of_the_configuration() {
        let check = |text: &str, team: &str, expect: bool| {
            assert_eq!(check_team(&team.into(), &config(text)).is_ok(), expect, "{text} {team}");
        };
        // It limits nothing before it names a team.
        check("", "vision", true);
        check("[teams.untagged]\nmode = \"observe\"", "vision", true);
        check("[teams.vision]", "vision", true);
        for other in ["visoin", "Vision", "untagged", "vision "] {
            check("[teams.vision]\n[teams.untagged]", other, false);
            check("[jobs]\nteams = \"any\"\n[teams.vision]", other, true);
        }
    }
}
