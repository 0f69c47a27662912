//! Mails by SES. It is one call, so it is made with what signs and repeats the SDK's own calls, and not with the SDK for SES, which has a
//! hundred others.

use aws_config::BehaviorVersion;
use aws_config::retry::RetryConfig;
use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_sdk_ec2::error::ErrorMetadata;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::classifiers::HttpStatusCodeClassifier;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::auth::{
    AuthSchemeOptionResolverParams, SharedAuthScheme, SharedAuthSchemeOptionResolver,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::StaticRuntimePlugin;
use aws_smithy_types::base64;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::Layer;
use model::id::Region;
use report::Mail;
use serde_json::{Value, json};

use crate::aws::{ATTEMPTS_MAX, Aws};
use crate::error::{CallError, CallErrorKind, call_error};

const SEND_EMAIL: &str = "ses:SendEmail";

/// Amazon SES API v2 reference, "`SendEmail`".
const PATH: &str = "/v2/email/outbound-emails";

/// Only where SES did not take the mail for certain: a repeat after a lost answer would be a second mail.
const REPEATED_AT: &[u16] = &[429, 503];

/// Sends one mail, in the home region.
///
/// # Errors
/// If SES did not accept it, or did not answer.
pub async fn send(aws: &Aws, sender: &str, recipient: &str, mail: &Mail) -> Result<(), CallError> {
    let home = aws.home();
    let without = |what: &str| CallError::new(SEND_EMAIL, home, CallErrorKind::Other, format!("there are no {what}"));
    let config = aws.sdk_config();
    let credentials = config.credentials_provider().ok_or_else(|| without("credentials"))?;
    let http_client = config.http_client().ok_or_else(|| without("connections"))?;
    let mut signing = Layer::new("signing");
    signing.store_put(AuthSchemeOptionResolverParams::new(()));
    signing.store_put(SigV4OperationSigningConfig {
        region: Some(aws_config::Region::new(home.as_str().to_owned()).into()),
        name: Some("ses".into()),
        ..SigV4OperationSigningConfig::default()
    });
    let mut components = RuntimeComponentsBuilder::new("signing");
    components.push_auth_scheme(SharedAuthScheme::new(SigV4AuthScheme::new()));
    components.set_identity_resolver(SCHEME_ID, credentials);
    components.set_auth_scheme_option_resolver(Some(SharedAuthSchemeOptionResolver::new(
        StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID]),
    )));
    let mut operation = Operation::builder()
        .service_name("SESv2")
        .operation_name("SendEmail")
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(&config.endpoint_url().map_or_else(|| endpoint(home), str::to_owned))
        .http_client(http_client)
        .standard_retry(&RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX))
        .retry_classifier(HttpStatusCodeClassifier::new_from_codes(REPEATED_AT))
        .runtime_plugin(StaticRuntimePlugin::new().with_config(signing.freeze()).with_runtime_components(components))
        .serializer(to_request)
        .deserializer(read_response);
    if let Some(timeouts) = config.timeout_config() {
        operation = operation.timeout_config(timeouts.clone());
    }
    if let Some(sleep) = config.sleep_impl() {
        operation = operation.sleep_impl(sleep);
    }
    if let Some(clock) = config.time_source() {
        operation = operation.time_source(clock);
    }
    let sent = operation.build().invoke(request_body(sender, recipient, mail).to_string()).await;
    sent.map_err(|error| call_error(SEND_EMAIL, home, &error))
}

/// AWS general reference, "Amazon Simple Email Service endpoints and quotas".
fn endpoint(region: &Region) -> String {
    let suffix = if region.as_str().starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://email.{region}.{suffix}")
}

/// SES writes the mail itself: nothing of a text can become a header.
fn request_body(sender: &str, recipient: &str, mail: &Mail) -> Value {
    let content = |text: &str| json!({ "Data": text, "Charset": "UTF-8" });
    json!({
        "FromEmailAddress": sender,
        "Destination": { "ToAddresses": [recipient] },
        "Content": { "Simple": {
            "Subject": content(&mail.subject),
            "Body": { "Text": content(&mail.text), "Html": content(&mail.html) },
            "Attachments": [{
                "FileName": mail.page_name,
                "ContentType": "text/html; charset=utf-8",
                "ContentDisposition": "ATTACHMENT",
                "RawContent": base64::encode(&mail.page),
            }],
        } },
    })
}

fn to_request(body: String) -> Result<HttpRequest, aws_smithy_runtime_api::box_error::BoxError> {
    let mut request = HttpRequest::new(SdkBody::from(body));
    request.set_method("POST")?;
    request.set_uri(PATH)?;
    request.headers_mut().insert("content-type", "application/json");
    Ok(request)
}

/// The error's name is in a header or in the document, which has its message (Smithy, "AWS restJson1 protocol", "Operation error
/// serialization").
fn read_response(response: &HttpResponse) -> Result<(), OrchestratorError<ErrorMetadata>> {
    if response.status().is_success() {
        return Ok(());
    }
    let body = response.body().bytes().unwrap_or_default();
    let document = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let text = |keys: [&str; 2]| keys.iter().find_map(|key| document.get(key)?.as_str());
    let name = response.headers().get("x-amzn-errortype").or_else(|| text(["__type", "code"]));
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
    fn a_mail_is_one_json_document_whatever_its_texts() {
        let mail = Mail {
            subject: "Curfew: $1 spent by \"a\"\r\nBcc: x@example.com".to_owned(),
            text: "t".to_owned(),
            html: "<p>h</p>".to_owned(),
            page: "<!DOCTYPE html>".to_owned(),
            page_name: "curfew-report-2026-11.html".to_owned(),
        };
        let body = request_body("curfew@example.com", "a@example.com", &mail);
        let simple = &body["Content"]["Simple"];
        assert_eq!(simple["Subject"]["Data"], mail.subject.as_str());
        assert_eq!(simple["Attachments"][0]["RawContent"], "PCFET0NUWVBFIGh0bWw+");
        assert_eq!(body["Destination"], json!({ "ToAddresses": ["a@example.com"] }));
    }

    #[test]
    fn the_endpoint_is_that_of_the_partition() {
        assert_eq!(endpoint(&"eu-central-1".into()), "https://email.eu-central-1.amazonaws.com");
        assert_eq!(endpoint(&"cn-north-1".into()), "https://email.cn-north-1.amazonaws.com.cn");
    }
}
