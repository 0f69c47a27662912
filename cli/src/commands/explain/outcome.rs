//! What is said of one resource, as scripts read it.

use domain::mode::Mode;
use domain::money::Rate;
use domain::observed::Gap;
use domain::plan::{OnlyTold, Seen, Target};
use domain::policy::explain::{Decision, Explanation, Finds, Held, InMode, RuleExplained};
use domain::policy::{ModeFrom, Policy, owner_of, team_of};
use domain::price;
use domain::rule::Rule;
use domain::vocabulary::Stopped;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::account::Besides;

/// One resource.
#[derive(Serialize)]
pub(super) struct Explained {
    pub(super) region: String,
    pub(super) resource: String,
    pub(super) what: String,
    pub(super) name: Option<String>,
    pub(super) team: Option<String>,
    pub(super) owner: Option<String>,
    pub(super) state: String,
    pub(super) since: Timestamp,
    /// Where Curfew stopped it, and nobody started it since.
    pub(super) stopped: Option<StoppedByCurfew>,
    pub(super) usd_per_hour: Option<Rate>,
    pub(super) price_source: Option<String>,
    #[serde(skip)]
    pub(super) costs: Option<String>,
    pub(super) mode: Option<Mode>,
    pub(super) mode_from: Option<&'static str>,
    #[serde(skip)]
    pub(super) mode_in_words: Option<String>,
    /// Null where nobody can say.
    pub(super) ceiling: Option<Mode>,
    pub(super) spared: Option<Spared>,
    pub(super) rules: Vec<OneRule>,
    /// Where what is due waits for a person.
    pub(super) held: Option<HeldByRun>,
    pub(super) decision: Decided,
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
pub(super) struct Spared {
    pub(super) because: Value,
    pub(super) words: String,
}

#[derive(Serialize)]
pub(super) struct OneRule {
    pub(super) rule: Rule,
    pub(super) verdict: Finds,
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
    pub(super) only_told: Option<OnlyTold>,
    pub(super) when: String,
}

#[derive(Serialize)]
pub(super) struct Decided {
    pub(super) kind: &'static str,
    pub(super) action: Option<&'static str>,
    pub(super) because: Value,
    pub(super) words: String,
}

/// What something lacks to be any of Curfew's business.
#[derive(Clone, Copy)]
pub(super) enum Lacking {
    /// It is terminated.
    Life,
    /// Its type has no accelerator.
    Accelerator,
    /// Curfew did not make it.
    Origin,
}

impl Explained {
    pub(super) fn of(explanation: Explanation, besides: Besides) -> Self {
        let Besides { ceiling, newest, stopped, notes, gaps } = besides;
        let held = newest.and_then(|newest| explanation.held_by(&newest));
        let Explanation { target, state, since, price: quote, mode, spared, rules, decision } = explanation;
        let (mut rules, mut decided) =
            (rules.into_iter().map(OneRule::of).collect::<Vec<OneRule>>(), Decided::of(&decision));
        if let Some(held) = &held {
            decided.words = held.words();
            for rule in rules.iter_mut().filter(|rule| decided.because == rule.rule.as_str()) {
                rule.when = held.words();
            }
        }
        let is_instance = target.resource.as_str().starts_with("i-");
        let costs = if is_instance { price::show(quote) } else { price::show_monthly(quote) };
        Self {
            usd_per_hour: price::rate(quote),
            price_source: quote.map(|quote| quote.source.words()),
            costs: Some(costs).filter(|_| !target.resource.as_str().starts_with("snap-")),
            mode: Some(mode.mode),
            mode_from: Some(name_of(&mode.from)),
            mode_in_words: Some(mode.to_string()),
            ceiling,
            spared: spared.map(|spared| Spared { because: word(&spared.because), words: spared.words }),
            rules,
            decision: decided,
            held: held.map(|Held { run, at, error }| HeldByRun { run: run.to_string(), at, error }),
            stopped: stopped.map(|Stopped { at, rule }| StoppedByCurfew { at, rule }),
            notes,
            gaps,
            ..Self::bare(target, state, since)
        }
    }

    /// Something that no rule is about.
    pub(super) fn not_ours(seen: &Seen, policy: &Policy, lacking: Lacking, besides: Besides) -> Self {
        let (because, words) = match lacking {
            Lacking::Life => ("terminated", "it is terminated"),
            Lacking::Accelerator => ("no-accelerator", "none of Curfew's business: its type has no accelerator"),
            Lacking::Origin => ("not-of-curfew", "none of Curfew's business: Curfew did not make it"),
        };
        let (region, resource, what, state, since) = match seen {
            Seen::Instance(one) => {
                (&one.region, &one.id, one.instance_type.to_string(), word(&one.state), one.launched_at)
            }
            Seen::Volume(one) => (&one.region, &one.id, one.volume_type.clone(), word(&one.state), one.created_at),
            Seen::Snapshot(one) => {
                (&one.region, &one.id, format!("snapshot of {}", one.of_volume), word(&one.state), one.started_at)
            }
            Seen::Budget { region, holder, as_of, .. } => {
                (region, holder, "budget".to_owned(), serde_json::Value::Null, *as_of)
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
            decision: Decided { kind: "spared", action: None, because: because.into(), words: words.to_owned() },
            ceiling: besides.ceiling,
            notes: besides.notes,
            gaps: besides.gaps,
            ..Self::bare(target, state, since)
        }
    }

    /// A volume that is gone.
    pub(super) fn deleted(target: Target, since: Timestamp, words: String, besides: Besides) -> Self {
        Self {
            decision: Decided { kind: "spared", action: None, because: "deleted".into(), words },
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
            price_source: None,
            costs: None,
            mode: None,
            mode_from: None,
            mode_in_words: None,
            ceiling: None,
            spared: None,
            rules: Vec::new(),
            decision: Decided { kind: "spared", action: None, because: Value::Null, words: String::new() },
            notes: Vec::new(),
            gaps: Vec::new(),
        }
    }
}

impl OneRule {
    fn of(explained: RuleExplained) -> Self {
        let RuleExplained { rule, finds, is_ahead, evidence, mode, action, deadline, announced, only_told, when } =
            explained;
        let InMode { from, .. } = &mode;
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
            only_told,
            when,
        }
    }
}

impl Decided {
    fn of(decision: &Decision) -> Self {
        let (kind, action, because) = match decision {
            Decision::Step(step) => ("step", Some(step.action.as_str()), word(&step.because.rule())),
            Decision::Spared(spared) => ("spared", None, word(&spared.because)),
        };
        Self { kind, action, because, words: decision.words() }
    }
}

const fn name_of(from: &ModeFrom) -> &'static str {
    match from {
        ModeFrom::Tag => "tag",
        ModeFrom::OwnersOwnEnd => "owners-own-end",
        ModeFrom::Untagged => "untagged",
        ModeFrom::Team(_) => "team",
        ModeFrom::Account => "account",
    }
}

fn word(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}
