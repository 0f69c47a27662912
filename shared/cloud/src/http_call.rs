//! Single calls to services whose SDKs have a hundred others, with the errors of this crate.

use model::id::Region;
use serde_json::Value;
use signed_call::SignedCall;

use crate::aws::Aws;
use crate::error::{CallError, call_error};

pub(crate) use signed_call::{AwsService, JsonProtocol, Repeats};

/// One call, as [`SignedCall`] makes it.
pub(crate) struct HttpCall<'a> {
    /// IAM action of the call.
    pub(crate) call: &'static str,
    pub(crate) region: &'a Region,
    pub(crate) service: AwsService,
    pub(crate) protocol: JsonProtocol<'a>,
    pub(crate) repeats: Repeats,
}

impl<'a> HttpCall<'a> {
    /// An operation of the AWS JSON 1.1 protocol, repeated as the SDK's calls are.
    pub(crate) const fn json_1_1(
        call: &'static str,
        region: &'a Region,
        service: AwsService,
        (prefix, operation): (&'static str, &'static str),
    ) -> Self {
        let protocol = JsonProtocol::Target { prefix, operation };
        Self { call, region, service, protocol, repeats: Repeats::LikeTheSdk }
    }

    /// # Errors
    /// If the service refused, or did not answer.
    pub(crate) async fn send(&self, aws: &Aws, body: &Value) -> Result<Value, CallError> {
        let Self { call, region, service, protocol, repeats } = *self;
        let signed = SignedCall { call, region: region.as_str(), service, protocol, repeats };
        Box::pin(signed.send(aws.sdk_config(), body)).await.map_err(|error| call_error(call, region, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CallErrorKind;
    use crate::replay::{ReplayAnswer, aws};

    fn call(region: &Region) -> HttpCall<'_> {
        HttpCall {
            call: "sagemaker:DescribeApp",
            region,
            service: AwsService::SageMaker,
            protocol: JsonProtocol::Target { prefix: "SageMaker", operation: "DescribeApp" },
            repeats: Repeats::LikeTheSdk,
        }
    }

    #[tokio::test]
    async fn a_document_goes_and_a_document_comes() {
        let (aws, calls) = aws(|_| ReplayAnswer::Raw(200, br#"{"AppName":"default"}"#.to_vec()));
        let answer = call(&"us-east-1".into()).send(&aws, &serde_json::json!({ "DomainId": "d-1" })).await.unwrap();
        assert_eq!(answer["AppName"], "default");
        assert_eq!(calls.said(), [r#"DescribeApp {"DomainId":"d-1"}"#]);
        let user_agent = calls.recorded().remove(0).user_agent;
        let expect = format!(" api/sagemaker/{} ", env!("CARGO_PKG_VERSION"));
        assert!(user_agent.starts_with("aws-sdk-rust/") && user_agent.contains(&expect), "{user_agent}");
        assert!(user_agent.split(' ').any(|part| part == "app/curfew"), "{user_agent}");
    }

    #[tokio::test]
    async fn an_error_has_the_name_and_the_words_of_aws() {
        let check = async |body: &str, kind: CallErrorKind, code: &str| {
            let body = body.to_owned();
            let (aws, _) = aws(move |_| ReplayAnswer::Raw(400, body.clone().into_bytes()));
            let error = call(&"us-east-1".into()).send(&aws, &Value::Null).await.unwrap_err();
            assert_eq!((error.kind, error.code.as_deref()), (kind, Some(code)), "{error}");
        };
        check(
            r#"{"__type":"ThrottlingException","message":"Rate exceeded"}"#,
            CallErrorKind::Throttled,
            "ThrottlingException",
        )
        .await;
        check(
            r#"{"__type":"com.amazon#ResourceNotFound","Message":"gone"}"#,
            CallErrorKind::NotFound,
            "ResourceNotFound",
        )
        .await;
        let could_not = r#"{"__type":"ValidationException","message":"Could not find endpoint \"arn\"."}"#;
        check(could_not, CallErrorKind::NotFound, "ValidationException").await;
        check(
            r#"{"__type":"ValidationException","message":"RecordNotFound"}"#,
            CallErrorKind::NotFound,
            "ValidationException",
        )
        .await;
        check(r#"{"__type":"ValidationException","message":"1 error"}"#, CallErrorKind::Other, "ValidationException")
            .await;
    }

    #[tokio::test]
    async fn half_an_answer_is_none() {
        let (aws, _) = aws(|_| ReplayAnswer::Raw(200, br#"{"AppName":"#.to_vec()));
        let error = call(&"us-east-1".into()).send(&aws, &Value::Null).await.unwrap_err();
        assert!(error.kind.is_unanswered(), "{error}");
    }
}
