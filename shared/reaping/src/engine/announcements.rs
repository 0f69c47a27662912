//! The announcements of one resource, followed from run to run: what was announced, what still binds, what must be written.
//!
//! Only the log knows what was announced. The mark on the resource shows it to people, and IAM asks for it before an action: a missing or
//! wrong mark is written again, and never decides anything else. Rules that share a mode make a track.

use std::iter;

use jiff::Timestamp;
use model::curfew_tags::{CurfewTags, MARKED, STOPPED, has_room};
use model::mark::{AnnouncedAction, Mark};
use model::mode::Mode;
use model::notification_log::{NotificationKey, ResourceRecord};
use model::refusal::{Refusal, RefusalReason};
use model::rule::{ResourceAction, Rule};
use plan::{AnnouncedActions, Announcement, Evidence, FindingKind, NotifyOnlyReason, ResourceMemory, SkipReason, Step};

use crate::engine::ResourceFacts;
use crate::engine::settle::{SettledVerdicts, settle};
use crate::policy::{DueAction, Verdict, Violation};

/// The rules of one mode, and what follows from them.
pub(crate) struct RuleTrack {
    pub(crate) mode: Mode,
    /// Earlier announcements of these rules that still bind.
    pub(crate) announced_before: AnnouncedActions,
    pub(crate) settled: SettledVerdicts,
}

impl RuleTrack {
    /// The reason why no action is due for a rule of these tracks; `None` where no rule is violated and nothing is announced.
    pub(crate) fn skip_reason(tracks: &[Self]) -> Option<SkipReason> {
        let any = |condition: fn(&SettledVerdicts) -> bool| tracks.iter().any(|track| condition(&track.settled));
        if any(|settled| !settled.refused_rules.is_empty()) {
            Some(SkipReason::Refused)
        } else if any(|settled| !settled.entries.is_empty()) {
            Some(SkipReason::Marked)
        } else {
            any(|settled| !settled.notify_only.is_empty()).then_some(SkipReason::Notified)
        }
    }
}

/// A resource, as far as announcements go.
pub(crate) trait AnnouncedResource<'a>: Copy {
    /// The actions that are possible for it.
    type Action: From<Announcement>;
    fn facts(self) -> ResourceFacts<'a>;
    fn curfew_tags(&self) -> &CurfewTags;
    /// The effective mode for a rule, under the ceiling.
    fn mode(self, rule: Rule) -> Mode;
    /// A step with these values alone.
    fn step(self, mode: Mode, action: Self::Action, evidence: Evidence) -> Step;
    /// The action that carries an announced one out now, with the mark that must be written first; `None` where it has to wait.
    fn end(self, ending: ResourceAction, rule: Rule, mark: Option<Mark>) -> Option<Self::Action>;
    /// A label that is no longer true, and the rule for which Curfew wrote it. `curfew:stopped` is no longer true once the resource runs: somebody
    /// started it again.
    fn stale_tag(self) -> Option<(Rule, &'static str)> {
        let label = self.facts().tags.get(STOPPED)?;
        let written_for = label.split_whitespace().next().and_then(Rule::read).unwrap_or(Rule::Lifetime);
        let starts_by_hours = self.curfew_tags().hours.is_some().then_some(Rule::Hours);
        let mut rules = iter::once(written_for).chain(starts_by_hours);
        Some((rules.find(|rule| self.mode(*rule) == Mode::Enforce)?, STOPPED))
    }

    fn track(self, verdicts: &[(Rule, Verdict)], mode: Mode) -> RuleTrack {
        let before = self.announced(mode);
        // Nothing follows from a compliant rule, in whatever mode.
        let unsettled = verdicts.iter().filter(|(_, verdict)| *verdict != Verdict::Compliant);
        let verdicts_of_mode = unsettled.filter(|(rule, _)| self.mode(*rule) == mode);
        let refused = self.facts().record().filter(|_| mode == Mode::Enforce).map(|record| record.refused.clone());
        let settled = settle(verdicts_of_mode, &before, refused.unwrap_or_default(), mode, self.facts().now);
        RuleTrack { mode, settled, announced_before: before }
    }

    /// The verdicts. A violation becomes notify-only if no mark can be written, because the action could not be carried out later.
    fn within_labels(self, verdicts: Vec<(Rule, Verdict)>) -> Vec<(Rule, Verdict)> {
        let limited = |(rule, verdict)| {
            let Verdict::Violated(violation @ Violation { due: DueAction::After(..), .. }) = verdict else {
                return (rule, verdict);
            };
            let due = self.mark_refusal(self.mode(rule)).map_or(violation.due, DueAction::NotifyOnly);
            (rule, Verdict::Violated(Violation { due, ..violation }))
        };
        verdicts.into_iter().map(limited).collect()
    }

    /// The last refusal of a label, where labels are written.
    fn label_refusal(self, mode: Mode) -> Option<Refusal> {
        self.facts().record().filter(|_| mode == Mode::Enforce)?.label_refused
    }

    /// The reason why no mark can be written. One that is there already is only changed.
    fn mark_refusal(self, mode: Mode) -> Option<NotifyOnlyReason> {
        if self.facts().tags.contains_key(MARKED) {
            return None;
        }
        if !has_room(self.facts().tags, &[MARKED]) {
            return Some(NotifyOnlyReason::TooManyTags);
        }
        match self.label_refusal(mode).filter(|refusal| refusal.holds(self.facts().now))?.reason {
            RefusalReason::TagPolicy => Some(NotifyOnlyReason::TagPolicy),
            RefusalReason::OrganisationPolicy => Some(NotifyOnlyReason::OrganisationPolicy),
            RefusalReason::ExplicitDeny => Some(NotifyOnlyReason::ExplicitDeny),
            RefusalReason::TooManyTags => Some(NotifyOnlyReason::TooManyTags),
            _ => None,
        }
    }

    /// The announcements that still bind, for the rules of this mode. Observe mode turns an enforced announcement into an observed one, so that
    /// enforcing the rule again announces it anew, with the whole grace.
    fn announced(self, mode: Mode) -> AnnouncedActions {
        let ResourceFacts { since, now, .. } = self.facts();
        let binds = |announced: &AnnouncedAction| {
            let was_kept_since = self.curfew_tags().keep_until.is_some_and(|kept| kept <= now && kept > announced.at);
            announced.mode >= mode && announced.is_fresh(since, now) && !was_kept_since
        };
        let recorded = self.facts().record().into_iter().flat_map(|record| &record.announced);
        recorded
            .filter(|(rule, announced)| binds(announced) && self.mode(**rule) == mode)
            .map(|(rule, announced)| (*rule, AnnouncedAction { mode, ..*announced }))
            .collect()
    }

    /// Announcements except the new ones, for which no message was accepted yet.
    fn still_announced(self, track: &RuleTrack) -> impl Iterator<Item = (Rule, AnnouncedAction)> {
        let is_new =
            |rule: &Rule| track.settled.newly_announced.iter().any(|(violation, _)| violation.evidence.rule() == *rule);
        let entries = track.settled.entries.iter().map(|(rule, announced)| (*rule, *announced));
        entries.filter(move |(rule, _)| !is_new(rule))
    }

    /// The memory of a judged resource for the next run.
    fn memory_of_tracks(self, tracks: &[&RuleTrack], active_keys: Vec<NotificationKey>) -> ResourceMemory {
        let announced = tracks.iter().flat_map(|track| self.still_announced(track)).collect();
        let refused = tracks.iter().flat_map(|track| track.settled.standing_refusals()).collect();
        let record = ResourceRecord { announced, refused, ..self.lasting_record() };
        ResourceMemory { active_keys, record, host_tags: None }
    }

    /// The record without announcements.
    fn lasting_record(self) -> ResourceRecord {
        let record = self.facts().record();
        ResourceRecord {
            expiry_seen: self.facts().seen_expiry(self.curfew_tags()),
            label_refused: record.and_then(|record| record.label_refused),
            ..ResourceRecord::about(self.facts().began)
        }
    }

    /// The one step of such a resource, by priority; `None` where nothing changed since the last run. Observe mode has the order of enforce mode,
    /// and a rule that only notifies comes after every action and announcement.
    fn step_by_priority(self, enforced: &RuleTrack, observed: &RuleTrack) -> Option<Step> {
        self.acting_step(enforced)
            .or_else(|| self.acting_step(observed))
            .or_else(|| self.notify_only_step(enforced))
            .or_else(|| self.notify_only_step(observed))
            .or_else(|| self.due(observed))
    }

    /// An action that is due, or an announcement. An observed action stays due in every run: once announced, it must not hide others.
    fn acting_step(self, track: &RuleTrack) -> Option<Step> {
        self.announce_before_policy_action(track)
            .or_else(|| self.due(track).filter(|step| !step.already_notified))
            .or_else(|| self.rewrite(track))
    }

    /// The action whose deadline has passed. Without any mark on the resource IAM would refuse it: the mark is written first, and the action
    /// waits for the next run.
    fn due(self, track: &RuleTrack) -> Option<Step> {
        let (violation, announced) = track.settled.due.as_ref()?;
        let rule = violation.evidence.rule();
        let is_marked = track.mode == Mode::Observe || self.facts().tags.contains_key(MARKED);
        let owners_moment = matches!(violation.due, DueAction::AtOnce(..));
        if !is_marked && !owners_moment {
            return None;
        }
        // An owner's own moment is announced and carried out in one run; no message about other new violations was accepted yet.
        let mark = if is_marked { None } else { Mark::earliest(self.still_announced(track)) };
        let action = self.end(announced.ending, rule, mark)?;
        let already_notified = track.mode == Mode::Observe && self.facts().was_notified_of_observed(rule, *announced);
        Some(Step {
            deadline: Some(announced.deadline),
            already_notified,
            refused_at: track.settled.refusal_for(*announced).map(|refusal| refusal.at),
            ..self.step(track.mode, action, violation.evidence.clone())
        })
    }

    /// The announcement that comes before a policy action, because `[limits]` may hold that action run after run: an action that the owner scheduled,
    /// or the end of an earlier announcement.
    fn announce_before_policy_action(self, track: &RuleTrack) -> Option<Step> {
        let (due, _) = track.settled.due.as_ref()?;
        let scheduled = |(violation, _): &(Violation, AnnouncedAction)| violation.evidence.is_scheduled();
        let called_off = |rule: &Rule| !track.settled.entries.contains_key(rule);
        let waits = !due.evidence.is_scheduled()
            && (track.settled.newly_announced.iter().any(scheduled) || track.announced_before.keys().any(called_off));
        if waits { self.rewrite(track) } else { None }
    }

    /// Announces new violations, calls off what no longer holds, or corrects the mark.
    fn rewrite(self, track: &RuleTrack) -> Option<Step> {
        let entries = &track.settled.entries;
        let mark = Mark::earliest(entries.iter().map(|(rule, announced)| (*rule, *announced)));
        let mark_is_right =
            track.mode == Mode::Observe || self.facts().tags.get(MARKED).cloned() == mark.map(|mark| mark.to_string());
        let has_new = !track.settled.newly_announced.is_empty();
        let called_off = track.announced_before.iter().find(|(rule, _)| !entries.contains_key(*rule));
        // The removal that tells what is called off corrects the mark as well.
        let refused = self.label_refusal(track.mode);
        let is_refused = refused.is_some_and(|refusal| refusal.holds(self.facts().now));
        let is_to_correct = !mark_is_right && called_off.is_none() && !is_refused;
        if (has_new || is_to_correct)
            && let Some((evidence, deadline, further_evidence)) = evidence_by_deadline(track)
        {
            return Some(Step {
                deadline: Some(deadline),
                further_evidence,
                already_notified: !has_new,
                refused_at: refused.map(|refusal| refusal.at),
                ..self.step(track.mode, Announcement::Mark(entries.clone()).into(), evidence)
            });
        }
        let stale = self.stale_tag().filter(|_| track.mode == Mode::Enforce);
        // A mark without an announcement is removed without a message.
        let is_stray = |rule: &Rule| !mark_is_right && mark.is_none() && self.mode(*rule) == track.mode;
        let stray = self.stray_mark().filter(is_stray);
        let (rule, called_off) = match called_off {
            Some((rule, announced)) => (*rule, Some(announced)),
            None => (stale.map(|(rule, _)| rule).or(stray)?, None),
        };
        let evidence = Evidence::resolved(rule);
        let unmark = Announcement::Unmark { remaining: mark, also: stale.map(|(_, key)| key) };
        Some(Step {
            deadline: called_off.map(|announced| announced.deadline),
            already_notified: called_off.is_none(),
            ..self.step(track.mode, unmark.into(), evidence)
        })
    }

    /// The rule that the mark on the resource names, for the report of its removal; for an unreadable mark any rule.
    fn stray_mark(self) -> Option<Rule> {
        let mark = self.facts().tags.get(MARKED)?;
        Some(mark.split([' ', '=']).find_map(Rule::read).unwrap_or(Rule::Lifetime))
    }

    /// The step that lists an observed announcement again in each run's report, without a message: as a mark; or as the action, if that was notified
    /// and this run did not query again.
    fn observed_before(self, track: &RuleTrack) -> Option<Step> {
        let SettledVerdicts { entries, announced_before: known, .. } = &track.settled;
        if track.mode != Mode::Observe {
            return None;
        }
        let known_violation = |rule: Rule| known.iter().find(|(violation, _)| violation.evidence.rule() == rule);
        let evidence = |rule: Rule| match known_violation(rule) {
            Some((violation, _)) => violation.evidence.clone(),
            None => Evidence::repeated(rule),
        };
        let mut by_deadline: Vec<_> =
            entries.iter().map(|(rule, announced)| (announced.deadline, *rule, *announced)).collect();
        by_deadline.sort_unstable_by_key(|(deadline, rule, _)| (*deadline, *rule));
        let (deadline, rule, announced) = *by_deadline.first()?;
        let already_notified = self.facts().was_notified_of_observed(rule, announced);
        let end = Some(announced.ending)
            .filter(|_| already_notified && known_violation(rule).is_none() && deadline <= self.facts().now);
        let step = match end.and_then(|ending| self.end(ending, rule, None)) {
            Some(action) => self.step(track.mode, action, evidence(rule)),
            None => Step {
                further_evidence: by_deadline[1..]
                    .iter()
                    .map(|(deadline, rule, _)| (evidence(*rule), *deadline))
                    .collect(),
                ..self.step(track.mode, Announcement::Mark(entries.clone()).into(), evidence(rule))
            },
        };
        Some(Step { deadline: Some(deadline), already_notified: true, ..step })
    }

    fn notify_only_step(self, track: &RuleTrack) -> Option<Step> {
        let is_to_notify = |(violation, why): &&(Violation, NotifyOnlyReason)| {
            !self.facts().was_notified(&NotificationKey::rule(violation.evidence.rule()), why.as_str())
        };
        let (violation, why) = track.settled.notify_only.iter().find(is_to_notify)?;
        let step = self.step(track.mode, Announcement::Notify.into(), violation.evidence.clone());
        Some(Step { notify_only: Some(*why), ..step })
    }
}

/// Evidence with its deadlines.
type FurtherEvidence = Vec<(Evidence, Timestamp)>;

/// The notifications that must not be repeated: those of rules that are violated or unknown.
pub(crate) fn unsettled_rule_keys(verdicts: &[(Rule, Verdict)]) -> Vec<NotificationKey> {
    let unsettled = verdicts.iter().filter(|(_, verdict)| *verdict != Verdict::Compliant).map(|(rule, _)| *rule);
    unsettled
        .flat_map(|rule| [NotificationKey::rule(rule), NotificationKey::would(rule), NotificationKey::undone(rule)])
        .collect()
}

/// The notifications about a resource that Curfew starts for its hours.
pub(crate) fn start_keys() -> Vec<NotificationKey> {
    vec![
        NotificationKey::would(Rule::Hours),
        NotificationKey::undone(Rule::Hours),
        NotificationKey::started(),
        FindingKind::StartFailed.key(),
    ]
}

/// The evidence that an announcement names first, by the earliest deadline, and the rest: of the new violations, or if there are none, of the known
/// ones.
fn evidence_by_deadline(track: &RuleTrack) -> Option<(Evidence, Timestamp, FurtherEvidence)> {
    let SettledVerdicts { newly_announced, announced_before, .. } = &track.settled;
    let violations = if newly_announced.is_empty() { announced_before } else { newly_announced };
    let mut by_deadline: FurtherEvidence =
        violations.iter().map(|(violation, announced)| (violation.evidence.clone(), announced.deadline)).collect();
    by_deadline.sort_by_key(|(_, deadline)| *deadline);
    let mut by_deadline = by_deadline.into_iter();
    let (evidence, deadline) = by_deadline.next()?;
    Some((evidence, deadline, by_deadline.collect()))
}
