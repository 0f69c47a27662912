//! The sections of the page: money first, then waste, then the rest.

use billing::energy::Footprint;
use billing::savings::COUNTERFACTUAL;
use maud::{Markup, html};
use model::fault::one_line;
use model::id::TeamName;
use model::money::{Amount, Rate};

pub(super) use crate::sums::length;

use super::{minute, plain};
use crate::sums::NO_AUDIT_RECORDS;
use crate::{CheckpointRow, FINDINGS_SHOWN, JobRow, MonthReport, NextMonth, ROWS_MAX, WasteRow};
use recommend::usage::UsageFinding;

/// Characters of a sentence with texts from elsewhere in it.
const TEXT_MAX: usize = 300;

pub(crate) fn monthly(rate: Rate) -> String {
    format!("${}", model::money::usd(rate.usd_cents_per_month()))
}

pub(super) fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// The figure of a footprint; a dash if nothing ran.
fn figure(footprint: &Footprint, text: impl ToString) -> String {
    if footprint.is_zero() { "-".to_owned() } else { text.to_string() }
}

/// A sentence for the rows that a table leaves out.
pub(crate) fn omitted(rows: usize) -> Markup {
    html! { @if rows > ROWS_MAX { p.muted { "and " (rows - ROWS_MAX) " more" } } }
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

pub(super) fn waste(report: &MonthReport) -> Markup {
    let (waste, others): (Vec<&WasteRow>, Vec<&WasteRow>) = report.waste.iter().partition(|row| row.kind.is_waste());
    html! {
        section {
            h2 id="waste" { "Waste that still runs" }
            @if waste.is_empty() { p { "The newest runs found none." } } @else { (waste_table("waste", &waste)) }
        }
        @if !others.is_empty() {
            section {
                h2 id="others" { "Perhaps needed: without a GPU metric, kept by its owner, or of another system" }
                (waste_table("others", &others))
            }
        }
    }
}

fn waste_table(heading: &str, rows: &[&WasteRow]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby=(heading) { table {
            caption { (rows.len()) " in all, the dearest first: " (WasteRow::describe_sum(rows, "a month if nothing changes")) }
            thead { tr { th scope="col" { "Resource" } th scope="col" { "What" } th scope="col" { "Team, owner" } th scope="col" { "State" }
                th scope="col" { "Why" } th.n scope="col" { "A month" } } }
            tbody { @for row in rows.iter().take(ROWS_MAX) { tr {
                th scope="row" { @if let Some(name) = &row.name { (plain(name)) " " } span.muted { (plain(row.resource.as_str())) } }
                td data-label="What" { (plain(&row.what)) } td data-label="Team" { (payer(row.team.as_ref(), row.owner.as_deref())) }
                td data-label="State" { (row.kind.describe()) } td data-label="Why" { (plain(&row.why)) }
                td.n data-label="A month" { (row.usd_per_hour.map_or_else(|| "unknown".to_owned(), monthly)) }
            } } }
        } }
        (omitted(rows.len()))
    }
}

/// The team, and the owner below it.
fn payer(team: Option<&TeamName>, owner: Option<&str>) -> Markup {
    html! { (plain(&crate::spend::team_label(team))) @if let Some(owner) = owner { " " span.muted { "owner " (plain(owner)) } } }
}

pub(super) fn next_month(report: &MonthReport) -> Markup {
    let Some(next) = &report.next_month else { return Markup::default() };
    html! {
        section {
            h2 id="next-month" { "Next month" }
            @if let Some(hours) = next.describe_gpu_hours() { p { (hours) } }
            @if next.findings.is_empty() { p { (next.conclusion()) } } @else {
                div.scroll tabindex="0" role="region" aria-labelledby="next-month" { table {
                    caption { "What could cost less, by what was used. " (next.basis()) }
                    thead { tr { th scope="col" { "Resource" } th scope="col" { "Team, owner" } th scope="col" { "Finding" } th scope="col" { "Seen" }
                        th scope="col" { "What to do" } th.n scope="col" { "Saves a month" } } }
                    tbody { @for finding in next.shown() { tr {
                        (finding_head(next, finding))
                        td data-label="Finding" { (finding.kind.as_str()) } td.text data-label="Seen" { (one_line(&finding.evidence, TEXT_MAX)) }
                        td.text data-label="What to do" { (one_line(&finding.action, TEXT_MAX)) }
                        td.n data-label="Saves a month" { (monthly(finding.saves)) }
                    } } }
                } }
                @if next.findings.len() > FINDINGS_SHOWN {
                    p.muted { "and " (next.findings.len() - FINDINGS_SHOWN) " more: " code { "curfew recommend --from-usage" } }
                }
            }
        }
    }
}

fn finding_head(next: &NextMonth, finding: &UsageFinding) -> Markup {
    let label = next.labels.get(&finding.resource);
    let name = label.and_then(|label| label.name.as_deref());
    let owner = label.and_then(|label| label.owner.as_deref());
    html! {
        th scope="row" { @if let Some(name) = name { (plain(name)) " " }
            span.muted { (plain(&finding.resource)) " " (plain(&finding.what)) } }
        td data-label="Team" { (payer(finding.team.as_ref(), owner)) }
    }
}

pub(super) fn savings(report: &MonthReport) -> Markup {
    let mut rows: Vec<_> = report.savings.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.saved));
    html! {
        section {
            h2 id="savings" { "What Curfew stopped, and what that saved" }
            @if !report.has_audit_records { p { (NO_AUDIT_RECORDS) } }
            @else if rows.is_empty() { p { "Curfew stopped, terminated and deleted nothing." } } @else {
                p.muted { (COUNTERFACTUAL) }
                div.scroll tabindex="0" role="region" aria-labelledby="savings" { table {
                    caption { (rows.len()) " actions, the largest saving first" }
                    thead { tr { th scope="col" { "When" } th scope="col" { "Resource" } th scope="col" { "Team, owner" } th scope="col" { "Action" }
                        th scope="col" { "Counts for" } th.n scope="col" { "Saved" } th scope="col" { "Audit record" } } }
                    tbody { @for row in rows.iter().take(ROWS_MAX) { tr {
                        td data-label="When" { (minute(row.at)) }
                        th scope="row" { @if let Some(name) = &row.name { (plain(name)) " " }
                            span.muted { (plain(row.resource.as_str())) " " (plain(&row.what)) } }
                        td data-label="Team" { (payer(row.team.as_ref(), row.owner.as_deref())) }
                        td data-label="Action" { (row.action) ": " (plain(&row.rule)) }
                        td data-label="Counts for" { (length(row.counted_seconds)) ", " (row.until) }
                        td.n data-label="Saved" { (row.saved.map_or_else(|| "unknown".to_owned(), |saved| saved.to_string())) }
                        td data-label="Audit record" { code { (one_line(&row.audit_key, 200)) } }
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
        td data-label="State" { (overview.map_or("unknown", |one| one.state)) }
        td.n data-label="Attempts" { (optional(overview.map(|one| one.attempts))) }
        td.n data-label="Step" { (optional(overview.and_then(|one| one.step))) } td data-label="Done twice" { (repeated(row)) }
        td.n data-label="Spent" { (row.describe_spent()) } td.n data-label="Saved by Spot" { (spot) } td.n data-label="Energy" { (figure(&row.footprint, row.footprint.energy)) }
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
    html! { tr { th scope="row" { (plain(&row.team)) } td.n data-label="Jobs" { (row.jobs) }
    td.n data-label="Size" { (at_least) (gib(row.bytes)) } td.n data-label="Of jobs that are over" { (gib(row.bytes_of_ended)) }
    td.n data-label="A month" { (at_least) (row.cost) } } }
}

/// Formats bytes in GiB, to a tenth.
fn gib(bytes: u64) -> String {
    let tenths = (u128::from(bytes) * 10) >> 30;
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

pub(super) fn own(report: &MonthReport) -> Markup {
    let Some(own) = &report.own else {
        let is_whole = report.team.is_none();
        return html! { @if is_whole { section { h2 id="own" { "Curfew itself" }
        p { "Unknown: no audit record of this month is left, or Curfew was not deployed in it." } } } };
    };
    let is_published = own.account_metrics != Amount::ZERO;
    let published = is_published.then_some(("Metrics of the account", own.account_metrics));
    let parts = published.into_iter().chain([
        ("Alarms and the key", own.stack),
        ("CloudWatch metrics", own.metrics_cost),
        ("Lambda", own.lambda),
        ("Calls to S3, SNS and Cost Explorer", own.calls),
        ("Audit records of the month", own.storage),
    ]);
    html! {
        section {
            h2 id="own" { "Curfew itself" }
            div.scroll tabindex="0" role="region" aria-labelledby="own" { table {
                caption { "About " (own.total()) ", for " (own.runs) " runs and " (own.metrics) " metrics. List prices of us-east-1, without AWS's free tiers." }
                thead { tr { th scope="col" { "Part" } th.n scope="col" { "Cost" } } }
                tbody { @for (part, cost) in parts { tr { th scope="row" { (part) } td.n data-label="Cost" { (cost) } } } }
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
        @if !total.is_zero() || !report.footprint_caveats.is_empty() {
            section {
                h2 id="energy" { "Energy and carbon" }
                div.scroll tabindex="0" role="region" aria-labelledby="energy" { table {
                    caption { "Of instances. A figure spans from idle to fully used, unless it is of a job whose agent measured its GPUs." }
                    thead { tr { th scope="col" { "Team" } th.n scope="col" { "Energy" } th.n scope="col" { "Operational carbon" }
                        th.n scope="col" { "Embodied carbon" } } }
                    tbody {
                        @for row in report.teams.iter().filter(|row| !row.footprint.is_zero()).take(ROWS_MAX) {
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
    html! { tr { th scope="row" { (whose) } td.n data-label="Energy" { (figure(footprint, footprint.energy)) }
    td.n data-label="Operational carbon" { (figure(footprint, footprint.describe_operational())) }
    td.n data-label="Embodied carbon" { (figure(footprint, footprint.describe_embodied())) } } }
}
