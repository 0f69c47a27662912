//! AWS for tests: a function from call to answer in place of the network, and a record of what was called.

use std::sync::{Arc, Mutex};

use aws_config::retry::RetryConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_ec2::config::http::{HttpRequest, HttpResponse};
use aws_sdk_ec2::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_types::body::SdkBody;

use crate::aws::Aws;

/// One call, as it went over the wire.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Such as `StopInstances`.
    pub(crate) name: String,
    /// Such as `us-east-1`.
    pub(crate) region: String,
    /// The parameters, `key=value` and sorted, of the services that take a form.
    pub(crate) parameters: Vec<String>,
}

/// What AWS answers.
pub(crate) struct Answer(u16, Vec<u8>);

impl Answer {
    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self(200, body.into())
    }

    /// As EC2 writes it.
    pub(crate) fn error(code: &str, message: &str) -> Self {
        let error = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
        Self(400, format!("<Response><Errors>{error}</Errors><RequestID>1</RequestID></Response>").into())
    }

    /// As SNS writes it.
    pub(crate) fn query_error(code: &str, message: &str) -> Self {
        let error = format!("<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>");
        Self(400, format!("<ErrorResponse>{error}<RequestId>1</RequestId></ErrorResponse>").into())
    }

    pub(crate) fn with_status(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self(status, body.into())
    }
}

/// What was called, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<Call>>>);

impl Calls {
    pub(crate) fn all(&self) -> Vec<Call> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.all().into_iter().map(|call| call.name).collect()
    }

    /// Name and parameters, but for those that every call has.
    pub(crate) fn said(&self) -> Vec<String> {
        let without = |parameter: &&String| !parameter.starts_with("Action=") && !parameter.starts_with("Version=");
        let said = |call: Call| {
            let parameters: Vec<&str> = call.parameters.iter().filter(without).map(String::as_str).collect();
            format!("{} {}", call.name, parameters.join(" "))
        };
        self.all().into_iter().map(said).collect()
    }
}

type Script = dyn Fn(&Call) -> Answer + Send + Sync;

struct Replay {
    script: Box<Script>,
    calls: Calls,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Replay")
    }
}

impl HttpConnector for Replay {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let call = read(&request);
        let Answer(status, body) = (self.script)(&call);
        self.calls.0.lock().unwrap().push(call);
        let mut response = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body));
        response.headers_mut().insert("smithy-protocol", "rpc-v2-cbor");
        HttpConnectorFuture::ready(Ok(response))
    }
}

/// At home in `us-east-1`, without retries.
pub(crate) fn aws(script: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> (Aws, Calls) {
    let calls = Calls::default();
    let connector = SharedHttpConnector::new(Replay { script: Box::new(script), calls: calls.clone() });
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(aws_config::Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new("key", "secret", None, None, "test")))
        .retry_config(RetryConfig::disabled())
        .http_client(http_client_fn(move |_, _| connector.clone()))
        .build();
    (Aws::with(config), calls)
}

fn read(request: &HttpRequest) -> Call {
    let uri = request.uri();
    let host = uri.trim_start_matches("https://").split('/').next().unwrap_or_default();
    let region = host.split('.').nth(1).unwrap_or_default().to_owned();
    if let Some((_, name)) = uri.split_once("/operation/") {
        return Call { name: name.to_owned(), region, parameters: Vec::new() };
    }
    let body = String::from_utf8_lossy(request.body().bytes().unwrap_or_default()).into_owned();
    let mut parameters: Vec<String> = body.split('&').map(decoded).collect();
    parameters.sort();
    let name = parameters.iter().find_map(|parameter| parameter.strip_prefix("Action="));
    Call { name: name.unwrap_or_default().to_owned(), region, parameters }
}

/// Without percent encoding.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (hex, rest) = part.split_at(2);
        decoded.push(u8::from_str_radix(hex, 16).unwrap());
        decoded.extend(rest.as_bytes());
    }
    String::from_utf8(decoded).unwrap()
}
