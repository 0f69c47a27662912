//! Commitments that the account has already: what they cover is in no new one.
//!
//! They apply in this order (Savings Plans user guide, "Understanding how Savings Plans apply to your usage"): Reserved Instances, EC2 Instance
//! plans, Compute plans. Plans of `SageMaker` cover its own usage. Capacity Blocks are prepaid, and the ledger keeps them out of what is on
//! demand.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::{Region, TypeName};
use model::money::{Amount, Rate};
use serde::Serialize;

use super::curve::{HourUsage, UsageKey};
use super::{HourSpend, MILLION, PlanDiscount};

const HOUR_SECONDS: u64 = 3_600;

/// Families whose Reserved Instances cover their own size alone (EC2 user guide, "How Reserved Instance discounts are applied", "Instance size
/// flexibility").
const FAMILIES_OF_ONE_SIZE: [&str; 12] =
    ["g4ad", "g4dn", "g5", "g5g", "g6", "g6e", "g6f", "gr6", "gr6f", "p5", "inf1", "inf2"];

/// Use that a plan applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PlanScope {
    /// EC2 in every region; Fargate and Lambda too, of which no ledger knows.
    Compute,
    /// One family of EC2 in one region.
    Ec2Instance { family: String, region: Region },
    /// `SageMaker`.
    #[serde(rename = "sagemaker")]
    SageMaker,
    /// Another service, such as databases: it covers no GPU.
    Other { name: String },
}

/// A Savings Plan of the account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SavingsPlan {
    pub id: String,
    #[serde(flatten)]
    pub scope: PlanScope,
    #[serde(rename = "usd_per_hour")]
    pub commitment: Rate,
    pub start: Timestamp,
    pub end: Timestamp,
}

/// Reserved Instances for Linux on shared hardware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReservedInstances {
    pub id: String,
    #[serde(rename = "type")]
    pub instance_type: TypeName,
    pub region: Region,
    /// `false` for one of a zone, which covers its own size alone.
    pub is_regional: bool,
    pub count: u32,
    pub start: Timestamp,
    pub end: Timestamp,
}

/// A Capacity Block, prepaid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CapacityBlock {
    pub id: String,
    #[serde(rename = "type")]
    pub instance_type: TypeName,
    pub region: Region,
    pub count: u32,
    pub start: Timestamp,
    /// `None` if EC2 does not say.
    pub end: Option<Timestamp>,
}

/// Everything that was found, and what could not be read. An absent list is unknown, not empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ExistingCommitments {
    pub savings_plans: Option<Vec<SavingsPlan>>,
    pub reserved_instances: Option<Vec<ReservedInstances>>,
    pub capacity_blocks: Option<Vec<CapacityBlock>>,
    /// Reserved Instances of another platform or of dedicated hardware, which are not subtracted.
    pub other_reserved_instances: u64,
    /// Reasons why something is unknown, one sentence each.
    pub unknown: Vec<String>,
}

/// Plan that a person thinks of buying.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "plan", rename_all = "kebab-case")]
pub enum PlanChoice {
    Compute,
    Ec2Instance {
        family: String,
        region: Region,
    },
    #[serde(rename = "sagemaker")]
    SageMaker,
}

impl ExistingCommitments {
    /// Returns what is left on demand in each hour for a new plan, as if what is active at `at` had been active in all of the hours. Plans
    /// are taken at the discount of the new one: how much each covers of the price on demand, AWS says only by type.
    #[must_use]
    pub fn left_over(
        &self,
        hours: &[HourUsage],
        choice: &PlanChoice,
        at: Timestamp,
        discount: PlanDiscount,
    ) -> Vec<HourSpend> {
        let active = self.active(at, discount);
        hours.iter().map(|hour| HourSpend { from: hour.from, spent: active.left_over(hour, choice) }).collect()
    }

    /// Times after `now` at which one of them begins or ends, in order.
    #[must_use]
    pub fn changes(&self, now: Timestamp) -> Vec<Timestamp> {
        let plans = self.savings_plans.iter().flatten().map(|plan| (plan.start, plan.end));
        let reserved = self.reserved_instances.iter().flatten().map(|one| (one.start, one.end));
        let times = plans.chain(reserved).flat_map(|(start, end)| [start, end]);
        let mut times: Vec<Timestamp> = times.filter(|time| *time > now).collect();
        times.sort_unstable();
        times.dedup();
        times
    }

    fn active(&self, at: Timestamp, discount: PlanDiscount) -> ActiveCommitments<'_> {
        let is_active = |start: Timestamp, end: Timestamp| start <= at && at < end;
        let mut active = ActiveCommitments::default();
        for plan in self.savings_plans.iter().flatten().filter(|plan| is_active(plan.start, plan.end)) {
            let covered = discount.covered_by(plan.commitment);
            let sum = match &plan.scope {
                PlanScope::Compute => &mut active.compute,
                PlanScope::SageMaker => &mut active.sagemaker,
                PlanScope::Ec2Instance { family, region } => {
                    active.by_family.entry((region, family.as_str())).or_default()
                }
                PlanScope::Other { .. } => continue,
            };
            *sum = sum.saturating_add(covered);
        }
        for reserved in self.reserved_instances.iter().flatten().filter(|one| is_active(one.start, one.end)) {
            let (family, size) = split(&reserved.instance_type);
            let seconds = u64::from(reserved.count).saturating_mul(HOUR_SECONDS);
            let is_flexible = reserved.is_regional && !FAMILIES_OF_ONE_SIZE.contains(&family);
            if let Some(units) = size_units(size).filter(|_| is_flexible) {
                let sum = active.units.entry((&reserved.region, family)).or_default();
                *sum = sum.saturating_add(units.saturating_mul(seconds));
            } else {
                let sum = active.seconds.entry((&reserved.region, &reserved.instance_type)).or_default();
                *sum = sum.saturating_add(seconds);
            }
        }
        active
    }
}

/// Commitments that are active at one time, for one hour each: plans in micro-USD on demand, Reserved Instances in seconds.
#[derive(Default)]
struct ActiveCommitments<'a> {
    compute: u64,
    sagemaker: u64,
    by_family: BTreeMap<(&'a Region, &'a str), u64>,
    seconds: BTreeMap<(&'a Region, &'a TypeName), u64>,
    /// Seconds times quarters of a normalized unit.
    units: BTreeMap<(&'a Region, &'a str), u64>,
}

impl ActiveCommitments<'_> {
    fn left_over(&self, hour: &HourUsage, choice: &PlanChoice) -> Amount {
        let micros = match choice {
            PlanChoice::SageMaker => hour.sagemaker.usd_micros().saturating_sub(self.sagemaker),
            PlanChoice::Compute => self.uncovered(&self.after_families(hour)),
            PlanChoice::Ec2Instance { family, region } => {
                let families = self.after_families(hour);
                // A Compute plan goes to other usage if there is some, so that no more than the rest of all is left.
                let own = families.get(&(region, family.as_str())).copied().unwrap_or_default();
                own.min(self.uncovered(&families))
            }
        };
        Amount::from_usd_micros(micros)
    }

    fn uncovered(&self, families: &BTreeMap<(&Region, &str), u64>) -> u64 {
        families.values().fold(0_u64, |sum, micros| sum.saturating_add(*micros)).saturating_sub(self.compute)
    }

    /// Spend of each family in each region behind Reserved Instances and EC2 Instance plans.
    fn after_families<'h>(&self, hour: &'h HourUsage) -> BTreeMap<(&'h Region, &'h str), u64> {
        let mut units = self.units.clone();
        let mut families: BTreeMap<(&Region, &str), u64> = BTreeMap::new();
        let mut types: Vec<_> = hour.instances.iter().collect();
        // From the smallest size to the largest (EC2 user guide, "How Reserved Instance discounts are applied").
        types.sort_by_key(|(key, _)| size_units(split(&key.instance_type).1));
        for (UsageKey { region, instance_type }, usage) in types {
            let (family, size) = split(instance_type);
            let mut left =
                usage.seconds.saturating_sub(self.seconds.get(&(region, instance_type)).copied().unwrap_or_default());
            if let (Some(pool), Some(per_second)) = (units.get_mut(&(region, family)), size_units(size)) {
                let covered = left.min(pool.checked_div(per_second).unwrap_or_default());
                *pool = pool.saturating_sub(covered.saturating_mul(per_second));
                left = left.saturating_sub(covered);
            }
            let spent = usage.spent.scaled(left, usage.seconds.max(1)).usd_micros();
            let sum = families.entry((region, family)).or_default();
            *sum = sum.saturating_add(spent);
        }
        for ((region, family), micros) in &mut families {
            *micros = micros.saturating_sub(self.by_family.get(&(*region, *family)).copied().unwrap_or_default());
        }
        families
    }
}

fn split(instance_type: &TypeName) -> (&str, &str) {
    instance_type.as_str().split_once('.').unwrap_or((instance_type.as_str(), ""))
}

/// Quarters of a normalized unit of a size (the same page, "Normalization factor"): `xlarge` has 8 units, and `4xlarge` four times as many.
fn size_units(size: &str) -> Option<u64> {
    match size {
        "nano" => Some(1),
        "micro" => Some(2),
        "small" => Some(4),
        "medium" => Some(8),
        "large" => Some(16),
        _ => {
            let times = size.strip_suffix("xlarge")?;
            let times: u64 = if times.is_empty() { 1 } else { times.parse().ok()? };
            times.checked_mul(32)
        }
    }
}

impl PlanDiscount {
    /// Spend on demand, in micro-USD, that a commitment covers.
    fn covered_by(self, commitment: Rate) -> u64 {
        let covered = u128::from(commitment.usd_micros_per_hour()) * MILLION / self.paid_millionths().max(1);
        u64::try_from(covered).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
