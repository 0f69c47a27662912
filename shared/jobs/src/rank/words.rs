//! Why nothing fits, for the owner of a job.

use std::collections::BTreeSet;
use std::fmt::Display;

use model::id::{Region, TypeName};
use model::money::Rate;

use super::hardware::USUAL_ARCHITECTURE;
use super::{CapacityPool, MIB_PER_GIB, PriceObjection};
use crate::{GpuSpec, JobTerms};

/// So many names are said; more are counted.
const NAMES_MAX: usize = 6;

pub(super) fn no_pool(terms: &JobTerms) -> String {
    let types = types_words(&terms.gpu.types).unwrap_or_else(|| "any GPU instance type".to_owned());
    let regions = listed(terms.machine.regions.iter());
    let place = if regions.is_empty() { "the home region".to_owned() } else { regions };
    format!("no zone of {place} has both a subnet that may be used and {types}")
}

pub(super) fn unwatched(pools: &[&CapacityPool]) -> String {
    format!(
        "Curfew does not cover {}: `regions` of its configuration does not name it, so nothing would terminate a machine there, or count its cost",
        listed(regions(pools).into_iter())
    )
}

pub(super) fn other_types(gpu: &GpuSpec, pools: &[&CapacityPool]) -> String {
    let types = types_words(&gpu.types).unwrap_or_default();
    format!("no zone of {} that may be used has {types}", listed(regions(pools).into_iter()))
}

/// Of pools of another architecture than the job's.
pub(super) fn other_architecture(terms: &JobTerms, pools: &[&CapacityPool]) -> String {
    let other: BTreeSet<&str> = pools.iter().map(|pool| pool.architecture.as_str()).collect();
    let (types, other) = (types(pools), listed(other.into_iter()));
    let verb = if types.len() == 1 { "is" } else { "are" };
    let types = listed(types.into_iter());
    match &terms.machine.architecture {
        Some(own) => format!("`machine.architecture` is {own}, and {types} {verb} {other}; change or remove the key"),
        None => format!(
            "the job runs on {USUAL_ARCHITECTURE}, and {types} {verb} {other}; set `machine.architecture = \"{other}\"`, or name types in `gpu.types`"
        ),
    }
}

pub(super) fn no_driver(pools: &[&CapacityPool]) -> String {
    let types = types(pools);
    let verb = if types.len() == 1 { "has" } else { "have" };
    format!(
        "a job that names no image gets no GPU older than NVIDIA Turing, as {} {verb}: the driver of the Deep Learning AMI drives none; name one in `machine.ami`",
        listed(types.into_iter())
    )
}

pub(super) fn too_few(gpu: &GpuSpec, pools: &[&CapacityPool]) -> String {
    let most = pools.iter().max_by_key(|pool| (pool.gpus, std::cmp::Reverse(&pool.instance_type)));
    let most = most.map(|pool| format!("; the most are {}, of {}", pool.gpus, pool.instance_type)).unwrap_or_default();
    format!("no type that fits has {} GPUs{most}", gpu.count)
}

pub(super) fn too_small(gpu: &GpuSpec, pools: &[&CapacityPool]) -> String {
    let largest = pools.iter().max_by_key(|pool| (pool.gpu_memory_mib, std::cmp::Reverse(&pool.instance_type)));
    let largest =
        largest.map(|pool| format!("; the largest is {}, of {}", gib(pool.gpu_memory_mib), pool.instance_type));
    format!(
        "no type that fits has {} or more with {} GiB of memory each{}",
        gpus(gpu.count),
        gpu.memory_gib_min,
        largest.unwrap_or_default()
    )
}

pub(super) fn no_image(pools: &[&CapacityPool]) -> String {
    let missing: BTreeSet<String> =
        pools.iter().map(|pool| format!("{} in {}", pool.architecture, pool.region)).collect();
    format!("there is no image to boot for {}", listed(missing.iter()))
}

pub(super) fn not_on_spot(pools: &[&CapacityPool]) -> String {
    format!(
        "AWS sells none of these on Spot: {}; set `spot.fallback_to_on_demand_after`, or `spot.enabled = false`",
        listed(types(pools).into_iter())
    )
}

/// Of pools that cannot be bought; there is one at least.
pub(super) fn not_bought(terms: &JobTerms, unbought: &[(&CapacityPool, PriceObjection)]) -> String {
    let unknown: BTreeSet<String> = unbought
        .iter()
        .filter(|(_, why)| matches!(why, PriceObjection::Unknown))
        .map(|(pool, _)| format!("{} in {}", pool.instance_type, pool.region))
        .collect();
    let unknown = (!unknown.is_empty()).then(|| {
        format!("no price is known of {}, and none is guessed: it is asked for again", listed(unknown.iter()))
    });
    let above = unbought.iter().filter_map(|(pool, why)| match why {
        PriceObjection::Above { rate, rate_max } => Some((*rate, &pool.instance_type, &pool.zone, *rate_max)),
        PriceObjection::Unknown => None,
    });
    let above = above.min().map(|(rate, name, zone, rate_max)| {
        let max_rate = terms.spot.as_ref().and_then(|spot| spot.max_rate);
        let limit = if max_rate == Some(rate_max) {
            format!("`spot.max_usd_per_hour`, {}", exact(rate_max))
        } else {
            format!("what it costs on demand, {}", exact(rate_max))
        };
        let rate = exact(rate);
        format!("every Spot price that is known is above its limit: the cheapest is {name} in {zone} at {rate}, above {limit}")
    });
    above.into_iter().chain(unknown).collect::<Vec<_>>().join("; ")
}

fn gpus(count: u32) -> String {
    if count <= 1 { "1 GPU".to_owned() } else { format!("{count} GPUs") }
}

/// To the micro-USD: of two prices that are compared, both must be seen.
fn exact(rate: Rate) -> String {
    let usd_micros = rate.usd_micros_per_hour();
    let (usd, micros) = (usd_micros / 1_000_000, usd_micros % 1_000_000);
    let fraction = format!("{micros:06}");
    format!("${usd}.{:0<2}/h", fraction.trim_end_matches('0'))
}

/// Rounded down to a tenth: what is said to be enough must be enough.
fn gib(mib: u32) -> String {
    let tenths = u64::from(mib) * 10 / MIB_PER_GIB;
    match tenths % 10 {
        0 => format!("{} GiB", tenths / 10),
        tenth => format!("{}.{tenth} GiB", tenths / 10),
    }
}

fn regions<'a>(pools: &[&'a CapacityPool]) -> BTreeSet<&'a Region> {
    pools.iter().map(|pool| &pool.region).collect()
}

fn types<'a>(pools: &[&'a CapacityPool]) -> BTreeSet<&'a TypeName> {
    pools.iter().map(|pool| &pool.instance_type).collect()
}

fn types_words(types: &[TypeName]) -> Option<String> {
    let one_of = if types.len() > 1 { "one of " } else { "" };
    (!types.is_empty()).then(|| format!("{one_of}{}", listed(types.iter())))
}

fn listed(names: impl ExactSizeIterator<Item = impl Display>) -> String {
    let count = names.len();
    let mut said: Vec<String> = names.take(NAMES_MAX).map(|name| name.to_string()).collect();
    if count > NAMES_MAX {
        said.push(format!("{} more", count - NAMES_MAX));
    }
    said.join(", ")
}
