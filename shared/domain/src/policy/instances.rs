//! The instance reaper's decisions: whom to ask about, what to do to each instance, and whom to spare.
//!
//! Spares come first: protected, kept, unreadable, foreign-owned. Then **all** rules are judged; each broken one keeps its
//! own deadline, the earliest that may be enforced acts, and one that is only told or only observed never hides it.

mod ask;
mod explain;
mod scan;
mod spare;

use std::collections::BTreeMap;

use jiff::Timestamp;

pub use ask::{Learnt, asks, learn};
pub use explain::{ask, explain};
pub use scan::{scan, unjudged};

use super::claim::Claim;
use super::follow::Followed;
use super::{
    Policy, Subject, Verdict, expired, hours, idle, lifetime, over_budget, owner_of, team_of, untagged, value_of,
};
use crate::id::ResourceId;
use crate::instance::{Instance, State};
use crate::limits;
use crate::mark::{Mark, whole_second};
use crate::mode::Mode;
use crate::notices::{Memory, Notices, Topic};
use crate::observed::Observed;
use crate::plan::{Action, Because, Memo, Plan, Seen, Spared, SparedBecause, Step, Target};
use crate::rule::{Ending, Rule};
use crate::usage::{Unknown, Usage};
use crate::vocabulary::{MARKED, STOPPED, Vocabulary};

const NOT_ASKED: Usage = Usage::Unknown(Unknown::NotAsked);

/// Plans for every instance that was seen. The same arguments give the same plan.
#[must_use]
pub fn decide(
    seen: &Observed<Instance>,
    usages: &BTreeMap<ResourceId, Usage>,
    memory: &Memory,
    policy: &Policy,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan { seen: seen.items.len(), steps: Vec::new(), spared: Vec::new(), gaps: seen.gaps.clone() };
    let nothing_told = Notices::default();
    let mut instances: Vec<&Instance> = seen.items.iter().collect();
    instances.sort_by_key(|instance| (&instance.region, &instance.id));
    for instance in instances {
        let usage = usages.get(&instance.id).unwrap_or(&NOT_ASKED);
        let notices = memory.get(&instance.region).unwrap_or(&nothing_told);
        match (Case { instance, usage, notices, policy, now }).decide() {
            Line::Step(step) => plan.steps.push(*step),
            Line::Spared(spared) => plan.spared.push(*spared),
        }
    }
    limits::hold_where_exceeded(&mut plan, &policy.config.limits);
    plan
}

/// Where the plan has one instance.
enum Line {
    Step(Box<Step>),
    Spared(Box<Spared>),
}

/// One instance and all that is known about it.
#[derive(Clone, Copy)]
struct Case<'a> {
    instance: &'a Instance,
    usage: &'a Usage,
    notices: &'a Notices,
    policy: &'a Policy,
    now: Timestamp,
}

impl<'a> Case<'a> {
    fn decide(self) -> Line {
        if let Some(spared) = self.spared_at_sight() {
            return Line::Spared(Box::new(spared));
        }
        // Unreadable tags have been spared at sight.
        let says = Vocabulary::read(self.instance).unwrap_or_default();
        match self.instance.state {
            State::Running => self.decide_running(&says),
            State::Stopped => self.decide_stopped(&says),
            // A start that comes to nothing goes through here, and is told no more often for it.
            State::Pending => {
                Line::Spared(Box::new(self.spared(SparedBecause::Young, self.unjudged(topics_of_a_start()))))
            }
            State::Stopping | State::ShuttingDown | State::Terminated | State::Unknown => {
                Line::Spared(Box::new(self.spared(SparedBecause::NotRunning, self.unjudged(Vec::new()))))
            }
        }
    }

    fn subject(self, says: &'a Vocabulary) -> Subject<'a> {
        Subject {
            instance: self.instance,
            says,
            usage: self.usage,
            config: &self.policy.config,
            budgets: &self.policy.budgets,
            claim: self.policy.jobs.claim(self.instance),
            now: self.now,
        }
    }

    fn mode(self, says: &'a Vocabulary, rule: Rule) -> Mode {
        self.subject(says).mode(rule).min(self.policy.ceiling)
    }

    fn verdicts(self, says: &'a Vocabulary) -> Vec<(Rule, Verdict)> {
        let subject = self.subject(says);
        Rule::OF_INSTANCES
            .into_iter()
            .map(|rule| {
                let verdict = match rule {
                    Rule::Expired => expired::judge(subject),
                    _ if matches!(subject.claim, Claim::Ours(_)) => Verdict::Kept,
                    _ if matches!(subject.claim, Claim::Unsayable(_)) => Verdict::Unknown,
                    Rule::OverBudget => over_budget::judge(subject),
                    Rule::Untagged => untagged::judge(subject),
                    Rule::Idle => idle::judge(subject),
                    Rule::Hours => hours::judge(subject),
                    Rule::Lifetime => lifetime::judge(subject),
                    Rule::Orphaned => Verdict::Kept,
                };
                (rule, verdict)
            })
            .collect()
    }

    fn decide_running(self, says: &'a Vocabulary) -> Line {
        let verdicts = self.verdicts(says);
        let running = Running { case: self, says };
        let enforced = running.track(&verdicts, Mode::Enforce);
        let observed = running.track(&verdicts, Mode::Observe);
        let mut standing = standing(&verdicts, self.usage);
        standing.extend(self.topic_of_its_job());
        if says.stopped.is_some() {
            standing.extend(topics_of_a_start());
        }
        let memo = Memo {
            standing,
            shadow_mark: running.still_announced(&observed),
            unwritten_mark: running.still_unwritten(&enforced),
            void_mark: running.called_off_unwritten(&observed),
            ..Memo::default()
        };
        let action = running
            .before_an_inferred_end(&enforced)
            .or_else(|| running.due(&enforced))
            .or_else(|| running.rewrite(&enforced))
            .or_else(|| running.only_told(&enforced))
            .or_else(|| running.only_told(&observed))
            // An observed end stays due in every run: once told, it hides nothing else.
            .or_else(|| running.due(&observed).filter(|step| !step.told_before))
            .or_else(|| running.rewrite(&observed))
            .or_else(|| running.due(&observed));
        match action {
            Some(step) => {
                // In the same message as the step: the next run would have nothing else to say.
                let finding = self.disowned().or_else(|| self.uninstrumented()).filter(|_| !step.action.is_end());
                Line::Step(Box::new(Step { finding, memo, ..step }))
            }
            None => Line::Spared(Box::new(self.spared_after_judging(&[enforced, observed], memo))),
        }
    }

    fn decide_stopped(self, says: &Vocabulary) -> Line {
        let began = hours::start_is_due(self.instance, says, self.now);
        let began = began.filter(|began| !self.was_stopped_again(*began) && !self.claim().knows_only_its_expiry());
        let Some(began) = began else {
            let memo = self.unjudged(topics_of_a_start());
            return Line::Spared(Box::new(self.spared(SparedBecause::NotRunning, memo)));
        };
        let mode = self.mode(says, Rule::Hours);
        let because =
            Because::Hours { hours: says.hours.as_ref().map(ToString::to_string).unwrap_or_default(), at: began };
        let told_before = mode == Mode::Observe
            && self.notices.was_told(&self.instance.id, &Topic::would(Rule::Hours), &began.to_string());
        let memo = self.unjudged(topics_of_a_start());
        let step = self.step(mode, Action::Start, because);
        Line::Step(Box::new(Step { deadline: Some(began), told_before, saves: None, memo, ..step }))
    }

    /// Curfew has started it for these hours, the start did not fail, and it is stopped: somebody wants it so.
    fn was_stopped_again(self, began: Timestamp) -> bool {
        self.notices.was_told(&self.instance.id, &Topic::started(), &began.to_string())
            && self.instance.last_start_failed().is_none()
    }

    fn step(self, mode: Mode, action: Action, because: Because) -> Step {
        let saves = match action {
            Action::Unmark { .. } | Action::Start => None,
            _ => self.policy.prices.saved_by_ending(self.instance),
        };
        Step { saves, ..Step::bare(self.target(), action, because, mode, Seen::Instance(self.instance.clone())) }
    }

    fn target(self) -> Target {
        Target {
            region: self.instance.region.clone(),
            resource: self.instance.id.clone(),
            team: team_of(&self.instance.tags, &self.policy.config),
            owner: owner_of(&self.instance.tags, &self.policy.config),
            name: value_of(&self.instance.tags, "Name").map(str::to_owned),
            what: self.instance.instance_type.to_string(),
        }
    }
}

fn topics_of_a_start() -> Vec<Topic> {
    vec![Topic::would(Rule::Hours), Topic::undone(Rule::Hours), Topic::started()]
}

/// Topics that may be remembered: those of rules that are broken, or that nobody can say anything about.
fn standing(verdicts: &[(Rule, Verdict)], usage: &Usage) -> Vec<Topic> {
    let unsettled = verdicts.iter().filter(|(_, verdict)| *verdict != Verdict::Kept).map(|(rule, _)| *rule);
    let of_rules = unsettled.flat_map(|rule| [Topic::rule(rule), Topic::would(rule), Topic::undone(rule)]);
    let usage_unknown = matches!(usage, Usage::Unknown(_)).then(|| Topic::named(spare::USAGE_UNKNOWN));
    of_rules.chain(usage_unknown).collect()
}

/// A running instance whose tags can be read.
#[derive(Clone, Copy)]
struct Running<'a> {
    case: Case<'a>,
    says: &'a Vocabulary,
}

impl Followed for Running<'_> {
    fn id(&self) -> &ResourceId {
        &self.case.instance.id
    }

    fn since(self) -> Timestamp {
        self.case.instance.launched_at
    }

    fn says(&self) -> &Vocabulary {
        self.says
    }

    fn notices(&self) -> &Notices {
        self.case.notices
    }

    fn now(self) -> Timestamp {
        self.case.now
    }

    fn mode(self, rule: Rule) -> Mode {
        self.case.mode(self.says, rule)
    }

    fn step(self, mode: Mode, action: Action, because: Because) -> Step {
        self.case.step(mode, action, because)
    }

    fn end(self, ending: Ending, rule: Rule, mark: Option<Mark>) -> Option<Action> {
        match ending {
            Ending::Stop => Some(Action::Stop { mark, stopped: format!("{rule} {}", whole_second(self.case.now)) }),
            Ending::Terminate => Some(Action::Terminate { mark }),
            Ending::SnapshotAndDelete | Ending::Delete => None,
        }
    }

    /// It says that Curfew stopped it, and yet it runs: somebody started it again.
    fn outlived(self) -> Option<(Rule, &'static str)> {
        let rule = self.says.stopped.as_ref().and_then(|stopped| Rule::read(&stopped.rule));
        let starts_by_hours = self.says.hours.is_some() && self.mode(Rule::Hours) == Mode::Enforce;
        let enforced = |rule: Rule| Some(rule).filter(|rule| self.mode(*rule) == Mode::Enforce);
        let rule = rule.and_then(|rule| enforced(rule).or(starts_by_hours.then_some(Rule::Hours)))?;
        Some((rule, STOPPED))
    }
}

impl Case<'_> {
    /// What stays remembered of one whose rules are not judged now: a mark that was called off is void as long as it is written.
    fn unjudged(self, standing: Vec<Topic>) -> Memo {
        let void = self.notices.void_marks.get(&self.instance.id);
        let void_mark = void.filter(|_| self.instance.tags.contains_key(MARKED)).cloned();
        Memo { standing, void_mark, ..Memo::default() }
    }

    fn spared(self, because: SparedBecause, memo: Memo) -> Spared {
        Spared { target: self.target(), because, finding: None, memo }
    }
}

#[cfg(test)]
mod tests;
