//! Stacks of `CloudFormation`: the only module that calls it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use model::id::Region;
use ports::aws_words::{NO_SUCH_STACK, NO_UPDATES};
use signed_call::QueryWriter;

use super::query_call::{QueryCall, write_list};
use crate::aws::Aws;
use crate::describe::XmlElement;
use crate::error::CallError;

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

/// The template makes roles with names of their own (`CloudFormation` API reference, `CreateStack`).
const CAPABILITY_NAMED_IAM: &str = "CAPABILITY_NAMED_IAM";
/// Serverless functions in a template are a macro.
const CAPABILITY_AUTO_EXPAND: &str = "CAPABILITY_AUTO_EXPAND";

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

impl Stack {
    /// The state bucket, if it is a stack of Curfew.
    #[must_use]
    pub fn state_bucket(&self) -> Option<&String> {
        self.outputs.get("StateBucketName")
    }
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
    let call = QueryCall::cloudformation(DESCRIBE, aws.home());
    match call.read(aws, |form| form.prefix("StackName").string(name)).await {
        Ok(answer) => Ok(answer.members("Stacks").next().map(stack)),
        Err(error) => unless_absent(error),
    }
}

/// The stacks of a region whose name begins so.
///
/// # Errors
/// If a page could not be read.
pub async fn stacks_named(aws: &Aws, region: &Region, begins: &str) -> Result<Vec<Stack>, CallError> {
    let mut found = Vec::new();
    let read_page = |page: &XmlElement| {
        found.extend(page.members("Stacks").map(stack).filter(|stack| stack.name.starts_with(begins)));
        ControlFlow::Continue(())
    };
    QueryCall::cloudformation(DESCRIBE, region).read_pages(aws, STACK_PAGES_MAX, |_| {}, read_page).await?;
    Ok(found)
}

/// The physical id of each resource of a stack of the home region, by its logical id; `None` if there is no such stack.
///
/// # Errors
/// If `CloudFormation` refused.
pub(super) async fn resources(aws: &Aws, name: &str) -> Result<Option<BTreeMap<String, String>>, CallError> {
    let call = QueryCall::cloudformation(RESOURCES, aws.home());
    match call.read(aws, |form| form.prefix("StackName").string(name)).await {
        Ok(answer) => Ok(Some(pairs(&answer, "StackResources", ["LogicalResourceId", "PhysicalResourceId"]))),
        Err(error) => unless_absent(error),
    }
}

/// Begins to make a stack in the home region.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn create_stack(aws: &Aws, request: &StackRequest<'_>) -> Result<(), CallError> {
    let given = request.parameters.iter().filter_map(|(key, value)| Some((*key, Some(value.as_deref()?))));
    QueryCall::cloudformation(CREATE, aws.home()).request(aws, |form| write_request(form, request, given)).await
}

/// Begins to update a stack of the home region; returns whether there is anything to update.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn update_stack(aws: &Aws, request: &StackRequest<'_>) -> Result<bool, CallError> {
    let all = request.parameters.iter().map(|(key, value)| (*key, value.as_deref()));
    let call = QueryCall::cloudformation(UPDATE, aws.home());
    is_accepted(call.request(aws, |form| write_request(form, request, all)).await)
}

fn write_request<'a>(
    form: &mut QueryWriter<'_>,
    request: &StackRequest<'_>,
    parameters: impl Iterator<Item = (&'a str, Option<&'a str>)>,
) {
    form.prefix("StackName").string(request.stack);
    form.prefix("TemplateBody").string(request.template);
    write_list(form.prefix("Capabilities"), [CAPABILITY_NAMED_IAM]);
    write_parameters(form, parameters);
    // An update without tags keeps those of the stack (`CloudFormation` API reference, `UpdateStack`).
    let Some(tags) = &request.tags else { return };
    let mut list = form.prefix("Tags").start_list(false, None);
    for (key, value) in tags {
        let mut tag = list.entry();
        tag.prefix("Key").string(key);
        tag.prefix("Value").string(value);
    }
    list.finish();
}

/// Writes parameters by name; `None` keeps the stack's value.
fn write_parameters<'a>(form: &mut QueryWriter<'_>, parameters: impl Iterator<Item = (&'a str, Option<&'a str>)>) {
    let mut list = form.prefix("Parameters").start_list(false, None);
    for (key, value) in parameters {
        let mut parameter = list.entry();
        parameter.prefix("ParameterKey").string(key);
        match value {
            Some(value) => parameter.prefix("ParameterValue").string(value),
            None => parameter.prefix("UsePreviousValue").boolean(true),
        }
    }
    list.finish();
}

/// Begins to change one parameter of a stack of the home region; returns whether that changes anything. Its template and its other parameters
/// stay, and so do its tags and its role, because the request names none (`CloudFormation` API reference, `UpdateStack`). A parameter that the
/// request left out would get the template's default. By the same `token` a repeated request is the same one, and the events of this update
/// are found.
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
    let all = stack.parameters.keys().map(|other| (other.as_str(), (other == key).then_some(value)));
    let call = QueryCall::cloudformation(UPDATE, aws.home());
    let answer = call.request(aws, |form| {
        form.prefix("StackName").string(&stack.name);
        form.prefix("UsePreviousTemplate").boolean(true);
        write_list(form.prefix("Capabilities"), [CAPABILITY_NAMED_IAM, CAPABILITY_AUTO_EXPAND]);
        form.prefix("ClientRequestToken").string(token);
        write_parameters(form, all);
    });
    is_accepted(answer.await)
}

/// Begins to delete a stack. An absent one is no error.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn delete_stack(aws: &Aws, region: &Region, name: &str, token: &str) -> Result<(), CallError> {
    let write = |form: &mut QueryWriter<'_>| {
        form.prefix("StackName").string(name);
        form.prefix("ClientRequestToken").string(token);
    };
    QueryCall::cloudformation(DELETE, region).request(aws, write).await
}

/// The first resource that failed in the operation of that token; `None` if its events name none.
///
/// # Errors
/// If `CloudFormation` refused.
pub async fn first_failure(aws: &Aws, stack: &str, token: &str) -> Result<Option<FailedResource>, CallError> {
    let mut first = None;
    let read_page = |page: &XmlElement| {
        let is_in_operation = |event: &&XmlElement| event.text("ClientRequestToken") == Some(token);
        let events = page.members("StackEvents").filter(is_in_operation);
        first = events.filter_map(failed_resource).next_back().or(first.take());
        // The newest event comes first, and another operation came before this one.
        let is_over = page.members("StackEvents").any(|event| !is_in_operation(&event));
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let call = QueryCall::cloudformation(EVENTS, aws.home());
    call.read_pages(aws, EVENT_PAGES_MAX, |form| form.prefix("StackName").string(stack), read_page).await?;
    Ok(first)
}

fn failed_resource(event: &XmlElement) -> Option<FailedResource> {
    let status = event.text("ResourceStatus")?;
    let reason = event.text("ResourceStatusReason")?;
    let is_cause = status.ends_with("_FAILED") && !reason.contains(CANCELLED);
    is_cause.then(|| FailedResource {
        logical_id: event.text("LogicalResourceId").unwrap_or_default().to_owned(),
        kind: event.text("ResourceType").unwrap_or_default().to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
    })
}

fn stack(stack: &XmlElement) -> Stack {
    Stack {
        name: stack.text("StackName").unwrap_or_default().to_owned(),
        status: stack.text("StackStatus").unwrap_or_default().to_owned(),
        reason: stack.text("StackStatusReason").map(str::to_owned),
        parameters: pairs(stack, "Parameters", ["ParameterKey", "ParameterValue"]),
        outputs: pairs(stack, "Outputs", ["OutputKey", "OutputValue"]),
        tags: pairs(stack, "Tags", ["Key", "Value"]),
    }
}

/// The members of a list that have both of these elements: the text of the second by that of the first.
fn pairs(answer: &XmlElement, list: &str, [key, value]: [&str; 2]) -> BTreeMap<String, String> {
    let members = answer.members(list);
    members.filter_map(|member| Some((member.text(key)?.to_owned(), member.text(value)?.to_owned()))).collect()
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

#[cfg(test)]
mod tests;
