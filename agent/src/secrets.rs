//! The values of secrets and parameters, for the command's environment and for nothing else: they are never written down.
//!
//! Both come from Parameter Store, which passes the question for a secret on (Systems Manager user guide, "Referencing AWS Secrets
//! Manager secrets from Parameter Store parameters"). The machine's role needs `ssm:GetParameter` on either, and
//! `secretsmanager:GetSecretValue` on a secret.

use std::collections::BTreeMap;

use aws_config::{BehaviorVersion, Region};
use aws_sdk_ssm::Client;
use aws_sdk_ssm::error::ProvideErrorMetadata;
use domain::fault::sentence;

/// The random end of a secret's ARN (Secrets Manager user guide, "What's in a Secrets Manager secret?"): `-` and six characters.
const SUFFIX_CHARACTERS: usize = 7;

/// Variables by name, from ARNs by name.
///
/// # Errors
/// Which one could not be read, and why; for its owner.
pub(crate) async fn read(arns: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    for (variable, arn) in arns {
        let value = one(arn)
            .await
            .map_err(|problem| format!("the secret for `{variable}` ({arn}) cannot be read: {problem}"))?;
        values.insert(variable.clone(), value);
    }
    Ok(values)
}

async fn one(arn: &str) -> Result<String, String> {
    let Some((region, name)) = place(arn) else { return Err("it is no ARN of a secret or of a parameter".to_owned()) };
    let config = aws_config::defaults(BehaviorVersion::latest()).region(Region::new(region)).load().await;
    let asked = Client::new(&config).get_parameter().name(name).with_decryption(true).send().await;
    let answer = asked.map_err(|error| match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => sentence(&error),
    })?;
    let value = answer.parameter.and_then(|parameter| parameter.value);
    value.ok_or_else(|| "it has no value".to_owned())
}

/// The region, and the name that Parameter Store knows it by.
fn place(arn: &str) -> Option<(String, String)> {
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    let [_, _, service, region, _, resource] = parts.as_slice() else { return None };
    let name = match *service {
        "secretsmanager" => {
            let full = resource.strip_prefix("secret:")?;
            let begins = full.len().checked_sub(SUFFIX_CHARACTERS);
            let name = begins.and_then(|begins| full[begins..].starts_with('-').then(|| &full[..begins]));
            format!("/aws/reference/secretsmanager/{}", name.unwrap_or(full))
        }
        "ssm" => match resource.strip_prefix("parameter/")? {
            // The name of one in folders begins with `/`, which its ARN does not repeat.
            name if name.contains('/') => format!("/{name}"),
            name => name.to_owned(),
        },
        _ => return None,
    };
    Some(((*region).to_owned(), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arn: &str, expect: Option<&str>) {
        let expect = expect.map(|name| ("eu-central-1".to_owned(), name.to_owned()));
        assert_eq!(place(arn), expect, "{arn}");
    }

    #[test]
    fn each_has_a_name_in_parameter_store() {
        let secret = "arn:aws:secretsmanager:eu-central-1:123456789012:secret";
        check(&format!("{secret}:hf-AbCdEf"), Some("/aws/reference/secretsmanager/hf"));
        check(&format!("{secret}:team/hf-token-AbCdEf"), Some("/aws/reference/secretsmanager/team/hf-token"));
        check(&format!("{secret}:hf"), Some("/aws/reference/secretsmanager/hf"));
        check("arn:aws:ssm:eu-central-1:123456789012:parameter/token", Some("token"));
        check("arn:aws:ssm:eu-central-1:123456789012:parameter/team/token", Some("/team/token"));
        check("arn:aws:s3:eu-central-1:123456789012:bucket", None);
        check("hf", None);
    }
}
