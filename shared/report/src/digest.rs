//! The report as text: for a terminal, and for a message.

use std::fmt::Write as _;

use model::fault::one_line;
use model::foreign_text::without_links;
use model::money::{Amount, usd};

use crate::sums::{NO_AUDIT_RECORDS, describe_late_ledger, in_parentheses};
use crate::{MonthReport, NextMonth, TeamRow, WasteRow};

/// Teams and resources that are named.
const NAMED_MAX: usize = 5;

/// Money first; then the teams that spent the most, and the dearest waste.
#[must_use]
pub fn digest(report: &MonthReport) -> String {
    let money = &report.headline;
    let mut text = String::new();
    write_spend(&mut text, report);
    let omissions = in_parentheses(&money.saved_omissions());
    if report.has_audit_records {
        let _ = write!(text, "\nCurfew saved {}{omissions}.", money.saved);
    } else {
        let _ = write!(text, "\n{NO_AUDIT_RECORDS}");
    }
    if money.spot_saved.is_a_cent() {
        let _ = write!(text, " Spot saved {} of what jobs would have cost on demand.", money.describe_spot_saved());
    }
    let waste: Vec<&WasteRow> = report.waste.iter().filter(|row| row.kind.is_waste()).collect();
    if report.is_over {
        // What still runs is of another month.
    } else if waste.is_empty() {
        text.push_str("\nThe newest runs found no waste that still costs money.");
    } else {
        let verb = if waste.len() == 1 { "resource wastes" } else { "resources waste" };
        let _ =
            write!(text, "\n{} {verb} {}:", waste.len(), WasteRow::describe_sum(&waste, "a month if nothing changes"));
        write_waste(&mut text, &waste);
    }
    if let Some(next) = &report.next_month {
        write_next_month(&mut text, next);
        if let Some(hours) = next.describe_gpu_hours() {
            let _ = write!(text, "\n{hours}");
        }
    }
    if report.team.is_none() && report.teams.len() > 1 {
        text.push_str("\nTeams:");
        for row in report.teams.iter().take(NAMED_MAX) {
            write_team(&mut text, report, row);
        }
        write_others(&mut text, report.teams.len());
    }
    // Its range is wide, and hardly changes from day to day.
    if report.is_over && !money.footprint.is_zero() {
        let omissions = in_parentheses(&money.footprint_omissions());
        let (energy, carbon) = (money.footprint.energy, money.footprint.describe_operational());
        let _ = write!(text, "\nEnergy: {energy}; {carbon}{omissions}.");
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
    if let Some(more) = report.gaps.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        let _ = write!(text, "\nNot known: {more} more, which the page lists.");
    }
    text.push('\n');
    without_links(&text)
}

/// The title with budget and forecast as the first line; then what the sum leaves out, and earlier spends.
fn write_spend(text: &mut String, report: &MonthReport) {
    let money = &report.headline;
    let title = report.title();
    let mut letters = title.chars();
    text.extend(letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters));
    if !report.has_ledger {
        text.push_str(": no ledger of the month could be read.");
        return;
    }
    if let Some((budget, percent)) = money.percent_of_budget() {
        let _ = write!(text, ", {percent} % of {budget}");
    }
    if let Some(forecast) = money.forecast {
        let _ = write!(text, "; {}{forecast} expected by its end", money.at_least());
        if let Some(above) = money.above_budget(forecast) {
            let _ = write!(text, ", {above} above the budget");
        }
    }
    text.push('.');
    if let Some(shared) = &money.shared {
        let _ = write!(text, "\n{}.", shared.describe());
    }
    let omissions = money.spent_omissions();
    if !omissions.is_empty() {
        let _ = write!(text, "\nBeside this sum: {}.", omissions.join("; "));
    }
    if let Some(since) = report.ledger_since {
        let _ = write!(text, "\n{}", describe_late_ledger(since));
    }
    if let Some(spend) = money.past.previous_month {
        let until = if report.is_over { "" } else { " by the same day" };
        let _ = write!(text, "\nThe month before{until}: {spend}.");
    }
    if let (Some(last), Some(previous)) = (money.past.last_week, money.past.previous_week) {
        let _ = write!(text, "\nThe last 7 days: {last}; the 7 days before: {previous}.");
    }
}

fn write_team(text: &mut String, report: &MonthReport, row: &TeamRow) {
    let (spent, omissions) = (row.spent, in_parentheses(&report.team_omissions(row)));
    let _ = write!(text, "\n  {spent:>12}  {}{omissions}", one_line(&row.team, 60));
    if let (Some(forecast), Some(above)) = (row.forecast, row.forecast_above_budget()) {
        let _ = write!(text, "; {forecast} expected, {above} above its budget");
    }
}

fn write_waste(text: &mut String, waste: &[&WasteRow]) {
    for row in waste.iter().take(NAMED_MAX) {
        let cost = row
            .usd_per_hour
            .map_or_else(|| "unknown".to_owned(), |rate| format!("${}", usd(rate.usd_cents_per_month())));
        let _ = write!(text, "\n  {cost:>12}  {}: {}", row.describe(), row.kind.describe());
    }
    write_others(text, waste.len());
}

fn write_next_month(text: &mut String, next: &NextMonth) {
    if next.findings.is_empty() {
        let _ = write!(text, "\nNext month: {}", next.conclusion());
        return;
    }
    let _ = write!(text, "\nNext month could cost less. {}", next.basis());
    for finding in next.shown() {
        let _ = write!(
            text,
            "\n  {:>12}  {}, {}: {}; {}",
            format!("${}", usd(finding.saves.usd_cents_per_month())),
            next.describe(finding),
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
