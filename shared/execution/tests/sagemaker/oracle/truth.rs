//! The truth, by the structures behind tags and configuration, and by the available samples: the oracle's own reading of the contract.

use billing::budget::BudgetVerdict;
use model::config::RuleAction;
use model::mode::Mode;
use model::rule::{ResourceAction, Rule};

use crate::budgets;
use crate::settings::SimulatedConfig;
use crate::tags::OwnerIdleAfter;
use crate::world::{LAG, PERIOD, SimulatedResource, Sort};

/// What the available samples, or the looks of `SageMaker`, show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeenUse {
    Busy,
    Idle,
    Unknown,
}

impl SimulatedResource {
    pub(crate) fn lacks_tags(&self) -> bool {
        self.says.team().is_none() || !self.says.owner
    }

    /// Why Curfew never touches it, as long as that is so.
    pub(crate) fn skip_reason(&self, settings: &SimulatedConfig, now: i64) -> Option<&'static str> {
        let says = &self.says;
        let is_over = says.expires_at.is_some_and(|at| at <= now);
        let changed_within = self.window(settings).unwrap_or(settings.endpoint_window);
        if says.protected {
            Some("protected")
        } else if says.kept_until.is_some_and(|until| now < until) {
            Some("kept")
        } else if self.is_unreadable() {
            Some("unreadable")
        } else if self.foreign.is_some() {
            Some("made by a controller")
        } else if !self.serves() || !self.is_running() {
            None
        } else if self.is_autoscaled || self.sort == Sort::Endpoint && (self.sign.is_some() || self.variants != 1) {
            Some("perhaps in production")
        } else {
            (now - self.modified < changed_within && !is_over).then_some("changed lately")
        }
    }

    pub(crate) fn is_unreadable(&self) -> bool {
        self.says.typo.is_some() || self.says.expires_at.is_some_and(|at| at < self.created)
    }

    /// How long nobody must have used it; none for what is never idle.
    pub(crate) fn window(&self, settings: &SimulatedConfig) -> Option<i64> {
        match (self.sort, self.says.idle_after) {
            (Sort::Notebook, _) | (_, Some(OwnerIdleAfter::Off)) => None,
            (_, Some(OwnerIdleAfter::Seconds(window))) => Some(window),
            (Sort::App, None) => Some(settings.app_window),
            (Sort::Endpoint | Sort::Component, None) => Some(settings.endpoint_window),
            (Sort::Job, None) => Some(settings.job_window),
        }
    }

    /// Its mode for a rule, under `CURFEW_MODE`.
    pub(crate) fn mode(&self, rule: Rule, settings: &SimulatedConfig, ceiling: Mode) -> Mode {
        let of_account = match rule {
            Rule::Expired | Rule::Hours => Mode::Enforce,
            _ if rule == Rule::Untagged || self.lacks_tags() => settings.untagged_mode.min(settings.at_most),
            _ => {
                let team = self.says.team.and_then(|team| settings.teams[team]);
                team.unwrap_or(settings.mode).min(settings.at_most)
            }
        };
        // An account in observe mode stops nothing, in any team's mode.
        let budgets = budgets::stopping(self.says.team, settings).map(|holder| settings.mode_of(holder)).max();
        let at_most = budgets.filter(|_| rule == Rule::OverBudget).unwrap_or(Mode::Enforce);
        self.says.mode.unwrap_or(of_account).min(at_most).min(ceiling)
    }

    const fn is_configured_to_end(&self, settings: &SimulatedConfig) -> bool {
        match self.sort {
            Sort::App => settings.deletes_apps,
            Sort::Endpoint => settings.deletes_endpoints,
            Sort::Component => settings.scales_components,
            Sort::Notebook | Sort::Job => true,
        }
    }

    /// What a rule may do; none if its owner is only notified.
    pub(crate) fn ending(&self, rule: Rule, settings: &SimulatedConfig) -> Option<ResourceAction> {
        let possible = match self.sort {
            Sort::Notebook | Sort::Job => Some(ResourceAction::Stop),
            Sort::App => Some(ResourceAction::Delete),
            // It could not be made again.
            Sort::Endpoint => Some(ResourceAction::Delete).filter(|_| self.has_config),
            // It would save nothing.
            Sort::Component => Some(ResourceAction::Stop).filter(|_| self.frees_instances),
        };
        let is_configured = self.is_configured_to_end(settings);
        let acts = |action: RuleAction| action != RuleAction::Notify && is_configured;
        let may = match (rule, self.sort) {
            (Rule::Expired, _) => true,
            (Rule::OverBudget, _) => is_configured,
            (Rule::Hours, sort) => matches!(sort, Sort::Notebook | Sort::App),
            (Rule::Untagged, sort) => sort != Sort::Job && acts(settings.untagged.action),
            (Rule::Lifetime, _) => !self.serves() && acts(settings.lifetime.action),
            (Rule::UnlistedProject, _) | (Rule::Idle, Sort::Notebook) => false,
            (Rule::Idle, sort) => match self.says.on_idle {
                Some(RuleAction::Notify) => false,
                Some(RuleAction::Stop) => sort != Sort::Endpoint,
                Some(RuleAction::Terminate) => true,
                None => sort != Sort::Job && is_configured,
            },
            _ => false,
        };
        possible.filter(|_| may)
    }

    /// Whether it is used, by what a run could see at `now` with metrics that are so late, or not answered.
    pub(crate) fn seen_use(&self, settings: &SimulatedConfig, now: i64, lag: Option<i64>) -> SeenUse {
        let configured = match self.sort {
            Sort::Notebook => return SeenUse::Unknown,
            Sort::App => settings.app_window,
            Sort::Endpoint | Sort::Component => settings.endpoint_window,
            Sort::Job => settings.job_window,
        };
        let window = self.window(settings).unwrap_or(configured);
        if self.sort == Sort::App {
            return self.seen_user(window, now);
        }
        let Some(lag) = lag else { return SeenUse::Unknown };
        let to = (now - LAG).div_euclid(PERIOD) * PERIOD;
        let periods = (window + PERIOD - 1) / PERIOD;
        let from = to - periods * PERIOD;
        let visible: Vec<i64> = self.reports(from, now - lag).collect();
        let is_used = self.is_used(from);
        if visible.iter().any(|start| is_used(*start)) {
            return SeenUse::Busy;
        }
        let reported = visible.iter().filter(|start| **start < to).count();
        let reported = i64::try_from(reported).unwrap_or(i64::MAX);
        let is_covered = reported > 0 && reported * 100 >= periods * settings.coverage_min_percent;
        if is_covered && self.since() <= from { SeenUse::Idle } else { SeenUse::Unknown }
    }

    /// The same of an app, whose user `SageMaker` looks after.
    fn seen_user(&self, window: i64, now: i64) -> SeenUse {
        let (last, check) = (self.last_activity(now), self.last_check(now));
        if !self.is_measured || self.is_checked_only {
            SeenUse::Unknown
        } else if now - last < window {
            SeenUse::Busy
        } else if now - self.created >= window && check - last >= window && now - check <= window {
            SeenUse::Idle
        } else {
            SeenUse::Unknown
        }
    }

    /// When its hours last ended; 0 without hours.
    pub(crate) fn last_end_of_hours(&self, now: i64) -> i64 {
        self.says.hours.map_or(0, |hours| hours.last_end(now))
    }

    /// Why a rule is not violated. `stopping`: the verdict of each budget by which it may be stopped, where a young document of this month
    /// has one.
    pub(crate) fn unfounded(
        &self,
        rule: Rule,
        seen_use: SeenUse,
        stopping: &[Option<BudgetVerdict>],
        settings: &SimulatedConfig,
        now: i64,
    ) -> Option<&'static str> {
        let says = &self.says;
        match rule {
            Rule::Expired => says.expires_at.is_none_or(|at| at > now).then_some("it has not expired"),
            Rule::OverBudget if !stopping.contains(&Some(BudgetVerdict::Stop)) => {
                Some("no budget of it is known to be spent")
            }
            // It may be in production.
            Rule::OverBudget if self.serves() && self.is_configured_to_end(settings) => {
                (seen_use != SeenUse::Idle).then_some("it serves, perhaps")
            }
            Rule::OverBudget => None,
            Rule::Untagged if !self.lacks_tags() => Some("it has its tags"),
            Rule::Untagged if self.created + settings.settle > now => Some("its tags may still arrive"),
            Rule::Untagged => (settings.spare_busy && seen_use == SeenUse::Busy).then_some("it is used"),
            Rule::Idle if self.window(settings).is_none() => Some("it is never idle"),
            Rule::Idle => match seen_use {
                SeenUse::Busy => Some("it is used"),
                SeenUse::Unknown => Some("nobody knows whether it is used"),
                SeenUse::Idle => None,
            },
            Rule::Hours => {
                let is_over = says.hours.is_some_and(|hours| !hours.is_inside(now));
                let is_outside = is_over && self.since() < self.last_end_of_hours(now);
                (!is_outside).then_some("it is within its hours, or was started by hand after them")
            }
            Rule::Lifetime if self.serves() => Some("it runs for as long as it is needed"),
            Rule::Lifetime => {
                let is_old = now - self.since() > settings.age_max && says.expires_at.is_none();
                (!is_old).then_some("it is not too old")
            }
            Rule::UnlistedProject => Some("these accounts have no list of projects"),
            Rule::Orphaned => Some("it is no volume"),
        }
    }
}
