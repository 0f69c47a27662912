//! The bill from Cost Explorer. It is a day late; Curfew shows it beside the ledger, and never acts on it.

use std::collections::BTreeMap;
use std::fmt::Display;

use aws_sdk_costexplorer::types::{
    DateInterval, Dimension, DimensionValues, Expression, Granularity, GroupDefinition, GroupDefinitionType,
    ResultByTime,
};
use billing::budget::billed::{BilledDays, CostExplorerBill, usd_micros};
use model::id::{Region, TypeName};

use crate::aws::Aws;
use crate::error::{CallError, CallErrorKind, call_error};

const CALL: &str = "ce:GetCostAndUsage";
const METRIC: &str = "UnblendedCost";
/// AWS Cost Management user guide, "Default reports": EBS is under the second.
const SERVICES: [&str; 2] = ["Amazon Elastic Compute Cloud - Compute", "EC2 - Other"];
/// Charge types that are no price of use (AWS Cost Management user guide, "Filtering the data that you want to view", charge types).
const WITHOUT: [&str; 3] = ["Credit", "Refund", "Tax"];
/// Each page is a request at $0.01. There are fewer than 1,000 instance types, which fit one page.
const PAGES_MAX: usize = 5;

/// EC2 compute and EBS of those days, by instance type; needs `ce:GetCostAndUsage`. One request, $0.01.
///
/// # Errors
/// If Cost Explorer refused, or the answer is not in USD.
pub async fn billed(aws: &Aws, days: BilledDays) -> Result<CostExplorerBill, CallError> {
    let home = aws.home();
    let client = aws.cost_explorer();
    let interval = DateInterval::builder().start(days.from.to_string()).end(days.until.to_string()).build();
    let interval = interval.map_err(|error| misread(home, error.to_string()))?;
    let by_type = GroupDefinition::builder().r#type(GroupDefinitionType::Dimension).key("INSTANCE_TYPE").build();
    let mut bill = CostExplorerBill { days, by_type: BTreeMap::new() };
    let mut token: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let page = client
            .get_cost_and_usage()
            .time_period(interval.clone())
            .granularity(Granularity::Monthly)
            .metrics(METRIC)
            .filter(filter())
            .group_by(by_type.clone())
            .set_next_page_token(token)
            .send()
            .await
            .map_err(|error| call_error(CALL, home, &error))?;
        // The SDK reads a body that was lost as an answer without results, which is no bill of zero.
        for result in page.results_by_time.ok_or_else(|| misread(home, "nothing"))? {
            add(&mut bill, &result, home)?;
        }
        match page.next_page_token {
            Some(next) => token = Some(next),
            None => return Ok(bill),
        }
    }
    Err(misread(home, format!("more than {PAGES_MAX} pages of instance types: more than any account should have")))
}

fn filter() -> Expression {
    let values = |key: Dimension, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let values = DimensionValues::builder().key(key).set_values(Some(values)).build();
        Expression::builder().dimensions(values).build()
    };
    let not = Expression::builder().not(Box::new(values(Dimension::RecordType, &WITHOUT))).build();
    Expression::builder().and(values(Dimension::Service, &SERVICES)).and(not).build()
}

fn add(bill: &mut CostExplorerBill, result: &ResultByTime, home: &Region) -> Result<(), CallError> {
    for group in result.groups() {
        let name = group.keys().first().map(String::as_str).ok_or_else(|| misread(home, "a group without a key"))?;
        let cost = group
            .metrics()
            .and_then(|metrics| metrics.get(METRIC))
            .ok_or_else(|| misread(home, "a group without its cost"))?;
        let (text, unit) = (cost.amount().unwrap_or_default(), cost.unit().unwrap_or_default());
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
