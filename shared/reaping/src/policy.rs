//! What a rule is given, what it returns, and the effective mode of a resource.

use billing::budget::BudgetStatuses;
use billing::price::PriceBook;
use jiff::Timestamp;
use model::config::{Config, DiskPolicy, RuleAction};
use model::curfew_tags::CurfewTags;
use model::id::TeamName;
use model::instance::{Instance, PurchaseOption, Tags};
use model::mode::Mode;
use model::moment::after;
use model::ownership::{missing_tags, team_of};
use model::rule::{ResourceAction, Rule};
use model::usage::Usage;
use plan::{Evidence, NotifyOnlyReason};

use crate::job_ownership::{JobOwnership, JobStates};
use crate::rules::over_budget::{self, BudgetSubject};

/// The notification about tags that cannot be read.
pub(crate) const UNREADABLE: &str = "unreadable";

/// The account's configuration under the ceiling, with the facts that the rules need.
#[derive(Debug, Clone)]
pub struct Policy {
    pub config: Config,
    /// The maximum for every resource: `CURFEW_MODE`; observe without a confirmed subscription.
    pub ceiling: Mode,
    pub prices: PriceBook,
    /// The status of the budgets that may stop what runs.
    pub budgets: BudgetStatuses,
    /// The states of the jobs that instances name.
    pub jobs: JobStates,
}

/// One running instance with everything that a rule may use.
#[derive(Debug, Clone, Copy)]
pub struct InstanceSubject<'a> {
    pub instance: &'a Instance,
    pub curfew_tags: &'a CurfewTags,
    pub usage: &'a Usage,
    pub config: &'a Config,
    pub budgets: &'a BudgetStatuses,
    pub ownership: JobOwnership<'a>,
    /// The deadline of a job's machine, by the job's state.
    pub job_deadline: Option<Timestamp>,
    /// The value of `curfew:expires-at` that Curfew saw before its time.
    pub expiry_seen: Option<Timestamp>,
    pub now: Timestamp,
}

/// The verdict of one rule.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The rule is not violated, or does not apply.
    Compliant,
    /// The evidence is missing: neither a reason to act nor to call off an announcement.
    Unknown,
    Violated(Violation),
}

/// A violated rule and what is due for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    pub evidence: Evidence,
    pub due: DueAction,
}

/// What is due for a violated rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DueAction {
    /// At once: its owner set the time.
    AtOnce(ResourceAction, Timestamp),
    /// From that time on, if a run announces it now.
    After(ResourceAction, Timestamp),
    /// Only a notification, and why.
    NotifyOnly(NotifyOnlyReason),
}

/// What sets the mode of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModeSource {
    /// Its own `curfew:mode`.
    Tag,
    /// A schedule tag of its owner.
    OwnersSchedule,
    /// `[untagged] mode`.
    Untagged,
    /// Its team's mode.
    Team(TeamName),
    /// `[sagemaker] mode`.
    SageMaker,
    /// `mode` at the top of the configuration.
    Account,
}

impl<'a> InstanceSubject<'a> {
    /// The team, by the account's team tag; `None` where the tag is absent or blank.
    #[must_use]
    pub fn team(self) -> Option<TeamName> {
        team_of(&self.instance.tags, self.config)
    }

    /// The required tags it lacks. A blank value is no value.
    #[must_use]
    pub fn missing_tags(self) -> Vec<String> {
        missing_tags(&self.instance.tags, self.config)
    }

    /// The effective mode for a rule, before the ceiling.
    ///
    /// Its own `curfew:mode`; else, for an end that its owner wrote down, enforce; else, where it lacks a required tag,
    /// the account's mode for untagged ones; else its team's; else the account's. A budget is enforced no more than its holder's
    /// own mode.
    #[must_use]
    pub fn mode(self, rule: Rule) -> Mode {
        self.mode_and_its_source(rule).0
    }

    pub(crate) fn mode_and_its_source(self, rule: Rule) -> (Mode, ModeSource) {
        // No tag moves the deadline by which the job was accepted.
        if rule == Rule::Expired && self.job_deadline.is_some_and(|at| at <= self.now) {
            return (Mode::Enforce, ModeSource::OwnersSchedule);
        }
        if self.curfew_tags.mode.is_none() && rule.is_owners_own() {
            return (Mode::Enforce, ModeSource::OwnersSchedule);
        }
        // Its tags were copied from a job, or were meant for one, `curfew:mode=enforce` too: they opt nothing in, only out.
        let is_stranger = matches!(self.ownership, JobOwnership::NotOwned(_))
            && !rule.is_owners_own()
            && self.curfew_tags.mode != Some(Mode::Observe);
        // Also once the tags are there: what was announced for their lack is called off in the mode it was announced in.
        if (self.curfew_tags.mode.is_none() || is_stranger) && rule == Rule::Untagged {
            return (self.config.untagged.mode, ModeSource::Untagged);
        }
        let (mode, from) = if is_stranger {
            (self.config.untagged.mode, ModeSource::Untagged)
        } else {
            effective_mode_and_its_source(self.curfew_tags, &self.instance.tags, self.config)
        };
        if rule == Rule::OverBudget {
            return over_budget::limited_mode(self.as_budget_subject(), (mode, from));
        }
        (mode, from)
    }

    pub(crate) const fn as_budget_subject(self) -> BudgetSubject<'a> {
        let Self { instance, config, budgets, now, .. } = self;
        BudgetSubject { tags: &instance.tags, config, budgets, now }
    }

    /// What may be done where a rule wants `action`: the milder thing where the instance cannot be stopped, where
    /// stopping saves nothing, or where it would lose NVMe storage that is to be kept.
    pub(crate) fn feasible(
        self,
        action: RuleAction,
        local_disk: DiskPolicy,
    ) -> Result<ResourceAction, NotifyOnlyReason> {
        let ending = match action {
            RuleAction::Notify => return Err(NotifyOnlyReason::Configured),
            RuleAction::Stop => ResourceAction::Stop,
            RuleAction::Terminate => ResourceAction::Terminate,
        };
        match self.instance.purchase {
            PurchaseOption::SpotPersistent => return Err(NotifyOnlyReason::PersistentSpot),
            PurchaseOption::SpotUnknown => return Err(NotifyOnlyReason::SpotRequestUnknown),
            PurchaseOption::OnDemand | PurchaseOption::SpotOneTime | PurchaseOption::CapacityBlock => {}
        }
        if ending == ResourceAction::Stop && self.cannot_be_stopped() {
            return Err(NotifyOnlyReason::CannotBeStopped);
        }
        if self.instance.prepaid.is_some() {
            return Err(NotifyOnlyReason::SavesNothing);
        }
        if self.instance.machine.instance_storage_gb > 0 && local_disk == DiskPolicy::Keep {
            return Err(NotifyOnlyReason::LocalDisk);
        }
        Ok(ending)
    }

    /// EC2 user guide, "Stop and start Amazon EC2 instances": neither one-time Spot nor instance-store roots.
    pub(crate) fn cannot_be_stopped(self) -> bool {
        self.instance.root_on_instance_storage || self.instance.purchase == PurchaseOption::SpotOneTime
    }

    /// Only an owner's own `curfew:local-disk=keep` speaks to other rules than idle.
    pub(crate) fn own_local_disk(self) -> DiskPolicy {
        self.curfew_tags.local_disk.unwrap_or(DiskPolicy::Expendable)
    }
}

impl Policy {
    /// Until when the snapshots of a volume are kept that was deleted then.
    pub(crate) fn snapshots_kept_until(&self, deleted_at: Timestamp) -> Timestamp {
        after(deleted_at, self.config.volumes.keep_snapshots)
    }
}

/// The effective mode of a resource for a reason that Curfew inferred, before the ceiling: its own `curfew:mode`; else, where
/// it lacks a required tag, the account's mode for untagged ones; else its team's; else the account's.
pub(crate) fn effective_mode(curfew_tags: &CurfewTags, tags: &Tags, config: &Config) -> Mode {
    effective_mode_and_its_source(curfew_tags, tags, config).0
}

pub(crate) fn effective_mode_and_its_source(
    curfew_tags: &CurfewTags,
    tags: &Tags,
    config: &Config,
) -> (Mode, ModeSource) {
    if let Some(own) = curfew_tags.mode {
        return (own, ModeSource::Tag);
    }
    if !missing_tags(tags, config).is_empty() {
        return (config.untagged.mode, ModeSource::Untagged);
    }
    let of_team = team_of(tags, config).and_then(|team| Some((config.team(&team)?.mode?, ModeSource::Team(team))));
    of_team.unwrap_or((config.mode, ModeSource::Account))
}
