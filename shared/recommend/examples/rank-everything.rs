//! Measures the time of a full ranking: every GPU type of the table in 20 regions, on Spot and on demand, for a model that is sized for
//! each kind of GPU. `docs/measurements.md` has the figure.
//!
//!     cargo run --locked --profile simulation --package recommend --example rank-everything

use std::error::Error;
use std::time::Instant;

use billing::energy::GRID;
use billing::price::{PriceBook, PriceDocument, SpotPrice};
use jiff::Timestamp;
use jobs::Lifecycle;
use model::config::PricesConfig;
use model::id::Region;
use recommend::{
    AccountQuotas, FittingGpus, GpuOffer, InterruptionHistory, PlacementFacts, PlacementRequest, RankBy, RunDuration,
    rank_places, tabled_types,
};
use sizing::{Precision, Task, Workload, read_params, smallest_parallelism};

const REGIONS: usize = 20;
const REPEATS: u32 = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let regions: Vec<Region> = GRID.iter().take(REGIONS).map(|factor| Region::from(factor.region)).collect();
    let in_region = |region: &Region| {
        tabled_types().into_iter().map(|offer| GpuOffer { region: region.clone(), ..offer }).collect::<Vec<_>>()
    };
    let offers: Vec<GpuOffer> = regions.iter().flat_map(in_region).collect();
    let now: Timestamp = "2026-11-24T12:00:00Z".parse()?;
    let mut document = PriceDocument::default();
    for (cents, offer) in (50..).zip(&offers) {
        let (region, name) = (offer.region.clone(), offer.instance_type.clone());
        document.learn_listed(region.clone(), name.clone(), Some(cents * 10_000), now);
        let zones = ["a", "b", "c"].map(|zone| SpotPrice {
            instance_type: name.clone(),
            zone: format!("{region}{zone}"),
            from: now,
            usd_micros_per_hour: cents * 4_000,
        });
        document.learn_spot(&region, &[name].into(), zones.to_vec(), now);
    }
    let prices = PriceBook::from_document(document, &PricesConfig::default(), now);
    let (quotas, interruptions) = (AccountQuotas::default(), InterruptionHistory::new());
    let facts = PlacementFacts { prices: &prices, quotas: &quotas, interruptions: &interruptions };
    let lifecycles = vec![Lifecycle::Spot, Lifecycle::OnDemand];
    let request = PlacementRequest {
        architecture: "x86_64".to_owned(),
        lifecycles,
        duration: RunDuration::Seconds(3_600),
        data: None,
        features: Vec::new(),
        rank_by: RankBy::Price,
    };
    let (model, workload) = (read_params("7b")?, Workload::new(Task::Inference, Precision::Bf16));
    let begin = Instant::now();
    let mut count = 0;
    for _ in 0..REPEATS {
        let places = rank_places(&request, &offers, facts, |shape| {
            let fit = smallest_parallelism(&model, &workload, shape.gpu_memory_bytes, 1)?;
            (fit.gpus <= shape.gpus).then_some(FittingGpus { gpus: fit.gpus, fit })
        });
        count = places.len();
    }
    let each = begin.elapsed() / REPEATS;
    println!("{count} places of {} types in {REGIONS} regions: {each:?} for one ranking", offers.len() / REGIONS);
    Ok(())
}
