//! How findings are shown to people.

use anstyle::{AnsiColor, Style};
use domain::doctor::quotas::{Market, Quota, of_interest};
use domain::doctor::{Checked, Finding, Severity, State};

use super::section::Section;
use crate::screen::{BOLD, Side, Table, plain, say};

const RED: Style = AnsiColor::Red.on_default().bold();
const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
const GREEN: Style = AnsiColor::Green.on_default();
const DIM: Style = Style::new().dimmed();

/// One line a check, and below it what was found.
pub(super) fn all(sections: &[Section]) {
    let width = sections.iter().map(|section| section.checked.check.len()).max().unwrap_or_default();
    for Section { checked, summary, quotas } in sections {
        let (style, word) = match checked.state {
            State::Ok => (GREEN, "ok"),
            State::Unknown => (YELLOW, "unknown"),
            State::Finding if is_problem(checked) => (RED, "problem"),
            State::Finding => (YELLOW, "warning"),
        };
        let summary = if checked.state == State::Ok { plain(summary) } else { String::new() };
        let line = format!("{BOLD}{:width$}{BOLD:#}  {style}{word:7}{style:#}  {summary}", checked.check);
        say(line.trim_end());
        if let Some(table) = quotas.as_deref().map(table).filter(|table| !table.is_empty()) {
            table.to_string().lines().for_each(|line| say(format!("  {line}")));
        }
        for (place, finding) in checked.findings.iter().enumerate() {
            // Of several in a row that have the same remedy, the last one shows it.
            let next = checked.findings.get(place + 1);
            one(finding, next.is_none_or(|next| next.remedy != finding.remedy));
        }
    }
    let count = |severity| {
        let findings = sections.iter().flat_map(|section| &section.checked.findings);
        findings.filter(|finding| finding.severity == severity).count()
    };
    let counts = [
        (Severity::Problem, "problem(s)"),
        (Severity::Warning, "warning(s)"),
        (Severity::Unknown, "unknown"),
        (Severity::Note, "note(s)"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter_map(|(severity, words)| Some((count(severity), words)).filter(|(count, _)| *count > 0))
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    say("");
    say(if counts.is_empty() { "All is well.".to_owned() } else { counts.join(", ") });
}

/// Region by region and family by family: what runs, of what was granted.
fn table(quotas: &[Quota]) -> Table<4> {
    let mut table =
        Table::new([("region", Side::Left), ("family", Side::Left), ("on-demand", Side::Right), ("Spot", Side::Right)]);
    for (region, family) in of_interest(quotas) {
        let cell = |market| {
            let one = quotas.iter().find(|one| (&one.region, one.family, one.market) == (region, family, market));
            one.map_or_else(String::new, |one| {
                let granted = one.vcpus.map_or_else(|| "?".to_owned(), |vcpus| vcpus.to_string());
                format!("{}/{granted}", one.used_vcpus)
            })
        };
        let (on_demand, spot) = (cell(Market::OnDemand), cell(Market::Spot));
        table.row([region.to_string(), family.as_str().to_owned(), on_demand, spot]);
    }
    table
}

/// The worst comes first.
fn is_problem(checked: &Checked) -> bool {
    checked.findings.first().is_some_and(|finding| finding.severity == Severity::Problem)
}

fn one(Finding { severity, at, found, remedy }: &Finding, with_remedy: bool) {
    let (style, word) = match severity {
        Severity::Problem => (RED, "problem"),
        Severity::Warning => (YELLOW, "warning"),
        Severity::Unknown => (YELLOW, "unknown"),
        Severity::Note => (DIM, "note"),
    };
    let at = if at.is_empty() { String::new() } else { format!("{}: ", plain(at)) };
    say(format!("  {style}{word:7}{style:#}  {at}{}", plain(found)));
    if with_remedy {
        say(format!("           {DIM}->{DIM:#} {}", plain(remedy)));
    }
}
