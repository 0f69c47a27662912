//! Permissions of a role, by IAM's policy simulator, which evaluates policies without doing anything.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use futures::{StreamExt as _, stream};
use operator::doctor::permissions::{ContextKey, EVERYTHING, PermissionCase};
use signed_call::{QueryValueWriter, QueryWriter};

use super::query_call::{NO_SUCH_ENTITY, QueryCall, write_list};
use crate::aws::Aws;
use crate::describe::XmlElement;
use crate::error::{CallError, call_error};

const CALL: &str = "iam:SimulatePrincipalPolicy";
const GET_ROLE: &str = "iam:GetRole";
const GET_CALLER: &str = "sts:GetCallerIdentity";

/// IAM takes few calls a second, and the SDK retries the throttled ones.
const AT_ONCE: usize = 4;
/// Pages of 100 results, and no request has as many actions.
const PAGES_MAX: usize = 10;

/// One request: all actions with the same resource and context.
struct SimulationRequest<'a> {
    resource: &'a str,
    context: &'a [ContextKey],
    even_so: bool,
    cases: Vec<&'a PermissionCase>,
}

/// Simulates these cases for a role. Returns IAM's answers as far as it gave them (`true`: allowed), and the first error, if any. Needs
/// `iam:SimulatePrincipalPolicy` on the role.
pub async fn simulate<'a>(
    aws: &Aws,
    role_arn: &str,
    cases: &'a [PermissionCase],
) -> (Vec<(&'a PermissionCase, bool)>, Option<CallError>) {
    let mut grouped: BTreeMap<(&str, &[ContextKey], bool), Vec<&PermissionCase>> = BTreeMap::new();
    for case in cases {
        grouped.entry((&case.resource, &case.context, case.even_so)).or_default().push(case);
    }
    let request = |((resource, context, even_so), cases)| SimulationRequest { resource, context, even_so, cases };
    let mut requests: Vec<SimulationRequest<'_>> = grouped.into_iter().map(request).collect();
    // One alone at first: if it is denied, so are all others.
    let Some(first) = requests.pop() else { return (Vec::new(), None) };
    let mut answers = match ask(aws, role_arn, first).await {
        Ok(answers) => answers,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let asks = requests.into_iter().map(|request| ask(aws, role_arn, request));
    let mut error = None;
    for answered in stream::iter(asks).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await {
        match answered {
            Ok(more) => answers.extend(more),
            Err(one) => error = error.or(Some(one)),
        }
    }
    (answers, error)
}

/// Returns `true` if the account has a role of that name; needs `iam:GetRole` on it.
///
/// # Errors
/// If IAM does not answer.
pub async fn has_role(aws: &Aws, name: &str) -> Result<bool, CallError> {
    match get_role(aws, name).await {
        Ok(_) => Ok(true),
        Err(error) if error.code.as_deref() == Some(NO_SUCH_ENTITY) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The ARN of whoever has these credentials; needs no permission (AWS STS API reference, "`GetCallerIdentity`").
///
/// # Errors
/// If STS does not answer.
pub async fn caller_arn(aws: &Aws) -> Result<String, CallError> {
    let answer = aws.sts().get_caller_identity().send().await;
    let answer = answer.map_err(|error| call_error(GET_CALLER, aws.home(), &error))?;
    Ok(answer.arn.unwrap_or_default())
}

/// The ARN of a role, with its path; needs `iam:GetRole` on it.
///
/// # Errors
/// If IAM does not answer, or there is no such role.
pub async fn role_arn(aws: &Aws, name: &str) -> Result<String, CallError> {
    let answer = get_role(aws, name).await?;
    Ok(answer.child("Role").and_then(|role| role.text("Arn")).unwrap_or_default().to_owned())
}

async fn get_role(aws: &Aws, name: &str) -> Result<XmlElement, CallError> {
    QueryCall::iam(GET_ROLE, aws.home()).read(aws, |form| form.prefix("RoleName").string(name)).await
}

async fn ask<'a>(
    aws: &Aws,
    role_arn: &str,
    SimulationRequest { resource, context, even_so, cases }: SimulationRequest<'a>,
) -> Result<Vec<(&'a PermissionCase, bool)>, CallError> {
    let write = |form: &mut QueryWriter<'_>| {
        form.prefix("PolicySourceArn").string(role_arn);
        write_list(form.prefix("ResourceArns"), [resource]);
        if even_so {
            write_list(form.prefix("PolicyInputList"), [EVERYTHING]);
        }
        let mut entries = form.prefix("ContextEntries").start_list(false, None);
        for key in context {
            write_entry(entries.entry(), key);
        }
        entries.finish();
        write_list(form.prefix("ActionNames"), cases.iter().map(|case| case.action));
    };
    let mut allowed: BTreeMap<String, bool> = BTreeMap::new();
    // One result for each action, which with one resource is the decision for that resource (IAM API reference, `EvaluationResult`).
    let read_page = |page: &XmlElement| {
        allowed.extend(page.members("EvaluationResults").filter_map(|result| {
            Some((result.text("EvalActionName")?.to_owned(), result.text("EvalDecision")? == "allowed"))
        }));
        ControlFlow::Continue(())
    };
    QueryCall::iam(CALL, aws.home()).read_pages(aws, PAGES_MAX, write, read_page).await?;
    Ok(cases.into_iter().filter_map(|case| Some((case, *allowed.get(case.action)?))).collect())
}

fn write_entry(mut entry: QueryValueWriter<'_>, ContextKey { key, values, is_list }: &ContextKey) {
    entry.prefix("ContextKeyName").string(key);
    write_list(entry.prefix("ContextKeyValues"), values.iter().map(String::as_str));
    entry.prefix("ContextKeyType").string(if *is_list { "stringList" } else { "string" });
}

#[cfg(test)]
mod tests {
    use operator::doctor::permissions::ExpectedPermission;

    use super::*;
    use crate::replay::{ReplayAnswer, ReplayedCall, aws};

    const ROLE: &str = "arn:aws:iam::123456789012:role/reaper";

    fn case(action: &'static str, resource: &str, even_so: bool) -> PermissionCase {
        let entry =
            ContextKey { key: "aws:TagKeys".to_owned(), values: vec!["a".to_owned(), "b".to_owned()], is_list: true };
        let (resource, about, context) = (resource.to_owned(), String::new(), vec![entry]);
        PermissionCase { action, resource, about, context, expected: ExpectedPermission::Never, even_so, why: "" }
    }

    /// Stopping is allowed, and nothing else.
    fn simulated(call: &ReplayedCall) -> ReplayAnswer {
        let actions = call.parameters.iter().filter(|parameter| parameter.starts_with("ActionNames.member."));
        let results: Vec<String> = actions
            .filter_map(|parameter| parameter.split_once('='))
            .map(|(_, action)| {
                let said = if action == "ec2:StopInstances" { "allowed" } else { "implicitDeny" };
                format!("<member><EvalActionName>{action}</EvalActionName><EvalDecision>{said}</EvalDecision></member>")
            })
            .collect();
        let results = format!("<EvaluationResults>{}</EvaluationResults>", results.concat());
        ReplayAnswer::ok(format!("<SimulatePrincipalPolicyResult>{results}</SimulatePrincipalPolicyResult>"))
    }

    #[tokio::test]
    async fn actions_on_the_same_resource_are_asked_about_together() {
        let (aws, calls) = aws(simulated);
        let cases = [
            case("ec2:StopInstances", "one", false),
            case("ec2:StartInstances", "one", false),
            case("ec2:StopInstances", "two", false),
            case("ec2:StopInstances", "two", true),
        ];
        let (answers, error) = simulate(&aws, ROLE, &cases).await;
        assert_eq!(error, None);
        let allowed =
            |case: &PermissionCase| answers.iter().find(|(asked, _)| *asked == case).map(|(_, allowed)| *allowed);
        assert_eq!(cases.each_ref().map(allowed), [Some(true), Some(false), Some(true), Some(true)]);
        let said = calls.said();
        assert_eq!(said.len(), 3);
        assert_eq!(said.iter().filter(|call| call.contains("PolicyInputList")).count(), 1);
        assert!(said.iter().all(|call| call.contains("ContextKeyType=stringList")), "{said:?}");
        assert!(said.iter().all(|call| call.contains("ContextKeyValues.member.2=b")), "{said:?}");
    }

    #[tokio::test]
    async fn a_role_exists_or_is_missing_or_unknown() {
        let found = "<GetRoleResult><Role><Path>/</Path><RoleName>x</RoleName><RoleId>AROA</RoleId><Arn>arn</Arn>\
                     <CreateDate>2026-09-01T00:00:00Z</CreateDate></Role></GetRoleResult>";
        assert_eq!(has_role(&aws(move |_| ReplayAnswer::ok(found)).0, "x").await, Ok(true));
        assert_eq!(has_role(&aws(|_| ReplayAnswer::query_error("NoSuchEntity", "none")).0, "x").await, Ok(false));
        let denied = has_role(&aws(|_| ReplayAnswer::query_error("AccessDenied", "Not you")).0, "x").await;
        assert!(denied.unwrap_err().to_string().ends_with("grant iam:GetRole to the role that asked"));
    }

    #[tokio::test]
    async fn where_the_first_is_denied_no_other_is_asked() {
        let (aws, calls) = aws(|_| ReplayAnswer::query_error("AccessDenied", "Not you"));
        let cases = [case("ec2:StopInstances", "one", false), case("ec2:StopInstances", "two", false)];
        let (answers, error) = simulate(&aws, ROLE, &cases).await;
        assert!(answers.is_empty());
        assert!(error.unwrap().to_string().ends_with("grant iam:SimulatePrincipalPolicy to the role that asked"));
        assert_eq!(calls.names().len(), 1);
    }

    #[tokio::test]
    async fn what_iam_does_not_answer_is_no_answer() {
        let (aws, _) = aws(|_| ReplayAnswer::ok("<SimulatePrincipalPolicyResult/>"));
        let cases = [case("ec2:StopInstances", "one", false)];
        let (answers, error) = simulate(&aws, ROLE, &cases).await;
        assert_eq!((answers.len(), error), (0, None));
    }
}
