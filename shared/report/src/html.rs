//! The report as one HTML page: no script, no font and no picture from elsewhere; light and dark; for a phone and for paper.
//!
//! `maud` escapes every text. [`plain`] also replaces characters that would turn or break a line, because names come from tags.

mod chart;
mod sections;
mod style;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use model::fault::one_line;

use crate::MonthReport;

/// Characters of a text from a tag. The longest resource id has 24.
const TEXT_CHARACTERS_MAX: usize = 80;

/// A text from a tag, a document or a machine, on one line.
fn plain(text: &str) -> String {
    one_line(text, TEXT_CHARACTERS_MAX)
}

/// The page.
#[must_use]
pub fn render_html(report: &MonthReport) -> String {
    let title = match &report.team {
        Some(team) => format!("GPU spend of {} in {}", plain(team), report.month),
        None => format!("GPU spend in {}", report.month),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(style::CSS)) }
            }
            body { main {
                header {
                    h1 { (title) }
                    p.muted { "As of " (minute(report.at)) ". " (mode_sentence(report)) }
                }
                (sections::headline(report))
                (sections::gaps(report))
                (chart_section(report))
                (sections::teams(report))
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
                None => p { "Nothing was spent in this month, as far as the ledger knows." },
            }
        }
    }
}

fn mode_sentence(report: &MonthReport) -> &'static str {
    match report.mode {
        Some(model::mode::Mode::Enforce) => "Curfew enforces.",
        Some(model::mode::Mode::Observe) => "Curfew is in observe mode: it changes nothing.",
        None => "No run of Curfew is known.",
    }
}

fn minute(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
