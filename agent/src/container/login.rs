//! The password for a private registry of Amazon ECR, by the role of the machine; valid for 12 hours.

use aws_smithy_types::base64;
use jobs::{ContainerImage, EcrRegistry};
use model::partition::Partition;
use serde_json::{Value, json};
use signed_call::{AwsService, JsonProtocol, Repeats, SignedCall, with_fips};

use crate::agent::{Agent, StartError};
use crate::aws::{call_with_retries, config};

/// Amazon ECR API reference, "`GetAuthorizationToken`": base64 of `AWS:` and the password.
pub(super) async fn fetch_password(
    agent: &Agent,
    registry: &EcrRegistry,
    image: &ContainerImage,
) -> Result<String, StartError> {
    let call = SignedCall {
        call: "ecr:GetAuthorizationToken",
        region: &registry.region,
        service: AwsService::Ecr,
        protocol: JsonProtocol::Target {
            prefix: "AmazonEC2ContainerRegistry_V20150921",
            operation: "GetAuthorizationToken",
        },
        repeats: Repeats::LikeTheSdk,
    };
    let cannot = |why: &str| format!("the image {image} cannot be pulled: {} {why}", call.call);
    let config = config(registry.region.clone()).await;
    let config = if registry.is_fips { with_fips(&config) } else { config };
    let answer = call_with_retries(agent, &config, &call, &json!({}), &cannot("gives no password yet")).await;
    let answer = answer.map_err(|refusal| {
        let why = cannot(&format!("failed: {refusal}"));
        if matches!(refusal.code.as_deref(), Some("AccessDeniedException" | "AccessDenied")) {
            StartError::cannot_run(format!(
                "{why}; the role of the machine needs a policy to pull: curfew team create with {}",
                pull_policy(&registry.region)
            ))
        } else {
            StartError::broken(why)
        }
    })?;
    read_password(&answer).ok_or_else(|| StartError::broken(cannot("answered no password")))
}

/// The option for AWS's own policy, whose ARN has the partition of the registry.
fn pull_policy(region: &str) -> String {
    let partition = Partition::find(region).map_or("PARTITION", |partition| partition.name);
    format!("--policy-arn arn:{partition}:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly")
}

fn read_password(answer: &Value) -> Option<String> {
    let token = answer.pointer("/authorizationData/0/authorizationToken")?.as_str()?;
    let decoded = String::from_utf8(base64::decode(token).ok()?).ok()?;
    Some(decoded.strip_prefix("AWS:")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_name_and_a_password() {
        let check = |token: &str, expect: Option<&str>| {
            let answer = json!({ "authorizationData": [{ "authorizationToken": token }] });
            assert_eq!(read_password(&answer).as_deref(), expect, "{token}");
        };
        check("QVdTOnNlY3JldA==", Some("secret"));
        check("c2VjcmV0", None);
        check("?", None);
        assert_eq!(read_password(&json!({})), None);
    }

    #[test]
    fn the_policy_to_pull_is_that_of_the_partition() {
        let check =
            |region: &str, expect: &str| assert!(pull_policy(region).contains(expect), "{}", pull_policy(region));
        check("us-east-1", " arn:aws:iam::aws:policy/");
        check("us-gov-west-1", " arn:aws-us-gov:iam::aws:policy/");
        check("cn-north-1", " arn:aws-cn:iam::aws:policy/");
    }
}
