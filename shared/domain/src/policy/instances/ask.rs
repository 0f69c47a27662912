//! Whom to ask `CloudWatch` about, which bills per metric: instances that can have become idle since last seen busy;
//! unknown, observed and only-told ones once a window, and not always in full; marked ones in every run.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::Case;
use crate::id::ResourceId;
use crate::instance::{Instance, State};
use crate::mark::Mark;
use crate::mode::Mode;
use crate::notices::{Memory, Notices, Topic, would};
use crate::plan::SparedBecause;
use crate::policy::{Policy, Verdict, idle, untagged};
use crate::rule::Rule;
use crate::usage::{Activity, Ask, Asked, Busy, Depth, Evidence, Found, LAG, PERIOD, Unknown, Usage, Window};
use crate::vocabulary::Vocabulary;

/// Whoever is idle and would not be ended for it, or cannot be known for want of series, is asked about in full so seldom;
/// in between only whether it works.
const IN_FULL_AFTER: SignedDuration = SignedDuration::from_hours(12);

/// Everybody to ask about now.
#[must_use]
pub fn asks<'a>(
    seen: &[&'a Instance],
    activity: &Activity,
    memory: &Memory,
    policy: &Policy,
    now: Timestamp,
) -> Vec<Ask<'a>> {
    let nothing_told = Notices::default();
    let ask = |instance: &&'a Instance| {
        let notices = memory.get(&instance.region).unwrap_or(&nothing_told);
        let usage = &Usage::Unknown(Unknown::NotAsked);
        let asked = activity.of(instance, now);
        let (length, depth) = (Case { instance, usage, notices, policy, now }).how_to_ask(asked)?;
        let likely = asked.and_then(|asked| asked.shown_by.clone());
        Some(Ask { instance, window: Window::ending_before(now, length), likely, depth })
    };
    seen.iter().filter_map(ask).collect()
}

impl Case<'_> {
    /// Over which time to ask about it now, and how far, by what was learnt in its present life.
    fn how_to_ask(self, asked: Option<&Asked>) -> Option<(SignedDuration, Depth)> {
        let spared = self.spared_at_sight().map(|spared| spared.because);
        if self.instance.state != State::Running || spared.is_some_and(|because| because != SparedBecause::ForeignOwned)
        {
            return None;
        }
        // Whatever the answer, nothing would follow from it.
        if self.claim().knows_only_its_expiry() {
            return None;
        }
        let says = Vocabulary::read(self.instance).ok()?;
        let window = idle::window(&says, &self.policy.config);
        let untagged = self.spares_busy_untagged(&says);
        if window.is_none() && !untagged {
            return None;
        }
        let length = window.unwrap_or(self.policy.config.idle.window);
        let is_foreign = spared.is_some();
        if self.hangs_on_an_answer(&says, is_foreign, untagged, asked) {
            return Some((length, Depth::Full));
        }
        Some((length, self.depth(&says, is_foreign, untagged, length, asked)?))
    }

    /// Whether an end, or the announcement of one, waits for what it is doing now.
    fn hangs_on_an_answer(self, says: &Vocabulary, is_foreign: bool, untagged: bool, asked: Option<&Asked>) -> bool {
        let marked = |mark: &Mark| {
            mark.entries.contains_key(&Rule::Idle) || (untagged && mark.entries.contains_key(&Rule::Untagged))
        };
        let unwritten = self.notices.unwritten_marks.get(&self.instance.id);
        if !is_foreign && says.marked.iter().chain(unwritten).any(marked) {
            return true;
        }
        let shadow = self.notices.shadow_marks.get(&self.instance.id);
        if shadow.is_some_and(|mark| marked(mark) && self.would_act_untold(mark)) {
            return true;
        }
        let worked = asked.is_some_and(|asked| asked.busy_until.is_some());
        !is_foreign && !worked && self.waits_for_an_answer(says)
    }

    /// How far to ask about it, where it is time to.
    fn depth(
        self,
        says: &Vocabulary,
        is_foreign: bool,
        untagged: bool,
        length: SignedDuration,
        asked: Option<&Asked>,
    ) -> Option<Depth> {
        let old_enough = Window::ending_before(self.now, length).from
            >= self.instance.launched_at + self.policy.config.idle.boot_grace;
        if !old_enough && !untagged {
            return None;
        }
        let Some(asked) = asked else { return Some(Depth::Full) };
        let only_told = |reserved: bool| is_foreign || !self.ends_if_idle(says, reserved);
        let not_before = match asked.found_idle_reserved {
            Some(reserved) if only_told(reserved) => asked.at + length,
            _ => asked.idle_not_before,
        };
        // A shorter window than last time can find an instance idle sooner than was written down.
        let once_a_window = asked.at + length.max(PERIOD) + LAG + PERIOD;
        if self.now < not_before.min(once_a_window) {
            return None;
        }
        let known_in_full = asked.in_full_at.is_some_and(|at| self.now.duration_since(at).abs() < IN_FULL_AFTER);
        let depth = match asked.found_idle_reserved {
            _ if !known_in_full => Depth::Full,
            Some(_) if only_told(false) => Depth::WorkOnly,
            Some(true) => Depth::UnlessHeld,
            Some(false) => Depth::Full,
            None => Depth::IfInstrumented,
        };
        Some(depth)
    }

    /// Whether nothing but an answer is missing to announce that it lacks its tags.
    fn waits_for_an_answer(self, says: &Vocabulary) -> bool {
        let unwritten = match self.mode(says, Rule::Untagged) {
            Mode::Enforce => &self.notices.unwritten_marks,
            Mode::Observe => &self.notices.shadow_marks,
        };
        let mut marks = says.marked.iter().chain(unwritten.get(&self.instance.id));
        untagged::judge(self.subject(says)) == Verdict::Unknown
            && !marks.any(|mark| mark.entries.contains_key(&Rule::Untagged))
    }

    /// Whether it would be announced and ended, by tags and configuration as they are now.
    fn ends_if_idle(self, says: &Vocabulary, reserved: bool) -> bool {
        idle::ending(self.subject(says), reserved).is_ok() && self.mode(says, Rule::Idle) == Mode::Enforce
    }

    fn spares_busy_untagged(self, says: &Vocabulary) -> bool {
        let rule = &self.policy.config.untagged;
        rule.spare_busy && untagged::judge(self.subject(says)) != Verdict::Kept
    }

    /// Whether a shadow mark's deadline has passed and nobody has heard what would be done.
    fn would_act_untold(self, mark: &Mark) -> bool {
        mark.entries.iter().any(|(rule, announced)| {
            announced.deadline <= self.now
                && !self.notices.was_told(&self.instance.id, &Topic::would(*rule), &would(*announced))
        })
    }
}

/// What a run knows of a region's instances once all answers are in.
#[derive(Debug, Clone, PartialEq)]
pub struct Learnt {
    /// What each has been doing.
    pub usages: BTreeMap<ResourceId, Usage>,
    /// What to remember: of whoever was not asked about, or not answered, what was known before.
    pub activity: Activity,
}

/// What follows from what was found of those that were asked about; the others are believed to do what they did.
#[must_use]
pub fn learn(
    seen: &[&Instance],
    asks: &[Ask<'_>],
    mut found: BTreeMap<ResourceId, Found>,
    before: &Activity,
    policy: &Policy,
    now: Timestamp,
) -> Learnt {
    let mut usages: BTreeMap<ResourceId, Usage> = BTreeMap::new();
    let mut after: BTreeMap<ResourceId, Asked> = BTreeMap::new();
    for instance in seen {
        after.extend(before.instances.get(&instance.id).map(|asked| (instance.id.clone(), asked.clone())));
        usages.insert(instance.id.clone(), usage_of_unasked(instance, before, policy, now));
    }
    for ask in asks {
        let id = &ask.instance.id;
        let known = before.of(ask.instance, now);
        let (usage, asked) = match found.remove(id) {
            // Where there is not one sample of what was at work when last seen, `CloudWatch` is late.
            Some(Found::Told(Usage::Unknown(Unknown::Silent { .. }), _))
                if known.is_some_and(|asked| asked.busy_until.is_some()) =>
            {
                (Usage::Unknown(Unknown::NotAsked), None)
            }
            Some(Found::Told(usage, shown_by)) => {
                let asked = remembered(ask, &usage, shown_by, now);
                (usage, Some(asked))
            }
            Some(Found::NoWork) => (Usage::Unknown(Unknown::NotAsked), known.map(|known| seen_quiet(known, ask, now))),
            None => (Usage::Unknown(Unknown::NotAsked), None),
        };
        usages.insert(id.clone(), usage);
        after.extend(asked.map(|asked| (id.clone(), asked)));
    }
    Learnt { usages, activity: Activity { instances: after } }
}

/// What an instance is believed to do that nobody asked about.
fn usage_of_unasked(instance: &Instance, activity: &Activity, policy: &Policy, now: Timestamp) -> Usage {
    let Ok(says) = Vocabulary::read(instance) else {
        return Usage::Unknown(Unknown::NotAsked);
    };
    let length = idle::window(&says, &policy.config).unwrap_or(policy.config.idle.window);
    let window = Window::ending_before(now, length);
    let asked = activity.of(instance, now);
    if let Some(until) = asked.and_then(|asked| asked.busy_until).filter(|until| *until > window.from) {
        return Usage::Busy(Busy { until, shown: None });
    }
    if window.from < instance.launched_at + policy.config.idle.boot_grace {
        return Usage::Unknown(Unknown::Young);
    }
    Usage::Unknown(Unknown::NotAsked)
}

/// Asked about briefly. What was found idle would be ended at once if that were wanted from now on, so that moment stays.
fn seen_quiet(known: &Asked, ask: &Ask<'_>, now: Timestamp) -> Asked {
    let idle_not_before =
        if known.found_idle_reserved.is_some() { known.idle_not_before } else { now + length_of(ask) };
    Asked { at: now, idle_not_before, ..known.clone() }
}

fn remembered(ask: &Ask<'_>, usage: &Usage, shown_by: Option<Evidence>, now: Timestamp) -> Asked {
    let length = length_of(ask);
    let asked = Asked {
        at: now,
        busy_until: None,
        shown_by,
        found_idle_reserved: None,
        in_full_at: None,
        idle_not_before: now + length,
    };
    match usage {
        Usage::Busy(busy) => {
            Asked { busy_until: Some(busy.until), idle_not_before: busy.until + length + LAG, ..asked }
        }
        Usage::Idle(quiet) => {
            Asked { found_idle_reserved: Some(quiet.reserved), in_full_at: Some(now), idle_not_before: now, ..asked }
        }
        Usage::Unknown(Unknown::Young | Unknown::NotAsked) => asked,
        Usage::Unknown(_) => Asked { in_full_at: Some(now), ..asked },
    }
}

fn length_of(ask: &Ask<'_>) -> SignedDuration {
    ask.window.to.duration_since(ask.window.from)
}

#[cfg(test)]
mod tests;
