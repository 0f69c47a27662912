//! Checks of single values while they are read, so that a mistake is reported with its line and key.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use jiff::SignedDuration;
use serde::de::{IntoDeserializer, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::account::TeamConfig;
use crate::curfew_tags::TAG_KEY_CHARACTERS_MAX;
use crate::duration;
use crate::fault::InvalidValue;
use crate::id::TeamName;
use crate::image_source::check_id;
use crate::money::{USD_MAX, USD_PER_HOUR_MAX};
use crate::ownership::{TEAM_NAME_RULE, is_team};
use crate::time_zone::read_time_zone;
use crate::usage::BUSY_FROM_PERCENT;

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

/// A share of the maximum power that is not yet work.
pub(super) fn power<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let number = threshold(deserializer)?;
    if number <= BUSY_FROM_PERCENT {
        return Ok(Some(number));
    }
    let problem = format!("{number} is too much: from {BUSY_FROM_PERCENT} % of its maximum power on, a GPU works");
    Err(serde::de::Error::custom(problem))
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
    let writer = match namespace.as_str() {
        super::JOB_METRICS_NAMESPACE => "the machines of jobs",
        super::ACCOUNT_METRICS_NAMESPACE => "Curfew itself",
        _ => return Ok(namespace),
    };
    Err(serde::de::Error::custom(format!(
        "`{namespace}` is written by {writer}, so nothing in it shows that an instance is idle; name another namespace"
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

    let sections: BTreeMap<Key, TeamConfig> = BTreeMap::deserialize(deserializer)?;
    Ok(sections.into_iter().map(|(name, section)| (name.0, section)).collect())
}

pub(super) fn usd<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let number = f64::deserialize(deserializer)?;
    if (0.0..=USD_MAX).contains(&number) {
        return Ok(Some(number));
    }
    if number > USD_MAX {
        let problem = format!("{number:e} is more than a month's spend can be; write {USD_MAX} at most");
        return Err(serde::de::Error::custom(problem));
    }
    Err(serde::de::Error::custom(format!("{number} is not an amount; write USD, a number from 0 up")))
}

/// A price that the machines of a job can have.
pub(super) fn usd_per_hour<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let number = f64::deserialize(deserializer)?;
    // A millionth of a dollar is the smallest that there is.
    if (1e-6..=USD_PER_HOUR_MAX).contains(&number) {
        return Ok(Some(number));
    }
    let problem =
        format!("{number} is not a price of a machine; write USD an hour, a number above 0, up to {USD_PER_HOUR_MAX}");
    Err(serde::de::Error::custom(problem))
}

/// The GPUs of a job; with 0 there are only CPU jobs. It has at most 32 machines, and no instance type has more than 16 GPUs (EC2 instance types,
/// "Accelerated computing").
pub(super) fn gpus<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    WholeNumber::<u32, 0, 512>::deserialize(deserializer).map(|gpus| Some(gpus.0))
}

/// Boxes of one owner; with 0 nobody brings one up.
pub(super) fn boxes<'de, D: Deserializer<'de>, T: From<u32>>(deserializer: D) -> Result<T, D::Error> {
    WholeNumber::<u32, 0, 100>::deserialize(deserializer).map(|boxes| boxes.0.into())
}

/// The size of a volume of gp3, in GiB (EBS user guide, "General Purpose SSD volumes").
pub(super) fn home_gib<'de, D: Deserializer<'de>, T: From<u32>>(deserializer: D) -> Result<T, D::Error> {
    WholeNumber::<u32, 1, 65_536>::deserialize(deserializer).map(|size| size.0.into())
}

/// Discounts by family.
pub(super) fn discounts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Discount(#[serde(deserialize_with = "discount")] f64);

    let discounts = BTreeMap::<String, Discount>::deserialize(deserializer)?;
    Ok(discounts.into_iter().map(|(family, discount)| (family, discount.0)).collect())
}

fn discount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    struct DiscountVisitor;

    impl Visitor<'_> for DiscountVisitor {
        type Value = f64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number for a whole family, such as `p5 = 10`")
        }

        fn visit_i64<E: serde::de::Error>(self, percent: i64) -> Result<f64, E> {
            share(percent.into_deserializer())
        }

        fn visit_f64<E: serde::de::Error>(self, percent: f64) -> Result<f64, E> {
            share(percent.into_deserializer())
        }
    }

    deserializer.deserialize_any(DiscountVisitor)
}

/// A whole number from `MIN` to `MAX`.
struct WholeNumber<T, const MIN: i64, const MAX: i64>(T);

impl<'de, T: TryFrom<i64>, const MIN: i64, const MAX: i64> Deserialize<'de> for WholeNumber<T, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor<T, const MIN: i64, const MAX: i64>(PhantomData<T>);

        impl<T: TryFrom<i64>, const MIN: i64, const MAX: i64> Visitor<'_> for NumberVisitor<T, MIN, MAX> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {MIN} to {MAX}")
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
                let legal = T::try_from(number).ok().filter(|_| (MIN..=MAX).contains(&number));
                legal.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
            }
        }

        deserializer.deserialize_any(NumberVisitor::<T, MIN, MAX>(PhantomData)).map(Self)
    }
}

pub(super) fn percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    WholeNumber::<u8, 0, 100>::deserialize(deserializer).map(|percent| percent.0)
}

/// The most shares of one budget.
const NOTIFY_AT_MAX: usize = 20;

/// Shares of a budget, in whole percent: it can be exceeded ten times.
pub(super) fn notify_at<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u16>, D::Error> {
    let shares = Vec::<WholeNumber<u16, 1, 1_000>>::deserialize(deserializer)?;
    if shares.len() > NOTIFY_AT_MAX {
        let problem = format!("{} shares of a budget; write {NOTIFY_AT_MAX} at most", shares.len());
        return Err(serde::de::Error::custom(problem));
    }
    Ok(shares.into_iter().map(|share| share.0).collect())
}

pub(super) fn some_notify_at<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u16>>, D::Error> {
    notify_at(deserializer).map(Some)
}

/// A name of the IANA time zone database.
pub(super) fn time_zone<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    read_time_zone(&name).map(|_| name).map_err(serde::de::Error::custom)
}

/// A name as AWS allows it: up to 50 characters (AWS Account Management reference, "`PutAccountName`").
pub(super) fn account_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let is_legal = !name.trim().is_empty() && name.chars().count() <= 50 && !name.contains(char::is_control);
    if is_legal {
        return Ok(Some(name));
    }
    Err(serde::de::Error::custom(format!("{name:?} names no account; write 1 to 50 characters on one line")))
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

fn ids<'de, D: Deserializer<'de>>(deserializer: D, prefix: &str, what: &str) -> Result<Vec<String>, D::Error> {
    let ids = Vec::<String>::deserialize(deserializer)?;
    ids.iter().try_for_each(|id| check_id(id, prefix, what)).map(|()| ids).map_err(serde::de::Error::custom)
}

pub(super) fn subnets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    ids(deserializer, "subnet", "a subnet")
}

pub(super) fn security_groups<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    ids(deserializer, "sg", "a security group")
}

pub(super) fn images<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    ids(deserializer, "ami", "an image")
}

pub(super) fn tag_key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let key = String::deserialize(deserializer)?;
    check_tag_key(&key).map(|()| key).map_err(serde::de::Error::custom)
}

pub(super) fn tag_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let keys = Vec::<String>::deserialize(deserializer)?;
    keys.iter().try_for_each(|key| check_tag_key(key)).map(|()| keys).map_err(serde::de::Error::custom)
}

pub(super) fn check_tag_key(key: &str) -> Result<(), InvalidValue> {
    if (1..=TAG_KEY_CHARACTERS_MAX).contains(&key.chars().count()) {
        return Ok(());
    }
    Err(InvalidValue::new(format!("`{key}` is not a tag key; it has 1 to {TAG_KEY_CHARACTERS_MAX} characters")))
}
