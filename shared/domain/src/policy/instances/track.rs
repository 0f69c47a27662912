//! The rules of one instance that share a mode: enforced ones remember on the resource, observed ones in memory.

use jiff::Timestamp;

use super::{Case, told_fingerprint, would};
use crate::mark::{Announced, Mark, whole_second};
use crate::mode::Mode;
use crate::notices::Topic;
use crate::plan::{Action, Because, Mended, OnlyTold, Step};
use crate::policy::settle::{Entries, Settled, settle};
use crate::policy::{Broken, Due, Verdict};
use crate::rule::{Ending, Rule};
use crate::vocabulary::Vocabulary;

/// The rules of one mode, and what follows from them.
pub(super) struct Track {
    pub(super) mode: Mode,
    /// What was announced before, and still binds.
    pub(super) before: Entries,
    pub(super) settled: Settled,
}

impl Case<'_> {
    pub(super) fn track(self, says: &Vocabulary, verdicts: &[(Rule, Verdict)], mode: Mode) -> Track {
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
            let stands = announced.is_fresh(self.instance.launched_at, self.now) && !self.is_void(rule, announced);
            (stands && !overtaken_by_keep).then_some(announced)
        };
        let (first, second) = if mode == Mode::Enforce { (on_tag, in_memory) } else { (in_memory, on_tag) };
        first.and_then(binds).or_else(|| second.and_then(binds))
    }

    /// What is written on the resource for rules that are observed, and is announced no more: nothing may be written, so that
    /// it must be remembered elsewhere, lest it be believed once they are enforced again.
    pub(super) fn called_off_unwritten(self, says: &Vocabulary, observed: &Track) -> Option<Mark> {
        let mark = says.marked.as_ref().filter(|mark| mark.resource == self.instance.id)?;
        let called_off =
            |rule: &Rule| self.mode(says, *rule) == Mode::Observe && !observed.settled.entries.contains_key(rule);
        let void = |(rule, announced): &(&Rule, &Announced)| called_off(rule) || self.is_void(**rule, **announced);
        let entries: Entries = mark.entries.iter().filter(void).map(|(rule, said)| (*rule, *said)).collect();
        (!entries.is_empty()).then(|| self.mark_of(entries))
    }

    fn is_void(self, rule: Rule, announced: Announced) -> bool {
        let void = self.notices.void_marks.get(&self.instance.id);
        void.is_some_and(|mark| mark.entries.get(&rule) == Some(&announced))
    }

    /// Everything announced but the news, which nobody has heard yet.
    pub(super) fn still_announced(self, track: &Track) -> Option<Mark> {
        let is_news = |rule: &Rule| track.settled.news.iter().any(|(broken, _)| broken.because.rule() == *rule);
        let known: Entries = track
            .settled
            .entries
            .iter()
            .filter(|(rule, _)| !is_news(rule))
            .map(|(rule, said)| (*rule, *said))
            .collect();
        (!known.is_empty()).then(|| self.mark_of(known))
    }

    /// What of it is not on the resource: an answer that nobody has must not make a run forget what it told.
    pub(super) fn still_unwritten(self, says: &Vocabulary, track: &Track) -> Option<Mark> {
        let written = self.written(says, track);
        let is_written = |mark: &Mark| mark.entries.iter().all(|(rule, said)| written.get(rule) == Some(said));
        self.still_announced(track).filter(|mark| !is_written(mark))
    }

    /// The end whose deadline has passed. What was announced but could not be written yet is written first.
    pub(super) fn due(self, says: &Vocabulary, track: &Track) -> Option<Step> {
        let (broken, announced) = track.settled.due.as_ref()?;
        let rule = broken.because.rule();
        let owners_moment = matches!(broken.due, Due::Now(..));
        let on_record = self.written(says, track).get(&rule).copied();
        let says_this =
            |on_record: Announced| on_record.deadline == announced.deadline && on_record.ending >= announced.ending;
        let written = track.mode == Mode::Observe || on_record.is_some_and(says_this);
        if !written && !owners_moment {
            return None;
        }
        // An owner's own moment is announced and carried out in one run; what else is news, nobody has heard of.
        let mark = if written { None } else { self.still_announced(track) };
        let action = match announced.ending {
            Ending::Stop => Action::Stop { mark, stopped: format!("{rule} {}", whole_second(self.now)) },
            Ending::Terminate => Action::Terminate { mark },
        };
        let told_before = track.mode == Mode::Observe
            && self.notices.was_told(&self.instance.id, &Topic::would(rule), &would(*announced));
        Some(Step {
            deadline: Some(announced.deadline),
            told_before,
            ..self.step(track.mode, action, broken.because.clone())
        })
    }

    /// What must be written before an end that was inferred, which may be held, run after run: the mark of an end that its
    /// owner wrote down, and that something else which was announced is called off.
    pub(super) fn before_an_inferred_end(self, says: &Vocabulary, track: &Track) -> Option<Step> {
        let (due, _) = track.settled.due.as_ref()?;
        let entries = &track.settled.entries;
        let written = self.written(says, track);
        let untold =
            |(rule, announced): (&Rule, &Announced)| rule.is_owners_own() && written.get(rule) != Some(announced);
        let called_off = |rule: &Rule| !entries.contains_key(rule);
        let waits =
            !due.because.rule().is_owners_own() && (entries.iter().any(untold) || track.before.keys().any(called_off));
        if waits { self.rewrite(says, track) } else { None }
    }

    /// Marks or unmarks, where what is written is not what is announced.
    pub(super) fn rewrite(self, says: &Vocabulary, track: &Track) -> Option<Step> {
        let entries = &track.settled.entries;
        let written = self.written(says, track);
        if entries.iter().any(|(rule, announced)| written.get(rule) != Some(announced))
            && let Some((because, deadline, besides)) = first_said(track)
        {
            let told_before = track.settled.news.is_empty();
            let mark = Action::Mark(self.mark_of(entries.clone()));
            return Some(Step {
                deadline: Some(deadline),
                besides,
                told_before,
                ..self.step(track.mode, mark, because)
            });
        }
        let old_stop = self.old_stop(says).filter(|_| track.mode == Mode::Enforce);
        let on_record = self.of_mode(says, track.mode, self.mark_on_record(says, track.mode));
        // What was announced may be on record in the other mode, or not written yet: it is called off all the same.
        let gone = || on_record.keys().chain(track.before.keys()).filter(|rule| !entries.contains_key(rule)).copied();
        // What binds nobody (another's, of an earlier life) is taken away without a word.
        let (rule, called_off) = match gone().find_map(|rule| Some((rule, track.before.get(&rule)?))) {
            Some((rule, announced)) => (rule, Some(announced)),
            None => (gone().next().or(old_stop)?, None),
        };
        let remaining = (!entries.is_empty()).then(|| self.mark_of(entries.clone()));
        let because = Because::Mended(Mended { rule, mended: true });
        let deadline = called_off.map(|announced| announced.deadline);
        Some(Step {
            deadline,
            told_before: called_off.is_none(),
            ..self.step(track.mode, Action::Unmark { remaining, clear_stopped: old_stop.is_some() }, because)
        })
    }

    /// What is written about this instance for the rules of a track, whether or not it still binds.
    fn written(self, says: &Vocabulary, track: &Track) -> Entries {
        let of_this_instance = |mark: &&Mark| mark.resource == self.instance.id;
        self.of_mode(says, track.mode, self.mark_on_record(says, track.mode).filter(of_this_instance))
    }

    /// Where the rules of a mode remember, be it about this instance or another.
    fn mark_on_record<'m>(self, says: &'m Vocabulary, mode: Mode) -> Option<&'m Mark>
    where
        Self: 'm,
    {
        match mode {
            Mode::Enforce => says.marked.as_ref(),
            Mode::Observe => self.notices.shadow_marks.get(&self.instance.id),
        }
    }

    fn of_mode(self, says: &Vocabulary, mode: Mode, mark: Option<&Mark>) -> Entries {
        let entries = mark.into_iter().flat_map(|mark| &mark.entries);
        entries
            .filter(|(rule, _)| self.mode(says, **rule) == mode)
            .map(|(rule, announced)| (*rule, *announced))
            .collect()
    }

    /// The rule by which it says that Curfew stopped it, and yet it runs: somebody started it again.
    fn old_stop(self, says: &Vocabulary) -> Option<Rule> {
        let rule = says.stopped.as_ref().and_then(|stopped| Rule::read(&stopped.rule));
        let starts_by_hours = says.hours.is_some() && self.mode(says, Rule::Hours) == Mode::Enforce;
        let enforced = |rule: Rule| Some(rule).filter(|rule| self.mode(says, *rule) == Mode::Enforce);
        rule.and_then(|rule| enforced(rule).or(starts_by_hours.then_some(Rule::Hours)))
    }

    pub(super) fn only_told(self, track: &Track) -> Option<Step> {
        let untold = |(broken, why): &&(Broken, OnlyTold)| {
            !self.notices.was_told(&self.instance.id, &Topic::rule(broken.because.rule()), &told_fingerprint(*why))
        };
        let (broken, why) = track.settled.only_told.iter().find(untold)?;
        Some(Step { only_told: Some(*why), ..self.step(track.mode, Action::Notify, broken.because.clone()) })
    }
}

/// Reasons with their deadlines.
type Besides = Vec<(Because, Timestamp)>;

/// What a mark says first, and what besides: the news, or where all is known, everything.
fn first_said(track: &Track) -> Option<(Because, Timestamp, Besides)> {
    let Settled { news, known, .. } = &track.settled;
    let said = if news.is_empty() { known } else { news };
    let mut said = said.iter().map(|(broken, announced)| (broken.because.clone(), announced.deadline));
    let (because, deadline) = said.next()?;
    Some((because, deadline, said.collect()))
}
