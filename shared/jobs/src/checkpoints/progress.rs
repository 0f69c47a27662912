//! How fast a job goes, by the checkpoints that an attempt writes.

use jiff::SignedDuration;

/// The first and the newest checkpoint of an attempt, each with when it was seen, since the command began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckpointProgress {
    above: Option<u64>,
    first: Option<(u64, SignedDuration)>,
    newest: Option<(u64, SignedDuration)>,
}

impl CheckpointProgress {
    /// For an attempt that resumes from that step.
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
        let steps = u32::try_from(newest - first).ok().filter(|steps| *steps > 0)?;
        let hours = (until - since).as_secs_f64() / 3600.0;
        (hours > 0.0).then(|| (f64::from(steps) / hours * 10.0).round() / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
