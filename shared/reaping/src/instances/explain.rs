//! What there is to say of one instance.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::curfew_tags::{CurfewTags, UnreadableTag};
use model::duration;
use model::foreign::controller;
use model::foreign_text::quoted_unless_word;
use model::hours::HoursPosition;
use model::id::ResourceId;
use model::instance::{Instance, InstanceState};
use model::mode::Mode;
use model::moment::{after, before};
use model::notification_log::{NotificationLog, NotificationLogs};
use model::observation::Observation;
use model::ownership::describe_near_misses;
use model::rule::Rule;
use model::usage::{BusyEvidence, LAG, MetricReading, UnknownUsage, Usage, UsageMeasure, UsageQuery, UsageWindow};

use super::unknown_usage::{describe_unknown, quote_name};
use super::{InstanceCase, NOT_ASKED, RunningInstance, decide};
use crate::announcements::AnnouncementTarget;
use crate::explain::{
    EffectiveMode, Explanation, ImmediateSkip, JudgedRule, PlanDecision, RuleExplanation, UpcomingViolation,
    skipping_tag, state_of,
};
use crate::job_ownership::{JobOwnership, RejectedClaim};
use crate::policy::{DueAction, InstanceSubject, Policy, Verdict};
use crate::rules::hours::NOTICE;
use crate::rules::{expired, hours, idle, lifetime, over_budget, untagged};

/// What there is to say of one instance, by what a run would be given.
#[must_use]
pub fn explain(
    instance: &Instance,
    usage: Option<&Usage>,
    notices: &NotificationLog,
    policy: &Policy,
    now: Timestamp,
) -> Option<Explanation> {
    let usage = usage.unwrap_or(&NOT_ASKED);
    let decision = decision(instance, usage, notices, policy, now)?;
    let case = InstanceCase { instance, usage, notices, policy, now };
    let curfew_tags = CurfewTags::read(instance);
    let skipped = case.immediate_skip_explained();
    let rules = case.rules(&curfew_tags);
    let curfew_tags = curfew_tags.unwrap_or_default();
    // As of any end that Curfew infers.
    let (wanted, from) = case.subject(&curfew_tags).mode_and_its_source(Rule::Lifetime);
    Some(Explanation {
        target: case.target(),
        state: state_of(&instance.state),
        since: instance.launched_at,
        price: policy.prices.saved_by_ending(instance),
        mode: EffectiveMode { mode: wanted.min(policy.ceiling), wanted, source: from },
        rules: if skipped.is_some() { rules.into_iter().map(RuleExplanation::while_skipped).collect() } else { rules },
        skipped,
        decision,
    })
}

/// What to ask `CloudWatch` about one instance, whether or not a run would ask now; `None` where it does not run.
#[must_use]
pub fn full_usage_query<'a>(instance: &'a Instance, config: &Config, now: Timestamp) -> Option<UsageQuery<'a>> {
    let curfew_tags = CurfewTags::read(instance).unwrap_or_default();
    let length = idle::window(&curfew_tags, config).unwrap_or(config.idle.window);
    let ask = UsageQuery::in_full(instance, UsageWindow::ending_before(now, length));
    Some(ask).filter(|_| instance.state == InstanceState::Running)
}

/// A plan's own, of this instance alone.
fn decision(
    instance: &Instance,
    usage: &Usage,
    notices: &NotificationLog,
    policy: &Policy,
    now: Timestamp,
) -> Option<PlanDecision> {
    let seen = Observation { items: vec![instance.clone()], gaps: Vec::new() };
    let usages: BTreeMap<ResourceId, Usage> = BTreeMap::from([(instance.id.clone(), usage.clone())]);
    let memory = NotificationLogs::from([(instance.region.clone(), notices.clone())]);
    PlanDecision::from_plan(decide(&seen, &usages, &memory, policy, now), instance.id.as_str())
}

impl InstanceCase<'_> {
    fn immediate_skip_explained(self) -> Option<ImmediateSkip> {
        let reason = self.immediate_skip()?.reason;
        let unreadable = CurfewTags::read(self.instance).err();
        let words = skipping_tag(reason, &self.instance.tags, unreadable.as_ref()).unwrap_or_else(|| {
            let owner = controller(self.instance, &self.policy.config.managed).unwrap_or_default();
            format!("managed by {owner}; change it there")
        });
        Some(ImmediateSkip { reason, words })
    }

    fn rules(self, curfew_tags: &Result<CurfewTags, Vec<UnreadableTag>>) -> Vec<RuleExplanation> {
        let nothing = CurfewTags::default();
        let legible = curfew_tags.as_ref().unwrap_or(&nothing);
        let not_judged = |why: &str, when: &str| {
            let of =
                |rule| RuleExplanation::not_judged(rule, self.in_mode(legible, rule), why.to_owned(), when.to_owned());
            Rule::OF_INSTANCES.map(of).to_vec()
        };
        if curfew_tags.is_err() && self.immediate_skip().is_some() {
            return not_judged("one of its tags cannot be read", "not while a tag cannot be read");
        }
        if let Some(why) = self.only_its_expiry_counts() {
            let when = "not while it belongs, or may belong, to that job";
            let mut rules = not_judged(&why, when);
            if self.instance.state == InstanceState::Running {
                for (row, judged) in rules.iter_mut().zip(self.judged(legible)) {
                    if row.rule == Rule::Expired {
                        *row = judged;
                    } else {
                        // What was announced before still is, where it is unknown whose it is.
                        (row.announced, row.deadline) = (judged.announced, judged.deadline);
                    }
                }
            }
            return rules;
        }
        if self.instance.state != InstanceState::Running {
            let state = format!("it is {}", state_of(&self.instance.state));
            let mut rules = not_judged(&state, "not before it runs");
            for row in rules.iter_mut().filter(|row| row.rule == Rule::Hours) {
                if let Some(began) = self.starts_at(legible) {
                    row.starts_at = Some(began);
                    row.when = format!("started by the first run from {began} on, as its hours begin");
                }
            }
            return rules;
        }
        self.judged(legible)
    }

    /// Why nothing but `expired` is judged of it: a job's machine, or what may be one.
    fn only_its_expiry_counts(self) -> Option<String> {
        match self.ownership() {
            JobOwnership::Owned(job) => {
                Some(format!("it belongs to the job {}, which terminates it", quoted_unless_word(job)))
            }
            JobOwnership::Unknown(job) => {
                Some(format!("it is unknown whether it belongs to the job {} that it names", quoted_unless_word(job)))
            }
            JobOwnership::None | JobOwnership::NotOwned(_) => None,
        }
    }

    fn judged(self, legible: &CurfewTags) -> Vec<RuleExplanation> {
        let running = RunningInstance { case: self, curfew_tags: legible };
        let verdicts = running.within_labels(self.verdicts(legible));
        let tracks = [Mode::Enforce, Mode::Observe].map(|mode| running.track(&verdicts, mode));
        let [enforced, observed] = &tracks;
        let subject = self.subject(legible);
        let judged = verdicts.iter().map(|(rule, verdict)| {
            let mode = self.in_mode(legible, *rule);
            let track = if mode.mode == Mode::Enforce { enforced } else { observed };
            let (evidence, coming) = (evidence(subject, *rule, verdict), coming(subject, *rule, verdict));
            JudgedRule { rule: *rule, verdict, mode, track, evidence, coming, now: self.now }
        });
        judged.map(JudgedRule::into_explanation).collect()
    }

    /// When what Curfew stopped for the night is started again.
    fn starts_at(self, curfew_tags: &CurfewTags) -> Option<Timestamp> {
        let at = match curfew_tags.hours.as_ref()?.position(self.now) {
            HoursPosition::Inside { .. } => self.now,
            HoursPosition::Outside { until, .. } => until?,
        };
        let record = self.notices.record(&self.instance.id);
        hours::start_is_due(self.instance, curfew_tags, record, at).filter(|began| !self.was_stopped_again(*began))
    }

    fn in_mode(self, curfew_tags: &CurfewTags, rule: Rule) -> EffectiveMode {
        let (wanted, from) = self.subject(curfew_tags).mode_and_its_source(rule);
        EffectiveMode { mode: wanted.min(self.policy.ceiling), wanted, source: from }
    }
}

/// The evidence of a verdict in words.
fn evidence(subject: InstanceSubject<'_>, rule: Rule, verdict: &Verdict) -> String {
    match (verdict, rule) {
        (Verdict::Violated(violation), _) => {
            let near = match rule {
                Rule::Untagged => describe_near_misses(&subject.instance.tags, &subject.missing_tags()),
                _ => String::new(),
            };
            violation.evidence.describe(subject.now) + &near
        }
        (_, Rule::Expired) => match subject.curfew_tags.expires_at {
            Some(at) => format!("its curfew:expires-at ({at}) is in the future"),
            None => "it carries no curfew:expires-at".to_owned(),
        },
        (_, Rule::OverBudget) => over_budget::describe_budgets(subject.as_budget_subject()),
        (_, Rule::Untagged) => tags_evidence(subject, verdict),
        (_, Rule::Idle) => usage_evidence(subject),
        (_, Rule::Hours) => hours_evidence(subject),
        (_, Rule::Lifetime) => age_evidence(subject),
        (_, Rule::Orphaned) => String::new(),
    }
}

fn tags_evidence(subject: InstanceSubject<'_>, verdict: &Verdict) -> String {
    let (missing, required) = (subject.missing_tags(), &subject.config.tags.required);
    if let Some(RejectedClaim { job, why }) = untagged::disowned_by(subject) {
        let job = quoted_unless_word(job);
        return format!("its curfew:job names {job}, {}; its launch may still be in progress", why.explain());
    }
    match verdict {
        _ if required.is_empty() => "no tag is required".to_owned(),
        _ if missing.is_empty() => format!("it has all required tags ({})", required.join(", ")),
        Verdict::Unknown => {
            format!("it lacks the required tags {}, and its usage is unknown", missing.join(", "))
        }
        _ => format!("it lacks the required tags {}, which may still arrive", missing.join(", ")),
    }
}

fn usage_evidence(subject: InstanceSubject<'_>) -> String {
    let Some(window) = idle::window(subject.curfew_tags, subject.config) else {
        return "its owner set curfew:idle-after=off".to_owned();
    };
    match subject.usage {
        Usage::Busy(BusyEvidence { shown: Some(reading), .. }) => describe_reading(reading),
        Usage::Busy(BusyEvidence { until, shown: None }) => format!("it was busy until {until}"),
        Usage::Idle(_) => String::new(),
        Usage::Unknown(UnknownUsage::Young) => {
            let (boot, window) =
                (duration::format_duration(subject.config.idle.boot_grace), duration::format_duration(window));
            format!("launched at {}, less than {boot} and a window of {window} ago", subject.instance.launched_at)
        }
        Usage::Unknown(unknown) => {
            let why = describe_unknown(unknown, subject.instance, &subject.config.metrics);
            format!("its usage is unknown: {why}")
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
        UsageMeasure::GpuMemory(name) => {
            let name = name.as_deref().map(quote_name).unwrap_or_default();
            format!("{value:.0} MiB held on GPU {name} at {at}")
        }
        UsageMeasure::Cpu => format!("{value:.2} vCPUs busy at {at}, above the threshold of {line}"),
        UsageMeasure::Network => format!("network at {value:.1} Mbit/s at {at}, above the threshold of {line}"),
        UsageMeasure::Disk => format!("EBS at {value:.1} Mbit/s at {at}, above the threshold of {line}"),
    }
}

fn hours_evidence(subject: InstanceSubject<'_>) -> String {
    let Some(hours) = &subject.curfew_tags.hours else {
        return "it carries no curfew:hours".to_owned();
    };
    match hours.position(subject.now) {
        HoursPosition::Inside { until: Some(end), .. } => format!("within its hours ({hours}) until {end}"),
        HoursPosition::Inside { until: None, .. } => format!("within its hours ({hours})"),
        HoursPosition::Outside { .. } => {
            format!("outside its hours ({hours}), but started after they ended; skipped until they end again")
        }
    }
}

fn age_evidence(subject: InstanceSubject<'_>) -> String {
    let age = duration::format_duration(subject.now.duration_since(subject.instance.launched_at));
    match subject.curfew_tags.expires_at {
        Some(at) => format!("its owner set curfew:expires-at={at}"),
        None => {
            format!("it has run for {age}; the limit is {}", duration::format_duration(subject.config.lifetime.max))
        }
    }
}

/// When a rule that is kept can be broken at the earliest, if nothing about the instance changes but the time.
fn coming(subject: InstanceSubject<'_>, rule: Rule, verdict: &Verdict) -> Option<UpcomingViolation> {
    if *verdict != Verdict::Compliant {
        return None;
    }
    let InstanceSubject { instance, curfew_tags, config, .. } = subject;
    // Not yet at the moment itself, but right after it.
    let just_after = |at: Timestamp| after(at, SignedDuration::from_secs(1));
    // The next run sees an expiry before its time.
    let then = |at: Timestamp| InstanceSubject { now: at, expiry_seen: curfew_tags.expires_at, ..subject };
    let due = |at: Timestamp, judge: fn(InstanceSubject<'_>) -> Verdict| match judge(then(at)) {
        Verdict::Violated(violation) => Some(violation.due),
        Verdict::Compliant | Verdict::Unknown => None,
    };
    let (at, due) = match rule {
        Rule::Expired => {
            let at = curfew_tags.expires_at?;
            (at, due(at, expired::judge))
        }
        Rule::Untagged if subject.missing_tags().is_empty() && untagged::disowned_by(subject).is_none() => return None,
        Rule::Untagged => {
            let at = after(instance.launched_at, config.untagged.settle);
            (at, due(at, untagged::judge))
        }
        Rule::Idle => {
            let at = idle_at_the_earliest(subject)?;
            let due = idle::ending(subject, false)
                .map_or_else(DueAction::NotifyOnly, |ending| DueAction::After(ending, after(at, config.idle.grace)));
            (at, Some(due))
        }
        Rule::Hours => {
            let at = before(next_end(subject)?, NOTICE);
            (at, due(at, hours::judge))
        }
        Rule::Lifetime if curfew_tags.expires_at.is_some() => return None,
        Rule::Lifetime => {
            let at = just_after(after(instance.launched_at, config.lifetime.max));
            (at, due(at, lifetime::judge))
        }
        // When it will be spent, it is unknown.
        Rule::OverBudget | Rule::Orphaned => return None,
    };
    Some(UpcomingViolation { at, due })
}

fn idle_at_the_earliest(subject: InstanceSubject<'_>) -> Option<Timestamp> {
    let window = idle::window(subject.curfew_tags, subject.config)?;
    match subject.usage {
        Usage::Busy(busy) => Some(after(after(busy.until, window), LAG)),
        Usage::Unknown(UnknownUsage::Young) => {
            Some(after(after(after(subject.instance.launched_at, subject.config.idle.boot_grace), window), LAG))
        }
        Usage::Idle(_) | Usage::Unknown(_) => None,
    }
}

fn next_end(subject: InstanceSubject<'_>) -> Option<Timestamp> {
    let hours = subject.curfew_tags.hours.as_ref()?;
    let end_from = |at: Timestamp| match hours.position(at) {
        HoursPosition::Inside { until, .. } => until,
        HoursPosition::Outside { .. } => None,
    };
    match hours.position(subject.now) {
        HoursPosition::Inside { until, .. } => until,
        HoursPosition::Outside { until, .. } => end_from(until?),
    }
}

#[cfg(test)]
mod tests;
