//! Jobs for people.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use jobs::{
    Job, JobCompletion, JobId, JobListRow, JobMachine, JobOverview, JobTerms, Lifecycle, SweepSummary,
    describe_parameters, figures, list_rows, still_reserved,
};
use model::duration;
use model::foreign_text::shell_word;
use model::id::TypeName;

use super::read::JobDetails;
use crate::commands::plans::minute;
use crate::screen::{self, ColumnAlignment, Table};

/// What a narrow terminal leaves out before the reason, which is the last column.
const SPARED_FIRST: [&str; 4] = ["energy", "type", "machine", "until"];

const COLUMNS: usize = 11;

pub(super) fn print_jobs(jobs: &[JobOverview], sizes: &BTreeMap<JobId, u32>, all: bool, now: Timestamp) {
    if jobs.is_empty() {
        let more = if all { "" } else { "; curfew jobs --all also lists finished jobs" };
        return screen::print_line(format!("There are no jobs{more}"));
    }
    let mut table = Table::new([
        ("job", ColumnAlignment::Whole),
        ("state", ColumnAlignment::Left),
        ("attempts", ColumnAlignment::Right),
        ("machine", ColumnAlignment::Whole),
        ("type", ColumnAlignment::Left),
        ("step", ColumnAlignment::Right),
        ("ran", ColumnAlignment::Right),
        ("cost at most", ColumnAlignment::Right),
        ("energy", ColumnAlignment::Right),
        ("until", ColumnAlignment::Left),
        ("why", ColumnAlignment::Left),
    ])
    .sparing(1)
    .sparing_first(&SPARED_FIRST);
    let (mut first, mut first_sweep) = (None, None);
    for row in list_rows(jobs, sizes) {
        let row = match row {
            JobListRow::Job(job) => {
                first.get_or_insert_with(|| job.job.to_shell_word());
                job_row(job, now)
            }
            JobListRow::Sweep(sweep, summary) => {
                first_sweep.get_or_insert_with(|| sweep.to_shell_word());
                sweep_row(&sweep, &summary)
            }
        };
        table.row(row);
    }
    table.print();
    let named = first_sweep.map(|sweep| format!("{sweep}  (the jobs of a sweep)")).or(first).unwrap_or_default();
    screen::progress(format!("\nDetails:  curfew jobs {named}"));
}

fn job_row(job: &JobOverview, now: Timestamp) -> [String; COLUMNS] {
    let machine = job.machine.as_ref();
    [
        job.job.to_string(),
        job.state.to_owned(),
        job.attempts.to_string(),
        machine.map_or_else(|| "-".to_owned(), |machine| machine.instance.to_string()),
        machine.map_or_else(|| "-".to_owned(), |machine| machine.instance_type.to_string()),
        describe_step(job),
        length(job.seconds),
        job.cost_usd_max.to_string(),
        if job.footprint.is_known() { job.footprint.energy.to_string() } else { "-".to_owned() },
        job.until.map_or_else(|| "-".to_owned(), |until| until_when(until, now)),
        job.why.clone(),
    ]
}

fn sweep_row(sweep: &JobId, summary: &SweepSummary) -> [String; COLUMNS] {
    let none = || "-".to_owned();
    let (ran, cost) = (length(summary.seconds), summary.cost_usd_max.to_string());
    let why = format!("a sweep; its jobs: curfew jobs {}", shell_word(&sweep.job));
    [sweep.to_string(), summary.describe(), none(), none(), none(), none(), ran, cost, none(), none(), why]
}

/// `-`, `1200` or `1200 of 5000`.
pub(super) fn describe_step(job: &JobOverview) -> String {
    match (job.step, job.total_steps) {
        (Some(step), Some(total)) => format!("{step} of {total}"),
        (Some(step), None) => step.to_string(),
        (None, _) => "-".to_owned(),
    }
}

pub(super) fn print_job(
    job: &Job,
    overview: &JobOverview,
    details: &JobDetails,
    completion: Option<&JobCompletion>,
    now: Timestamp,
) {
    screen::print_line(format!("{}: {}\n", overview.job, overview.state));
    let mut facts: Vec<(&str, String)> = vec![
        ("why", overview.why.clone()),
        ("owner", overview.owner.clone().unwrap_or_default()),
        ("submitted", format!("{} UTC", minute(overview.submitted_at))),
        ("attempts", overview.attempts.to_string()),
    ];
    facts.extend(origin(job, details));
    if let Some(machine) = &overview.machine {
        facts.push(("machine", describe_machine(machine)));
    }
    if let Some(previous_attempt) = &job.previous_attempt {
        facts.push(("previous", format!("{}, not terminated yet", describe_machine(previous_attempt))));
    }
    if !overview.over {
        facts.push(("heartbeat", describe_heartbeat(details, now)));
    }
    facts.extend(completion.map(|completion| ("progress", format!("{} {}", completion.bar(), completion.describe()))));
    if let Some(heartbeat) = details.heartbeat.as_ref().filter(|_| !overview.over) {
        facts.extend(heartbeat.trend.lines());
    }
    facts.push(("checkpoint", checkpoint(overview, details)));
    let warnings = details.heartbeat.iter().flat_map(|heartbeat| heartbeat.warnings.clone());
    facts.extend(warnings.map(|warning| ("warning", warning.words)));
    facts.push(("ran", format!("{} at most", length(overview.seconds))));
    facts.push(("cost", format!("{} at most", overview.cost_usd_max)));
    if overview.footprint.is_known() {
        facts.push(("energy", figures(&overview.footprint)));
    }
    facts.extend(overview.footprint.caveats(now).into_iter().map(|caveat| ("", caveat)));
    if let Some(reserved) = still_reserved(job) {
        facts.push(("reserved", format!("{} until {} UTC", reserved.usd, minute(reserved.until))));
    }
    if let Some(until) = overview.until {
        let label = match overview.state {
            "waiting" | "held" => "tried again",
            _ if overview.over => "ended",
            _ => "ends by",
        };
        facts.push((label, format!("{} UTC ({})", minute(until), until_when(until, now))));
    }
    if let Some(exit) = &details.exit {
        let code = exit.code.map(|code| format!(", exit code {code}")).unwrap_or_default();
        facts.push(("last exit", format!("attempt {} at {} UTC{code}", exit.attempt, minute(exit.at))));
        facts.push(("reason", exit.why.clone()));
    }
    facts.extend(details.outputs.clone().map(|folder| ("outputs", folder)));
    if let Some(cancel) = details.cancel.as_ref().filter(|_| !overview.over) {
        let by = cancel.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        facts.push(("cancelled", format!("{} UTC{by}; its machine is terminated next", minute(cancel.at))));
    }
    facts.push(("requested", describe_terms(&job.terms)));
    let wide = facts.iter().map(|(label, _)| label.len()).max().unwrap_or_default();
    for (label, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
        screen::print_line(format!("{label:wide$}  {fact}"));
    }
    if overview.attempts > 0 {
        screen::progress(format!("\nIts log:  curfew logs {}", overview.job.to_shell_word()));
    }
}

/// Where it comes from: its sweep, its trigger, and the job whose checkpoint it begins with.
fn origin(job: &Job, details: &JobDetails) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some((member, sweep)) = job.sweep.as_ref().zip(job.sweep_id()) {
        facts.push(("sweep", format!("{sweep}, job {}", member.number)));
        facts.push(("parameters", describe_parameters(&member.parameters)));
    }
    facts.extend(details.trigger.iter().map(|(variable, value)| ("trigger", format!("{variable}={value}"))));
    let earlier = job.terms.resume_from(&job.job.team);
    facts.extend(earlier.map(|earlier| ("resume_from", format!("the newest checkpoint of {earlier}"))));
    facts
}

fn describe_machine(machine: &JobMachine) -> String {
    let bought = match machine.lifecycle {
        Lifecycle::Spot => "on Spot",
        Lifecycle::OnDemand => "on demand",
    };
    format!(
        "{} ({} {bought}, {}), {} at launch and {} at most, since {} UTC",
        machine.instance,
        machine.instance_type,
        machine.zone,
        machine.rate,
        machine.rate_max,
        minute(machine.launched_at)
    )
}

/// By S3's clock.
fn describe_heartbeat(details: &JobDetails, now: Timestamp) -> String {
    let Some(at) = details.heartbeat_at else { return String::new() };
    let ago = duration::format_duration(now.duration_since(at));
    let Some(heartbeat) = &details.heartbeat else { return format!("{ago} ago") };
    let doing = if heartbeat.doing.is_empty() { String::new() } else { format!(": {}", heartbeat.doing) };
    let step = heartbeat.step.map(|step| format!(", at step {step}")).unwrap_or_default();
    let pace = heartbeat.steps_per_hour.map(|pace| format!(", {pace:.0} steps an hour")).unwrap_or_default();
    format!("{ago} ago{doing}{step}{pace}")
}

fn checkpoint(overview: &JobOverview, details: &JobDetails) -> String {
    match details.head.as_ref().and_then(|head| Some((head, head.checkpoint?))) {
        Some((head, checkpoint)) => {
            let doubt = if head.unverified.contains(&checkpoint) { ", which may be incomplete" } else { "" };
            format!("step {}, of attempt {}{doubt}", checkpoint.step, checkpoint.attempt)
        }
        None => overview.step.map(|step| format!("step {step}")).unwrap_or_default(),
    }
}

fn describe_terms(terms: &JobTerms) -> String {
    let gpu = &terms.gpu;
    let memory = if gpu.memory_gib_min > 0 { format!(" of {} GiB", gpu.memory_gib_min) } else { String::new() };
    let types: Vec<&str> = gpu.types.iter().map(TypeName::as_str).collect();
    let types = if types.is_empty() { String::new() } else { format!(" ({})", types.join(", ")) };
    let bought = match &terms.spot {
        None => "on demand".to_owned(),
        Some(_) if terms.deadline_decides() => "on Spot or on demand, as its deadline decides".to_owned(),
        Some(spot) => match spot.fallback_to_on_demand_after_seconds {
            None => "on Spot".to_owned(),
            Some(seconds) => format!("on Spot, after {} on demand", length(seconds)),
        },
    };
    let usd = terms.max_usd.map(|usd| format!(", {usd} at most")).unwrap_or_default();
    let estimated = terms.estimated_runtime_seconds.map(|seconds| format!(", estimated {}", length(seconds)));
    let estimated = estimated.unwrap_or_default();
    let by = terms.finish_by.map(|by| format!(", by {} UTC", minute(by))).unwrap_or_default();
    let max = length(terms.max_runtime_seconds);
    format!("{} GPU{memory}{types} {bought}, for {max} at most{estimated}{by}{usd}", gpu.count)
}

pub(super) fn length(seconds: i64) -> String {
    duration::format_duration(SignedDuration::from_secs(seconds))
}

fn until_when(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        return format!("in {}", duration::format_duration(at.duration_since(now)));
    }
    format!("{} ago", duration::format_duration(now.duration_since(at)))
}
