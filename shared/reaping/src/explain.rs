//! Explanations: each rule's verdict on one resource, its evidence, and the time of Curfew's action.
//!
//! An explanation is made of the verdicts and announcements of a plan, and has the decision of a plan: it explains what a run does.

mod held;
mod words;

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

pub use crate::engine::PlanDecision;
pub use held::ActionAwaitingApproval;
pub(crate) use words::describe_skip;

use billing::price::Quote;
use model::curfew_tags::{CurfewTags, UnreadableTag, explain_unreadable, kept_until};
use model::instance::Tags;
use model::mark::AnnouncedAction;
use model::mode::Mode;
use model::refusal::Refusal;
use model::rule::{ResourceAction, Rule};
use plan::{NotifyOnlyReason, Plan, ResourceMemory, SkipReason, Target};

use crate::engine::announcements::{AnnouncedResource, RuleTrack};
use crate::engine::{ResourceCase, Running, RunningCase};
use crate::policy::{DueAction, ModeSource, Verdict};
use crate::rules;

/// The verdicts of the rules on one resource, and the decision of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    pub target: Target,
    /// EC2's name for the state.
    pub state: String,
    /// Time of its launch, creation or start.
    pub since: Timestamp,
    /// Its cost, or for an instance the saving of a stop; `None` if unknown.
    pub price: Option<Quote>,
    /// Its mode for policy actions.
    pub mode: EffectiveMode,
    /// The skip that no verdict changes, if there is one.
    pub skipped: Option<ImmediateSkip>,
    /// Every rule for this kind of resource.
    pub rules: Vec<RuleExplanation>,
    pub decision: PlanDecision,
}

/// The `when` of a compliant rule that time alone cannot violate.
pub const WHILE_COMPLIANT: &str = "not while it complies";

/// A mode, and what sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveMode {
    /// Limited by the ceiling.
    pub mode: Mode,
    /// The mode that tags and configuration want.
    pub wanted: Mode,
    pub source: ModeSource,
}

/// A skip before any rule is judged, and the condition that ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImmediateSkip {
    pub reason: SkipReason,
    /// The reason in words for people.
    pub words: String,
}

/// The verdict of a rule, without its details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleVerdict {
    /// The rule is not violated, or does not apply.
    Compliant,
    /// The evidence is missing.
    Unknown,
    Violated,
    /// The rule does not judge the resource in its present state.
    NotJudged,
}

/// One rule, its verdict and what follows.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleExplanation {
    pub rule: Rule,
    pub verdict: RuleVerdict,
    /// Violated only from a later time on, such as the end of its hours.
    pub is_ahead: bool,
    /// The evidence, for people.
    pub evidence: String,
    /// The resource's mode for this rule.
    pub mode: EffectiveMode,
    /// The action that is due: `stop`, `terminate`, … or `notify`.
    pub action: Option<&'static str>,
    /// The announced action, if there is one.
    pub ending: Option<ResourceAction>,
    /// Earliest time of the action. Without an announcement, as if a run announced it now.
    pub deadline: Option<Timestamp>,
    /// `true` if the owner was notified of this deadline.
    pub announced: bool,
    /// The reason why Curfew only notifies.
    pub notify_only: Option<NotifyOnlyReason>,
    /// The time or the condition of the action, for people.
    pub when: String,
    /// The earliest violation of a compliant rule, if only time passes.
    pub coming: Option<UpcomingViolation>,
    /// Time at which Curfew starts a stopped instance again, as its hours begin.
    pub starts_at: Option<Timestamp>,
}

/// The earliest violation of a rule that is not violated now, and the action that is due then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpcomingViolation {
    pub at: Timestamp,
    /// `None` if that depends on more than time.
    pub due: Option<DueAction>,
}

/// Every rule's verdict on a running resource.
pub(crate) fn explain_rules<'a>(case: impl RunningCase<'a>, curfew_tags: &CurfewTags) -> Vec<RuleExplanation> {
    let (running, subject) = (Running { case, curfew_tags }, case.subject(curfew_tags));
    let verdicts = running.within_labels(case.verdicts(curfew_tags));
    let [enforced, observed] = [Mode::Enforce, Mode::Observe].map(|mode| running.track(&verdicts, mode));
    let judged = verdicts.iter().map(|(rule, verdict)| {
        let mode = case.effective_mode(curfew_tags, *rule);
        let track = if mode.mode == Mode::Enforce { &enforced } else { &observed };
        let evidence = rules::explain(*rule, subject, verdict);
        let coming = rules::upcoming(*rule, subject, verdict);
        JudgedRule { rule: *rule, verdict, mode, track, evidence, coming, now: subject.now }
    });
    judged.map(JudgedRule::into_explanation).collect()
}

/// One rule's verdict with everything that its explanation needs.
pub(crate) struct JudgedRule<'a> {
    pub(crate) rule: Rule,
    pub(crate) verdict: &'a Verdict,
    pub(crate) mode: EffectiveMode,
    pub(crate) track: &'a RuleTrack,
    pub(crate) evidence: String,
    pub(crate) coming: Option<UpcomingViolation>,
    pub(crate) now: Timestamp,
}

impl JudgedRule<'_> {
    pub(crate) fn into_explanation(self) -> RuleExplanation {
        let announced_action = self.track.settled.entries.get(&self.rule).copied();
        let before = self.track.announced_before.get(&self.rule);
        let announced = announced_action
            .is_some_and(|announced_action| before.is_some_and(|before| before.deadline == announced_action.deadline));
        let due = match self.verdict {
            Verdict::Violated(violation) => Some(violation.due),
            Verdict::Compliant | Verdict::Unknown => None,
        };
        let notify_only = match due {
            Some(DueAction::NotifyOnly(why)) => Some(why),
            _ => None,
        };
        let notify = notify_only.map(|_| "notify");
        RuleExplanation {
            rule: self.rule,
            verdict: match self.verdict {
                Verdict::Compliant => RuleVerdict::Compliant,
                Verdict::Unknown => RuleVerdict::Unknown,
                Verdict::Violated(_) => RuleVerdict::Violated,
            },
            is_ahead: matches!(self.verdict, Verdict::Violated(violation) if violation.since.is_some_and(|since| since > self.now)),
            action: announced_action.map(|announced_action| announced_action.ending.as_str()).or(notify),
            ending: announced_action.map(|announced_action| announced_action.ending),
            deadline: announced_action.map(|announced_action| announced_action.deadline),
            announced,
            notify_only,
            when: self.when(announced_action, announced, due),
            coming: self.coming,
            starts_at: None,
            evidence: self.evidence,
            mode: self.mode,
        }
    }

    fn when(&self, announced_action: Option<AnnouncedAction>, announced: bool, due: Option<DueAction>) -> String {
        match (self.verdict, announced_action, due) {
            (Verdict::Compliant, ..) => self.when_compliant(),
            (Verdict::Unknown, Some(announced_action), _) => {
                format!("not while this is unknown; announced for {}", announced_action.deadline)
            }
            (_, Some(announced_action), Some(DueAction::NotifyOnly(why))) => {
                format!("not now, because {}; announced for {}", why.explain(), announced_action.deadline)
            }
            (_, _, Some(DueAction::NotifyOnly(why))) => format!("notify only: {}", why.explain()),
            (_, Some(announced_action), due) => {
                self.when_announced(announced_action, announced, matches!(due, Some(DueAction::AtOnce(..))))
            }
            (_, None, _) => "not while this is unknown".to_owned(),
        }
    }

    fn when_compliant(&self) -> String {
        let coming = self.coming.as_ref().map(|coming| coming.describe(self.mode.mode));
        let when = coming.unwrap_or_else(|| WHILE_COMPLIANT.to_owned());
        match self.track.announced_before.get(&self.rule) {
            Some(before) => format!("the action announced for {} is called off; {when}", before.deadline),
            None => when,
        }
    }

    fn when_announced(&self, announced_action: AnnouncedAction, announced: bool, owners_moment: bool) -> String {
        let AnnouncedAction { ending, deadline, .. } = announced_action;
        let ended = ending.past_tense();
        if let Some(refusal) = self.track.settled.refused_rules.get(&self.rule) {
            return describe_refusal(*refusal);
        }
        match self.mode.mode {
            Mode::Observe => format!("never in observe mode; in enforce mode {ended} from {deadline} on"),
            Mode::Enforce if owners_moment || (announced && deadline <= self.now) => {
                // One resource does not show how many actions the run has.
                let is_scheduled =
                    matches!(self.verdict, Verdict::Violated(violation) if violation.evidence.is_scheduled());
                let unless = if is_scheduled { "" } else { ", unless that run exceeds [limits]" };
                match ending {
                    ResourceAction::SnapshotAndDelete => format!(
                        "the next run starts its snapshot{unless}; the first run that finds the snapshot complete deletes the volume"
                    ),
                    _ => format!("{ended} by the next run{unless}"),
                }
            }
            Mode::Enforce if announced => {
                format!("{ended} by the first run from {deadline} on that finds it still violated")
            }
            Mode::Enforce => {
                format!(
                    "the next run notifies its subscribers and marks it; {ended} from {deadline} on, counted from now"
                )
            }
        }
    }
}

/// The reason why AWS refused an action, its remedy, and the time of the next try.
pub(crate) fn describe_refusal(refusal: Refusal) -> String {
    let remedy = refusal.reason.remedy().map(|remedy| format!(": {remedy}")).unwrap_or_default();
    format!("AWS refused it at {}{remedy}; tried again by the first run from {} on", refusal.at, refusal.ends_at())
}

impl UpcomingViolation {
    pub(crate) fn describe(&self, mode: Mode) -> String {
        let at = self.at;
        match self.due {
            None => format!("not before {at}"),
            Some(DueAction::NotifyOnly(why)) => format!("not before {at}, and then notify only: {}", why.explain()),
            Some(DueAction::AtOnce(ending, _) | DueAction::After(ending, _)) if mode == Mode::Observe => {
                format!("not before {at}, and then only observed, not {}", ending.past_tense())
            }
            Some(DueAction::AtOnce(ending, _)) => format!("{} by the first run from {at} on", ending.past_tense()),
            Some(DueAction::After(ending, deadline)) => {
                format!("announced at {at} at the earliest, {} from {deadline} on", ending.past_tense())
            }
        }
    }
}

impl RuleExplanation {
    /// A rule that does not judge the resource in its present state.
    pub(crate) const fn not_judged(rule: Rule, mode: EffectiveMode, evidence: String, when: String) -> Self {
        Self {
            rule,
            verdict: RuleVerdict::NotJudged,
            is_ahead: false,
            evidence,
            mode,
            action: None,
            ending: None,
            deadline: None,
            announced: false,
            notify_only: None,
            when,
            coming: None,
            starts_at: None,
        }
    }

    /// The explanation of the rule while Curfew skips the resource.
    pub(crate) fn while_skipped(self) -> Self {
        let when = match self.verdict {
            RuleVerdict::Violated | RuleVerdict::Unknown | RuleVerdict::Compliant => {
                "not while it is skipped".to_owned()
            }
            RuleVerdict::NotJudged => self.when,
        };
        Self { when, coming: None, starts_at: None, ..self }
    }
}

impl PlanDecision {
    /// The decision of a plan about one resource.
    pub(crate) fn from_plan(plan: Plan, resource: &str) -> Option<Self> {
        let step = plan.steps.into_iter().find(|step| step.target.resource.as_str() == resource);
        let skipped = || plan.skipped.into_iter().find(|skipped| skipped.target.resource.as_str() == resource);
        step.map(|step| Self::Step(Box::new(step))).or_else(|| Some(Self::Skipped(Box::new(skipped()?))))
    }

    #[must_use]
    pub const fn target(&self) -> &Target {
        match self {
            Self::Step(step) => &step.target,
            Self::Skipped(skipped) => &skipped.target,
        }
    }

    pub(crate) const fn memory(&self) -> &ResourceMemory {
        match self {
            Self::Step(step) => &step.memory,
            Self::Skipped(skipped) => &skipped.memory,
        }
    }
}

impl EffectiveMode {
    /// The mode that tags and configuration want, limited by the ceiling.
    pub(crate) fn under(ceiling: Mode, (wanted, source): (Mode, ModeSource)) -> Self {
        Self { mode: wanted.min(ceiling), wanted, source }
    }
}

impl ImmediateSkip {
    /// The skip of a resource, if there is one; `describe` has the words for reasons other than a tag.
    pub(crate) fn explain<'a>(
        case: impl ResourceCase<'a>,
        describe: impl FnOnce(SkipReason) -> String,
    ) -> Option<Self> {
        let reason = case.immediate_skip()?.reason;
        let by_tag = skipping_tag(reason, case.facts().tags, case.curfew_tags().as_ref().err());
        Some(Self { reason, words: by_tag.unwrap_or_else(|| describe(reason)) })
    }
}

impl fmt::Display for EffectiveMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode.as_str())?;
        if self.mode == self.wanted {
            write!(f, ", by {}", self.source)
        } else {
            write!(f, ", the ceiling at present; otherwise {}, by {}", self.wanted.as_str(), self.source)
        }
    }
}

impl fmt::Display for ModeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag => f.write_str("its tag curfew:mode"),
            Self::OwnersSchedule => f.write_str("its owner's schedule"),
            Self::Untagged => f.write_str("[untagged] mode"),
            Self::Team(team) => write!(f, "[teams.{team}] mode"),
            Self::SageMaker => f.write_str("[sagemaker] mode"),
            Self::Account => f.write_str("mode at the top of the configuration"),
        }
    }
}

/// The tag by which Curfew skips the resource, for people; `None` for another reason.
pub(crate) fn skipping_tag(reason: SkipReason, tags: &Tags, unreadable: Option<&Vec<UnreadableTag>>) -> Option<String> {
    match reason {
        SkipReason::Protected => {
            Some("it carries curfew:protected; Curfew does not touch it until that tag is removed".to_owned())
        }
        SkipReason::Kept => {
            let until = kept_until(tags).map(|until| until.to_string()).unwrap_or_default();
            Some(format!("its curfew:keep-until exempts it until {until}"))
        }
        SkipReason::Unreadable => {
            let unreadable = unreadable.map_or(String::new(), |unreadable| explain_unreadable(unreadable));
            Some(format!("{unreadable}; skipped until that is corrected"))
        }
        _ => None,
    }
}

/// EC2's name for a state.
pub(crate) fn state_name(state: &impl Serialize) -> String {
    let word = serde_json::to_value(state).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}
