use std::collections::BTreeMap;

use jiff::tz::TimeZone;

use super::*;
use crate::organization::{AccountFigures, OrganizationReport, OtherTeams, PublishedMonth, TeamFigures};

fn month() -> CalendarMonth {
    CalendarMonth::read("2026-11", &TimeZone::UTC).unwrap()
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
    let [teams, focus] = export_account(&row(), &month()).try_into().unwrap();
    assert_eq!(teams.key, "exports/teams/account=111122223333/month=2026-11/teams.csv");
    assert_eq!(focus.key, "exports/focus/account=111122223333/month=2026-11/curfew-focus.csv");
    let lines: Vec<&str> = teams.text.lines().collect();
    assert_eq!(
        lines[1],
        r#""111122223333","research","2026-11","2026-11-20T12:00:00Z","vision","12.500000","true","0.000000","100.000000",,,,,,"#
    );
    // Unknown is empty, and a name is no formula.
    assert!(lines[2].contains(r#""'=1+1",,"false","0.000000""#), "{}", lines[2]);
    assert!(lines[3].contains(r#""(other teams)","1.000000","true""#), "{}", lines[3]);
    assert_eq!(lines.len(), 4);
    let focus: Vec<&str> = focus.text.lines().collect();
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

/// Reading of Athena by the statements: the columns by their places, and the folder of a partition.
#[test]
fn the_tables_read_the_files_that_are_written() {
    let accounts = ["111122223333", "222233334444"].map(|id| AccountId::parse(id).unwrap());
    let statements = athena_tables("curfew-hub", &accounts);
    let tables: Vec<&str> = statements.split("\n\n").collect();
    for (table, file) in tables.iter().zip(export_account(&row(), &month())) {
        let (_, columns) = table.split_once(" (\n").unwrap();
        let (columns, properties) = columns.split_once("\n)\nPARTITIONED BY (account string, month string)").unwrap();
        let columns: Vec<&str> =
            columns.lines().map(|line| line.trim().trim_end_matches(" string,").trim_end_matches(" string")).collect();
        let header: Vec<&str> =
            file.text.lines().next().unwrap().split(',').map(|name| name.trim_matches('"')).collect();
        assert_eq!(columns, header);
        // A partition may not be called as a column is.
        assert!(!columns.iter().any(|name| ["account", "month"].contains(&name.to_lowercase().as_str())));
        let property = |name: &str| {
            let (_, rest) = properties.split_once(&format!("'{name}' = '")).unwrap();
            rest.split('\'').next().unwrap()
        };
        assert_eq!(property("projection.account.values"), "111122223333,222233334444");
        assert_eq!(property("skip.header.line.count"), "1");
        let folder =
            property("storage.location.template").replace("${account}", "111122223333").replace("${month}", "2026-11");
        assert_eq!(format!("s3://curfew-hub/{}", file.key).rsplit_once('/').unwrap().0, folder.trim_end_matches('/'));
        let (_, location) = properties.split_once("LOCATION '").unwrap();
        assert!(folder.starts_with(location.split('\'').next().unwrap()));
        // Every line has a cell for each column.
        let cells =
            |line: &str| line.split('"').step_by(2).map(|between| between.matches(',').count()).sum::<usize>() + 1;
        assert!(file.text.lines().all(|line| cells(line) == columns.len()));
    }
    assert_eq!(tables.len(), 2);
}
