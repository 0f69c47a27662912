//! Liveness of a job's work, as opposed to that of its agent: whether a command, its setup or a transfer still shows a sign of work. Moments are counted
//! from the beginning of the attempt, whatever clocks are set to.

mod gpu_idleness;

use jiff::{SignedDuration, Timestamp};
use model::duration::format_duration;
use model::moment::before;
use serde::{Deserialize, Serialize};

use self::gpu_idleness::{GpuIdleness, GpuUse};
use crate::telemetry::GpuSample;
use crate::{HEARTBEAT_TIMEOUT, Heartbeat};

pub use self::gpu_idleness::GPU_BUSY_PERCENT;

/// A step is overdue after so many times the expected interval: one may be missed because a save or an evaluation is slow, but not two in a row.
const OVERDUE_INTERVALS: i32 = 3;

/// No step is overdue earlier, because short intervals vary with every pause. A machine may send no heartbeat for as long.
const OVERDUE_MIN: SignedDuration = HEARTBEAT_TIMEOUT;

/// A command, a setup or a fetch of inputs is silent after so long without output, step, data or GPU use: twice as long as a machine may send no
/// heartbeat.
const SILENT_AFTER: SignedDuration = SignedDuration::from_mins(2 * HEARTBEAT_TIMEOUT.as_mins());

/// Other activities show nothing before their end: in an hour 500 GB are uploaded at 140 MB/s.
const LONG_ACTIVITY: SignedDuration = SignedDuration::from_hours(1);

/// The longest age that is believed: longer than any attempt.
const AGE_SECONDS_MAX: u64 = 366 * 86_400;

/// The signs of work that a heartbeat carries, as ages in seconds: no clock but that of S3 is needed to read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkSigns {
    /// The time since a new complete step of this attempt was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_seconds: Option<u64>,
    /// The time since the last output of the command or its setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_seconds: Option<u64>,
    /// Time for which every GPU has been idle, by positive evidence; 0 if one works, `None` if that is unknown or does not count yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_idle_seconds: Option<u64>,
    /// The time for which the work has been stalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_seconds: Option<u64>,
}

impl WorkSigns {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The time when the newest step was first seen, by a heartbeat that S3 took `at` then.
    #[must_use]
    pub fn step_at(&self, at: Timestamp) -> Option<Timestamp> {
        let age = SignedDuration::from_secs(i64::try_from(self.step_seconds?.min(AGE_SECONDS_MAX)).ok()?);
        Some(before(at, age))
    }

    /// Limits ages that no attempt has.
    #[must_use]
    pub fn shown(self) -> Self {
        let age = |seconds: Option<u64>| seconds.map(|seconds| seconds.min(AGE_SECONDS_MAX));
        Self {
            step_seconds: age(self.step_seconds),
            output_seconds: age(self.output_seconds),
            gpu_idle_seconds: age(self.gpu_idle_seconds),
            stalled_seconds: age(self.stalled_seconds),
        }
    }
}

/// A stall of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    pub lasts: SignedDuration,
    /// Text for the owner.
    pub words: String,
}

/// The signs of work that an agent sees.
#[derive(Debug, Clone, Default)]
pub struct WorkMonitor {
    /// The activity of the agent, as in [`Heartbeat::doing`], and since when.
    activity: &'static str,
    begun: SignedDuration,
    /// The last sign of work in this activity.
    last_sign: SignedDuration,
    last_output: Option<SignedDuration>,
    /// `None` without `[checkpoint]`.
    steps: Option<StepIntervals>,
    gpus: GpuIdleness,
}

#[derive(Debug, Clone, Copy)]
struct StepIntervals {
    every: SignedDuration,
    /// The longest interval between two steps; until there are two, the time before the first.
    longest: Option<SignedDuration>,
    /// The step that the command resumed from, or the last one.
    step: Option<u64>,
    has_resumed: bool,
    /// The time when the last one was first seen; `None` before the first one of the command.
    last: Option<SignedDuration>,
    /// Their number.
    count: u32,
    changed_at: Option<Timestamp>,
    /// A step is there, or becomes one. Until then `no-checkpoint` warns.
    has_some: bool,
}

impl WorkMonitor {
    /// The agent begins to do something else. That is a sign of work.
    pub fn begin_activity(&mut self, activity: &'static str, at: SignedDuration) {
        (self.activity, self.begun, self.last_sign, self.last_output) = (activity, at, at, None);
        self.gpus.begin_command(at);
        if !self.is_running() {
            self.steps = None;
        }
    }

    fn is_running(&self) -> bool {
        self.activity == Heartbeat::RUNNING
    }

    /// The command writes checkpoints. `step`: that of the checkpoint that it resumed from, if that has a number.
    pub fn expect_steps(&mut self, every: SignedDuration, has_resumed: bool, step: Option<u64>) {
        self.steps = Some(StepIntervals {
            every,
            longest: None,
            step,
            has_resumed,
            last: None,
            count: 0,
            changed_at: None,
            has_some: has_resumed,
        });
    }

    /// One look at the checkpoint directory: the newest complete step, if there is one, and when its files last changed.
    pub fn observe_steps(&mut self, has_some: bool, newest: Option<(Option<u64>, Timestamp)>, at: SignedDuration) {
        let begun = self.begun;
        let Some(steps) = &mut self.steps else { return };
        steps.has_some |= has_some;
        let Some((step, changed_at)) = newest else { return };
        // The first look after a restore sees what was restored.
        let is_restored = steps.has_resumed && steps.changed_at.is_none() && step == steps.step;
        let is_new = step > steps.step || steps.changed_at.is_none_or(|before| changed_at > before);
        steps.changed_at = steps.changed_at.max(Some(changed_at));
        if is_new && !is_restored {
            let interval = Some(at.saturating_sub(steps.last.unwrap_or(begun)));
            // Loading and compiling come before the first step, and say little of the others.
            steps.longest = if steps.count == 1 { interval } else { steps.longest.max(interval) };
            (steps.step, steps.last, steps.count) = (step, Some(at), steps.count.saturating_add(1));
            self.last_sign = self.last_sign.max(at);
        }
    }

    /// The command or its setup wrote output.
    pub fn observe_output(&mut self, at: SignedDuration) {
        if at >= self.begun {
            self.last_output = self.last_output.max(Some(at));
            self.last_sign = self.last_sign.max(at);
        }
    }

    /// Data arrived.
    pub fn observe_data(&mut self, at: SignedDuration) {
        self.last_sign = self.last_sign.max(at);
    }

    /// One sample of all GPUs; of none, if they could not be read. Only while the command runs their use is counted.
    pub fn observe_gpus(&mut self, gpus: &[GpuSample], at: SignedDuration) {
        if self.is_running() && self.gpus.observe(gpus, at) {
            self.last_sign = self.last_sign.max(at);
        }
    }

    /// Returns the time for which every GPU has been idle while the command ran, by positive evidence; zero if one works, `None` if that is
    /// unknown or does not count yet.
    pub fn gpus_idle_for(&mut self, at: SignedDuration) -> Option<SignedDuration> {
        if self.is_running() { self.gpus.idle_for(at) } else { None }
    }

    /// The stall of the work at that moment; `None` if there is none.
    pub fn find_stall(&mut self, at: SignedDuration) -> Option<Stall> {
        self.find_overdue_step(at).or_else(|| self.find_silence(at))
    }

    /// The signs that a heartbeat carries at that moment.
    pub fn to_signs(&mut self, at: SignedDuration) -> WorkSigns {
        let seconds = |lasts: SignedDuration| u64::try_from(lasts.as_secs()).unwrap_or(0);
        let age = |since: SignedDuration| seconds(at.saturating_sub(since));
        WorkSigns {
            step_seconds: self.steps.and_then(|steps| steps.last).map(age),
            output_seconds: self.last_output.map(age),
            gpu_idle_seconds: self.gpus_idle_for(at).map(seconds),
            stalled_seconds: self.find_stall(at).map(|stall| seconds(stall.lasts)),
        }
    }

    fn find_overdue_step(&mut self, at: SignedDuration) -> Option<Stall> {
        let steps = self.steps.filter(|steps| steps.has_some && self.is_running())?;
        let lasts = at.saturating_sub(steps.last.unwrap_or(self.begun));
        let expected = steps.longest.unwrap_or_default().max(steps.every);
        if lasts < expected.saturating_mul(OVERDUE_INTERVALS).max(OVERDUE_MIN) {
            return None;
        }
        let length = format_duration(lasts);
        let since = match (steps.step, steps.last) {
            (Some(step), Some(_)) => format!(", since step {step}"),
            (Some(step), None) => format!(", since it resumed from step {step}"),
            (None, Some(_)) => String::new(),
            (None, None) => ", since it began".to_owned(),
        };
        let earlier = match steps.longest {
            Some(longest) if longest > steps.every => {
                format!("before that it completed one at least every {}", format_duration(longest))
            }
            _ => format!("`checkpoint.every` is {}", format_duration(steps.every)),
        };
        let signs = self.describe_signs(at);
        Some(Stall {
            lasts,
            words: format!("the command has completed no new checkpoint for {length}{since}: {earlier}; {signs}"),
        })
    }

    fn find_silence(&mut self, at: SignedDuration) -> Option<Stall> {
        let lasts = at.saturating_sub(self.last_sign);
        let (length, activity) = (format_duration(lasts), self.activity);
        let (limit, words) = match activity {
            "" => return None,
            // Steps that came say when the next one is overdue.
            Heartbeat::RUNNING
                if self.steps.is_some_and(|steps| steps.last.is_some())
                    && self.gpus.current_use(at) == GpuUse::Unknown =>
            {
                return None;
            }
            Heartbeat::RUNNING => {
                let nothing = if self.steps.is_some() { "no output and no new checkpoint" } else { "no output" };
                let gpus = self.describe_gpus(at);
                (SILENT_AFTER, format!("the command has shown no sign of work for {length}: {nothing}, and {gpus}"))
            }
            Heartbeat::SETUP => {
                (SILENT_AFTER, format!("`setup` has written no output for {length}; GPU use is not known"))
            }
            Heartbeat::FETCHING => (SILENT_AFTER, format!("no data of the inputs has arrived for {length}")),
            _ => (LONG_ACTIVITY, format!("the agent has been {activity} for {length}")),
        };
        (lasts >= limit).then_some(Stall { lasts, words })
    }

    fn describe_signs(&mut self, at: SignedDuration) -> String {
        let output = match self.last_output.map(|last| at.saturating_sub(last)) {
            None => "it has written no output".to_owned(),
            Some(age) if age < SignedDuration::from_mins(1) => "it still writes output".to_owned(),
            Some(age) => format!("its last output was {} ago", format_duration(age)),
        };
        format!("{output}, and {}", self.describe_gpus(at))
    }

    fn describe_gpus(&mut self, at: SignedDuration) -> &'static str {
        match self.gpus.current_use(at) {
            GpuUse::Busy => "a GPU works",
            GpuUse::Idle => "every GPU is idle",
            GpuUse::Unknown => "GPU use is not known",
        }
    }
}

#[cfg(test)]
mod tests;
