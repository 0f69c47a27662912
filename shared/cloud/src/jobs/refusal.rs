//! What a refused launch means: three kinds of errors want three different answers.

use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::operation::run_instances::RunInstancesError;
use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::orchestrator::OrchestratorError;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};

use crate::error::{CallErrorKind, kind};

/// What follows from a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Another pool may have it.
    NoCapacity,
    /// The quota on vCPUs that counts this pool is used up.
    VcpuQuota,
    /// Another quota is, or the account may not launch anything yet.
    OtherQuota,
    /// What was launched by this token has been terminated since.
    Over,
    /// By this token something else was asked for before.
    Otherwise,
    /// The permission is missing.
    Denied,
    /// Not like this, now or later.
    Refused,
    /// It may have been launched, or could be a moment later.
    Unknown,
}

/// EC2 API reference, "Error codes for the Amazon EC2 API", for those that `RunInstances` answers.
pub(super) fn meaning(code: &str, kind: CallErrorKind) -> Meaning {
    match code {
        // `Unsupported` is of the type in this zone; `UnsupportedOperation` of the request.
        "UnfulfillableCapacity"
        | "SpotMaxPriceTooLow"
        | "Unsupported"
        | "InsufficientFreeAddressesInSubnet"
        | "InsufficientVolumeCapacity"
        | "VolumeTypeNotAvailableInZone" => Meaning::NoCapacity,
        "VcpuLimitExceeded" | "InstanceLimitExceeded" | "MaxSpotInstanceCountExceeded" => Meaning::VcpuQuota,
        // `PendingVerification` ends by itself, mostly within hours.
        "VolumeLimitExceeded"
        | "MaxIOPSLimitExceeded"
        | "NetworkInterfaceLimitExceeded"
        | "PrivateIpAddressLimitExceeded"
        | "PendingVerification" => Meaning::OtherQuota,
        "IdempotentInstanceTerminated" => Meaning::Over,
        "IdempotentParameterMismatch" => Meaning::Otherwise,
        // The credentials, or the request, were too old by the time it got there.
        "RequestExpired" | "ExpiredToken" | "ExpiredTokenException" => Meaning::Unknown,
        _ => match kind {
            CallErrorKind::Denied { .. } => Meaning::Denied,
            CallErrorKind::Capacity => Meaning::NoCapacity,
            CallErrorKind::Throttled | CallErrorKind::Unanswered => Meaning::Unknown,
            _ => Meaning::Refused,
        },
    }
}

/// EC2 answers with status 500 that there is no capacity, which the SDK would ask for again, and again, while another pool has it.
#[derive(Debug)]
pub(super) struct NoCapacityIsAnAnswer;

impl ClassifyRetry for NoCapacityIsAnAnswer {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let error = context.output_or_error().and_then(Result::err).and_then(OrchestratorError::as_operation_error);
        let code =
            error.and_then(|error| error.downcast_ref::<RunInstancesError>()).and_then(ProvideErrorMetadata::code);
        match code.map(|code| meaning(code, kind(code, ""))) {
            Some(Meaning::NoCapacity) => RetryAction::RetryForbidden,
            _ => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "NoCapacityIsAnAnswer"
    }
}

#[cfg(test)]
mod tests;
