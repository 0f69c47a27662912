//! Jobs for people.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use jobs::{
    AgentWarning, AgentWarningKind, Heartbeat, HeartbeatSigns, Job, JobCompletion, JobId, JobListRow, JobMachine,
    JobOverview, JobTerms, Lifecycle, SweepSummary, footprint, parameter_sweep, still_reserved,
};
use model::config::JOB_IDLE_MIN;
use model::duration;
use model::foreign_text::shell_word;
use model::id::TypeName;

use super::nodes;
use super::read::JobDetails;
use crate::commands::plans::minute;
use crate::screen::{self, ColumnAlignment, Table};

/// Columns that a narrow terminal leaves out before the reason, which is the last column.
const SPARED_FIRST: [&str; 4] = ["energy", "type", "machine", "until"];

const COLUMNS: usize = 11;

/// Between two epochs, or while it writes a checkpoint, a command uses no GPU for minutes.
const SHOWN_IDLE_SECONDS: i64 = JOB_IDLE_MIN.as_secs();

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
    for row in parameter_sweep::list_rows(jobs, sizes) {
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
    let machine = job.last_machine.as_ref();
    [
        job.job.to_string(),
        job.state.to_owned(),
        job.attempts.to_string(),
        machine.map_or_else(|| "-".to_owned(), JobMachine::name_instances),
        machine.map_or_else(|| "-".to_owned(), JobMachine::name_type),
        describe_step(job, now),
        length(job.seconds),
        job.cost_usd_max.to_string(),
        if job.footprint.is_zero() { "-".to_owned() } else { job.footprint.energy.to_string() },
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

/// `-`, `1200` or `1200 of 5000, 31m ago`.
pub(super) fn describe_step(job: &JobOverview, now: Timestamp) -> String {
    let age = describe_age(job.step_at, now);
    match (job.step, job.total_steps) {
        (Some(step), Some(total)) => format!("{step} of {total}{age}"),
        (Some(step), None) => format!("{step}{age}"),
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
    let of_nodes = nodes::describe_progress(overview, details, now);
    screen::print_line(format!("{}: {}{of_nodes}\n", overview.job, overview.state));
    nodes::print(job, details, now);
    let mut facts: Vec<(&str, String)> = vec![
        ("why", overview.why.clone()),
        ("owner", overview.owner.clone().unwrap_or_default()),
        ("submitted", format!("{} UTC", minute(overview.submitted_at))),
        ("attempts", overview.attempts.to_string()),
    ];
    facts.extend(origin(job, details));
    facts.extend(details.stop.as_ref().map(|stop| ("stop", stop.why.clone())));
    if let Some(machine) = &overview.last_machine {
        if overview.machine.is_some() {
            facts.push(("machine", describe_machine(machine)));
        } else {
            facts.push(("machine", format!("{}; it is gone", name_machine(machine))));
            facts.push(("launched", format!("{} UTC, {}", minute(machine.launched_at), describe_rates(machine))));
        }
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
    facts.extend(warnings.map(|warning| ("warning", describe_warning(job, details, warning, now))));
    facts.push(("ran", format!("{} at most", length(overview.seconds))));
    facts.push(("cost", format!("{} at most", overview.cost_usd_max)));
    if !overview.footprint.is_zero() {
        facts.push(("energy", footprint::figures(&overview.footprint)));
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
        // Often the reason of the state, too.
        if exit.why != overview.why {
            facts.push(("reason", exit.why.clone()));
        }
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

/// Returns the origin of a job: its sweep, its trigger, and the job whose checkpoint it begins with.
fn origin(job: &Job, details: &JobDetails) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some((member, sweep)) = job.sweep.as_ref().zip(job.sweep_id()) {
        facts.push(("sweep", format!("{sweep}, job {}", member.number)));
        facts.push(("parameters", parameter_sweep::describe_parameters(&member.parameters)));
    }
    facts.extend(details.trigger.iter().map(|(variable, value)| ("trigger", format!("{variable}={value}"))));
    let earlier = job.terms.resume_from(&job.job.team);
    facts.extend(earlier.map(|earlier| ("resume_from", format!("the newest checkpoint of {earlier}"))));
    facts
}

fn describe_machine(machine: &JobMachine) -> String {
    format!("{}, {}, since {} UTC", name_machine(machine), describe_rates(machine), minute(machine.launched_at))
}

fn describe_rates(machine: &JobMachine) -> String {
    format!("{} at launch and {} at most", machine.rate, machine.rate_max)
}

fn name_machine(machine: &JobMachine) -> String {
    let bought = match machine.lifecycle {
        Lifecycle::Spot => "on Spot",
        Lifecycle::OnDemand => "on demand",
    };
    format!("{} ({} {bought}, {})", machine.name_instances(), machine.name_type(), machine.zone)
}

/// Describes the last heartbeat. Its time is by S3's clock.
fn describe_heartbeat(details: &JobDetails, now: Timestamp) -> String {
    let Some(at) = details.heartbeat_at else { return String::new() };
    let ago = duration::format_duration(now.duration_since(at));
    let Some(heartbeat) = &details.heartbeat else { return format!("{ago} ago") };
    let doing = if heartbeat.doing.is_empty() { String::new() } else { format!(": {}", heartbeat.doing) };
    let age = describe_age(heartbeat.work.step_at(at), now);
    let step = heartbeat.step.map(|step| format!(", at step {step}{age}")).unwrap_or_default();
    let pace = heartbeat.steps_per_hour.map(|pace| format!(", {pace:.0} steps an hour")).unwrap_or_default();
    let idle = heartbeat.work.gpu_idle_seconds.and_then(|seconds| i64::try_from(seconds).ok());
    let idle = idle.filter(|seconds| *seconds >= SHOWN_IDLE_SECONDS).map(length);
    let idle = idle.map(|idle| format!(", every GPU idle for {idle}")).unwrap_or_default();
    format!("{ago} ago{doing}{step}{pace}{idle}")
}

/// A stall with what it costs.
fn describe_warning(job: &Job, details: &JobDetails, warning: AgentWarning, now: Timestamp) -> String {
    let cost =
        details.heartbeat.as_ref().zip(details.heartbeat_at).filter(|_| warning.kind == AgentWarningKind::Stalled);
    let cost = cost.and_then(|(Heartbeat { attempt, work, .. }, at)| {
        job.describe_stall_cost(&HeartbeatSigns { attempt: *attempt, signs: *work, at, now })
    });
    cost.map_or_else(|| warning.words.clone(), |cost| format!("{}. {cost}", warning.words))
}

/// `, 31m ago`; nothing if it is unknown.
fn describe_age(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map(|at| format!(", {} ago", duration::format_duration(now.duration_since(at)))).unwrap_or_default()
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
    let types: Vec<&str> = terms.types().0.iter().map(TypeName::as_str).collect();
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
    let machine = &terms.machine;
    let hardware = match gpu.count {
        0 => format!("no GPU, {} vCPUs, {} GiB", machine.vcpus, machine.memory_gib),
        count => format!("{count} {}{memory}", gpu.name.as_deref().unwrap_or("GPU")),
    };
    let each = if terms.is_gang() { format!("{} machines, each with ", gpu.nodes) } else { String::new() };
    format!("{each}{hardware}{types} {bought}, for {max} at most{estimated}{by}{usd}")
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
