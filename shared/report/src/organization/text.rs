//! The organization's report as text and as a mail.

use std::cmp::Reverse;
use std::fmt::Write as _;

use maud::html;
use model::fault::{one_line, shortened};
use model::foreign_text::{quoted_unless_word, without_links};
use model::known_sum::KnownSum;
use model::money::Amount;

use super::{AccountRow, OrganizationReport, TeamBudget, render_organization_html};
use crate::Mail;
use crate::html::monthly;
use crate::mail::{MailRow, mail_page, table};

/// Accounts and teams that are named.
const NAMED_MAX: usize = 5;

/// `research (111122223333)`: the name is the account's own word.
pub(super) fn account_name(row: &AccountRow) -> String {
    let name = row.name.as_ref().map(|name| quoted_unless_word(&shortened(name, 50)));
    name.map_or_else(|| row.account.to_string(), |name| format!("{name} ({})", row.account))
}

/// The time of the newest figures, in words.
pub(super) fn heard(row: &AccountRow) -> String {
    let moment = |at: jiff::Timestamp| at.strftime("%Y-%m-%d %H:%M UTC").to_string();
    let since = row.known_since.map(|since| format!(", and known since {}", moment(since))).unwrap_or_default();
    match (row.as_of, row.heard_at) {
        (Some(at), _) if row.is_silent => format!("not heard of since {}{since}", moment(at)),
        (Some(at), _) => format!("as of {}{since}", moment(at)),
        (None, Some(at)) if row.is_silent => format!("no figures of this month; not heard of since {}", moment(at)),
        (None, Some(at)) => format!("no figures of this month yet; heard of at {}", moment(at)),
        (None, None) => "no figures of this month or the one before".to_owned(),
    }
}

impl OrganizationReport {
    /// `$36.00 spent on GPUs in 2026-11 in 3 accounts`, for the subject of a message and the first line of a digest.
    #[must_use]
    pub fn title(&self) -> String {
        let (count, spent, month) = (self.accounts.len(), self.sums.spent, &self.month);
        let accounts = if count == 1 { "account" } else { "accounts" };
        if spent.known().is_some() {
            format!("{spent} spent on GPUs in {month} in {count} {accounts}")
        } else {
            format!("what was spent on GPUs in {month} in {count} {accounts} is unknown")
        }
    }

    /// The dearest accounts or teams by what Curfew saved, with their names.
    fn savers(&self) -> Vec<(String, KnownSum<Amount>)> {
        let accounts = self.accounts.iter().map(|row| (account_name(row), row.sums.saved));
        let mut savers: Vec<(String, KnownSum<Amount>)> =
            accounts.filter(|(_, saved)| saved.known().is_some_and(Amount::is_a_cent)).collect();
        savers.sort_by_key(|(_, saved)| Reverse(*saved));
        savers
    }
}

/// Money first; then accounts, teams, who saved, and who is silent.
#[must_use]
pub fn organization_digest(report: &OrganizationReport) -> String {
    let sums = &report.sums;
    let mut text = String::new();
    let title = report.title();
    let mut letters = title.chars();
    text.extend(letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters));
    if !report.is_over {
        let _ = write!(text, "; {} expected by its end", sums.forecast);
    }
    let until = if report.is_over { "" } else { " by the same day" };
    let _ = write!(text, ".\nThe month before{until}: {}.", sums.previous_month);
    if !report.is_over {
        let _ = write!(text, "\nThe last 7 days: {}; the 7 days before: {}.", sums.last_week, sums.previous_week);
        let _ = write!(text, "\nWaste that still runs: {} a month.", sums.waste.describe_shortly(monthly));
    }
    let _ = write!(text, "\nCurfew saved {}.", sums.saved);
    let accounts = report.accounts.iter().map(|row| (account_name(row), row.sums.spent));
    write_rows(&mut text, "Accounts", accounts);
    let teams = report.teams.iter().map(|row| (one_line(&row.team, 60), row.sums.spent));
    write_rows(&mut text, "Teams across accounts", teams);
    write_shared_budgets(&mut text, report);
    write_rows(&mut text, "Saved most", report.savers().into_iter());
    for row in report.silent_accounts().take(NAMED_MAX) {
        let _ = write!(text, "\n{}: {}.", account_name(row), heard(row));
    }
    write_more(&mut text, "accounts are silent", report.silent_accounts().count());
    for gap in report.gaps.iter().take(NAMED_MAX) {
        let _ = write!(text, "\nNot known: {}", one_line(gap, 300));
    }
    write_more(&mut text, "gaps, which the page lists", report.gaps.len());
    text.push('\n');
    without_links(&text)
}

/// The budgets that accounts share, those that are nearest to their end first.
fn write_shared_budgets(text: &mut String, report: &OrganizationReport) {
    let shared = report.teams.iter().filter_map(|row| Some((&row.team, row.shared_budget.as_ref()?)));
    let percent = |budget: &TeamBudget| budget.spent.known().and_then(|spent| spent.percent_of(budget.budget_usd));
    let mut shared: Vec<(&String, &TeamBudget)> = shared.collect();
    shared.sort_by_key(|(_, budget)| Reverse(percent(budget)));
    if !shared.is_empty() {
        text.push_str("\nBudgets that accounts share:");
    }
    for (team, budget) in shared.iter().take(NAMED_MAX) {
        let (spent, limit, accounts) = (budget.spent, budget.budget_usd, budget.accounts);
        let _ = write!(text, "\n  {spent:>12}  {} in {accounts} accounts, of {limit}", one_line(team, 60));
    }
    if let Some(more) = shared.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        let _ = write!(text, "\n  and {more} more");
    }
}

fn write_rows(text: &mut String, heading: &str, rows: impl ExactSizeIterator<Item = (String, KnownSum<Amount>)>) {
    let count = rows.len();
    if count == 0 {
        return;
    }
    let _ = write!(text, "\n{heading}:");
    for (name, amount) in rows.take(NAMED_MAX) {
        let _ = write!(text, "\n  {amount:>12}  {name}");
    }
    if let Some(more) = count.checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        let _ = write!(text, "\n  and {more} more");
    }
}

fn write_more(text: &mut String, what: &str, count: usize) {
    if let Some(more) = count.checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        let _ = write!(text, "\n{more} more {what}.");
    }
}

/// The mail of the report.
#[must_use]
pub fn organization_mail(report: &OrganizationReport) -> Mail {
    let sums = &report.sums;
    let mut rows = vec![MailRow::new("Spent", sums.spent)];
    rows.extend(sums.budget.map(|budget| MailRow::new("Budgets", budget)));
    rows.push(MailRow::new("The month before", sums.previous_month));
    if !report.is_over {
        rows.push(MailRow::new("Expected by the end of the month", sums.forecast));
        rows.push(MailRow::new("The last 7 days", sums.last_week));
        rows.push(MailRow::new("Waste that still runs, a month", sums.waste.describe_shortly(monthly)));
    }
    rows.push(MailRow::new("Saved by Curfew", sums.saved));
    let named = |(name, amount): (String, KnownSum<Amount>)| MailRow::new(name, amount);
    let accounts = report.accounts.iter().map(|row| (account_name(row), row.sums.spent));
    let accounts: Vec<MailRow> = accounts.take(NAMED_MAX).map(named).collect();
    let teams = report.teams.iter().map(|row| (one_line(&row.team, 60), row.sums.spent));
    let teams: Vec<MailRow> = teams.take(NAMED_MAX).map(named).collect();
    let savers: Vec<MailRow> = report.savers().into_iter().take(NAMED_MAX).map(named).collect();
    let silent = report.silent_accounts().take(NAMED_MAX);
    let silent: Vec<MailRow> = silent.map(|row| MailRow::new(account_name(row), heard(row))).collect();
    let content = html! {
        (table("", &rows)) (table("Accounts", &accounts)) (table("Teams across accounts", &teams)) (table("Saved most", &savers))
        (table("Accounts that publish nothing", &silent))
    };
    Mail {
        subject: format!("Curfew: {}", report.title()),
        text: format!("{}The whole report is attached.\n", organization_digest(report)),
        html: without_links(
            &mail_page(&format!("GPU spend of the organization in {}", report.month), content).into_string(),
        ),
        page: render_organization_html(report),
        page_name: format!("curfew-organization-{}.html", report.month),
    }
}
