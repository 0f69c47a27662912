//! What the account has committed to: Savings Plans, Reserved Instances and Capacity Blocks.

use aws_sdk_ec2::types::{ReservedInstances as SdkReservedInstances, RiProductDescription, Scope, Tenancy};
use billing::budget::billed::usd_micros;
use jiff::{SignedDuration, Timestamp};
use model::capacity_reservation::ReservationKind;
use model::id::{Region, TypeName};
use model::moment::after;
use model::money::Rate;
use recommend::commitment::{CapacityBlock, PlanScope, ReservedInstances, SavingsPlan};
use serde_json::{Value, json};

use crate::aws::Aws;
use crate::convert::timestamp;
use crate::describe::active_reservations;
use crate::error::{CallError, CallErrorKind, call_error};
use crate::http_call::{AwsService, HttpCall, JsonProtocol, Repeats};
use crate::observe::filter;
use crate::observe::pages::all_pages;

const DESCRIBE_PLANS: &str = "savingsplans:DescribeSavingsPlans";
const DESCRIBE_RESERVED: &str = "ec2:DescribeReservedInstances";

/// Plans that cover something now or will (Savings Plans API reference, `SavingsPlan`, "state").
const PLAN_STATES: [&str; 3] = ["active", "payment-pending", "queued"];

/// The Savings Plans of this account that run or are queued; needs `savingsplans:DescribeSavingsPlans`. Those that other accounts of the
/// organization share are not among them.
///
/// # Errors
/// If AWS refused, or a plan cannot be read.
pub async fn savings_plans(aws: &Aws) -> Result<Vec<SavingsPlan>, CallError> {
    let home = aws.home();
    let call = HttpCall {
        call: DESCRIBE_PLANS,
        region: home,
        service: AwsService::SavingsPlans,
        protocol: JsonProtocol::Rest { path: "/DescribeSavingsPlans" },
        repeats: Repeats::LikeTheSdk,
    };
    let mut plans = Vec::new();
    all_pages(DESCRIBE_PLANS, home, async |token| {
        let mut request = json!({ "states": PLAN_STATES });
        if let Some(token) = token {
            request["nextToken"] = json!(token);
        }
        let page = call.send(aws, &request).await?;
        let listed =
            page["savingsPlans"].as_array().ok_or_else(|| misread(home, "the answer has no list".to_owned()))?;
        for plan in listed {
            plans.push(savings_plan(plan).ok_or_else(|| {
                let id = plan["savingsPlanId"].as_str().unwrap_or("without an id");
                misread(home, format!("the plan {id} lacks its type, its commitment in USD, its start or its end"))
            })?);
        }
        Ok(page["nextToken"].as_str().map(str::to_owned))
    })
    .await?;
    Ok(plans)
}

fn misread(region: &Region, message: String) -> CallError {
    CallError::new(DESCRIBE_PLANS, region, CallErrorKind::Other, message)
}

fn savings_plan(plan: &Value) -> Option<SavingsPlan> {
    let text = |name: &str| plan[name].as_str().filter(|text| !text.is_empty());
    let scope = match text("savingsPlanType")? {
        "Compute" => PlanScope::Compute,
        "SageMaker" => PlanScope::SageMaker,
        "EC2Instance" => {
            PlanScope::Ec2Instance { family: text("ec2InstanceFamily")?.to_owned(), region: text("region")?.into() }
        }
        other => PlanScope::Other { name: other.to_owned() },
    };
    let micros = usd_micros(text("commitment")?).filter(|_| text("currency").is_none_or(|name| name == "USD"))?;
    Some(SavingsPlan {
        id: text("savingsPlanId")?.to_owned(),
        scope,
        commitment: Rate::from_usd_micros_per_hour(u64::try_from(micros).ok()?),
        start: text("start")?.parse().ok()?,
        end: text("end")?.parse().ok()?,
    })
}

/// The Reserved Instances of a region for Linux on shared hardware that run or are queued, and the number of all others; needs
/// `ec2:DescribeReservedInstances`.
///
/// # Errors
/// If EC2 refused.
pub async fn reserved_instances(aws: &Aws, region: &Region) -> Result<(Vec<ReservedInstances>, u64), CallError> {
    let call = aws.ec2(region).describe_reserved_instances().filters(filter("state", PLAN_STATES));
    let answer = call.send().await.map_err(|error| call_error(DESCRIBE_RESERVED, region, &error))?;
    let (mut reserved, mut others) = (Vec::new(), 0_u64);
    for one in answer.reserved_instances() {
        match reservation(one, region) {
            Some(one) => reserved.push(one),
            None => others = others.saturating_add(u64::from(instances(one))),
        }
    }
    Ok((reserved, others))
}

fn instances(of: &SdkReservedInstances) -> u32 {
    of.instance_count.and_then(|count| u32::try_from(count).ok()).unwrap_or_default()
}

/// `None` for another platform or tenancy, and where EC2 leaves something out.
fn reservation(of: &SdkReservedInstances, region: &Region) -> Option<ReservedInstances> {
    let is_linux = matches!(
        of.product_description,
        Some(RiProductDescription::LinuxUnix | RiProductDescription::LinuxUnixAmazonVpc)
    );
    let is_shared = of.instance_tenancy.as_ref().is_none_or(|tenancy| *tenancy == Tenancy::Default);
    (is_linux && is_shared).then_some(())?;
    let start = of.start.as_ref().and_then(timestamp)?;
    let length = SignedDuration::from_secs(of.duration?);
    Some(ReservedInstances {
        id: of.reserved_instances_id.clone()?,
        instance_type: TypeName::new(of.instance_type.as_ref()?.as_str()),
        region: region.clone(),
        is_regional: of.scope == Some(Scope::Regional),
        count: instances(of),
        start,
        end: of.end.as_ref().and_then(timestamp).unwrap_or_else(|| after(start, length)),
    })
}

/// The active Capacity Blocks of a region; needs `ec2:DescribeCapacityReservations`.
///
/// # Errors
/// If EC2 refused.
pub async fn capacity_blocks(aws: &Aws, region: &Region) -> Result<Vec<CapacityBlock>, CallError> {
    let reservations = active_reservations(&aws.ec2(region), region).await?;
    let blocks = reservations.into_iter().filter(|one| one.kind == ReservationKind::CapacityBlock);
    let block = |one: model::capacity_reservation::CapacityReservation| CapacityBlock {
        id: one.id.to_string(),
        instance_type: one.instance_type,
        region: one.region,
        count: one.total,
        start: one.starts_at.unwrap_or(Timestamp::MIN),
        end: one.ends_at,
    };
    Ok(blocks.map(block).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayAnswer, aws};

    fn plan(kind: &str, more: &str) -> String {
        format!(
            r#"{{"savingsPlanId":"sp-{kind}","savingsPlanType":"{kind}","commitment":"5.25","currency":"USD","start":"2026-01-01T00:00:00.000Z","end":"2027-01-01T00:00:00.000Z"{more}}}"#
        )
    }

    fn page(plans: &[String], next: &str) -> ReplayAnswer {
        ReplayAnswer::Raw(200, format!(r#"{{"savingsPlans":[{}],"nextToken":{next}}}"#, plans.join(",")).into())
    }

    #[tokio::test]
    async fn plans_of_all_pages_are_read_with_what_they_apply_to() {
        let (aws, calls) = aws(|call| {
            if call.parameters.iter().any(|parameter| parameter.contains(r#""nextToken":"two""#)) {
                page(&[plan("SageMaker", ""), plan("Database", "")], "null")
            } else {
                let family = r#","ec2InstanceFamily":"p5","region":"us-west-2""#;
                page(&[plan("Compute", ""), plan("EC2Instance", family)], r#""two""#)
            }
        });
        let plans = savings_plans(&aws).await.unwrap();
        let scopes: Vec<&PlanScope> = plans.iter().map(|plan| &plan.scope).collect();
        let family = PlanScope::Ec2Instance { family: "p5".to_owned(), region: "us-west-2".into() };
        let other = PlanScope::Other { name: "Database".to_owned() };
        assert_eq!(scopes, [&PlanScope::Compute, &family, &PlanScope::SageMaker, &other]);
        assert_eq!(plans[0].commitment.to_string(), "$5.25/h");
        assert_eq!(calls.recorded().len(), 2);
    }

    #[tokio::test]
    async fn a_plan_that_cannot_be_read_is_an_error() {
        let check = async |answer: String, expect: &str| {
            let (aws, _) = aws(move |_| ReplayAnswer::Raw(200, answer.clone().into_bytes()));
            let error = savings_plans(&aws).await.unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check("{}".to_owned(), "the answer has no list").await;
        let euros = plan("Compute", "").replace("USD", "EUR");
        check(format!(r#"{{"savingsPlans":[{euros}]}}"#), "the plan sp-Compute lacks").await;
        check(format!(r#"{{"savingsPlans":[{}]}}"#, plan("EC2Instance", "")), "the plan sp-EC2Instance lacks").await;
    }

    #[tokio::test]
    async fn what_is_denied_is_an_error_that_names_the_permission() {
        let (aws, _) =
            aws(|_| ReplayAnswer::Raw(403, br#"{"__type":"AccessDeniedException","message":"Not you"}"#.to_vec()));
        let error = savings_plans(&aws).await.unwrap_err().to_string();
        assert!(error.contains("grant savingsplans:DescribeSavingsPlans"), "{error}");
    }

    #[tokio::test]
    async fn reserved_instances_for_linux_on_shared_hardware_are_kept_and_others_counted() {
        let item = |id: &str, more: &str| {
            format!(
                "<item><reservedInstancesId>{id}</reservedInstancesId><instanceType>p5.48xlarge</instanceType>\
                 <start>2026-01-01T00:00:00.000Z</start><duration>31536000</duration><instanceCount>2</instanceCount>{more}</item>"
            )
        };
        let linux = "<productDescription>Linux/UNIX</productDescription>";
        let all = [
            item("ri-1", &format!("{linux}<scope>Region</scope><instanceTenancy>default</instanceTenancy>")),
            item("ri-2", &format!("{linux}<scope>Availability Zone</scope>")),
            item("ri-3", &format!("{linux}<instanceTenancy>dedicated</instanceTenancy>")),
            item("ri-4", "<productDescription>Windows</productDescription>"),
        ];
        let (aws, calls) =
            aws(move |_| ReplayAnswer::ok(format!("<reservedInstancesSet>{}</reservedInstancesSet>", all.concat())));
        let (reserved, others) = reserved_instances(&aws, &"eu-west-1".into()).await.unwrap();
        let shown: Vec<(&str, bool, u32)> =
            reserved.iter().map(|one| (one.id.as_str(), one.is_regional, one.count)).collect();
        assert_eq!((shown, others), (vec![("ri-1", true, 2), ("ri-2", false, 2)], 4));
        assert_eq!(reserved[0].end.to_string(), "2027-01-01T00:00:00Z");
        assert_eq!(calls.recorded()[0].region, "eu-west-1");
    }
}
