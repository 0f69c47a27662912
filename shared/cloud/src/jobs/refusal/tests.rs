use super::*;

fn check(expect: Meaning, codes: &[&str]) {
    for code in codes {
        assert_eq!(meaning(code, kind(code, "")), expect, "{code}");
    }
}

#[test]
fn where_there_is_no_capacity_another_pool_may_have_it() {
    let codes = [
        "InsufficientInstanceCapacity",
        "InsufficientHostCapacity",
        "InsufficientCapacity",
        "UnfulfillableCapacity",
        "SpotMaxPriceTooLow",
        "Unsupported",
        "InsufficientFreeAddressesInSubnet",
        "InsufficientVolumeCapacity",
        "VolumeTypeNotAvailableInZone",
    ];
    check(Meaning::NoCapacity, &codes);
}

#[test]
fn a_quota_of_vcpus_is_told_from_every_other() {
    check(Meaning::VcpuQuota, &["VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded"]);
    let others = [
        "VolumeLimitExceeded",
        "MaxIOPSLimitExceeded",
        "NetworkInterfaceLimitExceeded",
        "PrivateIpAddressLimitExceeded",
        "PendingVerification",
    ];
    check(Meaning::OtherQuota, &others);
}

#[test]
fn a_missing_permission_is_told_from_what_is_wrong_with_the_request() {
    check(Meaning::Denied, &["UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthorizationError"]);
}

#[test]
fn what_will_not_be_otherwise_later_is_refused() {
    let codes = [
        "AuthFailure",
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        "OptInRequired",
        "Blocked",
        "InvalidParameterValue",
        "InvalidParameterCombination",
        "InvalidAMIID.NotFound",
        "InvalidAMIID.Unavailable",
        "InvalidSubnetID.NotFound",
        "InvalidGroup.NotFound",
        "InvalidBlockDeviceMapping",
        "UnsupportedOperation",
        "OperationNotPermitted",
        "TagPolicyViolation",
        "NobodyHasHeardOfThis",
    ];
    check(Meaning::Refused, &codes);
}

#[test]
fn what_may_be_otherwise_a_moment_later_is_not_known() {
    let codes = ["RequestLimitExceeded", "Throttling", "RequestExpired", "ExpiredToken", "ExpiredTokenException"];
    check(Meaning::Unknown, &codes);
    // Of a server in trouble: the status says so, not the code.
    for code in ["InternalError", "Unavailable", "ServiceUnavailable", ""] {
        assert_eq!(meaning(code, CallErrorKind::Unanswered), Meaning::Unknown, "{code}");
    }
}

#[test]
fn what_is_said_of_the_token_are_cases_of_their_own() {
    check(Meaning::Over, &["IdempotentInstanceTerminated"]);
    check(Meaning::Otherwise, &["IdempotentParameterMismatch"]);
}
