//! The password for a private registry of Amazon ECR, by the role of the machine; valid for 12 hours.

use aws_smithy_types::base64;
use jobs::EcrRegistry;
use serde_json::{Value, json};
use signed_call::{JsonProtocol, Repeats, SignedCall};

use crate::agent_error::AgentError;
use crate::aws;

/// Amazon ECR API reference, "`GetAuthorizationToken`": base64 of `AWS:` and the password.
pub(super) async fn fetch_password(registry: &EcrRegistry) -> Result<String, AgentError> {
    let call = SignedCall {
        call: "ecr:GetAuthorizationToken",
        region: &registry.region,
        host: "api.ecr",
        signing_name: "ecr",
        protocol: JsonProtocol::Target {
            prefix: "AmazonEC2ContainerRegistry_V20150921",
            operation: "GetAuthorizationToken",
        },
        repeats: Repeats::LikeTheSdk,
    };
    let config = aws::config(registry.region.clone()).await;
    let answer = Box::pin(call.send(&config, &json!({}))).await;
    let answer = answer.map_err(|error| AgentError::new(format!("{} failed: {}", call.call, aws::said(&error))))?;
    read_password(&answer).ok_or_else(|| AgentError::new(format!("{} answered no password", call.call)))
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
}
