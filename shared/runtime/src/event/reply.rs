//! Requests of people who answer a link: by its page, or by a button of a chat.

use serde::{Deserialize, Serialize};

/// A request to the function's address (Lambda developer guide, "Invoking Lambda function URLs", "Request payload format"), or an answer by a
/// button of a chat. Its texts are hostile. The body, the headers and the query of a request are not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplyRequest {
    Page {
        method: String,
        path: String,
        /// The IP address of the caller.
        from: String,
    },
    Button {
        token: String,
        choice: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UrlEvent {
    request_context: RequestContext,
}

#[derive(Deserialize)]
struct RequestContext {
    http: HttpRequest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HttpRequest {
    method: String,
    path: String,
    source_ip: String,
}

/// The payload of the custom actions in `template.yaml`.
#[derive(Deserialize)]
struct ButtonEvent {
    reply: String,
    choice: String,
}

/// `None` if the payload is something else.
pub(super) fn read_request(payload: &[u8]) -> Option<ReplyRequest> {
    if let Ok(UrlEvent { request_context: RequestContext { http } }) = serde_json::from_slice(payload) {
        let HttpRequest { method, path, source_ip: from } = http;
        return Some(ReplyRequest::Page { method, path, from });
    }
    let ButtonEvent { reply: token, choice } = serde_json::from_slice(payload).ok()?;
    Some(ReplyRequest::Button { token, choice })
}
