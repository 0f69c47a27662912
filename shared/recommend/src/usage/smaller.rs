//! Search for a smaller type that holds the workload of an instance.

use billing::price::PriceBook;
use model::money::Rate;

use super::{FindingKind, InstanceUsage, UsageFinding};
use crate::GpuOffer;
use crate::throughput::GpuPeak;

/// Usable share of the other type's memory, in percent: the rest is for fragmentation, and for a peak that the samples missed.
const USABLE_PERCENT: f64 = 90.0;

/// The finding about an instance, if another type of its region costs less and holds what it used. `offers` are those of its region, with
/// its own type; `busy_percent`: from which utilisation on a GPU works; `held_mib`: from which memory on it is used.
#[must_use]
pub fn find_smaller(
    usage: &InstanceUsage,
    offers: &[GpuOffer],
    prices: &PriceBook,
    (busy_percent, held_mib): (f64, f64),
) -> Option<UsageFinding> {
    let rate = usage.rate.filter(|_| usage.is_evident())?;
    let is_own = |offer: &&GpuOffer| offer.instance_type == usage.instance_type && offer.region == usage.region;
    let own = offers.iter().find(is_own)?;
    // Without its memory its need is unknown.
    let is_measured = usage.hours.iter().all(|hour| hour.memory_mib.len() == hour.utilization.len());
    is_measured.then_some(())?;
    let gpus = own.gpus as usize;
    let used = (0..gpus).filter(|place| {
        let is_busy = |values: &[f64], from: f64| values.get(*place).is_some_and(|value| *value >= from);
        usage.hours.iter().any(|hour| is_busy(&hour.utilization, busy_percent) || is_busy(&hour.memory_mib, held_mib))
    });
    let used_gpus = u32::try_from(used.count()).ok().filter(|used| *used > 0)?;
    let peak_mib = usage.hours.iter().flat_map(|hour| &hour.memory_mib).copied().fold(0.0, f64::max);
    let holds = |offer: &&GpuOffer| {
        let usable_mib = f64::from(offer.gpu_memory_mib) * USABLE_PERCENT / 100.0;
        offer.region == own.region
            && offer.architecture == own.architecture
            && offer.gpus >= used_gpus
            && usable_mib >= peak_mib
            && is_as_fast(offer, own)
    };
    let cost_of = |offer: &GpuOffer| prices.on_demand(&offer.region, &offer.instance_type).map(|quote| quote.rate);
    let cheaper = offers.iter().filter(holds).filter_map(|offer| Some((cost_of(offer)?, offer)));
    let cheaper = cheaper.filter(|(other, _)| *other > Rate::ZERO && *other < rate);
    let (other_rate, other) = cheaper.min_by_key(|(rate, offer)| (*rate, offer.gpus, &offer.instance_type))?;
    Some(UsageFinding {
        kind: FindingKind::Smaller,
        region: usage.region.clone(),
        resource: usage.instance.to_string(),
        what: usage.instance_type.to_string(),
        team: usage.team.clone(),
        saves: rate.less(other_rate),
        evidence: format!(
            "{} it used {used_gpus} of its {gpus} GPUs, and at most {:.1} of {:.1} GiB on one",
            usage.seen(),
            peak_mib / 1_024.0,
            f64::from(own.gpu_memory_mib) / 1_024.0
        ),
        action: format!(
            "try a {} ({} x {}) at {other_rate}; its vCPUs and memory are fewer or other ones: check what the program needs of them",
            other.instance_type, other.gpus, other.gpu_name
        ),
    })
}

/// Returns `true` for the same GPU, or one whose peaks are both as high. A GPU that is in no table counts as slower.
fn is_as_fast(offer: &GpuOffer, own: &GpuOffer) -> bool {
    let peak = |one: &GpuOffer| GpuPeak::find(&one.gpu_name, one.gpu_memory_mib);
    offer.gpu_name == own.gpu_name
        || peak(offer).zip(peak(own)).is_some_and(|(other, own)| {
            other.teraflops >= own.teraflops && other.memory_gb_per_second >= own.memory_gb_per_second
        })
}
