//! The figures of the page that a reader looks for first: the headline, and the teams.

use maud::{Markup, html};
use model::money::Amount;

use super::plain;
use super::sections::{length, monthly, omitted, optional};
use crate::sums::NO_AUDIT_RECORDS;
use crate::{MonthReport, ROWS_MAX, TeamRow};

fn notes(omissions: &[String]) -> Markup {
    html! { @for note in omissions { small { (note) } } }
}

pub(super) fn headline(report: &MonthReport) -> Markup {
    let money = &report.headline;
    html! {
        dl.cards {
            div { dt { "Spent" } (spent(report)) }
            @if let Some(week) = money.past.last_week {
                div { dt { "Spent in the last 7 days" } dd { (week)
                    @if let Some(previous) = money.past.previous_week { small { (previous) " in the 7 days before" } } } }
            }
            @if let Some(forecast) = money.forecast { div { dt { "Expected by the end of the month" } dd {
                (money.at_least()) (forecast) (above(money.above_budget(forecast))) } } }
            div { dt { "Saved by Curfew" }
                @if report.has_audit_records { dd { (money.saved) (notes(&money.saved_omissions())) } }
                @else { dd { "unknown" small { (NO_AUDIT_RECORDS) } } } }
            @if !report.is_over { div { dt { "Waste that still runs" } dd { (money.waste.describe_shortly(monthly))
                small { "a month if nothing changes: what it costs from now on, and no part of the sum spent" }
                (notes(&unpriced_waste(report))) } } }
            @if money.spot_saved.is_a_cent() { div { dt { "Saved by Spot" } dd { (money.describe_spot_saved()) } } }
        }
    }
}

fn spent(report: &MonthReport) -> Markup {
    let money = &report.headline;
    if !report.has_ledger {
        return html! { dd { "unknown" small { "No ledger of this month could be read." } } };
    }
    let budget = money.percent_of_budget();
    let until = if report.is_over { "" } else { " by the same day" };
    html! { dd { (money.spent) (notes(&money.spent_omissions()))
    @if let Some((budget, percent)) = budget { small { (percent) " % of " (budget) } }
    (above(money.spent_above_budget()))
    @if let Some(shared) = &money.shared { small { (shared.describe()) } }
    @if let Some(spend) = money.past.previous_month { small { (spend) " in the month before" (until) } } } }
}

fn unpriced_waste(report: &MonthReport) -> Vec<String> {
    let unpriced = report.waste.iter().filter(|row| row.kind.is_waste() && row.usd_per_hour.is_none()).count();
    (unpriced > 0).then(|| format!("not counted: {unpriced} without a known price")).into_iter().collect()
}

fn above(above: Option<Amount>) -> Markup {
    html! { @if let Some(above) = above { small.alarm { (above) " above the budget" } } }
}

pub(super) fn teams(report: &MonthReport) -> Markup {
    html! {
        section {
            h2 id="teams" { "Teams" }
            div.scroll tabindex="0" role="region" aria-labelledby="teams" { table {
                caption { "Spend of the month by team. Waste is what it costs a month if nothing changes. Idle is the time for which instances were announced as idle, with its cost." }
                thead { tr {
                    th scope="col" { "Team" } th.n scope="col" { "Spent" } th.n scope="col" { "Month before" } th.n scope="col" { "Budget" }
                    th.n scope="col" { "Expected" } th.n scope="col" { "Saved" } th.n scope="col" { "Waste a month" }
                    th.n scope="col" { "Idle" }
                } }
                tbody { @for row in report.teams.iter().take(ROWS_MAX) { (team_row(report, row)) } }
            } }
            (omitted(report.teams.len()))
        }
    }
}

fn team_row(report: &MonthReport, row: &TeamRow) -> Markup {
    let idle =
        if row.idle_seconds > 0 { format!("{} ({})", length(row.idle_seconds), row.idle_cost) } else { "-".to_owned() };
    let is_above = row.forecast_above_budget().is_some();
    html! { tr {
        th scope="row" { (plain(&row.team)) }
        td.n data-label="Spent" { (row.spent)
            @for omission in report.team_omissions(row) { span.muted.note { (omission) } } }
        td.n data-label="Month before" { (optional(row.past.previous_month)) }
        td.n data-label="Budget" { (optional(row.budget))
            @if let Some(shared) = &row.shared { span.muted.note { (shared.describe()) } } }
        td.n.alarm[is_above] data-label="Expected" { (optional(row.forecast)) @if is_above { span.note { "above budget" } } }
        td.n data-label="Saved" { (row.saved) @for omission in crate::sums::unpriced_savings(row.unpriced_savings) { span.muted.note { (omission) } } }
        td.n data-label="Waste a month" { (row.waste.describe_shortly(monthly)) } td.n data-label="Idle" { (idle) }
    } }
}
