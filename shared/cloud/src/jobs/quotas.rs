//! The quotas of EC2 in one region, as Service Quotas lists them.

use std::time::Duration;

use jobs::ListedQuota;
use model::id::Region;
use serde_json::{Value, json};

use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind};
use crate::http_call::{AwsService, HttpCall};
use crate::observe::pages::all_pages;

pub(crate) const LIST_QUOTAS: &str = "servicequotas:ListServiceQuotas";
/// The most that `ListServiceQuotas` gives (Service Quotas API reference). EC2 has fewer than 200 in all.
const PAGE_SIZE: u32 = 100;
/// A refused launch waits for it before the next candidate, possibly within the two minutes of a Spot warning.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Lists the quotas of EC2 with a value in this account, in two calls; needs `servicequotas:ListServiceQuotas`.
pub(super) async fn list_quotas(aws: &Aws, region: &Region) -> Result<Vec<ListedQuota>, CallError> {
    let mut listed = Vec::new();
    let pages = all_pages(LIST_QUOTAS, region, async |token| {
        let (quotas, next) = page_of_quotas(aws, region, token).await?;
        listed.extend(quotas.iter().filter_map(listed_quota));
        Ok(next)
    });
    let in_time = tokio::time::timeout(TIMEOUT, pages).await;
    in_time.unwrap_or_else(|_| Err(CallError::timed_out(LIST_QUOTAS, region, TIMEOUT)))?;
    Ok(listed)
}

/// One page of the quotas of EC2, as Service Quotas writes them, and the token of the next one.
pub(crate) async fn page_of_quotas(
    aws: &Aws,
    region: &Region,
    token: Option<String>,
) -> Result<(Vec<Value>, Option<String>), CallError> {
    let service = AwsService::ServiceQuotas;
    let call = HttpCall::json_1_1(LIST_QUOTAS, region, service, ("ServiceQuotasV20190624", "ListServiceQuotas"));
    let mut request = json!({ "ServiceCode": "ec2", "MaxResults": PAGE_SIZE });
    if let Some(token) = token {
        request["NextToken"] = json!(token);
    }
    let mut page = call.send(aws, &request).await?;
    let next = page["NextToken"].as_str().map(str::to_owned);
    let Some(Value::Array(quotas)) = page.get_mut("Quotas").map(Value::take) else {
        let message = "the answer of Service Quotas has no list";
        return Err(CallError::new(LIST_QUOTAS, region, CallErrorKind::Other, message));
    };
    Ok((quotas, next))
}

fn listed_quota(quota: &Value) -> Option<ListedQuota> {
    Some(ListedQuota {
        code: quota["QuotaCode"].as_str()?.to_owned(),
        name: quota["QuotaName"].as_str()?.to_owned(),
        usage_class: vcpu_class(&quota["UsageMetric"]),
        vcpus: granted(quota)?,
    })
}

/// The vCPUs that a quota grants; none if its value is no such number.
pub(crate) fn granted(quota: &Value) -> Option<f64> {
    quota["Value"].as_f64().filter(|value| value.is_finite() && *value >= 0.0)
}

/// The vCPU class that the quota counts (`CloudWatch` user guide, "AWS usage metrics").
fn vcpu_class(metric: &Value) -> Option<String> {
    let dimensions = &metric["MetricDimensions"];
    (dimensions["Resource"] == "vCPU").then(|| dimensions["Class"].as_str().map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use execution::jobs::AnswerCache;

    use super::*;
    use crate::replay::{ReplayAnswer, ReplayedCalls, aws};

    fn quota(code: &str, name: &str, metric: &str) -> String {
        format!(r#"{{"QuotaCode":"{code}","QuotaName":"{name}","Value":192.0,"UsageMetric":{metric}}}"#)
    }

    fn metric(resource: &str, class: &str) -> String {
        let dimensions = format!(r#"{{"Service":"EC2","Type":"Resource","Resource":"{resource}","Class":"{class}"}}"#);
        format!(r#"{{"MetricNamespace":"AWS/Usage","MetricName":"ResourceCount","MetricDimensions":{dimensions}}}"#)
    }

    fn page(quotas: &[String], next: &str) -> ReplayAnswer {
        ReplayAnswer::Raw(200, format!(r#"{{"Quotas":[{}],"NextToken":{next}}}"#, quotas.join(",")).into())
    }

    fn two_pages() -> (Aws, ReplayedCalls) {
        aws(|call| {
            if call.parameters.iter().any(|parameter| parameter.contains(r#""NextToken":"two""#)) {
                page(
                    &[quota("L-2", "Hosts", &metric("DedicatedHost", "P/OnDemand")), quota("L-3", "Others", "null")],
                    "null",
                )
            } else {
                page(&[quota("L-1", "All P5 Spot Instance Requests", &metric("vCPU", "P5/Spot"))], r#""two""#)
            }
        })
    }

    #[tokio::test]
    async fn name_value_and_class_of_all_pages_are_read() {
        let (aws, calls) = two_pages();
        let listed = list_quotas(&aws, &"eu-west-1".into()).await.unwrap();
        let expect = |code: &str, name: &str, class: Option<&str>| ListedQuota {
            code: code.to_owned(),
            name: name.to_owned(),
            usage_class: class.map(str::to_owned),
            vcpus: 192.0,
        };
        let first = expect("L-1", "All P5 Spot Instance Requests", Some("P5/Spot"));
        assert_eq!(listed, [first, expect("L-2", "Hosts", None), expect("L-3", "Others", None)]);
        assert!(calls.recorded().iter().all(|call| call.region == "eu-west-1"));
    }

    #[tokio::test]
    async fn a_region_is_asked_once_in_a_run() {
        let (aws, calls) = two_pages();
        let (asked, region) = (AnswerCache::default(), Region::from("eu-west-1"));
        for _ in 0..3 {
            assert_eq!(asked.quotas(&aws, &region).await.map(|listed| listed.len()), Ok(3));
        }
        assert_eq!(calls.recorded().len(), 2);
    }

    #[tokio::test]
    async fn what_is_denied_is_an_error() {
        let (aws, _) =
            aws(|_| ReplayAnswer::Raw(400, br#"{"__type":"AccessDeniedException","Message":"Not you"}"#.to_vec()));
        let error = list_quotas(&aws, &"eu-west-1".into()).await.unwrap_err();
        assert!(error.to_string().contains("grant servicequotas:ListServiceQuotas"), "{error}");
    }
}
