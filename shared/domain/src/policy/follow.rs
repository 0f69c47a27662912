//! The announcements of one resource, followed from run to run: what was announced, what still binds, what must be written.
//!
//! Rules that share a mode make a track: enforced ones remember on the resource, observed ones in memory.

use jiff::Timestamp;

use super::settle::{Entries, Settled, settle};
use super::{Broken, Due, Verdict};
use crate::id::ResourceId;
use crate::mark::{Announced, Mark};
use crate::mode::Mode;
use crate::notices::{Notices, Topic, told_fingerprint, would};
use crate::plan::{Action, Because, Mended, OnlyTold, Step};
use crate::rule::{Ending, Rule};
use crate::vocabulary::Vocabulary;

/// The rules of one mode, and what follows from them.
pub(super) struct Track {
    pub(super) mode: Mode,
    /// What was announced before, and still binds.
    pub(super) before: Entries,
    pub(super) settled: Settled,
}

/// A resource, as far as announcements go.
pub(super) trait Followed: Copy {
    /// Its id, by which a mark of its own is told from a copied one.
    fn id(&self) -> &ResourceId;
    /// What was announced before is of an earlier life.
    fn since(self) -> Timestamp;
    /// What its tags say.
    fn says(&self) -> &Vocabulary;
    /// What earlier runs told in its region.
    fn notices(&self) -> &Notices;
    /// When it is.
    fn now(self) -> Timestamp;
    /// The effective mode for a rule, under the ceiling.
    fn mode(self, rule: Rule) -> Mode;
    /// A step with nothing but these.
    fn step(self, mode: Mode, action: Action, because: Because) -> Step;
    /// What carries an end out now, with what must be written first; `None` where it has to wait for something.
    fn end(self, ending: Ending, rule: Rule, mark: Option<Mark>) -> Option<Action>;
    /// A tag of Curfew's that speaks of what is over, and the rule for which it was written.
    fn outlived(self) -> Option<(Rule, &'static str)>;

    fn mark_of(self, entries: Entries) -> Mark {
        Mark { resource: self.id().clone(), entries }
    }

    fn track(self, verdicts: &[(Rule, Verdict)], mode: Mode) -> Track {
        let before: Entries = Rule::ALL
            .into_iter()
            .filter(|rule| self.mode(*rule) == mode)
            .filter_map(|rule| Some((rule, self.announced(rule, mode)?)))
            .collect();
        let of_mode = verdicts.iter().filter(|(rule, _)| self.mode(*rule) == mode);
        Track { mode, settled: settle(of_mode, &before, self.now()), before }
    }

    /// What was announced for a rule and still binds: on the resource, or where it could not be written there, in memory.
    fn announced(self, rule: Rule, mode: Mode) -> Option<Announced> {
        let id = self.id();
        let on_tag = self.says().marked.as_ref().filter(|mark| mark.resource == *id);
        let in_memory = match mode {
            Mode::Enforce => self.notices().unwritten_marks.get(id),
            Mode::Observe => self.notices().shadow_marks.get(id),
        };
        let binds = |mark: &Mark| {
            let announced = mark.entries.get(&rule).copied()?;
            let overtaken_by_keep =
                self.says().keep_until.is_some_and(|kept| kept <= self.now() && kept > announced.deadline);
            let stands = announced.is_fresh(self.since(), self.now()) && !self.is_void(rule, announced);
            (stands && !overtaken_by_keep).then_some(announced)
        };
        let (first, second) = if mode == Mode::Enforce { (on_tag, in_memory) } else { (in_memory, on_tag) };
        first.and_then(binds).or_else(|| second.and_then(binds))
    }

    /// What is written on the resource for rules that are observed, and is announced no more: nothing may be written, so that
    /// it must be remembered elsewhere, lest it be believed once they are enforced again.
    fn called_off_unwritten(self, observed: &Track) -> Option<Mark> {
        let mark = self.says().marked.as_ref().filter(|mark| mark.resource == *self.id())?;
        let called_off =
            |rule: &Rule| self.mode(*rule) == Mode::Observe && !observed.settled.entries.contains_key(rule);
        let void = |(rule, announced): &(&Rule, &Announced)| called_off(rule) || self.is_void(**rule, **announced);
        let entries: Entries = mark.entries.iter().filter(void).map(|(rule, said)| (*rule, *said)).collect();
        (!entries.is_empty()).then(|| self.mark_of(entries))
    }

    fn is_void(self, rule: Rule, announced: Announced) -> bool {
        let void = self.notices().void_marks.get(self.id());
        void.is_some_and(|mark| mark.entries.get(&rule) == Some(&announced))
    }

    /// Everything announced but the news, which nobody has heard yet.
    fn still_announced(self, track: &Track) -> Option<Mark> {
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
    fn still_unwritten(self, track: &Track) -> Option<Mark> {
        let written = self.written(track);
        let is_written = |mark: &Mark| mark.entries.iter().all(|(rule, said)| written.get(rule) == Some(said));
        self.still_announced(track).filter(|mark| !is_written(mark))
    }

    /// The end whose deadline has passed. What was announced but could not be written yet is written first.
    fn due(self, track: &Track) -> Option<Step> {
        let (broken, announced) = track.settled.due.as_ref()?;
        let rule = broken.because.rule();
        let owners_moment = matches!(broken.due, Due::Now(..));
        let on_record = self.written(track).get(&rule).copied();
        let says_this =
            |on_record: Announced| on_record.deadline == announced.deadline && on_record.ending >= announced.ending;
        let written = track.mode == Mode::Observe || on_record.is_some_and(says_this);
        if !written && !owners_moment {
            return None;
        }
        // An owner's own moment is announced and carried out in one run; what else is news, nobody has heard of.
        let mark = if written { None } else { self.still_announced(track) };
        let action = self.end(announced.ending, rule, mark)?;
        let told_before =
            track.mode == Mode::Observe && self.notices().was_told(self.id(), &Topic::would(rule), &would(*announced));
        Some(Step {
            deadline: Some(announced.deadline),
            told_before,
            ..self.step(track.mode, action, broken.because.clone())
        })
    }

    /// What must be written before an end that was inferred, which may be held, run after run: the mark of an end that its
    /// owner wrote down, and that something else which was announced is called off.
    fn before_an_inferred_end(self, track: &Track) -> Option<Step> {
        let (due, _) = track.settled.due.as_ref()?;
        let entries = &track.settled.entries;
        let written = self.written(track);
        let untold =
            |(rule, announced): (&Rule, &Announced)| rule.is_owners_own() && written.get(rule) != Some(announced);
        let called_off = |rule: &Rule| !entries.contains_key(rule);
        let waits =
            !due.because.rule().is_owners_own() && (entries.iter().any(untold) || track.before.keys().any(called_off));
        if waits { self.rewrite(track) } else { None }
    }

    /// Marks or unmarks, where what is written is not what is announced.
    fn rewrite(self, track: &Track) -> Option<Step> {
        let entries = &track.settled.entries;
        let written = self.written(track);
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
        let outlived = self.outlived().filter(|_| track.mode == Mode::Enforce);
        let on_record = self.of_mode(track.mode, self.mark_on_record(track.mode));
        // What was announced may be on record in the other mode, or not written yet: it is called off all the same.
        let gone = || on_record.keys().chain(track.before.keys()).filter(|rule| !entries.contains_key(rule)).copied();
        // What binds nobody (another's, of an earlier life) is taken away without a word.
        let (rule, called_off) = match gone().find_map(|rule| Some((rule, track.before.get(&rule)?))) {
            Some((rule, announced)) => (rule, Some(announced)),
            None => (gone().next().or(outlived.map(|(rule, _)| rule))?, None),
        };
        let remaining = (!entries.is_empty()).then(|| self.mark_of(entries.clone()));
        let because = Because::Mended(Mended { rule, mended: true });
        let deadline = called_off.map(|announced| announced.deadline);
        Some(Step {
            deadline,
            told_before: called_off.is_none(),
            ..self.step(track.mode, Action::Unmark { remaining, also: outlived.map(|(_, key)| key) }, because)
        })
    }

    /// What is written about this resource for the rules of a track, whether or not it still binds.
    fn written(self, track: &Track) -> Entries {
        let of_this_resource = |mark: &&Mark| mark.resource == *self.id();
        self.of_mode(track.mode, self.mark_on_record(track.mode).filter(of_this_resource))
    }

    /// Where the rules of a mode remember, be it about this resource or another.
    fn mark_on_record(&self, mode: Mode) -> Option<&Mark> {
        match mode {
            Mode::Enforce => self.says().marked.as_ref(),
            Mode::Observe => self.notices().shadow_marks.get(self.id()),
        }
    }

    fn of_mode(self, mode: Mode, mark: Option<&Mark>) -> Entries {
        let entries = mark.into_iter().flat_map(|mark| &mark.entries);
        entries.filter(|(rule, _)| self.mode(**rule) == mode).map(|(rule, announced)| (*rule, *announced)).collect()
    }

    fn only_told(self, track: &Track) -> Option<Step> {
        let untold = |(broken, why): &&(Broken, OnlyTold)| {
            !self.notices().was_told(self.id(), &Topic::rule(broken.because.rule()), &told_fingerprint(*why))
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
