//! The time between a warning and the end of a machine, and whether a checkpoint fits into it.

use jiff::{SignedDuration, Timestamp};

use super::WARNING;

/// What is kept free of the time for what comes after a checkpoint: head, the exit record, the log.
const CLOSING: SignedDuration = SignedDuration::from_secs(10);

/// The least that a command gets to end by itself.
const GRACE_MIN: SignedDuration = SignedDuration::from_secs(15);

/// Nothing is begun in the last of the time.
const LAST_SECONDS: SignedDuration = SignedDuration::from_secs(5);

/// How large the last checkpoint was, and how long its upload took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Its size.
    pub bytes: u64,
    /// From its first byte to head.
    pub took: SignedDuration,
}

impl Measured {
    /// Why a checkpoint as this one could not be brought away after a warning; for its owner. `None` where it can.
    #[must_use]
    pub fn too_large(&self) -> Option<String> {
        let usable = WARNING - CLOSING - GRACE_MIN;
        if self.took <= usable {
            return None;
        }
        let (mib, seconds) = (self.bytes.div_ceil(1024 * 1024), self.took.as_secs());
        Some(format!(
            "the upload of a checkpoint of {mib} MiB took {seconds} s, and after an interruption warning there are {} s for \
             it: what is done since the checkpoint before would be done again; write smaller ones, or more often",
            usable.as_secs()
        ))
    }
}

/// How long a command that was told to end is waited for, of all the time that there is, so that what it wrote can still be brought away.
#[must_use]
pub fn grace(total: SignedDuration, last: Option<Measured>) -> SignedDuration {
    let total = total.max(SignedDuration::ZERO);
    // Without one that was measured, half of the time.
    let upload = last.map_or(total / 2, |measured| measured.took + measured.took / 4);
    (total - CLOSING - upload).max(GRACE_MIN.min(total / 2))
}

/// How long something can be done after a warning: until what AWS said, two minutes at most, and not the last seconds. What was over
/// already is no moment that anybody can keep: one of the clocks is wrong.
#[must_use]
pub fn time_to_flush(warned: Timestamp, said: Option<Timestamp>) -> SignedDuration {
    let said = said.map(|said| said.duration_since(warned)).filter(SignedDuration::is_positive);
    said.unwrap_or(WARNING).min(WARNING) - LAST_SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{NOW, time};

    fn check_grace(seconds: i64, took: Option<i64>, expect: i64) {
        let last = took.map(|took| Measured { bytes: 1, took: SignedDuration::from_secs(took) });
        assert_eq!(grace(SignedDuration::from_secs(seconds), last).as_secs(), expect);
    }

    #[test]
    fn a_command_gets_what_the_upload_leaves() {
        check_grace(120, Some(40), 60);
        check_grace(120, Some(4), 105);
        check_grace(120, None, 50);
    }

    #[test]
    fn a_command_always_gets_some_time() {
        check_grace(120, Some(400), 15);
        check_grace(10, Some(400), 5);
        check_grace(-5, None, 0);
    }

    #[test]
    fn a_checkpoint_is_too_large_where_its_upload_takes_longer_than_is_left() {
        let measured = |seconds| Measured { bytes: 9 << 30, took: SignedDuration::from_secs(seconds) };
        assert_eq!(measured(95).too_large(), None);
        assert!(measured(96).too_large().is_some_and(|words| words.contains("9216 MiB took 96 s")));
    }

    #[test]
    fn what_aws_says_is_believed_up_to_two_minutes() {
        let warned = time(NOW);
        let left = |said: Option<i64>| {
            let said = said.map(|seconds| warned + SignedDuration::from_secs(seconds));
            time_to_flush(warned, said).as_secs()
        };
        assert_eq!([left(None), left(Some(60)), left(Some(600))], [115, 55, 115]);
        assert_eq!([left(Some(0)), left(Some(-60))], [115, 115]);
    }
}
