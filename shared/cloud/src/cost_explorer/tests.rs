use jiff::civil::date;

use super::*;
use crate::replay::{ReplayAnswer, aws};

fn days() -> BilledDays {
    BilledDays { from: date(2026, 11, 1), until: date(2026, 11, 20) }
}

/// A page with these groups, as Cost Explorer writes them (API reference, `GetCostAndUsage`).
fn page(groups: &[(&str, &str, &str)], next: Option<&str>) -> ReplayAnswer {
    let group = |(name, amount, unit): &(&str, &str, &str)| {
        format!(r#"{{"Keys":["{name}"],"Metrics":{{"UnblendedCost":{{"Amount":"{amount}","Unit":"{unit}"}}}}}}"#)
    };
    let groups: Vec<String> = groups.iter().map(group).collect();
    let next = next.map(|token| format!(r#""NextPageToken":"{token}","#)).unwrap_or_default();
    let period = r#"{"Start":"2026-11-01","End":"2026-11-20"}"#;
    let results = format!(r#"{{"TimePeriod":{period},"Total":{{}},"Groups":[{}],"Estimated":true}}"#, groups.join(","));
    let by = r#"[{"Type":"DIMENSION","Key":"INSTANCE_TYPE"}]"#;
    let body =
        format!(r#"{{{next}"GroupDefinitions":{by},"ResultsByTime":[{results}],"DimensionValueAttributes":[]}}"#);
    ReplayAnswer::Raw(200, body.into())
}

fn shown(bill: &CostExplorerBill) -> Vec<(String, i128)> {
    bill.by_type.iter().map(|(name, micros)| (name.to_string(), *micros)).collect()
}

#[tokio::test]
async fn it_is_asked_once_for_ec2_and_ebs_by_instance_type() {
    let (aws, calls) =
        aws(|_| page(&[("g5.xlarge", "100.5000000001", "USD"), ("NoInstanceType", "-0.25", "USD")], None));
    let bill = billed(&aws, days()).await.unwrap();
    assert_eq!(shown(&bill), [("NoInstanceType".to_owned(), -250_000), ("g5.xlarge".to_owned(), 100_500_000)]);
    assert_eq!(bill.days, days());
    insta::assert_snapshot!(calls.said().join("\n"), @r#"GetCostAndUsage {"Filter":{"And":[{"Dimensions":{"Key":"SERVICE","Values":["Amazon Elastic Compute Cloud - Compute","EC2 - Other"]}},{"Not":{"Dimensions":{"Key":"RECORD_TYPE","Values":["Credit","Refund","SavingsPlanNegation","Tax"]}}}]},"Granularity":"MONTHLY","GroupBy":[{"Key":"INSTANCE_TYPE","Type":"DIMENSION"}],"Metrics":["UnblendedCost"],"TimePeriod":{"End":"2026-11-20","Start":"2026-11-01"}}"#);
}

#[tokio::test]
async fn pages_are_added_up() {
    let (aws, calls) = aws(|call| {
        let is_second = call.parameters.iter().any(|body| body.contains(r#""NextPageToken":"two""#));
        page(&[("g5.xlarge", "1", "USD")], (!is_second).then_some("two"))
    });
    assert_eq!(shown(&billed(&aws, days()).await.unwrap()), [("g5.xlarge".to_owned(), 2_000_000)]);
    assert_eq!(calls.names().len(), 2);
}

#[tokio::test]
async fn what_cannot_be_understood_is_an_error() {
    for (answer, says) in [
        (page(&[("g5.xlarge", "1", "CNY")], None), "an amount in \"CNY\""),
        (page(&[("g5.xlarge", "much", "USD")], None), "\"much\" for an amount"),
        (ReplayAnswer::Raw(200, Vec::new()), "answered nothing"),
        (
            ReplayAnswer::Raw(200, br#"{"ResultsByTime":[{"Groups":[{"Metrics":{}}]}]}"#.to_vec()),
            "a group without a key",
        ),
        (
            ReplayAnswer::Raw(200, br#"{"ResultsByTime":[{"Groups":[{"Keys":["a"]}]}]}"#.to_vec()),
            "a group without its cost",
        ),
        (
            ReplayAnswer::Raw(400, br#"{"__type":"AccessDeniedException","Message":"Not you"}"#.to_vec()),
            "grant ce:GetCostAndUsage to the role that asked",
        ),
    ] {
        let answer = std::sync::Mutex::new(Some(answer));
        let (aws, _) = aws(move |_| answer.lock().unwrap().take().unwrap());
        let error = billed(&aws, days()).await.unwrap_err().to_string();
        assert!(error.contains(says) && error.starts_with("ce:GetCostAndUsage failed in us-east-1"), "{error}");
    }
    let (aws, calls) = aws(|_| page(&[], Some("again")));
    assert!(billed(&aws, days()).await.unwrap_err().to_string().contains("more than 5 pages"));
    assert_eq!(calls.names().len(), 5);
}
