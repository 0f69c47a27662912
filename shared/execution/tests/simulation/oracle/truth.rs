//! The truth, by the structures behind tags and configuration, and by the available samples: the oracle's own reading of the contract.

use model::config::{DiskPolicy, PowerEvidence, RuleAction};
use model::instance::{Accelerator, PurchaseOption};
use model::mode::Mode;
use model::rule::{ResourceAction, Rule};

use crate::budgets;
use crate::chance::{MINUTE, TICK};
use crate::jobs::MachineOwner;
use crate::settings::SimulatedConfig;
use crate::tags::OwnerIdleAfter;
use crate::world::SimulatedMachine;

/// The longest delay of `CloudWatch`.
pub(crate) const LAG: i64 = 10 * MINUTE;
/// Between the announcement and the end of hours.
pub(crate) const HOURS_NOTICE: i64 = 30 * MINUTE;

/// The result of the available samples in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrueUsage {
    Busy,
    Idle {
        holds_memory: bool,
    },
    /// Idle by the power of its GPUs alone.
    IdleByPower,
    Unknown,
}

impl SimulatedMachine {
    pub(crate) fn lacks_tags(&self, settings: &SimulatedConfig) -> bool {
        self.says.team().is_none() || (settings.owner_required && !self.says.owner)
    }

    /// `true` if it names a project that is not on the account's list.
    pub(crate) fn is_unlisted(&self, settings: &SimulatedConfig) -> bool {
        settings.projects.is_listed && self.says.project.is_some_and(|project| project != 0)
    }

    /// Why Curfew never touches it, in any other state.
    pub(crate) fn skip_reason(&self, now: i64) -> Option<&'static str> {
        let says = &self.says;
        let copied_expiry = says.expires_at.is_some_and(|at| at < self.launched);
        if says.protected {
            Some("protected")
        } else if says.kept_until.is_some_and(|until| now < until) {
            Some("kept")
        } else if says.typo.is_some() || copied_expiry {
            Some("unreadable")
        } else if self.make.foreign.is_some() {
            Some("foreign-owned")
        } else {
            None
        }
    }

    /// Its mode for a rule, under `CURFEW_MODE`. If it is not the machine of the job that it names, the account decides, unless it is opted out.
    pub(crate) fn mode(&self, rule: Rule, whose: MachineOwner, settings: &SimulatedConfig, ceiling: Mode) -> Mode {
        let is_decided_by_account = whose.is_disowned()
            && self.says.mode != Some(Mode::Observe)
            && !matches!(rule, Rule::Expired | Rule::Hours);
        let of_account = Some(settings.untagged.mode).filter(|_| is_decided_by_account);
        let own = of_account.or(self.says.mode).unwrap_or_else(|| match rule {
            Rule::Expired | Rule::Hours => Mode::Enforce,
            Rule::Untagged => settings.untagged.mode,
            _ if self.lacks_tags(settings) => settings.untagged.mode,
            _ => {
                let team = self.says.team.filter(|_| !self.says.team_mistyped);
                team.and_then(|team| settings.teams[team].mode).unwrap_or(settings.mode)
            }
        });
        // An account in observe mode stops no machine, in any team's mode.
        let budgets = self.stopping_budgets(settings).map(|holder| settings.mode_of(holder)).max();
        let at_most = budgets.filter(|_| rule == Rule::OverBudget).unwrap_or(Mode::Enforce);
        own.min(at_most).min(ceiling)
    }

    /// The budgets by which it may be stopped.
    pub(crate) fn stopping_budgets(&self, settings: &SimulatedConfig) -> impl Iterator<Item = usize> {
        budgets::stopping(self.says.team.filter(|_| !self.says.team_mistyped), settings)
    }

    /// How long it must be idle; none for `off`.
    pub(crate) fn idle_window(&self, settings: &SimulatedConfig) -> Option<i64> {
        match self.says.idle_after {
            Some(OwnerIdleAfter::Off) => None,
            Some(OwnerIdleAfter::Seconds(window)) => Some(window),
            None => Some(settings.idle.window),
        }
    }

    /// The possible action if the configuration has `action`; none if its owner is only notified.
    pub(crate) fn ending(&self, rule: Rule, whose: MachineOwner, settings: &SimulatedConfig) -> Option<ResourceAction> {
        let says = &self.says;
        let ec2 = &self.ec2;
        let unstoppable = ec2.root_on_instance_storage || ec2.purchase == PurchaseOption::SpotOneTime;
        if matches!(ec2.purchase, PurchaseOption::SpotPersistent | PurchaseOption::SpotUnknown) {
            return None;
        }
        let action = match rule {
            Rule::Expired => {
                let is_of_a_job = whose.knows_only_its_expiry() || whose == MachineOwner::MissingJob;
                let terminate = is_of_a_job || says.on_idle == Some(RuleAction::Terminate) || unstoppable;
                return Some(if terminate { ResourceAction::Terminate } else { ResourceAction::Stop });
            }
            Rule::Untagged => settings.untagged.action,
            Rule::UnlistedProject => settings.projects.action,
            Rule::Lifetime => settings.lifetime.action,
            Rule::Idle => says.on_idle.unwrap_or(settings.idle.action),
            Rule::Hours | Rule::OverBudget => RuleAction::Stop,
            Rule::Orphaned => return None,
        };
        let ending = match action {
            RuleAction::Stop => ResourceAction::Stop,
            RuleAction::Terminate => ResourceAction::Terminate,
            RuleAction::Notify => return None,
        };
        if ending == ResourceAction::Stop && unstoppable {
            return None;
        }
        // An owner who set hours wants the stop, reserved or not.
        if rule != Rule::Hours && ec2.prepaid.is_some() {
            return None;
        }
        (self.disk(rule, settings) != DiskPolicy::Keep).then_some(ending)
    }

    /// The time from mark to action, which NVMe storage may lengthen.
    pub(crate) fn grace(&self, rule: Rule, settings: &SimulatedConfig) -> i64 {
        let of_rule = settings.grace(rule);
        match self.disk(rule, settings) {
            DiskPolicy::ExpendableAfter(grace) if !matches!(rule, Rule::Hours | Rule::Expired) => {
                of_rule.max(grace.as_secs())
            }
            _ => of_rule,
        }
    }

    fn disk(&self, rule: Rule, settings: &SimulatedConfig) -> DiskPolicy {
        let says = &self.says;
        if self.ec2.machine.instance_storage_gb == 0 {
            return DiskPolicy::Expendable;
        }
        let team_disk = || says.team.filter(|_| !says.team_mistyped).and_then(|team| settings.teams[team].local_disk);
        match rule {
            Rule::Idle => says.local_disk.or_else(team_disk).unwrap_or(settings.idle.local_disk),
            _ => says.local_disk.unwrap_or(DiskPolicy::Expendable),
        }
    }

    /// The power below which its GPUs are idle: only some families have a figure with a source.
    fn idle_power_percent(&self, settings: &SimulatedConfig) -> Option<f64> {
        let family = self.ec2.instance_type.as_str().split('.').next().unwrap_or_default();
        let has_source = ["g5", "g6", "g6e", "p4d", "p5"].contains(&family);
        settings.idle.power_below_percent.or(has_source.then_some(5.0))
    }

    /// The result of the samples that were available at `now`.
    pub(crate) fn true_usage(&self, window: i64, settings: &SimulatedConfig, now: i64) -> TrueUsage {
        let idle = &settings.idle;
        let to = (now - LAG).div_euclid(TICK) * TICK;
        let periods = ((window + TICK - 1) / TICK).max(1);
        let from = to - periods * TICK;
        let gpus = usize::try_from(self.ec2.machine.accelerators).unwrap_or(0);
        let reporting = if self.ec2.machine.accelerator == Accelerator::Nvidia { self.make.series.len() } else { 0 };
        let powered = if self.ec2.machine.accelerator != Accelerator::Nvidia || idle.power == PowerEvidence::Off {
            0
        } else {
            self.make.power.len()
        };
        let (mut ec2_samples, mut gpu_samples, mut held_mib) = (0, [0; 8], [None; 8]);
        let (mut power_samples, mut power_percent) = ([0; 8], 0.0_f64);
        let mut was_impossible = false;
        for period in self.periods.since(from).filter(|period| period.start + TICK > self.launched) {
            if period.ec2_at <= now {
                let works = period.cpu_vcpus >= idle.cpu_below_vcpus
                    || period.network_mbps >= idle.network_below_mbps
                    || period.disk_mbps >= idle.disk_below_mbps;
                if works {
                    return TrueUsage::Busy;
                }
                ec2_samples += i64::from(period.start < to);
                for gpu in (0..powered).filter(|gpu| period.gpu_missing.is_none_or(|missing| missing as usize != *gpu))
                {
                    if period.power_percent(gpu) >= 50.0 {
                        return TrueUsage::Busy;
                    }
                    power_percent = power_percent.max(period.power_percent(gpu));
                    power_samples[gpu] += i64::from(period.start < to);
                }
            }
            if period.gpu_at <= now {
                let missing = period.gpu_missing.filter(|gpu| (*gpu as usize) < reporting);
                was_impossible |= period.blank.is_some() && missing.is_some();
                for gpu in
                    (0..reporting).filter(|gpu| period.gpu_missing.is_none_or(|missing| missing as usize != *gpu))
                {
                    if period.gpu_percent[gpu] >= idle.gpu_below_percent {
                        return TrueUsage::Busy;
                    }
                    held_mib[gpu] = held_mib[gpu].or(Some(period.held_mib));
                    gpu_samples[gpu] += i64::from(period.start < to);
                }
            }
        }
        let enough = |samples: i64| samples > 0 && samples * 100 >= idle.coverage_min_percent * periods;
        let young = from < self.launched + idle.boot_grace;
        let by_power = self.idle_power_percent(settings).is_some_and(|line| power_percent < line)
            && powered >= gpus
            && power_samples[..gpus].iter().all(|count| enough(*count));
        let all_report = reporting >= gpus && gpu_samples[..gpus].iter().all(|count| *count > 0);
        if !young && !all_report && !was_impossible && by_power && enough(ec2_samples) {
            return TrueUsage::IdleByPower;
        }
        if young || reporting < gpus || !enough(ec2_samples) || !gpu_samples[..gpus].iter().all(|count| enough(*count))
        {
            return TrueUsage::Unknown;
        }
        TrueUsage::Idle { holds_memory: held_mib.iter().flatten().any(|held| *held > idle.held_mib) }
    }
}
