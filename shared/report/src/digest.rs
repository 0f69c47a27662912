//! The report as text: for a terminal, and for a message.

use std::fmt::Write as _;

use model::fault::{one_line, shortened};
use model::foreign_text::{quoted_unless_word, without_links};
use model::money::{Amount, usd};

use crate::{MonthReport, NextMonth, WasteRow};

/// Teams and resources that are named.
const NAMED_MAX: usize = 5;

/// Money first; then the teams that spent the most, and the dearest waste.
#[must_use]
pub fn digest(report: &MonthReport) -> String {
    let money = &report.headline;
    let whose = report
        .team
        .as_ref()
        .map(|team| format!(" by {}", quoted_unless_word(&shortened(team, 60))))
        .unwrap_or_default();
    let mut text = format!("{} spent{whose} on GPUs in {}", money.spent, report.month);
    if let Some((budget, percent)) = money.budget.and_then(|budget| Some((budget, money.spent.percent_of(budget)?))) {
        let _ = write!(text, ", {percent} % of {budget}");
    }
    if let Some(forecast) = money.forecast {
        let _ = write!(text, "; {forecast} expected by its end");
    }
    let _ = write!(text, ".\nCurfew saved {}.", money.saved);
    if money.spot_saved.is_a_cent() {
        let _ = write!(text, " Spot saved {} of what jobs would have cost on demand.", money.spot_saved);
    }
    let waste: Vec<&WasteRow> = report.waste.iter().filter(|row| row.kind.is_waste()).collect();
    if report.is_over {
        // What still runs is of another month.
    } else if waste.is_empty() {
        text.push_str("\nThe newest runs found no waste that still costs money.");
    } else {
        let verb = if waste.len() == 1 { "resource wastes" } else { "resources waste" };
        let _ = write!(text, "\n{} {verb} {}:", waste.len(), WasteRow::describe_sum(&waste, "a month now"));
        write_waste(&mut text, waste);
    }
    if let Some(next) = &report.next_month {
        write_next_month(&mut text, next);
    }
    if report.team.is_none() && report.teams.len() > 1 {
        text.push_str("\nTeams:");
        for row in report.teams.iter().take(NAMED_MAX) {
            let _ = write!(text, "\n  {:>12}  {}", row.spent.to_string(), one_line(&row.team, 60));
        }
        write_others(&mut text, report.teams.len());
    }
    if money.footprint.is_known() {
        let _ = write!(text, "\nEnergy: {}; {}.", money.footprint.energy, money.footprint.operational);
    }
    let checkpoints = report.checkpoints.iter().map(|row| row.cost).sum::<Amount>();
    if checkpoints.is_a_cent() {
        let _ = write!(text, "\nCheckpoints take {checkpoints} a month in S3.");
    }
    if let Some(own) = &report.own {
        let _ = write!(text, "\nCurfew itself: about {} ({} runs, {} metrics).", own.total(), own.runs, own.metrics);
    }
    for gap in report.gaps.iter().take(NAMED_MAX) {
        let _ = write!(text, "\nNot known: {}", one_line(gap, 300));
    }
    text.push('\n');
    without_links(&text)
}

fn write_waste(text: &mut String, mut waste: Vec<&WasteRow>) {
    waste.sort_by_key(|row| std::cmp::Reverse(row.usd_per_hour));
    for row in waste.iter().take(NAMED_MAX) {
        let cost = row
            .usd_per_hour
            .map_or_else(|| "unknown".to_owned(), |rate| format!("${}", usd(rate.usd_cents_per_month())));
        let team = crate::spend::describe_team(row.team.as_ref());
        let _ = write!(
            text,
            "\n  {cost:>12}  {} {} of {team}: {}",
            one_line(row.resource.as_str(), 60),
            one_line(&row.what, 40),
            row.kind.describe()
        );
    }
    write_others(text, waste.len());
}

fn write_next_month(text: &mut String, next: &NextMonth) {
    if next.findings.is_empty() {
        let _ = write!(text, "\nNext month: {}", next.basis());
        return;
    }
    let _ = write!(text, "\nNext month could cost less. {}", next.basis());
    for finding in next.shown() {
        let _ = write!(
            text,
            "\n  {:>12}  {} {} of {}, {}: {}; {}",
            format!("${}", usd(finding.saves.usd_cents_per_month())),
            one_line(&finding.resource, 60),
            one_line(&finding.what, 40),
            crate::spend::describe_team(finding.team.as_ref()),
            finding.kind.as_str(),
            one_line(&finding.evidence, 300),
            one_line(&finding.action, 300)
        );
    }
    write_others(text, next.findings.len());
}

fn write_others(text: &mut String, count: usize) {
    if count > NAMED_MAX {
        let _ = write!(text, "\n  and {} more", count - NAMED_MAX);
    }
}
