//! The prices of volumes.

use billing::price::PriceBook;
use model::volume::Volume;

use super::{rows, volume};

/// What so many cost by a cell such as `$0.065 above 0; $0.0455 above 32,000`.
fn by_tiers(cell: &str, count: u64) -> f64 {
    let tiers = cell.split("; ").filter_map(|tier| tier.strip_prefix('$')?.split_once(" above "));
    let tiers: Vec<(f64, u64)> =
        tiers.map(|(each, above)| (each.parse().unwrap(), above.replace(',', "").parse().unwrap())).collect();
    let ends = tiers.iter().skip(1).map(|(_, above)| *above).chain([count]);
    tiers.iter().zip(ends).map(|((each, above), end)| each * units(end - above)).sum()
}

#[test]
fn the_prices_of_volumes() {
    let (gib, iops, mibps) = (1_000, 100_000, 1_000);
    for (name, cells) in rows("## Prices") {
        let size = units(gib) * cells[1].trim_start_matches('$').parse::<f64>().unwrap();
        let documented = size + by_tiers(cells[2], iops) + by_tiers(cells[3], mibps);
        let volume = Volume { volume_type: name.to_owned(), ..volume(gib, iops, mibps) };
        let cents = PriceBook::dated().volume_cost(&volume).map(|quote| quote.rate.usd_cents_per_month()).unwrap();
        assert!(
            (documented * 100.0 - units(cents)).abs() < 1.0,
            "{name}: ${documented} documented, {cents} cents told"
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of a page for people")]
fn units(count: u64) -> f64 {
    count as f64
}
