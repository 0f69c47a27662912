//! Our decoding of an answer, instead of the SDK's.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_ec2::config::interceptors::BeforeSerializationInterceptorContextMut;
use aws_sdk_ec2::config::{ConfigBag, Intercept, RuntimeComponents, RuntimePlugin};
use aws_sdk_ec2::error::{BoxError, ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::interceptors::context::{Error, Output, OutputOrError};
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::ser_de::{DeserializeResponse, SharedResponseDeserializer};
use model::id::Region;

use super::document::XmlError;
use crate::error::{CallError, CallErrorKind, call_error};

/// An operation of the SDK with a decoder of ours for its good answers.
pub(super) trait CustomAnswer: RuntimePlugin + Default + 'static {
    /// The call by its IAM action.
    const CALL: &'static str;
    /// The decoded answer.
    type Page: Debug + Send + 'static;

    fn read(body: &[u8], region: &Region) -> Result<Self::Page, XmlError>;
    /// The empty output for the SDK.
    fn nothing() -> Output;
    /// The SDK's error for an unreadable answer.
    fn refusal(error: XmlError) -> Error;
}

/// Sends one call and decodes the answer here. An answer that cannot be read to its end is an error.
pub(super) async fn read<D, O, E>(
    region: &Region,
    send: impl AsyncFnOnce(CustomReading<D>) -> Result<O, SdkError<E, HttpResponse>>,
) -> Result<D::Page, CallError>
where
    D: CustomAnswer,
    E: ProvideErrorMetadata + StdError + 'static,
{
    let reading = CustomReading::<D> { region: region.clone(), slot: PageSlot::empty(), operation: PhantomData };
    let slot = reading.slot.clone();
    send(reading).await.map_err(|error| call_error(D::CALL, region, &error))?;
    slot.take().ok_or_else(|| {
        CallError::new(D::CALL, region, CallErrorKind::Other, "the answer was not read by Curfew's own reader")
    })
}

/// Holds the page of the last attempt: the SDK's output types have no room for it.
#[derive(Debug)]
struct PageSlot<P>(Arc<Mutex<Option<P>>>);

impl<P> Clone for PageSlot<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> PageSlot<P> {
    fn empty() -> Self {
        Self(Arc::new(Mutex::new(None)))
    }

    fn put(&self, page: P) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(page);
    }

    fn take(&self) -> Option<P> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Our decoder, and the plugin that puts it in place of the SDK's.
#[derive(Debug)]
pub(super) struct CustomReading<D: CustomAnswer> {
    region: Region,
    slot: PageSlot<D::Page>,
    operation: PhantomData<D>,
}

impl<D: CustomAnswer> Intercept for CustomReading<D> {
    fn name(&self) -> &'static str {
        "OwnReading"
    }

    fn modify_before_serialization(
        &self,
        _: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        settings: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let own = Self { region: self.region.clone(), slot: self.slot.clone(), operation: PhantomData };
        settings.interceptor_state().store_put(SharedResponseDeserializer::new(own));
        Ok(())
    }
}

impl<D: CustomAnswer> DeserializeResponse for CustomReading<D> {
    fn deserialize_nonstreaming_with_config(&self, response: &HttpResponse, settings: &ConfigBag) -> OutputOrError {
        if !response.status().is_success() {
            let of_sdk = D::default().config();
            return match of_sdk.as_ref().and_then(|of_sdk| of_sdk.load::<SharedResponseDeserializer>()) {
                Some(reading) => reading.deserialize_nonstreaming_with_config(response, settings),
                None => Err(OrchestratorError::other(format!("the SDK has no decoder for {}", D::CALL))),
            };
        }
        let page = D::read(response.body().bytes().unwrap_or_default(), &self.region)
            .map_err(|error| OrchestratorError::operation(D::refusal(error)))?;
        self.slot.put(page);
        Ok(D::nothing())
    }
}
