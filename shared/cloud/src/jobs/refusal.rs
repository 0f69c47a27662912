//! Meaning of a refused launch: three kinds of errors need three different answers.

use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::operation::run_instances::RunInstancesError;
use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::orchestrator::OrchestratorError;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};
use ports::SPOT_ROLE_MISSING;
use ports::aws_words::{PARAMETERS_OF_THE_REQUEST, UNKNOWN_PROFILE};

use crate::error::{CallErrorKind, kind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusalMeaning {
    /// Another pool may have it.
    NoCapacity,
    /// The quota on vCPUs that counts this pool is used up.
    VcpuQuota,
    /// Another quota is, or the account may not launch anything yet.
    OtherQuota,
    /// The instance of this token has been terminated.
    Over,
    /// An earlier request with this token had other parameters.
    Otherwise,
    Denied,
    /// The account has no service-linked role for Spot, and the caller may not create it.
    SpotRoleMissing,
    /// EC2 does not know the instance profile, or does not know it yet.
    ProfileUnknown,
    /// This candidate is refused for good.
    Refused,
    /// The request is refused for every candidate.
    RequestRefused,
    /// The instance may have been launched, or could be a moment later.
    Unknown,
}

/// The request itself is wrong: what these codes complain about is the same for every candidate (EC2 API reference, "Error codes for the
/// Amazon EC2 API", "Common client error codes", and those about user data and tags). The list leaves out codes that EC2 also uses for a
/// type, a zone, a subnet, an image or a region: `InvalidParameter`, `InvalidParameterCombination`, `InvalidParameterValue`,
/// `UnsupportedOperation`, `OperationNotPermitted`, `AuthFailure`, `OptInRequired` and unknown ones.
const OF_THE_REQUEST: [&str; 14] = [
    "Blocked",
    "InvalidAction",
    "InvalidCharacter",
    "InvalidQueryParameter",
    "InvalidTagKey.Malformed",
    "InvalidUserData.Malformed",
    "MalformedQueryString",
    "MissingAction",
    "MissingParameter",
    "TagLimitExceeded",
    "TagPolicyViolation",
    "UnknownParameter",
    "UnsupportedProtocol",
    "ValidationError",
];

fn is_of_the_request(code: &str, message: &str) -> bool {
    let names_one = || {
        let message = message.to_ascii_lowercase();
        PARAMETERS_OF_THE_REQUEST.iter().any(|parameter| message.contains(parameter))
    };
    OF_THE_REQUEST.contains(&code)
        || matches!(code, "InvalidParameterValue" | "InvalidParameterCombination") && names_one()
}

/// EC2 API reference, "Error codes for the Amazon EC2 API", the codes of `RunInstances`.
pub(super) fn meaning(code: &str, message: &str, kind: CallErrorKind) -> RefusalMeaning {
    match code {
        SPOT_ROLE_MISSING => RefusalMeaning::SpotRoleMissing,
        "InvalidParameterValue" if message.contains(UNKNOWN_PROFILE) => RefusalMeaning::ProfileUnknown,
        // `Unsupported` is about the type in this zone; `UnsupportedOperation` about the request.
        "UnfulfillableCapacity"
        | "SpotMaxPriceTooLow"
        | "Unsupported"
        | "InsufficientFreeAddressesInSubnet"
        | "InsufficientVolumeCapacity"
        | "VolumeTypeNotAvailableInZone" => RefusalMeaning::NoCapacity,
        "VcpuLimitExceeded" | "InstanceLimitExceeded" | "MaxSpotInstanceCountExceeded" => RefusalMeaning::VcpuQuota,
        // `PendingVerification` passes by itself, mostly within hours.
        "VolumeLimitExceeded"
        | "MaxIOPSLimitExceeded"
        | "NetworkInterfaceLimitExceeded"
        | "PrivateIpAddressLimitExceeded"
        | "PendingVerification" => RefusalMeaning::OtherQuota,
        "IdempotentInstanceTerminated" => RefusalMeaning::Over,
        "IdempotentParameterMismatch" => RefusalMeaning::Otherwise,
        _ if is_of_the_request(code, message) => RefusalMeaning::RequestRefused,
        // The credentials or the request had expired on arrival; or EC2 does not know a group yet, which the next run makes where it lacks.
        "RequestExpired" | "ExpiredToken" | "ExpiredTokenException" | "InvalidPlacementGroup.Unknown" => {
            RefusalMeaning::Unknown
        }
        _ => match kind {
            CallErrorKind::Denied { .. } => RefusalMeaning::Denied,
            CallErrorKind::Capacity => RefusalMeaning::NoCapacity,
            CallErrorKind::Throttled | CallErrorKind::Unreached | CallErrorKind::Unanswered => RefusalMeaning::Unknown,
            _ => RefusalMeaning::Refused,
        },
    }
}

/// EC2 reports missing capacity with status 500, which the SDK would retry while another pool has capacity.
#[derive(Debug)]
pub(super) struct NoCapacityIsAnAnswer;

impl ClassifyRetry for NoCapacityIsAnAnswer {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let error = context.output_or_error().and_then(Result::err).and_then(OrchestratorError::as_operation_error);
        let code =
            error.and_then(|error| error.downcast_ref::<RunInstancesError>()).and_then(ProvideErrorMetadata::code);
        match code.map(|code| meaning(code, "", kind(code, ""))) {
            Some(RefusalMeaning::NoCapacity) => RetryAction::RetryForbidden,
            _ => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "NoCapacityIsAnAnswer"
    }
}

#[cfg(test)]
mod tests;
