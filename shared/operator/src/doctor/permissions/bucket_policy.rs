//! The policy of the state bucket: it must deny others the documents that one function alone writes, and allow no one the documents that
//! govern. Conditions are not evaluated: a statement that allows something under a condition allows it, and one that denies it under
//! another condition than "whoever is not that role" does not deny it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::super::DoctorFinding;
use super::DeploymentArns;
use super::writers::{GOVERNING, GoverningDocument, PUT};

const PRINCIPAL_ARN: &str = "aws:principalarn";

#[derive(Deserialize)]
struct Policy {
    #[serde(rename = "Statement")]
    statements: OneOrMany<Statement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Statement {
    #[serde(default)]
    sid: String,
    effect: String,
    principal: Option<Value>,
    not_principal: Option<Value>,
    action: Option<OneOrMany<String>>,
    not_action: Option<OneOrMany<String>>,
    resource: Option<OneOrMany<String>>,
    not_resource: Option<OneOrMany<String>>,
    #[serde(default)]
    condition: BTreeMap<String, BTreeMap<String, OneOrMany<String>>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    fn as_slice(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl Statement {
    fn is_about(&self, action: &str, arn: &str) -> bool {
        let covers =
            |given: &Option<OneOrMany<String>>, not: &Option<OneOrMany<String>>, matches: &dyn Fn(&str) -> bool| {
                let any = |list: &OneOrMany<String>| list.as_slice().iter().any(|one| matches(one));
                given.as_ref().is_some_and(any) || not.as_ref().is_some_and(|list| !any(list))
            };
        // Actions are not case-sensitive (IAM user guide, "IAM JSON policy elements: Action").
        let lower = action.to_lowercase();
        covers(&self.action, &self.not_action, &|one| matches_wildcards(&one.to_lowercase(), &lower))
            && covers(&self.resource, &self.not_resource, &|one| matches_wildcards(one, arn))
    }

    /// Returns `true` if the statement denies everybody except some of these roles.
    fn spares_only(&self, writers: &BTreeSet<String>) -> bool {
        let is_everybody = match &self.principal {
            Some(Value::String(all)) => all == "*",
            Some(Value::Object(kinds)) => {
                kinds.get("AWS").is_some_and(|all| all == "*" || *all == serde_json::json!(["*"]))
            }
            _ => false,
        };
        let spares = |(operator, keys): (&String, &BTreeMap<String, OneOrMany<String>>)| {
            matches!(operator.as_str(), "ArnNotEquals" | "ArnNotLike")
                && keys.iter().all(|(key, roles)| {
                    key.to_lowercase() == PRINCIPAL_ARN && roles.as_slice().iter().all(|role| writers.contains(role))
                })
        };
        self.effect == "Deny" && is_everybody && self.condition.len() <= 1 && self.condition.iter().all(spares)
    }

    fn name(&self) -> String {
        if self.sid.is_empty() { "a statement without a Sid".to_owned() } else { format!("its statement {}", self.sid) }
    }
}

/// Judges the policy of the state bucket. `roles`: the name of each function's role, by the function's name.
#[must_use]
pub fn check_bucket_policy(
    policy: Option<&str>,
    place: &DeploymentArns,
    roles: &BTreeMap<String, String>,
) -> Vec<DoctorFinding> {
    let at = format!("s3://{}", place.bucket);
    let statements = match policy.map(serde_json::from_str::<Policy>) {
        None => Vec::new(),
        Some(Ok(Policy { statements: OneOrMany::One(one) })) => vec![one],
        Some(Ok(Policy { statements: OneOrMany::Many(many) })) => many,
        Some(Err(error)) => {
            let found = format!("its policy cannot be read: {error}");
            return vec![DoctorFinding::unknown(at, found, "use the `curfew` of the version that is deployed")];
        }
    };
    let arn = |document: &GoverningDocument| format!("arn:{}:s3:::{}/{}", place.partition, place.bucket, document.key);
    let is_open = |document: &&GoverningDocument| {
        let writers: BTreeSet<String> =
            document.writers.iter().filter_map(|writer| Some(place.role_arn(roles.get(*writer)?))).collect();
        let denies = |one: &Statement| one.is_about(PUT, &arn(document)) && one.spares_only(&writers);
        !document.writers.is_empty() && !statements.iter().any(denies)
    };
    let mut findings = Vec::new();
    let open: Vec<&str> = GOVERNING.iter().filter(is_open).map(|document| document.key).collect();
    if !open.is_empty() {
        let found = format!("its policy denies no one to write {}, which one function alone writes", open.join(", "));
        findings.push(DoctorFinding::problem(&at, found, "deploy the stack again"));
    }
    findings.extend(statements.iter().filter(|one| one.effect == "Allow").filter_map(|one| {
        let keys: Vec<&str> = GOVERNING
            .iter()
            .filter(|document| one.is_about(PUT, &arn(document)))
            .map(|document| document.key)
            .collect();
        let whom = one.principal.as_ref().or(one.not_principal.as_ref()).map_or_else(String::new, Value::to_string);
        let found = format!("{} allows {whom} to write {}", one.name(), keys.join(", "));
        (!keys.is_empty()).then(|| {
            DoctorFinding::problem(
                &at,
                found,
                "remove that statement: docs/security.md lists what these documents decide",
            )
        })
    }));
    findings
}

/// `*` is any characters, `/` too, and `?` any one (IAM user guide, "IAM JSON policy elements: Resource").
fn matches_wildcards(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| strip(first, text)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    let rest = parts.try_fold(rest, |rest, part| suffixes(rest).find_map(|suffix| strip(part, suffix)));
    rest.is_some_and(|rest| suffixes(rest).any(|suffix| strip(last, suffix) == Some("")))
}

/// Returns the rest of the text after a part without `*`, if the text begins with that part.
fn strip<'a>(part: &str, text: &'a str) -> Option<&'a str> {
    let mut rest = text.chars();
    part.chars().all(|wanted| rest.next().is_some_and(|one| wanted == '?' || wanted == one)).then_some(rest.as_str())
}

/// The text, and what is left of it without its first characters, down to nothing.
fn suffixes(text: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(text), |text| {
        let mut rest = text.chars();
        rest.next().map(|_| rest.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENIES: &str = r#"{"Sid": "Jobs", "Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource":
        ["arn:aws:s3:::state/jobs/*/spec.toml", "arn:aws:s3:::state/jobs/*/state.json", "arn:aws:s3:::state/jobs/*/sweep.json",
         "arn:aws:s3:::state/inbox/*.accepted.json", "arn:aws:s3:::state/triggers/*.state.json", "arn:aws:s3:::state/active/*",
         "arn:aws:s3:::state/agent/*"],
        "Condition": {"ArnNotEquals": {"aws:PrincipalArn": "arn:aws:iam::123456789012:role/curfew-RunJobsRole-1"}}},
        {"Effect": "Deny", "Principal": {"AWS": "*"}, "Action": "s3:PutObject",
         "Resource": ["arn:aws:s3:::state/budgets/*", "arn:aws:s3:::state/prices/*"], "Condition": {"ArnNotEquals": {"aws:PrincipalArn":
         ["arn:aws:iam::123456789012:role/curfew-RunJobsRole-1", "arn:aws:iam::123456789012:role/curfew-BudgetsRole-1"]}}},
        {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::state/config/hub.toml",
         "Condition": {"ArnNotEquals": {"aws:PrincipalArn": "arn:aws:iam::123456789012:role/curfew-InstancesRole-1"}}},
        {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::state/ledger/*",
         "Condition": {"ArnNotEquals": {"aws:PrincipalArn": "arn:aws:iam::123456789012:role/curfew-BudgetsRole-1"}}},
        {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource":
         ["arn:aws:s3:::state/reports/*", "arn:aws:s3:::state/exports/*"],
         "Condition": {"ArnNotEquals": {"aws:PrincipalArn": "arn:aws:iam::123456789012:role/curfew-ReportRole-1"}}}"#;

    fn findings(policy: Option<&str>) -> Vec<String> {
        let place = DeploymentArns::from_topic_arn("arn:aws:sns:us-east-1:123456789012:curfew", "state").unwrap();
        let role = |function: &str, role: &str| (function.to_owned(), format!("curfew-{role}Role-1"));
        let roles = [
            role("reap-instances", "Instances"),
            role("run-jobs", "RunJobs"),
            role("enforce-budgets", "Budgets"),
            role("send-report", "Report"),
        ];
        let found = check_bucket_policy(policy, &place, &BTreeMap::from(roles));
        found.into_iter().map(|finding| finding.found).collect()
    }

    fn check(statements: &str, expect: &[&str]) {
        let found = findings(Some(&format!(r#"{{"Version": "2012-10-17", "Statement": [{statements}]}}"#)));
        assert_eq!(found.len(), expect.len(), "{found:?}");
        for (found, expect) in found.iter().zip(expect) {
            assert!(found.contains(expect), "{found}");
        }
    }

    #[test]
    fn what_one_function_alone_writes_is_denied_to_others() {
        check(DENIES, &[]);
        assert!(findings(None)[0].contains("jobs/vision/llama-0123abcd/state.json"));
        assert!(findings(Some("{}"))[0].starts_with("its policy cannot be read"));
        check(
            &DENIES.replace("jobs/*/state.json", "jobs/x/state.json"),
            &["write jobs/vision/llama-0123abcd/state.json, which"],
        );
        check(&DENIES.replace("RunJobsRole-1\"}", "*\"}"), &["no one to write jobs/vision"]);
        check(
            &DENIES.replace(
                "ArnNotEquals\": {\"aws:PrincipalArn\": \"arn:aws:iam::123456789012:role/curfew-Report",
                "StringNotEquals\": {\"aws:userid\": \"x",
            ),
            &["reports/"],
        );
        check(
            &DENIES.replace("\"Deny\", \"Principal\": {", "\"Allow\", \"Principal\": {"),
            &["no one to write budgets/", "to write budgets/"],
        );
    }

    #[test]
    fn nobody_is_allowed_what_governs() {
        let allow = |rest: &str| format!(r#"{DENIES}, {{"Sid": "Ours", "Effect": "Allow", {rest}}}"#);
        let team = r#""Principal": {"AWS": "arn:aws:iam::123456789012:role/ml"}"#;
        check(
            &allow(&format!(r#"{team}, "Action": "S3:put*", "Resource": "arn:aws:s3:::state/notices/*""#)),
            &["Ours allows {\"AWS\":\"arn:aws:iam::123456789012:role/ml\"} to write notices/"],
        );
        check(
            &allow(&format!(r#"{team}, "NotAction": "s3:GetObject", "NotResource": "arn:aws:s3:::other/*""#)),
            &["to write config/curfew.toml, config/hub.toml, notices/"],
        );
        check(&allow(&format!(r#"{team}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::state/*""#)), &[]);
        check(
            &allow(&format!(
                r#"{team}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::state/jobs/vision/*/cancel.json""#
            )),
            &[],
        );
    }

    #[test]
    fn wildcards_match_as_iam_says() {
        let check = |pattern: &str, text: &str, expect: bool| {
            assert_eq!(matches_wildcards(pattern, text), expect, "{pattern} {text}");
        };
        for (pattern, expect) in [
            ("a/b/c", true),
            ("*", true),
            ("a/*", true),
            ("a*c", true),
            ("a/?/c", true),
            ("*b*", true),
            ("a/b/c*", true),
            ("**c", true),
        ] {
            check(pattern, "a/b/c", expect);
        }
        for pattern in ["", "a", "a/b", "*b", "b*", "?", "a/??/c", "a*d", "c*c", "*c*c"] {
            check(pattern, "a/b/c", false);
        }
        check("", "", true);
    }
}
