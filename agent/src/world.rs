//! The clock, and the pace of all waits.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// The instance metadata are not at their address. Only tests have them elsewhere (AWS SDKs and Tools reference guide, "IMDS credential provider").
#[expect(clippy::disallowed_methods, reason = "this is the one place of the agent")]
pub(crate) fn has_other_metadata() -> bool {
    std::env::var_os("AWS_EC2_METADATA_SERVICE_ENDPOINT").is_some()
}

/// The directories of libraries that the agent was started with.
#[expect(clippy::disallowed_methods, reason = "this is the one place of the agent")]
pub(crate) fn library_path() -> Option<String> {
    std::env::var("LD_LIBRARY_PATH").ok()
}

/// The absolute path of a program, in `PATH` or else in one of these directories.
#[expect(clippy::disallowed_methods, reason = "this is the one place of the agent")]
pub(crate) fn find_program(name: &str, directories: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(directories.iter().map(PathBuf::from));
    directories.map(|directory| directory.join(name)).find(|program| program.is_absolute() && program.is_file())
}

#[expect(clippy::disallowed_methods, reason = "this is the one place of the agent")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// The factor by which every wait is shorter; 1 except in tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace(pub(crate) u32);

impl Pace {
    /// The wait at this pace.
    pub(crate) fn scale(self, wait: SignedDuration) -> SignedDuration {
        wait.checked_div(i32::try_from(self.0.max(1)).unwrap_or(i32::MAX)).unwrap_or(wait)
    }

    /// The duration at the pace of 1.
    pub(crate) fn unhurried(self, took: SignedDuration) -> SignedDuration {
        took.saturating_mul(i32::try_from(self.0.max(1)).unwrap_or(i32::MAX))
    }

    pub(crate) fn wait(self, wait: SignedDuration) -> Duration {
        self.scale(wait).unsigned_abs()
    }

    pub(crate) async fn sleep(self, wait: SignedDuration) {
        tokio::time::sleep(self.wait(wait)).await;
    }
}

/// The moment after `duration` on the monotonic clock.
pub(crate) fn after(time: SignedDuration) -> Instant {
    Instant::now() + Duration::try_from(time).unwrap_or(Duration::ZERO)
}

/// The time until then; negative once it is past.
pub(crate) fn left_until(then: Instant) -> SignedDuration {
    let now = Instant::now();
    let signed = |time: Duration| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    signed(then.saturating_duration_since(now)).saturating_sub(signed(now.saturating_duration_since(then)))
}

/// The time since then; negative before it.
pub(crate) fn time_since(then: Instant) -> SignedDuration {
    SignedDuration::ZERO.saturating_sub(left_until(then))
}

/// Waits until then. It checks the clock every second, because the clock may be set meanwhile.
pub(crate) async fn sleep_until(then: Timestamp) {
    loop {
        let left = then.duration_since(now());
        if left <= SignedDuration::ZERO {
            return;
        }
        tokio::time::sleep(left.unsigned_abs().min(Duration::from_secs(1))).await;
    }
}
