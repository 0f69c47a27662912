//! The time for which every GPU of a machine has been idle, by positive evidence. As for machines without a job: a GPU that works in one sample is busy, and a
//! time in which a GPU did not report is unknown.

use std::collections::VecDeque;

use jiff::SignedDuration;

use crate::telemetry::GpuSample;

/// A GPU that is used less is idle, as by the default of `[idle] gpu_below_percent`.
pub const GPU_BUSY_PERCENT: u32 = 5;

/// Data and code are loaded before the first use. A command that has used no GPU after so long counts as one that could.
const LOADING_MAX: SignedDuration = SignedDuration::from_mins(30);

/// [`JOB_IDLE_MAX`](model::config::JOB_IDLE_MAX): nobody asks for a longer idleness.
const MINUTES_MAX: usize = 7 * 24 * 60;

/// Length of a window in minutes in which one minute may be unknown, as `100 - coverage_min_percent` of `[idle]` says.
const UNKNOWN_SHARE: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum GpuUse {
    /// A GPU worked.
    Busy,
    /// Every GPU reported, and no GPU worked.
    Idle,
    #[default]
    Unknown,
}

/// The use of the GPUs while a command runs, minute by minute. Moments are counted from the beginning of the attempt.
#[derive(Debug, Clone, Default)]
pub(super) struct GpuIdleness {
    /// The minutes that count, the newest last.
    minutes: VecDeque<GpuUse>,
    /// The last whole minute, whether it counts or not.
    latest: GpuUse,
    minute: i64,
    present: MinuteSamples,
    /// The most GPUs that reported at once: one that has fallen off the bus is missing.
    gpus: usize,
    begun: SignedDuration,
    has_worked: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct MinuteSamples {
    is_busy: bool,
    idle: u32,
    unknown: u32,
}

impl MinuteSamples {
    const fn to_use(self) -> GpuUse {
        match self {
            Self { is_busy: true, .. } => GpuUse::Busy,
            Self { idle, unknown, .. } if idle > unknown => GpuUse::Idle,
            _ => GpuUse::Unknown,
        }
    }
}

impl GpuIdleness {
    pub(super) fn begin_command(&mut self, at: SignedDuration) {
        *self = Self { gpus: self.gpus, begun: at, minute: at.as_mins(), ..Self::default() };
    }

    /// One sample of all GPUs; of none, if they could not be read. Answers whether one works.
    pub(super) fn observe(&mut self, gpus: &[GpuSample], at: SignedDuration) -> bool {
        self.advance(at);
        self.gpus = self.gpus.max(gpus.len());
        let is_busy = gpus.iter().any(|gpu| gpu.utilization_percent.is_some_and(|percent| percent >= GPU_BUSY_PERCENT));
        let is_known = !gpus.is_empty() && gpus.len() == self.gpus;
        if is_busy {
            (self.present.is_busy, self.has_worked) = (true, true);
        } else if is_known && gpus.iter().all(|gpu| gpu.utilization_percent.is_some()) {
            self.present.idle = self.present.idle.saturating_add(1);
        } else {
            self.present.unknown = self.present.unknown.saturating_add(1);
        }
        is_busy
    }

    pub(super) fn current_use(&mut self, at: SignedDuration) -> GpuUse {
        self.advance(at);
        if self.present.is_busy { GpuUse::Busy } else { self.latest }
    }

    /// Returns the time for which all GPUs have been idle until now, zero if one works: the longest time in which none worked, and at most
    /// a tenth of the minutes are unknown, in it and in each later part of it. `None` if that is unknown, or if it does not count yet:
    /// before the first use, for [`LOADING_MAX`].
    pub(super) fn idle_for(&mut self, at: SignedDuration) -> Option<SignedDuration> {
        self.advance(at);
        if self.present.is_busy {
            return Some(SignedDuration::ZERO);
        }
        let (mut unknown, mut idle) = (0_usize, None);
        for (length, gpu_use) in (1_usize..).zip(self.minutes.iter().rev()) {
            unknown = unknown.saturating_add(usize::from(*gpu_use == GpuUse::Unknown));
            let tolerated = length / UNKNOWN_SHARE;
            match gpu_use {
                GpuUse::Busy => {
                    idle = idle.or((unknown == 0).then_some(0));
                    break;
                }
                GpuUse::Idle if unknown <= tolerated => idle = Some(length),
                GpuUse::Idle | GpuUse::Unknown => {}
            }
            // A single minute is made up for by the nine before it.
            if unknown > tolerated.max(1) {
                break;
            }
        }
        idle.map(|minutes| SignedDuration::from_mins(i64::try_from(minutes).unwrap_or(i64::MAX)))
    }

    /// Closes all minutes before this one. Those without a sample are unknown.
    fn advance(&mut self, at: SignedDuration) {
        let minute = at.as_mins();
        let passed = usize::try_from(minute.saturating_sub(self.minute)).unwrap_or(0);
        if passed == 0 {
            return;
        }
        self.minute = minute;
        let is_loading = !self.has_worked && at.saturating_sub(self.begun) < LOADING_MAX;
        let first = std::mem::take(&mut self.present).to_use();
        for gpu_use in std::iter::once(first).chain(std::iter::repeat_n(GpuUse::Unknown, passed.min(MINUTES_MAX) - 1)) {
            self.latest = gpu_use;
            if !is_loading {
                self.minutes.push_back(gpu_use);
            }
        }
        self.minutes.drain(..self.minutes.len().saturating_sub(MINUTES_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(percent: impl Into<Option<u32>>) -> GpuSample {
        GpuSample { utilization_percent: percent.into(), ..GpuSample::default() }
    }

    /// A letter for each minute: `B` one of two GPUs works, `i` both are idle, `u` one does not say its use, `l` one is lost, `-` there is no sample.
    /// The finding after the last sample.
    fn after(minutes: &str) -> (Option<i64>, GpuUse) {
        let mut idleness = GpuIdleness::default();
        idleness.begin_command(SignedDuration::ZERO);
        for (minute, letter) in (0..).zip(minutes.chars()) {
            let gpus = match letter {
                'B' => vec![gpu(0), gpu(5)],
                'i' => vec![gpu(4), gpu(0)],
                'u' => vec![gpu(0), gpu(None)],
                'l' => vec![gpu(0)],
                '-' => continue,
                _ => unreachable!(),
            };
            for second in [10, 20, 30] {
                idleness.observe(&gpus, SignedDuration::from_secs(minute * 60 + second));
            }
        }
        let end = SignedDuration::from_mins(i64::try_from(minutes.len()).unwrap());
        (idleness.idle_for(end).map(|idle| idle.as_mins()), idleness.current_use(end))
    }

    #[track_caller]
    fn check(minutes: &str, expect: impl Into<Option<i64>>) {
        assert_eq!(after(minutes).0, expect.into(), "{minutes}");
    }

    #[test]
    fn idleness_counts_from_the_first_use_or_after_half_an_hour() {
        check("B", 0);
        check("iiiiBiii", 3);
        check(&"i".repeat(29), None);
        check(&"i".repeat(31), 2);
        check(&"i".repeat(90), 61);
        check(&format!("{}B", "i".repeat(90)), 0);
    }

    #[test]
    fn unknown_is_neither_idle_nor_busy() {
        for unknown in ["u", "l", "-"] {
            // A lost GPU is known to be missing once both have reported.
            let idle = |minutes: usize| format!("B{}", "i".repeat(minutes));
            check(&format!("B{}", unknown.repeat(90)), None);
            // Of the last ten minutes one may be unknown, and of each longer time a tenth.
            check(&format!("{}{unknown}{}", idle(50), "i".repeat(3)), 54);
            check(&format!("{}{unknown}", idle(50)), 51);
            check(&format!("{}{}{}", idle(50), unknown.repeat(2), "i".repeat(3)), 3);
            check(&format!("{}{}{}", idle(50), unknown.repeat(5), "i".repeat(45)), 100);
            check(&format!("{}{}{}", idle(50), unknown.repeat(5), "i".repeat(30)), 30);
            // What was idle for a day is not known to be idle after an unknown hour.
            check(&format!("{}{}", idle(1440), unknown.repeat(60)), None);
        }
        check("Bu", None);
    }

    #[test]
    fn the_present_use_counts_before_idleness_does() {
        let check = |minutes: &str, expect| assert_eq!(after(minutes).1, expect, "{minutes}");
        check("i", GpuUse::Idle);
        check("B", GpuUse::Busy);
        check("Bi", GpuUse::Idle);
        check("Bu", GpuUse::Unknown);
        check("B-", GpuUse::Unknown);
    }

    #[test]
    fn a_new_command_begins_anew() {
        let (mut idleness, minute) = (GpuIdleness::default(), SignedDuration::from_mins);
        idleness.observe(&[gpu(90), gpu(90)], minute(1));
        idleness.begin_command(minute(100));
        assert_eq!(idleness.idle_for(minute(101)), None);
        // Both GPUs are remembered.
        idleness.observe(&[gpu(0)], minute(140));
        assert_eq!(idleness.current_use(minute(141)), GpuUse::Unknown);
    }

    #[test]
    fn a_long_time_is_bounded() {
        let mut idleness = GpuIdleness::default();
        idleness.observe(&[gpu(90)], SignedDuration::ZERO);
        idleness.advance(SignedDuration::MAX);
        assert_eq!((idleness.minutes.len(), idleness.idle_for(SignedDuration::MAX)), (MINUTES_MAX, None));
    }
}
