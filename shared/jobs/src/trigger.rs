//! `triggers/<team>/<name>.toml`: a job document with a section `[trigger]`. It makes a document of the inbox for what arrives in a bucket.

pub(crate) mod document;
mod object;
mod read;

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use model::digest::sha256_hex;
use model::duration;
use serde::{Deserialize, Serialize};

use crate::WorkdirDigest;
use crate::input::is_folder_marker;

pub use object::{
    FOLDER_MAX, TRIGGERS, TriggerListing, TriggerObject, schedule_key, schedules_folder, state_key, trigger_key,
};
pub(crate) use read::NAME_CHARACTERS_MAX;

/// Days for which a made job is remembered. An event comes up to two days late: EventBridge retries for 24 hours, and the queue keeps it
/// for another 24.
const REMEMBERED_DAYS: i64 = 2;

/// The digits of a document's name that say for which object it was made.
const DIGITS: usize = 12;

/// A legal trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    /// The name of its file, without `.toml`.
    name: String,
    bucket: String,
    /// Empty or with a `/` at its end.
    prefix: String,
    kind: TriggerKind,
    max_per_day: u32,
    /// The document without `[trigger]`.
    text: String,
    /// The archive that its jobs bring along.
    workdir: Option<WorkdirDigest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TriggerKind {
    EachObject,
    /// A job for all that arrived, once nothing has arrived for that long.
    Quiet(SignedDuration),
}

/// An object that was written to a bucket, by an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    pub bucket: String,
    pub key: String,
    pub version: Option<String>,
    pub etag: Option<String>,
    pub bytes: Option<u64>,
    /// Time of the arrival by the event; `None`: now.
    pub at: Option<Timestamp>,
}

/// `triggers/<team>/<name>.state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TriggerState {
    /// The days of the jobs that were made, by the digits in the names of their documents. A document may not be written yet.
    made: BTreeMap<String, Date>,
    /// The last day on which `max_per_day` was used up, and how many arrivals got no job on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<(Date, u64)>,
    /// Last arrival for which no document was written; only for `quiet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<Timestamp>,
    /// Last arrival for which a document was written; only for `quiet`.
    #[serde(skip_serializing_if = "Option::is_none")]
    done_until: Option<Timestamp>,
}

/// A document for the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggeredDocument {
    /// Its name there, without `.toml`.
    pub name: String,
    pub text: String,
    /// Last arrival that the document is for; only for `quiet`.
    until: Option<Timestamp>,
}

impl TriggeredDocument {
    /// A document that waited for no quiet.
    pub(crate) const fn at_once(name: String, text: String) -> Self {
        Self { name, text, until: None }
    }
}

impl TriggerState {
    /// Returns `true` if an arrival waits for quiet, or for the next day.
    #[must_use]
    pub const fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns the number of arrivals that got no job on the day of `now`.
    #[must_use]
    pub fn refused_on(&self, now: Timestamp) -> u64 {
        self.refused.filter(|(day, _)| *day == day_of(now)).map_or(0, |(_, count)| count)
    }

    /// Returns the state once these documents are written.
    #[must_use]
    pub fn settled(&self, written: &[TriggeredDocument]) -> Self {
        let Some(until) = written.iter().filter_map(|document| document.until).max() else { return self.clone() };
        let pending = self.pending.filter(|at| *at > until);
        Self { pending, done_until: self.done_until.max(Some(until)), ..self.clone() }
    }

    /// Returns `true` if a job may be made: it was counted before, or the day has one left.
    fn admit(&mut self, digits: &str, today: Date, max: u32) -> bool {
        if self.made.contains_key(digits) {
            return true;
        }
        let made = self.made.values().filter(|day| **day == today).count();
        let admits = u32::try_from(made).is_ok_and(|made| made < max);
        if admits {
            self.made.insert(digits.to_owned(), today);
        }
        admits
    }
}

impl Trigger {
    /// Its document without `[trigger]`, of which all other lines keep their numbers.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Describes the folder that it watches, and the number of jobs that it makes.
    #[must_use]
    pub fn describe(&self) -> String {
        let makes = match self.kind {
            TriggerKind::EachObject => "a job for each object that arrives".to_owned(),
            TriggerKind::Quiet(quiet) => {
                format!("a job once nothing has arrived for {}", duration::format_duration(quiet))
            }
        };
        let Self { name, bucket, prefix, max_per_day, .. } = self;
        let jobs = if *max_per_day == 1 { "job" } else { "jobs" };
        format!("{name} watches s3://{bucket}/{prefix}: {makes}, at most {max_per_day} {jobs} a day (UTC)")
    }

    /// The most jobs of a day.
    #[must_use]
    pub const fn max_per_day(&self) -> u32 {
        self.max_per_day
    }

    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Returns `true` if it waits for quiet.
    /// The archive that its jobs bring along.
    #[must_use]
    pub const fn workdir(&self) -> Option<&WorkdirDigest> {
        self.workdir.as_ref()
    }

    #[must_use]
    pub const fn is_quiet(&self) -> bool {
        matches!(self.kind, TriggerKind::Quiet(_))
    }

    /// True if the object is below its prefix, and more than the marker of a folder.
    #[must_use]
    pub fn concerns(&self, arrival: &Arrival) -> bool {
        let below = arrival.key.strip_prefix(&self.prefix);
        let is_below = arrival.bucket == self.bucket && below.is_some_and(|rest| !rest.is_empty());
        is_below && !is_folder_marker(&arrival.key, arrival.bytes)
    }

    /// Returns the writes for these arrivals, and for those that are pending: first the state, then the documents, then the state as
    /// [`TriggerState::settled`]. Each step may be repeated after a crash: the same arrivals make the same documents, and count once.
    #[must_use]
    pub fn next(
        &self,
        before: &TriggerState,
        arrivals: &[Arrival],
        now: Timestamp,
    ) -> (TriggerState, Vec<TriggeredDocument>) {
        let (today, mut state) = (day_of(now), before.clone());
        let oldest = today.saturating_sub(jiff::Span::new().days(REMEMBERED_DAYS));
        state.made.retain(|_, day| *day >= oldest);
        let mut documents = Vec::new();
        match self.kind {
            TriggerKind::EachObject => {
                let mut refused = state.refused_on(now);
                for arrival in arrivals.iter().filter(|arrival| self.concerns(arrival)) {
                    let version = arrival.version.as_ref().or(arrival.etag.as_ref()).cloned().unwrap_or_default();
                    let digits = digits_of([&arrival.bucket, &arrival.key, &version]);
                    if state.admit(&digits, today, self.max_per_day) {
                        documents.extend(self.document(&digits, &self.variables(Some(arrival)), None));
                    } else {
                        refused = refused.saturating_add(1);
                        state.refused = Some((today, refused));
                    }
                }
            }
            TriggerKind::Quiet(quiet) => {
                let new = arrivals
                    .iter()
                    .filter(|arrival| self.concerns(arrival))
                    .map(|arrival| arrival.at.map_or(now, |at| at.min(now)));
                // The job that was made since had the object before its eyes.
                let new = new.filter(|at| state.done_until.is_none_or(|done| *at > done));
                state.pending = new.chain(state.pending).max();
                if let Some(last) = state.pending.filter(|last| now.duration_since(*last) >= quiet) {
                    let digits = digits_of([&self.bucket, &self.prefix, &last.to_string()]);
                    if state.admit(&digits, today, self.max_per_day) {
                        documents.extend(self.document(&digits, &self.variables(None), Some(last)));
                    } else {
                        state.refused = Some((today, 1));
                    }
                }
            }
        }
        (state, documents)
    }

    /// Returns the variables that the command finds in its environment.
    fn variables(&self, arrival: Option<&Arrival>) -> Vec<(&'static str, String)> {
        let mut variables = vec![("TRIGGER_BUCKET", self.bucket.clone())];
        match arrival {
            Some(Arrival { key, version, .. }) => {
                variables.push(("TRIGGER_KEY", key.clone()));
                variables.extend(version.clone().map(|version| ("TRIGGER_VERSION", version)));
            }
            None => variables.push(("TRIGGER_PREFIX", self.prefix.clone())),
        }
        variables
    }

    fn document(
        &self,
        digits: &str,
        variables: &[(&'static str, String)],
        until: Option<Timestamp>,
    ) -> Option<TriggeredDocument> {
        let text = document::with_variables(&self.text, &self.name, variables)?;
        Some(TriggeredDocument { name: format!("{}.{digits}", self.name), text, until })
    }
}

fn digits_of(parts: [&str; 3]) -> String {
    let mut digits = sha256_hex(parts.join("\0").as_bytes());
    digits.truncate(DIGITS);
    digits
}

fn day_of(now: Timestamp) -> Date {
    now.to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests;
