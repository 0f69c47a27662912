//! Every file of `data/`: its columns, its rows, and the source and the date of each. The crate that reads a file tests its figures.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and compares dates with today"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jiff::Timestamp;
use model::table::read_table;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data");

/// The names and the texts of all files.
fn files() -> Vec<(&'static str, &'static str)> {
    let paths = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
    let tables = paths.filter(|path| path.extension().is_some_and(|extension| extension == "csv"));
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let files: Vec<_> = tables.map(|path| (leak(name(&path)), leak(fs::read_to_string(path).unwrap()))).collect();
    assert!(!files.is_empty());
    files
}

/// A year, a month or a day, `YYYY`, `YYYY-MM` or `YYYY-MM-DD`, that has begun.
fn is_past(as_of: &str, today: &str) -> bool {
    let first_day = format!("{as_of}{}", "YYYY-01-01".get(as_of.len()..).unwrap_or_default());
    first_day.parse::<jiff::civil::Date>().is_ok_and(|day| day.to_string() == first_day) && *first_day <= *today
}

/// A page with an address, or a document with a name.
fn is_source(text: &str) -> bool {
    text.strip_prefix("https://").map_or_else(
        || text.len() >= 6 && text.contains(|letter: char| letter.is_alphabetic()) && !text.contains("://"),
        |page| page.contains('.') && !page.contains(' '),
    )
}

#[test]
fn every_row_has_a_source_and_a_date_that_is_not_in_the_future() {
    let today = Timestamp::now().strftime("%Y-%m-%d").to_string();
    let of_prices = fs::read_to_string(Path::new(FOLDER).join("price_sources.csv")).unwrap();
    let keys: BTreeSet<&str> = of_prices.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    for (file, text) in files() {
        let rows = read_table(file, text, |row| {
            // The tables of prices share their sources.
            if ["on_demand_prices.csv", "ebs_prices.csv"].contains(&file) {
                return row.value_by("source_key", |key| keys.contains(key).then_some(()));
            }
            row.value_by("source", |text| is_source(text).then_some(()))?;
            row.value_by("as_of", |text| is_past(text, &today).then_some(()))
        });
        assert!(rows.as_ref().is_ok_and(|rows| !rows.is_empty()), "{file}: {rows:?}");
    }
}

#[test]
fn no_row_stands_twice_and_no_value_has_blanks_around_it() {
    for (file, text) in files() {
        assert_eq!(text.lines().collect::<BTreeSet<_>>().len(), text.lines().count(), "{file}");
        assert!(text.ends_with('\n') && text.split([',', '\n']).all(|value| value.trim() == value), "{file}");
    }
}

#[test]
fn the_page_has_every_file_with_its_columns() {
    let page = fs::read_to_string(Path::new(FOLDER).join("README.md")).unwrap();
    for (file, text) in files() {
        let columns = text.lines().next().unwrap();
        let columns = columns.strip_suffix(",source,as_of").or_else(|| columns.strip_suffix(",source_key")).unwrap();
        let row = format!("| `{file}` | `{}` |", columns.replace(',', "`, `"));
        assert!(page.contains(&row), "data/README.md lacks this row:\n{row}");
    }
}

#[test]
fn dates_are_of_three_forms() {
    for (as_of, expect) in [
        ("2026", true),
        ("2026-11", true),
        ("2026-11-24", true),
        ("2026-11-25", false),
        ("2026-12", false),
        ("2027", false),
        ("26", false),
        ("2026-13", false),
        ("2026-1-1", false),
        ("November", false),
    ] {
        assert_eq!(is_past(as_of, "2026-11-24"), expect, "{as_of}");
    }
}
