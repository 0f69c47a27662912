//! The report as one HTML page: no script, no font and no picture from elsewhere; light and dark; for a phone and for paper.
//!
//! `maud` escapes every text. [`plain`] also replaces characters that would turn or break a line, because names come from tags.

mod chart;
mod money;
mod sections;
mod style;

pub(crate) use sections::{monthly, omitted};
pub(crate) use style::CSS;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use model::fault::one_line;

use crate::MonthReport;

/// Characters of a text from a tag. The longest resource id has 24.
const TEXT_CHARACTERS_MAX: usize = 80;

/// A text from a tag, a document or a machine, on one line.
pub(crate) fn plain(text: &str) -> String {
    one_line(text, TEXT_CHARACTERS_MAX)
}

/// The page.
#[must_use]
pub fn render_html(report: &MonthReport) -> String {
    let title = match &report.team {
        Some(team) => format!("GPU spend of {} in {}", plain(team), report.month),
        None => format!("GPU spend in {}", report.month),
    };
    let account = report.describe_account().map(|account| format!("AWS account {account}. ")).unwrap_or_default();
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
                    p.muted { (account) "As of " (minute(report.at)) ". " (mode_sentence(report)) }
                }
                (money::headline(report))
                (sections::gaps(report))
                (chart_section(report))
                (money::teams(report))
                @if !report.is_over { (sections::waste(report)) }
                (sections::next_month(report))
                (sections::savings(report))
                (sections::jobs(report))
                (sections::checkpoints(report))
                (sections::energy(report))
                (sections::own(report))
            } }
        }
    };
    page.into_string()
}

fn chart_section(report: &MonthReport) -> Markup {
    html! {
        section {
            h2 id="days" { "Spend by day" }
            @match chart::spend_by_day(&report.days) {
                Some(chart) => (chart),
                None if report.has_ledger => p { "Nothing was spent in this month, as far as the ledger knows." },
                None => p { "Unknown: no ledger of this month could be read." },
            }
            @if report.headline.unpriced_seconds > 0 { p.muted { "Running time at an unknown price is not in it." } }
            @if let Some(since) = report.ledger_since { p.muted { (crate::sums::describe_late_ledger(since)) } }
        }
    }
}

fn mode_sentence(report: &MonthReport) -> &'static str {
    match report.mode {
        Some(model::mode::Mode::Enforce) => "Curfew stops and deletes waste by its rules.",
        Some(model::mode::Mode::Observe) => {
            "Curfew is set to observe only: it says what it would do, and changes nothing."
        }
        None => "No run of Curfew is known.",
    }
}

pub(crate) fn minute(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
