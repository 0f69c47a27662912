//! `curfew keep`, `protect` and `release`: what owners say by tag.

use clap::Args;
use cloud::CallError;
use cloud::operator::{LocateResult, locate, remove_tags, write_tag};
use jiff::Timestamp;
use model::curfew_tags::kept_until;
use model::duration;
use model::fault::InvalidValue;
use model::foreign_text::shell_word;
use model::id::{Region, ResourceId};
use model::instance::Tags;
use model::observation::ObservedResource;
use operator::keep::{KeepRequest, KeepUntil, TagChange, change};
use serde::Serialize;

use crate::command_error::{CommandError, describe_call_error};
use crate::command_status::CommandStatus;
use crate::context::CommandContext;
use crate::named_resource::{EnabledRegions, MissingResource, NamedResource, ResourceArgument};
use crate::screen;

/// Exempt resources from Curfew until a date
#[derive(Debug, Args)]
#[command(
    after_help = "Writes the tag curfew:keep-until. Until then Curfew skips them; an action that it has announced is \
                        off.\n\nExample:\n  curfew keep i-0123456789abcdef0 3d",
    override_usage = "curfew keep [OPTIONS] <RESOURCE>... <HOW-LONG>",
    // So that it is for `read` to say which of the two lacks.
    allow_missing_positional = true
)]
pub(crate) struct Keep {
    /// Ids, such as i-0123456789abcdef0, vol-0123456789abcdef0 or snap-0123456789abcdef0; or the Name of a GPU instance
    #[arg(value_name = "RESOURCE")]
    words: Vec<String>,
    /// Time to keep them: a duration (3d, 12h), until the end of a day (2026-09-30, UTC), or until a moment (RFC 3339)
    #[arg(value_name = "HOW-LONG")]
    until: String,
}

impl Keep {
    /// Returns the resources to keep. Needs nothing but what was typed.
    ///
    /// # Errors
    /// Where one of the two lacks, or stands where the other should.
    pub(crate) fn resources(&self) -> Result<Vec<ResourceArgument>, CommandError> {
        let named = |word: &String| word.parse::<NamedResource>();
        let example = self.words.iter().chain([&self.until]).find(|word| named(word).is_ok());
        let example = example.map_or("i-0123456789abcdef0", String::as_str);
        if named(&self.until).is_ok() {
            let typed_first = self.words.iter().find(|word| named(word).is_err());
            return Err(match typed_first {
                Some(_) => CommandError::new(format!("how long comes last, in one word: curfew keep {example} 3d")),
                None => CommandError::new(format!("for how long? curfew keep {example} 3d")),
            });
        }
        if self.words.is_empty() && !is_time(&self.until) {
            return Err(CommandError::new(format!("for how long? curfew keep {} 3d", shell_word(&self.until))));
        }
        if self.words.is_empty() {
            return Err(CommandError::new(format!("keep what? curfew keep {example} {}", self.until)));
        }
        self.words.iter().map(|word| read_resource(word, example)).collect()
    }

    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        let resources = self.resources()?;
        let until = KeepUntil::read(&self.until, context.now)
            .map_err(|why| CommandError::with(why, "how long comes last: curfew keep i-0123456789abcdef0 3d"))?;
        apply_request(context, &resources, KeepRequest::Keep(&until)).await
    }
}

/// Reads a word before the last. A time there is an error: `3 days`.
fn read_resource(word: &str, example: &str) -> Result<ResourceArgument, CommandError> {
    if is_time(word) {
        return Err(CommandError::new(format!("how long comes last, in one word: curfew keep {example} 3d")));
    }
    word.parse().map_err(|why: InvalidValue| CommandError::new(format!("{word:?} is {why}")))
}

/// `true` for a duration, a date, a moment, or a number without its unit.
fn is_time(word: &str) -> bool {
    let is_of_moment = |letter: char| letter.is_ascii_digit() || "-:.+TZ".contains(letter);
    duration::parse(word).is_ok() || (!word.is_empty() && word.chars().all(is_of_moment))
}

/// Exempt resources from Curfew for good
#[derive(Debug, Args)]
#[command(
    after_help = "Writes the tag curfew:protected. Curfew no longer touches them, not even their tags; its roles may not \
                        either.\n\nExample:\n  curfew protect i-0123456789abcdef0"
)]
pub(crate) struct Protect {
    /// Ids, such as i-0123456789abcdef0, vol-0123456789abcdef0 or snap-0123456789abcdef0; or the Name of a GPU instance
    #[arg(required = true, value_name = "RESOURCE")]
    resources: Vec<ResourceArgument>,
}

impl Protect {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        apply_request(context, &self.resources, KeepRequest::Protect).await
    }
}

/// End the exemption of resources
#[derive(Debug, Args)]
#[command(
    after_help = "Removes the tags curfew:keep-until and curfew:protected; the next run looks at them again.\n\n\
                        Example:\n  curfew release i-0123456789abcdef0"
)]
pub(crate) struct Release {
    /// Ids, such as i-0123456789abcdef0, vol-0123456789abcdef0 or snap-0123456789abcdef0; or the Name of a GPU instance
    #[arg(required = true, value_name = "RESOURCE")]
    resources: Vec<ResourceArgument>,
    /// Remove only curfew:keep-until
    #[arg(long, conflicts_with = "protected")]
    keep: bool,
    /// Remove only curfew:protected
    #[arg(long)]
    protected: bool,
}

impl Release {
    pub(crate) async fn run(self, context: &CommandContext) -> Result<CommandStatus, CommandError> {
        apply_request(context, &self.resources, KeepRequest::Release { keep: !self.protected, protected: !self.keep })
            .await
    }
}

#[derive(Debug, Serialize)]
struct KeepResult {
    region: Option<Region>,
    resource: ResourceId,
    outcome: KeepOutcome,
    keep_until: Option<Timestamp>,
    notes: Vec<String>,
    error: Option<String>,
    /// `true` if the outcome is unknown or nothing was done, for want of a permission or an answer.
    #[serde(skip)]
    unanswered: bool,
    /// Every region says that there is no such thing.
    #[serde(skip)]
    nowhere: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum KeepOutcome {
    Kept,
    Protected,
    Released,
    Unchanged,
    Failed,
}

#[derive(Debug, Serialize)]
struct KeepOutput<'a> {
    resources: &'a [KeepResult],
}

async fn apply_request(
    context: &CommandContext,
    resources: &[ResourceArgument],
    word: KeepRequest<'_>,
) -> Result<CommandStatus, CommandError> {
    let everywhere = EnabledRegions::load(context).await;
    let mut said = Vec::new();
    for named in &everywhere.resolve(context, resources).await? {
        let one = apply_to_resource(context, &everywhere, named, word).await;
        if !context.global.json {
            show(&one, word);
        }
        said.push(one);
    }
    if context.global.json {
        screen::json(&KeepOutput { resources: &said })?;
    }
    let done: Vec<&str> =
        said.iter().filter(|one| one.outcome != KeepOutcome::Failed).map(|one| one.resource.as_str()).collect();
    match word {
        _ if done.is_empty() => {}
        KeepRequest::Keep(_) | KeepRequest::Protect => {
            screen::progress(format!("To take it back: curfew release {}", done.join(" ")));
        }
        KeepRequest::Release { .. } => screen::progress("Curfew looks at it again at its next run."),
    }
    if said.iter().any(|one| one.unanswered) {
        screen::progress(format!("({})", context.whereabouts()));
    }
    // An id that is nowhere is a wrong one.
    let is_trouble = |one: &KeepResult| one.unanswered || one.nowhere;
    Ok(match (done.len() == said.len(), done.is_empty() && said.iter().all(is_trouble)) {
        (true, _) => CommandStatus::Success,
        (false, true) => CommandStatus::Error,
        (false, false) => CommandStatus::Findings,
    })
}

async fn apply_to_resource(
    context: &CommandContext,
    everywhere: &EnabledRegions,
    named: &NamedResource,
    word: KeepRequest<'_>,
) -> KeepResult {
    let failed = |region: Option<&Region>, error: String, unanswered: bool| KeepResult {
        region: region.cloned(),
        resource: named.id.clone(),
        outcome: KeepOutcome::Failed,
        keep_until: None,
        notes: Vec::new(),
        error: Some(error),
        unanswered,
        nowhere: false,
    };
    let seen = match everywhere.find(context, named).await {
        Ok(seen) => seen,
        Err(MissingResource { why, unseen }) => {
            return KeepResult { nowhere: unseen.is_empty(), ..failed(None, why, !unseen.is_empty()) };
        }
    };
    let region = seen.region();
    let change = match change(&seen, word, context.now) {
        Ok(change) => change,
        Err(why) => return failed(Some(region), why.to_string(), false),
    };
    if let Err(error) = make(context, &seen, &change).await {
        return failed(Some(region), describe_call_error(&error), true);
    }
    let (tags, unseen) = read_again(context, named, &seen, &change).await;
    let outcome = match word {
        _ if change.is_nothing() => KeepOutcome::Unchanged,
        KeepRequest::Keep(_) => KeepOutcome::Kept,
        KeepRequest::Protect => KeepOutcome::Protected,
        KeepRequest::Release { .. } => KeepOutcome::Released,
    };
    KeepResult {
        region: Some(region.clone()),
        resource: named.id.clone(),
        outcome,
        keep_until: match word {
            KeepRequest::Keep(until) => Some(until.at),
            KeepRequest::Protect | KeepRequest::Release { .. } => kept_until(&tags),
        },
        notes: change.notes.into_iter().chain(unseen).collect(),
        error: None,
        unanswered: false,
        nowhere: false,
    }
}

async fn make(context: &CommandContext, seen: &ObservedResource, change: &TagChange) -> Result<(), CallError> {
    if let Some((key, value)) = &change.written {
        write_tag(&context.aws, seen, key, value).await?;
    }
    remove_tags(&context.aws, seen, &change.removed).await
}

/// Its tags by now, and that they do not say so yet, where they do not: EC2 is eventually consistent.
async fn read_again(
    context: &CommandContext,
    named: &NamedResource,
    before: &ObservedResource,
    change: &TagChange,
) -> (Tags, Option<String>) {
    if change.is_nothing() {
        return (before.tags().clone(), None);
    }
    let regions = std::slice::from_ref(before.region());
    let LocateResult::Here(now) = locate(&context.aws, regions, named.kind, &named.id).await else {
        let unread = "EC2 took it, but could not be asked whether it shows it".to_owned();
        return (before.tags().clone(), Some(unread));
    };
    let unseen = (!change.is_made_in(now.tags())).then(|| {
        "EC2 took it, and does not show it yet; look again in a minute (it is eventually consistent)".to_owned()
    });
    (now.tags().clone(), unseen)
}

fn show(KeepResult { region, resource, outcome, notes, error, .. }: &KeepResult, word: KeepRequest<'_>) {
    let place = region.as_ref().map(|region| format!(" ({region})")).unwrap_or_default();
    if let Some(error) = error {
        return screen::complain(&CommandError::new(format!("{resource}{place}: {error}")));
    }
    let is = match word {
        KeepRequest::Keep(until) if until.at == Timestamp::MAX => "kept for ever".to_owned(),
        KeepRequest::Keep(until) => format!("kept until {}", until.at),
        KeepRequest::Protect => "protected".to_owned(),
        KeepRequest::Release { .. } if *outcome == KeepOutcome::Unchanged => "nothing to take back".to_owned(),
        KeepRequest::Release { .. } => "released".to_owned(),
    };
    let already = if *outcome == KeepOutcome::Unchanged { " (unchanged)" } else { "" };
    screen::print_line(format!("{resource}{place}: {is}{already}"));
    for note in notes {
        screen::print_line(format!("  {note}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: &str = "i-0123456789abcdef0";

    fn check(typed: &[&str], expect: Result<usize, &str>) {
        let words = typed.iter().map(|word| (*word).replace("GPU", GPU));
        let mut words: Vec<String> = words.collect();
        let until = words.pop().unwrap();
        let found = Keep { words, until }.resources();
        let said =
            |CommandError { problem, advice }| [problem, advice.unwrap_or_default()].join("; ").replace(GPU, "GPU");
        match (found, expect) {
            (Ok(resources), Ok(count)) => assert_eq!(resources.len(), count),
            (found, expect) => {
                let said = found.map(|_| ()).map_err(said).unwrap_err();
                assert!(said.contains(expect.unwrap_err()), "{typed:?}: {said}");
            }
        }
    }

    #[test]
    fn what_lacks_is_asked_for() {
        check(&["GPU", "3d"], Ok(1));
        check(&["GPU", "vol-0123456789abcdef0", "3d"], Ok(2));
        check(&["GPU"], Err("for how long? curfew keep GPU 3d"));
        check(&["GPU", "vol-0123456789abcdef0"], Err("for how long? curfew keep GPU 3d"));
        check(&["3d", "GPU"], Err("how long comes last, in one word: curfew keep GPU 3d"));
        check(&["GPU", "3", "days"], Err("how long comes last, in one word: curfew keep GPU 3d"));
        check(&["llama-ft", "3d"], Ok(1));
        check(&["8xh100", "3d"], Ok(1));
        check(&["llama-ft"], Err("for how long? curfew keep llama-ft 3d"));
        check(&["2026-09-30", "llama-ft"], Err("how long comes last"));
        check(&["3d"], Err("keep what? curfew keep GPU 3d"));
        check(&["i-oops", "3d"], Err("\"i-oops\" is not the id of an instance"));
    }
}
