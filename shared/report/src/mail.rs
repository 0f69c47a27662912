//! The report as a mail: the digest as text and as HTML for a mail program, and the page beside it.
//!
//! Mail programs drop style sheets and inline SVG, so the HTML has neither: short tables, each with its own style, that fit a phone. The
//! whole page is attached, and opens in a browser.

use maud::{DOCTYPE, Markup, html};
use model::config::Config;
use model::fault::{one_line, shortened};
use model::foreign_text::{quoted_unless_word, without_links};
use model::id::TeamName;
use model::money::{Amount, Rate};
use model::notification_log::NO_TEAM as UNTAGGED;
use recommend::usage::UsageFinding;

use crate::{MonthReport, NO_TEAM, NextMonth, WasteRow, digest, render_html};

/// Rows of a table. The page has the others.
const NAMED_MAX: usize = 5;

const BODY: &str = "margin:0;padding:16px;font:16px/1.5 sans-serif;color:#1a1d21;background:#ffffff";
const TABLE: &str = "border-collapse:collapse;width:100%;max-width:560px;margin:0 0 16px";
const NAME: &str =
    "text-align:left;font-weight:400;padding:4px 12px 4px 0;border-bottom:1px solid #d5d9de;overflow-wrap:anywhere";
const FIGURE: &str =
    "text-align:right;padding:4px 0;border-bottom:1px solid #d5d9de;white-space:nowrap;font-weight:600";

/// One mail to one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    pub subject: String,
    pub text: String,
    pub html: String,
    /// The page, attached.
    pub page: String,
    pub page_name: String,
}

impl MonthReport {
    /// Returns the recipients and their parts of the account's report: each team in it gets its own part, and the addresses in `[report]`
    /// get all of it.
    #[must_use]
    pub fn recipients(&self, config: &Config) -> Vec<(String, Self)> {
        let whole = config.report.email.iter().map(|address| (address.clone(), self.clone()));
        let label = |team: &TeamName| if team.as_str() == UNTAGGED { NO_TEAM.to_owned() } else { team.to_string() };
        let parts = config.teams.iter().filter_map(|(team, settings)| {
            let (address, label) = (settings.email.clone()?, label(team));
            self.teams.iter().any(|row| row.team == label).then(|| (address, self.for_team(&label)))
        });
        whole.chain(parts).collect()
    }
}

/// The mail of a report, of the account or of a team.
#[must_use]
pub fn mail(report: &MonthReport) -> Mail {
    let whose = report
        .team
        .as_ref()
        .map(|team| format!(" by {}", quoted_unless_word(&shortened(team, 60))))
        .unwrap_or_default();
    Mail {
        subject: format!("Curfew: {} spent{whose} on GPUs in {}", report.headline.spent, report.month),
        text: format!("{}The whole report is attached.\n", digest(report)),
        // Mail programs make links of text in HTML, too.
        html: without_links(&body(report).into_string()),
        page: render_html(report),
        page_name: format!("curfew-report-{}.html", report.month),
    }
}

fn body(report: &MonthReport) -> Markup {
    let whose = report
        .team
        .as_ref()
        .map(|team| format!(" of {}", quoted_unless_word(&shortened(team, 60))))
        .unwrap_or_default();
    html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta name="viewport" content="width=device-width, initial-scale=1"; }
            body style=(BODY) {
                h1 style="font-size:20px;margin:0 0 12px" { "GPU spend" (whose) " in " (report.month) }
                (table("", &figures(report)))
                (table("Waste that still runs, a month", &waste(report)))
                @if let Some(next) = &report.next_month {
                    (table("What could cost less next month, a month", &next_month(next)))
                    p style="margin:0 0 8px" { (next.basis()) }
                }
                (table("Largest savings", &savings(report)))
                @if report.team.is_none() { (table("Teams", &teams(report))) }
                @for gap in report.gaps.iter().take(NAMED_MAX) { p style="margin:0 0 8px" { "Not known: " (one_line(gap, 300)) } }
                p style="margin:0" { "The whole report is attached: open it in a browser." }
            }
        }
    }
}

/// Names from tags are escaped by `maud`; they come on one line.
fn table(heading: &str, rows: &[(String, String)]) -> Markup {
    html! {
        @if !rows.is_empty() {
            @if !heading.is_empty() { h2 style="font-size:16px;margin:0 0 4px" { (heading) } }
            table role="presentation" style=(TABLE) { tbody {
                @for (name, figure) in rows { tr { td style=(NAME) { (name) } td style=(FIGURE) { (figure) } } }
            } }
        }
    }
}

fn monthly(rate: Rate) -> String {
    format!("${}", model::money::usd(rate.usd_cents_per_month()))
}

fn figures(report: &MonthReport) -> Vec<(String, String)> {
    let money = &report.headline;
    let row = |name: &str, figure: String| Some((name.to_owned(), figure));
    let rows = [
        row("Spent", money.spent.to_string()),
        money.budget.and_then(|budget| row("Budget", budget.to_string())),
        money.forecast.and_then(|forecast| row("Expected by the end of the month", forecast.to_string())),
        row("Saved by Curfew", money.saved.to_string()),
        row("Saved by Spot", money.spot_saved.to_string()).filter(|_| money.spot_saved.is_a_cent()),
        row("Energy", money.footprint.energy.to_string()).filter(|_| money.footprint.is_known()),
        row("Operational carbon", money.footprint.operational.to_string()).filter(|_| money.footprint.is_known()),
        report.own.as_ref().and_then(|own| row("Curfew itself, about", own.total().to_string())),
    ];
    rows.into_iter().flatten().collect()
}

fn waste(report: &MonthReport) -> Vec<(String, String)> {
    let mut waste: Vec<&WasteRow> = report.waste.iter().filter(|row| row.kind.is_waste() && !report.is_over).collect();
    waste.sort_by_key(|row| std::cmp::Reverse(row.usd_per_hour));
    let row = |row: &WasteRow| {
        let name =
            format!("{} {}, {}", one_line(row.resource.as_str(), 60), one_line(&row.what, 40), row.kind.describe());
        (name, row.usd_per_hour.map_or_else(|| "unknown".to_owned(), monthly))
    };
    waste.into_iter().take(NAMED_MAX).map(row).collect()
}

fn next_month(next: &NextMonth) -> Vec<(String, String)> {
    let row = |finding: &UsageFinding| {
        let name = format!(
            "{} {}: {}; {}",
            one_line(&finding.resource, 60),
            one_line(&finding.what, 40),
            one_line(&finding.evidence, 300),
            one_line(&finding.action, 300)
        );
        (name, monthly(finding.saves))
    };
    next.shown().map(row).collect()
}

fn savings(report: &MonthReport) -> Vec<(String, String)> {
    let mut rows: Vec<_> = report.savings.iter().filter_map(|row| Some((row.saved?, row))).collect();
    rows.sort_by_key(|(saved, _)| std::cmp::Reverse(*saved));
    let name = |(saved, row): (Amount, &crate::SavingRow)| {
        (
            format!(
                "{} {}, {}: {}",
                one_line(row.resource.as_str(), 60),
                one_line(&row.what, 40),
                row.action,
                one_line(&row.rule, 40)
            ),
            saved.to_string(),
        )
    };
    rows.into_iter().take(NAMED_MAX).map(name).collect()
}

fn teams(report: &MonthReport) -> Vec<(String, String)> {
    report.teams.iter().take(NAMED_MAX).map(|row| (one_line(&row.team, 60), row.spent.to_string())).collect()
}
