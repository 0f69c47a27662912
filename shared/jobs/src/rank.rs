//! The ranking of pools: the order in which they are tried.
//!
//! A pool can be launched from **if and only if**
//! - it is in a region that the configuration observes: elsewhere Curfew would neither terminate the machine from outside nor count its cost;
//! - its type is one of those that were asked for, or any was; and has GPUs enough, each with memory enough;
//! - where no types were asked for: no type that fits has fewer GPUs, and none that fits costs less than a third of it on demand;
//! - its CPU is `x86_64`, or what `machine.architecture` or the named types say, and the default image has a driver for its GPUs;
//! - there is an image for its architecture in its region;
//! - what it costs now, and what it can cost at most, are known. None is guessed;
//! - for a job on several machines with `network.efa = "required"`: its type has EFA, and its subnet allows all of it;
//! - it has no more GPUs, and costs no more, than the configuration lets a machine of the team, nor more than `limits.max_usd_per_hour`.
//!
//! On Spot, in addition: the pool offers Spot, at a price up to `max_usd_per_hour` and up to the on-demand price. On demand, in addition:
//! the job is not for Spot, or Spot had no capacity for `fallback_to_on_demand_after`, or its deadline chooses between the two afterwards.
//! `spot.max_usd_per_hour` applies to Spot only: a job with a fallback accepts the on-demand price as well, and `max_usd` still limits it.
//! Either `max_usd_per_hour` takes the place of the third.

mod left_out;
mod network;
mod price_limits;
mod words;

use std::collections::BTreeSet;
use std::fmt::Display;

use billing::price::{PriceBook, PriceDocument, PriceQueries};
use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::id::{Region, ResourceId, TeamName, TypeName};
use model::money::Rate;

use self::left_out::{PoolsByGpus, RejectedPool};
use self::price_limits::{PriceLimits, PriceObjection};
pub(crate) use self::words::show_exactly;
use super::efa::EfaChoice;
use super::governing_quota::tabled_quota;
use super::gpu_type::has_gpu;
use super::machine_ceiling::{Ceiling, MachineCeiling};
use super::{
    Candidate, GpuSpec, JobTerms, Lifecycle, MachineImage, NetworkSpec, PoolNetwork, Ranking, SpotSpec, TransferCost,
};

/// MiB of a GiB.
const MIB_PER_GIB: u64 = 1_024;

/// Bytes of what vendors sell as a GB of GPU memory.
const BYTES_PER_GB: u64 = 1_000_000_000;

const BYTES_PER_MIB: u64 = 1 << 20;

/// A type in a zone, as EC2 describes it, before prices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityPool {
    pub region: Region,
    pub zone: String,
    pub subnet: ResourceId,
    pub instance_type: TypeName,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// GPUs of NVIDIA; whole ones.
    pub gpus: u32,
    /// EC2's name of each GPU, such as `A10G`; empty if EC2 does not say.
    pub gpu_name: String,
    /// Memory of each GPU, in MiB.
    pub gpu_memory_mib: u32,
    pub vcpus: u32,
    pub memory_mib: u32,
    /// `true` if it is to be had on Spot at all.
    pub spot: bool,
    /// Its network, which only a job on several machines uses.
    pub network: PoolNetwork,
}

/// A pool, bought in one way, with its price.
struct PricedPool<'a> {
    pool: &'a CapacityPool,
    lifecycle: Lifecycle,
    rate: Rate,
    rate_max: Rate,
    transfer: Option<TransferCost>,
}

/// The team whose job is ranked, and the configuration that limits its machines.
#[derive(Debug, Clone, Copy)]
pub struct LaunchPolicy<'a> {
    pub config: &'a Config,
    pub team: &'a TeamName,
}

impl LaunchPolicy<'_> {
    fn ceiling(self) -> MachineCeiling {
        MachineCeiling::from_config(self.config, Some(self.team))
    }
}

/// The reason why a job cannot be launched, for its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{0}")]
pub struct LaunchObstacle(String);

impl LaunchObstacle {
    /// Makes an obstacle of that sentence.
    pub fn new(why: impl Display) -> Self {
        Self(why.to_string())
    }
}

/// The pools from which a job can be launched now, the cheapest first, with the transfer of its checkpoints; at equal prices the smaller
/// machine, then by names. So the order is total, and the same whatever order `pools` are in.
///
/// A Spot pool without a live price is ranked by the most that it can cost. `images` are one of each region and architecture. At most
/// [`Ranking::MAX`] candidates are kept: half of them the cheapest of its zone each, so that they are never all of one zone where there are
/// others. `finish_by` and `max_usd` do not change the order: nothing here knows how long a job takes, on which type. They limit how long
/// an attempt may run, and are looked at where that is decided.
///
/// # Errors
/// Why there is none, for its owner.
pub fn rank(
    terms: &JobTerms,
    pools: &[CapacityPool],
    images: Vec<(Region, MachineImage)>,
    prices: &PriceBook,
    unplaced_since: Option<Timestamp>,
    policy: LaunchPolicy<'_>,
    now: Timestamp,
) -> Result<Ranking, LaunchObstacle> {
    let PoolsByGpus { kept, larger } = PoolsByGpus::new(terms, fitting(terms, pools, policy)?);
    let limits = PriceLimits::new(terms, policy, left_out::default_rate_max(terms, &kept, prices));
    let mut rejected = Vec::new();
    let found = {
        let has_image = |pool: &CapacityPool| images.iter().any(|(region, image)| is_for(region, image, pool));
        let bootable = narrowed(kept, has_image, words::no_image);
        let on_demand = may_be_on_demand(terms, unplaced_since, now);
        let buyable = bootable.and_then(|pools| narrowed(pools, |pool| on_demand || pool.spot, words::not_on_spot));
        buyable.and_then(|pools| priced(terms, pools, on_demand, &limits, prices, &mut rejected))
    };
    let mut found = found.map_err(|why| {
        // That obstacle names the others.
        rejected.retain(|(.., why)| matches!(why, PriceObjection::Dearer { .. }));
        let left_out = left_out::describe(terms, &larger, &rejected, prices);
        left_out.map_or(why.clone(), |left_out| LaunchObstacle::new(format!("{why}; {left_out}")))
    })?;
    let left_out = left_out::describe(terms, &larger, &rejected, prices);
    found.sort_by(|one, other| one.order().cmp(&other.order()));
    found.dedup_by(|one, other| one.order() == other.order());
    let kept = if terms.deadline_decides() {
        // Whichever it decides for, there are candidates.
        let (spot, on_demand) = found.into_iter().partition(|one| one.lifecycle == Lifecycle::Spot);
        let mut kept = chosen(spot, Ranking::MAX / 2);
        kept.extend(chosen(on_demand, Ranking::MAX / 2));
        kept.sort_by(|one, other| one.order().cmp(&other.order()));
        kept
    } else {
        chosen(found, Ranking::MAX)
    };
    Ok(Ranking { left_out, ..ranking(terms, &kept, images, now) })
}

/// The pools with their prices, in each way in which they can be bought; of the others why not.
fn priced<'a>(
    terms: &JobTerms,
    pools: Vec<&'a CapacityPool>,
    on_demand: bool,
    limits: &PriceLimits,
    prices: &PriceBook,
    rejected: &mut Vec<RejectedPool<'a>>,
) -> Result<Vec<PricedPool<'a>>, LaunchObstacle> {
    let mut found = Vec::new();
    for pool in pools {
        let spot = terms.spot.as_ref().filter(|_| pool.spot);
        let spot = spot.map(|_| (Lifecycle::Spot, limits.on_spot(pool, prices)));
        let on_demand = on_demand.then(|| (Lifecycle::OnDemand, limits.on_demand(pool, prices)));
        for (lifecycle, price) in spot.into_iter().chain(on_demand) {
            match price {
                Ok(each) => {
                    let [rate, rate_max] = [each.0, each.1].map(|rate| rate.of_all(terms.gpu.nodes));
                    let transfer = terms.transfer_cost(&pool.region);
                    found.push(PricedPool { pool, lifecycle, rate, rate_max, transfer });
                }
                Err(why) => rejected.push((pool, lifecycle, why)),
            }
        }
    }
    if found.is_empty() { Err(LaunchObstacle::new(words::not_bought(rejected))) } else { Ok(found) }
}

/// Returns the queries after which [`rank`] knows the prices of today of every pool that fits: of each type the on-demand price, which
/// bounds its price on Spot, and for a job on Spot the Spot prices. There are none where no pool fits. [`PriceDocument::wanted_of_types`]
/// limits how much is asked at once: what is left is asked the next time, and until then has the price of the table, or none.
#[must_use]
pub fn prices_wanted(
    terms: &JobTerms,
    pools: &[CapacityPool],
    known: &PriceDocument,
    policy: LaunchPolicy<'_>,
    now: Timestamp,
) -> PriceQueries {
    let types = |pools: &[&CapacityPool]| -> BTreeSet<(Region, TypeName)> {
        pools.iter().map(|pool| (pool.region.clone(), pool.instance_type.clone())).collect()
    };
    let PoolsByGpus { kept, .. } = PoolsByGpus::new(terms, fitting(terms, pools, policy).unwrap_or_default());
    let on_spot: Vec<&CapacityPool> = kept.iter().copied().filter(|pool| terms.spot.is_some() && pool.spot).collect();
    known.wanted_of_types(&types(&kept), &types(&on_spot), now)
}

impl PricedPool<'_> {
    /// Returns the key by which pools are sorted. Two that are equal in it are one pool.
    fn order(&self) -> impl Ord + use<'_> {
        let CapacityPool { region, zone, subnet, instance_type, gpus, gpu_memory_mib, .. } = self.pool;
        let size = (*gpus, *gpu_memory_mib);
        let rate = self.rate + self.transfer.map(|transfer| transfer.usd_per_hour).unwrap_or_default();
        (rate, size, region, zone, instance_type, self.lifecycle, self.rate_max, subnet)
    }
}

/// Returns the pools that fit, whatever they cost.
fn fitting<'a>(
    terms: &JobTerms,
    pools: &'a [CapacityPool],
    policy: LaunchPolicy<'_>,
) -> Result<Vec<&'a CapacityPool>, LaunchObstacle> {
    let LaunchPolicy { config, .. } = policy;
    let gpu = &terms.gpu;
    if pools.is_empty() {
        return Err(LaunchObstacle::new(words::no_pool(terms)));
    }
    let is_watched = |pool: &CapacityPool| config.regions.is_empty() || config.regions.contains(&pool.region);
    let watched = narrowed(pools.iter().collect(), is_watched, words::regions_not_covered)?;
    let (types, _) = terms.types();
    let is_asked_for = |pool: &CapacityPool| types.is_empty() || types.contains(&pool.instance_type);
    let asked_for = narrowed(watched, is_asked_for, |pools| words::other_types(types, pools))?;
    let has_gpu =
        |pool: &CapacityPool| gpu.name.as_ref().is_none_or(|name| has_gpu(&pool.instance_type, &pool.gpu_name, name));
    let asked_for = narrowed(asked_for, has_gpu, |pools| words::other_gpus(gpu, pools))?;
    let has_architecture = |pool: &CapacityPool| has_architecture(terms, pool);
    let executable = narrowed(asked_for, has_architecture, |pools| words::other_architecture(terms, pools))?;
    if terms.is_cpu_job() {
        let machine = &terms.machine;
        let is_large = |pool: &CapacityPool| {
            pool.gpus == 0
                && pool.vcpus >= machine.vcpus
                && u64::from(pool.memory_mib) >= u64::from(machine.memory_gib) * MIB_PER_GIB
        };
        return narrowed(executable, is_large, |pools| words::too_small_without_gpus(machine, pools));
    }
    let driven = narrowed(executable, |pool| has_driver(terms, pool), words::no_driver)?;
    let many = narrowed(driven, |pool| pool.gpus >= gpu.count.max(1), |pools| words::too_few(gpu, pools))?;
    let memory_mib_min = memory_mib_min(gpu);
    let large =
        narrowed(many, |pool| u64::from(pool.gpu_memory_mib) >= memory_mib_min, |pools| words::too_small(gpu, pools))?;
    let memory_mib_of_machine = u64::from(terms.machine.memory_gib) * MIB_PER_GIB;
    let is_roomy = |pool: &CapacityPool| u64::from(pool.memory_mib) >= memory_mib_of_machine;
    let large = narrowed(large, is_roomy, |pools| words::too_small_machine(&terms.machine, pools))?;
    let has_network = |pool: &CapacityPool| network::choose_network(terms, pool).is_none_or(|network| network.is_ok());
    let large = narrowed(large, has_network, |pools| network::describe_refusals(terms, pools))?;
    let Some(Ceiling { most, key }) = policy.ceiling().gpus else { return Ok(large) };
    let nodes = u32::from(gpu.nodes);
    narrowed(large, |pool| pool.gpus.saturating_mul(nodes) <= most, |pools| words::too_many(pools, nodes, most, &key))
}

/// Explains why no pool that fits otherwise has the network that a job on several machines requires; `None` if one has it, or none is required.
#[must_use]
pub fn refused_network(terms: &JobTerms, pools: &[CapacityPool], policy: LaunchPolicy<'_>) -> Option<LaunchObstacle> {
    let network = terms.network.filter(|network| network.efa == EfaChoice::Required)?;
    let any_network = JobTerms { network: Some(NetworkSpec { efa: EfaChoice::Auto, ..network }), ..terms.clone() };
    let fitting = fitting(&any_network, pools, policy).ok()?;
    let is_refused = |pool: &CapacityPool| network::choose_network(terms, pool).is_some_and(|network| network.is_err());
    let are_all_refused = fitting.iter().all(|pool| is_refused(pool));
    are_all_refused.then(|| LaunchObstacle::new(network::describe_refusals(terms, &fitting)))
}

/// The least MiB of a GPU with the requested memory. People name the nominal size: EC2 reports 22,888 MiB for an A10G with 24 GB
/// (`DescribeInstanceTypes`), and 24,576 for an older GPU; both count as 24.
fn memory_mib_min(gpu: &GpuSpec) -> u64 {
    u64::from(gpu.memory_gib_min) * BYTES_PER_GB / BYTES_PER_MIB
}

/// Returns the pools that a filter keeps; where it keeps none, the reason, by the pools that there were.
fn narrowed(
    pools: Vec<&CapacityPool>,
    keeps: impl Fn(&CapacityPool) -> bool,
    why: impl FnOnce(&[&CapacityPool]) -> String,
) -> Result<Vec<&CapacityPool>, LaunchObstacle> {
    let kept: Vec<&CapacityPool> = pools.iter().copied().filter(|pool| keeps(pool)).collect();
    if kept.is_empty() { Err(LaunchObstacle::new(why(&pools))) } else { Ok(kept) }
}

fn is_for(region: &Region, image: &MachineImage, pool: &CapacityPool) -> bool {
    *region == pool.region && image.architecture == pool.architecture
}

/// Returns `true` if it is time to pay the on-demand price, or the deadline says later when it is.
fn may_be_on_demand(terms: &JobTerms, unplaced_since: Option<Timestamp>, now: Timestamp) -> bool {
    if terms.deadline_decides() {
        return true;
    }
    let Some(SpotSpec { fallback_to_on_demand_after_seconds, .. }) = &terms.spot else { return true };
    let unplaced_for = unplaced_since.map(|since| now.duration_since(since));
    fallback_to_on_demand_after_seconds
        .zip(unplaced_for)
        .is_some_and(|(after, unplaced_for)| unplaced_for >= SignedDuration::from_secs(after))
}

fn on_demand_rate(pool: &CapacityPool, prices: &PriceBook) -> Option<Rate> {
    let quote = prices.on_demand_in_zone(&pool.region, &pool.instance_type, &pool.zone);
    quote.map(|quote| quote.rate).filter(|rate| is_a_price(*rate))
}

/// Returns `true` for a rate above zero. No machine that can be launched is free: a list that says so is wrong.
fn is_a_price(rate: Rate) -> bool {
    rate > Rate::ZERO
}

/// Keeps at most `max` of the sorted pools, in the same order. Half of them are the cheapest of their zones, and the others the cheapest of
/// all: capacity runs out zone by zone.
fn chosen(priced: Vec<PricedPool<'_>>, max: usize) -> Vec<PricedPool<'_>> {
    let mut zones = BTreeSet::new();
    let mut is_first_of_zone =
        |one: &PricedPool<'_>| zones.len() < max / 2 && zones.insert((one.pool.region.clone(), one.pool.zone.clone()));
    let firsts: Vec<bool> = priced.iter().map(&mut is_first_of_zone).collect();
    let mut others = max - zones.len();
    let mut is_kept = |is_first: bool| {
        let is_kept = is_first || others > 0;
        others -= usize::from(is_kept && !is_first);
        is_kept
    };
    priced.into_iter().zip(firsts).filter(|(_, is_first)| is_kept(*is_first)).map(|(one, _)| one).collect()
}

/// Makes the ranking, with only those images that one of the chosen pools boots.
fn ranking(terms: &JobTerms, chosen: &[PricedPool<'_>], images: Vec<(Region, MachineImage)>, at: Timestamp) -> Ranking {
    let mut kept: Vec<(Region, MachineImage)> = Vec::new();
    let mut candidates = Vec::new();
    for PricedPool { pool, lifecycle, rate, rate_max, transfer } in chosen {
        let is_its = |(region, image): &(Region, MachineImage)| is_for(region, image, pool);
        if !kept.iter().any(is_its) {
            kept.extend(images.iter().find(|image| is_its(image)).cloned());
        }
        let image = kept.iter().position(is_its).and_then(|place| u8::try_from(place).ok());
        // Every one has an image, and there are no more images than candidates.
        let Some(image) = image else { continue };
        candidates.push(Candidate {
            region: pool.region.clone(),
            zone: pool.zone.clone(),
            subnet: pool.subnet.clone(),
            instance_type: pool.instance_type.clone(),
            lifecycle: *lifecycle,
            rate: *rate,
            rate_max: *rate_max,
            quota: tabled_quota(&pool.instance_type, *lifecycle),
            image,
            transfer: *transfer,
            vcpus: if terms.is_gang() { pool.vcpus } else { 0 },
            network: network::choose_network(terms, pool).and_then(Result::ok).map(Box::new),
        });
    }
    Ranking {
        at,
        candidates,
        images: kept.into_iter().map(|(_, image)| image).collect(),
        has_other_teams: false,
        left_out: None,
    }
}

/// Architecture of a job that names none: packages of Python for arm64 often have no CUDA.
const USUAL_ARCHITECTURE: &str = "x86_64";

/// GPUs older than NVIDIA Turing. The default image has NVIDIA's open kernel modules (AWS Deep Learning AMI developer guide, release notes
/// of "AWS Deep Learning Base OSS Nvidia Driver GPU AMI"), and these drive Turing and newer (README of NVIDIA's open-gpu-kernel-modules).
const TOO_OLD: [&str; 7] = ["K520", "K80", "M60", "P4", "P40", "P100", "V100"];

/// True if a job may run on the CPU of a pool. Named types, or a named GPU, say on which.
fn has_architecture(terms: &JobTerms, pool: &CapacityPool) -> bool {
    match &terms.machine.architecture {
        Some(architecture) => pool.architecture == *architecture,
        None => !terms.types().0.is_empty() || terms.gpu.name.is_some() || pool.architecture == USUAL_ARCHITECTURE,
    }
}

/// Returns `true` if the driver of a job's image drives the GPUs of a pool. The owner of a job that names an image knows which driver that
/// has. The image of the configuration is for the jobs of all teams, and Curfew does not know its driver: it gets no other GPUs than the
/// built-in one. A GPU that EC2 does not name, or by a new name, counts as one that is driven.
fn has_driver(terms: &JobTerms, pool: &CapacityPool) -> bool {
    let is_too_old =
        || pool.gpu_name.split(|one: char| !one.is_ascii_alphanumeric()).any(|word| TOO_OLD.contains(&word));
    terms.machine.ami.is_some() || !is_too_old()
}

#[cfg(test)]
mod tests;
