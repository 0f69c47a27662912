//! The explanation of one resource, as scripts read it.

use billing::price;
use jiff::Timestamp;
use model::mode::Mode;
use model::money::Rate;
use model::notification_log::CarriedOut;
use model::observation::{Gap, ObservedResource};
use model::ownership::{owner_of, team_of};
use model::rule::Rule;
use plan::{NotifyOnlyReason, Target};
use reaping::explain::{
    ActionAwaitingApproval, EffectiveMode, Explanation, PlanDecision, RuleExplanation, RuleVerdict,
};
use reaping::policy::{ModeSource, Policy};
use serde::Serialize;
use serde_json::Value;

use super::account::ExplanationContext;

/// The reason why a resource has no explanation, for people.
pub(super) struct Unexplained(pub(super) String);

#[derive(Serialize)]
pub(super) struct ExplainedResource {
    pub(super) region: String,
    pub(super) resource: String,
    pub(super) what: String,
    pub(super) name: Option<String>,
    pub(super) team: Option<String>,
    pub(super) owner: Option<String>,
    pub(super) state: String,
    pub(super) since: Timestamp,
    /// The stop by Curfew, if the resource was not started since.
    pub(super) stopped: Option<StoppedByCurfew>,
    /// Its cost.
    pub(super) usd_per_hour: Option<Rate>,
    /// The part of the cost that a stop or a deletion saves.
    pub(super) saves_usd_per_hour: Option<Rate>,
    pub(super) price_source: Option<String>,
    #[serde(skip)]
    pub(super) costs: Option<String>,
    pub(super) mode: Option<Mode>,
    pub(super) mode_from: Option<&'static str>,
    #[serde(skip)]
    pub(super) mode_in_words: Option<String>,
    /// Null where it is unknown.
    pub(super) ceiling: Option<Mode>,
    pub(super) skipped: Option<ExplainedSkip>,
    pub(super) rules: Vec<ExplainedRule>,
    /// The run that holds the due action for approval, if one does.
    pub(super) held: Option<HeldByRun>,
    pub(super) decision: ExplainedDecision,
    pub(super) notes: Vec<String>,
    pub(super) gaps: Vec<Gap>,
}

#[derive(Serialize)]
pub(super) struct StoppedByCurfew {
    pub(super) at: Timestamp,
    pub(super) rule: String,
}

#[derive(Serialize)]
pub(super) struct HeldByRun {
    run: String,
    at: Timestamp,
    error: String,
}

#[derive(Serialize)]
pub(super) struct ExplainedSkip {
    pub(super) reason: Value,
    pub(super) words: String,
}

#[derive(Serialize)]
pub(super) struct ExplainedRule {
    pub(super) rule: Rule,
    pub(super) verdict: RuleVerdict,
    #[serde(skip)]
    pub(super) is_ahead: bool,
    pub(super) evidence: String,
    pub(super) mode: Mode,
    pub(super) mode_from: &'static str,
    #[serde(skip)]
    pub(super) mode_in_words: String,
    pub(super) action: Option<&'static str>,
    pub(super) deadline: Option<Timestamp>,
    pub(super) announced: bool,
    pub(super) notify_only: Option<NotifyOnlyReason>,
    pub(super) when: String,
}

#[derive(Serialize)]
pub(super) struct ExplainedDecision {
    pub(super) kind: &'static str,
    pub(super) action: Option<&'static str>,
    pub(super) reason: Value,
    pub(super) words: String,
}

/// The reason why a resource is none of Curfew's business.
#[derive(Clone, Copy)]
pub(super) enum OutOfScope {
    /// The resource is terminated.
    Life,
    /// Its type has no accelerator.
    Accelerator,
    /// Curfew did not make it.
    Origin,
}

impl ExplainedResource {
    pub(super) fn from_explanation(explanation: Explanation, besides: ExplanationContext, now: Timestamp) -> Self {
        let ExplanationContext { ceiling, newest, stopped, notes, gaps, .. } = besides;
        let held = newest.and_then(|newest| explanation.held_by(&newest));
        let words = explanation.describe_decision(now);
        let Explanation { target, state, since, price: quote, mode, skipped, rules, decision } = explanation;
        let (mut rules, mut decided) = (
            rules.into_iter().map(ExplainedRule::from_explanation).collect::<Vec<ExplainedRule>>(),
            ExplainedDecision::from_decision(&decision, words),
        );
        if let Some(held) = &held {
            decided.words = held.describe();
            for rule in rules.iter_mut().filter(|rule| decided.reason == rule.rule.as_str()) {
                rule.when = held.describe();
            }
        }
        let is_by_the_hour = !target.resource.as_str().starts_with("vol-");
        let costs = if is_by_the_hour { price::format_quote(quote) } else { price::format_monthly_quote(quote) };
        Self {
            usd_per_hour: price::cost(quote),
            saves_usd_per_hour: price::rate(quote),
            price_source: quote.map(|quote| quote.source.describe()),
            costs: Some(costs).filter(|_| !target.resource.as_str().starts_with("snap-")),
            mode: Some(mode.mode),
            mode_from: Some(name_of(&mode.source)),
            mode_in_words: Some(mode.to_string()),
            ceiling,
            skipped: skipped.map(|skipped| ExplainedSkip { reason: word(&skipped.reason), words: skipped.words }),
            rules,
            decision: decided,
            held: held.map(|ActionAwaitingApproval { run, at, error }| HeldByRun { run: run.to_string(), at, error }),
            stopped: stopped.map(|CarriedOut { at, rule, .. }| StoppedByCurfew { at, rule: rule.to_string() }),
            notes,
            gaps,
            ..Self::bare(target, state, since)
        }
    }

    /// Something that no rule is about.
    pub(super) fn not_ours(
        seen: &ObservedResource,
        policy: &Policy,
        lacking: OutOfScope,
        besides: ExplanationContext,
    ) -> Self {
        let (reason, words) = match lacking {
            OutOfScope::Life => ("terminated", "it is terminated"),
            OutOfScope::Accelerator => ("no-accelerator", "not managed by Curfew: its type has no accelerator"),
            OutOfScope::Origin => ("not-of-curfew", "not managed by Curfew: Curfew did not make it"),
        };
        let (region, resource, what, state, since) = match seen {
            ObservedResource::Instance(one) => {
                (&one.region, &one.id, one.instance_type.to_string(), word(&one.state), one.launched_at)
            }
            ObservedResource::Volume(one) => {
                (&one.region, &one.id, one.volume_type.clone(), word(&one.state), one.created_at)
            }
            ObservedResource::Snapshot(one) => {
                (&one.region, &one.id, format!("snapshot of {}", one.of_volume), word(&one.state), one.started_at)
            }
            ObservedResource::SageMaker(one) => {
                (&one.region, &one.id, "SageMaker".to_owned(), word(&one.status), one.since())
            }
        };
        let state = state.as_str().unwrap_or_default().to_owned();
        let target = Target {
            region: region.clone(),
            resource: resource.clone(),
            team: team_of(seen.tags(), &policy.config),
            owner: owner_of(seen.tags(), &policy.config),
            name: seen.tags().get("Name").cloned(),
            what,
        };
        Self {
            decision: ExplainedDecision {
                kind: "skipped",
                action: None,
                reason: reason.into(),
                words: words.to_owned(),
            },
            ceiling: besides.ceiling,
            notes: besides.notes,
            gaps: besides.gaps,
            ..Self::bare(target, state, since)
        }
    }

    /// A volume that is gone.
    pub(super) fn deleted(target: Target, since: Timestamp, words: String, besides: ExplanationContext) -> Self {
        Self {
            decision: ExplainedDecision { kind: "skipped", action: None, reason: "deleted".into(), words },
            notes: besides.notes,
            gaps: besides.gaps,
            ..Self::bare(target, "deleted".to_owned(), since)
        }
    }

    fn bare(target: Target, state: String, since: Timestamp) -> Self {
        let Target { region, resource, team, owner, name, what } = target;
        Self {
            region: region.to_string(),
            resource: resource.to_string(),
            what,
            name,
            team: team.map(|team| team.to_string()),
            owner,
            state,
            since,
            stopped: None,
            held: None,
            usd_per_hour: None,
            saves_usd_per_hour: None,
            price_source: None,
            costs: None,
            mode: None,
            mode_from: None,
            mode_in_words: None,
            ceiling: None,
            skipped: None,
            rules: Vec::new(),
            decision: ExplainedDecision { kind: "skipped", action: None, reason: Value::Null, words: String::new() },
            notes: Vec::new(),
            gaps: Vec::new(),
        }
    }
}

impl ExplainedRule {
    fn from_explanation(explained: RuleExplanation) -> Self {
        let RuleExplanation {
            rule,
            verdict: finds,
            is_ahead,
            evidence,
            mode,
            action,
            deadline,
            announced,
            notify_only,
            when,
            coming: _,
            starts_at: _,
            ending: _,
        } = explained;
        let EffectiveMode { source: from, .. } = &mode;
        Self {
            rule,
            verdict: finds,
            is_ahead,
            evidence,
            mode_from: name_of(from),
            mode_in_words: mode.to_string(),
            mode: mode.mode,
            action,
            deadline,
            announced,
            notify_only,
            when,
        }
    }
}

impl ExplainedDecision {
    fn from_decision(decision: &PlanDecision, words: String) -> Self {
        let (kind, action, evidence) = match decision {
            PlanDecision::Step(step) => ("step", Some(step.action.as_str()), word(&step.evidence.rule())),
            PlanDecision::Skipped(skipped) => ("skipped", None, word(&skipped.reason)),
        };
        Self { kind, action, reason: evidence, words }
    }
}

const fn name_of(from: &ModeSource) -> &'static str {
    match from {
        ModeSource::Tag => "tag",
        ModeSource::OwnersSchedule => "owners-own-end",
        ModeSource::Untagged => "untagged",
        ModeSource::Team(_) => "team",
        ModeSource::SageMaker => "sagemaker",
        ModeSource::Account => "account",
    }
}

fn word(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}
