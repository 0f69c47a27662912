//! Asking about one instance, round by round, no further than it takes. Pure: whoever calls `CloudWatch` brings the answers.
//!
//! `CloudWatch` bills by the metric, and a machine of eight GPUs has twenty-one. The first round asks for the CPU and for
//! what showed work, or held memory, the last time; whoever is at work is settled by that. What comes after it depends on
//! [`Depth`].

use std::collections::BTreeMap;

use super::evaluate::{held_by, memory_held};
use super::questions::memory_of;
use super::{Evidence, Question, Sample, Series, Signal, Usage, Window, evaluate, evidence, further_questions};
use crate::config::{Idle, SeriesNames};
use crate::instance::Instance;

/// One instance to ask about.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask<'a> {
    /// Whom.
    pub instance: &'a Instance,
    /// Over which window, and since.
    pub window: Window,
    /// What showed work, or held memory, the last time.
    pub likely: Option<Evidence>,
    /// How far.
    pub depth: Depth,
}

/// How far to ask about an instance of which the first round shows no work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Everything there is to know.
    Full,
    /// Everything, if all of its devices are listed by now: without them it stays unknown.
    IfInstrumented,
    /// Everything, unless the memory that was held the last time still is: freed, it makes it one to be ended.
    UnlessHeld,
    /// Nothing: it was found idle before, and finding it so again would change nothing.
    WorkOnly,
}

/// What came of asking about one instance.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// What it has been doing; and what showed work, or held memory, unless it was the CPU.
    Told(Usage, Option<Evidence>),
    /// No work was seen, and no more was asked: what was found before stands.
    NoWork,
}

/// What the first round says of an instance.
#[derive(Debug, Clone, PartialEq)]
pub enum First<'a> {
    /// Enough.
    Found(Found),
    /// Not enough.
    Open(Open<'a>),
}

/// An instance to ask further about.
#[derive(Debug, Clone, PartialEq)]
pub struct Open<'a> {
    /// Whom, and over which window.
    pub ask: &'a Ask<'a>,
    answers: BTreeMap<Signal, Vec<Sample>>,
}

impl<'a> Ask<'a> {
    /// Everything there is to know, of an instance of which nothing is known yet.
    #[must_use]
    pub const fn in_full(instance: &'a Instance, window: Window) -> Self {
        Self { instance, window, likely: None, depth: Depth::Full }
    }

    /// What the answers to the first round say; `None` where they leave open what they should tell. `complete`: whether
    /// each question of that round was answered in full.
    #[must_use]
    pub fn after_first(
        &'a self,
        answers: BTreeMap<Signal, Vec<Sample>>,
        complete: bool,
        idle: &Idle,
    ) -> Option<First<'a>> {
        let devices: Vec<Series> = self.likely.iter().map(|likely| likely.series.clone()).collect();
        let usage = evaluate(self.instance, &answers, &[], None, self.window, idle);
        if matches!(usage, Usage::Busy(_)) {
            let shown_by = evidence(self.instance, &answers, &devices, self.window, idle);
            return Some(First::Found(Found::Told(usage, shown_by)));
        }
        if !complete {
            return None;
        }
        Some(if self.is_enough(&answers, idle) {
            First::Found(Found::NoWork)
        } else {
            First::Open(Open { ask: self, answers })
        })
    }

    /// Whether a first round that shows no work is all that is wanted.
    fn is_enough(&self, answers: &BTreeMap<Signal, Vec<Sample>>, idle: &Idle) -> bool {
        match self.depth {
            Depth::Full | Depth::IfInstrumented => false,
            Depth::UnlessHeld => memory_held(self.instance, answers, self.window)
                .is_some_and(|(_, held_mib)| held_mib > idle.gpu_memory_held_mib),
            Depth::WorkOnly => true,
        }
    }
}

impl Open<'_> {
    /// What is left to ask; `None` where an answer would be worth nothing.
    #[must_use]
    pub fn questions(&self, devices: &[Series], names: Option<&SeriesNames>) -> Option<Vec<Question>> {
        let expected = names.map_or(u32::MAX, |names| names.series_of(&self.ask.instance.machine));
        let listed = u32::try_from(devices.len()).unwrap_or(u32::MAX);
        if self.ask.depth == Depth::IfInstrumented && listed < expected {
            return None;
        }
        let known = self.answers_by_place(devices, names);
        let mut questions = further_questions(self.ask, devices, names);
        questions.retain(|question| !known.contains_key(&question.signal));
        Some(questions)
    }

    /// What all answers together say; `None` where they are not `complete` and show no work.
    #[must_use]
    pub fn conclude(
        &self,
        further: BTreeMap<Signal, Vec<Sample>>,
        complete: bool,
        devices: &[Series],
        names: Option<&SeriesNames>,
        idle: &Idle,
    ) -> Option<Found> {
        let Ask { instance, window, .. } = *self.ask;
        let mut answers = self.answers_by_place(devices, names);
        answers.extend(further);
        let usage = evaluate(instance, &answers, devices, names, window, idle);
        let shown_by = match &usage {
            Usage::Busy(_) => evidence(instance, &answers, devices, window, idle),
            Usage::Idle(quiet) if quiet.reserved => {
                names.and_then(|names| held_by(instance, &answers, devices, window, names))
            }
            Usage::Idle(_) | Usage::Unknown(_) => None,
        };
        (matches!(usage, Usage::Busy(_)) || complete).then_some(Found::Told(usage, shown_by))
    }

    /// The answers of the first round, with the GPU that was asked there where it stands among all.
    fn answers_by_place(&self, devices: &[Series], names: Option<&SeriesNames>) -> BTreeMap<Signal, Vec<Sample>> {
        let mut answers = self.answers.clone();
        if let Some(likely) = &self.ask.likely
            && let Some(samples) = answers.remove(&likely.signal)
        {
            // Only by the very metric that is configured now.
            let is_it = |device: &Series| match likely.signal {
                Signal::GpuMemory(_) => names.is_some_and(|names| memory_of(device, names) == likely.series),
                _ => *device == likely.series,
            };
            let place = devices.iter().position(is_it);
            let place = place.and_then(|place| u32::try_from(place).ok());
            let signal = match likely.signal {
                Signal::Gpu(_) => place.map(Signal::Gpu),
                Signal::GpuMemory(_) => place.map(Signal::GpuMemory),
                signal => Some(signal),
            };
            answers.extend(signal.map(|signal| (signal, samples)));
        }
        answers
    }
}

#[cfg(test)]
mod tests;
