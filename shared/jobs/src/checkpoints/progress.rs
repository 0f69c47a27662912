//! The speed of a job, by the checkpoints that an attempt writes, and the work that it would do twice.

use jiff::{SignedDuration, Timestamp};

/// The first and the newest checkpoint of an attempt, each with when it was seen, since the command began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckpointProgress {
    above: Option<u64>,
    first: Option<(u64, SignedDuration)>,
    newest: Option<(u64, SignedDuration)>,
}

impl CheckpointProgress {
    /// Begins the progress of an attempt that resumes from that step.
    #[must_use]
    pub const fn since(restored: Option<u64>) -> Self {
        Self { above: restored, first: None, newest: None }
    }

    /// A checkpoint was seen. What the attempt began with says nothing of how fast it is.
    pub fn saw(&mut self, step: u64, after: SignedDuration) {
        if self.above.is_none_or(|above| step > above) {
            self.above = Some(step);
            self.first.get_or_insert((step, after));
            self.newest = Some((step, after));
        }
    }

    /// Steps an hour, between the first and the newest: neither what comes before the first, such as reading the data, nor the time
    /// since the newest is that of any step.
    #[must_use]
    pub fn steps_per_hour(&self) -> Option<f64> {
        let ((first, since), (newest, until)) = (self.first?, self.newest?);
        let steps = u32::try_from(newest.saturating_sub(first)).ok().filter(|steps| *steps > 0)?;
        let hours = until.saturating_sub(since).as_secs_f64() / 3600.0;
        (hours > 0.0).then(|| (f64::from(steps) / hours * 10.0).round() / 10.0)
    }
}

/// The time that a command has run since the newest checkpoint that counts was written: the work that a loss of the machine would repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnsavedWork {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl UnsavedWork {
    pub const fn begin_command(&mut self, now: Timestamp) {
        (self.since, self.until) = (Some(now), None);
    }

    /// Stops the count: from now on no time is added.
    pub const fn end_command(&mut self, now: Timestamp) {
        if self.until.is_none() {
            self.until = Some(now);
        }
    }

    /// Counts the work up to that time as saved. A time before the command began is that of another machine's file.
    pub fn save(&mut self, written_at: Timestamp) {
        self.since = self.since.map(|since| since.max(written_at));
    }

    /// `None` before the command began.
    #[must_use]
    pub fn seconds(&self, now: Timestamp) -> Option<u64> {
        let run = self.until.unwrap_or(now).duration_since(self.since?);
        Some(u64::try_from(run.as_secs()).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use model::fixture::time;

    use super::*;

    #[test]
    fn the_time_since_the_newest_checkpoint_is_unsaved() {
        let at = |minute: i64| time("2026-11-22T05:00:00Z") + SignedDuration::from_mins(minute);
        let mut work = UnsavedWork::default();
        assert_eq!(work.seconds(at(5)), None);
        work.begin_command(at(10));
        assert_eq!(work.seconds(at(25)), Some(900));
        work.save(at(20));
        assert_eq!(work.seconds(at(25)), Some(300));
        work.save(at(1));
        assert_eq!(work.seconds(at(25)), Some(300), "a time before that says nothing");
        work.end_command(at(30));
        work.end_command(at(50));
        assert_eq!(work.seconds(at(60)), Some(600));
        work.save(at(40));
        assert_eq!(work.seconds(at(60)), Some(0), "what was written at the very end");
    }

    fn check(restored: Option<u64>, seen: &[(u64, i64)], expect: Option<f64>) {
        let mut progress = CheckpointProgress::since(restored);
        for (step, minute) in seen {
            progress.saw(*step, SignedDuration::from_mins(*minute));
        }
        assert_eq!(progress.steps_per_hour(), expect);
    }

    #[test]
    fn a_rate_needs_two_checkpoints_of_the_attempt() {
        check(None, &[], None);
        check(None, &[(100, 15)], None);
        check(None, &[(100, 15), (200, 30)], Some(400.0));
        check(Some(500), &[(500, 1), (600, 15)], None);
        check(Some(500), &[(500, 1), (600, 25), (700, 40), (800, 55)], Some(400.0));
    }

    #[test]
    fn nothing_passes_between_looks() {
        check(None, &[(100, 15), (200, 30), (200, 60)], Some(400.0));
        check(None, &[(100, 15), (200, 30), (50, 60)], Some(400.0));
        check(None, &[(100, 15), (200, 15)], None);
    }
}
