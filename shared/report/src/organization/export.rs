//! The organization's figures for other tools: CSV and FOCUS, a file each for every account and month, and the tables of Athena that read them.

use billing::ledger::{CalendarMonth, RunCost, TimeSpan};
use model::account::AccountId;
use model::known_sum::KnownSum;
use model::money::{Amount, Rate};

use super::{AccountRow, Figures};
use crate::export::{Charge, ExportScope, micros, moment, write_line};

/// Label of the teams of which an account names only the sum.
const OTHER_TEAMS: &str = "(other teams)";

/// Folder, name of the file, and table of each kind.
const TEAMS: (&str, &str, &str) = ("teams", "teams.csv", "curfew_teams");
const FOCUS: (&str, &str, &str) = ("focus", "curfew-focus.csv", "curfew_organization_focus");

/// First month of the tables.
const FIRST_MONTH: &str = "2026-01";

/// A file in the hub's bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountExport {
    pub key: String,
    pub text: String,
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
    let csv = |(team, figures): &(&str, &Figures)| team_values(row, month, team, figures).to_vec();
    let file = |(folder, name, _): (&str, &str, &str), text| {
        let key = format!("exports/{folder}/account={}/month={month}/{name}", row.account);
        AccountExport { key, text }
    };
    vec![file(TEAMS, lines(&TEAM_COLUMNS, &teams, csv)), file(FOCUS, lines(&header_of_focus(), &teams, focus))]
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
const TEAM_COLUMNS: [&str; 15] = [
    "account_id",
    "account_name",
    "figures_month",
    "as_of",
    "team",
    "spent_usd",
    "spent_is_complete",
    "uncertain_usd",
    "budget_usd",
    "forecast_usd",
    "previous_month_usd",
    "last_week_usd",
    "previous_week_usd",
    "saved_usd",
    "waste_usd_per_hour",
];

/// The values of [`TEAM_COLUMNS`]; empty is unknown, or without a budget.
fn team_values(row: &AccountRow, month: &CalendarMonth, team: &str, figures: &Figures) -> [String; 15] {
    let optional = |amount: Option<Amount>| amount.map(micros).unwrap_or_default();
    let known = |sum: Option<KnownSum<Amount>>| optional(sum.and_then(KnownSum::known));
    let rate = |rate: Rate| micros(Amount::from_usd_micros(rate.usd_micros_per_hour()));
    [
        row.account.to_string(),
        row.name.clone().unwrap_or_default(),
        month.to_string(),
        row.as_of.map(moment).unwrap_or_default(),
        team.to_owned(),
        known(Some(figures.spent)),
        (figures.spent.is_complete() && !row.is_silent).to_string(),
        micros(figures.uncertain_usd),
        optional(figures.budget_usd),
        optional(figures.forecast_usd),
        known(figures.previous_month),
        known(figures.last_week),
        known(figures.previous_week),
        known(figures.saved),
        figures.waste.and_then(KnownSum::known).map(rate).unwrap_or_default(),
    ]
}

fn header_of_focus() -> Vec<&'static str> {
    let columns = Charge::default().focus_columns(ExportScope::default(), TimeSpan::default());
    columns.into_iter().map(|(name, _)| name).collect()
}

/// The statements that create both tables in Athena. Partitions are computed from these accounts and the months, so nothing has to be loaded
/// (Amazon Athena user guide, "Partition projection"); a new account needs the statements again.
#[must_use]
pub fn athena_tables(bucket: &str, accounts: &[AccountId]) -> String {
    let ids: Vec<&str> = accounts.iter().map(AccountId::as_str).collect();
    let table = |(folder, _, name): (&str, &str, &str), header: &[&str]| {
        let columns: Vec<String> = header.iter().map(|column| format!("  {column} string")).collect();
        format!(
            "CREATE EXTERNAL TABLE {name} (\n{}\n)\nPARTITIONED BY (account string, month string)\n\
             ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde'\n\
             LOCATION 's3://{bucket}/exports/{folder}/'\nTBLPROPERTIES (\n  'skip.header.line.count' = '1',\n  \
             'projection.enabled' = 'true',\n  'projection.account.type' = 'enum',\n  'projection.account.values' = '{}',\n  \
             'projection.month.type' = 'date',\n  'projection.month.format' = 'yyyy-MM',\n  'projection.month.interval' = '1',\n  \
             'projection.month.interval.unit' = 'MONTHS',\n  'projection.month.range' = '{FIRST_MONTH},NOW',\n  \
             'storage.location.template' = 's3://{bucket}/exports/{folder}/account=${{account}}/month=${{month}}/'\n);\n",
            columns.join(",\n"),
            ids.join(",")
        )
    };
    format!("{}\n{}", table(TEAMS, &TEAM_COLUMNS), table(FOCUS, &header_of_focus()))
}

#[cfg(test)]
mod tests;
