//! Single calls to services of AWS whose SDKs have a hundred others, and take minutes to compile: made with what signs, repeats and times the
//! SDK's own calls. The agent uses it as well, so it names no SDK.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod endpoint;
mod query;

use std::error::Error;
use std::fmt::Debug;

use aws_config::retry::RetryConfig;
use aws_config::{AppName, BehaviorVersion, SdkConfig};
use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::invocation_id::InvocationIdInterceptor;
use aws_runtime::retries::classifiers::{AwsErrorCodeClassifier, THROTTLING_ERRORS, TRANSIENT_ERRORS};
use aws_runtime::user_agent::{ApiMetadata, UserAgentInterceptor};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::{Builder, ConnectorBuilder};
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::classifiers::{HttpStatusCodeClassifier, TransientErrorClassifier};
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::auth::{
    AuthSchemeOptionResolverParams, SharedAuthScheme, SharedAuthSchemeOptionResolver,
};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::runtime_components::{RuntimeComponents, RuntimeComponentsBuilder};
use aws_smithy_runtime_api::client::runtime_plugin::StaticRuntimePlugin;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::{FrozenLayer, Layer};
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_types::error::metadata::ProvideErrorMetadata as _;
pub use endpoint::AwsService;
use model::fault::InvalidValue;
use model::partition::Partition;
pub use query::{QueryProtocol, QueryValueWriter, QueryWriter};
use serde_json::Value;

/// One call. With a [`JsonProtocol`] it sends a JSON document, and gets one or nothing; with a [`QueryProtocol`] it sends a form, and gets XML.
#[derive(Debug, Clone, Copy)]
pub struct SignedCall<'a, P = JsonProtocol<'a>> {
    /// IAM action of the call.
    pub call: &'static str,
    pub region: &'a str,
    pub service: AwsService,
    pub protocol: P,
    pub repeats: Repeats,
}

/// Error of a call without an answer, with the code and the message of the service if it sent them.
pub type SignedCallError = SdkError<ErrorMetadata, HttpResponse>;

/// Protocol that names the operation and sends the document.
#[derive(Debug, Clone, Copy)]
pub enum JsonProtocol<'a> {
    /// Smithy, "AWS restJson1 protocol": by its path.
    Rest { path: &'a str },
    /// Smithy, "AWS JSON 1.1 protocol": by a header.
    Target { prefix: &'static str, operation: &'static str },
}

/// Failures after which the call is repeated.
#[derive(Debug, Clone, Copy)]
pub enum Repeats {
    /// Whatever the SDK's calls repeat.
    LikeTheSdk,
    /// Only where the service answered with one of these: a repeat after a lost answer would do it twice.
    OnlyAt(&'static [u16]),
}

/// The name by which AWS tells Curfew's calls from others, in the `User-Agent` of each (AWS SDKs and tools reference guide, "Application ID").
pub const APP_NAME: &str = "curfew";

/// The first attempt and its retries, where the configuration does not say.
const ATTEMPTS_MAX: u32 = 4;

/// The header of an answer of Lambda that is the error of a function, although its status is 200 (Lambda API reference, "Invoke").
pub const FUNCTION_ERROR: &str = "x-amz-function-error";

/// Statuses that the SDK repeats (AWS SDKs and tools reference guide, "Retry behavior").
const TRANSIENT_STATUSES: &[u16] = &[500, 502, 503, 504];

impl<'a> SignedCall<'a> {
    /// `GetParameter` of Systems Manager (its API reference).
    #[must_use]
    pub const fn get_parameter(region: &'a str) -> Self {
        Self {
            call: "ssm:GetParameter",
            region,
            service: AwsService::Ssm,
            protocol: JsonProtocol::Target { prefix: "AmazonSSM", operation: "GetParameter" },
            repeats: Repeats::LikeTheSdk,
        }
    }

    /// `GetSecretValue` of Secrets Manager (its API reference).
    #[must_use]
    pub const fn get_secret_value(region: &'a str) -> Self {
        Self {
            call: "secretsmanager:GetSecretValue",
            region,
            service: AwsService::SecretsManager,
            protocol: JsonProtocol::Target { prefix: "secretsmanager", operation: "GetSecretValue" },
            repeats: Repeats::LikeTheSdk,
        }
    }
}

/// Returns the configuration with FIPS endpoints, whatever it says itself.
#[must_use]
pub fn with_fips(config: &SdkConfig) -> SdkConfig {
    config.to_builder().use_fips(true).build()
}

/// True if the same call may succeed later by itself: the service did not answer, failed, or throttled it.
#[must_use]
pub fn passes(error: &SignedCallError) -> bool {
    // No endpoint: it was not sent, and never can be.
    if error.source().is_some_and(<dyn Error>::is::<InvalidValue>) {
        return false;
    }
    let is_client_error = error.raw_response().is_some_and(|response| response.status().as_u16() < 500);
    let is_busy = |code: &str| THROTTLING_ERRORS.contains(&code) || TRANSIENT_ERRORS.contains(&code);
    !is_client_error || error.code().is_some_and(is_busy)
}

impl SignedCall<'_> {
    /// Sends the call with the credentials, the timeouts and the retries of that configuration.
    ///
    /// # Errors
    /// If the service refused, or did not answer.
    pub async fn send(&self, config: &SdkConfig, body: &Value) -> Result<Value, SignedCallError> {
        self.invoke(config, RequestHead::from_protocol(self.protocol), body.to_string(), read_response).await
    }
}

impl<P> SignedCall<'_, P> {
    /// The service by its prefix in IAM, and the operation.
    fn names(&self) -> (&'static str, &'static str) {
        self.call.split_once(':').unwrap_or(("", self.call))
    }

    async fn invoke<T: Debug + Send + Sync + 'static>(
        &self,
        config: &SdkConfig,
        head: RequestHead,
        body: String,
        read: impl Fn(&HttpResponse) -> Result<T, OrchestratorError<ErrorMetadata>> + Send + Sync + 'static,
    ) -> Result<T, SignedCallError> {
        let credentials = config.credentials_provider();
        let credentials = credentials.ok_or_else(|| SdkError::construction_failure("there are no credentials"))?;
        let endpoint = self.service.endpoint(self.region, config).map_err(SdkError::construction_failure)?;
        let mut components = RuntimeComponentsBuilder::new("signing");
        components.push_auth_scheme(SharedAuthScheme::new(SigV4AuthScheme::new()));
        components.set_identity_resolver(SCHEME_ID, credentials);
        components.set_auth_scheme_option_resolver(Some(SharedAuthSchemeOptionResolver::new(
            StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID]),
        )));
        let retries = config.retry_config().cloned();
        let retries = retries.unwrap_or_else(|| RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX));
        let (service, operation) = self.names();
        let mut call = Operation::builder()
            .service_name(service)
            .operation_name(operation)
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&endpoint)
            .standard_retry(&retries)
            .interceptor(InvocationIdInterceptor::new())
            .interceptor(UserAgentInterceptor::new())
            .runtime_plugin(
                StaticRuntimePlugin::new().with_config(self.layer(config)).with_runtime_components(components),
            )
            .serializer(move |body| head.to_request(body))
            .deserializer(read);
        call = match self.repeats {
            Repeats::OnlyAt(statuses) => call.retry_classifier(HttpStatusCodeClassifier::new_from_codes(statuses)),
            Repeats::LikeTheSdk => call
                .retry_classifier(AwsErrorCodeClassifier::<ErrorMetadata>::new())
                .retry_classifier(TransientErrorClassifier::<ErrorMetadata>::new())
                .retry_classifier(HttpStatusCodeClassifier::new_from_codes(TRANSIENT_STATUSES)),
        };
        if let Some(http_client) = config.http_client() {
            call = call.http_client(http_client);
        }
        if let Some(timeouts) = config.timeout_config() {
            call = call.timeout_config(timeouts.clone());
        }
        if let Some(sleep) = config.sleep_impl() {
            call = call.sleep_impl(sleep);
        }
        if let Some(clock) = config.time_source() {
            call = call.time_source(clock);
        }
        call.build().invoke(body).await
    }

    /// The settings of the signature and of the `User-Agent`.
    fn layer(&self, config: &SdkConfig) -> FrozenLayer {
        let mut layer = Layer::new("signed call");
        let partition = Partition::find(self.region);
        let is_fips = config.use_fips().unwrap_or_default();
        let region = partition.map_or(self.region, |partition| self.service.region(partition, self.region, is_fips));
        layer.store_put(AuthSchemeOptionResolverParams::new(()));
        layer.store_put(SigV4OperationSigningConfig {
            region: Some(aws_config::Region::new(region.to_owned()).into()),
            name: Some(self.service.signing_name().into()),
            ..SigV4OperationSigningConfig::default()
        });
        layer.store_put(ApiMetadata::new(self.service.signing_name(), env!("CARGO_PKG_VERSION")));
        if let Some(name) = config.app_name().cloned().or_else(|| AppName::new(APP_NAME).ok()) {
            layer.store_put(name);
        }
        layer.freeze()
    }
}

/// The head of a request: everything but its document.
struct RequestHead {
    path: String,
    content_type: &'static str,
    target: Option<String>,
}

impl RequestHead {
    fn from_protocol(protocol: JsonProtocol<'_>) -> Self {
        match protocol {
            JsonProtocol::Rest { path } => {
                Self { path: path.to_owned(), content_type: "application/json", target: None }
            }
            JsonProtocol::Target { prefix, operation } => Self {
                path: "/".to_owned(),
                content_type: "application/x-amz-json-1.1",
                target: Some(format!("{prefix}.{operation}")),
            },
        }
    }

    fn to_request(&self, body: String) -> Result<HttpRequest, aws_smithy_runtime_api::box_error::BoxError> {
        let mut request = HttpRequest::new(SdkBody::from(body));
        request.set_method("POST")?;
        request.set_uri(self.path.as_str())?;
        request.headers_mut().insert("content-type", self.content_type);
        if let Some(target) = &self.target {
            request.headers_mut().insert("x-amz-target", target.clone());
        }
        Ok(request)
    }
}

/// The error's name is in a header or in the document, which has its message (Smithy, "AWS restJson1 protocol" and "AWS JSON 1.1
/// protocol", "Operation error serialization"). A good answer may be empty. A function of Lambda that fails says so in a header.
fn read_response(response: &HttpResponse) -> Result<Value, OrchestratorError<ErrorMetadata>> {
    let body = response.body().bytes().unwrap_or_default();
    let function_error = response.headers().get(FUNCTION_ERROR);
    if response.status().is_success() && function_error.is_none() {
        if body.is_empty() {
            return Ok(Value::Null);
        }
        return serde_json::from_slice(body).map_err(OrchestratorError::other);
    }
    let document = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let text = |keys: [&str; 3]| keys.iter().find_map(|key| document.get(key)?.as_str());
    let name = response.headers().get("x-amzn-errortype").or_else(|| text(["__type", "code", "errorType"]));
    let name = name.or(function_error);
    let name = name.map(|name| name.rsplit('#').next().unwrap_or(name));
    let name = name.and_then(|name| name.split(':').next()).unwrap_or("HTTP status");
    let said = text(["message", "Message", "errorMessage"]);
    let error = ErrorMetadata::builder()
        .code(name)
        .message(said.map_or_else(|| response.status().as_u16().to_string(), str::to_owned))
        .build();
    Err(OrchestratorError::operation(error))
}

/// A client with the trusted certificates of the system, through the proxy that the environment names (`HTTPS_PROXY`, `NO_PROXY`).
#[must_use]
pub fn http_client() -> SharedHttpClient {
    client_through(ProxyConfig::from_env)
}

/// A client without a proxy, for a machine whose credentials come from its own metadata: those answer no proxy.
#[must_use]
pub fn direct_http_client() -> SharedHttpClient {
    client_through(ProxyConfig::disabled)
}

fn client_through(proxy: fn() -> ProxyConfig) -> SharedHttpClient {
    Builder::new().build_with_connector_fn(move |settings, components| {
        let mut connector =
            ConnectorBuilder::default().tls_provider(Provider::Rustls(CryptoMode::Ring)).proxy_config(proxy());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        connector.build()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_an_endpoint_is_not_repeated() {
        let check = |error: SignedCallError, expect: bool| assert_eq!(passes(&error), expect, "{error:?}");
        let refusal = AwsService::Ssm.endpoint("eusc-de-east-1", &SdkConfig::builder().build()).unwrap_err();
        check(SdkError::construction_failure(refusal), false);
        check(SdkError::construction_failure("there are no credentials"), true);
        check(SdkError::timeout_error("no answer"), true);
    }
}
