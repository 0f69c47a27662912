//! The limits of time of a spec.

use jiff::{SignedDuration, Timestamp};
use model::config::{Config, JOB_IDLE_MAX, JOB_IDLE_MIN};
use model::id::TeamName;
use model::money::Amount;
use model::{duration, moment};

use super::gpu_box::default_box_runtime;
use crate::spec::judge::SpecValidator;
use crate::spec::written::{self, RawSpec};
use crate::{ATTEMPT_MIN, ParameterSweep};

impl SpecValidator<'_> {
    /// Reads the limit of one job: of a sweep the share of one member.
    pub(super) fn max_usd(&mut self, limits: &written::RawLimits, sweep: Option<&ParameterSweep>) -> Option<Amount> {
        let path = ["limits", "max_usd"];
        let usd = self.usd(&path, limits.max_usd).map(Amount::from_usd);
        let share = sweep.map_or(usd, ParameterSweep::share);
        if share == Some(Amount::ZERO) && usd != share {
            self.refuse(&path, "nothing is left of it for each member of the sweep; write more");
        }
        share
    }

    pub(super) fn max_runtime(&mut self, written: &RawSpec, team: Option<&TeamName>, config: &Config) -> i64 {
        let limits = &written.limits;
        let path = ["limits", "max_runtime"];
        let least = duration::format_duration(ATTEMPT_MIN);
        match limits.max_runtime {
            Some(said) if said < ATTEMPT_MIN => {
                let problem = format!(
                    "{} is too short; a machine has to boot first: write {least} or more",
                    duration::format_exact_duration(said)
                );
                self.refuse(&path, &problem);
            }
            None if config.lifetime.max < ATTEMPT_MIN => {
                let default = duration::format_exact_duration(config.lifetime.max);
                let problem = format!(
                    "it is missing, and [lifetime] max of the configuration, {default}, is too short: write {least} or more"
                );
                self.report_missing(&path, &problem);
            }
            _ => {}
        }
        let default = if written.gpu_box.is_some() { default_box_runtime(config, team) } else { config.lifetime.max };
        limits.max_runtime.unwrap_or(default).as_secs()
    }

    /// Reads the deadline by either key, `finish_by` or `within`.
    pub(super) fn deadline(&mut self, limits: &written::RawLimits, now: Timestamp) -> Option<Timestamp> {
        let finish_by = self.finish_by(limits, now);
        let Some(within) = limits.within else { return finish_by };
        let path = ["limits", "within"];
        if limits.finish_by.is_some() {
            self.refuse(&path, "`finish_by` says the same in another way; leave one of them out");
        }
        if within < ATTEMPT_MIN {
            let (written, least) = (duration::format_exact_duration(within), duration::format_duration(ATTEMPT_MIN));
            self.refuse(&path, &format!("{written} is too short; a machine has to boot first: write {least} or more"));
        }
        Timestamp::from_second(now.as_second().saturating_add(within.as_secs())).ok()
    }

    /// Reads the estimated runtime of a job whose deadline decides between Spot and on-demand.
    pub(super) fn estimated_runtime(&mut self, written: &RawSpec, config: &Config) -> Option<i64> {
        let (limits, path) = (&written.limits, ["limits", "estimated_runtime"]);
        let estimated = limits.estimated_runtime?;
        self.length(&path, Some(estimated), "write how long the job takes on a machine that is never lost");
        if limits.finish_by.is_none() && limits.within.is_none() {
            self.refuse(&path, "it has no meaning without a deadline; write `finish_by` or `within` beside it");
        }
        if written.spot.enabled == Some(false) {
            self.refuse(
                &path,
                "it lets the deadline decide between Spot and on-demand, and `spot.enabled` is false; leave it out",
            );
        }
        if written.spot.fallback_to_on_demand_after.is_some() {
            let problem = "`limits.estimated_runtime` lets the deadline decide this; leave one of them out";
            self.refuse(&["spot", "fallback_to_on_demand_after"], problem);
        }
        let max = limits.max_runtime.unwrap_or(config.lifetime.max);
        if estimated > max {
            let max = duration::format_exact_duration(max);
            self.refuse(&path, &format!("it is longer than `max_runtime`, {max}; write a longer `max_runtime`"));
        }
        Some(estimated.as_secs())
    }

    pub(super) fn idle_max(&mut self, limits: &written::RawLimits) -> Option<SignedDuration> {
        self.between(&["limits", "idle"], limits.idle, [JOB_IDLE_MIN, JOB_IDLE_MAX])
    }

    fn finish_by(&mut self, limits: &written::RawLimits, now: Timestamp) -> Option<Timestamp> {
        self.moment(&["limits", "finish_by"], limits.finish_by.as_deref(), now)
    }

    /// Reads a moment that leaves time for a machine to boot.
    pub(super) fn moment(&mut self, path: &[&str], text: Option<&str>, now: Timestamp) -> Option<Timestamp> {
        let text = text?;
        let Some(at) = moment::read(text) else {
            let problem = format!(
                "{text:?} is not a moment; write date, time and offset, such as `2026-12-24T18:00:00+01:00` or `2026-12-24T17:00:00Z`"
            );
            self.refuse(path, &problem);
            return None;
        };
        if at <= now {
            self.refuse(path, &format!("{text} is in the past (it is {now:.0}); write a later moment"));
        } else if at.duration_since(now) < ATTEMPT_MIN {
            let least = duration::format_duration(ATTEMPT_MIN);
            self.refuse(
                path,
                &format!("{text} is too soon (it is {now:.0}): a machine has to boot first; leave it {least} or more"),
            );
        }
        Some(at)
    }
}
