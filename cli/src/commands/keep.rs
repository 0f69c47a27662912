//! `curfew keep`, `protect` and `release`: what owners say by tag.

use clap::Args;
use cloud::CallError;
use cloud::operator::{Located, locate, remove_tags, write_tag};
use domain::id::{Region, ResourceId};
use domain::instance::Tags;
use domain::keep::{Change, Until, Word, change};
use domain::plan::Seen;
use domain::vocabulary::kept_until;
use jiff::Timestamp;
use serde::Serialize;

use crate::context::Context;
use crate::ending::Ending;
use crate::failure::{Failure, of_call};
use crate::named::{Everywhere, Missing, Named};
use crate::screen;

/// Leave resources alone until then
#[derive(Debug, Args)]
#[command(
    after_help = "Writes the tag curfew:keep-until. Until then Curfew leaves them alone; an end that it has announced is \
                        off.\n\nExample:\n  curfew keep i-0123456789abcdef0 3d",
    override_usage = "curfew keep [OPTIONS] <RESOURCE>... <HOW-LONG>",
    // So that it is for `read` to say which of the two lacks.
    allow_missing_positional = true
)]
pub(crate) struct Keep {
    /// Ids, such as i-0123456789abcdef0, vol-0123456789abcdef0 or snap-0123456789abcdef0
    #[arg(value_name = "RESOURCE")]
    words: Vec<String>,
    /// For how long (3d, 12h), until the end of which day (2026-09-30, UTC), or until which moment (RFC 3339)
    #[arg(value_name = "HOW-LONG")]
    until: String,
}

impl Keep {
    /// What to keep. Needs nothing but what was typed.
    ///
    /// # Errors
    /// Where one of the two lacks, or stands where the other should.
    pub(crate) fn resources(&self) -> Result<Vec<Named>, Failure> {
        let named = |word: &String| word.parse::<Named>();
        let example = self.words.iter().chain([&self.until]).find(|word| named(word).is_ok());
        let example = example.map_or("i-0123456789abcdef0", String::as_str);
        if named(&self.until).is_ok() {
            let typed_first = self.words.iter().find(|word| named(word).is_err());
            return Err(match typed_first {
                Some(_) => Failure::of(format!("how long comes last, in one word: curfew keep {example} 3d")),
                None => Failure::of(format!("for how long? curfew keep {example} 3d")),
            });
        }
        if self.words.is_empty() {
            return Err(Failure::of(format!("keep what? curfew keep {example} {}", self.until)));
        }
        self.words.iter().map(|word| named(word).map_err(|why| not_an_id(word, &why, example))).collect()
    }

    pub(crate) async fn run(self, context: &Context) -> Result<Ending, Failure> {
        let resources = self.resources()?;
        let until = Until::read(&self.until, context.now)
            .map_err(|why| Failure::with(why, "how long comes last: curfew keep i-0123456789abcdef0 3d"))?;
        say(context, &resources, Word::Keep(&until)).await
    }
}

/// A word before the last that names nothing: as in `3 days`, or a wrong id.
fn not_an_id(word: &str, why: &str, example: &str) -> Failure {
    if word.starts_with(|first: char| first.is_ascii_digit()) {
        return Failure::of(format!("how long comes last, in one word: curfew keep {example} 3d"));
    }
    Failure::of(format!("{word:?} is {why}"))
}

/// Never touch resources
#[derive(Debug, Args)]
#[command(
    after_help = "Writes the tag curfew:protected. Curfew touches them no more, not even their tags; its roles may not \
                        either.\n\nExample:\n  curfew protect i-0123456789abcdef0"
)]
pub(crate) struct Protect {
    /// Ids, such as i-0123456789abcdef0, vol-0123456789abcdef0 or snap-0123456789abcdef0
    #[arg(required = true, value_name = "RESOURCE")]
    resources: Vec<Named>,
}

impl Protect {
    pub(crate) async fn run(self, context: &Context) -> Result<Ending, Failure> {
        say(context, &self.resources, Word::Protect).await
    }
}

/// Take `keep` and `protect` back
#[derive(Debug, Args)]
#[command(
    after_help = "Removes the tags curfew:keep-until and curfew:protected; the next run looks at them again.\n\n\
                        Example:\n  curfew release i-0123456789abcdef0"
)]
pub(crate) struct Release {
    /// Ids, such as i-0123456789abcdef0, vol-0123456789abcdef0 or snap-0123456789abcdef0
    #[arg(required = true, value_name = "RESOURCE")]
    resources: Vec<Named>,
    /// Take back only that they are kept
    #[arg(long, conflicts_with = "protected")]
    keep: bool,
    /// Take back only that they are protected
    #[arg(long)]
    protected: bool,
}

impl Release {
    pub(crate) async fn run(self, context: &Context) -> Result<Ending, Failure> {
        say(context, &self.resources, Word::Release { keep: !self.protected, protected: !self.keep }).await
    }
}

/// What became of one resource, for programs.
#[derive(Debug, Serialize)]
struct Said {
    region: Option<Region>,
    resource: ResourceId,
    outcome: Outcome,
    keep_until: Option<Timestamp>,
    notes: Vec<String>,
    error: Option<String>,
    /// Nobody could say or do it, for want of a permission or an answer.
    #[serde(skip)]
    unanswered: bool,
    /// Every region says that there is no such thing.
    #[serde(skip)]
    nowhere: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Kept,
    Protected,
    Released,
    Unchanged,
    Failed,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: u32,
    resources: &'a [Said],
}

async fn say(context: &Context, resources: &[Named], word: Word<'_>) -> Result<Ending, Failure> {
    let everywhere = Everywhere::of(context).await;
    let mut said = Vec::new();
    for named in resources {
        let one = say_of(context, &everywhere, named, word).await;
        if !context.global.json {
            show(&one, word);
        }
        said.push(one);
    }
    if context.global.json {
        screen::json(&Document { schema: screen::SCHEMA, resources: &said })?;
    }
    let done: Vec<&str> =
        said.iter().filter(|one| one.outcome != Outcome::Failed).map(|one| one.resource.as_str()).collect();
    match word {
        _ if done.is_empty() => {}
        Word::Keep(_) | Word::Protect => {
            screen::progress(format!("To take it back: curfew release {}", done.join(" ")));
        }
        Word::Release { .. } => screen::progress("Curfew looks at it again at its next run."),
    }
    if said.iter().any(|one| one.unanswered) {
        screen::progress(format!("({})", context.whereabouts()));
    }
    // An id that is nowhere is a wrong one.
    let is_trouble = |one: &Said| one.unanswered || one.nowhere;
    Ok(match (done.len() == said.len(), done.is_empty() && said.iter().all(is_trouble)) {
        (true, _) => Ending::Fine,
        (false, true) => Ending::Trouble,
        (false, false) => Ending::Found,
    })
}

async fn say_of(context: &Context, everywhere: &Everywhere, named: &Named, word: Word<'_>) -> Said {
    let failed = |region: Option<&Region>, error: String, unanswered: bool| Said {
        region: region.cloned(),
        resource: named.id.clone(),
        outcome: Outcome::Failed,
        keep_until: None,
        notes: Vec::new(),
        error: Some(error),
        unanswered,
        nowhere: false,
    };
    let seen = match everywhere.find(context, named).await {
        Ok(seen) => seen,
        Err(Missing { why, unseen }) => {
            return Said { nowhere: unseen.is_empty(), ..failed(None, why, !unseen.is_empty()) };
        }
    };
    let region = seen.region();
    let change = match change(&seen, word, context.now) {
        Ok(change) => change,
        Err(why) => return failed(Some(region), why, false),
    };
    if let Err(error) = make(context, region, named, &change).await {
        return failed(Some(region), of_call(&error), true);
    }
    let (tags, unseen) = read_again(context, named, &seen, &change).await;
    let outcome = match word {
        _ if change.is_nothing() => Outcome::Unchanged,
        Word::Keep(_) => Outcome::Kept,
        Word::Protect => Outcome::Protected,
        Word::Release { .. } => Outcome::Released,
    };
    Said {
        region: Some(region.clone()),
        resource: named.id.clone(),
        outcome,
        keep_until: match word {
            Word::Keep(until) => Some(until.at),
            Word::Protect | Word::Release { .. } => kept_until(&tags),
        },
        notes: change.notes.into_iter().chain(unseen).collect(),
        error: None,
        unanswered: false,
        nowhere: false,
    }
}

async fn make(context: &Context, region: &Region, named: &Named, change: &Change) -> Result<(), CallError> {
    if let Some((key, value)) = &change.written {
        write_tag(&context.aws, region, &named.id, key, value).await?;
    }
    remove_tags(&context.aws, region, &named.id, &change.removed).await
}

/// Its tags by now, and that they do not say so yet, where they do not: EC2 is eventually consistent.
async fn read_again(context: &Context, named: &Named, before: &Seen, change: &Change) -> (Tags, Option<String>) {
    if change.is_nothing() {
        return (before.tags().clone(), None);
    }
    let regions = std::slice::from_ref(before.region());
    let Located::Here(now) = locate(&context.aws, regions, named.kind, &named.id).await else {
        let unread = "EC2 took it, but could not be asked whether it shows it".to_owned();
        return (before.tags().clone(), Some(unread));
    };
    let unseen = (!change.is_made_in(now.tags())).then(|| {
        "EC2 took it, and does not show it yet; look again in a minute (it is eventually consistent)".to_owned()
    });
    (now.tags().clone(), unseen)
}

fn show(Said { region, resource, outcome, notes, error, .. }: &Said, word: Word<'_>) {
    let place = region.as_ref().map(|region| format!(" ({region})")).unwrap_or_default();
    if let Some(error) = error {
        return screen::complain(&Failure::of(format!("{resource}{place}: {error}")));
    }
    let is = match word {
        Word::Keep(until) if until.at == Timestamp::MAX => "kept for ever".to_owned(),
        Word::Keep(until) => format!("kept until {}", until.at),
        Word::Protect => "protected".to_owned(),
        Word::Release { .. } if *outcome == Outcome::Unchanged => "nothing to take back".to_owned(),
        Word::Release { .. } => "released".to_owned(),
    };
    let already = if *outcome == Outcome::Unchanged { " (unchanged)" } else { "" };
    screen::say(format!("{resource}{place}: {is}{already}"));
    for note in notes {
        screen::say(format!("  {note}"));
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
        let said = |Failure { problem, advice }| [problem, advice.unwrap_or_default()].join("; ").replace(GPU, "GPU");
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
        check(&["3d"], Err("keep what? curfew keep GPU 3d"));
        check(&["i-oops", "3d"], Err("\"i-oops\" is not the id of an instance"));
    }
}
