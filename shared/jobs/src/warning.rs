//! The time between a warning and the end of a machine, and whether a checkpoint fits into it.

use jiff::{SignedDuration, Timestamp};

use super::WARNING;

/// Time that is kept free for the work after a checkpoint: head, the exit record, the log.
const CLOSING: SignedDuration = SignedDuration::from_secs(10);

/// The least that a command gets to end by itself.
const GRACE_MIN: SignedDuration = SignedDuration::from_secs(15);

/// Last part of the time, in which no work is begun.
const LAST_SECONDS: SignedDuration = SignedDuration::from_secs(5);

/// Throughput in bytes a second, where no upload was measured yet: less than half of what a volume gives by default (EBS user guide,
/// "General Purpose SSD volumes": gp3 has 125 MiB/s), and an upload reads from one.
const RATE: u64 = 50_000_000;

/// The size of the last checkpoint, and the time that its upload took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadMeasurement {
    /// Its size.
    pub bytes: u64,
    /// Time from its first byte to head.
    pub took: SignedDuration,
}

impl UploadMeasurement {
    /// Explains why a checkpoint like this one could not be brought away after a warning; for its owner. `None` if it can.
    #[must_use]
    pub fn too_large(&self) -> Option<String> {
        let usable = WARNING.saturating_sub(CLOSING).saturating_sub(GRACE_MIN);
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

/// The data that has to be brought away after a warning, as far as known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingUpload {
    /// Size of the newest checkpoint that lies there and is not kept, whole or not.
    pub bytes: u64,
    /// The last one that was kept: what is written next is as large at least.
    pub last: Option<UploadMeasurement>,
}

impl PendingUpload {
    /// Returns the time that its upload takes, and somewhat longer. A time that was not measured is a guess, and takes half of the time at
    /// most.
    fn upload_time(self, total: SignedDuration) -> SignedDuration {
        match self.last {
            // A small one takes as long as S3 does to answer, whatever its size.
            Some(UploadMeasurement { bytes, took }) => {
                let longer = took.saturating_add(part(took, 4));
                self.scaled_time(longer, bytes).max(longer)
            }
            None => self.scaled_time(SignedDuration::from_secs(1), RATE).min(part(total, 2)),
        }
    }

    /// Returns the time that an upload takes at this throughput.
    fn scaled_time(self, took: SignedDuration, bytes: u64) -> SignedDuration {
        let millis = took.as_millis().saturating_mul(i128::from(self.bytes)) / i128::from(bytes.max(1));
        SignedDuration::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
    }
}

fn part(time: SignedDuration, parts: i32) -> SignedDuration {
    time.checked_div(parts).unwrap_or(time)
}

/// Returns the time to wait for a command after its signal: until the upload needs the rest of the time. A command that has written nothing
/// yet gets all of it, because a kill would lose its checkpoint.
#[must_use]
pub fn grace(total: SignedDuration, load: PendingUpload) -> SignedDuration {
    let total = total.max(SignedDuration::ZERO);
    total.saturating_sub(CLOSING).saturating_sub(load.upload_time(total)).max(GRACE_MIN.min(part(total, 2)))
}

/// The part of the `left` time in which no upload runs: head, the exit record and the log come after them. The next attempt waits
/// for that record.
#[must_use]
pub fn time_after_uploads(left: SignedDuration) -> SignedDuration {
    CLOSING.min(part(left.max(SignedDuration::ZERO), 2))
}

/// Returns the time in which something can be done after a warning: until the moment that AWS said, two minutes at most, and not the last
/// seconds. A moment that was over already cannot be kept: one of the clocks is wrong.
#[must_use]
pub fn time_to_flush(warned: Timestamp, announced: Option<Timestamp>) -> SignedDuration {
    let notice = announced.map(|at| at.duration_since(warned)).filter(SignedDuration::is_positive);
    notice.unwrap_or(WARNING).min(WARNING).saturating_sub(LAST_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::fixture::{NOW, time};

    const GIB: u64 = 1 << 30;

    fn check_grace(seconds: i64, bytes: u64, took: Option<i64>, expect: i64) {
        let last = took.map(|took| UploadMeasurement { bytes: GIB, took: SignedDuration::from_secs(took) });
        assert_eq!(grace(SignedDuration::from_secs(seconds), PendingUpload { bytes, last }).as_secs(), expect);
    }

    #[test]
    fn uploads_leave_time_for_the_exit_record() {
        let left = |seconds| time_after_uploads(SignedDuration::from_secs(seconds)).as_secs();
        assert_eq!([left(115), left(20), left(8), left(-1)], [10, 10, 4, 0]);
    }

    #[test]
    fn a_command_gets_what_the_upload_leaves() {
        check_grace(120, 0, Some(40), 60);
        check_grace(120, 0, Some(4), 105);
        check_grace(120, GIB, Some(4), 105);
        check_grace(120, 4 * GIB, Some(4), 90);
        check_grace(120, 1, Some(4), 105);
    }

    #[test]
    fn without_a_measurement_the_size_of_the_files_decides() {
        check_grace(120, 0, None, 110);
        check_grace(30, 0, None, 20);
        check_grace(120, GIB, None, 88);
        check_grace(120, 400 * GIB, None, 50);
        check_grace(30, GIB, None, 15);
    }

    #[test]
    fn a_command_always_gets_some_time() {
        check_grace(120, 0, Some(400), 15);
        check_grace(10, 0, Some(400), 5);
        check_grace(120, u64::MAX, Some(400), 15);
        check_grace(-5, 0, None, 0);
    }

    #[test]
    fn a_checkpoint_is_too_large_where_its_upload_takes_longer_than_is_left() {
        let measured = |seconds| UploadMeasurement { bytes: 9 << 30, took: SignedDuration::from_secs(seconds) };
        assert_eq!(measured(95).too_large(), None);
        assert!(measured(96).too_large().is_some_and(|words| words.contains("9216 MiB took 96 s")));
    }

    #[test]
    fn a_warning_leaves_up_to_two_minutes() {
        let warned = time(NOW);
        let left = |notice: Option<i64>| {
            let announced = notice.map(|seconds| warned + SignedDuration::from_secs(seconds));
            time_to_flush(warned, announced).as_secs()
        };
        assert_eq!([left(None), left(Some(60)), left(Some(600))], [115, 55, 115]);
        assert_eq!([left(Some(0)), left(Some(-60))], [115, 115]);
    }
}
