//! The time and money that a job has left.

use jiff::{SignedDuration, Timestamp};
use model::duration;
pub(crate) use model::moment::after;
use model::money::Amount;

use crate::transfer::CostMax;
use crate::{ATTEMPT_MIN, EXPIRES_AFTER, Job, JobMachine};

/// EC2 bills 60 seconds at least (EC2 user guide, "On-Demand Instances").
const BILLED_SECONDS_MIN: u64 = 60;

/// The time that a job may still run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeLeft {
    /// Whole seconds; below 0 where it is over.
    pub(crate) seconds: i64,
    limit: JobLimit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobLimit {
    Runtime,
    FinishBy,
    /// The part of it for checkpoints, independent of the machine's runtime.
    Money(Amount),
}

impl TimeLeft {
    /// Returns the time left from `now` on, on a machine of that cost: the least that the limits leave.
    pub(crate) fn on_machine(job: &Job, cost_max: CostMax, now: Timestamp) -> Self {
        let runtime = job.terms.max_runtime_seconds.saturating_sub(job.used.seconds);
        let finish_by = job.terms.finish_by.map(|by| by.as_second().saturating_sub(now.as_second()));
        let CostMax { rate, once } = cost_max;
        let money = job.terms.max_usd.map(|max| max.saturating_sub(job.used.usd).saturating_sub(once));
        let money = money.and_then(|money| money.lasts_at(rate));
        let money = money.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        let limits =
            [(Some(runtime), JobLimit::Runtime), (finish_by, JobLimit::FinishBy), (money, JobLimit::Money(once))]
                .into_iter();
        limits
            .filter_map(|(seconds, limit)| Some(Self { seconds: seconds?, limit }))
            .min_by_key(|left| left.seconds)
            .unwrap_or(Self { seconds: runtime, limit: JobLimit::Runtime })
    }

    /// Returns the time left, whatever the machine costs.
    pub(super) fn on_any_machine(job: &Job, now: Timestamp) -> Self {
        Self::on_machine(job, CostMax::default(), now)
    }

    /// Returns `true` if no attempt is begun any more.
    pub(crate) const fn is_over(self) -> bool {
        self.seconds < ATTEMPT_MIN.as_secs()
    }

    /// The absolute end of an attempt that is decided `now`, to the second.
    pub(super) fn end(self, now: Timestamp) -> Timestamp {
        let end = now.as_second().saturating_add(self.seconds.max(0));
        Timestamp::from_second(end).unwrap_or(Timestamp::MAX)
    }

    /// Explains why no attempt is begun any more.
    pub(super) fn describe(self, job: &Job) -> String {
        let left = self.describe_left(job);
        format!("{left}; no attempt is begun with less than {}", duration::format_duration(ATTEMPT_MIN))
    }

    /// Describes the rest of the limit that leaves the least.
    pub(super) fn describe_left(self, job: &Job) -> String {
        let left = duration::format_duration(SignedDuration::from_secs(self.seconds));
        match self.limit {
            JobLimit::Runtime => {
                let max = duration::format_duration(SignedDuration::from_secs(job.terms.max_runtime_seconds));
                format!("of its max_runtime of {max} {left} are left")
            }
            JobLimit::FinishBy => {
                let by = job.terms.finish_by.unwrap_or(Timestamp::MAX);
                format!("until its finish_by, {by}, {left} are left")
            }
            JobLimit::Money(once) => {
                let max = job.terms.max_usd.unwrap_or(Amount::ZERO);
                let rest = max.saturating_sub(job.used.usd);
                if once == Amount::ZERO {
                    format!("of its max_usd of {max} {rest} are left, which last for {left}")
                } else {
                    format!(
                        "of its max_usd of {max} {rest} are left, which last for {left}, as each machine costs {once} for checkpoints to \
                         another region"
                    )
                }
            }
        }
    }
}

/// The latest end of a machine that may run `until` then.
pub(super) fn latest_end(machine: &JobMachine, until: Timestamp) -> Timestamp {
    until.min(after(machine.ends_at, EXPIRES_AFTER))
}

/// Counts a machine that ran `until` then, at the most that it can have cost.
pub(super) fn use_up(mut job: Job, machine: &JobMachine, until: Timestamp) -> Job {
    let (seconds, usd) = most(machine, until);
    job.used.seconds = job.used.seconds.saturating_add(seconds);
    job.used.usd = job.used.usd + usd;
    job
}

/// The seconds, and the most, that a machine has taken `until` then. In whole micro-USD, as it is written down.
pub(crate) fn most(machine: &JobMachine, until: Timestamp) -> (i64, Amount) {
    let ran = latest_end(machine, until).duration_since(machine.launched_at);
    let seconds = ran.as_secs().saturating_add(i64::from(ran.subsec_nanos() > 0)).max(0);
    let billed = u64::try_from(seconds).unwrap_or(0).max(BILLED_SECONDS_MIN);
    (seconds, machine.cost_max().amount(billed).rounded_up_to(1))
}
