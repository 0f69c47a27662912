use std::collections::BTreeMap;

use jiff::tz::TimeZone;

use super::*;
use crate::organization::parquet_file::tests::read_parquet;
use crate::organization::{AccountFigures, OrganizationReport, OtherTeams, PublishedMonth, TeamFigures};

fn month() -> CalendarMonth {
    CalendarMonth::read("2026-11", &TimeZone::UTC).unwrap()
}

fn text(file: &AccountExport) -> &str {
    str::from_utf8(&file.content).unwrap()
}

fn row() -> AccountRow {
    let figures = |usd: f64, unknown| Figures {
        spent: KnownSum::new(Amount::from_usd(usd), unknown),
        budget_usd: Some(Amount::from_usd(100.0)),
        ..Figures::default()
    };
    let teams = [("vision", figures(12.5, 0)), ("=1+1", figures(0.0, 3_600))];
    let published = AccountFigures {
        account_name: Some("research".to_owned()),
        month: "2026-11".to_owned(),
        as_of: "2026-11-20T12:00:00Z".parse().unwrap(),
        known_since: None,
        is_final: false,
        mode: None,
        budget_usd: None,
        forecast_usd: None,
        teams: teams.map(|(team, figures)| TeamFigures { team: team.to_owned(), figures }).into(),
        other_teams: Some(OtherTeams { teams: 3, figures: figures(1.0, 0) }),
    };
    let account = AccountId::parse("111122223333").unwrap();
    let published =
        PublishedMonth { account, beat: Some(published), daily: None, heard_before: None, problems: Vec::new() };
    let now = "2026-11-20T12:00:00Z".parse().unwrap();
    OrganizationReport::new(&month(), now, vec![published], [], &BTreeMap::new(), Vec::new()).accounts.remove(0)
}

#[test]
fn an_account_and_month_is_a_partition() {
    let [teams, focus, _] = export_account(&row(), &month()).try_into().unwrap();
    assert_eq!(teams.key, "exports/teams/account=111122223333/month=2026-11/teams.csv");
    assert_eq!(focus.key, "exports/focus/account=111122223333/month=2026-11/curfew-focus.csv");
    let lines: Vec<&str> = text(&teams).lines().collect();
    assert_eq!(
        lines[1],
        r#""111122223333","research","2026-11","2026-11-20T12:00:00Z","vision","12.500000","true","0.000000","100.000000",,,,,,"#
    );
    // Unknown is empty, and a name is no formula.
    assert!(lines[2].contains(r#""'=1+1",,"false","0.000000""#), "{}", lines[2]);
    assert!(lines[3].contains(r#""(other teams)","1.000000","true""#), "{}", lines[3]);
    assert_eq!(lines.len(), 4);
    let focus: Vec<&str> = text(&focus).lines().collect();
    assert!(
        focus[1].starts_with(r#""12.500000",,,"USD","2026-11-01T00:00:00Z","2026-12-01T00:00:00Z","Usage""#),
        "{}",
        focus[1]
    );
    assert!(focus[1].contains(r#""111122223333","research","all GPU resources of the team","vision""#), "{}", focus[1]);
    assert!(focus[2].starts_with(",,,"), "{}", focus[2]);
}

#[test]
fn an_account_without_figures_keeps_its_files() {
    assert_eq!(export_account(&AccountRow { as_of: None, ..row() }, &month()), []);
}

/// A table of the statements: its columns with their types, and what comes after them.
fn table<'s>(statements: &'s str, name: &str) -> (Vec<(&'s str, &'s str)>, &'s str) {
    let (_, table) = statements.split_once(&format!("CREATE EXTERNAL TABLE {name} (\n")).unwrap();
    let (columns, properties) = table.split_once("\n)\nPARTITIONED BY (account string, month string)\n").unwrap();
    let columns = columns.lines().map(|line| line.trim().trim_end_matches(',').split_once(' ').unwrap());
    (columns.collect(), properties.split_once(";\n").unwrap().0)
}

fn property<'s>(properties: &'s str, name: &str) -> &'s str {
    let (_, rest) = properties.split_once(&format!("'{name}' = '")).unwrap();
    rest.split('\'').next().unwrap()
}

/// Reading of Athena by the statements: the columns by their places or names, and the folder of a partition.
#[test]
fn the_tables_read_the_files_that_are_written() {
    let accounts = ["111122223333", "222233334444"].map(|id| AccountId::parse(id).unwrap());
    let statements = athena_tables("curfew-hub", &accounts);
    let files = export_account(&row(), &month());
    for ((_, _, name), file) in [TEAMS, FOCUS, PARQUET].into_iter().zip(&files) {
        let (columns, properties) = table(&statements, name);
        // A partition may not be called as a column is.
        assert!(!columns.iter().any(|(name, _)| ["account", "month"].contains(&name.to_lowercase().as_str())));
        assert_eq!(property(properties, "projection.account.values"), "111122223333,222233334444");
        let folder = property(properties, "storage.location.template");
        let folder = folder.replace("${account}", "111122223333").replace("${month}", "2026-11");
        assert_eq!(format!("s3://curfew-hub/{}", file.key).rsplit_once('/').unwrap().0, folder.trim_end_matches('/'));
        let (_, location) = properties.split_once("LOCATION '").unwrap();
        assert!(folder.starts_with(location.split('\'').next().unwrap()));
    }
    for ((_, _, name), file) in [TEAMS, FOCUS].into_iter().zip(&files) {
        let (columns, properties) = table(&statements, name);
        let lines = text(file);
        let header = lines.lines().next().unwrap().split(',').map(|name| (name.trim_matches('"'), "string"));
        assert_eq!(columns, header.collect::<Vec<_>>());
        assert_eq!(property(properties, "skip.header.line.count"), "1");
        // Every line has a cell for each column.
        let cells =
            |line: &str| line.split('"').step_by(2).map(|between| between.matches(',').count()).sum::<usize>() + 1;
        assert!(lines.lines().all(|line| cells(line) == columns.len()));
    }
    assert_eq!(statements.matches("CREATE EXTERNAL TABLE").count(), 3);
}

#[test]
fn parquet_has_the_figures_of_the_csv_with_their_types() {
    let statements = athena_tables("curfew-hub", &[]);
    let (columns, properties) = table(&statements, "curfew_teams_parquet");
    assert!(properties.starts_with("STORED AS PARQUET\nLOCATION"), "{properties}");
    let [csv, _, file] = export_account(&row(), &month()).try_into().unwrap();
    assert_eq!(file.key, "exports/teams-parquet/account=111122223333/month=2026-11/teams.parquet");
    let (schema, rows) = read_parquet(&file.content);
    assert_eq!(columns, schema.iter().map(|(name, kind)| (name.as_str(), kind.as_str())).collect::<Vec<_>>());
    // Every cell of the CSV, but that a text stays as it is.
    let cells = |line: &str| line.split(',').map(|cell| cell.trim_matches('"').replace("'=", "=")).collect();
    assert_eq!(rows, text(&csv).lines().skip(1).map(cells).collect::<Vec<Vec<String>>>());
    assert_eq!((rows[0][5].as_str(), rows[1][5].as_str(), rows[1][4].as_str()), ("12.500000", "", "=1+1"));
}
