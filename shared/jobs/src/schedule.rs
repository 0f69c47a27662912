//! `triggers/<team>/schedules/<name>.toml`: a job document with a section `[schedule]`. It makes a document of the inbox at the moments of a cron
//! expression.

mod cron;
mod read;

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use model::duration::format_duration;
use serde::{Deserialize, Serialize};

use crate::trigger::document;
use crate::{JobId, JobName, TriggeredDocument, WORKDIR_KEPT, WorkdirDigest};

pub use cron::CronExpression;
pub use read::{append_section, name_options};

/// Longest delay after which a moment still makes its job. Only the newest moment does, so that an outage ends with one job and no burst.
pub const CATCH_UP: SignedDuration = SignedDuration::from_hours(1);

/// Time in which missed moments are counted: those before are long forgotten, and a run counts each minute.
const COUNTED: SignedDuration = SignedDuration::from_hours(24 * 31);

/// Time after a moment in which its state is read: a run that was cut off has left something in it. The rest is for the write itself, whose time
/// is by S3's clock.
const READ_AFTER: SignedDuration = SignedDuration::from_mins(70);

/// Time before the deletion of its archive in which a schedule's team is notified.
const EXPIRES_SOON: SignedDuration = SignedDuration::from_hours(24 * 7);

/// The variable with the moment in the environment of the command, in UTC as in RFC 3339.
const SCHEDULED_AT: &str = "SCHEDULED_AT";

/// A legal schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The name of its file, without `.toml`.
    name: String,
    cron: CronExpression,
    zone: TimeZone,
    max_at_once: u32,
    /// The document without `[schedule]`.
    text: String,
    /// The name of its jobs.
    job: JobName,
    /// The archive that its jobs bring along.
    workdir: Option<WorkdirDigest>,
}

/// `triggers/<team>/schedules/<name>.state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScheduleState {
    /// Time up to which every moment has its outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// A moment whose document may not be written yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Timestamp>,
    /// Moments whose documents had no answer of the inbox when it was last read: each counts as an unfinished job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unanswered: Vec<Timestamp>,
    /// The newest moment that made a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted: Option<Timestamp>,
    /// The newest moment that made none, as too many of its jobs were unfinished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<SkippedMoment>,
    /// The newest moments at which no run looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<MissedMoments>,
}

/// A moment that made no job because of `max_at_once`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedMoment {
    pub at: Timestamp,
    /// Jobs of the schedule that were unfinished then.
    pub unfinished: usize,
}

/// Moments that made no job, and no later run makes up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedMoments {
    pub first: Timestamp,
    pub last: Timestamp,
    pub count: usize,
    /// The reason of the last of them.
    #[serde(default, skip_serializing_if = "MissReason::is_late")]
    pub reason: MissReason,
}

/// Reason why a moment is missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissReason {
    /// No run looked in time.
    #[default]
    Late,
    /// The bucket no longer has the archive of the working directory.
    WorkdirGone,
}

/// Facts by which a due moment makes its job or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScheduleFacts {
    /// Its jobs that are unfinished, with those that the inbox has not answered.
    pub unfinished: usize,
    /// `true` if its jobs bring an archive along that the bucket does not have.
    pub is_workdir_gone: bool,
}

/// Work of a run about a schedule: it writes the state, then the document if there is one, then the state as [`ScheduleState::settled`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleDecision {
    pub state: ScheduleState,
    pub document: Option<TriggeredDocument>,
    /// A moment that this run skips.
    pub skipped: Option<SkippedMoment>,
    /// Moments that this run finds missed.
    pub missed: Option<MissedMoments>,
}

impl MissReason {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    const fn is_late(&self) -> bool {
        matches!(self, Self::Late)
    }
}

impl ScheduleState {
    /// Returns the state once the document of its pending moment is written.
    #[must_use]
    pub fn settled(&self) -> Self {
        let mut state = self.clone();
        if let Some(at) = state.pending.take() {
            state.submitted = Some(at);
            state.unanswered.push(at);
        }
        state
    }
}

impl Schedule {
    /// The name of its jobs, by which they are counted.
    #[must_use]
    pub const fn job(&self) -> &JobName {
        &self.job
    }

    /// Counts its jobs among the unfinished ones of its team. A sweep counts as one.
    #[must_use]
    pub fn count_unfinished(&self, unfinished: &[JobId]) -> usize {
        let whole = unfinished.iter().map(|id| id.as_member().map_or_else(|| id.clone(), |(sweep, _)| sweep));
        whole.filter(|id| id.name() == self.job.as_str()).collect::<BTreeSet<_>>().len()
    }

    /// Its document without `[schedule]`, of which all other lines keep their numbers.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    #[must_use]
    pub const fn cron(&self) -> &CronExpression {
        &self.cron
    }

    /// The name of its time zone.
    #[must_use]
    pub fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The most of its jobs that are unfinished at once.
    #[must_use]
    pub const fn max_at_once(&self) -> u32 {
        self.max_at_once
    }

    /// The archive that its jobs bring along.
    #[must_use]
    pub const fn workdir(&self) -> Option<&WorkdirDigest> {
        self.workdir.as_ref()
    }

    /// Time at which the bucket deletes its archive, if that is within a week or before the next moment.
    #[must_use]
    pub fn workdir_expires_soon(&self, uploaded_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let expires_at = uploaded_at.saturating_add(WORKDIR_KEPT).unwrap_or(Timestamp::MAX);
        let is_soon = expires_at.duration_since(now) < EXPIRES_SOON;
        (is_soon || self.next_after(now).is_some_and(|next| expires_at <= next)).then_some(expires_at)
    }

    /// The first moment after that time.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.cron.next_after(after, &self.zone)
    }

    /// Describes its moments, and how many of its jobs there are at once.
    #[must_use]
    pub fn describe(&self, now: Timestamp) -> String {
        let Self { name, cron, max_at_once, .. } = self;
        let jobs = if *max_at_once == 1 { "job" } else { "jobs" };
        let next = self.next_after(now).map_or_else(String::new, |at| {
            let in_words = format_duration(at.duration_since(now));
            format!(", next at {} (in {in_words})", at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M %Z"))
        });
        format!(
            "{name} runs by `{}` in {}: at most {max_at_once} {jobs} at once{next}",
            cron.as_str(),
            self.zone_name()
        )
    }

    /// Returns `true` if a run has to read the state: without one, or if a moment is so near that it may have no outcome yet.
    #[must_use]
    pub fn is_state_needed(&self, state_written_at: Option<Timestamp>, now: Timestamp) -> bool {
        let Some(written_at) = state_written_at else { return true };
        let from = written_at.saturating_sub(READ_AFTER).unwrap_or(Timestamp::MIN);
        self.next_after(from).is_some_and(|at| at <= now)
    }

    /// Returns `true` if a moment is due, so that [`next`](Self::next) has to know how many jobs are unfinished.
    #[must_use]
    pub fn is_due(&self, state: &ScheduleState, written_at: Timestamp, now: Timestamp) -> bool {
        self.moments(state, written_at, now).last().is_some_and(|at| is_in_time(*at, now))
    }

    /// Decides about every moment that has no outcome yet. `written_at`: of its document, whose moments begin then.
    ///
    /// The newest moment makes a job if it is at most [`CATCH_UP`] ago, fewer than `max_at_once` are unfinished, and its archive is there. Each
    /// earlier one is missed.
    #[must_use]
    pub fn next(
        &self,
        before: &ScheduleState,
        written_at: Timestamp,
        ScheduleFacts { unfinished, is_workdir_gone }: ScheduleFacts,
        now: Timestamp,
    ) -> ScheduleDecision {
        let moments = self.moments(before, written_at, now);
        let newest = moments.last().copied();
        let due = newest.filter(|at| is_in_time(*at, now));
        let mut missed: Vec<Timestamp> = moments.into_iter().filter(|at| Some(*at) != due).collect();
        let mut state = before.clone();
        state.until = newest.or(before.until).or_else(|| Some(first_look(written_at, now)));
        // The document of a pending moment may be there: writing it again changes nothing.
        let is_lost = |at: &Timestamp| due.is_some() || !is_in_time(*at, now);
        if let Some(lost) = state.pending.take_if(|at| is_lost(at)) {
            missed.insert(0, lost);
        }
        let (mut skipped, mut reason) = (None, MissReason::Late);
        if let Some(at) = due {
            if is_workdir_gone {
                missed.push(at);
                reason = MissReason::WorkdirGone;
            } else if u32::try_from(unfinished).is_ok_and(|unfinished| unfinished < self.max_at_once) {
                state.pending = Some(at);
            } else {
                skipped = Some(SkippedMoment { at, unfinished });
            }
        }
        let document = state.pending.and_then(|at| self.document(at));
        let missed = missed.first().zip(missed.last()).map(|(first, last)| MissedMoments {
            first: *first,
            last: *last,
            count: missed.len(),
            reason,
        });
        state.skipped = skipped.or(state.skipped);
        state.missed = missed.or(state.missed);
        ScheduleDecision { state, document, skipped, missed }
    }

    /// The name in the inbox of the document of a moment, without `.toml`: the same moment has the same name.
    #[must_use]
    pub fn document_name(&self, at: Timestamp) -> String {
        format!("{}.{}", self.name, at.strftime("%Y%m%d%H%M"))
    }

    fn document(&self, at: Timestamp) -> Option<TriggeredDocument> {
        let text = document::with_variables(&self.text, &self.name, &[(SCHEDULED_AT, at.to_string())])?;
        Some(TriggeredDocument::at_once(self.document_name(at), text))
    }

    /// The moments that have no outcome yet, in order.
    fn moments(&self, state: &ScheduleState, written_at: Timestamp, now: Timestamp) -> Vec<Timestamp> {
        let counted = now.saturating_sub(COUNTED).unwrap_or(Timestamp::MIN);
        let from = state.until.map_or_else(|| first_look(written_at, now), |until| until.max(written_at));
        self.cron.between(from.max(counted), now, &self.zone)
    }
}

/// The time from which moments count for a schedule without a state. Of one that is older than its first run none is missed.
fn first_look(written_at: Timestamp, now: Timestamp) -> Timestamp {
    written_at.max(now.saturating_sub(CATCH_UP).unwrap_or(Timestamp::MIN))
}

fn is_in_time(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) <= CATCH_UP
}

#[cfg(test)]
mod tests;
