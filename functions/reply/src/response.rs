//! Answers of the function, as Lambda hands them on.

use std::collections::BTreeMap;

use operator::reply::page::ErrorPage;
use serde::Serialize;

/// A page whose forms send only here, and which loads nothing. A style cannot be foreign: the pages escape all text.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Headers of every page. The address is a secret, so nothing keeps the page and nothing hands the address on.
const HEADERS: [(&str, &str); 7] = [
    ("content-type", "text/html; charset=utf-8"),
    ("content-security-policy", POLICY),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("x-robots-tag", "noindex, nofollow"),
    ("x-content-type-options", "nosniff"),
    ("strict-transport-security", "max-age=31536000"),
];

/// An answer to a request to the function's address (Lambda developer guide, "Invoking Lambda function URLs", "Response payload format").
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageResponse {
    status_code: u16,
    headers: BTreeMap<&'static str, &'static str>,
    body: String,
}

impl PageResponse {
    pub(crate) fn new(status_code: u16, body: String) -> Self {
        Self { status_code, headers: HEADERS.into(), body }
    }

    pub(crate) fn error(page: ErrorPage) -> Self {
        Self::new(page.status(), page.html())
    }
}

/// An answer to a button, which the chat shows as it is.
#[derive(Debug, Serialize)]
pub(crate) struct ButtonResponse {
    pub(crate) message: String,
}
