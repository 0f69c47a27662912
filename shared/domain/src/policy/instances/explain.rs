//! What there is to say of one instance.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::spare::why_unknown;
use super::{Case, NOT_ASKED, Running, decide};
use crate::config::Config;
use crate::duration;
use crate::foreign::controller;
use crate::hours::Position;
use crate::id::ResourceId;
use crate::instance::{Instance, State};
use crate::mode::Mode;
use crate::news::why;
use crate::notices::{Memory, Notices};
use crate::observed::Observed;
use crate::policy::claim::{Claim, Stranger};
use crate::policy::explain::{
    Coming, Decision, Explanation, InMode, Judged, RuleExplained, SparedAtSight, sparing_tag, state_of,
};
use crate::policy::follow::Followed;
use crate::policy::hours::NOTICE;
use crate::policy::{Due, Policy, Subject, Verdict, expired, hours, idle, lifetime, over_budget, untagged};
use crate::rule::Rule;
use crate::usage::{Ask, Busy, LAG, Measure, Reading, Unknown, Usage, Window};
use crate::vocabulary::{Unreadable, Vocabulary};

/// What there is to say of one instance, by what a run would be given.
#[must_use]
pub fn explain(
    instance: &Instance,
    usage: Option<&Usage>,
    notices: &Notices,
    policy: &Policy,
    now: Timestamp,
) -> Option<Explanation> {
    let usage = usage.unwrap_or(&NOT_ASKED);
    let decision = decision(instance, usage, notices, policy, now)?;
    let case = Case { instance, usage, notices, policy, now };
    let says = Vocabulary::read(instance);
    let spared = case.spared_at_sight_in_words();
    let rules = case.rules(&says);
    let says = says.unwrap_or_default();
    // As of any end that Curfew infers.
    let (wanted, from) = case.subject(&says).mode_and_its_source(Rule::Lifetime);
    Some(Explanation {
        target: case.target(),
        state: state_of(&instance.state),
        since: instance.launched_at,
        price: policy.prices.saved_by_ending(instance),
        mode: InMode { mode: wanted.min(policy.ceiling), wanted, from },
        rules: if spared.is_some() { rules.into_iter().map(RuleExplained::while_spared).collect() } else { rules },
        spared,
        decision,
    })
}

/// What to ask `CloudWatch` about one instance, whether or not a run would ask now; `None` where it does not run.
#[must_use]
pub fn ask<'a>(instance: &'a Instance, config: &Config, now: Timestamp) -> Option<Ask<'a>> {
    let says = Vocabulary::read(instance).unwrap_or_default();
    let length = idle::window(&says, config).unwrap_or(config.idle.window);
    let ask = Ask::in_full(instance, Window::ending_before(now, length));
    Some(ask).filter(|_| instance.state == State::Running)
}

/// A plan's own, of this instance alone.
fn decision(
    instance: &Instance,
    usage: &Usage,
    notices: &Notices,
    policy: &Policy,
    now: Timestamp,
) -> Option<Decision> {
    let seen = Observed { items: vec![instance.clone()], gaps: Vec::new() };
    let usages: BTreeMap<ResourceId, Usage> = BTreeMap::from([(instance.id.clone(), usage.clone())]);
    let memory = Memory::from([(instance.region.clone(), notices.clone())]);
    Decision::of(decide(&seen, &usages, &memory, policy, now), instance.id.as_str())
}

impl Case<'_> {
    fn spared_at_sight_in_words(self) -> Option<SparedAtSight> {
        let because = self.spared_at_sight()?.because;
        let unreadable = Vocabulary::read(self.instance).err();
        let words = sparing_tag(because, &self.instance.tags, unreadable.as_ref()).unwrap_or_else(|| {
            let owner = controller(self.instance, &self.policy.config.managed).unwrap_or_default();
            format!("it belongs to {owner}, which would replace it or miss it: mend it there")
        });
        Some(SparedAtSight { because, words })
    }

    fn rules(self, says: &Result<Vocabulary, Vec<Unreadable>>) -> Vec<RuleExplained> {
        let nothing = Vocabulary::default();
        let legible = says.as_ref().unwrap_or(&nothing);
        let not_judged = |why: &str, when: &str| {
            let of =
                |rule| RuleExplained::not_judged(rule, self.in_mode(legible, rule), why.to_owned(), when.to_owned());
            Rule::OF_INSTANCES.map(of).to_vec()
        };
        if says.is_err() {
            return not_judged("one of its tags cannot be read", "not before its tags can be read");
        }
        if let Some(why) = self.only_its_expiry_counts() {
            let when = "not while it is, or may be, of that job";
            let mut rules = not_judged(&why, when);
            if self.instance.state == State::Running {
                for (row, judged) in rules.iter_mut().zip(self.judged(legible)) {
                    if row.rule == Rule::Expired {
                        *row = judged;
                    } else {
                        // What was announced before still is, where nobody can say whose it is.
                        (row.announced, row.deadline) = (judged.announced, judged.deadline);
                    }
                }
            }
            return rules;
        }
        if self.instance.state != State::Running {
            let state = format!("it is {}", state_of(&self.instance.state));
            let mut rules = not_judged(&state, "not before it runs");
            for row in rules.iter_mut().filter(|row| row.rule == Rule::Hours) {
                row.when = self.when_started(legible).unwrap_or_else(|| row.when.clone());
            }
            return rules;
        }
        self.judged(legible)
    }

    /// Why nothing but `expired` is judged of it: a job's machine, or what may be one.
    fn only_its_expiry_counts(self) -> Option<String> {
        match self.claim() {
            Claim::Ours(job) => Some(format!("it is of the job {job}, which ends it")),
            Claim::Unsayable(job) => Some(format!("nobody can say whether it is of the job {job} that it names")),
            Claim::None | Claim::Stranger(_) => None,
        }
    }

    fn judged(self, legible: &Vocabulary) -> Vec<RuleExplained> {
        let running = Running { case: self, says: legible };
        let verdicts = self.verdicts(legible);
        let tracks = [Mode::Enforce, Mode::Observe].map(|mode| running.track(&verdicts, mode));
        let [enforced, observed] = &tracks;
        let subject = self.subject(legible);
        let judged = verdicts.iter().map(|(rule, verdict)| {
            let mode = self.in_mode(legible, *rule);
            let track = if mode.mode == Mode::Enforce { enforced } else { observed };
            let (evidence, coming) = (evidence(subject, *rule, verdict), coming(subject, *rule, verdict));
            Judged { rule: *rule, verdict, mode, track, evidence, coming, now: self.now }
        });
        judged.map(Judged::explained).collect()
    }

    /// When what Curfew stopped for the night is started again.
    fn when_started(self, says: &Vocabulary) -> Option<String> {
        let at = match says.hours.as_ref()?.position(self.now) {
            Position::Inside { .. } => self.now,
            Position::Outside { until, .. } => until?,
        };
        let began = hours::start_is_due(self.instance, says, at).filter(|began| !self.was_stopped_again(*began))?;
        Some(format!("started by the first run from {began} on, as its hours begin"))
    }

    fn in_mode(self, says: &Vocabulary, rule: Rule) -> InMode {
        let (wanted, from) = self.subject(says).mode_and_its_source(rule);
        InMode { mode: wanted.min(self.policy.ceiling), wanted, from }
    }
}

/// The evidence of a verdict in words.
fn evidence(subject: Subject<'_>, rule: Rule, verdict: &Verdict) -> String {
    match (verdict, rule) {
        (Verdict::Broken(broken), _) => why(&broken.because, subject.now),
        (_, Rule::Expired) => match subject.says.expires_at {
            Some(at) => format!("its curfew:expires-at, {at}, lies ahead"),
            None => "it carries no curfew:expires-at".to_owned(),
        },
        (_, Rule::OverBudget) => over_budget::in_words(subject),
        (_, Rule::Untagged) => of_tags(subject, verdict),
        (_, Rule::Idle) => of_usage(subject),
        (_, Rule::Hours) => of_hours(subject),
        (_, Rule::Lifetime) => of_age(subject),
        (_, Rule::Orphaned) => String::new(),
    }
}

fn of_tags(subject: Subject<'_>, verdict: &Verdict) -> String {
    let (missing, required) = (subject.missing_tags(), &subject.config.tags.required);
    if let Some(Stranger { job, why }) = untagged::disowned_by(subject) {
        return format!("it names the job {job}, {}; that may still be settled", why.explained());
    }
    match verdict {
        _ if required.is_empty() => "no tag is required".to_owned(),
        _ if missing.is_empty() => format!("all required tags are there ({})", required.join(", ")),
        Verdict::Unknown => {
            format!("it lacks the required tags {}, and nobody could say whether it works", missing.join(", "))
        }
        _ => format!("it lacks the required tags {}, which may still arrive", missing.join(", ")),
    }
}

fn of_usage(subject: Subject<'_>) -> String {
    let Some(window) = idle::window(subject.says, subject.config) else {
        return "its owner wrote curfew:idle-after=off".to_owned();
    };
    match subject.usage {
        Usage::Busy(Busy { shown: Some(reading), .. }) => worked(reading),
        Usage::Busy(Busy { until, shown: None }) => format!("it worked until {until}"),
        Usage::Idle(_) => String::new(),
        Usage::Unknown(Unknown::Young) => {
            let (boot, window) = (duration::show(subject.config.idle.boot_grace), duration::show(window));
            format!("launched at {}, less than {boot} and a window of {window} ago", subject.instance.launched_at)
        }
        Usage::Unknown(unknown) => format!("nobody can say whether it works: {}", why_unknown(unknown)),
    }
}

/// `GPU 3 at 97 % at 2026-09-01T14:05:00Z, where 5 % is work`.
fn worked(Reading { measure, at, value, line }: &Reading) -> String {
    match measure {
        Measure::Gpu(name) => {
            let name = name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
            format!("GPU{name} at {value:.0} % at {at}, where {line} % is work")
        }
        Measure::Cpu => format!("{value:.2} vCPUs busy at {at}, where {line} is work"),
        Measure::Network => format!("network at {value:.1} Mbit/s at {at}, where {line} is work"),
        Measure::Disk => format!("EBS at {value:.1} Mbit/s at {at}, where {line} is work"),
    }
}

fn of_hours(subject: Subject<'_>) -> String {
    let Some(hours) = &subject.says.hours else {
        return "it carries no curfew:hours".to_owned();
    };
    match hours.position(subject.now) {
        Position::Inside { until: Some(end), .. } => format!("within its hours ({hours}) until {end}"),
        Position::Inside { until: None, .. } => format!("within its hours ({hours})"),
        Position::Outside { .. } => {
            format!("outside its hours ({hours}), started after they ended: left until the next end")
        }
    }
}

fn of_age(subject: Subject<'_>) -> String {
    let age = duration::show(subject.now.duration_since(subject.instance.launched_at));
    match subject.says.expires_at {
        Some(at) => format!("its owner says how long it may live: curfew:expires-at={at}"),
        None => format!("it has run for {age}, {} at most", duration::show(subject.config.lifetime.max)),
    }
}

/// When a rule that is kept can be broken at the earliest, if nothing about the instance changes but the time.
fn coming(subject: Subject<'_>, rule: Rule, verdict: &Verdict) -> Option<Coming> {
    if *verdict != Verdict::Kept {
        return None;
    }
    let Subject { instance, says, config, .. } = subject;
    // Not yet at the moment itself, but right after it.
    let after = |at: Timestamp| at + SignedDuration::from_secs(1);
    let due = |at: Timestamp, judge: fn(Subject<'_>) -> Verdict| match judge(Subject { now: at, ..subject }) {
        Verdict::Broken(broken) => Some(broken.due),
        Verdict::Kept | Verdict::Unknown => None,
    };
    let (at, due) = match rule {
        Rule::Expired => says.expires_at.map(|at| (at, due(at, expired::judge)))?,
        Rule::Untagged if subject.missing_tags().is_empty() && untagged::disowned_by(subject).is_none() => return None,
        Rule::Untagged => {
            let at = instance.launched_at + config.untagged.settle;
            (at, due(at, untagged::judge))
        }
        Rule::Idle => {
            let at = idle_at_the_earliest(subject)?;
            let due =
                idle::ending(subject, false).map_or_else(Due::Tell, |ending| Due::From(ending, at + config.idle.grace));
            (at, Some(due))
        }
        Rule::Hours => {
            let at = next_end(subject)? - NOTICE;
            (at, due(at, hours::judge))
        }
        Rule::Lifetime if says.expires_at.is_some() => return None,
        Rule::Lifetime => {
            let at = after(instance.launched_at + config.lifetime.max);
            (at, due(at, lifetime::judge))
        }
        // When it will be spent, nobody can say.
        Rule::OverBudget | Rule::Orphaned => return None,
    };
    Some(Coming { at, due })
}

fn idle_at_the_earliest(subject: Subject<'_>) -> Option<Timestamp> {
    let window = idle::window(subject.says, subject.config)?;
    match subject.usage {
        Usage::Busy(busy) => Some(busy.until + window + LAG),
        Usage::Unknown(Unknown::Young) => {
            Some(subject.instance.launched_at + subject.config.idle.boot_grace + window + LAG)
        }
        Usage::Idle(_) | Usage::Unknown(_) => None,
    }
}

fn next_end(subject: Subject<'_>) -> Option<Timestamp> {
    let hours = subject.says.hours.as_ref()?;
    let end_from = |at: Timestamp| match hours.position(at) {
        Position::Inside { until, .. } => until,
        Position::Outside { .. } => None,
    };
    match hours.position(subject.now) {
        Position::Inside { until, .. } => until,
        Position::Outside { until, .. } => end_from(until?),
    }
}

#[cfg(test)]
mod tests;
