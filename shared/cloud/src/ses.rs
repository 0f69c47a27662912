//! Mails by SES.

use aws_smithy_types::base64;
use notify::Message;
use report::Mail;
use serde_json::{Value, json};

use crate::aws::Aws;
use crate::error::CallError;
use crate::http_call::{AwsService, HttpCall, JsonProtocol, Repeats};

/// Amazon SES API v2 reference, "`SendEmail`".
const PATH: &str = "/v2/email/outbound-emails";

/// Only where SES did not take the mail for certain: a repeat after a lost answer would be a second mail.
const REPEATED_AT: &[u16] = &[429, 503];

/// Sends one mail, in the home region.
///
/// # Errors
/// If SES did not accept it, or did not answer.
pub(crate) async fn send(aws: &Aws, sender: &str, recipient: &str, mail: &Mail) -> Result<(), CallError> {
    send_request(aws, &request_body(sender, recipient, mail)).await
}

/// Sends one message as a mail of plain text, in the home region.
///
/// # Errors
/// If SES did not accept it, or did not answer.
pub(crate) async fn send_text(aws: &Aws, sender: &str, recipient: &str, message: &Message) -> Result<(), CallError> {
    let body = json!({ "Text": content(&message.body) });
    send_request(aws, &envelope(sender, recipient, &json!({ "Subject": content(&message.subject), "Body": body })))
        .await
}

async fn send_request(aws: &Aws, request: &Value) -> Result<(), CallError> {
    let call = HttpCall {
        call: "ses:SendEmail",
        region: aws.home(),
        service: AwsService::Ses,
        protocol: JsonProtocol::Rest { path: PATH },
        repeats: Repeats::OnlyAt(REPEATED_AT),
    };
    call.send(aws, request).await.map(drop)
}

fn request_body(sender: &str, recipient: &str, mail: &Mail) -> Value {
    let simple = json!({
        "Subject": content(&mail.subject),
        "Body": { "Text": content(&mail.text), "Html": content(&mail.html) },
        "Attachments": [{
            "FileName": mail.page_name,
            "ContentType": "text/html; charset=utf-8",
            "ContentDisposition": "ATTACHMENT",
            "RawContent": base64::encode(&mail.page),
        }],
    });
    envelope(sender, recipient, &simple)
}

/// SES writes the mail itself: nothing of a text can become a header.
fn envelope(sender: &str, recipient: &str, simple: &Value) -> Value {
    json!({
        "FromEmailAddress": sender,
        "Destination": { "ToAddresses": [recipient] },
        "Content": { "Simple": simple },
    })
}

fn content(text: &str) -> Value {
    json!({ "Data": text, "Charset": "UTF-8" })
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
}
