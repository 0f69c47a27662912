//! Explanations why no pool fits, for the owner of a job.

use std::collections::BTreeSet;
use std::fmt::Display;

use model::id::{Region, TypeName};
use model::money::Rate;

use super::USUAL_ARCHITECTURE;
use super::left_out::RejectedPool;
use super::{CapacityPool, MIB_PER_GIB, PriceObjection};
use crate::{GpuSpec, JobTerms, Lifecycle, MachineSpec};

/// So many names are said; more are counted.
const NAMES_MAX: usize = 6;

pub(super) fn no_pool(terms: &JobTerms) -> String {
    let any = if terms.is_cpu_job() { "any instance type without an accelerator" } else { "any GPU instance type" };
    let types = types_words(terms.types().0).unwrap_or_else(|| any.to_owned());
    let regions = listed(terms.machine.regions.iter());
    let place = if regions.is_empty() { "the home region".to_owned() } else { regions };
    format!("no zone of {place} has both a subnet that may be used and {types}")
}

pub(super) fn regions_not_covered(pools: &[&CapacityPool]) -> String {
    format!(
        "Curfew does not cover {}: `regions` of its configuration does not name it, so nothing would terminate a machine there, or count its cost",
        listed(regions(pools).into_iter())
    )
}

pub(super) fn other_types(types: &[TypeName], pools: &[&CapacityPool]) -> String {
    let types = types_words(types).unwrap_or_default();
    format!("no zone of {} that may be used has {types}", listed(regions(pools).into_iter()))
}

pub(super) fn other_gpus(gpu: &GpuSpec, pools: &[&CapacityPool]) -> String {
    let name = gpu.name.as_deref().unwrap_or_default();
    format!("no zone of {} that may be used has a GPU that is {name}", listed(regions(pools).into_iter()))
}

/// Explains that all pools have another architecture than the job's.
pub(super) fn other_architecture(terms: &JobTerms, pools: &[&CapacityPool]) -> String {
    let other: BTreeSet<&str> = pools.iter().map(|pool| pool.architecture.as_str()).collect();
    let (types, other) = (types(pools), listed(other.into_iter()));
    let verb = if types.len() == 1 { "is" } else { "are" };
    let types = listed(types.into_iter());
    match &terms.machine.architecture {
        Some(own) => format!("`machine.architecture` is {own}, and {types} {verb} {other}; change or remove the key"),
        None => format!(
            "the job runs on {USUAL_ARCHITECTURE}, and {types} {verb} {other}; set `machine.architecture = \"{other}\"`, or name types in `{}`",
            terms.types().1
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

pub(super) fn too_small_machine(machine: &MachineSpec, pools: &[&CapacityPool]) -> String {
    let largest = pools.iter().max_by_key(|pool| (pool.memory_mib, std::cmp::Reverse(&pool.instance_type)));
    let largest = largest.map(|pool| format!("; the largest is {}, with {}", pool.instance_type, gib(pool.memory_mib)));
    format!(
        "no type that fits has {} GiB of memory for what `gpu.model.offload` takes{}",
        machine.memory_gib,
        largest.unwrap_or_default()
    )
}

pub(super) fn too_small_without_gpus(machine: &MachineSpec, pools: &[&CapacityPool]) -> String {
    let largest = pools.iter().max_by_key(|pool| (pool.vcpus, pool.memory_mib, std::cmp::Reverse(&pool.instance_type)));
    let largest = largest.map(|pool| {
        format!("; the largest is {}, with {} vCPUs and {}", pool.instance_type, pool.vcpus, gib(pool.memory_mib))
    });
    format!(
        "no type that fits has {} vCPUs and {} GiB of memory{}",
        machine.vcpus.max(1),
        machine.memory_gib.max(1),
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

/// Explains why pools cannot be bought; there is one at least.
pub(super) fn not_bought(rejected: &[RejectedPool<'_>]) -> String {
    let unknown: BTreeSet<String> = rejected
        .iter()
        .filter(|(_, _, why)| matches!(why, PriceObjection::Unknown))
        .map(|(pool, ..)| format!("{} in {}", pool.instance_type, pool.region))
        .collect();
    let unknown = (!unknown.is_empty()).then(|| {
        format!("no price is known of {}, and none is guessed: it is asked for again", listed(unknown.iter()))
    });
    let above = rejected.iter().filter_map(|(pool, lifecycle, why)| match why {
        PriceObjection::Above { rate, limit } => Some((*rate, &pool.instance_type, &pool.zone, *lifecycle, limit)),
        PriceObjection::Unknown | PriceObjection::Dearer { .. } => None,
    });
    let above =
        above.min_by_key(|(rate, name, zone, ..)| (*rate, *name, *zone)).map(|(rate, name, zone, lifecycle, limit)| {
            let (kind, where_) = match lifecycle {
                Lifecycle::Spot => ("Spot price", format!("in {zone}")),
                Lifecycle::OnDemand => ("price", format!("on demand in {zone}")),
            };
            format!(
                "every {kind} that is known is above its limit: the cheapest is {name} {where_} at {}, above {}, {}",
                show_exactly(rate),
                limit.key,
                show_exactly(limit.most)
            )
        });
    let why: Vec<String> = above.into_iter().chain(unknown).collect();
    if why.is_empty() {
        "no machine that the job gets by default can be bought as it asks".to_owned()
    } else {
        why.join("; ")
    }
}

pub(super) fn too_many(pools: &[&CapacityPool], nodes: u32, most: u32, key: &str) -> String {
    let fewest = pools.iter().min_by_key(|pool| (pool.gpus, &pool.instance_type));
    if nodes > 1 {
        let all = |pool: &&CapacityPool| {
            format!("{nodes} × {} have {}", pool.instance_type, gpus(pool.gpus.saturating_mul(nodes)))
        };
        let fewest = fewest.map(all).unwrap_or_default();
        return format!("{key} of the configuration lets all machines of a job have {most} at most, and {fewest}");
    }
    let fewest = fewest.map(|pool| format!("{} has {}", pool.instance_type, gpus(pool.gpus))).unwrap_or_default();
    format!("{key} of the configuration lets a machine have {most} at most, and {fewest}")
}

pub(super) fn gpus(count: u32) -> String {
    if count <= 1 { "1 GPU".to_owned() } else { format!("{count} GPUs") }
}

/// Shows a price to the micro-USD: of two prices that are compared, both must be seen.
pub(crate) fn show_exactly(rate: Rate) -> String {
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
    let mut shown: Vec<String> = names.take(NAMES_MAX).map(|name| name.to_string()).collect();
    if count > NAMES_MAX {
        shown.push(format!("{} more", count - NAMES_MAX));
    }
    shown.join(", ")
}
