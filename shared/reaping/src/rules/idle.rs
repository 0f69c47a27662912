//! **Idle**, if and only if
//! - the resource does not say `curfew:idle-after=off`,
//! - and its usage over its window is [`Usage::Idle`] for an instance (see [`model::usage`] for what that takes), or
//!   [`Activity::Inactive`] for a resource of `SageMaker` (see `sagemaker/activity.rs`).
//!
//! The window is `curfew:idle-after`, else `[idle].window`; what happens is `curfew:on-idle`, else `[idle].action`. For `SageMaker`,
//! `[sagemaker]` has a window and an action for each kind. `SageMaker` does not report whether a notebook instance is used, so none is idle.
//! Where GPU memory is held (a notebook, a waiting server) it is "reserved", where NVMe storage must be kept a stop would lose it, and where the
//! power of its GPUs alone shows it, `[idle] power` must say `enforce`: otherwise these are notify only. `local_disk` may give such storage a longer grace.

use jiff::{SignedDuration, Timestamp};
use model::config::{Config, PowerEvidence, RuleAction};
use model::curfew_tags::{CurfewTags, IdleAfter};
use model::duration::format_duration;
use model::instance::Instance;
use model::moment::after;
use model::rule::{ResourceAction, Rule};
use model::sagemaker::{
    Activity, ActivitySource, InactiveEvidence, LowUse, SageMakerKind, SageMakerResource, UnknownActivity,
};
use model::usage::{BusyEvidence, IdleEvidence, LAG, MetricReading, UnknownUsage, Usage, UsageMeasure};
use plan::report::RecordedEvidence;
use plan::{Evidence, Facts, NotifyOnlyReason};

use super::RunningRule;
use crate::instances::{describe_unknown_usage, quote_name};
use crate::policy::{DueAction, Verdict, Violation};
use crate::sagemaker::{describe_low_use, describe_unknown_activity};
use crate::subject::{Subject, SubjectKind};

pub(crate) struct Idle;

/// Further facts of an idle instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct IdleQuality {
    /// It holds GPU memory.
    pub(crate) reserved: bool,
    /// Only the power of its GPUs shows that it is idle.
    pub(crate) by_power: bool,
}

impl RunningRule for Idle {
    fn rule(&self) -> Rule {
        Rule::Idle
    }

    fn judge(&self, subject: Subject<'_>) -> Verdict {
        if subject_window(subject).is_none() {
            return Verdict::Compliant;
        }
        let (evidence, quality) = match subject.kind {
            SubjectKind::Instance { usage: Usage::Idle(quiet), .. } => {
                let quality = IdleQuality { reserved: quiet.reserved, by_power: quiet.is_by_power() };
                (evidence_of_instance(quiet), quality)
            }
            SubjectKind::SageMaker { activity: Activity::Inactive(inactive), .. } => {
                (evidence_of_sagemaker(inactive), IdleQuality::default())
            }
            SubjectKind::Instance { usage: Usage::Busy(_) | Usage::Unknown(UnknownUsage::Young), .. }
            | SubjectKind::SageMaker {
                activity: Activity::Active(_) | Activity::LowUse(_) | Activity::Unknown(UnknownActivity::Young),
                ..
            } => return Verdict::Compliant,
            SubjectKind::Instance { usage: Usage::Unknown(_), .. }
            | SubjectKind::SageMaker { activity: Activity::Unknown(_), .. } => return Verdict::Unknown,
        };
        Verdict::Violated(Violation::new(evidence, due(subject, quality)))
    }

    fn compliant_because(&self, subject: Subject<'_>, _: &Verdict) -> String {
        match (subject.kind, subject_window(subject)) {
            (SubjectKind::SageMaker { resource, .. }, None)
                if matches!(resource.kind, SageMakerKind::NotebookInstance) =>
            {
                "SageMaker does not report whether it is used".to_owned()
            }
            (_, None) => "its owner set curfew:idle-after=off".to_owned(),
            (SubjectKind::Instance { instance, usage }, Some(window)) => {
                describe_usage(instance, usage, window, subject.config)
            }
            (SubjectKind::SageMaker { activity: Activity::Active(at), .. }, _) => format!("it was used at {at}"),
            (SubjectKind::SageMaker { activity: Activity::LowUse(low_use), .. }, _) => {
                format!("it was used at {}, and little: {}", low_use.used_at, describe_low_use(low_use))
            }
            (SubjectKind::SageMaker { activity: Activity::Unknown(unknown), .. }, _) => {
                describe_unknown_activity(*unknown)
            }
            (SubjectKind::SageMaker { activity: Activity::Inactive(_), .. }, Some(window)) => {
                format!("not used for {}", format_duration(window))
            }
        }
    }

    fn violated_from(&self, subject: Subject<'_>) -> Option<Timestamp> {
        let window = subject_window(subject)?;
        match subject.kind {
            SubjectKind::Instance { usage: Usage::Busy(busy), .. } => Some(after(after(busy.until, window), LAG)),
            SubjectKind::Instance { usage: Usage::Unknown(UnknownUsage::Young), .. } => {
                let judged_from = after(subject.running_since, subject.config.idle.boot_grace);
                Some(after(after(judged_from, window), LAG))
            }
            SubjectKind::SageMaker {
                activity: Activity::Active(used_at) | Activity::LowUse(LowUse { used_at, .. }),
                ..
            } => Some(after(*used_at, window)),
            SubjectKind::Instance { .. } | SubjectKind::SageMaker { .. } => None,
        }
    }

    /// If it is not used until then, and holds no GPU memory.
    fn due_then(&self, subject: Subject<'_>) -> Option<DueAction> {
        Some(due(subject, IdleQuality::default()))
    }

    fn summarize(&self, evidence: &RecordedEvidence, _: &str) -> Option<String> {
        let since = evidence.minute("from")?;
        let gpu = || evidence.number("gpu_max_percent");
        Some(match evidence.text("shown_by") {
            Some("user-activity") => format!("not used since {since}"),
            Some("requests") => format!("no request since {since}"),
            Some(_) => format!("GPUs at {:.0} % since {since}", gpu()?),
            None if evidence.details.contains_key("shown_by") => return None,
            None => {
                let cpu = evidence.number("cpu_max_vcpus")?;
                match evidence.number("gpu_power_max_percent") {
                    Some(power) => format!("GPU power at {power:.0} %, CPU {cpu:.1} vCPUs since {since}"),
                    None => format!("GPU at {:.0} %, CPU {cpu:.1} vCPUs since {since}", gpu()?),
                }
            }
        })
    }
}

/// The window in which an instance must have been idle; `None` with `curfew:idle-after=off`.
#[must_use]
pub fn window(curfew_tags: &CurfewTags, config: &Config) -> Option<SignedDuration> {
    match curfew_tags.idle_after {
        Some(IdleAfter::Off) => None,
        Some(IdleAfter::Window(window)) => Some(window),
        None => Some(config.idle.window),
    }
}

/// The window in which a resource of `SageMaker` must have been unused; `None` where it is never judged for idleness.
pub(crate) fn sagemaker_window(
    kind: &SageMakerKind,
    curfew_tags: &CurfewTags,
    config: &Config,
) -> Option<SignedDuration> {
    let configured = match kind {
        SageMakerKind::NotebookInstance => return None,
        SageMakerKind::App(_) => config.sagemaker.app_window,
        SageMakerKind::Endpoint { .. } | SageMakerKind::InferenceComponent(_) => config.sagemaker.endpoint_window,
        SageMakerKind::Job(_) => config.sagemaker.job_window,
    };
    match curfew_tags.idle_after {
        Some(IdleAfter::Off) => None,
        Some(IdleAfter::Window(window)) => Some(window),
        None => Some(configured),
    }
}

fn subject_window(subject: Subject<'_>) -> Option<SignedDuration> {
    let Subject { curfew_tags, config, .. } = subject;
    match subject.kind {
        SubjectKind::Instance { .. } => window(curfew_tags, config),
        SubjectKind::SageMaker { resource: SageMakerResource { kind, .. }, .. } => {
            sagemaker_window(kind, curfew_tags, config)
        }
    }
}

fn due(subject: Subject<'_>, quality: IdleQuality) -> DueAction {
    let grace = match subject.kind {
        SubjectKind::Instance { .. } => subject.config.idle.grace,
        SubjectKind::SageMaker { .. } => subject.config.sagemaker.grace,
    };
    subject.announced_now(Rule::Idle, ending(subject, quality), grace)
}

/// The action for an idle resource of this quality; or why Curfew only notifies.
pub(crate) fn ending(subject: Subject<'_>, quality: IdleQuality) -> Result<ResourceAction, NotifyOnlyReason> {
    // First, because no other setting would lead to an action.
    if quality.by_power && subject.config.idle.power != PowerEvidence::Enforce {
        return Err(NotifyOnlyReason::PowerOnly);
    }
    let configured = match subject.kind {
        SubjectKind::Instance { .. } => subject.config.idle.action,
        SubjectKind::SageMaker { .. } => RuleAction::Stop,
    };
    let ending = subject.feasible(Rule::Idle, subject.curfew_tags.on_idle.unwrap_or(configured))?;
    if quality.reserved { Err(NotifyOnlyReason::Reserved) } else { Ok(ending) }
}

fn evidence_of_instance(idle: &IdleEvidence) -> Evidence {
    let held = idle.gpu_memory_held_mib.map(|mib| format!(", {mib:.0} MiB of GPU memory held")).unwrap_or_default();
    let sentence = format!(
        "idle from {} to {}: {}, CPU {:.2} vCPUs, network {:.2} Mbit/s{held}",
        idle.from,
        idle.to,
        describe_devices(idle),
        idle.cpu_max_vcpus,
        idle.network_max_mbps
    );
    Evidence::new(Rule::Idle, Facts::Idle(idle.clone()), sentence)
}

/// `8 GPUs at 0 % at most`, or `the power of 8 GPUs at most 3 % of its maximum`.
fn describe_devices(IdleEvidence { devices, gpu_max_percent, gpu_power_max_percent, .. }: &IdleEvidence) -> String {
    let plural = if *devices == 1 { "" } else { "s" };
    match (gpu_max_percent, gpu_power_max_percent) {
        (Some(percent), _) => format!("{devices} GPU{plural} at {percent:.0} % at most"),
        (None, Some(percent)) => format!("the power of {devices} GPU{plural} at most {percent:.0} % of its maximum"),
        (None, None) => format!("{devices} GPU{plural}"),
    }
}

pub(crate) fn evidence_of_sagemaker(inactive: &InactiveEvidence) -> Evidence {
    let InactiveEvidence { from, to, shown_by, gpu_max_percent } = inactive;
    let gpu = gpu_max_percent.map(|percent| format!(", GPUs at {percent:.0} % at most")).unwrap_or_default();
    let sentence = match shown_by {
        ActivitySource::UserActivity => format!("its user was last active at {from}, by SageMaker's look at {to}"),
        ActivitySource::Requests => format!("no request from {from} to {to}{gpu}"),
        ActivitySource::Gpu => format!("idle from {from} to {to}{gpu}"),
    };
    Evidence::new(Rule::Idle, Facts::Inactive(inactive.clone()), sentence)
}

fn describe_usage(instance: &Instance, usage: &Usage, window: SignedDuration, config: &Config) -> String {
    match usage {
        Usage::Busy(BusyEvidence { shown: Some(reading), .. }) => describe_reading(reading),
        Usage::Busy(BusyEvidence { until, shown: None }) => format!("it was busy until {until}"),
        Usage::Idle(_) => "it is idle, but whether all of its gang may be stopped is unknown".to_owned(),
        Usage::Unknown(UnknownUsage::Young) => {
            let (boot, window) = (format_duration(config.idle.boot_grace), format_duration(window));
            format!("launched at {}, less than {boot} and a window of {window} ago", instance.launched_at)
        }
        Usage::Unknown(unknown) => {
            format!("its usage is unknown: {}", describe_unknown_usage(unknown, instance, &config.metrics))
        }
    }
}

/// `GPU 3 at 97 % at 2026-09-01T14:05:00Z, above the threshold of 5 %`.
fn describe_reading(MetricReading { measure, at, value, line }: &MetricReading) -> String {
    match measure {
        UsageMeasure::Gpu(name) => {
            let name = name.as_deref().map(|name| format!(" {}", quote_name(name))).unwrap_or_default();
            format!("GPU{name} at {value:.0} % at {at}, above the threshold of {line} %")
        }
        UsageMeasure::GpuPower(name) => {
            let name = name.as_deref().map(|name| format!(" {}", quote_name(name))).unwrap_or_default();
            format!("power of GPU{name} at {value:.0} % of its maximum at {at}, above the threshold of {line} %")
        }
        UsageMeasure::GpuMemory(name) => {
            let name = name.as_deref().map(quote_name).unwrap_or_default();
            format!("{value:.0} MiB held on GPU {name} at {at}")
        }
        UsageMeasure::Cpu => format!("{value:.2} vCPUs busy at {at}, above the threshold of {line}"),
        UsageMeasure::Network => format!("network at {value:.1} Mbit/s at {at}, above the threshold of {line}"),
        UsageMeasure::Disk => format!("EBS at {value:.1} Mbit/s at {at}, above the threshold of {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{RuleInput, busy, idle, idle_by_power, instance, reserved, unknown};
    use model::instance::{PrepaidCapacity, PurchaseOption};

    #[derive(Debug, PartialEq)]
    enum Outcome {
        Compliant,
        Unknown,
        End(ResourceAction),
        NotifyOnly(NotifyOnlyReason),
    }

    fn check(input: RuleInput, expect: Outcome) {
        let outcome = match input.judge(|subject| Idle.judge(subject)) {
            Verdict::Compliant => Outcome::Compliant,
            Verdict::Unknown => Outcome::Unknown,
            Verdict::Violated(Violation { due: DueAction::NotifyOnly(why), .. }) => Outcome::NotifyOnly(why),
            Verdict::Violated(Violation {
                due: DueAction::After(ending, _) | DueAction::AtOnce(ending, _), ..
            }) => Outcome::End(ending),
        };
        assert_eq!(outcome, expect);
    }

    fn quiet(builder: crate::fixture::InstanceBuilder) -> RuleInput {
        RuleInput::from(builder).usage(idle())
    }

    #[test]
    fn three_values_of_usage() {
        check(quiet(instance()), Outcome::End(ResourceAction::Stop));
        check(RuleInput::from(instance()).usage(busy()), Outcome::Compliant);
        check(RuleInput::from(instance()).usage(unknown()), Outcome::Unknown);
    }

    #[test]
    fn tags_come_before_configuration() {
        check(quiet(instance().tag("curfew:idle-after", "off")), Outcome::Compliant);
        check(quiet(instance().tag("curfew:on-idle", "terminate")), Outcome::End(ResourceAction::Terminate));
        check(quiet(instance().tag("curfew:on-idle", "notify")), Outcome::NotifyOnly(NotifyOnlyReason::Configured));
        check(
            quiet(instance().tag("curfew:on-idle", "stop")).config("[idle]\naction = \"notify\""),
            Outcome::End(ResourceAction::Stop),
        );
    }

    #[test]
    fn held_memory_is_notify_only() {
        check(RuleInput::from(instance()).usage(reserved()), Outcome::NotifyOnly(NotifyOnlyReason::Reserved));
    }

    #[test]
    fn power_alone_is_notify_only_unless_it_is_enforced() {
        let by_power = |config: &str| RuleInput::from(instance()).usage(idle_by_power()).config(config);
        check(by_power(""), Outcome::NotifyOnly(NotifyOnlyReason::PowerOnly));
        check(by_power("mode = \"enforce\""), Outcome::NotifyOnly(NotifyOnlyReason::PowerOnly));
        check(by_power("[idle]\npower = \"enforce\""), Outcome::End(ResourceAction::Stop));
        let scratch =
            |config: &str| RuleInput::from(instance().instance_storage(250)).usage(idle_by_power()).config(config);
        check(scratch(""), Outcome::NotifyOnly(NotifyOnlyReason::PowerOnly));
        check(scratch("[idle]\npower = \"enforce\""), Outcome::NotifyOnly(NotifyOnlyReason::LocalDisk));
        let Verdict::Violated(violation) = by_power("").judge(|subject| Idle.judge(subject)) else { panic!() };
        let sentence = violation.evidence.sentence;
        assert!(sentence.contains(": the power of 1 GPU at most 3 % of its maximum, CPU 0.10 vCPUs"), "{sentence}");
    }

    #[test]
    fn local_disk_is_kept_unless_tag_team_or_account_allows_its_loss() {
        let scratch = || instance().instance_storage(250);
        check(quiet(scratch()), Outcome::NotifyOnly(NotifyOnlyReason::LocalDisk));
        check(quiet(scratch().tag("curfew:on-idle", "terminate")), Outcome::NotifyOnly(NotifyOnlyReason::LocalDisk));
        check(quiet(scratch().tag("curfew:local-disk", "expendable")), Outcome::End(ResourceAction::Stop));
        check(
            quiet(scratch()).config("[teams.vision]\nlocal_disk = \"expendable\""),
            Outcome::End(ResourceAction::Stop),
        );
        check(quiet(scratch()).config("[idle]\nlocal_disk = \"expendable\""), Outcome::End(ResourceAction::Stop));
        check(
            quiet(scratch().tag("curfew:local-disk", "keep")).config("[idle]\nlocal_disk = \"expendable\""),
            Outcome::NotifyOnly(NotifyOnlyReason::LocalDisk),
        );
    }

    #[test]
    fn a_local_disk_may_have_a_grace_of_its_own() {
        let deadline = |input: RuleInput| match input.judge(|subject| Idle.judge(subject)) {
            Verdict::Violated(Violation { due: DueAction::After(_, deadline), .. }) => deadline.to_string(),
            other => panic!("{other:?}"),
        };
        let scratch = || instance().instance_storage(250);
        let day = "[idle]\nlocal_disk = \"24h\"";
        assert_eq!(deadline(quiet(scratch()).config(day)), "2026-09-02T12:00:00Z");
        assert_eq!(deadline(quiet(instance()).config(day)), "2026-09-01T13:00:00Z");
        assert_eq!(deadline(quiet(scratch().tag("curfew:local-disk", "2h"))), "2026-09-01T14:00:00Z");
        assert_eq!(deadline(quiet(scratch().tag("curfew:local-disk", "5m")).config(day)), "2026-09-01T13:00:00Z");
        let team = format!("{day}\n[teams.vision]\nlocal_disk = \"expendable\"");
        assert_eq!(deadline(quiet(scratch()).config(&team)), "2026-09-01T13:00:00Z");
    }

    #[test]
    fn an_impossible_or_useless_stop_is_notify_only() {
        check(
            quiet(instance().purchase(PurchaseOption::SpotOneTime)),
            Outcome::NotifyOnly(NotifyOnlyReason::CannotBeStopped),
        );
        check(
            quiet(instance().purchase(PurchaseOption::SpotOneTime).tag("curfew:on-idle", "terminate")),
            Outcome::End(ResourceAction::Terminate),
        );
        check(
            quiet(instance().purchase(PurchaseOption::SpotPersistent).tag("curfew:on-idle", "terminate")),
            Outcome::NotifyOnly(NotifyOnlyReason::PersistentSpot),
        );
        check(quiet(instance().root_on_instance_storage()), Outcome::NotifyOnly(NotifyOnlyReason::CannotBeStopped));
        check(
            quiet(instance().prepaid(PrepaidCapacity::CapacityReservation)),
            Outcome::NotifyOnly(NotifyOnlyReason::SavesNothing),
        );
        check(
            quiet(instance().prepaid(PrepaidCapacity::DedicatedHost)),
            Outcome::NotifyOnly(NotifyOnlyReason::SavesNothing),
        );
    }
}
