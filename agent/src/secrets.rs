//! The values of secrets and parameters, for the command's environment only: the agent never writes them anywhere.
//!
//! Both come from Parameter Store, which forwards queries for secrets (Systems Manager user guide, "Referencing AWS Secrets
//! Manager secrets from Parameter Store parameters"). It knows a secret by its name, which its ARN leaves open: `my-secret` may be a whole
//! name, or `my` with a random end. So the agent asks for the whole first, and without the end only if there is none.
//! The machine's role needs `ssm:GetParameter` on either, and `secretsmanager:GetSecretValue` on a secret.

use std::collections::BTreeMap;

use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use serde_json::{Value, json};
use signed_call::SignedCall;

use crate::agent_error::AgentError;
use crate::aws;

/// The random end of a secret's ARN (Secrets Manager user guide, "What's in a Secrets Manager secret?"): `-` and six characters.
const SUFFIX_CHARACTERS: usize = 7;

/// Variables by name, from ARNs by name.
///
/// # Errors
/// Which one could not be read, and why; for its owner.
pub(crate) async fn read(arns: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, AgentError> {
    let mut values = BTreeMap::new();
    for (variable, arn) in arns {
        let value = fetch_secret(arn)
            .await
            .map_err(|why| AgentError::new(format!("the secret for `{variable}` ({arn}) cannot be read: {why}")))?;
        values.insert(variable.clone(), value);
    }
    Ok(values)
}

async fn fetch_secret(arn: &str) -> Result<String, AgentError> {
    let Some((region, names)) = place(arn) else {
        return Err(AgentError::new("it is no ARN of a secret or of a parameter"));
    };
    let config = aws::config(region.clone()).await;
    let call = SignedCall::get_parameter(&region);
    let mut absent = String::new();
    for name in names {
        match Box::pin(call.send(&config, &json!({ "Name": name, "WithDecryption": true }))).await {
            Ok(answer) => {
                let value = answer.pointer("/Parameter/Value").and_then(Value::as_str);
                return value.map(str::to_owned).ok_or_else(|| AgentError::new("it has no value"));
            }
            Err(error) => {
                // Any other error does not say whether there is one.
                if error.code() != Some("ParameterNotFound") {
                    return Err(AgentError::new(aws::said(&error)));
                }
                absent = aws::said(&error);
            }
        }
    }
    Err(AgentError::new(absent))
}

/// The region, and the possible names in Parameter Store, in the order of the queries.
fn place(arn: &str) -> Option<(String, Vec<String>)> {
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    let [_, _, service, region, _, resource] = parts.as_slice() else { return None };
    let names = match *service {
        "secretsmanager" => {
            let full = resource.strip_prefix("secret:")?;
            let begins = full.len().checked_sub(SUFFIX_CHARACTERS);
            let name = begins.and_then(|begins| full.get(begins..)?.starts_with('-').then(|| &full[..begins]));
            let names = std::iter::once(full).chain(name);
            names.map(|name| format!("/aws/reference/secretsmanager/{name}")).collect()
        }
        "ssm" => match resource.strip_prefix("parameter/")? {
            // The name of a parameter in folders begins with `/`, which its ARN does not repeat.
            name if name.contains('/') => vec![format!("/{name}")],
            name => vec![name.to_owned()],
        },
        _ => return None,
    };
    Some(((*region).to_owned(), names))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arn: &str, expect: &[&str]) {
        let names: Vec<String> = expect.iter().map(|name| (*name).to_owned()).collect();
        let expect = (!names.is_empty()).then(|| ("eu-central-1".to_owned(), names));
        assert_eq!(place(arn), expect, "{arn}");
    }

    #[test]
    fn every_arn_has_a_name_in_parameter_store() {
        check("arn:aws:ssm:eu-central-1:123456789012:parameter/token", &["token"]);
        check("arn:aws:ssm:eu-central-1:123456789012:parameter/team/token", &["/team/token"]);
        check("arn:aws:s3:eu-central-1:123456789012:bucket", &[]);
        check("hf", &[]);
    }

    #[test]
    fn the_end_of_a_secret_arn_may_belong_to_its_name() {
        let secret = "arn:aws:secretsmanager:eu-central-1:123456789012:secret";
        let reference = "/aws/reference/secretsmanager";
        for (name, stripped) in [("hf-AbCdEf", "hf"), ("team/hf-token-AbCdEf", "team/hf-token"), ("my-secret", "my")] {
            let expect = [name, stripped].map(|name| format!("{reference}/{name}"));
            check(&format!("{secret}:{name}"), &[&expect[0], &expect[1]]);
        }
        check(&format!("{secret}:hf"), &[&format!("{reference}/hf")]);
    }
}
