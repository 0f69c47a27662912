//! The deployment of Curfew: the resources of its `CloudFormation` stack.

use std::collections::BTreeMap;

use model::id::Region;

use super::stack;
use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind};

const CALL: &str = "cloudformation:DescribeStackResources";

/// The resources of the stack, by the logical ids of `template.yaml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// The stack's name.
    pub stack: String,
    /// The state bucket.
    pub bucket: String,
    /// The topic's ARN.
    pub topic_arn: String,
    /// Each function's deployed name and its role's name, by its own name, such as `reap-instances`.
    pub functions: BTreeMap<String, DeployedFunction>,
    /// The physical id of each resource, by its logical id.
    pub made: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeployedFunction {
    /// The Lambda function's name.
    pub name: String,
    /// Its role's name.
    pub role: String,
}

impl Deployment {
    /// The log group of each function, by the function's own name.
    pub fn log_groups(&self) -> impl Iterator<Item = (String, String)> {
        let groups =
            self.made.iter().filter_map(|(id, group)| Some((kebab_case(id.strip_suffix("Logs")?), group.clone())));
        groups.filter(|(function, _)| self.functions.contains_key(function))
    }
}

/// The resources of this stack, in the home region; `None` if there is no such stack.
///
/// # Errors
/// If `CloudFormation` refused, or the stack is not one of Curfew's.
pub async fn deployment(aws: &Aws, name: &str) -> Result<Option<Deployment>, CallError> {
    let Some(made) = stack::resources(aws, name).await? else { return Ok(None) };
    let (Some(bucket), Some(topic_arn)) = (made.get("StateBucket"), made.get("Topic")) else {
        return Err(not_ours(aws.home(), name));
    };
    let functions = made.iter().filter_map(|(id, role)| {
        let id = id.strip_suffix("Role")?;
        let name = made.get(id)?;
        Some((kebab_case(id), DeployedFunction { name: name.clone(), role: role.clone() }))
    });
    Ok(Some(Deployment {
        stack: name.to_owned(),
        bucket: bucket.clone(),
        topic_arn: topic_arn.clone(),
        functions: functions.collect(),
        made,
    }))
}

fn not_ours(region: &Region, stack: &str) -> CallError {
    let message = format!(
        "the stack {stack} made no StateBucket and no Topic, so it is not one of Curfew's; name another by --stack"
    );
    CallError::new(CALL, region, CallErrorKind::Other, message)
}

/// `ReapInstances` is `reap-instances`.
fn kebab_case(pascal: &str) -> String {
    let mut name = String::new();
    for (place, letter) in pascal.char_indices() {
        if letter.is_ascii_uppercase() && place > 0 {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_called_as_its_directory() {
        assert_eq!(kebab_case("ReapInstances"), "reap-instances");
        assert_eq!(kebab_case(""), "");
    }
}
