//! The announcements of one resource, followed from run to run: what was announced, what still binds, what must be written.
//!
//! Rules that share a mode make a track: enforced ones remember on the resource, observed ones in memory.

use jiff::Timestamp;
use model::curfew_tags::CurfewTags;
use model::id::ResourceId;
use model::mark::{AnnouncedAction, Mark};
use model::mode::Mode;
use model::notification_log::{NotificationKey, NotificationLog, would_fingerprint};
use model::rule::{ResourceAction, Rule};
use plan::{Announcement, Evidence, NotifyOnlyReason, RepeatedEvidence, ResolvedEvidence, ResourceMemory, Step};

use crate::policy::{DueAction, Verdict, Violation};
use crate::settle::{AnnouncedActions, SettledVerdicts, settle};

/// The rules of one mode, and what follows from them.
pub(crate) struct RuleTrack {
    pub(crate) mode: Mode,
    /// What was announced before, and still binds.
    pub(crate) announced_before: AnnouncedActions,
    pub(crate) settled: SettledVerdicts,
}

/// A resource, as far as announcements go.
pub(crate) trait AnnouncementTarget: Copy {
    /// What can be done to it.
    type Action: From<Announcement>;
    /// Its id, by which a mark of its own is told from a copied one.
    fn id(&self) -> &ResourceId;
    /// What was announced before is of an earlier life.
    fn since(self) -> Timestamp;
    /// What its tags say.
    fn curfew_tags(&self) -> &CurfewTags;
    /// What earlier runs told in its region.
    fn notices(&self) -> &NotificationLog;
    /// When it is.
    fn now(self) -> Timestamp;
    /// The effective mode for a rule, under the ceiling.
    fn mode(self, rule: Rule) -> Mode;
    /// A step with nothing but these.
    fn step(self, mode: Mode, action: Self::Action, evidence: Evidence) -> Step;
    /// What carries an end out now, with what must be written first; `None` where it has to wait for something.
    fn end(self, ending: ResourceAction, rule: Rule, mark: Option<Mark>) -> Option<Self::Action>;
    /// A tag of Curfew's that speaks of what is over, and the rule for which it was written.
    fn stale_tag(self) -> Option<(Rule, &'static str)>;

    fn mark_of(self, entries: AnnouncedActions) -> Mark {
        Mark::new(self.id(), entries)
    }

    fn track(self, verdicts: &[(Rule, Verdict)], mode: Mode) -> RuleTrack {
        let before: AnnouncedActions = Rule::ALL
            .into_iter()
            .filter(|rule| self.mode(*rule) == mode)
            .filter_map(|rule| Some((rule, self.announced(rule, mode)?)))
            .collect();
        let of_mode = verdicts.iter().filter(|(rule, _)| self.mode(*rule) == mode);
        RuleTrack { mode, settled: settle(of_mode, &before, self.now()), announced_before: before }
    }

    /// What was announced for a rule and still binds: on the resource, or where it could not be written there, in memory.
    fn announced(self, rule: Rule, mode: Mode) -> Option<AnnouncedAction> {
        let id = self.id();
        let on_tag = self.curfew_tags().marked.as_ref().filter(|mark| mark.is_about(id));
        let in_memory = match mode {
            Mode::Enforce => self.notices().unwritten_marks.get(id),
            Mode::Observe => self.notices().shadow_marks.get(id),
        };
        let binds = |mark: &Mark| {
            let announced = mark.entries.get(&rule).copied()?;
            let overtaken_by_keep =
                self.curfew_tags().keep_until.is_some_and(|kept| kept <= self.now() && kept > announced.deadline);
            let stands = announced.is_fresh(self.since(), self.now()) && !self.is_void(rule, announced);
            (stands && !overtaken_by_keep).then_some(announced)
        };
        let (first, second) = if mode == Mode::Enforce { (on_tag, in_memory) } else { (in_memory, on_tag) };
        first.and_then(binds).or_else(|| second.and_then(binds))
    }

    /// What is written on the resource for rules that are observed, and is announced no more: nothing may be written, so that
    /// it must be remembered elsewhere, lest it be believed once they are enforced again.
    fn called_off_unwritten(self, observed: &RuleTrack) -> Option<Mark> {
        let mark = self.curfew_tags().marked.as_ref().filter(|mark| mark.is_about(self.id()))?;
        let called_off =
            |rule: &Rule| self.mode(*rule) == Mode::Observe && !observed.settled.entries.contains_key(rule);
        let void =
            |(rule, announced): &(&Rule, &AnnouncedAction)| called_off(rule) || self.is_void(**rule, **announced);
        let entries: AnnouncedActions = mark.entries.iter().filter(void).map(|(rule, said)| (*rule, *said)).collect();
        (!entries.is_empty()).then(|| self.mark_of(entries))
    }

    fn is_void(self, rule: Rule, announced: AnnouncedAction) -> bool {
        let void = self.notices().void_marks.get(self.id());
        void.is_some_and(|mark| mark.entries.get(&rule) == Some(&announced))
    }

    /// Everything announced except the news, for which no message was accepted yet.
    fn still_announced(self, track: &RuleTrack) -> Option<Mark> {
        let is_news =
            |rule: &Rule| track.settled.newly_announced.iter().any(|(violation, _)| violation.evidence.rule() == *rule);
        let known: AnnouncedActions = track
            .settled
            .entries
            .iter()
            .filter(|(rule, _)| !is_news(rule))
            .map(|(rule, said)| (*rule, *said))
            .collect();
        (!known.is_empty()).then(|| self.mark_of(known))
    }

    /// What of it is not on the resource: a missing answer must not make a run forget its announcement.
    fn still_unwritten(self, track: &RuleTrack) -> Option<Mark> {
        let written = self.written(track);
        let is_written = |mark: &Mark| mark.entries.iter().all(|(rule, said)| written.get(rule) == Some(said));
        self.still_announced(track).filter(|mark| !is_written(mark))
    }

    /// What the next run has to know of a resource whose rules each have a mode of their own.
    fn memory_of_tracks(
        self,
        enforced: &RuleTrack,
        observed: &RuleTrack,
        active_keys: Vec<NotificationKey>,
    ) -> ResourceMemory {
        ResourceMemory {
            active_keys,
            shadow_mark: self.still_announced(observed),
            unwritten_mark: self.still_unwritten(enforced),
            void_mark: self.called_off_unwritten(observed),
            ..ResourceMemory::default()
        }
    }

    /// The one step of such a resource, by priority; `None` where nothing changed since the last run.
    fn step_by_priority(self, enforced: &RuleTrack, observed: &RuleTrack) -> Option<Step> {
        self.write_before_policy_action(enforced)
            .or_else(|| self.due(enforced))
            .or_else(|| self.rewrite(enforced))
            .or_else(|| self.notify_only_step(enforced))
            .or_else(|| self.notify_only_step(observed))
            // An observed action stays due in every run: once announced, it must not hide others.
            .or_else(|| self.due(observed).filter(|step| !step.already_notified))
            .or_else(|| self.rewrite(observed))
            .or_else(|| self.due(observed))
    }

    /// The end whose deadline has passed. What was announced but could not be written yet is written first.
    fn due(self, track: &RuleTrack) -> Option<Step> {
        let (violation, announced) = track.settled.due.as_ref()?;
        let rule = violation.evidence.rule();
        let owners_moment = matches!(violation.due, DueAction::AtOnce(..));
        let on_record = self.written(track).get(&rule).copied();
        let says_this = |on_record: AnnouncedAction| {
            on_record.deadline == announced.deadline && on_record.ending >= announced.ending
        };
        let written = track.mode == Mode::Observe || on_record.is_some_and(says_this);
        if !written && !owners_moment {
            return None;
        }
        // An owner's own moment is announced and carried out in one run; of other news no message was accepted yet.
        let mark = if written { None } else { self.still_announced(track) };
        let action = self.end(announced.ending, rule, mark)?;
        let already_notified = track.mode == Mode::Observe
            && self.notices().was_notified(self.id(), &NotificationKey::would(rule), &would_fingerprint(*announced));
        Some(Step {
            deadline: Some(announced.deadline),
            already_notified,
            ..self.step(track.mode, action, violation.evidence.clone())
        })
    }

    /// What must be written before an end that was inferred, which may be held, run after run: the mark of an end that its
    /// owner wrote down, and that something else which was announced is called off.
    fn write_before_policy_action(self, track: &RuleTrack) -> Option<Step> {
        let (due, _) = track.settled.due.as_ref()?;
        let entries = &track.settled.entries;
        let written = self.written(track);
        let untold =
            |(rule, announced): (&Rule, &AnnouncedAction)| rule.is_owners_own() && written.get(rule) != Some(announced);
        let called_off = |rule: &Rule| !entries.contains_key(rule);
        let waits = !due.evidence.rule().is_owners_own()
            && (entries.iter().any(untold) || track.announced_before.keys().any(called_off));
        if waits { self.rewrite(track) } else { None }
    }

    /// Marks or unmarks, where what is written is not what is announced.
    fn rewrite(self, track: &RuleTrack) -> Option<Step> {
        let entries = &track.settled.entries;
        let written = self.written(track);
        if entries.iter().any(|(rule, announced)| written.get(rule) != Some(announced))
            && let Some((evidence, deadline, besides)) = first_said(track)
        {
            let already_notified = track.settled.newly_announced.is_empty();
            let mark = Announcement::Mark(self.mark_of(entries.clone()));
            return Some(Step {
                deadline: Some(deadline),
                further_evidence: besides,
                already_notified,
                ..self.step(track.mode, mark.into(), evidence)
            });
        }
        let outlived = self.stale_tag().filter(|_| track.mode == Mode::Enforce);
        let on_record = self.of_mode(track.mode, self.mark_on_record(track.mode));
        // What was announced may be on record in the other mode, or not written yet: it is called off all the same.
        let gone = || {
            on_record.keys().chain(track.announced_before.keys()).filter(|rule| !entries.contains_key(rule)).copied()
        };
        // A mark that binds no run (another's, or of an earlier life) is removed without a message.
        let (rule, called_off) = match gone().find_map(|rule| Some((rule, track.announced_before.get(&rule)?))) {
            Some((rule, announced)) => (rule, Some(announced)),
            None => (gone().next().or(outlived.map(|(rule, _)| rule))?, None),
        };
        let remaining = (!entries.is_empty()).then(|| self.mark_of(entries.clone()));
        let evidence = Evidence::Resolved(ResolvedEvidence { rule, resolved: true });
        let deadline = called_off.map(|announced| announced.deadline);
        let unmark = Announcement::Unmark { remaining, also: outlived.map(|(_, key)| key) };
        Some(Step {
            deadline,
            already_notified: called_off.is_none(),
            ..self.step(track.mode, unmark.into(), evidence)
        })
    }

    /// What was announced in observe mode before, so that each run's report lists it although no message repeats it: as a mark; or,
    /// where its end was told and this run did not ask again, as that end.
    fn observed_before(self, track: &RuleTrack) -> Option<Step> {
        let SettledVerdicts { entries, announced_before: known, .. } = &track.settled;
        if track.mode != Mode::Observe {
            return None;
        }
        let asked = |rule: Rule| known.iter().find(|(violation, _)| violation.evidence.rule() == rule);
        let evidence = |rule: Rule| match asked(rule) {
            Some((violation, _)) => violation.evidence.clone(),
            None => Evidence::Repeated(RepeatedEvidence { rule, not_queried_again: true }),
        };
        let mut said: Vec<_> =
            entries.iter().map(|(rule, announced)| (announced.deadline, *rule, *announced)).collect();
        said.sort_unstable_by_key(|(deadline, rule, _)| (*deadline, *rule));
        let (deadline, rule, announced) = *said.first()?;
        let was_told =
            self.notices().was_notified(self.id(), &NotificationKey::would(rule), &would_fingerprint(announced));
        let end = Some(announced.ending).filter(|_| was_told && asked(rule).is_none() && deadline <= self.now());
        let step = match end.and_then(|ending| self.end(ending, rule, None)) {
            Some(action) => self.step(track.mode, action, evidence(rule)),
            None => Step {
                further_evidence: said[1..].iter().map(|(deadline, rule, _)| (evidence(*rule), *deadline)).collect(),
                ..self.step(track.mode, Announcement::Mark(self.mark_of(entries.clone())).into(), evidence(rule))
            },
        };
        Some(Step { deadline: Some(deadline), already_notified: true, ..step })
    }

    /// What is written about this resource for the rules of a track, whether or not it still binds.
    fn written(self, track: &RuleTrack) -> AnnouncedActions {
        let of_this_resource = |mark: &&Mark| mark.is_about(self.id());
        self.of_mode(track.mode, self.mark_on_record(track.mode).filter(of_this_resource))
    }

    /// Where the rules of a mode remember, be it about this resource or another.
    fn mark_on_record(&self, mode: Mode) -> Option<&Mark> {
        match mode {
            Mode::Enforce => self.curfew_tags().marked.as_ref(),
            Mode::Observe => self.notices().shadow_marks.get(self.id()),
        }
    }

    fn of_mode(self, mode: Mode, mark: Option<&Mark>) -> AnnouncedActions {
        let entries = mark.into_iter().flat_map(|mark| &mark.entries);
        entries.filter(|(rule, _)| self.mode(**rule) == mode).map(|(rule, announced)| (*rule, *announced)).collect()
    }

    fn notify_only_step(self, track: &RuleTrack) -> Option<Step> {
        let untold = |(violation, why): &&(Violation, NotifyOnlyReason)| {
            !self.notices().was_notified(self.id(), &NotificationKey::rule(violation.evidence.rule()), why.as_str())
        };
        let (violation, why) = track.settled.notify_only.iter().find(untold)?;
        let step = self.step(track.mode, Announcement::Notify.into(), violation.evidence.clone());
        Some(Step { notify_only: Some(*why), ..step })
    }
}

/// Reasons with their deadlines.
type FurtherEvidence = Vec<(Evidence, Timestamp)>;

/// The notifications that must not be repeated: those of rules that are violated or unknown.
pub(crate) fn unsettled_rule_keys(verdicts: &[(Rule, Verdict)]) -> Vec<NotificationKey> {
    let unsettled = verdicts.iter().filter(|(_, verdict)| *verdict != Verdict::Compliant).map(|(rule, _)| *rule);
    unsettled
        .flat_map(|rule| [NotificationKey::rule(rule), NotificationKey::would(rule), NotificationKey::undone(rule)])
        .collect()
}

/// Those about a resource that is started for its hours.
pub(crate) fn start_keys() -> Vec<NotificationKey> {
    vec![NotificationKey::would(Rule::Hours), NotificationKey::undone(Rule::Hours), NotificationKey::started()]
}

/// What a mark says first, and what besides: the news, or where all is known, everything.
fn first_said(track: &RuleTrack) -> Option<(Evidence, Timestamp, FurtherEvidence)> {
    let SettledVerdicts { newly_announced: news, announced_before: known, .. } = &track.settled;
    let said = if news.is_empty() { known } else { news };
    let mut said = said.iter().map(|(violation, announced)| (violation.evidence.clone(), announced.deadline));
    let (evidence, deadline) = said.next()?;
    Some((evidence, deadline, said.collect()))
}
