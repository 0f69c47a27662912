//! Whom to ask `CloudWatch` about, which bills per metric: instances that can have become idle since last seen busy;
//! unknown, observed and only-told ones once a window; marked ones in every run.

use jiff::Timestamp;

use super::{Case, Memory, would};
use crate::instance::{Instance, State};
use crate::mark::Mark;
use crate::mode::Mode;
use crate::notices::{Notices, Topic};
use crate::plan::SparedBecause;
use crate::policy::{Policy, Verdict, idle, untagged};
use crate::rule::Rule;
use crate::usage::{Activity, Asked, Busy, LAG, PERIOD, Unknown, Usage, Window};
use crate::vocabulary::Vocabulary;

/// One instance to ask about.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask<'a> {
    /// Whom.
    pub instance: &'a Instance,
    /// Over which window, and since.
    pub window: Window,
}

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
    let due = |instance: &&Instance| {
        let notices = memory.get(&instance.region).unwrap_or(&nothing_told);
        let usage = &Usage::Unknown(Unknown::NotAsked);
        (Case { instance, usage, notices, policy, now }).is_asked(activity.instances.get(&instance.id))
    };
    let of_window = |instance: &'a Instance| {
        let says = Vocabulary::read(instance).unwrap_or_default();
        let length = idle::window(&says, &policy.config).unwrap_or(policy.config.idle.window);
        Ask { instance, window: Window::ending_before(now, length) }
    };
    seen.iter().copied().filter(due).map(of_window).collect()
}

impl Case<'_> {
    fn is_asked(self, asked: Option<&Asked>) -> bool {
        let spared = self.spared_at_sight().map(|spared| spared.because);
        if self.instance.state != State::Running || spared.is_some_and(|because| because != SparedBecause::ForeignOwned)
        {
            return false;
        }
        let Ok(says) = Vocabulary::read(self.instance) else {
            return false;
        };
        let window = idle::window(&says, &self.policy.config);
        let untagged = self.spares_busy_untagged(&says);
        if window.is_none() && !untagged {
            return false;
        }
        let marked = |mark: &Mark| {
            mark.entries.contains_key(&Rule::Idle) || (untagged && mark.entries.contains_key(&Rule::Untagged))
        };
        if spared.is_none() && says.marked.as_ref().is_some_and(marked) {
            return true;
        }
        if self
            .notices
            .shadow_marks
            .get(&self.instance.id)
            .is_some_and(|mark| marked(mark) && self.would_act_untold(mark))
        {
            return true;
        }
        let worked = asked.is_some_and(|asked| asked.busy_until.is_some());
        if spared.is_none() && !worked && self.waits_for_an_answer(&says) {
            return true;
        }
        let length = window.unwrap_or(self.policy.config.idle.window);
        let old_enough = Window::ending_before(self.now, length).from
            >= self.instance.launched_at + self.policy.config.idle.boot_grace;
        // A shorter window than last time can find an instance idle sooner than was written down.
        let once_a_window = |asked: &Asked| asked.at + length.max(PERIOD) + LAG + PERIOD;
        let not_before = |asked: &Asked| match asked.found_idle_reserved {
            Some(reserved) if spared.is_some() || !self.ends_if_idle(&says, reserved) => asked.at + length,
            _ => asked.idle_not_before,
        };
        let due = asked.is_none_or(|asked| self.now >= not_before(asked).min(once_a_window(asked)));
        due && (old_enough || untagged)
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

/// What an instance is believed to do that nobody asked about.
#[must_use]
pub fn usage_of_unasked(instance: &Instance, activity: &Activity, policy: &Policy, now: Timestamp) -> Usage {
    let Ok(says) = Vocabulary::read(instance) else {
        return Usage::Unknown(Unknown::NotAsked);
    };
    let length = idle::window(&says, &policy.config).unwrap_or(policy.config.idle.window);
    let window = Window::ending_before(now, length);
    let asked = activity.instances.get(&instance.id).filter(|asked| asked.at >= instance.launched_at);
    if let Some(until) = asked.and_then(|asked| asked.busy_until).filter(|until| *until > window.from) {
        return Usage::Busy(Busy { until });
    }
    if window.from < instance.launched_at + policy.config.idle.boot_grace {
        return Usage::Unknown(Unknown::Young);
    }
    Usage::Unknown(Unknown::NotAsked)
}

/// What an answer is worth: where there is not one sample of what was at work when last seen, `CloudWatch` is late, and
/// nobody can say.
#[must_use]
pub fn answered(instance: &Instance, usage: Usage, activity: &Activity) -> Usage {
    let before = activity.instances.get(&instance.id).filter(|asked| asked.at >= instance.launched_at);
    match usage {
        Usage::Unknown(Unknown::Silent { .. }) if before.is_some_and(|asked| asked.busy_until.is_some()) => {
            Usage::Unknown(Unknown::NotAsked)
        }
        usage => usage,
    }
}

/// What to remember of an instance that was asked about; of one that was not answered, what was known before.
#[must_use]
pub fn asked(ask: &Ask<'_>, usage: &Usage, now: Timestamp) -> Asked {
    let length = ask.window.to.duration_since(ask.window.from);
    let (busy_until, found_idle_reserved, idle_not_before) = match usage {
        Usage::Busy(busy) => (Some(busy.until), None, busy.until + length + LAG),
        Usage::Idle(quiet) => (None, Some(quiet.reserved), now),
        Usage::Unknown(_) => (None, None, now + length),
    };
    Asked { at: now, busy_until, found_idle_reserved, idle_not_before }
}

#[cfg(test)]
mod tests;
