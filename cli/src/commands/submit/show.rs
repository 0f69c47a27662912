//! What comes of a job, for people.

use domain::duration;
use domain::job::{Lifecycle, Mistake, Spec};
use jiff::SignedDuration;

use super::estimate::Estimate;
use super::{Answer, Document};
use crate::screen::{self, Side, Table, plain};

/// So many of the places where it would be tried are shown.
const CANDIDATES_MAX: usize = 5;

pub(super) fn estimate(spec: &Spec, estimate: Option<&Estimate>) {
    let terms = &spec.terms;
    let max = duration::show(SignedDuration::from_secs(terms.max_runtime_seconds));
    let restarts = match &terms.checkpoint {
        Some(checkpoint) => format!("it resumes from its checkpoints in {}", checkpoint.dir),
        None => "without [checkpoint] it begins at zero whenever its machine is lost".to_owned(),
    };
    screen::say(plain(&format!("{}: for {max} at most; {restarts}", spec.name.as_str())));
    let Some(estimate) = estimate else { return };
    if let Some(why) = &estimate.nowhere {
        return screen::say(plain(&format!("It can be launched nowhere now, and would wait: {why}")));
    }
    let mut table = Table::new([
        ("type", Side::Left),
        ("bought", Side::Left),
        ("zone", Side::Left),
        ("now", Side::Right),
        ("at most", Side::Right),
    ]);
    for candidate in estimate.candidates.iter().take(CANDIDATES_MAX) {
        table.row([
            candidate.instance_type.to_string(),
            match candidate.lifecycle {
                Lifecycle::Spot => "Spot".to_owned(),
                Lifecycle::OnDemand => "on demand".to_owned(),
            },
            candidate.zone.clone(),
            candidate.rate.to_string(),
            candidate.rate_max.to_string(),
        ]);
    }
    screen::say(format!("\nIt would be tried in this order:\n{table}"));
    let more = estimate.candidates.len().saturating_sub(CANDIDATES_MAX);
    if more > 0 {
        screen::say(format!("and {}", screen::counted(more, "more place")));
    }
    match estimate.worst_case {
        Some(worst) => {
            screen::say(format!("\nIt can cost {} at most, which is reserved before it begins", worst.in_words()));
        }
        None => screen::say("\nIts limits leave it no time to run"),
    }
}

pub(super) fn submitted(document: &Document<'_>) {
    let (Some(key), Some(job)) = (&document.submitted, &document.job) else { return };
    screen::say("");
    screen::say(plain(&format!("{job}: submitted as {key}")));
}

/// What is wrong with it, or what the answer was.
pub(super) fn end(document: &Document<'_>) {
    mistakes(&document.file, &document.mistakes);
    match (&document.answer, &document.job) {
        (Some(Answer { accepted: false, mistakes: found }), _) => {
            screen::say("It was rejected:");
            mistakes(&document.file, found);
        }
        (Some(_), Some(job)) => screen::say(plain(&format!("{job}: accepted; how it goes:  curfew jobs {job}"))),
        (None, Some(job)) => screen::progress(plain(&format!("How it goes:  curfew jobs {job}"))),
        (_, None) => {}
    }
}

fn mistakes(file: &str, mistakes: &[Mistake]) {
    for Mistake { line, key, problem } in mistakes {
        // What lacks is nowhere.
        let place = if *line == 0 { file.to_owned() } else { format!("{file}:{line}") };
        let key = if key.is_empty() { String::new() } else { format!("key `{key}`: ") };
        screen::say(plain(&format!("{place}: {key}{problem}")));
    }
    match mistakes.len() {
        0 => {}
        count => screen::progress(screen::counted(count, "mistake")),
    }
}
