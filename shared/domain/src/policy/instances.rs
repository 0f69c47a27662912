//! The instance reaper's decisions: whom to ask about, what to do to each instance, and whom to spare.
//!
//! Spares come first: protected, kept, unreadable, foreign-owned. Then **all** rules are judged; each broken one keeps its
//! own deadline, the earliest that may be enforced acts, and one that is only told or only observed never hides it.

mod ask;
mod spare;

use std::collections::BTreeMap;

use jiff::Timestamp;

pub use ask::{Ask, asked, asks, usage_of_unasked};

use super::settle::{Entries, Settled, settle};
use super::{Broken, Policy, Subject, Verdict, expired, hours, idle, lifetime, owner_of, team_of, untagged, value_of};
use crate::id::{Region, ResourceId};
use crate::instance::{Instance, State};
use crate::limits;
use crate::mark::{Announced, Mark};
use crate::mode::Mode;
use crate::notices::{Notices, Topic};
use crate::observed::Observed;
use crate::plan::{Action, Because, Finding, Mended, OnlyTold, Plan, Spared, SparedBecause, Step, Target};
use crate::rule::{Ending, Rule};
use crate::usage::{Unknown, Usage};
use crate::vocabulary::Vocabulary;

/// What earlier runs told, by region.
pub type Memory = BTreeMap<Region, Notices>;

const NOT_ASKED: Usage = Usage::Unknown(Unknown::NotAsked);

/// Plans for every instance that was seen. The same arguments give the same plan.
#[must_use]
pub fn decide(seen: &Observed<Instance>, usages: &BTreeMap<ResourceId, Usage>, memory: &Memory, policy: &Policy, now: Timestamp) -> Plan {
    let mut plan = Plan { steps: Vec::new(), spared: Vec::new(), gaps: seen.gaps.clone() };
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
    limits::hold_where_exceeded(&mut plan.steps, seen.items.len(), &policy.config.limits);
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

/// The rules of one mode, and what follows from them.
struct Track {
    mode: Mode,
    /// What was announced before, and still binds.
    before: Entries,
    settled: Settled,
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
            State::Pending => Line::Spared(Box::new(self.spared(SparedBecause::Young, None, Vec::new()))),
            State::Stopping | State::ShuttingDown | State::Terminated | State::Unknown => {
                Line::Spared(Box::new(self.spared(SparedBecause::NotRunning, None, Vec::new())))
            }
        }
    }

    fn subject(self, says: &'a Vocabulary) -> Subject<'a> {
        Subject { instance: self.instance, says, usage: self.usage, config: &self.policy.config, now: self.now }
    }

    fn mode(self, says: &'a Vocabulary, rule: Rule) -> Mode {
        self.subject(says).mode(rule).min(self.policy.ceiling)
    }

    fn verdicts(self, says: &'a Vocabulary) -> Vec<(Rule, Verdict)> {
        let subject = self.subject(says);
        Rule::ALL
            .into_iter()
            .map(|rule| {
                let verdict = match rule {
                    Rule::Expired => expired::judge(subject),
                    Rule::Untagged => untagged::judge(subject),
                    Rule::Idle => idle::judge(subject),
                    Rule::Hours => hours::judge(subject),
                    Rule::Lifetime => lifetime::judge(subject),
                };
                (rule, verdict)
            })
            .collect()
    }

    fn decide_running(self, says: &Vocabulary) -> Line {
        let verdicts = self.verdicts(says);
        let standing = standing(&verdicts, self.usage);
        let enforced = self.track(says, &verdicts, Mode::Enforce);
        let observed = self.track(says, &verdicts, Mode::Observe);
        let action = self
            .due(&enforced)
            .or_else(|| self.rewrite(says, &enforced))
            .or_else(|| self.only_told(&enforced))
            .or_else(|| self.only_told(&observed))
            .or_else(|| self.due(&observed))
            .or_else(|| self.rewrite(says, &observed));
        match action {
            Some(step) => Line::Step(Box::new(Step { standing, ..step })),
            None => Line::Spared(Box::new(self.spared_after_judging(&[enforced, observed], standing))),
        }
    }

    fn track(self, says: &Vocabulary, verdicts: &[(Rule, Verdict)], mode: Mode) -> Track {
        let before: Entries = Rule::ALL
            .into_iter()
            .filter(|rule| self.mode(says, *rule) == mode)
            .filter_map(|rule| Some((rule, self.announced(says, rule, mode)?)))
            .collect();
        let of_mode = verdicts.iter().filter(|(rule, _)| self.mode(says, *rule) == mode);
        Track { mode, settled: settle(of_mode, &before, self.now), before }
    }

    /// What was announced for a rule and still binds: on the resource, or where it could not be written there, in memory.
    fn announced(self, says: &Vocabulary, rule: Rule, mode: Mode) -> Option<Announced> {
        let id = &self.instance.id;
        let on_tag = says.marked.as_ref().filter(|mark| mark.resource == *id);
        let in_memory = match mode {
            Mode::Enforce => self.notices.unwritten_marks.get(id),
            Mode::Observe => self.notices.shadow_marks.get(id),
        };
        let binds = |mark: &Mark| {
            let announced = mark.entries.get(&rule).copied()?;
            let overtaken_by_keep = says.keep_until.is_some_and(|kept| kept <= self.now && kept > announced.deadline);
            (announced.is_fresh(self.instance.launched_at, self.now) && !overtaken_by_keep).then_some(announced)
        };
        let (first, second) = if mode == Mode::Enforce { (on_tag, in_memory) } else { (in_memory, on_tag) };
        first.and_then(binds).or_else(|| second.and_then(binds))
    }

    /// The end whose deadline has passed.
    fn due(self, track: &Track) -> Option<Step> {
        let (broken, announced) = track.settled.due.as_ref()?;
        let rule = broken.because.rule();
        // An owner's own end is announced and carried out in one run.
        let mark = (!track.before.contains_key(&rule) && track.mode == Mode::Enforce).then(|| self.mark_of(track.settled.entries.clone()));
        let action = match announced.ending {
            Ending::Stop => Action::Stop { mark, stopped: format!("{rule} {}", whole_second(self.now)) },
            Ending::Terminate => Action::Terminate { mark },
        };
        let told_before =
            track.mode == Mode::Observe && self.notices.was_told(&self.instance.id, &Topic::would(rule), &would(*announced));
        Some(Step { deadline: Some(announced.deadline), told_before, ..self.step(track.mode, action, broken.because.clone()) })
    }

    /// Marks or unmarks, where what is on the resource is not what is announced.
    fn rewrite(self, says: &Vocabulary, track: &Track) -> Option<Step> {
        let entries = &track.settled.entries;
        let written = self.written(says, track);
        let missing = entries.keys().any(|rule| !written.contains_key(rule) || !track.before.contains_key(rule));
        if missing && let Some((because, deadline, besides)) = first_said(track) {
            let told_before = track.settled.news.is_empty();
            let mark = Action::Mark(self.mark_of(entries.clone()));
            return Some(Step { deadline: Some(deadline), besides, told_before, ..self.step(track.mode, mark, because) });
        }
        let clear_stopped = says.stopped.is_some() && track.mode == Mode::Enforce && self.mode(says, Rule::Hours) == Mode::Enforce;
        let gone = written.keys().find(|rule| entries.get(rule) != written.get(rule)).copied();
        if gone.is_none() && !clear_stopped {
            return None;
        }
        let remaining = (!entries.is_empty()).then(|| self.mark_of(entries.clone()));
        let because = Because::Mended(Mended { rule: gone.unwrap_or(Rule::Hours), mended: true });
        // What binds nobody (another's, of an earlier life) is taken away without a word.
        let told_before = gone.is_none_or(|rule| !track.before.contains_key(&rule));
        Some(Step { told_before, ..self.step(track.mode, Action::Unmark { remaining, clear_stopped }, because) })
    }

    /// What is written for the rules of a track, whether or not it still binds.
    fn written(self, says: &Vocabulary, track: &Track) -> Entries {
        match track.mode {
            Mode::Enforce => says.marked.as_ref().map(|mark| mark.entries.clone()).unwrap_or_default(),
            Mode::Observe => self.notices.shadow_marks.get(&self.instance.id).map(|mark| mark.entries.clone()).unwrap_or_default(),
        }
    }

    fn only_told(self, track: &Track) -> Option<Step> {
        let untold = |(broken, why): &&(Broken, OnlyTold)| {
            !self.notices.was_told(&self.instance.id, &Topic::rule(broken.because.rule()), &told_fingerprint(*why))
        };
        let (broken, why) = track.settled.only_told.iter().find(untold)?;
        Some(Step { only_told: Some(*why), ..self.step(track.mode, Action::Notify, broken.because.clone()) })
    }

    fn decide_stopped(self, says: &Vocabulary) -> Line {
        let Some(began) = hours::start_is_due(self.instance, says, self.now) else {
            return Line::Spared(Box::new(self.spared(SparedBecause::NotRunning, None, Vec::new())));
        };
        let mode = self.mode(says, Rule::Hours);
        let because = Because::Hours { hours: says.hours.as_ref().map(ToString::to_string).unwrap_or_default(), at: began };
        let told_before =
            mode == Mode::Observe && self.notices.was_told(&self.instance.id, &Topic::would(Rule::Hours), &began.to_string());
        let step = Step { deadline: Some(began), told_before, saves: None, ..self.step(mode, Action::Start, because) };
        Line::Step(Box::new(Step { standing: vec![Topic::would(Rule::Hours), Topic::undone(Rule::Hours)], ..step }))
    }

    fn mark_of(self, entries: Entries) -> Mark {
        Mark { resource: self.instance.id.clone(), entries }
    }

    fn step(self, mode: Mode, action: Action, because: Because) -> Step {
        let saves = match action {
            Action::Unmark { .. } | Action::Start => None,
            Action::Mark(_) | Action::Notify | Action::Stop { .. } | Action::Terminate { .. } => {
                self.policy.prices.saved_by_ending(self.instance)
            }
        };
        Step {
            target: self.target(),
            action,
            because,
            deadline: None,
            only_told: None,
            besides: Vec::new(),
            mode,
            saves,
            held: None,
            told_before: false,
            standing: Vec::new(),
            seen: self.instance.clone(),
        }
    }

    fn target(self) -> Target {
        Target {
            region: self.instance.region.clone(),
            resource: self.instance.id.clone(),
            team: team_of(self.instance, &self.policy.config),
            owner: owner_of(self.instance, &self.policy.config),
            name: value_of(self.instance, "Name").map(str::to_owned),
            instance_type: self.instance.instance_type.clone(),
            instance_storage_gb: self.instance.machine.instance_storage_gb,
        }
    }
}

/// What a mark says first, and what besides: the news, or where all is known, everything.
fn first_said(track: &Track) -> Option<(Because, Timestamp, Vec<(Because, Timestamp)>)> {
    let mut said = track.settled.news.iter().map(|(broken, announced)| (broken.because.clone(), announced.deadline));
    let known = || {
        let (rule, announced) = track.settled.entries.first_key_value()?;
        Some((Because::Mended(Mended { rule: *rule, mended: false }), announced.deadline))
    };
    let (because, deadline) = said.next().or_else(known)?;
    Some((because, deadline, said.collect()))
}

/// Topics that may be remembered: those of rules that are broken, or that nobody can say anything about.
fn standing(verdicts: &[(Rule, Verdict)], usage: &Usage) -> Vec<Topic> {
    let unsettled = verdicts.iter().filter(|(_, verdict)| *verdict != Verdict::Kept).map(|(rule, _)| *rule);
    let of_rules = unsettled.flat_map(|rule| [Topic::rule(rule), Topic::would(rule), Topic::undone(rule)]);
    let usage_unknown = matches!(usage, Usage::Unknown(_)).then(|| Topic::named(spare::USAGE_UNKNOWN));
    of_rules.chain(usage_unknown).collect()
}

/// The fingerprint of an end in observe mode.
#[must_use]
pub fn would(announced: Announced) -> String {
    format!("{}@{}", announced.ending, announced.deadline)
}

/// The fingerprint of something that is only told.
#[must_use]
pub fn told_fingerprint(why: OnlyTold) -> String {
    format!("{why:?}")
}

fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

impl Case<'_> {
    fn spared(self, because: SparedBecause, finding: Option<Finding>, standing: Vec<Topic>) -> Spared {
        Spared { target: self.target(), because, finding, standing }
    }
}

#[cfg(test)]
mod tests;
