//! Stacks of `CloudFormation`: the only module that calls it.

use std::collections::BTreeMap;

use aws_sdk_cloudformation::types::{self, Capability, Parameter, StackEvent, Tag};
use model::id::Region;
use ports::aws_words::{NO_SUCH_STACK, NO_UPDATES};

use crate::aws::Aws;
use crate::error::{CallError, call_error};

const CREATE: &str = "cloudformation:CreateStack";
const UPDATE: &str = "cloudformation:UpdateStack";
const DESCRIBE: &str = "cloudformation:DescribeStacks";
const EVENTS: &str = "cloudformation:DescribeStackEvents";
const RESOURCES: &str = "cloudformation:DescribeStackResources";
const DELETE: &str = "cloudformation:DeleteStack";

/// An account has 2,000 stacks a region by default (`CloudFormation` user guide, "Understand CloudFormation quotas"), and a page has at most 100.
const STACK_PAGES_MAX: usize = 100;

/// Pages of 100 events, newest first; an update of the stack makes fewer than 300.
const EVENT_PAGES_MAX: usize = 10;

/// The reason of a resource that stopped because of another one (`CloudFormation` user guide, "Troubleshooting CloudFormation").
const CANCELLED: &str = "cancelled";

/// A stack of a template that comes with the command.
#[derive(Debug, Clone)]
pub struct StackRequest<'a> {
    /// The stack's name.
    pub stack: &'a str,
    pub template: &'a str,
    /// Its parameters by name; `None` keeps the stack's value.
    pub parameters: Vec<(&'static str, Option<String>)>,
    /// Its tags, which `CloudFormation` gives to the role; `None` keeps those of the stack.
    pub tags: Option<BTreeMap<String, String>>,
}

/// A stack as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    pub name: String,
    /// `StackStatus`, such as `CREATE_COMPLETE`.
    pub status: String,
    /// The reason, if CloudFormation gives one.
    pub reason: Option<String>,
    /// Its parameters by name.
    pub parameters: BTreeMap<String, String>,
    /// Its outputs by name.
    pub outputs: BTreeMap<String, String>,
    pub tags: BTreeMap<String, String>,
}

/// A resource that failed, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedResource {
    pub logical_id: String,
    /// `ResourceType`, such as `AWS::Lambda::Function`.
    pub kind: String,
    /// `ResourceStatus`, such as `UPDATE_FAILED`.
    pub status: String,
    pub reason: String,
}

/// A stack of the home region; `None` if there is none of that name.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn read_stack(aws: &Aws, name: &str) -> Result<Option<Stack>, CallError> {
    match aws.cloudformation(aws.home()).describe_stacks().stack_name(name).send().await {
        Ok(answer) => Ok(answer.stacks().first().map(stack)),
        Err(error) => unless_absent(call_error(DESCRIBE, aws.home(), &error)),
    }
}

/// The stacks of a region whose name begins so.
///
/// # Errors
/// If a page could not be read.
pub async fn stacks_named(aws: &Aws, region: &Region, begins: &str) -> Result<Vec<Stack>, CallError> {
    let mut pages = aws.cloudformation(region).describe_stacks().into_paginator().send();
    let mut found = Vec::new();
    for _ in 0..STACK_PAGES_MAX {
        let Some(page) = pages.next().await else { break };
        let page = page.map_err(|error| call_error(DESCRIBE, region, &error))?;
        found.extend(page.stacks().iter().map(stack).filter(|stack| stack.name.starts_with(begins)));
    }
    Ok(found)
}

/// The physical id of each resource of a stack of the home region, by its logical id; `None` if there is no such stack.
///
/// # Errors
/// If `CloudFormation` refused.
pub(super) async fn resources(aws: &Aws, name: &str) -> Result<Option<BTreeMap<String, String>>, CallError> {
    let made = match aws.cloudformation(aws.home()).describe_stack_resources().stack_name(name).send().await {
        Ok(answer) => answer.stack_resources.unwrap_or_default(),
        Err(error) => return unless_absent(call_error(RESOURCES, aws.home(), &error)),
    };
    let ids = made.into_iter().filter_map(|one| Some((one.logical_resource_id?, one.physical_resource_id?)));
    Ok(Some(ids.collect()))
}

/// Begins to make a stack in the home region.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn create_stack(aws: &Aws, request: &StackRequest<'_>) -> Result<(), CallError> {
    let given = request.parameters.iter().filter_map(|(key, value)| Some(parameter(key, Some(value.as_ref()?))));
    let call = aws
        .cloudformation(aws.home())
        .create_stack()
        .stack_name(request.stack)
        .template_body(request.template)
        .capabilities(Capability::CapabilityNamedIam)
        .set_parameters(Some(given.collect()))
        .set_tags(tags(request));
    call.send().await.map(drop).map_err(|error| call_error(CREATE, aws.home(), &error))
}

/// Begins to update a stack of the home region; returns whether there is anything to update.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn update_stack(aws: &Aws, request: &StackRequest<'_>) -> Result<bool, CallError> {
    let all = request.parameters.iter().map(|(key, value)| parameter(key, value.as_deref()));
    let call = aws
        .cloudformation(aws.home())
        .update_stack()
        .stack_name(request.stack)
        .template_body(request.template)
        .capabilities(Capability::CapabilityNamedIam)
        .set_parameters(Some(all.collect()))
        .set_tags(tags(request));
    is_accepted(call.send().await.map_err(|error| call_error(UPDATE, aws.home(), &error)))
}

/// An update without tags keeps those of the stack (`CloudFormation` API reference, `UpdateStack`).
fn tags(request: &StackRequest<'_>) -> Option<Vec<Tag>> {
    let given = request.tags.as_ref()?;
    Some(given.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect())
}

/// Begins to change one parameter of a stack of the home region; returns whether that changes anything. Its template and its other parameters
/// stay, and so do its tags and its role, because the request names none (`CloudFormation` API reference, `UpdateStack`). A parameter that the
/// request left out would get the template's default. Serverless functions in a template are a macro, which has a capability of its own. By the
/// same `token` a repeated request is the same one, and the events of this update are found.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn change_parameter(
    aws: &Aws,
    stack: &Stack,
    key: &str,
    value: &str,
    token: &str,
) -> Result<bool, CallError> {
    let all = stack.parameters.keys().map(|other| parameter(other, (other == key).then_some(value)));
    let call = aws
        .cloudformation(aws.home())
        .update_stack()
        .stack_name(&stack.name)
        .use_previous_template(true)
        .capabilities(Capability::CapabilityNamedIam)
        .capabilities(Capability::CapabilityAutoExpand)
        .client_request_token(token)
        .set_parameters(Some(all.collect()));
    is_accepted(call.send().await.map_err(|error| call_error(UPDATE, aws.home(), &error)))
}

/// Begins to delete a stack. An absent one is no error.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn delete_stack(aws: &Aws, region: &Region, name: &str, token: &str) -> Result<(), CallError> {
    let call = aws.cloudformation(region).delete_stack().stack_name(name).client_request_token(token);
    call.send().await.map(drop).map_err(|error| call_error(DELETE, region, &error))
}

/// The first resource that failed in the operation of that token; `None` if its events name none.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn first_failure(aws: &Aws, stack: &str, token: &str) -> Result<Option<FailedResource>, CallError> {
    let mut pages = aws.cloudformation(aws.home()).describe_stack_events().stack_name(stack).into_paginator().send();
    let mut first = None;
    for _ in 0..EVENT_PAGES_MAX {
        let Some(page) = pages.next().await else { break };
        let page = page.map_err(|error| call_error(EVENTS, aws.home(), &error))?;
        let of_operation = |event: &&StackEvent| event.client_request_token() == Some(token);
        // The newest event comes first, and another operation came before this one.
        let is_over = page.stack_events().iter().any(|event| !of_operation(&event));
        first = page.stack_events().iter().filter(of_operation).filter_map(failed_resource).next_back().or(first);
        if is_over {
            break;
        }
    }
    Ok(first)
}

fn failed_resource(event: &StackEvent) -> Option<FailedResource> {
    let status = event.resource_status()?.as_str();
    let reason = event.resource_status_reason()?;
    let is_cause = status.ends_with("_FAILED") && !reason.contains(CANCELLED);
    is_cause.then(|| FailedResource {
        logical_id: event.logical_resource_id().unwrap_or_default().to_owned(),
        kind: event.resource_type().unwrap_or_default().to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
    })
}

fn stack(stack: &types::Stack) -> Stack {
    let parameters = stack.parameters().iter();
    let outputs = stack.outputs().iter();
    Stack {
        name: stack.stack_name().unwrap_or_default().to_owned(),
        status: stack.stack_status().map_or_else(String::new, |status| status.as_str().to_owned()),
        reason: stack.stack_status_reason().map(str::to_owned),
        parameters: parameters
            .filter_map(|one| Some((one.parameter_key()?.to_owned(), one.parameter_value()?.to_owned())))
            .collect(),
        outputs: outputs
            .filter_map(|one| Some((one.output_key()?.to_owned(), one.output_value()?.to_owned())))
            .collect(),
        tags: stack.tags().iter().filter_map(|tag| Some((tag.key()?.to_owned(), tag.value()?.to_owned()))).collect(),
    }
}

fn parameter(key: &str, value: Option<&str>) -> Parameter {
    match value {
        Some(value) => Parameter::builder().parameter_key(key).parameter_value(value).build(),
        None => Parameter::builder().parameter_key(key).use_previous_value(true).build(),
    }
}

fn is_accepted<T>(answer: Result<T, CallError>) -> Result<bool, CallError> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.message.contains(NO_UPDATES) => Ok(false),
        Err(error) => Err(error),
    }
}

fn unless_absent<T>(error: CallError) -> Result<Option<T>, CallError> {
    if error.message.contains(NO_SUCH_STACK) { Ok(None) } else { Err(error) }
}
