//! Single calls to services of AWS whose SDKs have a hundred others, and take minutes to compile: made with what signs, repeats and times the
//! SDK's own calls. The agent uses it as well, so it names no SDK.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::invocation_id::InvocationIdInterceptor;
use aws_runtime::retries::classifiers::AwsErrorCodeClassifier;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::classifiers::{HttpStatusCodeClassifier, TransientErrorClassifier};
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::auth::{
    AuthSchemeOptionResolverParams, SharedAuthScheme, SharedAuthSchemeOptionResolver,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::StaticRuntimePlugin;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::Layer;
use aws_smithy_types::error::ErrorMetadata;
use serde_json::Value;

/// One call that sends a JSON document, and gets one or nothing.
#[derive(Debug, Clone, Copy)]
pub struct SignedCall<'a> {
    /// By its IAM action.
    pub call: &'static str,
    pub region: &'a str,
    /// How the host begins: `api.sagemaker`.
    pub host: &'static str,
    /// By which its signatures name the service.
    pub signing_name: &'static str,
    pub protocol: JsonProtocol,
    pub repeats: Repeats,
}

/// Why a call has no answer, with the code and the message of the service where it has given them.
pub type SignedCallError = SdkError<ErrorMetadata, HttpResponse>;

/// How the operation is named, and the document sent.
#[derive(Debug, Clone, Copy)]
pub enum JsonProtocol {
    /// Smithy, "AWS restJson1 protocol": by its path.
    Rest { path: &'static str },
    /// Smithy, "AWS JSON 1.1 protocol": by a header.
    Target { prefix: &'static str, operation: &'static str },
}

/// What is repeated.
#[derive(Debug, Clone, Copy)]
pub enum Repeats {
    /// Whatever the SDK's calls repeat.
    LikeTheSdk,
    /// Only where the service answered with one of these: a repeat after a lost answer would do it twice.
    OnlyAt(&'static [u16]),
}

/// The first attempt and its retries, where the configuration does not say.
const ATTEMPTS_MAX: u32 = 4;

/// What the SDK repeats (AWS SDKs and tools reference guide, "Retry behavior").
const TRANSIENT_STATUSES: &[u16] = &[500, 502, 503, 504];

impl<'a> SignedCall<'a> {
    /// `GetParameter` of Systems Manager (its API reference).
    #[must_use]
    pub const fn get_parameter(region: &'a str) -> Self {
        Self {
            call: "ssm:GetParameter",
            region,
            host: "ssm",
            signing_name: "ssm",
            protocol: JsonProtocol::Target { prefix: "AmazonSSM", operation: "GetParameter" },
            repeats: Repeats::LikeTheSdk,
        }
    }
}

impl SignedCall<'_> {
    /// With the credentials, the timeouts and the retries of that configuration.
    ///
    /// # Errors
    /// If the service refused, or did not answer.
    pub async fn send(&self, config: &SdkConfig, body: &Value) -> Result<Value, SignedCallError> {
        let credentials = config.credentials_provider();
        let credentials = credentials.ok_or_else(|| SdkError::construction_failure("there are no credentials"))?;
        let mut signing = Layer::new("signing");
        signing.store_put(AuthSchemeOptionResolverParams::new(()));
        signing.store_put(SigV4OperationSigningConfig {
            region: Some(aws_config::Region::new(self.region.to_owned()).into()),
            name: Some(self.signing_name.into()),
            ..SigV4OperationSigningConfig::default()
        });
        let mut components = RuntimeComponentsBuilder::new("signing");
        components.push_auth_scheme(SharedAuthScheme::new(SigV4AuthScheme::new()));
        components.set_identity_resolver(SCHEME_ID, credentials);
        components.set_auth_scheme_option_resolver(Some(SharedAuthSchemeOptionResolver::new(
            StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID]),
        )));
        let retries = config.retry_config().cloned();
        let retries = retries.unwrap_or_else(|| RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX));
        let (service, operation) = self.call.split_once(':').unwrap_or(("", self.call));
        let protocol = self.protocol;
        let mut call = Operation::builder()
            .service_name(service)
            .operation_name(operation)
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&config.endpoint_url().map_or_else(|| self.endpoint(), str::to_owned))
            .standard_retry(&retries)
            .interceptor(InvocationIdInterceptor::new())
            .runtime_plugin(
                StaticRuntimePlugin::new().with_config(signing.freeze()).with_runtime_components(components),
            )
            .serializer(move |body| to_request(protocol, body))
            .deserializer(read_response);
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
        call.build().invoke(body.to_string()).await
    }

    /// AWS general reference, "Service endpoints and quotas".
    fn endpoint(&self) -> String {
        let (region, host) = (self.region, self.host);
        let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        format!("https://{host}.{region}.{suffix}")
    }
}

fn to_request(
    protocol: JsonProtocol,
    body: String,
) -> Result<HttpRequest, aws_smithy_runtime_api::box_error::BoxError> {
    let mut request = HttpRequest::new(SdkBody::from(body));
    request.set_method("POST")?;
    match protocol {
        JsonProtocol::Rest { path } => {
            request.set_uri(path)?;
            request.headers_mut().insert("content-type", "application/json");
        }
        JsonProtocol::Target { prefix, operation } => {
            request.set_uri("/")?;
            request.headers_mut().insert("content-type", "application/x-amz-json-1.1");
            request.headers_mut().insert("x-amz-target", format!("{prefix}.{operation}"));
        }
    }
    Ok(request)
}

/// The error's name is in a header or in the document, which has its message (Smithy, "AWS restJson1 protocol" and "AWS JSON 1.1
/// protocol", "Operation error serialization"). A good answer may be empty.
fn read_response(response: &HttpResponse) -> Result<Value, OrchestratorError<ErrorMetadata>> {
    let body = response.body().bytes().unwrap_or_default();
    if response.status().is_success() {
        if body.is_empty() {
            return Ok(Value::Null);
        }
        return serde_json::from_slice(body).map_err(OrchestratorError::other);
    }
    let document = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let text = |keys: [&str; 2]| keys.iter().find_map(|key| document.get(key)?.as_str());
    let name = response.headers().get("x-amzn-errortype").or_else(|| text(["__type", "code"]));
    let name = name.map(|name| name.rsplit('#').next().unwrap_or(name));
    let name = name.and_then(|name| name.split(':').next()).unwrap_or("HTTP status");
    let said = text(["message", "Message"]);
    let error = ErrorMetadata::builder()
        .code(name)
        .message(said.map_or_else(|| response.status().as_u16().to_string(), str::to_owned))
        .build();
    Err(OrchestratorError::operation(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_that_of_the_partition() {
        let endpoint = |region| {
            let protocol = JsonProtocol::Target { prefix: "SageMaker", operation: "DescribeApp" };
            let (call, host, signing_name) = ("sagemaker:DescribeApp", "api.sagemaker", "sagemaker");
            SignedCall { call, region, host, signing_name, protocol, repeats: Repeats::LikeTheSdk }.endpoint()
        };
        assert_eq!(endpoint("eu-central-1"), "https://api.sagemaker.eu-central-1.amazonaws.com");
        assert_eq!(endpoint("cn-north-1"), "https://api.sagemaker.cn-north-1.amazonaws.com.cn");
    }
}
