//! Random draws and time: every draw comes from the account's seed, so that an account can be repeated.

use jiff::Timestamp;
use model::id::Region;

/// The schedule of the reaper, and the period of basic monitoring, in seconds.
pub(crate) const TICK: i64 = 300;
pub(crate) const MINUTE: i64 = 60;
pub(crate) const HOUR: i64 = 3600;
pub(crate) const DAY: i64 = 24 * HOUR;

/// Beyond what dates in tags may be, and at the ends of what can be written.
pub(crate) const FAR: [&str; 4] =
    ["9999-12-30T22:00:00Z", "-009999-01-02T01:59:59Z", "1970-01-01T00:00:00Z", "+010000-01-01T00:00:00Z"];

/// Regions of accounts; the first is home.
pub(crate) const REGIONS: [&str; 2] = ["us-east-1", "eu-central-1"];

/// All times are seconds since 1970; `model` takes timestamps.
pub(crate) fn stamp(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub(crate) fn region(place: usize) -> Region {
    Region::from(REGIONS[place])
}

pub(crate) struct RandomStream(fastrand::Rng);

impl RandomStream {
    /// One stream of a seed's draws: streams are independent.
    pub(crate) fn from_seed(seed: u64, stream: u64) -> Self {
        let mut mixed = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ stream);
        Self(mixed.fork())
    }

    pub(crate) fn one_in(&mut self, count: u32) -> bool {
        self.0.u32(0..count) == 0
    }

    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.0.f64() < probability
    }

    /// Both included.
    pub(crate) fn between(&mut self, least: i64, most: i64) -> i64 {
        self.0.i64(least..=most)
    }

    /// A duration in whole ticks, both ends included.
    pub(crate) fn ticks(&mut self, least: i64, most: i64) -> i64 {
        self.0.i64(least / TICK..=most / TICK) * TICK
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0.usize(0..count)
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.usize(0..of.len())]
    }
}
