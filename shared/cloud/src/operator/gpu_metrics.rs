//! The `CloudWatch` agent on GPU machines: a parameter with its configuration, and two associations of Systems Manager.

use model::id::Region;
use operator::gpu_metrics::{AgentTargets, CONFIGURE_ASSOCIATION, INSTALL_ASSOCIATION, PARAMETER};
use serde_json::{Value, json};

use crate::aws::Aws;
use crate::error::CallError;
use crate::http_call::{AwsService, HttpCall};

/// Systems Manager tries again as often: the configuration fails until the agent is there.
const CONFIGURE_EVERY: &str = "rate(1 hour)";
const INSTALL_EVERY: &str = "rate(1 day)";
const MANAGE_AGENT: &str = "AmazonCloudWatch-ManageAgent";

/// Writes the configuration and both associations of one region; what is there already gets the new targets. Needs `ssm:PutParameter`,
/// `ssm:ListAssociations`, `ssm:CreateAssociation` and `ssm:UpdateAssociation`.
///
/// # Errors
/// If a call fails; what was written before it stays, and the command can be repeated.
pub async fn install_agent(
    aws: &Aws,
    region: &Region,
    targets: &AgentTargets,
    configuration: &str,
) -> Result<(), CallError> {
    let parameter = json!({ "Name": PARAMETER, "Type": "String", "Value": configuration, "Overwrite": true });
    send(aws, region, "ssm:PutParameter", "PutParameter", &parameter).await?;
    let install = json!({ "action": ["Install"], "name": ["AmazonCloudWatchAgent"] });
    associate(aws, region, targets, (INSTALL_ASSOCIATION, "AWS-ConfigureAWSPackage", &install, INSTALL_EVERY)).await?;
    let configure = manage_agent("configure (append)");
    associate(aws, region, targets, (CONFIGURE_ASSOCIATION, MANAGE_AGENT, &configure, CONFIGURE_EVERY)).await
}

/// Takes both associations and the parameter back, and the configuration from the agents that run; needs `ssm:ListAssociations`,
/// `ssm:DescribeAssociation`, `ssm:DeleteAssociation`, `ssm:SendCommand` and `ssm:DeleteParameter`. Returns `false` if none of them is there.
///
/// # Errors
/// If a call fails; the command can be repeated.
pub async fn uninstall_agent(aws: &Aws, region: &Region) -> Result<bool, CallError> {
    let mut was_there = false;
    if let Some(id) = association_id(aws, region, CONFIGURE_ASSOCIATION).await? {
        let query = json!({ "AssociationId": id });
        let found = send(aws, region, "ssm:DescribeAssociation", "DescribeAssociation", &query).await?;
        // Without the association nothing adds the configuration again.
        send(aws, region, "ssm:DeleteAssociation", "DeleteAssociation", &query).await?;
        let targets = found["AssociationDescription"]["Targets"].clone();
        if targets.as_array().is_some_and(|targets| !targets.is_empty()) {
            let parameters = manage_agent("configure (remove)");
            let command = json!({ "DocumentName": MANAGE_AGENT, "Targets": targets, "Parameters": parameters });
            send(aws, region, "ssm:SendCommand", "SendCommand", &command).await?;
        }
        was_there = true;
    }
    if let Some(id) = association_id(aws, region, INSTALL_ASSOCIATION).await? {
        let query = json!({ "AssociationId": id });
        send(aws, region, "ssm:DeleteAssociation", "DeleteAssociation", &query).await?;
        was_there = true;
    }
    match send(aws, region, "ssm:DeleteParameter", "DeleteParameter", &json!({ "Name": PARAMETER })).await {
        Ok(_) => Ok(true),
        Err(error) if error.code.as_deref() == Some("ParameterNotFound") => Ok(was_there),
        Err(error) => Err(error),
    }
}

/// Parameters of the document by which the agent takes or drops the configuration (`CloudWatch` user guide, "Install the `CloudWatch` agent using
/// AWS Systems Manager").
fn manage_agent(action: &str) -> Value {
    json!({
        "action": [action], "mode": ["ec2"], "optionalRestart": ["yes"],
        "optionalConfigurationSource": ["ssm"], "optionalConfigurationLocation": [PARAMETER],
    })
}

async fn associate(
    aws: &Aws,
    region: &Region,
    targets: &AgentTargets,
    (name, document, parameters, schedule): (&str, &str, &Value, &str),
) -> Result<(), CallError> {
    let mut association = json!({
        "AssociationName": name, "Name": document, "Parameters": parameters, "Targets": targets.to_json(),
        "ScheduleExpression": schedule,
    });
    if let Some(id) = association_id(aws, region, name).await? {
        association["AssociationId"] = id.into();
        send(aws, region, "ssm:UpdateAssociation", "UpdateAssociation", &association).await?;
    } else {
        send(aws, region, "ssm:CreateAssociation", "CreateAssociation", &association).await?;
    }
    Ok(())
}

async fn association_id(aws: &Aws, region: &Region, name: &str) -> Result<Option<String>, CallError> {
    let filter = json!({ "AssociationFilterList": [{ "key": "AssociationName", "value": name }] });
    let found = send(aws, region, "ssm:ListAssociations", "ListAssociations", &filter).await?;
    let all = found["Associations"].as_array().into_iter().flatten();
    let mut named = all.filter(|one| one["AssociationName"] == name);
    Ok(named.find_map(|one| one["AssociationId"].as_str().map(str::to_owned)))
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
        format!(r#"{{"Associations":[{{"AssociationName":"{name}","AssociationId":"id-of-{name}"}}]}}"#)
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
        let targets = AgentTargets::parse_tag("Team=vision").unwrap();
        install_agent(&aws, &"eu-west-1".into(), &targets, "{}").await.unwrap();
        let names = calls.names();
        let expect = ["PutParameter", "ListAssociations", "UpdateAssociation", "ListAssociations", "CreateAssociation"];
        assert_eq!(names, expect);
        let bodies = calls.said();
        assert!(bodies[2].contains("id-of-curfew-gpu-metrics-agent"), "{}", bodies[2]);
        assert!(bodies[4].contains("configure (append)") && bodies[4].contains("tag:Team"), "{}", bodies[4]);
        assert!(calls.recorded().iter().all(|call| call.region == "eu-west-1"));
    }

    #[tokio::test]
    async fn the_configuration_leaves_the_agents_before_it_is_gone() {
        let (aws, calls) = aws(|call| match call.name.as_str() {
            "ListAssociations" if call.parameters[0].contains(INSTALL_ASSOCIATION) => {
                answer(&there(INSTALL_ASSOCIATION))
            }
            "ListAssociations" => answer(&there(CONFIGURE_ASSOCIATION)),
            "DescribeAssociation" => {
                answer(r#"{"AssociationDescription":{"Targets":[{"Key":"InstanceIds","Values":["i-1"]}]}}"#)
            }
            _ => answer("{}"),
        });
        assert!(uninstall_agent(&aws, &"eu-west-1".into()).await.unwrap());
        let expect = [
            "ListAssociations",
            "DescribeAssociation",
            "DeleteAssociation",
            "SendCommand",
            "ListAssociations",
            "DeleteAssociation",
            "DeleteParameter",
        ];
        assert_eq!(calls.names(), expect);
        assert!(calls.said()[3].contains("configure (remove)") && calls.said()[3].contains("i-1"));
    }

    #[tokio::test]
    async fn nothing_to_take_back_is_no_error() {
        let (aws, _) = aws(|call| match call.name.as_str() {
            "DeleteParameter" => ReplayAnswer::Raw(400, br#"{"__type":"ParameterNotFound"}"#.to_vec()),
            _ => answer(r#"{"Associations":[]}"#),
        });
        assert!(!uninstall_agent(&aws, &"eu-west-1".into()).await.unwrap());
    }
}
