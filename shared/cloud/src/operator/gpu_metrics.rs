//! The `CloudWatch` agent on GPU machines: two associations of Systems Manager.

use model::id::Region;
use operator::gpu_metrics::{
    AgentTargets, CONFIGURE_ASSOCIATION, INSTALL_ASSOCIATION, agent_configuration, configure_commands, remove_commands,
};
use serde_json::{Value, json};

use crate::aws::Aws;
use crate::describe::{self, DESCRIBE_INSTANCES};
use crate::error::CallError;
use crate::http_call::{AwsService, HttpCall};
use crate::observe::filter;
use crate::observe::pages::{PAGE_SIZE, all_pages};

/// Systems Manager tries again as often: the configuration fails until the agent is there.
const CONFIGURE_EVERY: &str = "rate(1 hour)";
const INSTALL_EVERY: &str = "rate(1 day)";
const RUN_SCRIPT: &str = "AWS-RunShellScript";
/// A command goes to all its machines, although some fail (Systems Manager API reference, `SendCommand`: by default none may).
const ERRORS_MAX: &str = "100%";

/// An association of Curfew's in one region.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AgentAssociation {
    id: String,
    targets: Value,
}

/// The associations of Curfew in one region.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentAssociations {
    install: Option<AgentAssociation>,
    configure: Option<AgentAssociation>,
}

impl AgentAssociations {
    /// Their number.
    #[must_use]
    pub fn count(&self) -> usize {
        [&self.install, &self.configure].into_iter().flatten().count()
    }

    /// `Targets` of the association that configures, or of the other one.
    #[must_use]
    pub fn targets(&self) -> Option<&Value> {
        self.configure.as_ref().or(self.install.as_ref()).map(|found| &found.targets)
    }
}

/// The associations of Curfew that are in a region; needs `ssm:ListAssociations`.
///
/// # Errors
/// If a call fails.
pub async fn agent_associations(aws: &Aws, region: &Region) -> Result<AgentAssociations, CallError> {
    let install = association(aws, region, INSTALL_ASSOCIATION).await?;
    Ok(AgentAssociations { install, configure: association(aws, region, CONFIGURE_ASSOCIATION).await? })
}

/// Writes both associations of one region; those that are there get these targets. Needs `ssm:CreateAssociation` and `ssm:UpdateAssociation`, with
/// `ssm:DescribeAssociation` (Systems Manager API reference, `UpdateAssociation`).
///
/// # Errors
/// If a call fails; what was written before it stays, and the command can be repeated.
pub async fn install_agent(
    aws: &Aws,
    region: &Region,
    targets: &AgentTargets,
    utilisation_only: bool,
) -> Result<(), CallError> {
    let AgentAssociations { install, configure } = agent_associations(aws, region).await?;
    let association = json!({
        "AssociationName": INSTALL_ASSOCIATION, "Name": "AWS-ConfigureAWSPackage", "ScheduleExpression": INSTALL_EVERY,
        "Parameters": { "action": ["Install"], "name": ["AmazonCloudWatchAgent"] }, "Targets": targets.to_json(),
    });
    associate(aws, region, association, install).await?;
    let commands = configure_commands(&agent_configuration(utilisation_only));
    let association = json!({
        "AssociationName": CONFIGURE_ASSOCIATION, "Name": RUN_SCRIPT, "ScheduleExpression": CONFIGURE_EVERY,
        "Parameters": { "commands": commands }, "Targets": targets.to_json(),
    });
    associate(aws, region, association, configure).await
}

/// Takes both associations back, and the configuration from the agents that run; needs `ssm:ListAssociations`, `ssm:SendCommand` and
/// `ssm:DeleteAssociation`. Returns the id of the command that goes to the machines, which is empty if it was not needed; `None` if no association is
/// there.
///
/// # Errors
/// If a call fails; the command can be repeated.
pub async fn uninstall_agent(aws: &Aws, region: &Region) -> Result<Option<String>, CallError> {
    let AgentAssociations { install, configure } = agent_associations(aws, region).await?;
    if install.is_none() && configure.is_none() {
        return Ok(None);
    }
    let mut command_id = None;
    // Without the association its targets are unknown: the command goes first.
    if let Some(AgentAssociation { targets, .. }) = &configure
        && targets.as_array().is_some_and(|targets| !targets.is_empty())
    {
        let command = json!({
            "DocumentName": RUN_SCRIPT, "Targets": targets, "Parameters": { "commands": remove_commands() },
            "MaxErrors": ERRORS_MAX,
        });
        let sent = send(aws, region, "ssm:SendCommand", "SendCommand", &command).await?;
        command_id = sent["Command"]["CommandId"].as_str().map(str::to_owned);
    }
    for AgentAssociation { id, .. } in [configure, install].into_iter().flatten() {
        let query = json!({ "AssociationId": id });
        send(aws, region, "ssm:DeleteAssociation", "DeleteAssociation", &query).await?;
    }
    Ok(Some(command_id.unwrap_or_default()))
}

/// Number of running instances of a region with a tag of one of these values, with GPUs or without; needs `ec2:DescribeInstances`.
///
/// # Errors
/// If a page could not be read.
pub async fn running_with_tag(aws: &Aws, region: &Region, key: &str, values: &[String]) -> Result<usize, CallError> {
    let mut count = 0;
    let call = aws.ec2(region).describe_instances().filters(filter("instance-state-name", ["running"]));
    let call = call.filters(filter(&format!("tag:{key}"), values.iter().map(String::as_str))).max_results(PAGE_SIZE);
    all_pages(DESCRIBE_INSTANCES, region, async |token| {
        let page = describe::page(call.clone().set_next_token(token), region).await?;
        count += page.described.len();
        Ok(page.next_token)
    })
    .await?;
    Ok(count)
}

async fn associate(
    aws: &Aws,
    region: &Region,
    mut association: Value,
    installed: Option<AgentAssociation>,
) -> Result<(), CallError> {
    if let Some(AgentAssociation { id, .. }) = installed {
        association["AssociationId"] = id.into();
        send(aws, region, "ssm:UpdateAssociation", "UpdateAssociation", &association).await?;
    } else {
        send(aws, region, "ssm:CreateAssociation", "CreateAssociation", &association).await?;
    }
    Ok(())
}

/// The list has the targets of each (Systems Manager API reference, `Association`).
async fn association(aws: &Aws, region: &Region, name: &str) -> Result<Option<AgentAssociation>, CallError> {
    let filter = json!({ "AssociationFilterList": [{ "key": "AssociationName", "value": name }] });
    let found = send(aws, region, "ssm:ListAssociations", "ListAssociations", &filter).await?;
    let all = found["Associations"].as_array().into_iter().flatten();
    let mut named = all.filter(|one| one["AssociationName"] == name);
    let read = |one: &Value| {
        Some(AgentAssociation { id: one["AssociationId"].as_str()?.to_owned(), targets: one["Targets"].clone() })
    };
    Ok(named.find_map(read))
}

async fn send(
    aws: &Aws,
    region: &Region,
    call: &'static str,
    operation: &'static str,
    body: &Value,
) -> Result<Value, CallError> {
    HttpCall::json_1_1(call, region, AwsService::Ssm, ("AmazonSSM", operation)).send(aws, body).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws};

    fn answer(body: &str) -> ReplayAnswer {
        ReplayAnswer::Raw(200, body.as_bytes().to_vec())
    }

    fn there(name: &str) -> String {
        let targets = r#"[{"Key":"InstanceIds","Values":["i-1"]}]"#;
        format!(
            r#"{{"Associations":[{{"AssociationName":"{name}","AssociationId":"id-of-{name}","Targets":{targets}}}]}}"#
        )
    }

    #[tokio::test]
    async fn what_is_there_is_changed_and_what_is_not_is_made() {
        let (aws, calls) = aws(|call| match call.name.as_str() {
            "ListAssociations" if call.parameters[0].contains(INSTALL_ASSOCIATION) => {
                answer(&there(INSTALL_ASSOCIATION))
            }
            "ListAssociations" => answer(r#"{"Associations":[]}"#),
            _ => answer("{}"),
        });
        let region = Region::from("eu-west-1");
        let found = agent_associations(&aws, &region).await.unwrap();
        assert_eq!((found.count(), found.targets().unwrap()[0]["Values"][0].as_str()), (1, Some("i-1")));
        let targets = AgentTargets::parse_tag("Team=vision").unwrap();
        install_agent(&aws, &region, &targets, false).await.unwrap();
        let names = calls.names();
        let expect = ["ListAssociations", "ListAssociations", "UpdateAssociation", "CreateAssociation"];
        assert_eq!(names[2..], expect);
        let bodies = calls.said();
        assert!(bodies[4].contains("id-of-curfew-gpu-metrics-agent"), "{}", bodies[4]);
        assert!(bodies[5].contains("append-config") && bodies[5].contains("tag:Team"), "{}", bodies[5]);
        assert!(calls.recorded().iter().all(|call| call.region == "eu-west-1"));
    }

    #[tokio::test]
    async fn the_machines_get_the_command_before_its_targets_are_gone() {
        let (sent, calls) = aws(|call| match call.name.as_str() {
            "ListAssociations" if call.parameters[0].contains(INSTALL_ASSOCIATION) => {
                answer(&there(INSTALL_ASSOCIATION))
            }
            "ListAssociations" => answer(&there(CONFIGURE_ASSOCIATION)),
            "SendCommand" => answer(r#"{"Command":{"CommandId":"c-1"}}"#),
            _ => answer("{}"),
        });
        assert_eq!(uninstall_agent(&sent, &"eu-west-1".into()).await.unwrap().as_deref(), Some("c-1"));
        let deletions = ["DeleteAssociation", "DeleteAssociation"];
        assert_eq!(calls.names(), [&["ListAssociations", "ListAssociations", "SendCommand"][..], &deletions].concat());
        let command = &calls.said()[2];
        assert!(
            ["remove-config", "i-1", r#""MaxErrors":"100%""#].iter().all(|part| command.contains(part)),
            "{command}"
        );
        assert!(calls.said()[3].contains(CONFIGURE_ASSOCIATION), "{}", calls.said()[3]);

        let (refused, calls) = aws(|call| match call.name.as_str() {
            "ListAssociations" => answer(&there(CONFIGURE_ASSOCIATION)),
            _ => ReplayAnswer::Raw(400, br#"{"__type":"AccessDeniedException"}"#.to_vec()),
        });
        assert!(uninstall_agent(&refused, &"eu-west-1".into()).await.is_err());
        assert!(!calls.names().iter().any(|name| name == "DeleteAssociation"), "{:?}", calls.names());
    }

    #[tokio::test]
    async fn nothing_to_take_back_is_no_error() {
        let (aws, _) = aws(|_| answer(r#"{"Associations":[]}"#));
        assert_eq!(uninstall_agent(&aws, &"eu-west-1".into()).await.unwrap(), None);
    }
}
