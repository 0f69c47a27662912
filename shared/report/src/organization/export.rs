//! The organization's figures for other tools: CSV, FOCUS and Parquet, a file each for every account and month, and the tables of Athena that read
//! them.

use billing::ledger::{CalendarMonth, RunCost, TimeSpan};
use model::account::AccountId;
use model::known_sum::KnownSum;
use model::money::{Amount, Rate};

use super::parquet_file::{ColumnType, FigureValue, write_parquet};
use super::{AccountRow, Figures};
use crate::export::{Charge, ExportScope, micros, moment, write_line};

/// Label of the teams of which an account names only the sum.
const OTHER_TEAMS: &str = "(other teams)";

/// Folder, name of the file, and table of each kind.
const TEAMS: (&str, &str, &str) = ("teams", "teams.csv", "curfew_teams");
const FOCUS: (&str, &str, &str) = ("focus", "curfew-focus.csv", "curfew_organization_focus");
const PARQUET: (&str, &str, &str) = ("teams-parquet", "teams.parquet", "curfew_teams_parquet");

/// First month of the tables.
const FIRST_MONTH: &str = "2026-01";

/// A file in the hub's bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountExport {
    pub key: String,
    pub media_type: &'static str,
    pub content: Vec<u8>,
}

impl AccountExport {
    /// Statements that create the tables of Athena.
    #[must_use]
    pub fn tables(bucket: &str, accounts: &[AccountId]) -> Self {
        let content = athena_tables(bucket, accounts).into_bytes();
        Self { key: "exports/tables.sql".to_owned(), media_type: "text/plain; charset=utf-8", content }
    }
}

/// The files of an account and month; none if the account has no figures, because an earlier file then knows more.
#[must_use]
pub fn export_account(row: &AccountRow, month: &CalendarMonth) -> Vec<AccountExport> {
    let Some(as_of) = row.as_of else { return Vec::new() };
    let span = month.span();
    let known = TimeSpan { from: span.from, to: as_of.min(span.to).max(span.from) };
    let named = row.teams.iter().map(|team| (team.team.as_str(), &team.figures));
    let others = row.other_teams.as_ref().map(|others| (OTHER_TEAMS, &others.figures));
    let teams: Vec<(&str, &Figures)> = named.chain(others).collect();
    let scope =
        ExportScope { account: Some(row.account.as_str()), account_name: row.name.as_deref(), ..Default::default() };
    let focus = |(team, figures): &(&str, &Figures)| -> Vec<String> {
        charge(team, figures, known).focus_columns(scope, span).into_iter().map(|(_, value)| value).collect()
    };
    let values: Vec<Vec<FigureValue>> =
        teams.iter().map(|(team, figures)| team_values(row, month, team, figures).into()).collect();
    let csv = |values: &Vec<FigureValue>| values.iter().map(FigureValue::to_csv).collect();
    let file = |(folder, name, _): (&str, &str, &str), media_type, content| {
        let key = format!("exports/{folder}/account={}/month={month}/{name}", row.account);
        AccountExport { key, media_type, content }
    };
    vec![
        file(TEAMS, CSV, lines(&TEAM_COLUMNS.map(|(name, _)| name), &values, csv).into_bytes()),
        file(FOCUS, CSV, lines(&header_of_focus(), &teams, focus).into_bytes()),
        file(PARQUET, "application/vnd.apache.parquet", write_parquet(&TEAM_COLUMNS, &values)),
    ]
}

const CSV: &str = "text/csv; charset=utf-8";

impl FigureValue {
    /// The value as CSV has it: empty is unknown.
    fn to_csv(&self) -> String {
        match self {
            Self::Text(text) => text.clone().unwrap_or_default(),
            Self::Usd(amount) => amount.map(micros).unwrap_or_default(),
            Self::Flag(flag) => flag.to_string(),
            Self::Moment(at) => at.map(moment).unwrap_or_default(),
        }
    }
}

fn lines<T>(header: &[&str], rows: &[T], values: impl Fn(&T) -> Vec<String>) -> String {
    let mut text = String::new();
    write_line(&mut text, header.iter().copied());
    for row in rows {
        write_line(&mut text, values(row).iter().map(String::as_str));
    }
    text
}

/// Spend of a team in the month as one charge.
fn charge(team: &str, figures: &Figures, span: TimeSpan) -> Charge {
    let (amount, unpriced_seconds) = (figures.spent.known().unwrap_or_default(), figures.spent.unpriced());
    Charge::sum_of_team(team, span, RunCost { amount, uncertain: figures.uncertain_usd, unpriced_seconds })
}

/// Columns of the figures. None has the name of a partition, which Athena refuses.
const TEAM_COLUMNS: [(&str, ColumnType); 15] = [
    ("account_id", ColumnType::Text),
    ("account_name", ColumnType::Text),
    ("figures_month", ColumnType::Text),
    ("as_of", ColumnType::Moment),
    ("team", ColumnType::Text),
    ("spent_usd", ColumnType::Usd),
    ("spent_is_complete", ColumnType::Flag),
    ("uncertain_usd", ColumnType::Usd),
    ("budget_usd", ColumnType::Usd),
    ("forecast_usd", ColumnType::Usd),
    ("previous_month_usd", ColumnType::Usd),
    ("last_week_usd", ColumnType::Usd),
    ("previous_week_usd", ColumnType::Usd),
    ("saved_usd", ColumnType::Usd),
    ("waste_usd_per_hour", ColumnType::Usd),
];

/// The values of [`TEAM_COLUMNS`].
fn team_values(row: &AccountRow, month: &CalendarMonth, team: &str, figures: &Figures) -> [FigureValue; 15] {
    let text = |text: &str| FigureValue::Text(Some(text.to_owned()));
    let known = |sum: Option<KnownSum<Amount>>| FigureValue::Usd(sum.and_then(KnownSum::known));
    let rate = |rate: Rate| Amount::from_usd_micros(rate.usd_micros_per_hour());
    [
        text(row.account.as_str()),
        FigureValue::Text(row.name.clone()),
        text(&month.to_string()),
        FigureValue::Moment(row.as_of),
        text(team),
        known(Some(figures.spent)),
        FigureValue::Flag(figures.spent.is_complete()),
        FigureValue::Usd(Some(figures.uncertain_usd)),
        FigureValue::Usd(figures.budget_usd),
        known(figures.forecast_usd.map(|usd| KnownSum::new(usd, figures.spent.unpriced()))),
        known(figures.previous_month),
        known(figures.last_week),
        known(figures.previous_week),
        known(figures.saved),
        FigureValue::Usd(figures.waste.and_then(KnownSum::known).map(rate)),
    ]
}

fn header_of_focus() -> Vec<&'static str> {
    let columns = Charge::default().focus_columns(ExportScope::default(), TimeSpan::default());
    columns.into_iter().map(|(name, _)| name).collect()
}

/// The statements that create the tables in Athena. Partitions are computed from these accounts and the months, so nothing has to be loaded
/// (Amazon Athena user guide, "Partition projection"); a new account needs the statements again.
fn athena_tables(bucket: &str, accounts: &[AccountId]) -> String {
    let ids: Vec<&str> = accounts.iter().map(AccountId::as_str).collect();
    let table = |(folder, _, name): (&str, &str, &str), columns: &[(&str, String)], format: &str, properties: &str| {
        let columns: Vec<String> = columns.iter().map(|(column, kind)| format!("  {column} {kind}")).collect();
        format!(
            "CREATE EXTERNAL TABLE {name} (\n{}\n)\nPARTITIONED BY (account string, month string)\n{format}\n\
             LOCATION 's3://{bucket}/exports/{folder}/'\nTBLPROPERTIES (\n{properties}  \
             'projection.enabled' = 'true',\n  'projection.account.type' = 'enum',\n  'projection.account.values' = '{}',\n  \
             'projection.month.type' = 'date',\n  'projection.month.format' = 'yyyy-MM',\n  'projection.month.interval' = '1',\n  \
             'projection.month.interval.unit' = 'MONTHS',\n  'projection.month.range' = '{FIRST_MONTH},NOW',\n  \
             'storage.location.template' = 's3://{bucket}/exports/{folder}/account=${{account}}/month=${{month}}/'\n);\n",
            columns.join(",\n"),
            ids.join(",")
        )
    };
    let csv = |kind, header: &[&'static str]| {
        let columns: Vec<(&str, String)> = header.iter().map(|column| (*column, "string".to_owned())).collect();
        let format = "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde'";
        table(kind, &columns, format, "  'skip.header.line.count' = '1',\n")
    };
    let typed = TEAM_COLUMNS.map(|(column, kind)| (column, kind.athena_type()));
    let teams = csv(TEAMS, &TEAM_COLUMNS.map(|(column, _)| column));
    format!("{teams}\n{}\n{}", csv(FOCUS, &header_of_focus()), table(PARQUET, &typed, "STORED AS PARQUET", ""))
}

#[cfg(test)]
mod tests;
