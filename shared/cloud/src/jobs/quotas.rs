//! The quotas of EC2 in one region, as Service Quotas lists them.

use std::time::Duration;

use aws_sdk_servicequotas::types::{MetricInfo, ServiceQuota};
use jobs::ListedQuota;
use model::id::Region;

use crate::aws::Aws;
use crate::error::{CallError, call_error};
use crate::observe::pages::all_pages;

pub(crate) const LIST_QUOTAS: &str = "servicequotas:ListServiceQuotas";
/// The most that `ListServiceQuotas` gives (Service Quotas API reference). EC2 has fewer than 200 in all.
pub(crate) const PAGE_SIZE: i32 = 100;
/// A refused launch waits for it before the next candidate, possibly within the two minutes of a Spot warning.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Those with a value in this account; needs `servicequotas:ListServiceQuotas`. In two calls.
pub(super) async fn list_quotas(aws: &Aws, region: &Region) -> Result<Vec<ListedQuota>, CallError> {
    let call = aws.servicequotas(region).list_service_quotas().service_code("ec2").max_results(PAGE_SIZE);
    let mut listed = Vec::new();
    let pages = all_pages(LIST_QUOTAS, region, async |token| {
        let page = call.clone().set_next_token(token).send().await;
        let page = page.map_err(|error| call_error(LIST_QUOTAS, region, &error))?;
        listed.extend(page.quotas().iter().filter_map(listed_quota));
        Ok(page.next_token)
    });
    let in_time = tokio::time::timeout(TIMEOUT, pages).await;
    in_time.unwrap_or_else(|_| Err(CallError::timed_out(LIST_QUOTAS, region, TIMEOUT)))?;
    Ok(listed)
}

fn listed_quota(quota: &ServiceQuota) -> Option<ListedQuota> {
    Some(ListedQuota {
        code: quota.quota_code()?.to_owned(),
        name: quota.quota_name()?.to_owned(),
        usage_class: quota.usage_metric().and_then(vcpu_class),
        vcpus: granted(quota)?,
    })
}

/// The vCPUs that a quota grants; none if its value is no such number.
pub(crate) fn granted(quota: &ServiceQuota) -> Option<f64> {
    quota.value.filter(|value| value.is_finite() && *value >= 0.0)
}

/// The vCPU class that the quota counts (`CloudWatch` user guide, "AWS usage metrics").
fn vcpu_class(metric: &MetricInfo) -> Option<String> {
    let dimensions = metric.metric_dimensions()?;
    (dimensions.get("Resource")? == "vCPU").then(|| dimensions.get("Class").cloned())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::AnswerCache;
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
