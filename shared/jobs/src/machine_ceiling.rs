//! The most that the configuration lets the machines of one of a team's jobs have and cost, all together.

use model::config::Config;
use model::document::{KEY_CHARACTERS_MAX, dotted};
use model::fault::shortened;
use model::id::TeamName;
use model::money::Rate;

/// A value that is not exceeded, and the key that sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ceiling<T> {
    pub(crate) most: T,
    /// `[jobs] gpus_max`, or `[teams.vision] gpus_max`.
    pub(crate) key: String,
}

/// The lower one of the values of the account and of the team: no team exceeds the account's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MachineCeiling {
    pub(crate) gpus: Option<Ceiling<u32>>,
    pub(crate) rate: Option<Ceiling<Rate>>,
}

impl<T> Ceiling<T> {
    pub(crate) fn of_account(section: &str, key: &str, most: T) -> Self {
        Self { most, key: format!("`[{section}] {key}`") }
    }

    pub(crate) fn of_team(team: &TeamName, key: &str, most: T) -> Self {
        let section = shortened(&dotted(["teams", team.as_str()].into_iter()), KEY_CHARACTERS_MAX);
        Self::of_account(&section, key, most)
    }
}

impl MachineCeiling {
    pub(crate) fn from_config(config: &Config, team: Option<&TeamName>) -> Self {
        let (jobs, team_value) = (&config.jobs, team.and_then(|team| config.team(team)));
        let rate = |usd: f64| Rate::from_usd_per_hour(usd);
        Self {
            gpus: lower("gpus_max", team, jobs.gpus_max, team_value.and_then(|team| team.gpus_max)),
            rate: lower(
                "usd_per_hour_max",
                team,
                jobs.usd_per_hour_max.map(rate),
                team_value.and_then(|team| team.usd_per_hour_max).map(rate),
            ),
        }
    }
}

fn lower<T: Ord>(key: &str, team: Option<&TeamName>, account: Option<T>, team_value: Option<T>) -> Option<Ceiling<T>> {
    let account = account.map(|most| Ceiling::of_account("jobs", key, most));
    let team_value = team_value.zip(team).map(|(most, team)| Ceiling::of_team(team, key, most));
    account.into_iter().chain(team_value).min_by(|one, other| one.most.cmp(&other.most))
}
