use super::*;

fn check(expect: RefusalMeaning, codes: &[&str]) {
    for code in codes {
        assert_eq!(meaning(code, "so EC2 says", kind(code, "")), expect, "{code}");
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
    check(RefusalMeaning::NoCapacity, &codes);
}

#[test]
fn a_quota_of_vcpus_is_told_from_every_other() {
    check(RefusalMeaning::VcpuQuota, &["VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded"]);
    let others = [
        "VolumeLimitExceeded",
        "MaxIOPSLimitExceeded",
        "NetworkInterfaceLimitExceeded",
        "PrivateIpAddressLimitExceeded",
        "PendingVerification",
    ];
    check(RefusalMeaning::OtherQuota, &others);
}

#[test]
fn a_missing_permission_is_told_from_what_is_wrong_with_the_request() {
    check(
        RefusalMeaning::Denied,
        &["UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthorizationError"],
    );
}

#[test]
fn a_missing_role_for_spot_and_an_unknown_profile_are_told_from_a_wrong_request() {
    check(RefusalMeaning::SpotRoleMissing, &["AuthFailure.ServiceLinkedRoleCreationNotPermitted"]);
    for field in ["name", "ARN"] {
        let message =
            format!("Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile {field}");
        assert_eq!(meaning("InvalidParameterValue", &message, CallErrorKind::Other), RefusalMeaning::ProfileUnknown);
    }
}

#[test]
fn what_will_not_be_otherwise_later_is_refused() {
    let codes = [
        "AuthFailure",
        "OptInRequired",
        "InvalidParameterValue",
        "InvalidParameterCombination",
        "InvalidAMIID.NotFound",
        "InvalidAMIID.Unavailable",
        "InvalidSubnetID.NotFound",
        "InvalidGroup.NotFound",
        "InvalidBlockDeviceMapping",
        "UnsupportedOperation",
        "OperationNotPermitted",
        "NobodyHasHeardOfThis",
    ];
    check(RefusalMeaning::Refused, &codes);
}

/// If such a code counted as one of a candidate, the job would ask for up to 60 launches that all fail.
#[test]
fn what_is_wrong_for_every_candidate_is_told_from_what_is_wrong_for_one() {
    check(RefusalMeaning::RequestRefused, &["MissingParameter", "UnknownParameter", "TagPolicyViolation", "Blocked"]);
    let of_the_request = [
        "User data is limited to 16384 bytes",
        "Invalid value 'x' for clientToken",
        "Tag key exceeds the maximum length of 128 characters",
        "Value (x) for parameter MetadataOptions.HttpTokens is invalid",
    ];
    let of_a_candidate = [
        "Invalid value 'g9.xlarge' for InstanceType.",
        "Value (us-east-1z) for parameter availabilityZone is invalid. Subnet 'subnet-1' is in us-east-1a",
        "The architecture 'arm64' of the specified instance type does not match the architecture 'x86_64' of the specified AMI",
        "Security group sg-1 and subnet subnet-1 belong to different networks.",
        "The specified instance type is not eligible for Free Tier",
    ];
    for code in ["InvalidParameterValue", "InvalidParameterCombination"] {
        for message in of_the_request {
            assert_eq!(meaning(code, message, CallErrorKind::Other), RefusalMeaning::RequestRefused, "{message}");
        }
        for message in of_a_candidate {
            assert_eq!(meaning(code, message, CallErrorKind::Other), RefusalMeaning::Refused, "{message}");
        }
    }
}

#[test]
fn what_may_be_otherwise_a_moment_later_is_not_known() {
    let codes = ["RequestLimitExceeded", "Throttling", "RequestExpired", "ExpiredToken", "ExpiredTokenException"];
    check(RefusalMeaning::Unknown, &codes);
    // Of a server in trouble: the status says so, not the code.
    for code in ["InternalError", "Unavailable", "ServiceUnavailable", ""] {
        assert_eq!(meaning(code, "", CallErrorKind::Unanswered), RefusalMeaning::Unknown, "{code}");
    }
}

#[test]
fn what_is_said_of_the_token_are_cases_of_their_own() {
    check(RefusalMeaning::Over, &["IdempotentInstanceTerminated"]);
    check(RefusalMeaning::Otherwise, &["IdempotentParameterMismatch"]);
}
