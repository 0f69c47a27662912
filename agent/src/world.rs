//! What is read of the world besides AWS: the clock, and how fast time goes.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// The time.
#[expect(clippy::disallowed_methods, reason = "this is the one place of the agent")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// How many times shorter every wait is; 1 but for tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace(pub(crate) u32);

impl Pace {
    /// A wait at this pace.
    pub(crate) fn scale(self, wait: SignedDuration) -> SignedDuration {
        wait / i32::try_from(self.0.max(1)).unwrap_or(i32::MAX)
    }

    /// How long something would have taken, had it not been hurried.
    pub(crate) fn unhurried(self, took: SignedDuration) -> SignedDuration {
        took.saturating_mul(i32::try_from(self.0.max(1)).unwrap_or(i32::MAX))
    }

    /// The same for timers.
    pub(crate) fn wait(self, wait: SignedDuration) -> Duration {
        self.scale(wait).unsigned_abs()
    }

    /// Waits.
    pub(crate) async fn sleep(self, wait: SignedDuration) {
        tokio::time::sleep(self.wait(wait)).await;
    }
}

/// The moment after that time, whatever the machine's clock is set to by then.
pub(crate) fn after(time: SignedDuration) -> Instant {
    Instant::now() + Duration::try_from(time).unwrap_or(Duration::ZERO)
}

/// How long it is until then; negative once it is past.
pub(crate) fn left_until(then: Instant) -> SignedDuration {
    let now = Instant::now();
    let signed = |time: Duration| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    if then >= now { signed(then - now) } else { -signed(now - then) }
}

/// Waits until then. The machine's clock may be set in between, so it looks again every second.
pub(crate) async fn sleep_until(then: Timestamp) {
    loop {
        let left = then.duration_since(now());
        if left <= SignedDuration::ZERO {
            return;
        }
        tokio::time::sleep(left.unsigned_abs().min(Duration::from_secs(1))).await;
    }
}
