//! AWS besides the bucket, which may be in another region.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use aws_config::{AppName, BehaviorVersion, ConfigLoader, Region, SdkConfig};
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use model::fault::error_sentence;
use serde_json::Value;
use signed_call::{APP_NAME, SignedCall, passes};

use crate::agent::Agent;
use crate::retry_timeout::{FailedCall, RetryTimeout};

/// The environment's configuration, in that region.
pub(crate) async fn config(region: String) -> SdkConfig {
    loader(region).load().await
}

/// Returns the loader of the environment's configuration, for further settings.
pub(crate) fn loader(region: String) -> ConfigLoader {
    let loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(signed_call::direct_http_client())
        .region(Region::new(region));
    match AppName::new(APP_NAME) {
        Ok(name) => loader.app_name(name),
        Err(_) => loader,
    }
}

/// The code and message of AWS, or why there is no answer.
pub(crate) fn said<E: Error + ProvideErrorMetadata>(error: &E) -> String {
    match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => error_sentence(error),
    }
}

/// A refusal of AWS, or no answer.
#[derive(Debug)]
pub(crate) struct CallRefusal {
    pub(crate) code: Option<String>,
    pub(crate) words: String,
    passes: bool,
}

impl Display for CallRefusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl FailedCall for CallRefusal {
    fn lasts(&self) -> bool {
        !self.passes
    }
}

/// Calls, and retries a refusal for a minute, and no answer for as long as S3's. `what` begins the messages.
///
/// # Errors
/// The last refusal.
pub(crate) async fn call_with_retries(
    agent: &Agent,
    config: &SdkConfig,
    call: &SignedCall<'_>,
    body: &Value,
    what: &str,
) -> Result<Value, CallRefusal> {
    let mut timeout = RetryTimeout::default();
    loop {
        let error = match Box::pin(call.send(config, body)).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let code = error.code().map(str::to_owned);
        let refusal = CallRefusal { code, words: said(&error), passes: passes(&error) };
        if !timeout.pause_and_retry(agent, what, &refusal).await {
            return Err(refusal);
        }
    }
}
