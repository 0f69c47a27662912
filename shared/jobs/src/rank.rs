//! Which pool is tried first.
//!
//! A pool can be launched from **if and only if**
//! - it is in a region that the configuration observes: elsewhere Curfew would neither terminate the machine from outside nor count its cost;
//! - its type is one of those that were asked for, or any was; and has GPUs enough, each with memory enough;
//! - its CPU is `x86_64`, or what `machine.architecture` or the named types say, and the default image has a driver for its GPUs;
//! - there is an image for its architecture in its region;
//! - what it costs now, and what it can cost at most, are known. None is guessed.
//!
//! On Spot, in addition: the pool offers Spot, at a price up to `max_usd_per_hour` and up to the on-demand price. On demand, in addition: the job
//! is not for Spot, or Spot had no capacity for `fallback_to_on_demand_after`, or its deadline chooses between the two afterwards.
//! `max_usd_per_hour` applies to Spot only: a job with a fallback accepts the on-demand price as well, and `max_usd` still limits it.

mod hardware;
mod words;

use std::collections::BTreeSet;
use std::fmt::Display;

use billing::price::{PriceBook, PriceDocument, PriceQueries};
use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::id::{Region, ResourceId, TypeName};
use model::money::Rate;

use super::governing_quota::tabled_quota;
use super::{Candidate, GpuSpec, JobTerms, Lifecycle, MachineImage, Ranking, SpotSpec, TransferCost};

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
    /// What EC2 calls each of them, such as `A10G`; empty if it does not say.
    pub gpu_name: String,
    /// Of each GPU, in MiB.
    pub gpu_memory_mib: u32,
    /// Whether it is to be had on Spot at all.
    pub spot: bool,
}

/// A pool, bought in one way, with its price.
struct PricedPool<'a> {
    pool: &'a CapacityPool,
    lifecycle: Lifecycle,
    rate: Rate,
    rate_max: Rate,
    transfer: Option<TransferCost>,
}

/// Why a pool cannot be bought in one way.
enum PriceObjection {
    /// Its price, or its highest price, is unknown.
    Unknown,
    /// It costs more than is paid for it.
    Above { rate: Rate, rate_max: Rate },
}

/// Why a job cannot be launched, for its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{0}")]
pub struct LaunchObstacle(String);

impl LaunchObstacle {
    /// That sentence.
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
    config: &Config,
    now: Timestamp,
) -> Result<Ranking, LaunchObstacle> {
    let has_image = |pool: &CapacityPool| images.iter().any(|(region, image)| is_for(region, image, pool));
    let fitting = fitting(terms, pools, config)?;
    let bootable = narrowed(fitting, has_image, words::no_image)?;
    let on_demand = may_be_on_demand(terms, unplaced_since, now);
    let buyable = narrowed(bootable, |pool| on_demand || pool.spot, words::not_on_spot)?;

    let (mut found, mut unbought) = (Vec::new(), Vec::new());
    for pool in buyable {
        let spot = terms.spot.as_ref().filter(|_| pool.spot).map(|spot| (Lifecycle::Spot, on_spot(spot, pool, prices)));
        let on_demand = on_demand.then(|| (Lifecycle::OnDemand, on_demand_price(pool, prices)));
        for (lifecycle, price) in spot.into_iter().chain(on_demand) {
            match price {
                Ok((rate, rate_max)) => {
                    let transfer = terms.transfer_cost(&pool.region);
                    found.push(PricedPool { pool, lifecycle, rate, rate_max, transfer });
                }
                Err(why) => unbought.push((pool, why)),
            }
        }
    }
    if found.is_empty() {
        return Err(LaunchObstacle::new(words::not_bought(terms, &unbought)));
    }
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
    Ok(ranking(&kept, images, now))
}

/// What has to be asked so that [`rank`] knows the prices of today of every pool that fits: of each type what it costs on demand, which
/// bounds what it costs on Spot, and for a job on Spot the Spot prices. Nothing where nothing fits.
/// [`Document::wanted_of_types`] limits how much is asked at once: what is left is asked the next time, and until then has the price of the
/// table, or none.
#[must_use]
pub fn prices_wanted(
    terms: &JobTerms,
    pools: &[CapacityPool],
    known: &PriceDocument,
    config: &Config,
    now: Timestamp,
) -> PriceQueries {
    let types = |pools: &[&CapacityPool]| -> BTreeSet<(Region, TypeName)> {
        pools.iter().map(|pool| (pool.region.clone(), pool.instance_type.clone())).collect()
    };
    let fitting = fitting(terms, pools, config).unwrap_or_default();
    let on_spot: Vec<&CapacityPool> =
        fitting.iter().copied().filter(|pool| terms.spot.is_some() && pool.spot).collect();
    known.wanted_of_types(&types(&fitting), &types(&on_spot), now)
}

impl PricedPool<'_> {
    /// By what they are sorted. Two that are equal in it are one pool.
    fn order(&self) -> impl Ord + use<'_> {
        let CapacityPool { region, zone, subnet, instance_type, gpus, gpu_memory_mib, .. } = self.pool;
        let size = (*gpus, *gpu_memory_mib);
        let rate = self.rate + self.transfer.map(|transfer| transfer.usd_per_hour).unwrap_or_default();
        (rate, size, region, zone, instance_type, self.lifecycle, self.rate_max, subnet)
    }
}

/// Those that fit by what they are, whatever they cost.
fn fitting<'a>(
    terms: &JobTerms,
    pools: &'a [CapacityPool],
    config: &Config,
) -> Result<Vec<&'a CapacityPool>, LaunchObstacle> {
    let gpu = &terms.gpu;
    if pools.is_empty() {
        return Err(LaunchObstacle::new(words::no_pool(terms)));
    }
    let is_watched = |pool: &CapacityPool| config.regions.is_empty() || config.regions.contains(&pool.region);
    let watched = narrowed(pools.iter().collect(), is_watched, words::unwatched)?;
    let is_asked_for = |pool: &CapacityPool| gpu.types.is_empty() || gpu.types.contains(&pool.instance_type);
    let asked_for = narrowed(watched, is_asked_for, |pools| words::other_types(gpu, pools))?;
    let has_architecture = |pool: &CapacityPool| hardware::has_architecture(terms, pool);
    let executable = narrowed(asked_for, has_architecture, |pools| words::other_architecture(terms, pools))?;
    let driven = narrowed(executable, |pool| hardware::has_driver(terms, pool), words::no_driver)?;
    let many = narrowed(driven, |pool| pool.gpus >= gpu.count.max(1), |pools| words::too_few(gpu, pools))?;
    let memory_mib_min = memory_mib_min(gpu);
    narrowed(many, |pool| u64::from(pool.gpu_memory_mib) >= memory_mib_min, |pools| words::too_small(gpu, pools))
}

/// The least MiB of a GPU with the requested memory. People name the nominal size: EC2 reports 22,888 MiB for an A10G with 24 GB
/// (`DescribeInstanceTypes`), and 24,576 for an older GPU; both count as 24.
fn memory_mib_min(gpu: &GpuSpec) -> u64 {
    u64::from(gpu.memory_gib_min) * BYTES_PER_GB / BYTES_PER_MIB
}

/// Those that it keeps; where it keeps none, why, of those that there were.
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

/// Whether it is time to pay what it costs on demand, or the deadline says later when it is.
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

/// What a pool costs on Spot now, and at most.
fn on_spot(spot: &SpotSpec, pool: &CapacityPool, prices: &PriceBook) -> Result<(Rate, Rate), PriceObjection> {
    let on_demand = on_demand_rate(pool, prices);
    let live = prices
        .spot(&pool.region, &pool.instance_type, &pool.zone)
        .map(|quote| quote.rate)
        .filter(|rate| is_a_price(*rate));
    // A price limit is no price of the pool.
    live.or(on_demand).ok_or(PriceObjection::Unknown)?;
    let rate_max = spot
        .max_rate
        .into_iter()
        .chain(on_demand)
        .min()
        .filter(|rate| is_a_price(*rate))
        .ok_or(PriceObjection::Unknown)?;
    let rate = live.unwrap_or(rate_max);
    if rate > rate_max { Err(PriceObjection::Above { rate, rate_max }) } else { Ok((rate, rate_max)) }
}

fn on_demand_price(pool: &CapacityPool, prices: &PriceBook) -> Result<(Rate, Rate), PriceObjection> {
    on_demand_rate(pool, prices).map(|rate| (rate, rate)).ok_or(PriceObjection::Unknown)
}

fn on_demand_rate(pool: &CapacityPool, prices: &PriceBook) -> Option<Rate> {
    let quote = prices.on_demand_in_zone(&pool.region, &pool.instance_type, &pool.zone);
    quote.map(|quote| quote.rate).filter(|rate| is_a_price(*rate))
}

/// Nothing that can be launched costs nothing: a list that says so is wrong.
fn is_a_price(rate: Rate) -> bool {
    rate > Rate::ZERO
}

/// Of those in order so many as are kept, in the same order. Half of them are the cheapest of their zones, and the others the cheapest of
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

/// With only those images that one of them boots.
fn ranking(chosen: &[PricedPool<'_>], images: Vec<(Region, MachineImage)>, at: Timestamp) -> Ranking {
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
        });
    }
    Ranking { at, candidates, images: kept.into_iter().map(|(_, image)| image).collect(), has_other_teams: false }
}

#[cfg(test)]
mod tests;
