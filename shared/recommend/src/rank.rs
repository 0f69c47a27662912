//! Types x regions x ways to buy them, the cheapest first.
//!
//! An offer is a candidate **if and only if** its CPU is of the architecture that is asked for, the caller's `fit` says that its GPUs hold
//! what is to run, and it is sold in one of the ways that are asked for, or it is unknown whether it is.
//!
//! A run uses the GPUs that `fit` says, and no others of the machine: its time, its cost and the job that is written for it go by these.
//!
//! The order: first what has a price and what no quota refuses; then by [`RankBy`]; at equal costs fewer GPUs, less memory, fewer vCPUs, and
//! then names. What is unknown is `None`, comes last, and is never guessed: neither a price of another region nor Spot from on demand.
//!
//! `jobs::rank` shares none of this on purpose. It fits a number of GPUs and their memory, not a model; leaves out what cannot be launched
//! now, or has no price, which is shown here; orders zones, not regions; and goes by the hour, because how long a job takes is unknown to it.

use std::collections::{BTreeMap, BTreeSet};

use billing::energy::{AcceleratorLoad, Footprint, MachineUse, RunningTime};
use billing::price::{PriceBook, Quote};
use jobs::{Lifecycle, transfer_usd_per_gb};
use model::id::{Region, TypeName};
use model::money::{Amount, Rate};
use serde::Serialize;

use crate::{
    AccountQuotas, GpuFeature, GpuOffer, GpuPeak, InterruptionHistory, Interruptions, MachineShape, QuotaVerdict,
    RunLength, TokenWork, network_gbps,
};

const HOUR_SECONDS: u64 = 3_600;

/// Duration of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RunDuration {
    /// The duration is unknown: places are ranked by the hour.
    Unknown,
    Seconds(u64),
    /// The duration depends on the type.
    Tokens(TokenWork),
}

/// Figure by which places are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankBy {
    /// Least cost of a run, with its data; of an hour where the length of the run is unknown.
    #[default]
    Price,
    /// Least time of a run, with loading its data; a place of unknown time comes last.
    Time,
    /// Operational carbon at full power for the least time of a run, or for an hour; a place without a factor comes last.
    Carbon,
}

/// Requirements for a place.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementRequest {
    /// `x86_64` or `arm64`.
    pub architecture: String,
    pub lifecycles: Vec<Lifecycle>,
    pub duration: RunDuration,
    pub data: Option<DataPlace>,
    /// Features that the GPUs should have in hardware.
    pub features: Vec<GpuFeature>,
    pub rank_by: RankBy,
}

/// Facts about prices and the account.
#[derive(Debug, Clone, Copy)]
pub struct PlacementFacts<'a> {
    pub prices: &'a PriceBook,
    pub quotas: &'a AccountQuotas,
    pub interruptions: &'a InterruptionHistory,
}

/// GPUs of a machine that a run uses, and how it fits them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FittingGpus<F> {
    pub gpus: u32,
    pub fit: F,
}

/// One place to run. `F` is how it fits, as the caller's function says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankedPlace<F> {
    #[serde(rename = "type")]
    pub instance_type: TypeName,
    pub region: Region,
    pub lifecycle: Lifecycle,
    /// Zone of the price, for Spot.
    pub zone: Option<String>,
    pub gpus: u32,
    /// GPUs that the run uses.
    pub used_gpus: u32,
    pub gpu_name: String,
    pub gpu_memory_mib: u32,
    pub vcpus: Option<u32>,
    /// Requested features that the GPUs lack in hardware.
    pub lacks: Vec<GpuFeature>,
    pub fit: F,
    pub usd_per_hour: Option<Rate>,
    /// Source of the price, in words: `table of 2026-09-24`.
    pub price_source: Option<String>,
    /// Length of the run, without loading its data.
    pub run: Option<RunLength>,
    pub cost: Option<RunCost>,
    /// Energy and emissions of one hour.
    pub footprint_per_hour: Footprint,
    pub quota: QuotaVerdict,
    /// Interruptions in the account's ledgers, for Spot; `None` if the ledgers saw no run.
    pub interruptions: Option<Interruptions>,
    pub data: Option<DataCost>,
}

/// Cost of a run, with its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RunCost {
    #[serde(rename = "least_usd")]
    pub least: Amount,
    /// `None` if the run has no known upper bound.
    #[serde(rename = "most_usd")]
    pub most: Option<Amount>,
}

impl<F> RankedPlace<F> {
    /// The least time that it takes, with loading its data.
    fn least_seconds(&self) -> Option<u64> {
        let loading = self.data.map_or(Some(0), |data| data.load_seconds_least)?;
        self.run.map(|run| run.least_seconds.saturating_add(loading))
    }

    /// Milligrams of operational carbon at full power, for the least time of the run; of no run at all, for an hour.
    fn most_carbon(&self, duration: &RunDuration) -> Option<u64> {
        let carbon = self.footprint_per_hour.operational;
        let per_hour = carbon.known().filter(|_| carbon.is_complete())?.high();
        let seconds = match duration {
            RunDuration::Unknown => HOUR_SECONDS,
            RunDuration::Seconds(_) | RunDuration::Tokens(_) => self.least_seconds()?,
        };
        let milligrams = u128::from(per_hour) * u128::from(seconds) / u128::from(HOUR_SECONDS);
        Some(u64::try_from(milligrams).unwrap_or(u64::MAX))
    }

    /// Describes the features that the GPUs lack, for people: `T4: no hardware for bf16`.
    #[must_use]
    pub fn describe_lacks(&self) -> Option<String> {
        let lacks: Vec<&str> = self.lacks.iter().map(|feature| feature.absence()).collect();
        (!lacks.is_empty()).then(|| format!("{}: {}", self.gpu_name, lacks.join(", ")))
    }
}

/// Every candidate, best first. `fit` is asked once for each shape of a machine; `None`: what is to run does not fit.
#[must_use]
pub fn rank_places<F: Clone>(
    request: &PlacementRequest,
    offers: &[GpuOffer],
    facts: PlacementFacts<'_>,
    fit: impl Fn(MachineShape) -> Option<FittingGpus<F>>,
) -> Vec<RankedPlace<F>> {
    let executable = || offers.iter().filter(|offer| offer.architecture == request.architecture);
    let shapes: BTreeSet<MachineShape> = executable().map(GpuOffer::shape).collect();
    let fits: BTreeMap<MachineShape, FittingGpus<F>> =
        shapes.into_iter().filter_map(|shape| Some((shape, fit(shape)?))).collect();
    let mut places = Vec::new();
    for offer in executable() {
        let Some(fit) = fits.get(&offer.shape()) else { continue };
        let footprint = footprint_per_hour(offer);
        for lifecycle in request.lifecycles.iter().copied().filter(|bought| is_sold(offer, *bought)) {
            places.push(place(request, offer, (lifecycle, fit.clone(), footprint.clone()), facts));
        }
    }
    places.sort_by(|one, other| order(one, request).cmp(&order(other, request)));
    places
}

fn is_sold(offer: &GpuOffer, lifecycle: Lifecycle) -> bool {
    lifecycle == Lifecycle::OnDemand || offer.spot != Some(false)
}

fn footprint_per_hour(offer: &GpuOffer) -> Footprint {
    let (instance_type, region) = (&offer.instance_type, Some(&offer.region));
    let time = RunningTime::exactly(HOUR_SECONDS);
    Footprint::from_use(&MachineUse { instance_type, region, time, load: AcceleratorLoad::Unknown })
}

fn place<F>(
    request: &PlacementRequest,
    offer: &GpuOffer,
    (lifecycle, fitting, footprint_per_hour): (Lifecycle, FittingGpus<F>, Footprint),
    facts: PlacementFacts<'_>,
) -> RankedPlace<F> {
    let GpuOffer { region, instance_type, gpus, gpu_name, gpu_memory_mib, vcpus, .. } = offer;
    let (zone, quote) = price(facts.prices, offer, lifecycle);
    let run = match request.duration {
        RunDuration::Unknown => None,
        RunDuration::Seconds(seconds) => Some(RunLength::exactly(seconds)),
        RunDuration::Tokens(work) => {
            GpuPeak::find(gpu_name, *gpu_memory_mib).map(|peak| RunLength::for_tokens(work, peak, fitting.gpus))
        }
    };
    let data = request.data.as_ref().map(|data| DataCost::at(data, offer));
    let usd_per_hour = quote.map(|quote| quote.rate);
    RankedPlace {
        cost: usd_per_hour.zip(run).map(|(rate, run)| RunCost::of_run(rate, run, data)),
        interruptions: facts
            .interruptions
            .get(&(region.clone(), instance_type.clone()))
            .copied()
            .filter(|_| lifecycle == Lifecycle::Spot),
        quota: facts.quotas.verdict(offer, lifecycle),
        instance_type: instance_type.clone(),
        region: region.clone(),
        lifecycle,
        zone,
        gpus: *gpus,
        used_gpus: fitting.gpus,
        gpu_name: gpu_name.clone(),
        gpu_memory_mib: *gpu_memory_mib,
        vcpus: *vcpus,
        lacks: GpuFeature::lacking(&request.features, gpu_name),
        fit: fitting.fit,
        usd_per_hour,
        price_source: quote.map(|quote| quote.source.describe()),
        run,
        footprint_per_hour,
        data,
    }
}

/// A list that says that something costs nothing is wrong.
fn price(prices: &PriceBook, offer: &GpuOffer, lifecycle: Lifecycle) -> (Option<String>, Option<Quote>) {
    let GpuOffer { region, instance_type, .. } = offer;
    let (zone, quote) = match lifecycle {
        Lifecycle::OnDemand => (None, prices.on_demand(region, instance_type)),
        Lifecycle::Spot => match prices.cheapest_spot(region, instance_type) {
            Some((zone, quote)) => (Some(zone.to_owned()), Some(quote)),
            None => (None, None),
        },
    };
    (zone, quote.filter(|quote| quote.rate > Rate::ZERO))
}

impl RunCost {
    fn of_run(rate: Rate, run: RunLength, data: Option<DataCost>) -> Self {
        let egress = data.map(|data| data.egress).unwrap_or_default();
        let loading = data.and_then(|data| data.load_seconds_least).unwrap_or_default();
        let amount = |seconds: u64| Amount::from_rate(rate, seconds.saturating_add(loading)) + egress;
        // The time to load is known from below alone.
        Self { least: amount(run.least_seconds), most: run.most_seconds.map(amount).filter(|_| data.is_none()) }
    }
}

fn order<'p, F>(place: &'p RankedPlace<F>, request: &PlacementRequest) -> impl Ord + use<'p, F> {
    let rank_by = request.rank_by;
    let least = place.cost.map(|cost| cost.least);
    let figure = match rank_by {
        RankBy::Price => None,
        RankBy::Time => Some(place.least_seconds()),
        RankBy::Carbon => Some(place.most_carbon(&request.duration)),
    };
    (
        place.usd_per_hour.is_none() && rank_by == RankBy::Price,
        place.quota.is_refused(),
        // An unknown figure comes after every known one.
        figure.map(|figure| (figure.is_none(), figure)),
        place.usd_per_hour.is_none(),
        // Where one run has a length, a place without one is not comparable, and comes after.
        (least.is_none(), least, place.usd_per_hour),
        (place.gpus, place.gpu_memory_mib, place.vcpus),
        (&place.region, &place.instance_type, place.lifecycle),
    )
}

/// Highest rate at which one instance reads from S3 (Amazon S3 user guide, "Performance design patterns for Amazon S3").
pub const S3_GBPS_MAX: u32 = 100;

/// Number of vCPUs from which an instance reaches another region with half of its network; with fewer it has at most 5 Gbit/s (EC2 user
/// guide, "Amazon EC2 instance network bandwidth").
const LARGE_VCPUS: u32 = 32;
const SMALL_ELSEWHERE_GBPS: u32 = 5;

const BYTES_PER_GB: u64 = 1_000_000_000;

/// Place and size of the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DataPlace {
    pub region: Region,
    pub bytes: u64,
}

/// Cost of reading the data once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DataCost {
    /// Charge of the data's region for sending it to another region.
    #[serde(rename = "egress_usd")]
    pub egress: Amount,
    /// Shortest time at the network of the type and the rate of S3 for one instance; `None` if the network is unknown.
    pub load_seconds_least: Option<u64>,
}

impl DataCost {
    pub(crate) fn at(data: &DataPlace, offer: &GpuOffer) -> Self {
        let is_elsewhere = data.region != offer.region;
        let gb = data.bytes.div_ceil(BYTES_PER_GB);
        let usd_micros = transfer_usd_per_gb(&data.region, &offer.region).usd_micros().saturating_mul(gb);
        let egress = if is_elsewhere { Amount::from_usd_micros(usd_micros) } else { Amount::ZERO };
        let gbps = network_gbps(&offer.instance_type).map(|gbps| match offer.vcpus {
            Some(vcpus) if is_elsewhere && vcpus < LARGE_VCPUS => gbps.min(SMALL_ELSEWHERE_GBPS),
            _ if is_elsewhere => (gbps / 2).min(S3_GBPS_MAX),
            _ => gbps.min(S3_GBPS_MAX),
        });
        let seconds = |gbps: u32| {
            let bits = u128::from(data.bytes) * 8;
            let per_second = u128::from(gbps.max(1)) * u128::from(BYTES_PER_GB);
            u64::try_from(bits.div_ceil(per_second)).unwrap_or(u64::MAX)
        };
        Self { egress, load_seconds_least: gbps.map(seconds) }
    }
}

#[cfg(test)]
mod tests;
