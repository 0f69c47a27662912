//! Notifications: announcements, repetitions, and what stays remembered.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use model::id::Region;
use model::notification_log::NotificationLog;
use model::rule::Rule;
use notify::Message;

use super::liveness::place_of;
use super::{InvariantOracle, PromisedAction};
use crate::chance::{DAY, HOUR, MINUTE, stamp};
use crate::session::Facts;
use crate::settings::{SimulatedConfig, TEAMS};
use crate::world::SimulatedResource;

/// A condition is notified once a day.
const REPEATED_WITHIN: i64 = 22 * HOUR;
/// Without faults, an end must be notified within this time; and the run that misses a resource forgets it.
const TOLD_WITHIN: i64 = 4 * HOUR;

/// What a paragraph says of a rule.
const SIGNS: [(&str, Rule); 9] = [
    ("of its budget of", Rule::OverBudget),
    ("its user was last active at ", Rule::Idle),
    ("no request from ", Rule::Idle),
    ("idle from ", Rule::Idle),
    ("lacks the required tags", Rule::Untagged),
    ("its hours (", Rule::Hours),
    ("outside its hours", Rule::Hours),
    ("it has run since", Rule::Lifetime),
    ("its curfew:expires-at (", Rule::Expired),
];

impl InvariantOracle {
    /// A message was delivered. Returns the resources whose ends it announces.
    pub(crate) fn check_message(
        &mut self,
        message: &Message,
        resources: &[SimulatedResource],
        facts: &Facts,
    ) -> Vec<usize> {
        let mut warned = Vec::new();
        for paragraph in message.body.split("\n\n") {
            let Some((id, rest)) = paragraph.split_once(" (") else { continue };
            let named = |one: &SimulatedResource| {
                one.id.as_str() == id
                    && rest.split_once("):").is_some_and(|(who, _)| who.ends_with(one.region.as_str()))
            };
            let Some(place) = resources.iter().position(named) else { continue };
            let one = &resources[place];
            for (rule, deadline) in announcements(paragraph) {
                warned.push(place);
                self.is_the_right_team(message, one, facts);
                let grace = grace(rule, &facts.settings);
                let told_at = facts.now;
                let announced = PromisedAction { rule, deadline, told_at, grace, void: false, called_off_by: None };
                self.record(place).announced.push(announced);
            }
            if let Some((rule, deadline)) = called_off(paragraph) {
                let all = self.record(place).announced.iter_mut();
                let these = all.filter(|announced| announced.rule == rule && announced.deadline == deadline);
                these.for_each(|announced| announced.called_off_by = Some(facts.id));
            }
            for (_, rule) in SIGNS.iter().filter(|(sign, _)| paragraph.contains(sign)) {
                self.record(place).told_of[place_of(*rule)] = facts.now;
            }
            if paragraph.contains(" cannot be read: ") {
                self.record(place).unreadable_told_at = facts.now;
            }
            if ["It was stopped", "It was deleted"].iter().any(|words| paragraph.contains(words)) {
                self.record(place).untold_end = None;
            }
            self.is_no_repetition(paragraph, place, one, facts);
        }
        warned
    }

    fn is_the_right_team(&mut self, message: &Message, one: &SimulatedResource, facts: &Facts) {
        let team = one.says.team.map_or("untagged", |team| TEAMS[team]);
        if message.team != team && one.changed_at < facts.now - 2 * HOUR {
            self.violated(facts.now, format!("{}: its end is announced to {}", one.id, message.team));
        }
    }

    /// The same words, except for figures, within a day, without a change and without a lost log.
    fn is_no_repetition(&mut self, paragraph: &str, place: usize, one: &SimulatedResource, facts: &Facts) {
        let mut hasher = DefaultHasher::new();
        paragraph.bytes().filter(|byte| !byte.is_ascii_digit()).for_each(|byte| byte.hash(&mut hasher));
        let fingerprint = hasher.finish();
        let told = &mut self.record(place).told;
        let before = told.iter().find(|(words, _)| *words == fingerprint).map(|(_, at)| *at);
        told.retain(|(words, at)| *words != fingerprint && facts.now - at < REPEATED_WITHIN);
        told.push((fingerprint, facts.now));
        let Some(before) = before.filter(|before| facts.now - before < REPEATED_WITHIN) else { return };
        // A use or a silence before an observation may become visible, and pass, a window later; hours end every day.
        let window = one.window(&facts.settings).unwrap_or(0).max(facts.settings.endpoint_window);
        let ends = one.uses.iter().chain(&one.silences).map(|(_, end)| *end + window);
        let passed = one.says.kept_until.into_iter().chain(one.says.expires_at).filter(|at| *at <= facts.now).max();
        let seen = ends.chain(passed).max().unwrap_or(0).max(one.last_end_of_hours(facts.now));
        let excused_at = one
            .changed_at
            .max(one.since() + window)
            .max(seen)
            .max(self.configured_at)
            .max(self.budgets_changed_at)
            .max(self.last_fault);
        if excused_at < before - 3 * HOUR {
            let what = format!("notified again although nothing changed since {}: {paragraph}", stamp(before));
            self.violated(facts.now, what);
        }
    }

    /// Every stop and deletion is notified in the end.
    pub(super) fn is_every_end_told(&mut self, place: usize, one: &SimulatedResource, now: i64) {
        let Some(ended_at) = self.record(place).untold_end else { return };
        // A run that is cut off between an end and its message does not notify it: its audit record, written ahead, is the trace. The same
        // holds for a run whose log of pending notifications was lost, and for an end that the run saw fail.
        if self.last_forgotten >= ended_at - HOUR {
            self.record(place).untold_end = None;
        } else if now - ended_at.max(self.last_fault) > TOLD_WITHIN {
            self.record(place).untold_end = None;
            self.violated(now, format!("{}: was ended, and that was not notified", one.id));
        }
    }

    /// A run finished.
    pub(crate) fn ran(
        &mut self,
        facts: &Facts,
        resources: &[SimulatedResource],
        notices: &BTreeMap<Region, (u64, NotificationLog)>,
    ) {
        // An observation that a run could not read, write or remember does not count.
        if self.last_fault >= facts.now {
            return;
        }
        for (place, one) in resources.iter().enumerate() {
            self.withdraw(place, one, facts);
        }
        if facts.now - self.last_fault <= TOLD_WITHIN {
            return;
        }
        for (region, (_, log)) in notices {
            let is_there = |one: &SimulatedResource| one.gone_at.is_none_or(|at| at > facts.now - TOLD_WITHIN);
            let gone = log
                .resources
                .keys()
                .find(|id| !resources.iter().any(|one| one.id == **id && one.region == *region && is_there(one)));
            if let Some(id) = gone {
                self.violated(facts.now, format!("{id}: still remembered"));
            }
            if !log.undelivered.is_empty() {
                self.violated(facts.now, format!("still owed: {:?}", log.undelivered));
            }
            let is_old = |at: i64| facts.now - at > DAY + 2 * HOUR;
            if let Some((key, _)) = log.gaps.iter().find(|(_, told)| is_old(told.at.as_second())) {
                self.violated(facts.now, format!("still remembered: {key:?}"));
            }
        }
    }
}

/// The announcements of a paragraph: the rule and the deadline of each.
fn announcements(paragraph: &str) -> Vec<(Rule, i64)> {
    let mut found = Vec::new();
    let mut rest = paragraph;
    while let Some((why, after)) = rest.split_once(" will be ") {
        let deadline = after.split_whitespace().nth(2).map(|word| word.trim_end_matches([';', '.']));
        let deadline = deadline.and_then(|word| word.parse::<Timestamp>().ok()).map(Timestamp::as_second);
        let rule = SIGNS.iter().find(|(sign, _)| why.contains(sign)).map(|(_, rule)| *rule);
        found.extend(rule.zip(deadline));
        rest = after;
    }
    found
}

/// The rule and the deadline of an announcement that a paragraph withdraws.
fn called_off(paragraph: &str) -> Option<(Rule, i64)> {
    let (_, announced) = paragraph.strip_suffix(") is called off.")?.split_once("the action announced for ")?;
    let (deadline, rule) = announced.split_once(" (")?;
    let rule = Rule::RUNNING.into_iter().find(|one| one.as_str() == rule)?;
    Some((rule, deadline.parse::<Timestamp>().ok()?.as_second()))
}

pub(super) fn grace(rule: Rule, settings: &SimulatedConfig) -> i64 {
    match rule {
        Rule::Idle => settings.grace,
        Rule::Untagged => settings.untagged.grace,
        Rule::Lifetime => settings.lifetime.grace,
        Rule::OverBudget => settings.over_budget_grace,
        Rule::Expired => 15 * MINUTE,
        _ => 0,
    }
}
