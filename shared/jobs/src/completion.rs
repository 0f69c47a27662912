//! The progress of a job, the time at which it is done, and its cost by then: where its document says how many steps it takes.

use jiff::{SignedDuration, Timestamp};
use model::duration::format_duration;
use model::money::Amount;
use serde::Serialize;

use crate::{Heartbeat, Job, Phase};

/// A longer forecast says nothing: `[limits] max_runtime` is shorter.
const SECONDS_MAX: f64 = 365.0 * 86_400.0;

const BAR_WIDTH: usize = 20;

/// The progress of an unfinished job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobCompletion {
    /// The step of the command, as its agent last said; else of the newest complete checkpoint.
    pub step: u64,
    pub total_steps: u64,
    /// Speed as the agent measured it; `None` if unknown.
    pub steps_per_hour: Option<f64>,
    /// Time to the last step without interruptions. `None` if the speed is unknown.
    pub seconds_left: Option<i64>,
    /// Highest cost of the machines up to the last step, at the highest price of the present one.
    pub cost_usd_max: Option<Amount>,
}

impl JobCompletion {
    /// `None` without `[checkpoint] total_steps`, before the first known step, and once the job is over.
    #[must_use]
    pub fn from_job(job: &Job, heartbeat: Option<&Heartbeat>, now: Timestamp) -> Option<Self> {
        let total_steps = job.terms.checkpoint.as_ref()?.total_steps?;
        let machine = job.machine();
        // Without a machine a heartbeat is that of an earlier one.
        let heartbeat = heartbeat.filter(|_| machine.is_some());
        let step = heartbeat.and_then(|heartbeat| heartbeat.step).or(job.progress.step)?.min(total_steps);
        if matches!(job.phase, Phase::Ended(_)) {
            return None;
        }
        let steps_per_hour =
            heartbeat.and_then(|heartbeat| heartbeat.steps_per_hour).filter(|speed| speed.is_finite() && *speed > 0.0);
        let seconds_left = steps_per_hour.and_then(|speed| seconds_for(total_steps.saturating_sub(step), speed));
        let cost_usd_max = machine
            .zip(seconds_left)
            .map(|(machine, left)| job.used_by(now).1 + Amount::from_rate(machine.rate_max, left.unsigned_abs()));
        Some(Self { step, total_steps, steps_per_hour, seconds_left, cost_usd_max })
    }

    /// Rounded down, so that 100 % is done.
    #[must_use]
    pub fn percent(&self) -> u64 {
        let percent = u128::from(self.step) * 100 / u128::from(self.total_steps.max(1));
        u64::try_from(percent).unwrap_or(100)
    }

    /// Describes the progress for people, on one line: `52 %, step 52000 of 100000, 12400 steps an hour, 3h52m left, $4.10 at most by
    /// then`.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut parts = vec![format!("{} %, step {} of {}", self.percent(), self.step, self.total_steps)];
        parts.extend(self.steps_per_hour.map(|speed| format!("{speed:.0} steps an hour")));
        parts
            .extend(self.seconds_left.map(|left| format!("{} left", format_duration(SignedDuration::from_secs(left)))));
        parts.extend(self.cost_usd_max.map(|usd| format!("{usd} at most by then")));
        parts.join(", ")
    }

    /// `[##########----------]`.
    #[must_use]
    pub fn bar(&self) -> String {
        let done = usize::try_from(self.percent()).unwrap_or(100) * BAR_WIDTH / 100;
        format!("[{}{}]", "#".repeat(done), "-".repeat(BAR_WIDTH - done))
    }
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a forecast; the range is checked")]
fn seconds_for(steps: u64, per_hour: f64) -> Option<i64> {
    let seconds = (steps as f64 / per_hour * 3_600.0).ceil();
    (seconds <= SECONDS_MAX).then_some(seconds as i64)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::next::tests::fixture::{HOUR, JobInput, noon_plus, running, waiting};

    fn job(given: JobInput, total_steps: u64, step: u64) -> Job {
        let mut job = given.job;
        job.terms.checkpoint.as_mut().unwrap().total_steps = Some(total_steps);
        job.progress.step = Some(step);
        job
    }

    pub(crate) fn heartbeat(step: Option<u64>, steps_per_hour: Option<f64>) -> Heartbeat {
        Heartbeat {
            at: noon_plus(HOUR),
            attempt: 1,
            step,
            steps_per_hour,
            gpu_percent: None,
            doing: Heartbeat::RUNNING.to_owned(),
            warnings: Vec::new(),
            unsaved_seconds: None,
            gpus: None,
            trend: crate::telemetry::GpuTrend::default(),
            work: crate::WorkSigns::default(),
            gpu_box: None,
        }
    }

    fn check(job: &Job, heartbeat: Option<&Heartbeat>, expect: &str) {
        let completion = JobCompletion::from_job(job, heartbeat, noon_plus(HOUR)).unwrap();
        assert_eq!(format!("{} {}", completion.bar(), completion.describe()), expect);
    }

    #[test]
    fn a_job_shows_how_far_it_is_and_what_it_will_cost() {
        let job = job(running(), 100_000, 40_000);
        let beat = heartbeat(Some(52_000), Some(12_000.0));
        check(
            &job,
            Some(&beat),
            "[##########----------] 52 %, step 52000 of 100000, 12000 steps an hour, 4h left, $5.00 at most by then",
        );
        check(&job, Some(&heartbeat(Some(52_000), None)), "[##########----------] 52 %, step 52000 of 100000");
        check(&job, None, "[########------------] 40 %, step 40000 of 100000");
    }

    #[test]
    fn without_a_machine_the_newest_checkpoint_counts() {
        let beat = heartbeat(Some(52_000), Some(12_000.0));
        check(&job(waiting(), 100_000, 40_000), Some(&beat), "[########------------] 40 %, step 40000 of 100000");
    }

    #[test]
    fn nothing_is_said_of_a_job_without_a_goal_or_a_step() {
        assert_eq!(JobCompletion::from_job(&running().job, None, noon_plus(HOUR)), None);
        let mut job = job(running(), 10, 1);
        job.progress.step = None;
        assert_eq!(JobCompletion::from_job(&job, None, noon_plus(HOUR)), None);
    }

    proptest! {
        /// Whatever a machine says.
        #[test]
        fn no_figures_panic(total in 1_u64.., step in any::<u64>(), told in any::<u64>(), speed in 0.0..1e9_f64) {
            let job = job(running(), total, step);
            let completion = JobCompletion::from_job(&job, Some(&heartbeat(Some(told), Some(speed))), noon_plus(HOUR)).unwrap();
            prop_assert!(completion.percent() <= 100 && completion.seconds_left.is_none_or(|left| left >= 0));
            prop_assert_eq!(completion.bar().len(), BAR_WIDTH + 2);
            prop_assert!(completion.describe().len() < 200);
        }
    }
}
