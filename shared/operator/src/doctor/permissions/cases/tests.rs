use std::collections::BTreeSet;

use super::*;
use crate::doctor::runs::FUNCTIONS;

fn permission_cases(function: &str) -> Vec<PermissionCase> {
    let place = DeploymentArns::from_topic_arn("arn:aws:sns:us-east-1:123456789012:curfew", "state").unwrap();
    let place = DeploymentArns {
        key_arn: Some("arn:aws:kms:us-east-1:123456789012:key/1".to_owned()),
        queue_arn: Some("arn:aws:sqs:us-east-1:123456789012:failed".to_owned()),
        log_groups: FUNCTIONS.iter().map(|one| (one.function.to_owned(), "group".to_owned())).collect(),
        ..place
    };
    cases(function, &place)
}

#[test]
fn every_function_has_cases_of_each_kind() {
    for scheduled in FUNCTIONS {
        for expected in [Always, Enforcing, Never] {
            let found = permission_cases(scheduled.function).iter().filter(|case| case.expected == expected).count();
            // Nothing that budgets or the report say is done by the function that says it.
            let is_any = !matches!(scheduled.function, "enforce-budgets" | "send-report") || expected != Enforcing;
            assert_eq!(found > 6, is_any, "{} {expected:?}: {found}", scheduled.function);
        }
    }
    assert_eq!(permission_cases("reap-everything"), []);
}

/// Of one that only a parameter of the stack grants, nothing is asked; nor of the queue that Lambda reads.
#[test]
fn every_stated_permission_is_asked() {
    for scheduled in FUNCTIONS {
        let cases = permission_cases(scheduled.function);
        for stated in STATED.iter().filter(|one| one.is_of(scheduled.function)) {
            let expected = match stated.condition {
                None => Always,
                Some("Enforcing") => Enforcing,
                Some(_) => continue,
            };
            let is_asked = cases.iter().any(|case| (case.action, case.expected) == (stated.action, expected));
            assert!(is_asked || stated.why.starts_with("Lambda takes"), "{} {}", scheduled.function, stated.action);
        }
    }
}

#[test]
fn no_question_is_asked_twice() {
    for scheduled in FUNCTIONS {
        let mut asked = BTreeSet::new();
        for case in permission_cases(scheduled.function) {
            assert!(asked.insert((case.action, case.resource.clone(), case.context.clone(), case.even_so)), "{case:?}");
        }
    }
}

#[test]
fn no_two_cases_have_the_same_words() {
    for scheduled in FUNCTIONS {
        let mut covered = BTreeSet::new();
        for case in permission_cases(scheduled.function) {
            assert!(covered.insert((case.action, case.about.clone(), case.even_so)), "{} {}", case.action, case.about);
        }
    }
}
