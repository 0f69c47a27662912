//! Calls of the services that still have the "AWS Query protocol" of Smithy: a form goes, and XML comes.

use std::fmt::Debug;

use aws_config::SdkConfig;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, OrchestratorError};
use aws_smithy_types::error::ErrorMetadata;

use super::{RequestHead, SignedCall, SignedCallError};

pub use aws_smithy_query::{QueryValueWriter, QueryWriter};

/// The version of an API, and the readers of its XML: the caller brings them, because the agent makes no such call and has no XML parser.
#[derive(Debug, Clone, Copy)]
pub struct QueryProtocol<T> {
    pub version: &'static str,
    /// Reader of a good answer to this operation. If it fails, the call fails, and is not repeated.
    pub read_answer: fn(operation: &str, body: &[u8]) -> Result<T, BoxError>,
    /// Reader of an error's code and message.
    pub read_error: fn(body: &[u8]) -> Result<ErrorMetadata, BoxError>,
}

impl<T: Debug + Send + Sync + 'static> SignedCall<'_, QueryProtocol<T>> {
    /// Sends the call with the parameters that `write` adds to its form, and with the credentials, the timeouts and the retries of that
    /// configuration.
    ///
    /// # Errors
    /// If the service refused, or did not answer.
    pub async fn send(
        &self,
        config: &SdkConfig,
        write: impl FnOnce(&mut QueryWriter<'_>),
    ) -> Result<T, SignedCallError> {
        let QueryProtocol { version, read_answer, read_error } = self.protocol;
        let (_, operation) = self.names();
        let mut form = String::new();
        write(&mut QueryWriter::new(&mut form, operation, version));
        let head =
            RequestHead { path: "/".to_owned(), content_type: "application/x-www-form-urlencoded", target: None };
        let read = move |response: &HttpResponse| {
            let body = response.body().bytes().unwrap_or_default();
            if response.status().is_success() {
                return read_answer(operation, body).map_err(OrchestratorError::other);
            }
            Err(read_error(body).map_or_else(OrchestratorError::other, OrchestratorError::operation))
        };
        self.invoke(config, head, form, read).await
    }
}
