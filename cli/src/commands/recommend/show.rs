//! A recommendation, for people.

use std::collections::BTreeSet;

use billing::energy::Footprint;
use billing::price::table_regions;
use jobs::Lifecycle;
use model::id::{Region, TypeName};
use model::money::Amount;
use recommend::{
    CAPABILITY_SOURCE, GENERATION_SOURCE, GpuFeature, Interruptions, QuotaVerdict, RankBy, RankedPlace, RunCost,
    RunDuration, TRAINING_SOURCE, TokenWork, format_length,
};
use sizing::{ParameterCount, format_parameters, to_gib};

use super::TooSmall;
use super::place::Ranking;
use super::workload::{GpuFit, Sized};
use crate::screen::{self, ColumnAlignment, Table};

const PLACES_MAX: usize = 10;

const HOUR_SECONDS: u64 = 3_600;

/// A smaller value is shown as 0.0 GiB.
const SHOWN_BYTES_MIN: u64 = 60 << 20;

/// Regions that the heading names; more are counted.
const REGIONS_NAMED_MAX: usize = 6;
/// The most types with an unknown price that are named.
const UNKNOWN_MAX: usize = 8;

/// The most changes that are named for a GPU that is too small.
const REMEDIES_MAX: usize = 3;

pub(super) fn estimate(sized: &Sized, explain: bool) {
    let Sized { architecture, workload, on_one_gpu, .. } = sized;
    let ParameterCount { total, active, .. } = on_one_gpu.parameters;
    let active =
        if architecture.has_experts() { format!(" ({} active)", format_parameters(active)) } else { String::new() };
    let parameters = format_parameters(total);
    screen::print_line(format!(
        "{}: {parameters} parameters{active}, {} in {}, {} x {} tokens",
        architecture.name, workload.task, workload.precision, workload.batch, workload.tokens
    ));
    if explain {
        screen::print_document(on_one_gpu.explain().trim_end());
        return spreads(sized);
    }
    let parts = on_one_gpu.parts().into_iter().filter(|(_, part)| part.bytes >= SHOWN_BYTES_MIN);
    let parts: Vec<String> =
        parts.map(|(name, part)| format!("{} {:.1}", name.replace('_', " "), to_gib(part.bytes))).collect();
    screen::print_line(format!(
        "On one GPU it takes {:.1} GiB: {}",
        to_gib(on_one_gpu.total_bytes()),
        parts.join(", ")
    ));
    for assumption in &on_one_gpu.assumptions {
        screen::print_line(format!("Assumed: {assumption}"));
    }
}

fn spreads(sized: &Sized) {
    let right = ColumnAlignment::Right;
    let mut table = Table::new([
        ("GiB on each of", ColumnAlignment::Left),
        ("1 GPU", right),
        ("2 GPUs", right),
        ("4 GPUs", right),
        ("8 GPUs", right),
    ]);
    for spread in sized.spreads() {
        let mut cells = spread.gib_by_gpus.iter().map(|(_, gib)| gib.map_or("-".to_owned(), |gib| format!("{gib:.1}")));
        let mut cell = || cells.next().unwrap_or_default();
        table.row([spread.strategy.to_string(), cell(), cell(), cell(), cell()]);
    }
    screen::print_line("");
    table.print();
}

pub(super) fn places(ranking: &Ranking, source: &str, all: bool) {
    let regions: Vec<&str> = ranking.regions.iter().map(Region::as_str).collect();
    let regions =
        if regions.len() > REGIONS_NAMED_MAX { format!("{} regions", regions.len()) } else { regions.join(", ") };
    screen::print_line("");
    screen::print_line(format!("In {regions} ({source}):"));
    if ranking.places.is_empty() {
        let is_known = !ranking.offers.is_empty();
        return screen::print_line(if is_known {
            "Nothing fits on the GPUs of one machine."
        } else {
            "No type is known to be offered there."
        });
    }
    // By another figure than the price, a place without a price keeps its rank.
    let is_shown = |place: &&RankedPlace<GpuFit>| place.usd_per_hour.is_some() || ranking.rank_by != RankBy::Price;
    let (priced, unpriced): (Vec<_>, Vec<_>) = ranking.places.iter().partition(is_shown);
    // 80 columns have room for all but the last one: GPUs are those in use and all, GiB those in use and all of each.
    let mut table = Table::new([
        ("type", ColumnAlignment::Whole),
        ("region", ColumnAlignment::Whole),
        ("bought", ColumnAlignment::Whole),
        ("GPUs", ColumnAlignment::Left),
        ("GiB", ColumnAlignment::Right),
        ("USD/h", ColumnAlignment::Right),
        ("USD/run", ColumnAlignment::Right),
        ("CO2e/h", ColumnAlignment::Whole),
    ])
    .sparing(1);
    let count = if all { priced.len() } else { PLACES_MAX };
    let without_price = unpriced.iter().filter(|_| all);
    let shown: Vec<&RankedPlace<GpuFit>> = priced.iter().take(count).chain(without_price).copied().collect();
    for place in &shown {
        table.row_with_notes(row(place), &notes(place));
    }
    if !table.is_empty() {
        table.print();
    }
    let more = priced.len().saturating_sub(count);
    if more > 0 {
        screen::print_line(format!("and {}; --all shows them", screen::counted(more, "more place")));
    }
    if !all {
        unknown(&unpriced);
    }
    for line in sources(ranking, &shown) {
        screen::print_line(line);
    }
}

fn row(place: &RankedPlace<GpuFit>) -> [String; 8] {
    let GpuFit { needed_bytes, .. } = &place.fit;
    [
        place.instance_type.to_string(),
        place.zone.clone().unwrap_or_else(|| place.region.to_string()),
        bought(place.lifecycle).to_owned(),
        format!("{}/{} {}", place.used_gpus, place.gpus, place.gpu_name),
        format!("{:.0}/{}", to_gib(*needed_bytes).ceil(), place.gpu_memory_mib / 1_024),
        place.usd_per_hour.map_or_else(|| "-".to_owned(), |rate| dollars(Amount::from_rate(rate, HOUR_SECONDS))),
        place.cost.map_or_else(|| "-".to_owned(), cost),
        place.footprint_per_hour.operational.to_string().trim_end_matches(" CO2e").to_owned(),
    ]
}

const fn bought(lifecycle: Lifecycle) -> &'static str {
    match lifecycle {
        Lifecycle::Spot => "Spot",
        Lifecycle::OnDemand => "on demand",
    }
}

fn cost(RunCost { least, most }: RunCost) -> String {
    match most {
        Some(most) if most == least => dollars(most),
        Some(most) => format!("{}-{}", rough_dollars(least, most), rough_dollars(most, most)),
        None => format!("≥ {}", rough_dollars(least, least)),
    }
}

/// `1,234.56`.
fn dollars(amount: Amount) -> String {
    amount.to_string().trim_start_matches('$').to_owned()
}

/// One end of a range, by its larger end with cents, without, in thousands or in millions, with one digit below a hundred of them.
fn rough_dollars(amount: Amount, largest: Amount) -> String {
    let (unit, name) = match largest.usd() {
        ..100.0 => return dollars(amount),
        ..10_000.0 => (1.0, ""),
        ..1_000_000.0 => (1e3, "k"),
        ..100_000_000.0 => return format!("{:.1}m", amount.usd() / 1e6),
        _ => (1e6, "m"),
    };
    let whole = dollars(Amount::from_usd((amount.usd() / unit).round()));
    format!("{}{name}", whole.trim_end_matches(".00"))
}

fn notes(place: &RankedPlace<GpuFit>) -> String {
    let mut notes = Vec::new();
    if let Some(run) = place.run.filter(|run| run.most_seconds != Some(run.least_seconds)) {
        notes.push(run.to_string());
    }
    if let QuotaVerdict::Refused { code, granted_vcpus, used_vcpus, needed_vcpus } = &place.quota {
        notes.push(format!(
            "quota {code} refuses it: {used_vcpus} of {granted_vcpus} vCPUs used, {needed_vcpus} needed"
        ));
    }
    if let Some(Interruptions { runs, interrupted, .. }) = place.interruptions.filter(|seen| seen.runs > 0) {
        notes.push(format!("{interrupted} of {runs} runs interrupted"));
    }
    if let Some(data) = place.data {
        let load = data.load_seconds_least.map_or_else(
            || "unknown".to_owned(),
            |seconds| format!("at least {}", format_length(seconds.div_ceil(60).saturating_mul(60))),
        );
        notes.push(format!("data: {}, loads in {load}", data.egress));
    }
    notes.extend(place.describe_lacks());
    notes.join("; ")
}

/// Tells what the tables lack: places, or types in these regions.
pub(super) fn without_offers(ranking: &Ranking) {
    let known = table_regions();
    let is_priced = ranking.places.iter().any(|place| place.usd_per_hour.is_some());
    if !is_priced && ranking.places.iter().any(|place| place.lifecycle == Lifecycle::Spot) {
        screen::print_line("Without AWS no price on Spot is known.");
    }
    let unknown: Vec<&str> =
        ranking.regions.iter().filter(|region| !known.contains(*region)).map(Region::as_str).collect();
    if unknown.is_empty() {
        list_not_tabled(&ranking.not_tabled);
    } else if unknown.len() < ranking.regions.len() {
        screen::print_line(format!("Without AWS it is unknown what {} offers.", unknown.join(", ")));
    } else {
        let (first, last) = (known.first().map(Region::as_str), known.last().map(Region::as_str));
        screen::print_line(format!(
            "Without AWS only prices on demand in {} regions are known, from {} to {}: none of these is among them, and what it offers is unknown.",
            known.len(),
            first.unwrap_or_default(),
            last.unwrap_or_default()
        ));
    }
}

fn list_not_tabled(types: &[TypeName]) {
    if types.is_empty() {
        return;
    }
    let names: Vec<&str> = types.iter().take(UNKNOWN_MAX).map(TypeName::as_str).collect();
    let more = types.len().saturating_sub(UNKNOWN_MAX);
    let more = if more > 0 { format!(" and {more} more types") } else { String::new() };
    screen::print_line(format!(
        "Without AWS it is unknown whether these regions offer {}{more}: no table has a price of theirs there.",
        names.join(", ")
    ));
}

fn unknown(unpriced: &[&RankedPlace<GpuFit>]) {
    if unpriced.is_empty() {
        return;
    }
    let mut names: Vec<&str> = unpriced.iter().map(|place| place.instance_type.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(UNKNOWN_MAX);
    names.truncate(UNKNOWN_MAX);
    let more = if more > 0 { format!(" and {more} more types") } else { String::new() };
    let places = screen::counted(unpriced.len(), "place");
    screen::print_line("");
    screen::print_line(format!(
        "The price of {places} that would fit is unknown: {}{more}. --all shows them.",
        names.join(", ")
    ));
}

/// The source of the figures.
fn sources(ranking: &Ranking, places: &[&RankedPlace<GpuFit>]) -> Vec<String> {
    let mut sources: Vec<&str> = places.iter().filter_map(|place| place.price_source.as_deref()).collect();
    sources.sort_unstable();
    sources.dedup();
    let mut lines = Vec::new();
    let lacking: BTreeSet<GpuFeature> = places.iter().flat_map(|place| place.lacks.iter().copied()).collect();
    lines.extend(lacking.iter().map(|feature| feature.consequence().to_owned()));
    if !lacking.is_empty() {
        lines.push(format!("Hardware: {CAPABILITY_SOURCE}."));
    }
    if !sources.is_empty() {
        lines.push(format!("Prices: {}.", sources.join(", ")));
    }
    let footprint: Footprint = places.iter().map(|place| place.footprint_per_hour.clone()).sum();
    lines.extend(footprint.describe_gaps().into_iter().map(|gap| format!("CO2e: {gap}.")));
    match ranking.duration {
        RunDuration::Tokens(TokenWork::Training { .. }) => lines.push(format!("Time: {TRAINING_SOURCE}.")),
        RunDuration::Tokens(TokenWork::Generation { .. }) => lines.push(format!("Time: {GENERATION_SOURCE}.")),
        RunDuration::Seconds(_) | RunDuration::Unknown => {}
    }
    lines
}

/// The changes that make it fit one GPU: the largest that is too small if others are large enough, else every one.
pub(super) fn too_small(kinds: &[TooSmall], nothing_fits: bool) {
    let shown = if nothing_fits { kinds } else { kinds.last().map(std::slice::from_ref).unwrap_or_default() };
    for TooSmall { gpu_name, gpu_memory_mib, remedies } in shown.iter().filter(|kind| !kind.remedies.is_empty()) {
        let changes: Vec<String> = remedies.iter().take(REMEDIES_MAX).map(|remedy| remedy.change.to_string()).collect();
        screen::print_line(format!(
            "One {gpu_name} ({} GiB) is too small; one of these makes it fit: {}.",
            gpu_memory_mib / 1_024,
            changes.join(", ")
        ));
    }
    if nothing_fits && kinds.iter().all(|kind| kind.remedies.is_empty()) {
        screen::print_line("No single change makes it fit on one machine: change several, or take a smaller model.");
    }
}
