//! Calls of IAM and `CloudFormation`, with the errors of this crate.

use std::ops::ControlFlow;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_types::error::ErrorMetadata;
use model::id::Region;
use signed_call::{AwsService, QueryProtocol, QueryValueWriter, QueryWriter, Repeats, SignedCall};

use crate::aws::Aws;
use crate::describe::XmlElement;
use crate::error::{CallError, CallErrorKind, call_error};

/// IAM's code of what does not exist.
pub(super) const NO_SUCH_ENTITY: &str = "NoSuchEntity";

/// One call that sends a form, and gets XML. Its operation has the name of its IAM action.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueryCall<'a> {
    /// IAM action of the call.
    call: &'static str,
    region: &'a Region,
    service: AwsService,
    version: &'static str,
    /// The parameter with the place of the next page, and the element that has it.
    page_token: &'static str,
}

impl<'a> QueryCall<'a> {
    /// A call of IAM, which is global: `home` chooses the partition.
    pub(super) const fn iam(call: &'static str, home: &'a Region) -> Self {
        Self { call, region: home, service: AwsService::Iam, version: "2010-05-08", page_token: "Marker" }
    }

    pub(super) const fn cloudformation(call: &'static str, region: &'a Region) -> Self {
        Self { call, region, service: AwsService::CloudFormation, version: "2010-05-15", page_token: "NextToken" }
    }

    /// Returns the result, which the answer has in an element of its own.
    ///
    /// # Errors
    /// If the service refused, or did not answer.
    pub(super) async fn read(
        &self,
        aws: &Aws,
        write: impl FnOnce(&mut QueryWriter<'_>),
    ) -> Result<XmlElement, CallError> {
        self.send(aws, read_result, write).await
    }

    /// Sends a request of which only the acceptance matters.
    ///
    /// # Errors
    /// If the service refused, or did not answer.
    pub(super) async fn request(&self, aws: &Aws, write: impl FnOnce(&mut QueryWriter<'_>)) -> Result<(), CallError> {
        self.send(aws, read_response, write).await.map(drop)
    }

    /// Passes the result of each page to `read_page`, until that breaks off or `pages_max` pages are read.
    ///
    /// # Errors
    /// If a page could not be read.
    pub(super) async fn read_pages(
        &self,
        aws: &Aws,
        pages_max: usize,
        write: impl Fn(&mut QueryWriter<'_>),
        mut read_page: impl FnMut(&XmlElement) -> ControlFlow<()>,
    ) -> Result<(), CallError> {
        let mut token: Option<String> = None;
        for _ in 0..pages_max {
            let page = self.read(aws, |form| {
                write(form);
                if let Some(token) = &token {
                    form.prefix(self.page_token).string(token);
                }
            });
            let page = page.await?;
            if read_page(&page).is_break() {
                break;
            }
            let next = page.text(self.page_token).filter(|token| !token.is_empty());
            let has_no_next = match next {
                Some(next) => token.as_deref() == Some(next),
                None => page.text("IsTruncated") == Some("true"),
            };
            if has_no_next {
                let message = "the answer is truncated, and does not say where the next page begins";
                return Err(CallError::new(self.call, self.region, CallErrorKind::Other, message));
            }
            let Some(next) = next else { break };
            token = Some(next.to_owned());
        }
        Ok(())
    }

    async fn send(
        &self,
        aws: &Aws,
        read_answer: fn(&str, &[u8]) -> Result<XmlElement, BoxError>,
        write: impl FnOnce(&mut QueryWriter<'_>),
    ) -> Result<XmlElement, CallError> {
        let Self { call, region, service, version, .. } = *self;
        let protocol = QueryProtocol { version, read_answer, read_error };
        let signed = SignedCall { call, region: region.as_str(), service, protocol, repeats: Repeats::LikeTheSdk };
        Box::pin(signed.send(aws.sdk_config(), write)).await.map_err(|error| call_error(call, region, &error))
    }
}

/// Writes a list of texts.
pub(super) fn write_list<'a>(value: QueryValueWriter<'_>, texts: impl IntoIterator<Item = &'a str>) {
    let mut list = value.start_list(false, None);
    for text in texts {
        list.entry().string(text);
    }
    list.finish();
}

fn read_response(operation: &str, body: &[u8]) -> Result<XmlElement, BoxError> {
    Ok(XmlElement::read(body, &format!("{operation}Response"))?)
}

/// Smithy, "AWS Query protocol", "Response serialization".
fn read_result(operation: &str, body: &[u8]) -> Result<XmlElement, BoxError> {
    let result = read_response(operation, body)?.into_child(&format!("{operation}Result"));
    result.ok_or_else(|| format!("the answer has no {operation}Result").into())
}

/// Smithy, "AWS Query protocol", "Operation error serialization".
fn read_error(body: &[u8]) -> Result<ErrorMetadata, BoxError> {
    let response = XmlElement::read(body, "ErrorResponse")?;
    let error = response.child("Error").ok_or("the error has no Error")?;
    let mut metadata = ErrorMetadata::builder();
    if let Some(code) = error.text("Code") {
        metadata = metadata.code(code);
    }
    if let Some(message) = error.text("Message") {
        metadata = metadata.message(message);
    }
    Ok(metadata.build())
}

#[cfg(test)]
mod tests;
