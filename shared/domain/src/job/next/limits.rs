//! How much time and money a job has left.

use jiff::{SignedDuration, Timestamp};

use crate::duration;
use crate::job::{ATTEMPT_MIN, EXPIRES_AFTER, Job, Placed};
use crate::money::{Amount, Rate};

/// EC2 bills 60 seconds at least (EC2 user guide, "On-Demand Instances").
const BILLED_SECONDS_MIN: u64 = 60;

/// How long a job may still run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::job) struct Left {
    /// Whole seconds; below 0 where it is over.
    pub(in crate::job) seconds: i64,
    /// By which limit.
    limit: Limit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Runtime,
    FinishBy,
    Money,
}

impl Left {
    /// What is left from `now` on, on a machine of that price: the least of what the limits leave.
    pub(in crate::job) fn of(job: &Job, rate_max: Rate, now: Timestamp) -> Self {
        let runtime = job.terms.max_runtime_seconds.saturating_sub(job.used.seconds);
        let finish_by = job.terms.finish_by.map(|by| by.as_second().saturating_sub(now.as_second()));
        let money = job.terms.max_usd.and_then(|max| max.saturating_sub(job.used.usd).lasts_at(rate_max));
        let money = money.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        let limits = [(Some(runtime), Limit::Runtime), (finish_by, Limit::FinishBy), (money, Limit::Money)].into_iter();
        limits
            .filter_map(|(seconds, limit)| Some(Self { seconds: seconds?, limit }))
            .min_by_key(|left| left.seconds)
            .unwrap_or(Self { seconds: runtime, limit: Limit::Runtime })
    }

    /// What is left whatever the machine costs.
    pub(super) fn of_any(job: &Job, now: Timestamp) -> Self {
        Self::of(job, Rate::ZERO, now)
    }

    /// Whether no attempt is begun any more.
    pub(super) const fn is_over(self) -> bool {
        self.seconds < ATTEMPT_MIN.as_secs()
    }

    /// The absolute end of an attempt that is decided `now`, to the second.
    pub(super) fn end(self, now: Timestamp) -> Timestamp {
        let end = now.as_second().saturating_add(self.seconds.max(0));
        Timestamp::from_second(end).unwrap_or(Timestamp::MAX)
    }

    /// Why no attempt is begun any more.
    pub(super) fn in_words(self, job: &Job) -> String {
        let left = duration::show(SignedDuration::from_secs(self.seconds));
        let of = match self.limit {
            Limit::Runtime => {
                let max = duration::show(SignedDuration::from_secs(job.terms.max_runtime_seconds));
                format!("of its max_runtime of {max} {left} are left")
            }
            Limit::FinishBy => {
                let by = job.terms.finish_by.unwrap_or(Timestamp::MAX);
                format!("until its finish_by, {by}, {left} are left")
            }
            Limit::Money => {
                let max = job.terms.max_usd.unwrap_or(Amount::ZERO);
                let rest = max.saturating_sub(job.used.usd);
                format!("of its max_usd of {max} {rest} are left, which last for {left}")
            }
        };
        format!("{of}; no attempt is begun with less than {}", duration::show(ATTEMPT_MIN))
    }
}

/// So much later, and never past the end of time.
pub(in crate::job) fn after(at: Timestamp, duration: SignedDuration) -> Timestamp {
    at.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// When a machine has ended at the latest, of which nobody knows better than that it may run `until` then.
pub(super) fn latest_end(machine: &Placed, until: Timestamp) -> Timestamp {
    until.min(after(machine.ends_at, EXPIRES_AFTER))
}

/// Counts a machine that ran `until` then, at the most that it can have cost.
pub(super) fn use_up(mut job: Job, machine: &Placed, until: Timestamp) -> Job {
    let (seconds, usd) = most(machine, until);
    job.used.seconds = job.used.seconds.saturating_add(seconds);
    job.used.usd = job.used.usd + usd;
    job
}

/// The seconds, and the most, that a machine has taken `until` then. In whole micro-USD, as it is written down.
pub(in crate::job) fn most(machine: &Placed, until: Timestamp) -> (i64, Amount) {
    let ran = latest_end(machine, until).duration_since(machine.launched_at);
    let seconds = ran.as_secs().saturating_add(i64::from(ran.subsec_nanos() > 0)).max(0);
    let billed = u64::try_from(seconds).unwrap_or(0).max(BILLED_SECONDS_MIN);
    (seconds, rounded_up(Amount::of(machine.rate_max, billed)))
}

/// To the next whole micro-USD: what is written down is read back as the same.
pub(super) fn rounded_up(amount: Amount) -> Amount {
    let nearest = Amount::from_usd_micros(amount.usd_micros());
    if nearest < amount { nearest + Amount::from_usd_micros(1) } else { nearest }
}
