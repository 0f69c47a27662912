//! What single values must be, checked while they are read, so that a mistake is reported with its line and key.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::{Deserialize, Deserializer};

use super::sections::TeamConfig;
use crate::document::tables;
pub(super) use crate::document::{some_table, table};
use crate::duration;
use crate::id::TeamName;
use crate::ownership::{TEAM_NAME_RULE, is_team};

pub(super) fn threshold<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if number.is_finite() && number >= 0.0 {
        return Ok(number);
    }
    Err(serde::de::Error::custom(format!("{number} is not a threshold; write a number from 0 up")))
}

pub(super) fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = threshold(deserializer)?;
    if number <= 100.0 {
        return Ok(number);
    }
    Err(serde::de::Error::custom(format!("{number} is not a share; write a number from 0 to 100")))
}

/// A window that `CloudWatch` can still answer: 5-minute data are kept for 63 days
/// (`CloudWatch` user guide, "Metrics retention").
pub(super) fn window<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SignedDuration, D::Error> {
    let window = duration::deserialize(deserializer)?;
    if window <= crate::usage::WINDOW_MAX {
        return Ok(window);
    }
    Err(serde::de::Error::custom(format!(
        "{} is longer than {}, the most that metrics can answer",
        duration::format_duration(window),
        duration::format_duration(crate::usage::WINDOW_MAX)
    )))
}

/// A namespace whose metrics may be evidence. What a job's machine may write is none: it could make another instance look idle.
pub(super) fn namespace<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let namespace = String::deserialize(deserializer)?;
    if namespace != super::JOB_METRICS_NAMESPACE {
        return Ok(namespace);
    }
    Err(serde::de::Error::custom(format!(
        "`{namespace}` is written by the machines of jobs, so nothing in it shows that an instance is idle; name another namespace"
    )))
}

/// The sections of teams. One whose name no team can have would apply to nothing.
pub(super) fn teams<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<TeamName, TeamConfig>, D::Error> {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    struct Key(TeamName);

    impl<'de> Deserialize<'de> for Key {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let name = String::deserialize(deserializer)?;
            if is_team(&name) {
                return Ok(Self(TeamName::new(name)));
            }
            Err(serde::de::Error::custom(format!("{name:?} names no team: {TEAM_NAME_RULE}")))
        }
    }

    let sections: BTreeMap<Key, TeamConfig> = tables(deserializer)?;
    Ok(sections.into_iter().map(|(name, section)| (name.0, section)).collect())
}

/// The most that a budget says, in USD: what is more is a slip of the hand.
const USD_MAX: f64 = 1_000_000_000.0;

pub(super) fn usd<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if (0.0..=USD_MAX).contains(&number) {
        return Ok(Some(number));
    }
    if number > USD_MAX {
        let problem = format!("{number:e} is more than anybody spends in a month; write {USD_MAX} at most");
        return Err(serde::de::Error::custom(problem));
    }
    Err(serde::de::Error::custom(format!("{number} is not an amount; write USD, a number from 0 up")))
}

/// Shares by name.
pub(super) fn shares<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Share(#[serde(deserialize_with = "share")] f64);

    let shares = BTreeMap::<String, Share>::deserialize(deserializer)?;
    Ok(shares.into_iter().map(|(name, share)| (name, share.0)).collect())
}

/// At more shares than these nobody wants to hear of one budget.
const NOTIFY_AT_MAX: usize = 20;

/// Shares of a budget, in whole percent: it can be exceeded ten times.
pub(super) fn notify_at<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u16>, D::Error> {
    let shares = Vec::<i64>::deserialize(deserializer)?;
    if shares.len() > NOTIFY_AT_MAX {
        let problem = format!("{} shares of a budget; write {NOTIFY_AT_MAX} at most", shares.len());
        return Err(serde::de::Error::custom(problem));
    }
    let legal = |share: i64| u16::try_from(share).ok().filter(|share| (1..=1_000).contains(share));
    let wrong: Vec<String> = shares.iter().filter(|share| legal(**share).is_none()).map(ToString::to_string).collect();
    let what = match wrong.as_slice() {
        [] => return Ok(shares.into_iter().filter_map(legal).collect()),
        [one] => format!("{one} is no share"),
        several => format!("{} are no shares", several.join(", ")),
    };
    Err(serde::de::Error::custom(format!("{what} of a budget; write whole numbers from 1 to 1000")))
}

pub(super) fn some_notify_at<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u16>>, D::Error> {
    notify_at(deserializer).map(Some)
}

/// A name that the IANA time zone database has.
pub(super) fn time_zone<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if jiff::tz::TimeZone::get(&name).is_ok() {
        return Ok(name);
    }
    Err(serde::de::Error::custom(format!("`{name}` is no time zone; write one as `Europe/Berlin` or `UTC`")))
}

pub(super) fn email<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let legal = text
        .split_once('@')
        .is_some_and(|(name, host)| !name.is_empty() && host.contains('.') && !text.contains(char::is_whitespace));
    if legal {
        return Ok(Some(text));
    }
    Err(serde::de::Error::custom(format!("`{text}` is not an e-mail address")))
}

/// `[jobs] instance_profiles` was one list for all teams. An empty one allowed nothing, and still does.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MovedProfiles;

impl<'de> Deserialize<'de> for MovedProfiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Vec::<String>::deserialize(deserializer)?.as_slice() {
            [] => Ok(Self),
            [first, ..] => Err(serde::de::Error::custom(format!(
                "each team has a list of its own: allow {first:?} under [teams.<name>] instance_profiles, for the teams that need it"
            ))),
        }
    }
}

pub(super) fn tag_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let key = String::deserialize(deserializer)?;
    check_tag_key(&key).map(|()| key).map_err(serde::de::Error::custom)
}

pub(super) fn tag_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let keys = Vec::<String>::deserialize(deserializer)?;
    keys.iter().try_for_each(|key| check_tag_key(key)).map(|()| keys).map_err(serde::de::Error::custom)
}

/// EC2 user guide, "Tag restrictions": 1 to 128 characters.
fn check_tag_key(key: &str) -> Result<(), String> {
    if (1..=128).contains(&key.chars().count()) {
        return Ok(());
    }
    Err(format!("`{key}` is not a tag key; it has 1 to 128 characters"))
}
