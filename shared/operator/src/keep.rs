//! The tag changes of `curfew keep`, `protect` and `release` on one resource.

use jiff::Timestamp;
use model::curfew_tags::{
    CurfewTags, HOURS, KEEP_UNTIL, KEEP_UNTIL_FORMS, MARKED, PROTECTED, TAGS_MAX, UnreadableTag, explain_unreadable,
    has_room, read_keep_until,
};
use model::duration;
use model::fault::InvalidValue;
use model::instance::{InstanceState, Tags};
use model::mark::whole_second;
use model::moment::after;
use model::observation::ObservedResource;
use model::sagemaker::SageMakerStatus;
use model::volume::VolumeState;

/// The time until which a resource is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepUntil {
    pub at: Timestamp,
    /// The value for `curfew:keep-until`.
    pub value: String,
}

impl KeepUntil {
    /// Reads a duration from `now` on, or any value that the tag may have.
    ///
    /// # Errors
    /// If the text is neither, or the time is in the past.
    pub fn read(text: &str, now: Timestamp) -> Result<Self, InvalidValue> {
        let until = match duration::parse(text) {
            Ok(duration) => {
                let at = whole_second(after(now, duration));
                Self { at, value: at.to_string() }
            }
            Err(_) => Self { at: read_keep_until(text).map_err(|_| unreadable(text))?, value: text.to_owned() },
        };
        if until.at > now {
            Ok(until)
        } else {
            Err(InvalidValue::new(format!("`{text}` is in the past: {}", until.at)))
        }
    }
}

fn unreadable(text: &str) -> InvalidValue {
    InvalidValue::new(format!(
        "`{text}` is not a duration or a date: write a duration such as `3d` or `12h`, or {KEEP_UNTIL_FORMS}"
    ))
}

/// The exemption, or its end, that a person asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepRequest<'a> {
    /// Exempt it until then.
    Keep(&'a KeepUntil),
    /// Exempt it for good.
    Protect,
    /// End the exemption.
    Release {
        /// Ends the exemption by `curfew:keep-until`.
        keep: bool,
        /// Ends the exemption by `curfew:protected`.
        protected: bool,
    },
}

/// The reason why a resource cannot be tagged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeepRefusal {
    /// The resource is deleted or terminated, or is about to be.
    #[error("it is {0}")]
    Gone(&'static str),
    /// The resource has as many tags as EC2 allows.
    #[error("it has {TAGS_MAX} tags, and EC2 allows no more: remove one")]
    TooManyTags,
    /// Curfew did not make the snapshot.
    #[error("Curfew did not make this snapshot, and does not delete snapshots of others")]
    ForeignSnapshot,
}

/// The tags that change, and what else the owner should know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TagChange {
    pub written: Option<(&'static str, String)>,
    pub removed: Vec<&'static str>,
    /// Notes for people.
    pub notes: Vec<String>,
}

impl TagChange {
    /// Returns `true` if the resource already has these tags.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.written.is_none() && self.removed.is_empty()
    }

    /// Returns `true` if these tags show the change.
    #[must_use]
    pub fn is_made_in(&self, tags: &Tags) -> bool {
        let is_written = self.written.as_ref().is_none_or(|(key, value)| tags.get(*key) == Some(value));
        is_written && self.removed.iter().all(|key| !tags.contains_key(*key))
    }
}

/// The change that a request makes to a resource at `now`.
///
/// # Errors
/// Why the resource cannot be tagged.
pub fn change(seen: &ObservedResource, word: KeepRequest<'_>, now: Timestamp) -> Result<TagChange, KeepRefusal> {
    is_there(seen)?;
    let tags = seen.tags();
    let mut change = match word {
        KeepRequest::Keep(until) => keep(tags, until),
        KeepRequest::Protect => protect(tags),
        KeepRequest::Release { keep, protected } => release(tags, keep, protected),
    };
    if let Some((key, _)) = &change.written
        && !has_room(tags, &[*key])
    {
        return Err(KeepRefusal::TooManyTags);
    }
    let exemption = exemption_after(tags, &change, now);
    let notes = [
        announced(seen, exemption),
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
        ObservedResource::SageMaker(resource) => match resource.status {
            SageMakerStatus::Deleted => gone("deleted"),
            SageMakerStatus::Deleting => gone("being deleted"),
            _ => Ok(()),
        },
        ObservedResource::Snapshot(snapshot) if snapshot.described_run().is_some() => Ok(()),
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
            change.notes.extend(longer.map(|at| format!("this is shorter than before: it was kept until {at}")));
        }
    }
    if tags.contains_key(PROTECTED) {
        change.notes.push(format!("it has {PROTECTED}, so Curfew skips it after that date too"));
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

/// The exemption of a resource after the change.
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

/// Tells the owner what happens to an announced action. The mark is only a hint that there is one.
fn announced(seen: &ObservedResource, exemption: Exemption) -> Option<String> {
    seen.tags().contains_key(MARKED).then(|| match exemption {
        Exemption::Always => "an announced action is off as long as the resource is protected".to_owned(),
        Exemption::Until(_) => {
            "an announced action is off; if a rule is violated after that date, Curfew announces it anew".to_owned()
        }
        Exemption::NotExempt => {
            "an action that was announced before is announced anew, with the whole grace".to_owned()
        }
    })
}

/// Curfew does not start what it skips.
fn not_started(seen: &ObservedResource, exemption: Exemption) -> Option<String> {
    let is_stopped = match seen {
        ObservedResource::Instance(instance) => instance.state == InstanceState::Stopped,
        ObservedResource::SageMaker(resource) => resource.status == SageMakerStatus::Stopped,
        ObservedResource::Volume(_) | ObservedResource::Snapshot(_) => false,
    };
    let has_hours = is_stopped && seen.tags().contains_key(HOURS);
    (has_hours && exemption != Exemption::NotExempt)
        .then(|| "it is stopped, and its hours do not start it while it is exempt".to_owned())
}

fn mistyped(seen: &ObservedResource) -> Option<String> {
    let read = match seen {
        ObservedResource::Instance(instance) => CurfewTags::read(instance),
        ObservedResource::Volume(volume) => CurfewTags::read_volume(&volume.tags),
        ObservedResource::Snapshot(snapshot) => CurfewTags::read_volume(&snapshot.tags),
        ObservedResource::SageMaker(resource) => CurfewTags::read_sagemaker(resource.created_at, &resource.tags),
    };
    let is_other = |tag: &UnreadableTag| tag.key != KEEP_UNTIL;
    let unreadable: Vec<UnreadableTag> = read.err()?.into_iter().filter(is_other).collect();
    let explanation = explain_unreadable(&unreadable);
    (!unreadable.is_empty()).then(|| format!("{explanation}; Curfew skips it until that is corrected"))
}

/// The exemption that remains after a release of only one tag.
fn remaining_exemption(word: KeepRequest<'_>, exemption: Exemption) -> Option<String> {
    match (word, exemption) {
        (KeepRequest::Release { .. }, Exemption::Always) => Some(format!("it still has {PROTECTED}")),
        (KeepRequest::Release { .. }, Exemption::Until(until)) => Some(format!("it is still kept until {until}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
