//! Notifications: announcements, and repetitions.

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use model::rule::{ResourceAction, Rule};
use notify::Message;

use super::truth::LAG;
use super::{InvariantOracle, PromisedAction};
use crate::chance::{HOUR, MINUTE, TICK};
use crate::session::Facts;
use crate::world::SimulatedMachine;

/// A condition is notified once a day; hours end once a day, an hour earlier at a change of the clocks.
const REPEATED_WITHIN: i64 = 22 * HOUR;
/// Without faults, an action must be notified within this time.
const TOLD_WITHIN: i64 = 30 * MINUTE;

impl InvariantOracle {
    /// A message was delivered.
    pub(crate) fn check_message(&mut self, message: &Message, machines: &[SimulatedMachine], facts: &Facts) {
        for paragraph in message.body.split("\n\n") {
            let Some((id, _)) = paragraph.split_once(" (").filter(|(id, _)| id.starts_with("i-")) else { continue };
            let machine = machines.iter().find(|machine| machine.id() == id);
            let announcements = announcements(paragraph);
            if let (Some(machine), false) = (machine, announcements.is_empty()) {
                self.is_the_right_team(message, machine, facts);
            }
            for (rule, ending, deadline) in announcements {
                let too_early =
                    |machine: &&SimulatedMachine| facts.now < machine.launched + facts.settings.untagged.settle;
                if let Some(machine) = machine.filter(too_early).filter(|_| rule == Rule::Untagged) {
                    self.violated(facts.now, format!("{}: its tags may still arrive: {paragraph}", machine.id()));
                }
                let may_be_a_jobs = |machine: &&SimulatedMachine| self.whose(machine, facts).knows_only_its_expiry();
                if let Some(machine) = machine.filter(may_be_a_jobs).filter(|_| rule != Rule::Expired) {
                    self.violated(facts.now, format!("{}: it may be a job's: {paragraph}", machine.id()));
                }
                // The run may have seen the tags of before.
                let settled = machine.filter(|machine| facts.now - machine.retagged_at > 2 * TICK);
                let grace =
                    settled.map_or_else(|| facts.settings.grace(rule), |machine| machine.grace(rule, &facts.settings));
                let announced = PromisedAction {
                    rule,
                    ending,
                    deadline,
                    told_at: facts.now,
                    grace,
                    mended: false,
                    called_off_by: None,
                };
                self.record(id).announced.push(announced);
            }
            if let Some((rule, deadline)) = called_off(paragraph) {
                let all = self.record(id).announced.iter_mut();
                let these = all.filter(|one| one.rule == rule && one.deadline == deadline);
                these.for_each(|one| one.called_off_by = Some(facts.id));
            }
            if ["It was stopped", "It was terminated"].iter().any(|words| paragraph.contains(words)) {
                self.record(id).untold_end = None;
            }
            if let Some(machine) = machine {
                self.is_no_repetition(paragraph, machine, facts);
            }
        }
    }

    fn is_the_right_team(&mut self, message: &Message, machine: &SimulatedMachine, facts: &Facts) {
        let lately = facts.now - machine.retagged_at <= 2 * TICK;
        let before = machine.team_before.unwrap_or("untagged");
        if message.team != machine.team_attribute() && !(lately && message.team == before) {
            let what = format!("{}: its end is announced to {}", machine.id(), message.team);
            self.violated(facts.now, what);
        }
    }

    /// The same words, except for figures, within a day, without a change and without a lost log.
    fn is_no_repetition(&mut self, paragraph: &str, machine: &SimulatedMachine, facts: &Facts) {
        // A change of another member of its gang is one of its own.
        if machine.ec2.placement_group.is_some() {
            return;
        }
        let fingerprint = fingerprint(paragraph);
        let settings = &facts.settings;
        let window = machine.idle_window(settings).unwrap_or(settings.idle.window).max(settings.idle.window);
        // An event before an observation may become visible a window later.
        let margin = window + LAG + settings.idle.boot_grace + settings.untagged.settle + HOUR;
        let record = self.record(machine.id());
        let before = record.told.iter().find(|(words, _)| *words == fingerprint).map(|(_, at)| *at);
        record.told.retain(|(words, at)| *words != fingerprint && facts.now - at < REPEATED_WITHIN);
        record.told.push((fingerprint, facts.now));
        let Some(before) = before.filter(|before| facts.now - before < REPEATED_WITHIN) else { return };
        let kept_lately = machine.says.kept_until.is_some_and(|until| until > before - margin && until <= facts.now);
        let changed =
            machine.changed_at.max(machine.work_changed_at).max(self.configured_at).max(self.budgets_changed_at);
        if changed < before - margin && self.last_fault < before - margin && !kept_lately {
            self.violated(facts.now, format!("{}: notified again although nothing changed: {paragraph}", machine.id()));
        }
    }

    /// Every stop and termination is notified in the end.
    pub(super) fn is_every_end_told(&mut self, machine: &SimulatedMachine, now: i64) {
        let Some(ended_at) = self.record(machine.id()).untold_end else { return };
        // A run that is cut off between an action and its message does not notify it: its audit record, written ahead, is the trace. The same holds
        // for a run whose log of pending notifications was lost, and for an action that the run saw fail.
        if self.last_forgotten >= ended_at {
            self.record(machine.id()).untold_end = None;
        } else if now - ended_at.max(self.last_fault) > TOLD_WITHIN {
            self.record(machine.id()).untold_end = None;
            self.violated(now, format!("{}: was stopped, and that was not notified", machine.id()));
        }
    }
}

/// The announcements of a paragraph: rule, action and deadline of each.
fn announcements(paragraph: &str) -> Vec<(Rule, ResourceAction, i64)> {
    let mut found = Vec::new();
    let mut rest = paragraph;
    while let Some((why, after)) = rest.split_once(" will be ") {
        let ending = if after.starts_with("stopped at ") { ResourceAction::Stop } else { ResourceAction::Terminate };
        let deadline = after.split_whitespace().nth(2).map(|word| word.trim_end_matches([';', '.']));
        let deadline = deadline.and_then(|word| word.parse::<Timestamp>().ok()).map(Timestamp::as_second);
        let signs = [
            ("idle from ", Rule::Idle),
            ("of its budget of", Rule::OverBudget),
            ("lacks the required tags", Rule::Untagged),
            ("its curfew:job names", Rule::Untagged),
            ("is not on the list of projects", Rule::UnlistedProject),
            ("its hours (", Rule::Hours),
            ("it has run since", Rule::Lifetime),
            ("curfew:expires-at", Rule::Expired),
        ];
        let rule = signs.into_iter().find(|(sign, _)| why.contains(sign)).map(|(_, rule)| rule);
        found.extend(rule.zip(deadline).map(|(rule, deadline)| (rule, ending, deadline)));
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

fn fingerprint(paragraph: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    paragraph.bytes().filter(|byte| !byte.is_ascii_digit()).for_each(|byte| byte.hash(&mut hasher));
    hasher.finish()
}
