//! The tables of `docs/carbon.md`, compared with `data/`.

use billing::energy::{ACCELERATORS, GRID, MACHINES, REGIONAL_PUE, machine_families};

const PAGE: &str = include_str!("../../../docs/carbon.md");

/// The rows must stand on the page, in this order and next to one another.
fn check(rows: Vec<String>) {
    let table = rows.join("\n");
    assert!(PAGE.contains(&table), "docs/carbon.md lacks this table:\n{table}");
}

fn range(low: u64, high: u64) -> String {
    if low == high { low.to_string() } else { format!("{low}-{high}") }
}

#[test]
fn every_accelerator_is_on_the_page() {
    check(
        ACCELERATORS
            .iter()
            .map(|model| {
                let (low, high) = model.idle_milliwatts;
                let families = machine_families(MACHINES.iter().filter(|machine| machine.accelerator == model));
                let embodied =
                    model.embodied_kg.map_or("unknown".to_owned(), |(low, high)| range(low.into(), high.into()));
                format!(
                    "| {} | {} | {} | {} | {embodied} | {}, {} |",
                    model.name,
                    families.join(", "),
                    range(low / 1_000, high / 1_000),
                    model.full_milliwatts / 1_000,
                    model.source,
                    model.year
                )
            })
            .collect(),
    );
}

#[test]
fn every_region_is_on_the_page() {
    check(
        GRID.iter()
            .zip(REGIONAL_PUE.iter())
            .map(|(factor, pue)| {
                assert_eq!(factor.region, pue.region);
                let mean = if pue.is_mean { " (mean)" } else { "" };
                format!(
                    "| {} | {} | {} | {} | {} | {}.{:02}{mean} |",
                    factor.region,
                    factor.grams_per_kwh,
                    factor.year,
                    factor.grid,
                    factor.source,
                    pue.percent / 100,
                    pue.percent % 100
                )
            })
            .collect(),
    );
}
