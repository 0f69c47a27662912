use model::fixture::time;

use super::super::curve::TypeUsage;
use super::*;

const NOW: &str = "2026-11-29T00:00:00Z";
const END: &str = "2027-06-01T00:00:00Z";

/// An hour in which so many of each type ran in us-east-1, at so many dollars each.
fn hour(types: &[(&str, u64, f64)], sagemaker: f64) -> HourUsage {
    let usage = |(name, count, usd): &(&str, u64, f64)| {
        let key = UsageKey { region: "us-east-1".into(), instance_type: (*name).into() };
        (key, TypeUsage { spent: Amount::from_usd(*usd).scaled(*count, 1), seconds: count * HOUR_SECONDS })
    };
    HourUsage { from: time(NOW), instances: types.iter().map(usage).collect(), sagemaker: Amount::from_usd(sagemaker) }
}

fn plan(scope: PlanScope, usd: f64) -> SavingsPlan {
    let commitment = Rate::from_usd_per_hour(usd);
    SavingsPlan { id: "sp-1".to_owned(), scope, commitment, start: time("2026-01-01T00:00:00Z"), end: time(END) }
}

fn ec2_plan(family: &str) -> PlanScope {
    PlanScope::Ec2Instance { family: family.to_owned(), region: "us-east-1".into() }
}

fn reserved(name: &str, count: u32, is_regional: bool) -> ReservedInstances {
    ReservedInstances {
        id: "ri-1".to_owned(),
        instance_type: name.into(),
        region: "us-east-1".into(),
        is_regional,
        count,
        start: time("2026-01-01T00:00:00Z"),
        end: time(END),
    }
}

fn with_plans(plans: Vec<SavingsPlan>) -> ExistingCommitments {
    ExistingCommitments { savings_plans: Some(plans), ..ExistingCommitments::default() }
}

fn with_reserved(reserved: Vec<ReservedInstances>) -> ExistingCommitments {
    ExistingCommitments { reserved_instances: Some(reserved), ..ExistingCommitments::default() }
}

/// The rest of an hour for a new plan, at a discount of 50 %.
fn check(existing: &ExistingCommitments, hour: &HourUsage, choice: &PlanChoice, expect: &str) {
    let discount = PlanDiscount::from_percent(50.0).unwrap();
    let left = existing.left_over(std::slice::from_ref(hour), choice, time(NOW), discount);
    assert_eq!(left[0].spent.to_string(), expect, "{existing:?} {choice:?}");
}

#[test]
fn plans_cover_what_they_apply_to() {
    let used = hour(&[("g5.xlarge", 10, 1.0), ("p5.48xlarge", 1, 55.0)], 8.0);
    let (compute, sagemaker) = (PlanChoice::Compute, PlanChoice::SageMaker);
    let g5 = PlanChoice::Ec2Instance { family: "g5".to_owned(), region: "us-east-1".into() };
    let none = ExistingCommitments::default();
    check(&none, &used, &compute, "$65.00");
    check(&none, &used, &sagemaker, "$8.00");
    check(&none, &used, &g5, "$10.00");
    // $5 an hour cover $10 on demand at half the price.
    let existing = with_plans(vec![plan(PlanScope::Compute, 5.0)]);
    check(&existing, &used, &compute, "$55.00");
    check(&existing, &used, &sagemaker, "$8.00");
    check(&existing, &used, &g5, "$10.00");
    check(&with_plans(vec![plan(PlanScope::Compute, 30.0)]), &used, &g5, "$5.00");
    let existing = with_plans(vec![plan(ec2_plan("g5"), 4.0), plan(PlanScope::SageMaker, 1.0)]);
    check(&existing, &used, &compute, "$57.00");
    check(&existing, &used, &g5, "$2.00");
    check(&existing, &used, &sagemaker, "$6.00");
    // A plan of a family covers no other one, however large it is.
    check(&with_plans(vec![plan(ec2_plan("g6"), 90.0)]), &used, &compute, "$65.00");
    check(&with_plans(vec![plan(ec2_plan("g5"), 90.0)]), &used, &compute, "$55.00");
    check(&with_plans(vec![plan(PlanScope::Other { name: "Database".to_owned() }, 90.0)]), &used, &compute, "$65.00");
}

#[test]
fn reserved_instances_cover_their_size_and_flexible_ones_their_family() {
    let compute = PlanChoice::Compute;
    let used = hour(&[("g5.xlarge", 4, 1.0), ("g5.2xlarge", 2, 2.0)], 0.0);
    check(&with_reserved(vec![reserved("g5.xlarge", 3, true)]), &used, &compute, "$5.00");
    check(&with_reserved(vec![reserved("g5.xlarge", 9, true)]), &used, &compute, "$4.00");
    check(&with_reserved(vec![reserved("g5.4xlarge", 9, true)]), &used, &compute, "$8.00");
    // A 4xlarge is four xlarge, or two of these and one 2xlarge.
    let used = hour(&[("g7e.2xlarge", 1, 3.0), ("g7e.4xlarge", 2, 6.0)], 0.0);
    check(&with_reserved(vec![reserved("g7e.4xlarge", 1, true)]), &used, &compute, "$9.00");
    check(&with_reserved(vec![reserved("g7e.8xlarge", 1, true)]), &used, &compute, "$3.00");
    check(&with_reserved(vec![reserved("g7e.8xlarge", 1, false)]), &used, &compute, "$15.00");
    let elsewhere = ReservedInstances { region: "eu-west-1".into(), ..reserved("g7e.4xlarge", 2, true) };
    check(&with_reserved(vec![elsewhere]), &used, &compute, "$15.00");
    // Reserved Instances go first, so that a plan covers the rest.
    let both = ExistingCommitments {
        savings_plans: Some(vec![plan(PlanScope::Compute, 1.0)]),
        ..with_reserved(vec![reserved("g7e.4xlarge", 2, false)])
    };
    check(&both, &used, &compute, "$1.00");
}

#[test]
fn what_has_ended_or_has_not_begun_covers_nothing() {
    let used = hour(&[("g5.xlarge", 10, 1.0)], 0.0);
    let ended = SavingsPlan { end: time("2026-11-28T23:00:00Z"), ..plan(PlanScope::Compute, 5.0) };
    let queued = SavingsPlan { start: time("2026-12-24T00:00:00Z"), ..plan(PlanScope::Compute, 2.0) };
    let existing = with_plans(vec![ended, queued]);
    check(&existing, &used, &PlanChoice::Compute, "$10.00");
    let changes = existing.changes(time(NOW));
    assert_eq!(changes, ["2026-12-24T00:00:00Z", END].map(time));
    let discount = PlanDiscount::from_percent(50.0).unwrap();
    let left = |at: &Timestamp| existing.left_over(std::slice::from_ref(&used), &PlanChoice::Compute, *at, discount);
    let left: Vec<String> = changes.iter().map(|at| left(at)[0].spent.to_string()).collect();
    assert_eq!(left, ["$6.00", "$10.00"]);
}
