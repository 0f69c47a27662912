//! The instance profiles of machines of jobs, as IAM has them.

use std::collections::BTreeSet;

use aws_sdk_iam::error::ProvideErrorMetadata;

use crate::aws::Aws;
use crate::error::{CallError, call_error};

const GET_PROFILE: &str = "iam:GetInstanceProfile";
const LIST_PROFILES: &str = "iam:ListInstanceProfiles";

/// The end of the path of every role and instance profile that `run-jobs` may give to a machine; before it comes the stack's `RolePath`.
const PATH_END: &str = "/curfew/";

/// Pages of 100 instance profiles; an account has 1,000 (IAM user guide, "IAM and AWS STS quotas").
const PAGES_MAX: usize = 50;

/// Returns `true` if IAM has this instance profile.
///
/// # Errors
/// If IAM refused.
pub async fn has_instance_profile(aws: &Aws, name: &str) -> Result<bool, CallError> {
    match aws.iam().get_instance_profile().instance_profile_name(name).send().await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some("NoSuchEntity") => Ok(false),
        Err(error) => Err(call_error(GET_PROFILE, aws.home(), &error)),
    }
}

/// The ARN of the role of an instance profile; `None` if there is none.
///
/// # Errors
/// If IAM refused.
pub async fn profile_role_arn(aws: &Aws, name: &str) -> Result<Option<String>, CallError> {
    match aws.iam().get_instance_profile().instance_profile_name(name).send().await {
        Ok(found) => {
            let role = found.instance_profile.and_then(|profile| profile.roles.into_iter().next());
            Ok(role.map(|role| role.arn))
        }
        Err(error) if error.code() == Some("NoSuchEntity") => Ok(None),
        Err(error) => Err(call_error(GET_PROFILE, aws.home(), &error)),
    }
}

/// The names of the instance profiles that `run-jobs` may give to machines.
///
/// # Errors
/// If IAM refused.
pub async fn machine_profiles(aws: &Aws) -> Result<BTreeSet<String>, CallError> {
    let mut pages = aws.iam().list_instance_profiles().into_paginator().send();
    let mut names = BTreeSet::new();
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next().await else { break };
        let page = page.map_err(|error| call_error(LIST_PROFILES, aws.home(), &error))?;
        let of_curfew = page.instance_profiles().iter().filter(|profile| profile.path().ends_with(PATH_END));
        names.extend(of_curfew.map(|profile| profile.instance_profile_name().to_owned()));
    }
    Ok(names)
}
