//! The machines that a job gets by default of those that fit: none that has more GPUs, or costs much more, than what it needs.
//!
//! The owner of a job who names types has decided both. Whoever names a price has decided the price.

use std::collections::BTreeMap;

use billing::price::PriceBook;
use model::id::TypeName;
use model::money::Rate;

use super::price_limits::ON_DEMAND;
use super::{CapacityPool, PriceObjection, on_demand_rate, words};
use crate::{JobTerms, Lifecycle};

/// The highest on-demand price, as a multiple of that of the cheapest machine that fits.
const TIMES_CHEAPEST_MAX: u64 = 3;

/// The most types of each kind that are named; more are counted.
const TYPES_MAX: usize = 3;

/// No price is as high.
const UNKNOWN: Rate = Rate::from_usd_micros_per_hour(u64::MAX);

/// A machine without GPUs has at most so many times the vCPUs of the smallest that fits: there are hundreds of types.
const TIMES_VCPUS_MAX: u32 = 2;

/// The pools that the job gets by its number of GPUs, or of vCPUs, and those that have more.
pub(super) struct PoolsByGpus<'a> {
    pub(super) kept: Vec<&'a CapacityPool>,
    pub(super) larger: Vec<&'a CapacityPool>,
}

impl<'a> PoolsByGpus<'a> {
    /// `fitting`: each with GPUs enough. Kept are those with the fewest.
    pub(super) fn new(terms: &JobTerms, fitting: Vec<&'a CapacityPool>) -> Self {
        let fewest = fitting.iter().map(|pool| pool.gpus).min().unwrap_or_default();
        let vcpus = fitting.iter().map(|pool| pool.vcpus).min().unwrap_or_default().saturating_mul(TIMES_VCPUS_MAX);
        let is_small = |pool: &CapacityPool| if terms.is_cpu_job() { pool.vcpus <= vcpus } else { pool.gpus == fewest };
        let is_kept = |pool: &&CapacityPool| !terms.types().0.is_empty() || is_small(pool);
        let (kept, larger) = fitting.into_iter().partition(is_kept);
        Self { kept, larger }
    }
}

/// The highest on-demand price of a machine that the job gets by default: it rests on every machine that fits, whether or not it is to be had
/// now. A type without a known price in its region counts by its lowest one elsewhere: nothing dearer is launched because a price is
/// missing. `None` where types are named, and where no price is known.
pub(super) fn default_rate_max(terms: &JobTerms, kept: &[&CapacityPool], prices: &PriceBook) -> Option<Rate> {
    if !terms.types().0.is_empty() {
        return None;
    }
    let rate =
        |pool: &&CapacityPool| on_demand_rate(pool, prices).or_else(|| prices.lowest_on_demand(&pool.instance_type));
    let cheapest = kept.iter().filter_map(rate).min()?;
    Some(Rate::from_usd_micros_per_hour(cheapest.usd_micros_per_hour().saturating_mul(TIMES_CHEAPEST_MAX)))
}

/// A pool, how it is not bought, and why not.
pub(super) type RejectedPool<'a> = (&'a CapacityPool, Lifecycle, PriceObjection);

/// The types that were left out, and how to allow them; `None` if none was.
pub(super) fn describe(
    terms: &JobTerms,
    larger: &[&CapacityPool],
    rejected: &[RejectedPool<'_>],
    prices: &PriceBook,
) -> Option<String> {
    let (mut dearer, mut unknown, mut rate_max) = (Vec::new(), Vec::new(), Rate::ZERO);
    let mut limited: BTreeMap<(&str, Rate), Vec<&CapacityPool>> = BTreeMap::new();
    for (pool, _, why) in rejected {
        match why {
            PriceObjection::Unknown => unknown.push(*pool),
            PriceObjection::Dearer { rate_max: most } => {
                rate_max = *most;
                dearer.push(*pool);
            }
            PriceObjection::Above { limit, .. } if limit.key == ON_DEMAND => {}
            PriceObjection::Above { limit, .. } => limited.entry((&limit.key, limit.most)).or_default().push(pool),
        }
    }
    let mut parts = Vec::new();
    let (types, enough) = (|pools: &[&CapacityPool]| listed(pools, prices, describe_type), terms.gpu.count.max(1));
    if !dearer.is_empty() {
        parts.push(format!("{}: above {rate_max}, {TIMES_CHEAPEST_MAX} times the cheapest on demand", types(&dearer)));
    }
    // Larger machines without GPUs are too many to name.
    let larger = if terms.is_cpu_job() { &[] } else { larger };
    if !larger.is_empty() {
        parts.push(format!("{}: more than {}", listed(larger, prices, describe_size), words::gpus(enough)));
    }
    parts.extend(limited.iter().map(|((key, most), pools)| format!("{}: above {key}, {most}", types(pools))));
    if !unknown.is_empty() {
        parts
            .push(format!("{}: no price is known", listed(&unknown, prices, |pool, _| pool.instance_type.to_string())));
    }
    let (_, types_key) = terms.types();
    let remedy = match (dearer.is_empty(), larger.is_empty()) {
        (false, _) => format!("; to allow one, name it in `{types_key}`, or its price in `limits.max_usd_per_hour`"),
        (true, false) => format!("; to allow one, name it in `{types_key}`"),
        (true, true) => String::new(),
    };
    (!parts.is_empty()).then(|| format!("left out: {}{remedy}", parts.join("; ")))
}

fn describe_type(pool: &CapacityPool, price: &str) -> String {
    format!("{} at {price}", pool.instance_type)
}

fn describe_size(pool: &CapacityPool, price: &str) -> String {
    format!("{} with {} at {price}", pool.instance_type, words::gpus(pool.gpus))
}

/// The cheapest types, each once, with their on-demand prices.
fn listed(pools: &[&CapacityPool], prices: &PriceBook, describe: impl Fn(&CapacityPool, &str) -> String) -> String {
    let mut types: BTreeMap<&TypeName, (Rate, &CapacityPool)> = BTreeMap::new();
    for pool in pools {
        // What is unknown comes last.
        let rate = on_demand_rate(pool, prices).unwrap_or(UNKNOWN);
        let known = types.entry(&pool.instance_type).or_insert((rate, pool));
        if rate < known.0 {
            *known = (rate, pool);
        }
    }
    let mut types: Vec<_> = types.into_values().collect();
    types.sort_by_key(|(rate, pool)| (*rate, &pool.instance_type));
    let price = |rate: Rate| if rate == UNKNOWN { "an unknown price".to_owned() } else { rate.to_string() };
    let mut named: Vec<String> =
        types.iter().take(TYPES_MAX).map(|(rate, pool)| describe(pool, &price(*rate))).collect();
    let more = types.len().saturating_sub(TYPES_MAX);
    if more > 0 {
        named.push(format!("{more} more"));
    }
    named.join(", ")
}
