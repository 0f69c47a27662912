use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ConnectorError, ErrorMetadata};
use aws_sdk_ec2::operation::start_instances::StartInstancesError;
use aws_smithy_types::body::SdkBody;
use model::id::ResourceId;
use model::observation::GapKind;

use super::*;

fn answered(code: &str, message: &str) -> CallError {
    let metadata = ErrorMetadata::builder().code(code).message(message).build();
    let response = HttpResponse::new(400.try_into().unwrap(), SdkBody::empty());
    let error = SdkError::service_error(StartInstancesError::generic(metadata), response);
    call_error("ec2:StartInstances", &Region::from("eu-west-1"), &error)
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
         grant ec2:StartInstances to the role that asked"
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
        ("InvalidVolume.NotFound", CallErrorKind::NotFound),
        ("InvalidSnapshot.NotFound", CallErrorKind::NotFound),
        ("VolumeInUse", CallErrorKind::InUse),
        ("InvalidSnapshot.InUse", CallErrorKind::InUse),
        ("RequestLimitExceeded", CallErrorKind::Throttled),
        ("SnapshotCreationPerVolumeRateExceeded", CallErrorKind::Throttled),
        ("ConcurrentSnapshotLimitExceeded", CallErrorKind::Throttled),
        ("PendingSnapshotLimitExceeded", CallErrorKind::Throttled),
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
fn what_holds_a_resource_is_said() {
    let said = answered("InvalidSnapshot.InUse", "The snapshot snap-1 is currently in use by ami-1").to_string();
    assert!(said.ends_with("in use by ami-1; an AMI is made of it, and deregistering that AMI frees it"), "{said}");
    let said = answered("VolumeInUse", "Volume vol-1 is currently attached to i-1").to_string();
    assert!(said.ends_with("attached to i-1; it is attached again"), "{said}");
    let said = answered("ConcurrentSnapshotLimitExceeded", "Maximum allowed").to_string();
    assert!(said.ends_with("so many snapshots at once are all that EC2 makes"), "{said}");
    let said = answered("RequestLimitExceeded", "Request limit exceeded.").to_string();
    assert!(said.ends_with("the account makes too many calls"), "{said}");
}

#[test]
fn an_answer_about_nothing_does_not_say_that_it_is_gone() {
    let without = |incomplete| {
        CallError::without("ec2:DescribeVolumes", &Region::from("eu-west-1"), &ResourceId::from("vol-1"), incomplete)
    };
    assert_eq!((without(false).kind, without(true).kind), (CallErrorKind::Other, CallErrorKind::Other));
    let said = without(false).to_string();
    assert_eq!(said, "ec2:DescribeVolumes failed in eu-west-1: EC2 answered without vol-1, and not that it is gone");
}

#[test]
fn a_gap_leaves_out_what_stands_beside_it() {
    let gap = answered("UnauthorizedOperation", "No.").gap();
    assert_eq!((gap.region.as_str(), gap.call.as_str()), ("eu-west-1", "ec2:StartInstances"));
    assert_eq!(gap.error, "UnauthorizedOperation: No; grant ec2:StartInstances to the role that asked");
}

#[test]
fn a_connection_that_fails_says_why() {
    let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
    let error: SdkError<StartInstancesError> = SdkError::dispatch_failure(ConnectorError::io(refused.into()));
    let error = call_error("ec2:StartInstances", &Region::from("eu-west-1"), &error);
    assert_eq!(error.kind, CallErrorKind::Unreached);
    assert!(error.to_string().ends_with("connection refused"), "{error}");
    assert!(!error.to_string().contains('{'), "no debug output: {error}");
}

#[test]
fn an_answer_without_a_code_has_its_status() {
    let response = HttpResponse::new(503.try_into().unwrap(), SdkBody::empty());
    let error = SdkError::service_error(StartInstancesError::generic(ErrorMetadata::builder().build()), response);
    let error = call_error("ec2:StartInstances", &Region::from("eu-west-1"), &error);
    assert!(error.message.starts_with("HTTP status 503"), "{error}");
}

#[test]
fn long_words_are_cut() {
    let error = answered("Odd", &"é".repeat(10_000));
    assert!(error.message.chars().count() < MESSAGE_MAX + 20);
    assert!(error.message.ends_with('…'));
}

#[test]
fn one_call_is_one_gap() {
    let error = |call| CallError::new(call, &"us-east-1".into(), CallErrorKind::Throttled, "Slowly");
    let gaps = gaps(vec![error("a"), error("b"), error("a"), error("a")]);
    assert_eq!(gaps.len(), 2);
    assert!(gaps[0].in_run().ends_with("(and 2 more like it); the next run tries again"), "{gaps:?}");
}
