//! What people say of one resource at the command line, in the vocabulary of its tags: keep it until then, protect it, or
//! take that back.

use jiff::Timestamp;

use crate::duration;
use crate::instance::{State, Tags};
use crate::mark::{Mark, whole_second};
use crate::plan::Seen;
use crate::vocabulary::{HOURS, KEEP_UNTIL, MARKED, PROTECTED, Unreadable, Vocabulary, explained, read_keep_until};
use crate::volume::VolumeState;

/// EC2 user guide, "Tag restrictions": of each resource, without AWS's own.
const TAGS_MAX: usize = 50;

/// Until when something is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Until {
    /// The moment.
    pub at: Timestamp,
    /// The value of `curfew:keep-until` that is read as that moment.
    pub value: String,
}

impl Until {
    /// Reads how long something is to be kept: for a duration from `now` on, or until what the tag may say.
    ///
    /// # Errors
    /// Where the text is none of these, or the moment is over.
    pub fn read(text: &str, now: Timestamp) -> Result<Self, String> {
        let until = match duration::parse(text) {
            Ok(duration) => {
                let at = whole_second(now + duration);
                Self { at, value: at.to_string() }
            }
            Err(_) => {
                Self { at: read_keep_until(text).map_err(|legal| unreadable(text, &legal))?, value: text.to_owned() }
            }
        };
        if until.at > now { Ok(until) } else { Err(format!("`{text}` is over: that was {}", until.at)) }
    }
}

fn unreadable(text: &str, legal: &str) -> String {
    format!(
        "`{text}` does not say for how long: write a duration such as `3d` or `12h`, or {}",
        legal.trim_start_matches("write ")
    )
}

/// What is said of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word<'a> {
    /// It is kept until then.
    Keep(&'a Until),
    /// It is never touched.
    Protect,
    /// What of it was said before is taken back.
    Release {
        /// That it is kept.
        keep: bool,
        /// That it is protected.
        protected: bool,
    },
}

/// What saying so changes on a resource, and what else its owner should know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// The tag that is written.
    pub written: Option<(&'static str, String)>,
    /// The tags that are removed.
    pub removed: Vec<&'static str>,
    /// For people.
    pub notes: Vec<String>,
}

impl Change {
    /// Whether the resource says so already.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.written.is_none() && self.removed.is_empty()
    }

    /// Whether these tags say so.
    #[must_use]
    pub fn is_made_in(&self, tags: &Tags) -> bool {
        let is_written = self.written.as_ref().is_none_or(|(key, value)| tags.get(*key) == Some(value));
        is_written && self.removed.iter().all(|key| !tags.contains_key(*key))
    }
}

/// What a word changes on a resource as it is at `now`.
///
/// # Errors
/// Why it cannot be said of it.
pub fn change(seen: &Seen, word: Word<'_>, now: Timestamp) -> Result<Change, String> {
    is_there(seen)?;
    let tags = seen.tags();
    let mut change = match word {
        Word::Keep(until) => keep(tags, until),
        Word::Protect => protect(tags),
        Word::Release { keep, protected } => release(tags, keep, protected),
    };
    if let Some((key, _)) = &change.written
        && !tags.contains_key(*key)
        && tags.keys().filter(|key| !key.starts_with("aws:")).count() >= TAGS_MAX
    {
        return Err(format!("it carries {TAGS_MAX} tags, and EC2 allows no more: remove one that nobody needs"));
    }
    let spared = spared_after(tags, &change, now);
    let notes = [announced(seen, spared, now), not_started(seen, spared), mistyped(seen), spared_still(word, spared)];
    change.notes.extend(notes.into_iter().flatten());
    Ok(change)
}

fn is_there(seen: &Seen) -> Result<(), String> {
    let gone = |how: &str| Err(format!("it is {how}"));
    match seen {
        Seen::Instance(instance) => match instance.state {
            State::Terminated => gone("terminated"),
            State::ShuttingDown => gone("being terminated"),
            State::Pending | State::Running | State::Stopping | State::Stopped | State::Unknown => Ok(()),
        },
        Seen::Volume(volume) => match volume.state {
            VolumeState::Deleted => gone("deleted"),
            VolumeState::Deleting => gone("being deleted"),
            _ => Ok(()),
        },
        Seen::Snapshot(snapshot) if snapshot.is_of_curfew() => Ok(()),
        Seen::Snapshot(_) => {
            Err("Curfew did not make it, and touches no snapshot but its own: there is nothing to say".to_owned())
        }
        Seen::Budget { .. } => Err("it is a budget, which nothing ends".to_owned()),
    }
}

fn keep(tags: &Tags, until: &Until) -> Change {
    let mut change = Change::default();
    match tags.get(KEEP_UNTIL).and_then(|value| read_keep_until(value).ok()) {
        Some(at) if at == until.at => {}
        before => {
            change.written = Some((KEEP_UNTIL, until.value.clone()));
            let longer = before.filter(|at| *at > until.at);
            change.notes.extend(longer.map(|at| format!("until now it was to be kept until {at}, which is longer")));
        }
    }
    if tags.contains_key(PROTECTED) {
        change.notes.push(format!("it carries {PROTECTED}, so it is left alone after that as well"));
    }
    change
}

fn protect(tags: &Tags) -> Change {
    let written = (!tags.contains_key(PROTECTED)).then(|| (PROTECTED, String::new()));
    Change { written, ..Change::default() }
}

fn release(tags: &Tags, keep: bool, protected: bool) -> Change {
    let asked = [(KEEP_UNTIL, keep), (PROTECTED, protected)];
    let removed: Vec<_> = asked.into_iter().filter(|(key, asked)| *asked && tags.contains_key(*key)).collect();
    Change { removed: removed.into_iter().map(|(key, _)| key).collect(), ..Change::default() }
}

/// Until when it is spared by what is said of it, once the change is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spared {
    No,
    Until(Timestamp),
    Always,
}

fn spared_after(tags: &Tags, change: &Change, now: Timestamp) -> Spared {
    let written = change.written.as_ref();
    let value = |key: &str| {
        let before = tags.get(key).filter(|_| !change.removed.contains(&key));
        written.filter(|(written, _)| *written == key).map(|(_, value)| value).or(before)
    };
    let until = value(KEEP_UNTIL).and_then(|value| read_keep_until(value).ok()).filter(|until| *until > now);
    match (value(PROTECTED), until) {
        (Some(_), _) => Spared::Always,
        (None, Some(until)) => Spared::Until(until),
        (None, None) => Spared::No,
    }
}

/// What becomes of what was announced.
fn announced(seen: &Seen, spared: Spared, now: Timestamp) -> Option<String> {
    let (id, since) = match seen {
        Seen::Instance(instance) => (&instance.id, instance.launched_at),
        Seen::Volume(volume) => (&volume.id, volume.created_at),
        Seen::Snapshot(_) | Seen::Budget { .. } => return None,
    };
    let mark: Mark = seen.tags().get(MARKED)?.parse().ok()?;
    let fresh = mark.entries.iter().filter(|(_, said)| mark.resource == *id && said.is_fresh(since, now));
    let (rule, said) = fresh.min_by_key(|(_, said)| said.deadline)?;
    let (ending, deadline) = (said.ending, said.deadline);
    let end = format!("what was announced ({rule}: {ending} at {deadline})");
    Some(match spared {
        Spared::Always => format!("{end} is not carried out as long as it is protected"),
        Spared::Until(until) if until > deadline => {
            format!("{end} is off; should it still be due after that, it is announced anew")
        }
        Spared::Until(_) => format!("{end} lies after that, and stands"),
        Spared::No if deadline <= now => {
            format!(
                "{end} may be carried out by the next run; keep it, or remove the tag {MARKED} to have it announced anew"
            )
        }
        Spared::No => format!("{end} stands"),
    })
}

/// What is spared is not started either.
fn not_started(seen: &Seen, spared: Spared) -> Option<String> {
    let stopped = seen.instance().filter(|instance| instance.state == State::Stopped);
    let has_hours = stopped.is_some_and(|instance| instance.tags.contains_key(HOURS));
    (has_hours && spared != Spared::No).then(|| "it is stopped, and its hours do not start it in that time".to_owned())
}

fn mistyped(seen: &Seen) -> Option<String> {
    let read = match seen {
        Seen::Instance(instance) => Vocabulary::read(instance),
        Seen::Volume(volume) => Vocabulary::read_volume(&volume.tags),
        Seen::Snapshot(snapshot) => Vocabulary::read_snapshot(&snapshot.tags),
        Seen::Budget { .. } => return None,
    };
    let is_other = |tag: &Unreadable| tag.key != KEEP_UNTIL;
    let unreadable: Vec<Unreadable> = read.err()?.into_iter().filter(is_other).collect();
    let said = explained(&unreadable);
    (!unreadable.is_empty()).then(|| format!("{said}; until that is mended it is left alone whatever else it says"))
}

/// What a narrowed release leaves.
fn spared_still(word: Word<'_>, spared: Spared) -> Option<String> {
    match (word, spared) {
        (Word::Release { .. }, Spared::Always) => Some(format!("it still carries {PROTECTED}")),
        (Word::Release { .. }, Spared::Until(until)) => Some(format!("it is still kept until {until}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
