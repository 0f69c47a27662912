use std::collections::BTreeSet;

use super::*;
use crate::doctor::runs::FUNCTIONS;

fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|scheduled| scheduled.function).chain([REPLY])
}

fn permission_cases(function: &str) -> Vec<PermissionCase> {
    let place = DeploymentArns::from_topic_arn("arn:aws:sns:us-east-1:123456789012:curfew", "state").unwrap();
    let place = DeploymentArns {
        key_arn: Some("arn:aws:kms:us-east-1:123456789012:key/1".to_owned()),
        queue_arn: Some("arn:aws:sqs:us-east-1:123456789012:failed".to_owned()),
        sender: Some("curfew@example.com".to_owned()),
        log_groups: functions().map(|function| (function.to_owned(), "group".to_owned())).collect(),
        ..place
    };
    cases(function, &place)
}

#[test]
fn every_function_has_cases_of_each_kind() {
    for function in functions() {
        for expected in [Always, Enforcing, Never] {
            let found = permission_cases(function).iter().filter(|case| case.expected == expected).count();
            // Nothing that budgets or the report say is done by the function that says it.
            let is_any = !matches!(function, "enforce-budgets" | "send-report") || expected != Enforcing;
            assert_eq!(found > 6, is_any, "{function} {expected:?}: {found}");
        }
    }
    assert_eq!(permission_cases("reap-everything"), []);
}

/// The doctor asks nothing about keys, buses and Cost Explorer, which only a parameter of the stack grants, nor about the queue that Lambda reads.
#[test]
fn every_stated_permission_is_asked() {
    for function in functions() {
        let cases = permission_cases(function);
        for stated in STATED.iter().filter(|one| one.is_of(function)) {
            let expected = match stated.condition {
                None | Some("HasReportSender") => Always,
                Some("Enforcing") => Enforcing,
                Some(_) => continue,
            };
            let is_asked = cases.iter().any(|case| (case.action, case.expected) == (stated.action, expected));
            assert!(is_asked || stated.why.starts_with("Lambda takes"), "{function} {}", stated.action);
        }
    }
}

#[test]
fn no_question_is_asked_twice() {
    for function in functions() {
        let mut asked = BTreeSet::new();
        for case in permission_cases(function) {
            assert!(asked.insert((case.action, case.resource.clone(), case.context.clone(), case.even_so)), "{case:?}");
        }
    }
}

#[test]
fn no_two_cases_have_the_same_words() {
    for function in functions() {
        let mut covered = BTreeSet::new();
        for case in permission_cases(function) {
            assert!(covered.insert((case.action, case.about.clone(), case.even_so)), "{} {}", case.action, case.about);
        }
    }
}
