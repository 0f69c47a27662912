//! The tags of a machine and its volumes, from the moment that there are any.

use model::config::Config;
use model::curfew_tags;
use model::curfew_tags::{ATTEMPT, EXPIRES_AT, JOB, MODE, TAGS_MAX};
use model::instance::Tags;
use model::moment::after;

use super::{EXPIRES_AFTER, Job, LaunchRequest};

/// A job's machine ends when it should, whatever mode its team is in: the launch was the opt-in.
const ENFORCE: &str = "enforce";

/// The tag by which people call a machine.
const NAME: &str = "Name";

/// Every tag of an attempt's instance and of its volumes. Where there would be more than EC2 takes, those of the spec that the account does
/// not require are left out, the last by name first.
///
/// Curfew's own say whose machine it is, and when `reap-instances` ends it from outside: [`EXPIRES_AFTER`] the attempt's end. A spec
/// changes none of them, nor adds one of `curfew`: a protected machine would never end. The team is the one whose job it is.
#[must_use]
pub fn launch_tags(job: &Job, launch: &LaunchRequest, config: &Config) -> Tags {
    let own = [
        (MODE.to_owned(), ENFORCE.to_owned()),
        (ATTEMPT.to_owned(), launch.attempt.to_string()),
        (EXPIRES_AT.to_owned(), after(launch.ends_at, EXPIRES_AFTER).to_string()),
    ];
    all_tags(job, own, config)
}

/// Every tag of a group that is made for the machines of a job: those of its machines, without what is only an instance's.
#[must_use]
pub fn group_tags(job: &Job, config: &Config) -> Tags {
    all_tags(job, [], config)
}

fn all_tags(job: &Job, own: impl IntoIterator<Item = (String, String)>, config: &Config) -> Tags {
    let keys = &config.tags;
    let spec_tags = || job.terms.tags.iter().filter(|(key, _)| !curfew_tags::begins_with_curfew(key));
    let mut tags = Tags::from([(keys.team.clone(), job.job.team.as_str().to_owned())]);
    tags.extend([(JOB.to_owned(), job.job.to_string())]);
    tags.extend(own);
    if let Some(owner) = &job.owner {
        tags.entry(keys.owner.clone()).or_insert_with(|| owner.clone());
    }
    let (required, others): (Vec<_>, Vec<_>) =
        spec_tags().partition(|(key, _)| keys.required.contains(key) || **key == keys.owner || *key == NAME);
    let name = (NAME.to_owned(), job.job.job.clone());
    let wanted = required.into_iter().chain(others).map(|(key, value)| (key.clone(), value.clone()));
    let named = job.terms.tags.contains_key(NAME);
    let wanted = (!named).then_some(name).into_iter().chain(wanted);
    for (key, value) in wanted {
        if tags.len() < TAGS_MAX {
            tags.entry(key).or_insert(value);
        }
    }
    tags
}

#[cfg(test)]
mod tests;
