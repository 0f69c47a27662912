//! The action that is possible for an instance, or why Curfew only notifies.

use jiff::SignedDuration;
use model::config::{Config, DiskPolicy, RuleAction};
use model::curfew_tags::{CurfewTags, PROTECTED};
use model::foreign::controller;
use model::instance::{Instance, InstanceState, PurchaseOption, Tags};
use model::ownership::team_of;
use model::rule::{ResourceAction, Rule};
use plan::{Action, NotifyOnlyReason, Step};

use crate::job_ownership::{JobOwnership, RejectedClaim, RejectionReason};
use crate::subject::Subject;

/// The action where a rule wants `action`: the milder thing where the instance cannot be stopped, where stopping saves nothing, or where it
/// would lose NVMe storage that is to be kept. An expiry terminates what it cannot stop, and loses what it loses: its owner set the time.
pub(crate) fn feasible(
    subject: Subject<'_>,
    instance: &Instance,
    rule: Rule,
    action: RuleAction,
) -> Result<ResourceAction, NotifyOnlyReason> {
    // EC2 user guide, "Stop and start Amazon EC2 instances": neither one-time Spot nor instance-store roots.
    let cannot_be_stopped = instance.root_on_instance_storage || instance.purchase == PurchaseOption::SpotOneTime;
    let is_expired = rule == Rule::Expired;
    let wants_termination = is_of_a_job(subject.ownership)
        || subject.curfew_tags.on_idle == Some(RuleAction::Terminate)
        || cannot_be_stopped;
    let ending = match action {
        RuleAction::Notify => return Err(NotifyOnlyReason::Configured),
        RuleAction::Stop if is_expired && wants_termination => ResourceAction::Terminate,
        RuleAction::Stop => ResourceAction::Stop,
        RuleAction::Terminate => ResourceAction::Terminate,
    };
    match instance.purchase {
        PurchaseOption::SpotPersistent => return Err(NotifyOnlyReason::PersistentSpot),
        PurchaseOption::SpotUnknown => return Err(NotifyOnlyReason::SpotRequestUnknown),
        PurchaseOption::OnDemand
        | PurchaseOption::SpotOneTime
        | PurchaseOption::CapacityBlock
        | PurchaseOption::InterruptibleReservation => {}
    }
    if is_expired {
        return Ok(ending);
    }
    if ending == ResourceAction::Stop && cannot_be_stopped {
        return Err(NotifyOnlyReason::CannotBeStopped);
    }
    // A reservation is no reason to run outside its hours: the owner asked for that stop.
    if instance.prepaid.is_some() && rule != Rule::Hours {
        return Err(NotifyOnlyReason::SavesNothing);
    }
    scratch_grace(subject, instance, rule).map(|_| ending).ok_or(NotifyOnlyReason::LocalDisk)
}

/// The reason why a stop saves nothing, and the command that changes that.
pub(super) fn describe_prepaid(instance: &Instance) -> String {
    let command = instance.release_command().map(|command| format!(": `{command}`")).unwrap_or_default();
    format!("{}{command}", NotifyOnlyReason::SavesNothing.explain())
}

/// The shortest grace before an action that loses the NVMe storage; zero without any, and `None` if it must not be lost. For idleness the
/// instance's own tag decides, else its team's setting, else the account's. For other rules only the owner's own `curfew:local-disk` counts.
pub(crate) fn scratch_grace(subject: Subject<'_>, instance: &Instance, rule: Rule) -> Option<SignedDuration> {
    if instance.machine.instance_storage_gb == 0 {
        return Some(SignedDuration::ZERO);
    }
    let configured = || match rule {
        Rule::Idle => configured_disk_policy(subject.tags, subject.config),
        _ => DiskPolicy::Expendable,
    };
    subject.curfew_tags.local_disk.unwrap_or_else(configured).grace_min()
}

/// `true` if the configuration's `local_disk` makes Curfew only notify once this instance is idle: a running one with NVMe storage, about which
/// its owner says nothing, and which nothing else keeps from a stop.
#[must_use]
pub fn is_withheld_by_local_disk(instance: &Instance, config: &Config) -> bool {
    let Ok(curfew_tags) = CurfewTags::read(instance) else { return false };
    let may_be_stopped = instance.state == InstanceState::Running
        && curfew_tags.on_idle.unwrap_or(config.idle.action) != RuleAction::Notify
        && curfew_tags.job.is_none()
        && !instance.tags.contains_key(PROTECTED)
        && instance.prepaid.is_none()
        && controller(instance, &config.managed).is_none();
    may_be_stopped
        && instance.machine.instance_storage_gb > 0
        && curfew_tags.local_disk.is_none()
        && configured_disk_policy(&instance.tags, config) == DiskPolicy::Keep
}

fn configured_disk_policy(tags: &Tags, config: &Config) -> DiskPolicy {
    team_disk_policy(tags, config).unwrap_or_else(|| config.idle.local_disk.in_force())
}

fn team_disk_policy(tags: &Tags, config: &Config) -> Option<DiskPolicy> {
    team_of(tags, config).and_then(|team| config.team(&team)?.local_disk)
}

/// The steps that only notify about idleness because neither the configuration nor a tag says whether NVMe storage may be lost.
#[must_use]
pub fn withheld_without_choice<'a>(steps: &'a [Step], config: &Config) -> Vec<&'a Step> {
    let is_open = |instance: &Instance| {
        let has_tag = CurfewTags::read(instance).is_ok_and(|tags| tags.local_disk.is_some());
        let is_chosen = has_tag || config.idle.local_disk.chosen().is_some();
        !is_chosen && team_disk_policy(&instance.tags, config).is_none()
    };
    let is_withheld = |step: &&Step| {
        step.evidence.rule() == Rule::Idle
            && step.notify_only == Some(NotifyOnlyReason::LocalDisk)
            && matches!(&step.action, Action::Instance(instance, _) if is_open(instance))
    };
    steps.iter().filter(is_withheld).collect()
}

/// A tag that was copied from a job's machine must not terminate an instance. If the state of the job is unknown or lost, the machine's own
/// timer would have terminated it.
const fn is_of_a_job(claim: JobOwnership<'_>) -> bool {
    match claim {
        JobOwnership::Owned(_) | JobOwnership::Unknown(_) => true,
        JobOwnership::NotOwned(RejectedClaim { why, .. }) => matches!(why, RejectionReason::NoJob),
        JobOwnership::None => false,
    }
}
