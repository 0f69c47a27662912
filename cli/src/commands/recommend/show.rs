//! A recommendation, for people.

use jiff::SignedDuration;
use jobs::Lifecycle;
use model::duration::format_duration;
use model::id::Region;
use recommend::{
    GENERATION_SOURCE, Interruptions, QuotaVerdict, RankedPlace, RunCost, RunDuration, RunLength, TRAINING_SOURCE,
    TokenWork,
};
use sizing::to_gib;

use super::TooSmall;
use super::place::Ranking;
use super::workload::{GpuFit, Sized};
use crate::screen::{self, ColumnAlignment, Table, plain, plain_lines};

const PLACES_MAX: usize = 10;

/// A smaller value is shown as 0.0 GiB.
const SHOWN_BYTES_MIN: u64 = 60 << 20;

/// The most types with an unknown price that are named.
const UNKNOWN_MAX: usize = 8;

/// The most changes that are named for a GPU that is too small.
const REMEDIES_MAX: usize = 3;

pub(super) fn estimate(sized: &Sized, explain: bool) {
    let Sized { architecture, workload, on_one_gpu, .. } = sized;
    let billions = on_one_gpu.parameters.total / 10_000_000;
    let parameters = format!("{}.{:02} billion parameters", billions / 100, billions % 100);
    screen::print_line(plain(&format!(
        "{}: {parameters}, {} in {}, {} x {} tokens",
        architecture.name, workload.task, workload.precision, workload.batch, workload.tokens
    )));
    if explain {
        screen::print_line(plain_lines(on_one_gpu.explain().trim_end()));
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
    screen::print_line(format!("\n{table}"));
}

pub(super) fn places(ranking: &Ranking, source: &str, all: bool) {
    let regions: Vec<&str> = ranking.regions.iter().map(Region::as_str).collect();
    screen::print_line("");
    screen::print_line(plain(&format!("In {} ({source}):", regions.join(", "))));
    if ranking.places.is_empty() {
        return screen::print_line("Nothing fits on the GPUs of one machine.");
    }
    let (priced, unpriced): (Vec<_>, Vec<_>) = ranking.places.iter().partition(|place| place.usd_per_hour.is_some());
    let mut table = Table::new([
        ("type", ColumnAlignment::Whole),
        ("region", ColumnAlignment::Whole),
        ("bought", ColumnAlignment::Left),
        ("memory", ColumnAlignment::Left),
        ("price", ColumnAlignment::Right),
        ("run", ColumnAlignment::Right),
        ("hourly CO2e", ColumnAlignment::Left),
        ("notes", ColumnAlignment::Left),
    ])
    .sparing(2);
    let count = if all { priced.len() } else { PLACES_MAX };
    let without_price = unpriced.iter().filter(|_| all);
    for place in priced.iter().take(count).chain(without_price) {
        table.row(row(place));
    }
    if !table.is_empty() {
        screen::print_line(table);
    }
    let more = priced.len().saturating_sub(count);
    if more > 0 {
        screen::print_line(format!("and {}; --all shows them", screen::counted(more, "more place")));
    }
    if !all {
        unknown(&unpriced, ranking.unasked);
    }
    for line in sources(ranking, &priced) {
        screen::print_line(plain(&line));
    }
}

fn row(place: &RankedPlace<GpuFit>) -> [String; 8] {
    let GpuFit { gpus, needed_bytes, .. } = &place.fit;
    [
        place.instance_type.to_string(),
        place.zone.clone().unwrap_or_else(|| place.region.to_string()),
        bought(place.lifecycle).to_owned(),
        format!("{gpus} x {:.0} of {} GiB", to_gib(*needed_bytes).ceil(), place.gpu_memory_mib / 1_024),
        place.usd_per_hour.map_or_else(|| "unknown".to_owned(), |rate| rate.to_string()),
        place.cost.map_or_else(|| "-".to_owned(), cost),
        place.footprint_per_hour.operational.to_string(),
        notes(place),
    ]
}

const fn bought(lifecycle: Lifecycle) -> &'static str {
    match lifecycle {
        Lifecycle::Spot => "Spot",
        Lifecycle::OnDemand => "on demand",
    }
}

fn cost(cost: RunCost) -> String {
    match cost.most {
        Some(most) if most == cost.least => most.to_string(),
        Some(most) => format!("{} to {most}", cost.least),
        None => format!("at least {}", cost.least),
    }
}

fn notes(place: &RankedPlace<GpuFit>) -> String {
    let mut notes = vec![format!("{} {}", place.gpus, place.gpu_name)];
    if let Some(RunLength { least_seconds, most_seconds }) =
        place.run.filter(|run| run.most_seconds != Some(run.least_seconds))
    {
        notes.push(match most_seconds {
            Some(most) => format!("{} to {}", length(least_seconds), length(most)),
            None => format!("at least {}", length(least_seconds)),
        });
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
        let load = data
            .load_seconds_least
            .map_or_else(|| "unknown".to_owned(), |seconds| format!("at least {}", length(seconds.div_ceil(60) * 60)));
        notes.push(format!("data: {}, loads in {load}", data.egress));
    }
    notes.join("; ")
}

fn length(seconds: u64) -> String {
    format_duration(SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)))
}

fn unknown(unpriced: &[&RankedPlace<GpuFit>], unasked: usize) {
    if unpriced.is_empty() {
        return;
    }
    let asked = if unasked > 0 {
        format!("; of {unasked} the Price List was not asked: name fewer --regions")
    } else {
        String::new()
    };
    let mut names: Vec<&str> = unpriced.iter().map(|place| place.instance_type.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(UNKNOWN_MAX);
    names.truncate(UNKNOWN_MAX);
    let more = if more > 0 { format!(" and {more} more types") } else { String::new() };
    let places = screen::counted(unpriced.len(), "place");
    screen::print_line("");
    screen::print_line(plain(&format!(
        "The price of {places} that would fit is unknown{asked}: {}{more}. --all shows them.",
        names.join(", ")
    )));
}

/// The source of the figures.
fn sources(ranking: &Ranking, priced: &[&RankedPlace<GpuFit>]) -> Vec<String> {
    let mut sources: Vec<&str> = priced.iter().filter_map(|place| place.price_source.as_deref()).collect();
    sources.sort_unstable();
    sources.dedup();
    let mut lines = Vec::new();
    if !sources.is_empty() {
        lines.push(format!("Prices: {}.", sources.join(", ")));
    }
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
        screen::print_line(plain(&format!(
            "One {gpu_name} ({} GiB) is too small; one of these makes it fit: {}.",
            gpu_memory_mib / 1_024,
            changes.join(", ")
        )));
    }
    if nothing_fits && kinds.iter().all(|kind| kind.remedies.is_empty()) {
        screen::print_line(
            "No single change makes it fit, and a job runs on one machine: change several, or take a smaller model.",
        );
    }
}
