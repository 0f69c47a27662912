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

use crate::sums::{NO_AUDIT_RECORDS, describe_late_ledger, in_parentheses};
use crate::{MonthReport, NO_TEAM, NextMonth, SavingRow, TeamRow, WasteRow, digest, render_html};

/// Rows of a table. The page has the others.
const NAMED_MAX: usize = 5;

const BODY: &str = "margin:0;padding:16px;font:16px/1.5 sans-serif;color:#1a1d21;background:#ffffff";
const TABLE: &str = "border-collapse:collapse;width:100%;max-width:560px;margin:0 0 16px";
const NAME: &str =
    "text-align:left;font-weight:400;padding:4px 12px 4px 0;border-bottom:1px solid #d5d9de;overflow-wrap:anywhere";
const FIGURE: &str =
    "text-align:right;padding:4px 0;border-bottom:1px solid #d5d9de;white-space:nowrap;font-weight:600";

/// A figure above its budget; the contrast on white is 6.5 to 1.
const ALARM: &str =
    "text-align:right;padding:4px 0;border-bottom:1px solid #d5d9de;white-space:nowrap;font-weight:600;color:#b3261e";

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
    Mail {
        subject: format!("Curfew: {}", report.title()),
        text: format!("{}The whole report is attached.\n", digest(report)),
        // Mail programs make links of text in HTML, too.
        html: without_links(&body(report).into_string()),
        page: render_html(report),
        page_name: format!("curfew-report-{}.html", report.month),
    }
}

/// A row of a table in a mail.
pub(crate) struct MailRow {
    name: String,
    figure: String,
    is_alarming: bool,
}

impl MailRow {
    pub(crate) fn new(name: impl Into<String>, figure: impl ToString) -> Self {
        Self { name: name.into(), figure: figure.to_string(), is_alarming: false }
    }

    fn alarming_if(self, is_alarming: bool) -> Self {
        Self { is_alarming, ..self }
    }
}

fn body(report: &MonthReport) -> Markup {
    let whose = report
        .team
        .as_ref()
        .map(|team| format!(" of {}", quoted_unless_word(&shortened(team, 60))))
        .unwrap_or_default();
    let place = report.describe_account().map(|account| format!(", account {account}")).unwrap_or_default();
    let content = html! {
        (table("", &figures(report)))
        @if let Some(since) = report.ledger_since { (sentence(&describe_late_ledger(since))) }
        @if !report.has_audit_records { (sentence(NO_AUDIT_RECORDS)) }
        (table("Waste that still runs: what each costs a month if nothing changes", &waste(report)))
        @if let Some(next) = &report.next_month {
            (table("What could cost less next month, a month", &next_month(next)))
            (sentence(&next.conclusion()))
            @if let Some(hours) = next.describe_gpu_hours() { (sentence(&hours)) }
        }
        (table("Largest savings", &savings(report)))
        @if report.team.is_none() { (table("Teams", &teams(report))) }
        @for gap in report.gaps.iter().take(NAMED_MAX) { (sentence(&format!("Not known: {}", one_line(gap, 300)))) }
        @if report.gaps.len() > NAMED_MAX {
            (sentence(&format!("Not known: {} more, which the page lists.", report.gaps.len() - NAMED_MAX)))
        }
    };
    mail_page(&format!("GPU spend{whose} in {}{place}", report.month), content)
}

/// A mail with that heading, to which the page is attached.
pub(crate) fn mail_page(heading: &str, content: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta name="viewport" content="width=device-width, initial-scale=1"; }
            body style=(BODY) {
                h1 style="font-size:20px;margin:0 0 12px" { (heading) }
                (content)
                p style="margin:0" { "The whole report is attached: open it in a browser." }
            }
        }
    }
}

fn sentence(text: &str) -> Markup {
    html! { p style="margin:0 0 8px" { (text) } }
}

/// Names from tags are escaped by `maud`; they come on one line.
pub(crate) fn table(heading: &str, rows: &[MailRow]) -> Markup {
    html! {
        @if !rows.is_empty() {
            @if !heading.is_empty() { h2 style="font-size:16px;margin:0 0 4px" { (heading) } }
            table role="presentation" style=(TABLE) { tbody {
                @for row in rows { tr {
                    td style=(NAME) { (row.name) }
                    td style=(if row.is_alarming { ALARM } else { FIGURE }) { (row.figure) }
                } }
            } }
        }
    }
}

fn monthly(rate: Rate) -> String {
    format!("${}", model::money::usd(rate.usd_cents_per_month()))
}

fn figures(report: &MonthReport) -> Vec<MailRow> {
    let money = &report.headline;
    let mut rows = vec![if report.has_ledger {
        let above = money.spent_above_budget();
        let name = format!("Spent{}", in_parentheses(&money.spent_omissions()));
        MailRow::new(name, money.spent).alarming_if(above.is_some())
    } else {
        MailRow::new("Spent: no ledger of the month could be read", "unknown")
    }];
    let shared = money.shared.as_ref().map(|shared| format!(": {}", shared.describe())).unwrap_or_default();
    rows.extend(money.budget.map(|budget| MailRow::new(format!("Budget{shared}"), budget)));
    rows.extend(money.forecast.map(|forecast| {
        let above = money.above_budget(forecast);
        let words = above.map(|above| format!(": {above} above the budget")).unwrap_or_default();
        let name = format!("Expected by the end of the month{words}");
        MailRow::new(name, format!("{}{forecast}", money.at_least())).alarming_if(above.is_some())
    }));
    let until = if report.is_over { "" } else { " by the same day" };
    rows.extend(money.past.previous_month.map(|spend| MailRow::new(format!("The month before{until}"), spend)));
    rows.extend(money.past.last_week.map(|spend| MailRow::new("The last 7 days", spend)));
    rows.extend(money.past.previous_week.map(|spend| MailRow::new("The 7 days before", spend)));
    if report.has_audit_records {
        let name = format!("Saved by Curfew{}", in_parentheses(&money.saved_omissions()));
        rows.push(MailRow::new(name, money.saved));
    }
    if money.spot_saved.is_a_cent() {
        rows.push(MailRow::new("Saved by Spot", money.describe_spot_saved()));
    }
    if report.is_over && !money.footprint.is_zero() {
        let name = format!("Energy{}", in_parentheses(&money.footprint_omissions()));
        rows.push(MailRow::new(name, money.footprint.energy));
        rows.push(MailRow::new("Operational carbon", money.footprint.describe_operational()));
    }
    rows.extend(report.own.as_ref().map(|own| MailRow::new("Curfew itself, about", own.total())));
    rows
}

fn waste(report: &MonthReport) -> Vec<MailRow> {
    let waste: Vec<&WasteRow> = report.waste.iter().filter(|row| row.kind.is_waste() && !report.is_over).collect();
    let row = |row: &&WasteRow| {
        let name = format!("{}: {}", row.describe(), row.kind.describe());
        MailRow::new(name, row.usd_per_hour.map_or_else(|| "unknown".to_owned(), monthly))
    };
    let sum = WasteRow::describe_sum(&waste, "a month");
    let all = (!waste.is_empty()).then(|| MailRow::new(format!("All {}: {sum}", waste.len()), ""));
    all.into_iter().chain(waste.iter().take(NAMED_MAX).map(row)).collect()
}

fn next_month(next: &NextMonth) -> Vec<MailRow> {
    let row = |finding: &UsageFinding| {
        let (evidence, action) = (one_line(&finding.evidence, 300), one_line(&finding.action, 300));
        MailRow::new(format!("{}: {evidence}; {action}", next.describe(finding)), monthly(finding.saves))
    };
    next.shown().map(row).collect()
}

fn savings(report: &MonthReport) -> Vec<MailRow> {
    let mut rows: Vec<_> = report.savings.iter().filter_map(|row| Some((row.saved?, row))).collect();
    rows.sort_by_key(|(saved, _)| std::cmp::Reverse(*saved));
    let name = |(saved, row): (Amount, &SavingRow)| {
        MailRow::new(format!("{}, {}: {}", row.describe(), row.action, one_line(&row.rule, 40)), saved)
    };
    rows.into_iter().take(NAMED_MAX).map(name).collect()
}

fn teams(report: &MonthReport) -> Vec<MailRow> {
    let row = |row: &TeamRow| {
        let expected = row.forecast.zip(row.forecast_above_budget());
        let words = expected.map(|(sum, above)| format!("; {sum} expected, {above} above its budget"));
        let left_out = in_parentheses(&report.team_omissions(row));
        let name = format!("{}{left_out}{}", one_line(&row.team, 60), words.unwrap_or_default());
        MailRow::new(name, row.spent).alarming_if(expected.is_some())
    };
    report.teams.iter().take(NAMED_MAX).map(row).collect()
}
