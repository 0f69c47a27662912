//! The result of a scan of many accounts, and its progress, for people.

use model::fault::shortened;
use model::id::TeamName;
use model::known_sum::KnownSum;
use model::money::{self, Rate, USD_MICROS_PER_CENT};
use model::notification_log::NO_TEAM_LABEL;
use operator::organization::{AccountId, AccountSummary, AccountTotals, SummaryGap, by_cost};

use super::{OrganizationResult, RefusedAccount};
use crate::screen::{self, ColumnAlignment, Table, plain};

/// Limit of a name in a table, in characters.
const CELL_CHARACTERS_MAX: usize = 32;
/// Accounts that a sentence names.
const ACCOUNTS_NAMED_MAX: usize = 10;
/// Columns that a narrow terminal leaves out.
const SPARED: usize = 3;

/// `111122223333 research: 12 GPU instances, $12.07/h`.
pub(super) fn account_line(account: &AccountSummary) -> String {
    let totals = account.totals();
    let instances = screen::counted(totals.instances, "GPU instance");
    let in_part = if account.gaps.is_empty() { "" } else { ", seen in part" };
    format!("{}: {instances}, {}{in_part}", titled(&account.account, account.name.as_deref()), totals.running)
}

pub(super) fn refused_line(refused: &RefusedAccount) -> String {
    format!("{}: {}", titled(&refused.account, refused.name.as_deref()), refused.reason)
}

/// Prints the first gap of each account that was seen in part.
pub(super) fn gaps(found: &OrganizationResult) {
    for account in &found.accounts {
        let Some(SummaryGap { region, call, error }) = account.gaps.first() else { continue };
        let more = account.gaps.len().saturating_sub(1).saturating_add(account.more_gaps);
        let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
        screen::warn(format_args!("{}: {call} failed in {region}: {error}{more}", account.account));
    }
}

/// Prints the table, the sum, and last what was not read.
pub(super) fn result(found: &OrganizationResult) {
    let totals = AccountTotals::from_accounts(&found.accounts);
    let table = rows(found);
    if !table.is_empty() {
        table.print();
        screen::print_line("");
    }
    let accounts = screen::counted(found.accounts.len(), "account");
    if found.accounts.is_empty() {
        screen::print_line("No account could be read.");
    } else if totals == AccountTotals::default() {
        let but = if found.saw_everything() { "" } else { ", but not everything could be seen" };
        screen::print_line(format_args!("Nothing runs, and nothing was found, in {accounts}{but}."));
    } else {
        let per_hour = |sum: KnownSum<Rate>| sum.describe(|rate| rate.to_string());
        let (instances, gpus) = (screen::counted(totals.instances, "GPU instance"), totals.gpus);
        screen::print_line(format_args!("{instances} with {gpus} GPUs in {accounts}: {}.", per_hour(totals.running)));
        let saved = totals.waste.describe(|rate| money::format_rate(Some(rate)));
        let findings = screen::counted(totals.findings, "finding");
        screen::print_line(format_args!("{findings}; an end of what is idle or unused would save {saved}."));
    }
    unread(found);
}

fn unread(found: &OrganizationResult) {
    if !found.left_out.is_empty() {
        let ids = listed(found.left_out.iter().map(|one| &one.account));
        screen::print_line(format_args!("Left out, as they are not active: {ids}."));
    }
    if !found.unanswered.is_empty() {
        screen::print_line(format_args!("interrupted: not read are {}", listed(found.unanswered.iter())));
    }
    if !found.refused.is_empty() {
        screen::print_line(format_args!("\nCould not be read: {}", screen::counted(found.refused.len(), "account")));
        found.refused.iter().for_each(|one| screen::print_line(format_args!("  {}", plain(&refused_line(one)))));
    }
}

fn rows(found: &OrganizationResult) -> Table<9> {
    let table = Table::new([
        ("USD/h", ColumnAlignment::Right),
        ("Waste USD/h", ColumnAlignment::Right),
        ("Account", ColumnAlignment::Whole),
        ("Name", ColumnAlignment::Left),
        ("Team", ColumnAlignment::Left),
        ("GPUs", ColumnAlignment::Right),
        ("Instances", ColumnAlignment::Right),
        ("Findings", ColumnAlignment::Right),
        ("Price unknown", ColumnAlignment::Right),
    ]);
    let mut table = table.sparing(SPARED);
    for (account, team) in by_cost(&found.accounts) {
        let label = team.team.as_ref().map_or(NO_TEAM_LABEL, TeamName::as_str);
        table.row(cells(account, label, team.totals));
    }
    for account in &found.accounts {
        if let Some(others) = account.other_teams {
            table.row(cells(account, &format!("({} other teams)", others.teams), others.totals));
        }
    }
    table
}

fn cells(account: &AccountSummary, team: &str, totals: AccountTotals) -> [String; 9] {
    let unpriced = totals.running.unpriced().saturating_add(totals.waste.unpriced());
    [
        usd(totals.running),
        usd(totals.waste),
        account.account.to_string(),
        cell(account.name.as_deref().unwrap_or_default()),
        cell(team),
        totals.gpus.to_string(),
        totals.instances.to_string(),
        totals.findings.to_string(),
        unpriced.to_string(),
    ]
}

/// USD of an hour, to the cent.
fn usd(sum: KnownSum<Rate>) -> String {
    let cents = |rate: Rate| rate.usd_micros_per_hour().saturating_add(USD_MICROS_PER_CENT / 2) / USD_MICROS_PER_CENT;
    sum.known().map_or_else(|| "unknown".to_owned(), |rate| money::usd(cents(rate)))
}

fn titled(account: &AccountId, name: Option<&str>) -> String {
    name.map_or_else(|| account.to_string(), |name| format!("{account} {}", cell(name)))
}

fn cell(text: &str) -> String {
    plain(&shortened(text, CELL_CHARACTERS_MAX))
}

fn listed<'a>(accounts: impl ExactSizeIterator<Item = &'a AccountId>) -> String {
    let more = accounts.len().saturating_sub(ACCOUNTS_NAMED_MAX);
    let named: Vec<&str> = accounts.take(ACCOUNTS_NAMED_MAX).map(AccountId::as_str).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}
