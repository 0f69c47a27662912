//! The values of secrets and parameters, for the command's environment only: the agent never writes them anywhere.
//!
//! The agent asks for a secret by its whole ARN, because IAM decides before Secrets Manager looks: a role that may read one secret gets
//! `AccessDeniedException` for every other name, absent ones included. The machine's role needs `secretsmanager:GetSecretValue` on a secret, and
//! `ssm:GetParameter` on a parameter.

use std::collections::BTreeMap;

use model::id::TeamName;
use model::team_role::grant_secret_command;
use serde_json::{Value, json};
use signed_call::SignedCall;

use crate::agent::{Agent, StartError};
use crate::aws::{CallRefusal, call_with_retries, config};

/// Variables by name, from ARNs by name.
///
/// # Errors
/// The secret that could not be read, why, and what to do.
pub(crate) async fn read(
    agent: &Agent,
    arns: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, StartError> {
    agent.set_activity("reading secrets");
    let mut values = BTreeMap::new();
    for (variable, arn) in arns {
        let what = format!("the secret for `{variable}` ({arn})");
        let cannot = |why: &str| StartError::cannot_run(format!("{what} cannot be used: {why}"));
        let place = place(arn).ok_or_else(|| cannot("it is not an ARN of a secret or of a parameter"))?;
        let answer = fetch(agent, &what, &place).await.map_err(|refusal| {
            let team = &agent.identity.job.team;
            match refusal.code.as_deref().and_then(|code| advise(code, &refusal.words, &place, arn, team)) {
                // A message may cut the long words of AWS.
                Some(advice) => StartError::cannot_run(format!("{what} cannot be read: {advice} ({refusal})")),
                None => StartError::broken(format!("{what} cannot be read: {refusal}")),
            }
        })?;
        values.insert(variable.clone(), text(&answer, &place, arn).map_err(|why| cannot(&why))?);
    }
    Ok(values)
}

/// The service that keeps a value.
#[derive(Debug, PartialEq, Eq)]
struct SecretPlace<'a> {
    region: &'a str,
    service: SecretService,
    /// The name by which the service knows it.
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretService {
    SecretsManager,
    ParameterStore,
}

fn place(arn: &str) -> Option<SecretPlace<'_>> {
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    let [_, _, service, region, _, resource] = parts.as_slice() else { return None };
    let (service, name) = match *service {
        "secretsmanager" if resource.starts_with("secret:") => (SecretService::SecretsManager, arn.to_owned()),
        "ssm" => match resource.strip_prefix("parameter/")? {
            // The name of a parameter in folders begins with `/`, which its ARN does not repeat.
            name if name.contains('/') => (SecretService::ParameterStore, format!("/{name}")),
            name => (SecretService::ParameterStore, name.to_owned()),
        },
        _ => return None,
    };
    Some(SecretPlace { region, service, name })
}

async fn fetch(agent: &Agent, what: &str, place: &SecretPlace<'_>) -> Result<Value, CallRefusal> {
    let (call, body) = match place.service {
        SecretService::SecretsManager => {
            (SignedCall::get_secret_value(place.region), json!({ "SecretId": place.name }))
        }
        SecretService::ParameterStore => {
            (SignedCall::get_parameter(place.region), json!({ "Name": place.name, "WithDecryption": true }))
        }
    };
    let config = config(place.region.to_owned()).await;
    call_with_retries(agent, &config, &call, &body, &format!("{what} cannot be read yet")).await
}

/// The value, as a variable can hold it.
fn text(answer: &Value, place: &SecretPlace<'_>, arn: &str) -> Result<String, String> {
    let value = match place.service {
        SecretService::SecretsManager => answer.get("SecretString"),
        SecretService::ParameterStore => answer.pointer("/Parameter/Value"),
    };
    let Some(value) = value.and_then(Value::as_str) else {
        let what =
            if answer.get("SecretBinary").is_some_and(Value::is_string) { "it is binary" } else { "it has no text" };
        return Err(format!(
            "{what}, and a variable holds text: store it as text, such as base64, with aws secretsmanager put-secret-value --region {} \
             --secret-id {arn} --secret-string",
            place.region
        ));
    };
    if value.contains('\0') {
        return Err("it contains a NUL, which no variable can hold: store it as text, such as base64".to_owned());
    }
    Ok(value.to_owned())
}

/// The remedy for a refusal that the next machine would meet again; `None` if it may be this machine's alone. The codes are those of the API
/// references, `GetSecretValue` and `GetParameter`.
fn advise(code: &str, words: &str, place: &SecretPlace<'_>, arn: &str, team: &TeamName) -> Option<String> {
    let region = place.region;
    let words = words.to_ascii_lowercase();
    Some(match code {
        "AccessDeniedException" | "AccessDenied" => advise_denied(&words, arn, team),
        "DecryptionFailure" | "InvalidKeyId" => USE_KEY.to_owned(),
        // Secrets Manager user guide, "Delete an AWS Secrets Manager secret": it can be restored until its recovery window is over.
        "InvalidRequestException" if words.contains("delet") => format!(
            "it is scheduled for deletion: aws secretsmanager restore-secret --region {region} --secret-id {arn}, or name another one"
        ),
        "ResourceNotFoundException" | "ParameterNotFound" | "ParameterVersionNotFound" => {
            format!("{region} has no such secret or parameter, or it has no value yet: correct the ARN, or create it")
        }
        "InvalidRequestException" | "InvalidParameterException" | "ValidationException" => {
            format!("correct the ARN, or the secret in {region}")
        }
        _ => return None,
    })
}

const USE_KEY: &str =
    "the KMS key that encrypts it must be enabled, and its policy must allow kms:Decrypt to the role of the machine";

/// IAM user guide, "Troubleshoot access denied error messages": the message says which kind of policy denies. `words` are in lower case.
fn advise_denied(words: &str, arn: &str, team: &TeamName) -> String {
    let by = |policy: &str| words.contains(policy);
    if by("kms") || by("ciphertext") {
        return USE_KEY.to_owned();
    }
    if by("vpc endpoint policy") {
        return "the policy of the VPC endpoint in the network of the machine must allow it, or `machine.subnets` name another network".to_owned();
    }
    if by("service control policy") || by("resource control policy") || by("permissions boundary") {
        return "a policy of the organisation or a permissions boundary denies it, which an administrator has to change".to_owned();
    }
    if by("resource-based policy") {
        return "the policy of the secret itself must allow it to the role of the machine".to_owned();
    }
    format!(
        "the role of the machine may not read it, or it does not exist. Let the role of the team read it, with the secrets that it has: {}; or, \
         on machines with the role curfew-job, by JobSecretArns of Curfew's stack",
        grant_secret_command(team, arn)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:team/hf-AbCdEf";

    fn check_place(arn: &str, expect: Option<(SecretService, &str)>) {
        let expect =
            expect.map(|(service, name)| SecretPlace { region: "eu-central-1", service, name: name.to_owned() });
        assert_eq!(place(arn), expect, "{arn}");
    }

    #[test]
    fn a_secret_is_asked_for_by_its_arn_and_a_parameter_by_its_name() {
        check_place(SECRET, Some((SecretService::SecretsManager, SECRET)));
        let parameter = Some(SecretService::ParameterStore);
        check_place("arn:aws:ssm:eu-central-1:123456789012:parameter/token", parameter.map(|of| (of, "token")));
        check_place("arn:aws:ssm:eu-central-1:123456789012:parameter/a/token", parameter.map(|of| (of, "/a/token")));
        check_place("arn:aws:s3:eu-central-1:123456789012:bucket", None);
        check_place("hf", None);
    }

    fn check_text(answer: &Value, expect: Result<&str, &str>) {
        match (text(answer, &place(SECRET).unwrap(), SECRET), expect) {
            (Ok(value), Ok(expect)) => assert_eq!(value, expect),
            (Err(why), Err(expect)) => assert!(why.contains(expect), "{why}"),
            (found, expect) => panic!("{found:?}, not {expect:?}"),
        }
    }

    #[test]
    fn only_text_is_a_variable() {
        check_text(&json!({ "SecretString": "a=b\n" }), Ok("a=b\n"));
        check_text(&json!({ "SecretBinary": "AAE=" }), Err("it is binary, and a variable holds text"));
        check_text(&json!({ "SecretString": "a\0b" }), Err("a NUL"));
        check_text(&json!({}), Err("it has no text"));
    }

    fn check_advice(code: &str, words: &str, expect: Option<&str>) {
        let advice = advise(code, words, &place(SECRET).unwrap(), SECRET, &TeamName::new("vision"));
        match expect {
            None => assert_eq!(advice, None, "{code}"),
            Some(expect) => {
                assert!(advice.as_ref().is_some_and(|advice| advice.contains(expect)), "{code}: {advice:?}");
            }
        }
    }

    #[test]
    fn each_refusal_has_its_advice() {
        let grant = format!("curfew team create vision --secret-arn {SECRET}");
        for (why, expect) in [
            ("no identity-based policy allows the action", grant.as_str()),
            ("no VPC endpoint policy allows the action", "the policy of the VPC endpoint"),
            ("of an explicit deny in a service control policy", "an administrator"),
            ("no resource-based policy allows the action", "the policy of the secret itself"),
        ] {
            let words = format!("User: x is not authorized to perform: secretsmanager:GetSecretValue because {why}");
            check_advice("AccessDeniedException", &words, Some(expect));
        }
        check_advice("AccessDeniedException", "Access to KMS is not allowed", Some("kms:Decrypt"));
        check_advice("DecryptionFailure", "", Some("kms:Decrypt"));
        let deleted = "because it was marked for deletion";
        check_advice("InvalidRequestException", deleted, Some("restore-secret --region eu-central-1"));
        check_advice("ResourceNotFoundException", "", Some("eu-central-1 has no such secret"));
        check_advice("ThrottlingException", "", None);
        check_advice("ExpiredTokenException", "", None);
    }
}
