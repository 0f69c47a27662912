//! One run of a function, now.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_ec2::error::ProvideErrorMetadata as _;
use serde_json::Value;
use signed_call::{AwsService, FUNCTION_ERROR, JsonProtocol, Repeats, SignedCall};

use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind, call_error};

const CALL: &str = "lambda:InvokeFunction";

/// A function of Lambda runs for 15 minutes at most (Lambda developer guide, "Lambda quotas"); the answer needs a moment more.
const TIMEOUT: Duration = Duration::from_mins(16);

/// Statuses that say that the function was not started: a repeat after a lost answer would be a second run.
const REPEATED_AT: &[u16] = &[429];

/// The end of an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// Its response.
    Response(Value),
    /// The function's own error, or Lambda's about it, such as a timeout.
    Failed { kind: String, message: String },
}

/// Runs a function of the home region with that event, and waits for its response. Needs `lambda:InvokeFunction`.
///
/// # Errors
/// If Lambda did not run it, or did not answer: then it may have run.
pub async fn invoke(aws: &Aws, function: &str, event: &Value) -> Result<Invocation, CallError> {
    let home = aws.home();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if function.is_empty() || !function.chars().all(is_plain) {
        let problem = format!("{function:?} is not the name of a function of Lambda");
        return Err(CallError::new(CALL, home, CallErrorKind::Other, problem));
    }
    // Lambda API reference, "Invoke".
    let path = format!("/2015-03-31/functions/{function}/invocations");
    let call = SignedCall {
        call: CALL,
        region: home.as_str(),
        service: AwsService::Lambda,
        protocol: JsonProtocol::Rest { path: &path },
        repeats: Repeats::OnlyAt(REPEATED_AT),
    };
    match Box::pin(call.send(&with_run_timeout(aws.sdk_config()), event)).await {
        Ok(response) => Ok(Invocation::Response(response)),
        Err(error) if error.raw_response().is_some_and(|answer| answer.headers().get(FUNCTION_ERROR).is_some()) => {
            Ok(Invocation::Failed {
                kind: error.code().unwrap_or_default().to_owned(),
                message: error.message().unwrap_or_default().to_owned(),
            })
        }
        Err(error) => Err(call_error(CALL, home, &error)),
    }
}

/// Returns the configuration with the time that a run may take.
fn with_run_timeout(config: &SdkConfig) -> SdkConfig {
    let before = config.timeout_config().cloned().unwrap_or_else(|| TimeoutConfig::builder().build());
    let timeouts = before.to_builder().operation_attempt_timeout(TIMEOUT).operation_timeout(TIMEOUT).build();
    config.to_builder().timeout_config(timeouts).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws};

    #[tokio::test]
    async fn a_response_is_returned_and_the_path_names_the_function() {
        let (aws, calls) = aws(|_| ReplayAnswer::Raw(200, br#"{"seen":3}"#.to_vec()));
        let done = invoke(&aws, "curfew-ReapInstances-1ABC", &serde_json::json!({})).await.unwrap();
        assert_eq!(done, Invocation::Response(serde_json::json!({ "seen": 3 })));
        assert_eq!(calls.recorded().len(), 1);
    }

    #[tokio::test]
    async fn a_name_that_is_none_is_not_called() {
        let (aws, calls) = aws(|_| ReplayAnswer::Raw(200, b"{}".to_vec()));
        for name in ["", "a/../b", "a?b"] {
            let error = invoke(&aws, name, &Value::Null).await.unwrap_err();
            assert!(error.to_string().contains("is not the name of a function"), "{error}");
        }
        assert!(calls.recorded().is_empty());
    }

    #[tokio::test]
    async fn a_lost_answer_is_not_repeated() {
        let (aws, calls) = aws(|_| ReplayAnswer::Raw(500, b"{}".to_vec()));
        assert!(invoke(&aws, "curfew", &Value::Null).await.is_err());
        assert_eq!(calls.recorded().len(), 1);
    }
}
