//! Meaning of the SDK's errors.

use std::error::Error;

use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use model::fault::{error_sentence, shortened};
use model::id::Region;
use ports::{SNAPSHOT_LIMITS, aws_words};

pub(crate) use ports::gaps;
pub use ports::{CallError, CallErrorKind};

/// The longest message of AWS that is passed on, in characters.
const MESSAGE_MAX: usize = 400;

pub(crate) fn call_error<E>(call: &'static str, region: &Region, error: &SdkError<E>) -> CallError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let message = match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {}", in_short(message)),
        (Some(code), None) => code.to_owned(),
        (None, _) => match error.raw_response().map(|response| response.status().as_u16()) {
            Some(status) => format!("HTTP status {status}: {}", in_short(&error_sentence(error))),
            None => in_short(&error_sentence(error)),
        },
    };
    let kind = match kind(error.code().unwrap_or_default(), error.message().unwrap_or_default()) {
        CallErrorKind::Other if matches!(error, SdkError::DispatchFailure(_)) => CallErrorKind::Unreached,
        CallErrorKind::Other if is_open(error) => CallErrorKind::Unanswered,
        kind => kind,
    };
    CallError { code: error.code().map(str::to_owned), ..CallError::new(call, region, kind, message) }
}

/// Returns `true` if the result of the call is unknown.
fn is_open<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    let was_sent = !matches!(error, SdkError::ConstructionFailure(_));
    was_sent && error.code().is_none()
        || error.raw_response().is_some_and(|response| response.status().is_server_error())
}

/// EC2 API reference, "Error codes for the Amazon EC2 API", and the common errors of the other services.
pub(crate) fn kind(code: &str, message: &str) -> CallErrorKind {
    match code {
        "UnauthorizedOperation" | "AccessDenied" | "AccessDeniedException" | "AuthorizationError" => {
            let by_organisation = aws_words::BY_ORGANISATION.iter().any(|words| message.contains(words));
            CallErrorKind::Denied { by_organisation }
        }
        "InvalidInstanceID.NotFound"
        | "InvalidVolume.NotFound"
        | "InvalidSnapshot.NotFound"
        | "NotFound"
        | "ResourceNotFound" => CallErrorKind::NotFound,
        "ValidationException" if aws_words::NOT_IN_SAGEMAKER.iter().any(|words| message.contains(words)) => {
            CallErrorKind::NotFound
        }
        "RequestLimitExceeded"
        | "Throttling"
        | "ThrottlingException"
        | "Throttled"
        | "ThrottledException"
        | "TooManyRequestsException" => CallErrorKind::Throttled,
        limit if SNAPSHOT_LIMITS.contains(&limit) => CallErrorKind::Throttled,
        "InsufficientInstanceCapacity"
        | "InsufficientHostCapacity"
        | "InsufficientReservedInstanceCapacity"
        | "InsufficientCapacityOnHost"
        | "InsufficientCapacity" => CallErrorKind::Capacity,
        "VolumeInUse" | "InvalidSnapshot.InUse" => CallErrorKind::InUse,
        "IncorrectInstanceState" | "IncorrectState" => CallErrorKind::WrongState,
        "UnsupportedOperation" | "Unsupported" => CallErrorKind::Unsupported,
        _ => CallErrorKind::Other,
    }
}

/// Removes the encoded part of a denial, which is long and unreadable, and cuts the message to a length.
fn in_short(message: &str) -> String {
    let message = message.split("Encoded authorization failure message").next().unwrap_or(message).trim();
    shortened(message, MESSAGE_MAX)
}

#[cfg(test)]
mod tests;
