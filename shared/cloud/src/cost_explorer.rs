//! The bill from Cost Explorer. It is a day late; Curfew shows it beside the ledger, and never acts on it.

use std::collections::BTreeMap;
use std::fmt::Display;

use billing::budget::billed::{BilledDays, CostExplorerBill, usd_micros};
use model::id::{Region, TypeName};
use serde_json::{Value, json};

use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind};
use crate::http_call::{AwsService, HttpCall};

const CALL: &str = "ce:GetCostAndUsage";
const METRIC: &str = "UnblendedCost";
/// AWS Cost Management user guide, "Default reports": EBS is under the second.
const SERVICES: [&str; 2] = ["Amazon Elastic Compute Cloud - Compute", "EC2 - Other"];
/// Charge types that are no price of use (AWS Cost Management user guide, "Filtering the data that you want to view", charge types). A
/// negation takes back the usage that a Savings Plan covers, whose fee is under another service (Savings Plans user guide, "Understanding
/// your bill").
const WITHOUT: [&str; 4] = ["Credit", "Refund", "SavingsPlanNegation", "Tax"];
/// Each page is a request at $0.01. There are fewer than 1,000 instance types, which fit one page.
const PAGES_MAX: usize = 5;

/// EC2 compute and EBS of those days, by instance type; needs `ce:GetCostAndUsage`. One request, $0.01.
///
/// # Errors
/// If Cost Explorer refused, or the answer is not in USD.
pub async fn billed(aws: &Aws, days: BilledDays) -> Result<CostExplorerBill, CallError> {
    let home = aws.home();
    let call = HttpCall::json_1_1(CALL, home, AwsService::CostExplorer, ("AWSInsightsIndexService", "GetCostAndUsage"));
    let mut bill = CostExplorerBill { days, by_type: BTreeMap::new() };
    let mut request = request_body(days);
    for _ in 0..PAGES_MAX {
        let page = call.send(aws, &request).await?;
        let results = page.get("ResultsByTime").and_then(Value::as_array);
        // An answer whose body was lost is no bill of zero.
        for result in results.ok_or_else(|| misread(home, "nothing"))? {
            add(&mut bill, result, home)?;
        }
        match page.get("NextPageToken").and_then(Value::as_str) {
            Some(next) => request["NextPageToken"] = json!(next),
            None => return Ok(bill),
        }
    }
    Err(misread(home, format!("more than {PAGES_MAX} pages of instance types: more than any account should have")))
}

fn request_body(days: BilledDays) -> Value {
    let values = |key: &str, values: &[&str]| json!({ "Dimensions": { "Key": key, "Values": values } });
    json!({
        "TimePeriod": { "Start": days.from.to_string(), "End": days.until.to_string() },
        "Granularity": "MONTHLY",
        "Metrics": [METRIC],
        "Filter": { "And": [values("SERVICE", &SERVICES), { "Not": values("RECORD_TYPE", &WITHOUT) }] },
        "GroupBy": [{ "Type": "DIMENSION", "Key": "INSTANCE_TYPE" }],
    })
}

fn add(bill: &mut CostExplorerBill, result: &Value, home: &Region) -> Result<(), CallError> {
    let groups = result.get("Groups").and_then(Value::as_array);
    for group in groups.ok_or_else(|| misread(home, "a result without groups"))? {
        let name = group["Keys"][0].as_str().ok_or_else(|| misread(home, "a group without a key"))?;
        let cost = group["Metrics"].get(METRIC).ok_or_else(|| misread(home, "a group without its cost"))?;
        let (text, unit) = (cost["Amount"].as_str().unwrap_or_default(), cost["Unit"].as_str().unwrap_or_default());
        if unit != "USD" {
            return Err(misread(home, format!("an amount in {unit:?}, and the ledger counts USD")));
        }
        let micros = usd_micros(text).ok_or_else(|| misread(home, format!("{text:?} for an amount")))?;
        let sum = bill.by_type.entry(TypeName::from(name)).or_default();
        *sum = sum.saturating_add(micros);
    }
    Ok(())
}

fn misread(home: &Region, why: impl Display) -> CallError {
    let message = format!("Cost Explorer answered {why}; nothing is compared");
    CallError::new(CALL, home, CallErrorKind::Other, message)
}

#[cfg(test)]
mod tests;
