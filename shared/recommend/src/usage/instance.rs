//! Choice of the instances to analyse, and the findings that their metrics give.

use billing::price::{PriceBook, rate};
use model::config::{Config, SeriesNames};
use model::curfew_tags::{HOURS, JOB};
use model::instance::{Accelerator, Instance, InstanceState, PurchaseOption};
use model::money::Rate;
use model::ownership::team_of;

use super::{DeviceSamples, InstanceUsage, UsageFinding, find_hours, find_smaller, usage_hours};
use crate::GpuOffer;

/// Returns `true` for an instance to analyse: a person runs it by the hour with NVIDIA GPUs, and no job does.
#[must_use]
pub fn is_looked_at(instance: &Instance) -> bool {
    instance.state == InstanceState::Running
        && instance.purchase == PurchaseOption::OnDemand
        && instance.prepaid.is_none()
        && instance.machine.accelerator == Accelerator::Nvidia
        && !instance.tags.contains_key(JOB)
}

/// Returns the most expensive instances with at most `gpus_max` GPUs together. Their metrics can show the largest savings, because a
/// finding saves no more than its instance costs. An instance with an unknown price gives no finding.
#[must_use]
pub fn dearest<'a>(
    instances: impl IntoIterator<Item = &'a Instance>,
    prices: &PriceBook,
    gpus_max: u32,
) -> Vec<&'a Instance> {
    let with_rate = |one: &'a Instance| Some((rate(prices.running_cost(one))?, one));
    let mut by_rate: Vec<(Rate, &Instance)> = instances.into_iter().filter_map(with_rate).collect();
    by_rate.sort_by(|(rate, one), (other_rate, other)| (other_rate, &one.id).cmp(&(rate, &other.id)));
    let mut gpus_left = gpus_max;
    let mut fits = |one: &Instance| {
        let left = gpus_left.checked_sub(one.machine.accelerators);
        gpus_left = left.unwrap_or(gpus_left);
        left.is_some()
    };
    by_rate.into_iter().map(|(_, one)| one).filter(|one| fits(one)).collect()
}

impl InstanceUsage {
    /// Builds the usage from the samples of the instance's devices.
    #[must_use]
    pub fn from_samples(
        instance: &Instance,
        samples: &[DeviceSamples],
        names: &SeriesNames,
        (prices, config): (&PriceBook, &Config),
    ) -> Self {
        Self {
            region: instance.region.clone(),
            instance: instance.id.clone(),
            instance_type: instance.instance_type.clone(),
            team: team_of(&instance.tags, config),
            has_hours: instance.tags.contains_key(HOURS),
            rate: rate(prices.running_cost(instance)),
            hours: usage_hours(samples, &instance.machine, names),
        }
    }

    /// Everything that is found about it. `offers` are those of its region, with its own type.
    pub fn findings(
        &self,
        offers: &[GpuOffer],
        prices: &PriceBook,
        config: &Config,
    ) -> impl Iterator<Item = UsageFinding> + use<> {
        let (busy_percent, held_mib) = (config.idle.gpu_below_percent, config.idle.gpu_memory_held_mib);
        let hours = find_hours(self, &config.account.zone(), busy_percent);
        hours.into_iter().chain(find_smaller(self, offers, prices, (busy_percent, held_mib)))
    }
}

#[cfg(test)]
mod tests {
    use model::fixture::instance;

    use super::*;

    fn check(gpus_max: u32, expect: &[&str]) {
        let of = |id: &str, instance_type: &str, gpus: u32| {
            let mut one = instance().id(id).of_type(instance_type).build();
            one.machine.accelerators = gpus;
            one
        };
        let all = [
            of("i-small", "g5.xlarge", 1),
            of("i-large", "p5.48xlarge", 8),
            of("i-unpriced", "zz9.large", 1),
            of("i-medium", "g5.12xlarge", 4),
        ];
        let found: Vec<&str> =
            dearest(&all, &PriceBook::dated(), gpus_max).into_iter().map(|one| one.id.as_str()).collect();
        assert_eq!(found, expect, "{gpus_max}");
    }

    #[test]
    fn the_dearest_come_first_and_what_is_too_large_makes_room_for_smaller_ones() {
        check(100, &["i-large", "i-medium", "i-small"]);
        check(9, &["i-large", "i-small"]);
        check(5, &["i-medium", "i-small"]);
        check(0, &[]);
    }

    #[test]
    fn a_machine_of_a_job_on_spot_stopped_or_prepaid_is_not_looked_at() {
        let is = |change: fn(&mut Instance)| {
            let mut one = instance().build();
            change(&mut one);
            is_looked_at(&one)
        };
        assert!(is(|_| {}));
        assert!(!is(|one| one.state = InstanceState::Stopped));
        assert!(!is(|one| one.purchase = PurchaseOption::SpotOneTime));
        assert!(!is(|one| one.prepaid = Some(model::instance::PrepaidCapacity::CapacityReservation)));
        assert!(!is(|one| one.machine.accelerator = Accelerator::Amd));
        assert!(!is(|one| drop(one.tags.insert(JOB.to_owned(), "vision/llama-1a2b3c4d".to_owned()))));
    }
}
