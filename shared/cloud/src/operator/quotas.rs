//! The quotas of EC2 for this account.

use std::collections::BTreeMap;

use model::id::Region;
use model::quota::QUOTAS;

use crate::aws::Aws;
use crate::error::CallError;
use crate::jobs::quotas::{LIST_QUOTAS, granted, page_of_quotas};
use crate::observe::pages::all_pages;

/// The quotas of GPU instances in one region, in vCPUs by their code; needs `servicequotas:ListServiceQuotas`. An absent code has no value
/// of this account's own. EC2 has less than 200 in all, so two calls replace ten of `GetServiceQuota`, which are slower: 5 a second (Service
/// Quotas user guide, "Service quotas for Service Quotas").
///
/// # Errors
/// If they cannot be listed.
pub async fn quotas(aws: &Aws, region: &Region) -> Result<BTreeMap<String, f64>, CallError> {
    let mut found = BTreeMap::new();
    all_pages(LIST_QUOTAS, region, async |token| {
        let (quotas, next) = page_of_quotas(aws, region, token).await?;
        let of_interest = quotas.iter().filter_map(|quota| Some((quota["QuotaCode"].as_str()?, granted(quota)?)));
        let of_interest = of_interest.filter(|(code, _)| QUOTAS.iter().any(|(_, _, known)| known == code));
        found.extend(of_interest.map(|(code, vcpus)| (code.to_owned(), vcpus)));
        Ok(next.filter(|_| found.len() < QUOTAS.len()))
    })
    .await?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, ReplayedCall, aws};

    fn listed(codes: &[(&str, f64)], next: &str) -> ReplayAnswer {
        let one = |(code, value): &(&str, f64)| format!(r#"{{"QuotaCode":"{code}","Value":{value}}}"#);
        let quotas: Vec<String> = codes.iter().map(one).collect();
        let next = if next.is_empty() { "null".to_owned() } else { format!("\"{next}\"") };
        ReplayAnswer::Raw(200, format!(r#"{{"Quotas":[{}],"NextToken":{next}}}"#, quotas.join(",")).into())
    }

    fn says(call: &ReplayedCall, words: &str) -> bool {
        call.parameters.iter().any(|parameter| parameter.contains(words))
    }

    #[tokio::test]
    async fn only_those_of_gpu_instances_are_kept_of_all_pages() {
        let (aws, calls) = aws(|call| {
            if says(call, r#""NextToken":"two""#) {
                listed(&[("L-417A185B", 96.0)], "")
            } else {
                listed(&[("L-1216C47A", 5.0), ("L-DB2E81BA", 64.0)], "two")
            }
        });
        let found = quotas(&aws, &Region::from("eu-west-1")).await.unwrap();
        assert_eq!(found, BTreeMap::from([("L-417A185B".to_owned(), 96.0), ("L-DB2E81BA".to_owned(), 64.0)]));
        assert_eq!(calls.recorded()[0].region, "eu-west-1");
    }

    #[tokio::test]
    async fn no_page_is_read_once_all_are_known() {
        let all: Vec<(&str, f64)> = QUOTAS.iter().map(|(_, _, code)| (*code, 0.0)).collect();
        let (aws, calls) = aws(move |_| listed(&all, "two"));
        assert_eq!(quotas(&aws, &Region::from("eu-west-1")).await.unwrap().len(), QUOTAS.len());
        assert_eq!(calls.recorded().len(), 1);
    }

    #[tokio::test]
    async fn what_is_denied_is_an_error() {
        let (aws, _) =
            aws(|_| ReplayAnswer::Raw(400, br#"{"__type":"AccessDeniedException","Message":"Not you"}"#.to_vec()));
        let error = quotas(&aws, &Region::from("eu-west-1")).await.unwrap_err();
        assert!(error.to_string().contains("grant servicequotas:ListServiceQuotas"), "{error}");
    }
}
