//! The outlook of an instance: the next action on it, by the rules that the functions run by.
//!
//! Of several rules the earliest that is enforced acts; without one, the earliest that is only observed says what enforce mode would do. An
//! announced action is carried out only if a later run finds the same rule still violated.

use jiff::Timestamp;
use model::curfew_tags::{CurfewTags, JOB, kept_until, name_unreadable};
use model::instance::{Instance, InstanceState};
use model::mode::Mode;
use model::rule::{ResourceAction, Rule};
use plan::report::RunRecord;
use plan::{NotifyOnlyReason, SkipReason};
use reaping::explain::{Explanation, PlanDecision, RuleExplanation, RuleVerdict};
use reaping::policy::DueAction;
use serde::Serialize;

use super::format_moment;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutlookKind {
    Stop,
    Terminate,
    /// A stop that only enforce mode would carry out.
    WouldStop,
    WouldTerminate,
    Start,
    /// An action above `[limits]`.
    AwaitsApproval,
    NotifyOnly,
    Kept,
    Protected,
    /// The instance belongs to a job, which ends it.
    Job,
    /// No action is due; `reason` says why.
    Nothing,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outlook {
    pub kind: OutlookKind,
    /// Time from which on the outlook applies; `None` if no time is set.
    pub at: Option<Timestamp>,
    pub reason: String,
}

impl Outlook {
    pub(super) fn new(kind: OutlookKind, at: Option<Timestamp>, reason: impl Into<String>) -> Self {
        Self { kind, at, reason: reason.into() }
    }

    pub(super) fn from_explanation(
        instance: &Instance,
        explanation: &Explanation,
        newest: Option<&RunRecord>,
        now: Timestamp,
    ) -> Self {
        if let Some(skipped) = &explanation.skipped {
            return match skipped.reason {
                SkipReason::Protected => Self::new(OutlookKind::Protected, None, ""),
                SkipReason::Kept => Self::new(OutlookKind::Kept, kept_until(&instance.tags), ""),
                SkipReason::Unreadable => {
                    let unreadable = CurfewTags::read(instance).err().unwrap_or_default();
                    Self::new(OutlookKind::Nothing, None, name_unreadable(&unreadable))
                }
                _ => Self::new(OutlookKind::Nothing, None, skipped.words.clone()),
            };
        }
        if let Some(starts_at) = explanation.rules.iter().find_map(|rule| rule.starts_at) {
            return Self::new(OutlookKind::Start, Some(starts_at), reason_word(Rule::Hours));
        }
        let is_of_job =
            matches!(&explanation.decision, PlanDecision::Skipped(one) if one.reason == SkipReason::LiveJob);
        let planned = earliest(&explanation.rules, Mode::Enforce);
        if is_of_job {
            let job = instance.tags.get(JOB).map(String::as_str).unwrap_or_default();
            return Self::new(OutlookKind::Job, planned.and_then(|planned| planned.at), job);
        }
        held(instance, newest)
            .or(planned)
            .or_else(|| earliest(&explanation.rules, Mode::Observe))
            .or_else(|| notify_only(&explanation.rules))
            .unwrap_or_else(|| Self::new(OutlookKind::Nothing, None, why_nothing(instance, explanation, newest, now)))
    }

    /// `stop 18:00 (idle)`. A time that has passed means the next run.
    #[must_use]
    pub fn describe(&self, now: Timestamp) -> String {
        let when = match self.at {
            Some(at) if at <= now => " in the next run".to_owned(),
            Some(at) => format!(" {}", format_moment(at, now)),
            None => String::new(),
        };
        let Self { kind, reason, .. } = self;
        match kind {
            OutlookKind::Kept if when.is_empty() => "kept".to_owned(),
            OutlookKind::Kept => format!("kept until{when}"),
            OutlookKind::Protected => "protected".to_owned(),
            OutlookKind::Nothing => reason.clone(),
            OutlookKind::Job => format!("ends with its job{when}"),
            OutlookKind::Stop
            | OutlookKind::Terminate
            | OutlookKind::WouldStop
            | OutlookKind::WouldTerminate
            | OutlookKind::Start
            | OutlookKind::AwaitsApproval
            | OutlookKind::NotifyOnly => format!("{}{when} ({reason})", kind.as_words()),
        }
    }
}

impl OutlookKind {
    /// Returns the words for people.
    #[must_use]
    pub const fn as_words(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Terminate => "terminate",
            Self::WouldStop => "would stop",
            Self::WouldTerminate => "would terminate",
            Self::Start => "start",
            Self::AwaitsApproval => "awaits approval",
            Self::NotifyOnly => "notify only",
            Self::Kept => "keep ends",
            Self::Protected => "protected",
            Self::Job => "ends with its job",
            Self::Nothing => "nothing",
        }
    }

    const fn from_action(action: ResourceAction, mode: Mode) -> Self {
        match (action, mode) {
            (ResourceAction::Terminate, Mode::Enforce) => Self::Terminate,
            (ResourceAction::Terminate, Mode::Observe) => Self::WouldTerminate,
            (_, Mode::Enforce) => Self::Stop,
            (_, Mode::Observe) => Self::WouldStop,
        }
    }
}

/// Returns the action that the newest run left for approval.
fn held(instance: &Instance, newest: Option<&RunRecord>) -> Option<Outlook> {
    let newest = newest.filter(|run| run.at >= instance.launched_at)?;
    let mut waiting = newest.waiting().filter(|step| step.held);
    let step = waiting.find(|step| step.resource == instance.id && step.region == instance.region)?;
    let reason = format!("{}, {}", step.action, step.evidence.rule);
    Some(Outlook::new(OutlookKind::AwaitsApproval, None, reason))
}

/// The earliest action among the rules of that mode: what is announced or due, and what time alone will bring.
fn earliest(rules: &[RuleExplanation], mode: Mode) -> Option<Outlook> {
    let in_mode = rules.iter().filter(|rule| rule.mode.mode == mode && rule.notify_only.is_none());
    let actions = in_mode.filter_map(|rule| {
        let (action, at) = action_of(rule)?;
        Some(Outlook::new(OutlookKind::from_action(action, mode), Some(at), reason_word(rule.rule)))
    });
    actions.min_by_key(|outlook| outlook.at)
}

fn action_of(rule: &RuleExplanation) -> Option<(ResourceAction, Timestamp)> {
    if let Some(action) = rule.action.and_then(ResourceAction::read).zip(rule.deadline) {
        return Some(action);
    }
    // When it can be idle at the earliest, or its tags count as missing, is no appointment: it may never come.
    let is_scheduled = matches!(rule.rule, Rule::Expired | Rule::Hours | Rule::Lifetime);
    match rule.coming.filter(|_| is_scheduled && rule.verdict == RuleVerdict::Compliant)?.due? {
        DueAction::AtOnce(action, at) | DueAction::After(action, at) => Some((action, at)),
        DueAction::NotifyOnly(_) => None,
    }
}

fn notify_only(rules: &[RuleExplanation]) -> Option<Outlook> {
    let (rule, why) = rules.iter().find_map(|rule| Some((rule.rule, rule.notify_only?)))?;
    let why = match why {
        NotifyOnlyReason::Configured => String::new(),
        why => format!(", {}", why.as_str()),
    };
    Some(Outlook::new(OutlookKind::NotifyOnly, None, format!("{}{why}", reason_word(rule))))
}

/// The newest run has asked `CloudWatch`, so its reason counts more than one that is made without.
fn why_nothing(instance: &Instance, explanation: &Explanation, newest: Option<&RunRecord>, now: Timestamp) -> String {
    if instance.state != InstanceState::Running {
        return explanation.state.clone();
    }
    let run_reason = newest.filter(|run| run.at >= instance.launched_at && run.at <= now).and_then(|run| {
        let mut reasons = run.skipped.iter();
        reasons.find(|(_, ids)| ids.contains(&instance.id)).map(|(reason, _)| reason.replace('-', " "))
    });
    run_reason.unwrap_or_else(|| match &explanation.decision {
        PlanDecision::Skipped(skipped) => serde_json::to_value(skipped.reason)
            .ok()
            .and_then(|reason| reason.as_str().map(|reason| reason.replace('-', " ")))
            .unwrap_or_default(),
        PlanDecision::Step(step) => format!("next run: {}", step.action.as_str()),
    })
}

const fn reason_word(rule: Rule) -> &'static str {
    match rule {
        Rule::Expired => "expiry",
        Rule::OverBudget => "over budget",
        Rule::Hours => "hours",
        _ => rule.as_str(),
    }
}
