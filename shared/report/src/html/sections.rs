//! The sections of the page: money first, then waste, then the rest.

use billing::energy::Footprint;
use billing::savings::COUNTERFACTUAL;
use jiff::SignedDuration;
use maud::{Markup, html};
use model::duration::format_duration;
use model::fault::one_line;
use model::money::{Amount, Rate};

use super::{minute, plain};
use crate::{CheckpointRow, FINDINGS_SHOWN, JobRow, MonthReport, ROWS_MAX, TeamRow, WasteRow};

/// Characters of a sentence with texts from elsewhere in it.
const TEXT_MAX: usize = 300;

fn monthly(rate: Rate) -> String {
    format!("${}", model::money::usd(rate.usd_cents_per_month()))
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn length(seconds: u64) -> String {
    format_duration(SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)))
}

fn known(footprint: &Footprint, text: impl ToString) -> String {
    if footprint.is_known() { text.to_string() } else { "-".to_owned() }
}

/// A sentence for the rows that a table leaves out.
fn omitted(rows: usize) -> Markup {
    html! { @if rows > ROWS_MAX { p.muted { "and " (rows - ROWS_MAX) " more" } } }
}

pub(super) fn headline(report: &MonthReport) -> Markup {
    let money = &report.headline;
    let budget = money.budget.and_then(|budget| Some((budget, money.spent.percent_of(budget)?)));
    html! {
        dl.cards {
            div { dt { "Spent" } dd { (money.spent)
                @if money.uncertain.is_a_cent() { small { "up to " (money.uncertain) " more, where no end was seen" } }
                @if let Some((budget, percent)) = budget { small { (percent) " % of " (budget) } } } }
            @if let Some(forecast) = money.forecast { div { dt { "Expected by the end of the month" } dd { (forecast) } } }
            div { dt { "Saved by Curfew" } dd { (money.saved) } }
            @if !report.is_over { div { dt { "Waste that still runs" } dd { (monthly(money.waste)) small { "a month" } } } }
            @if money.spot_saved.is_a_cent() { div { dt { "Saved by Spot" } dd { (money.spot_saved) } } }
        }
    }
}

pub(super) fn gaps(report: &MonthReport) -> Markup {
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

pub(super) fn teams(report: &MonthReport) -> Markup {
    html! {
        section {
            h2 id="teams" { "Teams" }
            div.scroll tabindex="0" role="region" aria-labelledby="teams" { table {
                caption { "Spend of the month by team. Idle is the time for which instances were announced as idle, with its cost." }
                thead { tr {
                    th scope="col" { "Team" } th.n scope="col" { "Spent" } th.n scope="col" { "Budget" }
                    th.n scope="col" { "Expected" } th.n scope="col" { "Saved" } th.n scope="col" { "Waste a month" }
                    th.n scope="col" { "Idle" }
                } }
                tbody { @for row in report.teams.iter().take(ROWS_MAX) { (team_row(row)) } }
            } }
            (omitted(report.teams.len()))
        }
    }
}

fn team_row(row: &TeamRow) -> Markup {
    let idle =
        if row.idle_seconds > 0 { format!("{} ({})", length(row.idle_seconds), row.idle_cost) } else { "-".to_owned() };
    let has_unknown_price = row.unpriced_seconds > 0;
    html! { tr {
        th scope="row" { (plain(&row.team)) }
        td.n { (row.spent) @if has_unknown_price { " and " (length(row.unpriced_seconds)) " at an unknown price" } }
        td.n { (optional(row.budget)) } td.n { (optional(row.forecast)) } td.n { (row.saved) }
        td.n { (monthly(row.waste)) } td.n { (idle) }
    } }
}

pub(super) fn waste(report: &MonthReport) -> Markup {
    let (waste, others): (Vec<&WasteRow>, Vec<&WasteRow>) = report.waste.iter().partition(|row| row.kind.is_waste());
    html! {
        section {
            h2 id="waste" { "Waste that still runs" }
            @if waste.is_empty() { p { "The newest runs found none." } } @else { (waste_table("waste", &waste)) }
        }
        @if !others.is_empty() {
            section {
                h2 id="others" { "Uninstrumented and kept resources, and volumes of other controllers" }
                (waste_table("others", &others))
            }
        }
    }
}

fn waste_table(heading: &str, rows: &[&WasteRow]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby=(heading) { table {
            caption { (rows.len()) " in all, " (WasteRow::describe_sum(rows, "a month")) }
            thead { tr { th scope="col" { "Resource" } th scope="col" { "What" } th scope="col" { "Team" } th scope="col" { "State" }
                th scope="col" { "Why" } th.n scope="col" { "A month" } } }
            tbody { @for row in rows.iter().take(ROWS_MAX) { tr {
                th scope="row" { (plain(row.resource.as_str())) @if let Some(name) = &row.name { " " span.muted { (plain(name)) } } }
                td { (plain(&row.what)) } td { (plain(&crate::spend::team_label(row.team.as_ref()))) } td { (row.kind.describe()) }
                td { (plain(&row.why)) }
                td.n { (row.usd_per_hour.map_or_else(|| "unknown".to_owned(), monthly)) }
            } } }
        } }
        (omitted(rows.len()))
    }
}

pub(super) fn next_month(report: &MonthReport) -> Markup {
    let Some(next) = &report.next_month else { return Markup::default() };
    html! {
        section {
            h2 id="next-month" { "Next month" }
            @if next.findings.is_empty() { p { (next.basis()) " Nothing was found that could cost less." } } @else {
                div.scroll tabindex="0" role="region" aria-labelledby="next-month" { table {
                    caption { "What could cost less, by what was used. " (next.basis()) }
                    thead { tr { th scope="col" { "Resource" } th scope="col" { "Team" } th scope="col" { "Finding" } th scope="col" { "Seen" }
                        th scope="col" { "What to do" } th.n scope="col" { "Saves a month" } } }
                    tbody { @for finding in next.shown() { tr {
                        th scope="row" { (plain(&finding.resource)) " " span.muted { (plain(&finding.what)) } }
                        td { (plain(&crate::spend::team_label(finding.team.as_ref()))) } td { (finding.kind.as_str()) }
                        td.text { (one_line(&finding.evidence, TEXT_MAX)) } td.text { (one_line(&finding.action, TEXT_MAX)) }
                        td.n { (monthly(finding.saves)) }
                    } } }
                } }
                @if next.findings.len() > FINDINGS_SHOWN {
                    p.muted { "and " (next.findings.len() - FINDINGS_SHOWN) " more: " code { "curfew recommend --from-usage" } }
                }
            }
        }
    }
}

pub(super) fn savings(report: &MonthReport) -> Markup {
    let mut rows: Vec<_> = report.savings.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.saved));
    html! {
        section {
            h2 id="savings" { "What Curfew stopped, and what that saved" }
            @if rows.is_empty() { p { "Curfew stopped, terminated and deleted nothing." } } @else {
                p.muted { (COUNTERFACTUAL) }
                div.scroll tabindex="0" role="region" aria-labelledby="savings" { table {
                    caption { (rows.len()) " actions, the largest saving first" }
                    thead { tr { th scope="col" { "When" } th scope="col" { "Resource" } th scope="col" { "Team" } th scope="col" { "Action" }
                        th scope="col" { "Counts for" } th.n scope="col" { "Saved" } th scope="col" { "Audit record" } } }
                    tbody { @for row in rows.iter().take(ROWS_MAX) { tr {
                        td { (minute(row.at)) } th scope="row" { (plain(row.resource.as_str())) " " span.muted { (plain(&row.what)) } }
                        td { (plain(&crate::spend::team_label(row.team.as_ref()))) } td { (row.action) ": " (plain(&row.rule)) }
                        td { (length(row.counted_seconds)) ", " (row.until) }
                        td.n { (row.saved.map_or_else(|| "unknown".to_owned(), |saved| saved.to_string())) }
                        td { code { (one_line(&row.audit_key, 200)) } }
                    } } }
                } }
                (omitted(rows.len()))
            }
        }
    }
}

pub(super) fn jobs(report: &MonthReport) -> Markup {
    html! {
        @if !report.jobs.is_empty() {
            section {
                h2 id="jobs" { "Jobs" }
                div.scroll tabindex="0" role="region" aria-labelledby="jobs" { table {
                    caption { "Jobs that are unfinished, or that cost something in the month" }
                    thead { tr { th scope="col" { "Job" } th scope="col" { "State" } th.n scope="col" { "Attempts" }
                        th.n scope="col" { "Step" } th scope="col" { "Done twice" } th.n scope="col" { "Spent" }
                        th.n scope="col" { "Saved by Spot" } th.n scope="col" { "Energy" } } }
                    tbody { @for row in report.jobs.iter().take(ROWS_MAX) { (job_row(row)) } }
                } }
                (omitted(report.jobs.len()))
            }
        }
    }
}

fn job_row(row: &JobRow) -> Markup {
    let overview = row.overview.as_ref();
    let spot = match (row.spot_saved.is_a_cent(), row.spot_saved_at_least) {
        (true, false) => row.spot_saved.to_string(),
        (true, true) => format!("at least {}", row.spot_saved),
        (false, true) => "unknown".to_owned(),
        (false, false) => Amount::ZERO.to_string(),
    };
    html! { tr {
        th scope="row" { (plain(&row.job)) }
        td { (overview.map_or("unknown", |one| one.state)) }
        td.n { (optional(overview.map(|one| one.attempts))) } td.n { (optional(overview.and_then(|one| one.step))) }
        td { (repeated(row)) } td.n { (row.spent) } td.n { (spot) } td.n { (known(&row.footprint, row.footprint.energy)) }
    } }
}

fn repeated(row: &JobRow) -> String {
    match (row.repeated.seconds, row.repeated.steps) {
        (0, _) => "-".to_owned(),
        (seconds, 0) => length(seconds),
        (seconds, steps) => format!("{} (about {steps} steps)", length(seconds)),
    }
}

pub(super) fn checkpoints(report: &MonthReport) -> Markup {
    let total = report.checkpoints.iter().map(|row| row.cost).sum::<Amount>();
    html! {
        @if !report.checkpoints.is_empty() {
            section {
                h2 id="checkpoints" { "Checkpoints" }
                div.scroll tabindex="0" role="region" aria-labelledby="checkpoints" { table {
                    caption { "What jobs keep in the state bucket now: " (total) " a month, by S3's price in us-east-1" }
                    thead { tr { th scope="col" { "Team" } th.n scope="col" { "Jobs" } th.n scope="col" { "Size" }
                        th.n scope="col" { "Of jobs that are over" } th.n scope="col" { "A month" } } }
                    tbody { @for row in report.checkpoints.iter().take(ROWS_MAX) { (checkpoint_row(row)) } }
                } }
                (omitted(report.checkpoints.len()))
            }
        }
    }
}

fn checkpoint_row(row: &CheckpointRow) -> Markup {
    let at_least = if row.is_incomplete { "at least " } else { "" };
    html! { tr { th scope="row" { (plain(&row.team)) } td.n { (row.jobs) } td.n { (at_least) (gib(row.bytes)) }
    td.n { (gib(row.bytes_of_ended)) } td.n { (at_least) (row.cost) } } }
}

/// Formats bytes in GiB, to a tenth.
fn gib(bytes: u64) -> String {
    let tenths = (u128::from(bytes) * 10) >> 30;
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

pub(super) fn own(report: &MonthReport) -> Markup {
    let Some(own) = &report.own else { return Markup::default() };
    let parts = [
        ("Alarms and the key", own.stack),
        ("CloudWatch metrics", own.metrics_cost),
        ("Lambda", own.lambda),
        ("Calls to S3, SNS and Cost Explorer", own.calls),
        ("Audit records of the month", own.storage),
    ];
    html! {
        section {
            h2 id="own" { "Curfew itself" }
            div.scroll tabindex="0" role="region" aria-labelledby="own" { table {
                caption { "About " (own.total()) ", for " (own.runs) " runs and " (own.metrics) " metrics. List prices of us-east-1, without AWS's free tiers." }
                thead { tr { th scope="col" { "Part" } th.n scope="col" { "Cost" } } }
                tbody { @for (part, cost) in parts { tr { th scope="row" { (part) } td.n { (cost) } } } }
            } }
            @if own.unmeasured_runs > 0 {
                p.muted { (own.unmeasured_runs) " of these runs left no figures, and count with their number alone." }
            }
        }
    }
}

pub(super) fn energy(report: &MonthReport) -> Markup {
    let total = &report.headline.footprint;
    html! {
        @if total.is_known() || !report.footprint_caveats.is_empty() {
            section {
                h2 id="energy" { "Energy and carbon" }
                div.scroll tabindex="0" role="region" aria-labelledby="energy" { table {
                    caption { "Of instances. A figure spans from idle to fully used, unless it is of a job whose agent measured its GPUs." }
                    thead { tr { th scope="col" { "Team" } th.n scope="col" { "Energy" } th.n scope="col" { "Operational carbon" }
                        th.n scope="col" { "Embodied carbon" } } }
                    tbody {
                        @for row in report.teams.iter().filter(|row| row.footprint.is_known()).take(ROWS_MAX) {
                            (footprint_row(&plain(&row.team), &row.footprint))
                        }
                        (footprint_row("all", total))
                    }
                } }
                @for caveat in &report.footprint_caveats { p.muted { (one_line(caveat, TEXT_MAX)) } }
            }
        }
    }
}

fn footprint_row(whose: &str, footprint: &Footprint) -> Markup {
    html! { tr { th scope="row" { (whose) } td.n { (known(footprint, footprint.energy)) }
    td.n { (known(footprint, footprint.operational)) } td.n { (known(footprint, footprint.embodied)) } } }
}
