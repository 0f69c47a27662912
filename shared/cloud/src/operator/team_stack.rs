//! The role of one team's machines: the `CloudFormation` stack that makes it, and whether IAM has its instance profile.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_cloudformation::types::{Capability, Parameter};
use aws_sdk_iam::error::ProvideErrorMetadata;
use ports::aws_words::{NO_SUCH_STACK, NO_UPDATES};

use crate::aws::Aws;
use crate::error::{CallError, call_error};

const CREATE: &str = "cloudformation:CreateStack";
const UPDATE: &str = "cloudformation:UpdateStack";
const DESCRIBE: &str = "cloudformation:DescribeStacks";
const DELETE: &str = "cloudformation:DeleteStack";
const GET_PROFILE: &str = "iam:GetInstanceProfile";
const LIST_PROFILES: &str = "iam:ListInstanceProfiles";

/// The path of every role and instance profile that `run-jobs` may give to a machine.
const PATH: &str = "/curfew/";

/// Pages of 100 instance profiles; an account has 1,000 (IAM user guide, "IAM and AWS STS quotas").
const PAGES_MAX: usize = 50;

/// A request for a stack of `deploy/team-role.yaml`.
#[derive(Debug, Clone)]
pub struct TeamStackRequest<'a> {
    /// The stack's name.
    pub stack: &'a str,
    pub template: &'a str,
    /// Its parameters by name; `None` keeps the stack's value.
    pub parameters: Vec<(&'static str, Option<String>)>,
}

/// The current status of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamStack {
    /// `StackStatus`, such as `CREATE_COMPLETE`.
    pub status: String,
    /// The reason, if CloudFormation gives one.
    pub reason: Option<String>,
    /// Its parameters by name.
    pub parameters: BTreeMap<String, String>,
}

/// A stack; `None` if there is none of that name.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn team_stack(aws: &Aws, stack: &str) -> Result<Option<TeamStack>, CallError> {
    let answer = match aws.cloudformation().describe_stacks().stack_name(stack).send().await {
        Ok(answer) => answer,
        Err(error) => {
            let error = call_error(DESCRIBE, aws.home(), &error);
            return if error.message.contains(NO_SUCH_STACK) { Ok(None) } else { Err(error) };
        }
    };
    Ok(answer.stacks().first().map(|stack| TeamStack {
        status: stack.stack_status().map_or_else(String::new, |status| status.as_str().to_owned()),
        reason: stack.stack_status_reason().map(str::to_owned),
        parameters: stack
            .parameters()
            .iter()
            .filter_map(|parameter| {
                Some((parameter.parameter_key()?.to_owned(), parameter.parameter_value()?.to_owned()))
            })
            .collect(),
    }))
}

/// Begins to make a stack.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn create_team_stack(aws: &Aws, request: &TeamStackRequest<'_>) -> Result<(), CallError> {
    let given = request.parameters.iter().filter_map(|(key, value)| Some(parameter(key, Some(value.as_ref()?))));
    let call = aws
        .cloudformation()
        .create_stack()
        .stack_name(request.stack)
        .template_body(request.template)
        .capabilities(Capability::CapabilityNamedIam)
        .set_parameters(Some(given.collect()));
    call.send().await.map(drop).map_err(|error| call_error(CREATE, aws.home(), &error))
}

/// Begins to update a stack; returns whether there is anything to update.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn update_team_stack(aws: &Aws, request: &TeamStackRequest<'_>) -> Result<bool, CallError> {
    let all = request.parameters.iter().map(|(key, value)| parameter(key, value.as_deref()));
    let call = aws
        .cloudformation()
        .update_stack()
        .stack_name(request.stack)
        .template_body(request.template)
        .capabilities(Capability::CapabilityNamedIam)
        .set_parameters(Some(all.collect()));
    match call.send().await {
        Ok(_) => Ok(true),
        Err(error) if error.message().is_some_and(|said| said.contains(NO_UPDATES)) => Ok(false),
        Err(error) => Err(call_error(UPDATE, aws.home(), &error)),
    }
}

fn parameter(key: &str, value: Option<&str>) -> Parameter {
    match value {
        Some(value) => Parameter::builder().parameter_key(key).parameter_value(value).build(),
        None => Parameter::builder().parameter_key(key).use_previous_value(true).build(),
    }
}

/// Begins to delete a stack. An absent one is no error.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn delete_team_stack(aws: &Aws, stack: &str) -> Result<(), CallError> {
    let answer = aws.cloudformation().delete_stack().stack_name(stack).send().await;
    answer.map(drop).map_err(|error| call_error(DELETE, aws.home(), &error))
}

/// Whether IAM has this instance profile.
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
    let mut pages = aws.iam().list_instance_profiles().path_prefix(PATH).into_paginator().send();
    let mut names = BTreeSet::new();
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next().await else { break };
        let page = page.map_err(|error| call_error(LIST_PROFILES, aws.home(), &error))?;
        let of_curfew = page.instance_profiles().iter().filter(|profile| profile.path() == PATH);
        names.extend(of_curfew.map(|profile| profile.instance_profile_name().to_owned()));
    }
    Ok(names)
}
