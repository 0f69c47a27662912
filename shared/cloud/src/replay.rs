//! AWS for tests: a function from call to answer instead of the network, and a record of all calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_ec2::config::http::{HttpRequest, HttpResponse};
use aws_sdk_ec2::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_types::body::SdkBody;

use crate::aws::Aws;

/// One call, as it went over the wire.
#[derive(Debug, Clone)]
pub(crate) struct ReplayedCall {
    /// Such as `StopInstances`.
    pub(crate) name: String,
    /// Such as `us-east-1`.
    pub(crate) region: String,
    /// Parameters of the call, `key=value` and sorted, for services that take a form; for others the whole body as text.
    pub(crate) parameters: Vec<String>,
    pub(crate) user_agent: String,
}

pub(crate) enum ReplayAnswer {
    /// A good one in XML, without the outer element that has the call's name.
    Xml(String),
    /// Anything else, as it is.
    Raw(u16, Vec<u8>),
    /// No answer, ever.
    Silence,
}

impl ReplayAnswer {
    pub(crate) fn ok(xml: impl Into<String>) -> Self {
        Self::Xml(xml.into())
    }

    /// Client error as EC2 writes it.
    pub(crate) fn error(code: &str, message: &str) -> Self {
        Self::error_of(400, code, message)
    }

    /// Error as EC2 writes it, with another status than that of a client error.
    pub(crate) fn error_of(status: u16, code: &str, message: &str) -> Self {
        let error = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
        Self::Raw(status, format!("<Response><Errors>{error}</Errors><RequestID>1</RequestID></Response>").into())
    }

    /// Client error as SNS writes it.
    pub(crate) fn query_error(code: &str, message: &str) -> Self {
        let error = format!("<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>");
        Self::Raw(400, format!("<ErrorResponse>{error}<RequestId>1</RequestId></ErrorResponse>").into())
    }
}

/// Recorded calls, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplayedCalls(Arc<Mutex<Vec<ReplayedCall>>>);

impl ReplayedCalls {
    pub(crate) fn recorded(&self) -> Vec<ReplayedCall> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.recorded().into_iter().map(|call| call.name).collect()
    }

    /// Name and parameters, without those that every call has.
    pub(crate) fn said(&self) -> Vec<String> {
        let without = |parameter: &&String| !parameter.starts_with("Action=") && !parameter.starts_with("Version=");
        let said = |call: ReplayedCall| {
            let parameters: Vec<&str> = call.parameters.iter().filter(without).map(String::as_str).collect();
            format!("{} {}", call.name, parameters.join(" "))
        };
        self.recorded().into_iter().map(said).collect()
    }
}

type ReplayScript = dyn Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync;

struct Replay {
    script: Box<ReplayScript>,
    calls: ReplayedCalls,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Replay")
    }
}

impl HttpConnector for Replay {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let call = read(&request);
        let answer = (self.script)(&call);
        let name = call.name.clone();
        self.calls.0.lock().unwrap().push(call);
        let (status, body) = match answer {
            ReplayAnswer::Xml(xml) => (200, format!("<{name}Response>{xml}</{name}Response>").into_bytes()),
            ReplayAnswer::Raw(status, body) => (status, body),
            ReplayAnswer::Silence => return HttpConnectorFuture::new(futures::future::pending()),
        };
        let mut response = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body));
        response.headers_mut().insert("smithy-protocol", "rpc-v2-cbor");
        HttpConnectorFuture::ready(Ok(response))
    }
}

/// Connection at home in `us-east-1`, without retries.
pub(crate) fn aws(script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static) -> (Aws, ReplayedCalls) {
    with(RetryConfig::disabled(), TimeoutConfig::disabled(), script)
}

/// Connection with the SDK's own retries and this timeout of each attempt.
pub(crate) fn aws_that_repeats(
    retries: RetryConfig,
    timeout: Duration,
    script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (Aws, ReplayedCalls) {
    with(retries, TimeoutConfig::builder().operation_attempt_timeout(timeout).build(), script)
}

fn with(
    retries: RetryConfig,
    timeouts: TimeoutConfig,
    script: impl Fn(&ReplayedCall) -> ReplayAnswer + Send + Sync + 'static,
) -> (Aws, ReplayedCalls) {
    let calls = ReplayedCalls::default();
    let connector = SharedHttpConnector::new(Replay { script: Box::new(script), calls: calls.clone() });
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(aws_config::Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new("key", "secret", None, None, "test")))
        .retry_config(retries)
        .timeout_config(timeouts)
        .http_client(http_client_fn(move |_, _| connector.clone()))
        .build();
    (Aws::with(config), calls)
}

fn read(request: &HttpRequest) -> ReplayedCall {
    let uri = request.uri();
    let host = uri.trim_start_matches("https://").split('/').next().unwrap_or_default();
    let region = host.split('.').nth(1).unwrap_or_default().to_owned();
    let body = String::from_utf8_lossy(request.body().bytes().unwrap_or_default()).into_owned();
    let user_agent = request.headers().get("user-agent").unwrap_or_default().to_owned();
    if let Some((_, name)) = uri.split_once("/operation/") {
        return ReplayedCall { name: name.to_owned(), region, parameters: vec![body], user_agent };
    }
    if let Some((_, name)) = request.headers().get("x-amz-target").and_then(|target| target.split_once('.')) {
        return ReplayedCall { name: name.to_owned(), region, parameters: vec![body], user_agent };
    }
    let mut parameters: Vec<String> = body.split('&').map(decoded).collect();
    parameters.sort();
    let name = parameters.iter().find_map(|parameter| parameter.strip_prefix("Action="));
    ReplayedCall { name: name.unwrap_or_default().to_owned(), region, parameters, user_agent }
}

/// Removes the percent encoding.
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

/// One `instancesSet` item of a `g5.xlarge` that was launched a day before noon of 2026-09-01; `more` is further XML.
pub(crate) fn instance_xml(id: &str, state: &str, tags: &[(&str, &str)], more: &str) -> String {
    let kind = if more.contains("<instanceType>") { "" } else { "<instanceType>g5.xlarge</instanceType>" };
    format!(
        "<item><instanceId>{id}</instanceId>{kind}<launchTime>2026-08-31T12:00:00.000Z</launchTime>\
         <instanceState><code>16</code><name>{state}</name></instanceState>{}{more}</item>",
        tags_xml(tags)
    )
}

/// A page of `DescribeInstances`, and the next page's token.
pub(crate) fn instances_page(instances: &[String], next: Option<&str>) -> ReplayAnswer {
    let next = next.map(|token| format!("<nextToken>{token}</nextToken>")).unwrap_or_default();
    let reservation = format!("<item><instancesSet>{}</instancesSet></item>", instances.concat());
    ReplayAnswer::ok(format!("<reservationSet>{reservation}</reservationSet>{next}"))
}

/// Tags as all of EC2's answers have them.
pub(crate) fn tags_xml(tags: &[(&str, &str)]) -> String {
    let item = |(key, value): &(&str, &str)| format!("<item><key>{key}</key><value>{value}</value></item>");
    format!("<tagSet>{}</tagSet>", tags.iter().map(item).collect::<Vec<_>>().concat())
}

/// One `volumeSet` item of a `gp3` of 100 GiB, created at noon of 2026-08-01; `more` is further XML.
pub(crate) fn volume_xml(id: &str, state: &str, tags: &[(&str, &str)], more: &str) -> String {
    format!(
        "<item><volumeId>{id}</volumeId><size>100</size><snapshotId/><availabilityZone>us-east-1a</availabilityZone>\
         <status>{state}</status><createTime>2026-08-01T12:00:00.000Z</createTime><volumeType>gp3</volumeType>{}{more}</item>",
        tags_xml(tags)
    )
}

pub(crate) fn attached_xml(instance: &str) -> String {
    format!("<attachmentSet><item><instanceId>{instance}</instanceId><status>attached</status></item></attachmentSet>")
}

/// One `snapshotSet` item of 100 GiB, begun at noon of 2026-08-20.
/// A snapshot that is described as Curfew's.
pub(crate) fn snapshot_xml(id: &str, volume: &str, state: &str, tags: &[(&str, &str)]) -> String {
    format!(
        "<item><snapshotId>{id}</snapshotId><volumeId>{volume}</volumeId><status>{state}</status>\
         <startTime>2026-08-20T12:00:00.000Z</startTime><volumeSize>100</volumeSize>\
         <description>Curfew: {volume} before its deletion, by run-1</description>{}</item>",
        tags_xml(tags)
    )
}

/// A page of a list that is one set, and the next page's token.
pub(crate) fn page_of(set: &str, items: &[String], next: Option<&str>) -> ReplayAnswer {
    let next = next.map(|token| format!("<nextToken>{token}</nextToken>")).unwrap_or_default();
    ReplayAnswer::ok(format!("<{set}>{}</{set}>{next}", items.concat()))
}
