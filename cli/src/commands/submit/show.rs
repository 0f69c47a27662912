//! The result of a submission, for people, and the question before a job that can cost much.

use jiff::SignedDuration;
use jobs::{ExpectedCost, JobSpec, Lifecycle, ModelSizing, SpecMistake, command_job, parameter_sweep};
use model::config::Config;
use model::duration;
use model::money::Amount;

use super::estimate::{JobEstimate, SweepEstimate};
use super::{COMMAND_LINE, SubmitAnswer, SubmitOptions, SubmitOutput};
use crate::command_error::CommandError;
use crate::commands::plans::minute;
use crate::screen::{self, ColumnAlignment, Table};

/// The most candidates that are shown.
const CANDIDATES_MAX: usize = 5;

pub(super) fn estimate(spec: &JobSpec, estimate: Option<&JobEstimate>, role_missing: Option<&str>) {
    candidates_and_costs(spec, estimate);
    if let Some(missing) = role_missing {
        screen::warn(format!("it would be held: {missing}"));
    }
}

fn candidates_and_costs(spec: &JobSpec, estimate: Option<&JobEstimate>) {
    let terms = &spec.terms;
    let max = duration::format_duration(SignedDuration::from_secs(terms.max_runtime_seconds));
    let restarts = match &terms.checkpoint {
        Some(checkpoint) => format!("it resumes from its checkpoints in {}", checkpoint.dir),
        None => "without [checkpoint] it starts at zero whenever its machine is lost".to_owned(),
    };
    let terms_line = match &terms.gpu_box {
        Some(gpu_box) => format!(
            "a box until {} UTC; it ends sooner once it is idle for {}",
            minute(gpu_box.until),
            duration::format_duration(SignedDuration::from_secs(gpu_box.idle_seconds))
        ),
        None => format!("for {max} at most; {restarts}"),
    };
    screen::print_line(format!("{}: {terms_line}", spec.name.as_str()));
    let gang = estimate.and_then(|estimate| estimate.gang.as_ref());
    match gang {
        Some(gang) => gang.describe().iter().for_each(screen::print_line),
        None if terms.is_gang() => screen::print_line(format!("{} machines, all or nothing", terms.gpu.nodes)),
        None => {}
    }
    let network = gang.and_then(|gang| gang.network.as_deref());
    terms.describe_network(network).iter().for_each(screen::print_line);
    if !spec.work.after.is_empty() {
        screen::print_line(format!("It begins once all of these have succeeded: {}", spec.work.after.join(", ")));
    }
    if let Some(idle) = spec.work.idle_max {
        screen::print_line(format!("It ends once every GPU has been idle for {}", duration::format_duration(idle)));
    }
    for line in spec.sizing.iter().flat_map(ModelSizing::describe) {
        screen::print_line(line);
    }
    for price in terms.transfer_prices() {
        screen::print_line(price.to_string());
    }
    let Some(estimate) = estimate.filter(|estimate| estimate.refused_network.is_none()) else { return };
    if let Some(why) = &estimate.nowhere {
        return screen::print_line(format!("It cannot be launched now, and would wait: {why}"));
    }
    places(estimate, terms.gpu.nodes);
    match estimate.worst_case {
        Some(worst) => {
            screen::print_line(format!(
                "\nIt can cost {} at most, which is reserved before it begins",
                worst.describe()
            ));
        }
        None => screen::print_line("\nIts limits leave it no time to run"),
    }
    if !estimate.expected_costs.is_empty() {
        expected_costs(&estimate.expected_costs);
    }
    if let Some(footprint) = &estimate.footprint {
        screen::print_line("");
        for line in footprint.describe() {
            screen::print_line(line);
        }
    }
}

/// The launch order, with the dearest place, and what is not in it.
fn places(estimate: &JobEstimate, nodes: u8) {
    let mut table = Table::new([
        ("type", ColumnAlignment::Left),
        ("bought", ColumnAlignment::Left),
        ("zone", ColumnAlignment::Left),
        ("now", ColumnAlignment::Right),
        ("at most", ColumnAlignment::Right),
    ]);
    for candidate in estimate.candidates.iter().take(CANDIDATES_MAX) {
        table.row([
            candidate.instance_type.to_string(),
            bought(candidate.lifecycle).to_owned(),
            candidate.zone.clone(),
            candidate.rate.to_string(),
            candidate.rate_max.to_string(),
        ]);
    }
    let of_all = if nodes > 1 { format!(", with the prices of all {nodes} machines together") } else { String::new() };
    screen::print_line(format!("\nLaunch order{of_all}:"));
    table.print();
    let more = estimate.candidates.len().saturating_sub(CANDIDATES_MAX);
    let dearest = estimate.candidates.iter().skip(CANDIDATES_MAX).max_by_key(|candidate| candidate.rate_max);
    if let Some(dearest) = dearest {
        screen::print_line(format!(
            "and {}, the dearest {} {} in {} at {} at most",
            screen::counted(more, "more place"),
            dearest.instance_type,
            bought(dearest.lifecycle),
            dearest.zone,
            dearest.rate_max
        ));
    }
    if let Some(left_out) = &estimate.left_out {
        screen::print_line(capitalized(left_out));
    }
}

const fn bought(lifecycle: Lifecycle) -> &'static str {
    match lifecycle {
        Lifecycle::Spot => "Spot",
        Lifecycle::OnDemand => "on demand",
    }
}

/// Capitalizes a text that is a line of its own.
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

pub(super) fn sweep(sweep: &SweepEstimate) {
    let SweepEstimate { members, max_parallel, first, last, worst_case_usd } = sweep;
    let at_once = max_parallel.map(|most| format!(", at most {most} unfinished at once")).unwrap_or_default();
    let (first, last) = (parameter_sweep::describe_parameters(first), parameter_sweep::describe_parameters(last));
    screen::print_line(format!("A sweep of {members} jobs{at_once}: from {first} to {last}"));
    if let Some(usd) = worst_case_usd {
        screen::print_line(format!("Together they can cost {usd} at most"));
    }
    screen::print_line("\nEach of its jobs:");
}

fn expected_costs(costs: &[ExpectedCost]) {
    let mut table = Table::new([
        ("deadline", ColumnAlignment::Left),
        ("expected", ColumnAlignment::Right),
        ("8 of 10 cost", ColumnAlignment::Left),
    ]);
    for (cost, note) in costs.iter().zip([", the soonest", ", as asked", "", ""]) {
        let within = cost.within_seconds.map(|seconds| seconds.saturating_add(30) / 60);
        let within = within.map(|minutes| format!("{}h{:02}m{note}", minutes / 60, minutes % 60));
        table.row([
            within.unwrap_or_else(|| "none".to_owned()),
            cost.usd.to_string(),
            format!("{} to {}", cost.usd_low, cost.usd_high),
        ]);
    }
    screen::print_line("\nExpected cost by deadline, at current prices:");
    table.print();
}

pub(super) fn submitted(document: &SubmitOutput<'_>) {
    let (Some(key), Some(job)) = (&document.submitted, &document.job) else { return };
    screen::print_line("");
    screen::print_line(format!("{job}: submitted as {key}"));
}

/// Its mistakes, or its answer.
pub(super) fn end(document: &SubmitOutput<'_>) {
    mistakes(&document.file, &document.mistakes);
    for denied in &document.inputs_denied {
        screen::print_line(denied);
    }
    match (&document.answer, &document.job) {
        (Some(SubmitAnswer { accepted: false, mistakes: found }), _) => {
            rejection(&document.file, found);
        }
        (Some(_), Some(job)) => {
            screen::print_line(format!("{job}: accepted; follow it:  curfew jobs {}", job.to_shell_word()));
        }
        (None, Some(job)) => screen::progress(format!("Follow it:  curfew jobs {}", job.to_shell_word())),
        (_, None) => {}
    }
}

pub(super) fn rejection(file: &str, found: &[SpecMistake]) {
    screen::print_line("It was rejected:");
    mistakes(file, found);
}

fn mistakes(file: &str, mistakes: &[SpecMistake]) {
    for SpecMistake { line, key, problem } in mistakes {
        let option = command_job::option_of_key(key).filter(|_| file == COMMAND_LINE);
        // A missing key has no line.
        let place = if *line == 0 { file.to_owned() } else { format!("{file}:{line}") };
        let place = match option {
            Some(option) => option.to_owned(),
            None if key.starts_with("--") => key.clone(),
            None if key.is_empty() => place,
            None => format!("{place}: key `{key}`"),
        };
        screen::print_line(format!("{place}: {problem}"));
    }
    match mistakes.len() {
        0 => {}
        count => screen::progress(screen::counted(count, "mistake")),
    }
}

impl SubmitOutput<'_> {
    /// True if it may cost so much: a person is asked above `[jobs] confirm_above_usd`.
    pub(super) fn is_confirmed(
        &self,
        spec: &JobSpec,
        config: &Config,
        usd: Option<Amount>,
        options: &SubmitOptions,
    ) -> Result<bool, CommandError> {
        let most = Amount::from_usd(config.jobs.confirm_above_usd);
        let is_unknown = self.estimate.as_ref().is_none_or(|estimate| estimate.nowhere.is_some());
        match usd {
            _ if options.yes => return Ok(true),
            None if is_unknown && spec.terms.max_usd.is_none() => {
                screen::warn("what it can cost is unknown: `limits.max_usd` limits it");
                return Ok(true);
            }
            None => return Ok(true),
            Some(usd) if usd <= most => return Ok(true),
            Some(usd) => screen::propose(format!(
                "It can cost {usd} at most, which is above {most}, `[jobs] confirm_above_usd` of the configuration."
            )),
        }
        let is_confirmed = screen::confirm("Submit it?", false)?;
        if !is_confirmed {
            screen::progress("Nothing was submitted.");
        }
        Ok(is_confirmed)
    }
}
