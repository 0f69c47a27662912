//! Findings for people.

use anstyle::{AnsiColor, Style};
use model::quota::PurchaseMarket;
use operator::doctor::quotas::{RegionQuota, usable_families};
use operator::doctor::{CheckResult, CheckState, DoctorFinding, FindingSeverity};

use super::section::DoctorSection;
use crate::screen::{BOLD, ColumnAlignment, DIM, ERROR, NORMAL, Table, WARNING, print_line, print_styled};

const GREEN: Style = AnsiColor::Green.on_default();

/// One line a check, with its findings below.
pub(super) fn print_sections(sections: &[DoctorSection]) {
    let width = sections.iter().map(|section| section.checked.check.len()).max().unwrap_or_default();
    for DoctorSection { checked, summary, quotas } in sections {
        let (style, word) = match checked.state {
            CheckState::Ok => (GREEN, "ok"),
            CheckState::Unknown => (WARNING, "unknown"),
            CheckState::Finding if is_problem(checked) => (ERROR, "problem"),
            CheckState::Finding => (WARNING, "warning"),
        };
        let check = format!("{:width$}  ", checked.check);
        match checked.state {
            CheckState::Ok => print_styled(&[(BOLD, &check), (style, &format!("{word:7}  ")), (NORMAL, summary)]),
            _ => print_styled(&[(BOLD, &check), (style, word)]),
        }
        if let Some(table) = quotas.as_deref().map(table).filter(|table| !table.is_empty()) {
            table.print_indented("  ");
        }
        for (place, finding) in checked.findings.iter().enumerate() {
            // Of several in a row with the same remedy, the last one shows it.
            let next = checked.findings.get(place + 1);
            print_finding(finding, next.is_none_or(|next| next.remedy != finding.remedy));
        }
    }
    let count = |severity| {
        let findings = sections.iter().flat_map(|section| &section.checked.findings);
        findings.filter(|finding| finding.severity == severity).count()
    };
    let counts = [
        (FindingSeverity::Problem, "problem(s)"),
        (FindingSeverity::Warning, "warning(s)"),
        (FindingSeverity::Unknown, "unknown"),
        (FindingSeverity::Note, "note(s)"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter_map(|(severity, words)| Some((count(severity), words)).filter(|(count, _)| *count > 0))
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    print_line("");
    print_line(if counts.is_empty() { "All is well.".to_owned() } else { counts.join(", ") });
}

/// Builds a table of the running vCPUs out of the granted ones, by region and family.
fn table(quotas: &[RegionQuota]) -> Table<4> {
    let mut table = Table::new([
        ("region", ColumnAlignment::Left),
        ("family", ColumnAlignment::Left),
        ("on-demand", ColumnAlignment::Right),
        ("Spot", ColumnAlignment::Right),
    ]);
    for (region, family) in usable_families(quotas) {
        let cell = |market| {
            let one = quotas.iter().find(|one| (&one.region, one.family, one.market) == (region, family, market));
            one.map_or_else(String::new, |one| {
                let granted = one.vcpus.map_or_else(|| "?".to_owned(), |vcpus| vcpus.to_string());
                format!("{}/{granted}", one.used_vcpus)
            })
        };
        let (on_demand, spot) = (cell(PurchaseMarket::OnDemand), cell(PurchaseMarket::Spot));
        table.row([region.to_string(), family.as_str().to_owned(), on_demand, spot]);
    }
    table
}

/// The worst comes first.
fn is_problem(checked: &CheckResult) -> bool {
    checked.findings.first().is_some_and(|finding| finding.severity == FindingSeverity::Problem)
}

fn print_finding(DoctorFinding { severity, at, found, remedy }: &DoctorFinding, with_remedy: bool) {
    let (style, word) = match severity {
        FindingSeverity::Problem => (ERROR, "problem"),
        FindingSeverity::Warning => (WARNING, "warning"),
        FindingSeverity::Unknown => (WARNING, "unknown"),
        FindingSeverity::Note => (DIM, "note"),
    };
    let at = if at.is_empty() { String::new() } else { format!("{at}: ") };
    print_styled(&[(NORMAL, "  "), (style, &format!("{word:7}  ")), (NORMAL, &format!("{at}{found}"))]);
    if with_remedy {
        print_styled(&[(DIM, "           -> "), (NORMAL, remedy)]);
    }
}
