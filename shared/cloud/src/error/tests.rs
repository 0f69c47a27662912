use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ConnectorError, ErrorMetadata};
use aws_sdk_ec2::operation::start_instances::StartInstancesError;
use aws_smithy_types::body::SdkBody;

use super::*;

fn answered(code: &str, message: &str) -> CallError {
    let metadata = ErrorMetadata::builder().code(code).message(message).build();
    let response = HttpResponse::new(400.try_into().unwrap(), SdkBody::empty());
    let error = SdkError::service_error(StartInstancesError::generic(metadata), response);
    CallError::of("ec2:StartInstances", &Region::from("eu-west-1"), &error)
}

#[test]
fn a_missing_permission_is_named() {
    let error = answered(
        "UnauthorizedOperation",
        "You are not authorized to perform this operation. Encoded authorization failure message: 4n9Kx7Yz",
    );
    assert_eq!(error.kind, CallErrorKind::Denied { by_organisation: false });
    assert_eq!(
        error.to_string(),
        "ec2:StartInstances failed in eu-west-1: UnauthorizedOperation: You are not authorized to perform this operation; \
         grant ec2:StartInstances to the function's role"
    );
    assert_eq!(error.gap_of_region().kind, GapKind::Region);
}

#[test]
fn a_denial_of_the_organisation_is_nothing_to_grant() {
    let error = answered(
        "UnauthorizedOperation",
        "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/r/s is not authorized to perform: \
         ec2:StartInstances on resource: * with an explicit deny in a service control policy. Encoded authorization failure \
         message: 4n9Kx7Yz",
    );
    assert_eq!(error.kind, CallErrorKind::Denied { by_organisation: true });
    assert!(error.to_string().ends_with(
        "with an explicit deny in a service control policy; a policy of the organisation forbids it, which only its \
         administrators can change"
    ));
    assert_eq!(error.gap_of_region().kind, GapKind::ForbiddenRegion);
    assert_eq!(error.gap().kind, GapKind::Part);
}

#[test]
fn curfews_own_denial_is_explained() {
    let error = answered("UnauthorizedOperation", "… with an explicit deny in an identity-based policy");
    assert_eq!(error.kind, CallErrorKind::Denied { by_organisation: false });
    assert!(error.to_string().ends_with("as Curfew's own does for what carries curfew:protected"));
}

#[test]
fn codes_have_kinds() {
    let denied = CallErrorKind::Denied { by_organisation: false };
    let table = [
        ("AccessDenied", denied),
        ("AccessDeniedException", denied),
        ("AuthorizationError", denied),
        ("InvalidInstanceID.NotFound", CallErrorKind::NotFound),
        ("RequestLimitExceeded", CallErrorKind::Throttled),
        ("Throttling", CallErrorKind::Throttled),
        ("InsufficientInstanceCapacity", CallErrorKind::Capacity),
        ("IncorrectInstanceState", CallErrorKind::WrongState),
        ("UnsupportedOperation", CallErrorKind::Unsupported),
        ("OperationNotPermitted", CallErrorKind::Other),
        ("VcpuLimitExceeded", CallErrorKind::Other),
    ];
    for (code, expected) in table {
        assert_eq!(answered(code, "said").kind, expected, "{code}");
    }
}

#[test]
fn not_found_does_not_claim_that_it_is_gone() {
    let said = answered("InvalidInstanceID.NotFound", "The instance ID 'i-0abc' does not exist").to_string();
    assert!(said.contains("this does not mean that it is gone"), "{said}");
}

#[test]
fn a_gap_leaves_out_what_stands_beside_it() {
    let gap = answered("UnauthorizedOperation", "No.").gap();
    assert_eq!((gap.region.as_str(), gap.call.as_str()), ("eu-west-1", "ec2:StartInstances"));
    assert_eq!(gap.error, "UnauthorizedOperation: No; grant ec2:StartInstances to the function's role");
}

#[test]
fn a_connection_that_fails_says_why() {
    let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
    let error: SdkError<StartInstancesError> = SdkError::dispatch_failure(ConnectorError::io(refused.into()));
    let error = CallError::of("ec2:StartInstances", &Region::from("eu-west-1"), &error);
    assert_eq!(error.kind, CallErrorKind::Unanswered);
    assert!(error.to_string().ends_with("connection refused"), "{error}");
    assert!(!error.to_string().contains('{'), "no debug output: {error}");
}

#[test]
fn an_answer_without_a_code_has_its_status() {
    let response = HttpResponse::new(503.try_into().unwrap(), SdkBody::empty());
    let error = SdkError::service_error(StartInstancesError::generic(ErrorMetadata::builder().build()), response);
    let error = CallError::of("ec2:StartInstances", &Region::from("eu-west-1"), &error);
    assert!(error.message.starts_with("HTTP status 503"), "{error}");
}

#[test]
fn long_words_are_cut() {
    let error = answered("Odd", &"é".repeat(10_000));
    assert!(error.message.chars().count() < MESSAGE_MAX + 20);
    assert!(error.message.ends_with('…'));
}
