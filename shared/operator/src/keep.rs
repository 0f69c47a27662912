//! What people say of one resource at the command line, in the vocabulary of its tags: keep it until then, protect it, or
//! take that back.

use jiff::Timestamp;
use model::curfew_tags::{
    CurfewTags, HOURS, KEEP_UNTIL, KEEP_UNTIL_FORMS, MARKED, PROTECTED, TAGS_MAX, UnreadableTag, explain_unreadable,
    read_keep_until,
};
use model::duration;
use model::fault::InvalidValue;
use model::instance::{InstanceState, Tags};
use model::mark::{Mark, whole_second};
use model::observation::ObservedResource;
use model::volume::VolumeState;

/// Until when something is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepUntil {
    /// The moment.
    pub at: Timestamp,
    /// The value of `curfew:keep-until` that is read as that moment.
    pub value: String,
}

impl KeepUntil {
    /// Reads how long something is to be kept: for a duration from `now` on, or until what the tag may say.
    ///
    /// # Errors
    /// Where the text is none of these, or the moment is over.
    pub fn read(text: &str, now: Timestamp) -> Result<Self, InvalidValue> {
        let until = match duration::parse(text) {
            Ok(duration) => {
                let at = whole_second(now + duration);
                Self { at, value: at.to_string() }
            }
            Err(_) => Self { at: read_keep_until(text).map_err(|_| unreadable(text))?, value: text.to_owned() },
        };
        if until.at > now {
            Ok(until)
        } else {
            Err(InvalidValue::new(format!("`{text}` is over: that was {}", until.at)))
        }
    }
}

fn unreadable(text: &str) -> InvalidValue {
    InvalidValue::new(format!(
        "`{text}` does not say for how long: write a duration such as `3d` or `12h`, or {KEEP_UNTIL_FORMS}"
    ))
}

/// What is said of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepRequest<'a> {
    /// It is kept until then.
    Keep(&'a KeepUntil),
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

/// Why nothing is said of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeepRefusal {
    /// It is not there, or not for long: how it is.
    #[error("it is {0}")]
    Gone(&'static str),
    /// It has no room for a tag.
    #[error("it carries {TAGS_MAX} tags, and EC2 allows no more: remove one that nobody needs")]
    TooManyTags,
    /// Somebody else's snapshot.
    #[error("Curfew did not make it, and touches no snapshot but its own: there is nothing to say")]
    ForeignSnapshot,
}

/// What saying so changes on a resource, and what else its owner should know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TagChange {
    /// The tag that is written.
    pub written: Option<(&'static str, String)>,
    /// The tags that are removed.
    pub removed: Vec<&'static str>,
    /// For people.
    pub notes: Vec<String>,
}

impl TagChange {
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
pub fn change(seen: &ObservedResource, word: KeepRequest<'_>, now: Timestamp) -> Result<TagChange, KeepRefusal> {
    is_there(seen)?;
    let tags = seen.tags();
    let mut change = match word {
        KeepRequest::Keep(until) => keep(tags, until),
        KeepRequest::Protect => protect(tags),
        KeepRequest::Release { keep, protected } => release(tags, keep, protected),
    };
    if let Some((key, _)) = &change.written
        && !tags.contains_key(*key)
        && tags.keys().filter(|key| !key.starts_with("aws:")).count() >= TAGS_MAX
    {
        return Err(KeepRefusal::TooManyTags);
    }
    let exemption = exemption_after(tags, &change, now);
    let notes = [
        announced(seen, exemption, now),
        not_started(seen, exemption),
        mistyped(seen),
        remaining_exemption(word, exemption),
    ];
    change.notes.extend(notes.into_iter().flatten());
    Ok(change)
}

fn is_there(seen: &ObservedResource) -> Result<(), KeepRefusal> {
    let gone = |how| Err(KeepRefusal::Gone(how));
    match seen {
        ObservedResource::Instance(instance) => match instance.state {
            InstanceState::Terminated => gone("terminated"),
            InstanceState::ShuttingDown => gone("being terminated"),
            InstanceState::Pending
            | InstanceState::Running
            | InstanceState::Stopping
            | InstanceState::Stopped
            | InstanceState::Unknown => Ok(()),
        },
        ObservedResource::Volume(volume) => match volume.state {
            VolumeState::Deleted => gone("deleted"),
            VolumeState::Deleting => gone("being deleted"),
            _ => Ok(()),
        },
        ObservedResource::Snapshot(snapshot) if snapshot.is_of_curfew() => Ok(()),
        ObservedResource::Snapshot(_) => Err(KeepRefusal::ForeignSnapshot),
    }
}

fn keep(tags: &Tags, until: &KeepUntil) -> TagChange {
    let mut change = TagChange::default();
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

fn protect(tags: &Tags) -> TagChange {
    let written = (!tags.contains_key(PROTECTED)).then(|| (PROTECTED, String::new()));
    TagChange { written, ..TagChange::default() }
}

fn release(tags: &Tags, keep: bool, protected: bool) -> TagChange {
    let asked = [(KEEP_UNTIL, keep), (PROTECTED, protected)];
    let removed: Vec<_> = asked.into_iter().filter(|(key, asked)| *asked && tags.contains_key(*key)).collect();
    TagChange { removed: removed.into_iter().map(|(key, _)| key).collect(), ..TagChange::default() }
}

/// Until when it is spared by what is said of it, once the change is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exemption {
    NotExempt,
    Until(Timestamp),
    Always,
}

fn exemption_after(tags: &Tags, change: &TagChange, now: Timestamp) -> Exemption {
    let written = change.written.as_ref();
    let value = |key: &str| {
        let before = tags.get(key).filter(|_| !change.removed.contains(&key));
        written.filter(|(written, _)| *written == key).map(|(_, value)| value).or(before)
    };
    let until = value(KEEP_UNTIL).and_then(|value| read_keep_until(value).ok()).filter(|until| *until > now);
    match (value(PROTECTED), until) {
        (Some(_), _) => Exemption::Always,
        (None, Some(until)) => Exemption::Until(until),
        (None, None) => Exemption::NotExempt,
    }
}

/// What becomes of what was announced.
fn announced(seen: &ObservedResource, exemption: Exemption, now: Timestamp) -> Option<String> {
    let (id, since) = match seen {
        ObservedResource::Instance(instance) => (&instance.id, instance.launched_at),
        ObservedResource::Volume(volume) => (&volume.id, volume.created_at),
        ObservedResource::Snapshot(_) => return None,
    };
    let mark: Mark = seen.tags().get(MARKED)?.parse().ok()?;
    let fresh = mark.entries.iter().filter(|(_, said)| mark.resource == *id && said.is_fresh(since, now));
    let (rule, said) = fresh.min_by_key(|(_, said)| said.deadline)?;
    let (ending, deadline) = (said.ending, said.deadline);
    let end = format!("what was announced ({rule}: {ending} at {deadline})");
    Some(match exemption {
        Exemption::Always => format!("{end} is not carried out as long as it is protected"),
        Exemption::Until(until) if until > deadline => {
            format!("{end} is off; should it still be due after that, it is announced anew")
        }
        Exemption::Until(_) => format!("{end} lies after that, and stands"),
        Exemption::NotExempt if deadline <= now => {
            format!(
                "{end} may be carried out by the next run; keep it, or remove the tag {MARKED} to have it announced anew"
            )
        }
        Exemption::NotExempt => format!("{end} stands"),
    })
}

/// What is spared is not started either.
fn not_started(seen: &ObservedResource, exemption: Exemption) -> Option<String> {
    let stopped = seen.instance().filter(|instance| instance.state == InstanceState::Stopped);
    let has_hours = stopped.is_some_and(|instance| instance.tags.contains_key(HOURS));
    (has_hours && exemption != Exemption::NotExempt)
        .then(|| "it is stopped, and its hours do not start it in that time".to_owned())
}

fn mistyped(seen: &ObservedResource) -> Option<String> {
    let read = match seen {
        ObservedResource::Instance(instance) => CurfewTags::read(instance),
        ObservedResource::Volume(volume) => CurfewTags::read_volume(&volume.tags),
        ObservedResource::Snapshot(snapshot) => CurfewTags::read_snapshot(&snapshot.tags),
    };
    let is_other = |tag: &UnreadableTag| tag.key != KEEP_UNTIL;
    let unreadable: Vec<UnreadableTag> = read.err()?.into_iter().filter(is_other).collect();
    let said = explain_unreadable(&unreadable);
    (!unreadable.is_empty()).then(|| format!("{said}; until that is mended it is left alone whatever else it says"))
}

/// What a narrowed release leaves.
fn remaining_exemption(word: KeepRequest<'_>, exemption: Exemption) -> Option<String> {
    match (word, exemption) {
        (KeepRequest::Release { .. }, Exemption::Always) => Some(format!("it still carries {PROTECTED}")),
        (KeepRequest::Release { .. }, Exemption::Until(until)) => Some(format!("it is still kept until {until}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
