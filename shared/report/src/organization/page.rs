//! The organization's report as one HTML page, in the style of an account's.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use model::fault::one_line;

use super::text::{account_name, heard};
use super::{AccountRow, FigureSums, OrganizationReport, OrganizationTeam};
use crate::ROWS_MAX;
use crate::html::{CSS, minute, monthly, omitted, plain};
use crate::sums::above_budget;

/// Characters of a sentence with texts from elsewhere in it.
const TEXT_MAX: usize = 300;

/// The page.
#[must_use]
pub fn render_organization_html(report: &OrganizationReport) -> String {
    let title = format!("GPU spend of the organization in {}", report.month);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(CSS)) }
            }
            body { main {
                header {
                    h1 { (title) }
                    p.muted { (report.accounts.len()) " accounts. As of " (minute(report.at)) ". Each account speaks for itself alone." }
                }
                (headline(report))
                (silent(report))
                (gaps(report))
                (accounts(report))
                (teams(report))
            } }
        }
    };
    page.into_string()
}

fn headline(report: &OrganizationReport) -> Markup {
    let sums = &report.sums;
    let until = if report.is_over { "" } else { " by the same day" };
    html! {
        dl.cards {
            div { dt { "Spent" } dd { (sums.spent) (uncertain(sums)) (budget(sums))
                small { (sums.previous_month) " in the month before" (until) } } }
            @if !report.is_over {
                div { dt { "Spent in the last 7 days" } dd { (sums.last_week) small { (sums.previous_week) " in the 7 days before" } } }
                div { dt { "Expected by the end of the month" } dd { (sums.forecast) } }
                div { dt { "Waste that still runs" } dd { (sums.waste.describe_shortly(monthly)) small { "a month if nothing changes" } } }
            }
            div { dt { "Saved by Curfew" } dd { (sums.saved) } }
        }
    }
}

fn uncertain(sums: &FigureSums) -> Markup {
    html! { @if sums.uncertain.is_a_cent() { small { "up to " (sums.uncertain) " more, where no end was seen" } } }
}

fn budget(sums: &FigureSums) -> Markup {
    let percent = sums.budget.and_then(|budget| Some((budget, sums.spent.known()?.percent_of(budget)?)));
    html! { @if let Some((budget, percent)) = percent { small { (percent) " % of " (budget) } } }
}

fn silent(report: &OrganizationReport) -> Markup {
    let silent: Vec<&AccountRow> = report.silent_accounts().collect();
    html! {
        @if !silent.is_empty() {
            section {
                h2 id="silent" { "Accounts that publish nothing" }
                p { "What they spent since is in no sum." }
                ul { @for row in silent.iter().take(ROWS_MAX) { li { (account_name(row)) ": " (heard(row)) } } }
                (omitted(silent.len()))
            }
        }
    }
}

fn gaps(report: &OrganizationReport) -> Markup {
    html! {
        @if !report.gaps.is_empty() {
            section {
                h2 id="gaps" { "What this report does not know" }
                ul { @for gap in report.gaps.iter().take(ROWS_MAX) { li { (one_line(gap, TEXT_MAX)) } } }
                (omitted(report.gaps.len()))
            }
        }
    }
}

fn accounts(report: &OrganizationReport) -> Markup {
    let row = |row: &AccountRow| {
        html! { tr {
            th scope="row" { (account_name(row)) span.muted { (heard(row)) } }
            (cells(&row.sums, report.is_over))
        } }
    };
    html! {
        section {
            h2 id="accounts" { "Accounts" }
            @if report.accounts.is_empty() { p { "No account has published figures." } } @else {
                div.scroll tabindex="0" role="region" aria-labelledby="accounts" { table {
                    caption { "Spend of the month by account, the dearest first." }
                    (head("Account"))
                    tbody { @for one in report.accounts.iter().take(ROWS_MAX) { (row(one)) } }
                } }
                (omitted(report.accounts.len()))
            }
        }
    }
}

fn teams(report: &OrganizationReport) -> Markup {
    let row = |row: &OrganizationTeam| {
        let accounts = row.accounts.len();
        html! { tr {
            th scope="row" { (plain(&row.team)) span.muted { (accounts) @if accounts == 1 { " account" } @else { " accounts" }
                @if let Some(shared) = &row.shared_budget { "; " (shared.accounts) " accounts share a budget of " (shared.budget_usd) ", and spent " (shared.spent) } } }
            (cells(&row.sums, report.is_over))
        } }
    };
    let others = report.accounts.iter().filter(|row| row.has_unnamed_teams()).count();
    html! {
        @if !report.teams.is_empty() {
            section {
                h2 id="teams" { "Teams across accounts" }
                div.scroll tabindex="0" role="region" aria-labelledby="teams" { table {
                    caption { "The same name is the same team in each account."
                        @if others > 0 { " " (others) " accounts have more teams than they name: those are in the sums of the accounts alone." } }
                    (head("Team"))
                    tbody { @for one in report.teams.iter().take(ROWS_MAX) { (row(one)) } }
                } }
                (omitted(report.teams.len()))
            }
        }
    }
}

fn head(first: &str) -> Markup {
    html! { thead { tr {
        th scope="col" { (first) } th.n scope="col" { "Spent" } th.n scope="col" { "Month before" } th.n scope="col" { "Last 7 days" }
        th.n scope="col" { "Budget" } th.n scope="col" { "Expected" } th.n scope="col" { "Saved" } th.n scope="col" { "Waste a month" }
    } } }
}

fn cells(sums: &FigureSums, is_over: bool) -> Markup {
    let is_above = sums.forecast.known().is_some_and(|sum| above_budget(sum, sums.budget).is_some());
    let shown = |text: String| if is_over { "-".to_owned() } else { text };
    html! {
        td.n data-label="Spent" { (sums.spent) }
        td.n data-label="Month before" { (sums.previous_month) }
        td.n data-label="Last 7 days" { (shown(sums.last_week.to_string())) }
        td.n data-label="Budget" { (sums.budget.map_or_else(|| "-".to_owned(), |budget| budget.to_string())) }
        td.n.alarm[is_above && !is_over] data-label="Expected" { (shown(sums.forecast.to_string()))
            @if is_above && !is_over { span.note { "above budget" } } }
        td.n data-label="Saved" { (sums.saved) }
        td.n data-label="Waste a month" { (shown(sums.waste.describe_shortly(monthly))) }
    }
}
