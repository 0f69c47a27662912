//! Queries about one instance, round by round, no further than needed. Pure: the caller queries `CloudWatch` and passes the answers.
//!
//! `CloudWatch` bills by the metric, and a machine of eight GPUs has twenty-one. The first round queries the CPU and the metrics that last showed
//! work, or held memory; that decides about busy instances. The next rounds depend on [`QueryDepth`].

use std::collections::{BTreeMap, BTreeSet};

use super::evaluate::{held_by, memory_held};
use super::questions::memory_of;
use super::{
    DecisiveSeries, DeviceSeries, MetricQuestion, MetricSeries, MetricSignal, Sample, Usage, UsageWindow, evaluate,
    evidence, further_questions, idle_below_percent, power_device, reads_power,
};
use crate::config::{IdleConfig, SeriesNames, UtilizationUnit};
use crate::instance::Instance;

/// One instance to ask about.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageQuery<'a> {
    pub instance: &'a Instance,
    /// Window that the query covers.
    pub window: UsageWindow,
    /// The series that showed work, or held memory, the last time.
    pub likely: Option<DecisiveSeries>,
    /// Depth of the query.
    pub depth: QueryDepth,
    /// `true` if EC2's own metrics of its last days are asked for as well, should its devices not report.
    pub looks_back: bool,
}

/// Depth of the queries about an instance that shows no work in the first round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryDepth {
    /// Everything there is to know.
    Full,
    /// Everything, if each of its devices is listed by now, with its utilisation or its power. Otherwise nothing: its usage would stay unknown.
    IfInstrumented,
    /// Everything, unless the GPU memory that was held the last time still is. Once that is freed, the instance can be stopped as idle.
    UnlessHeld,
    /// No further query: the instance was found idle before, and finding it so again would change nothing.
    WorkOnly,
}

/// Result of the queries about one instance.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryResult {
    /// The usage, and the series that showed work, or held memory, unless it was the CPU.
    Answered(Usage, Option<DecisiveSeries>),
    /// No work was seen, and no more was asked: what was found before stands.
    NoWork,
}

/// Conclusion of the first round about an instance.
#[derive(Debug, Clone, PartialEq)]
pub enum FirstRound<'a> {
    /// The result: no further round is needed.
    Found(QueryResult),
    /// The instance needs a second round.
    Open(OpenQuery<'a>),
}

/// An instance to ask further about.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenQuery<'a> {
    /// The instance and the window.
    pub ask: &'a UsageQuery<'a>,
    answers: BTreeMap<MetricSignal, Vec<Sample>>,
}

impl<'a> UsageQuery<'a> {
    /// Queries all metrics of an instance without earlier answers.
    #[must_use]
    pub const fn in_full(instance: &'a Instance, window: UsageWindow) -> Self {
        Self { instance, window, likely: None, depth: QueryDepth::Full, looks_back: true }
    }

    /// The conclusion of the first round; `None` if it is open. `complete`: whether each query of that round was answered in full.
    #[must_use]
    pub fn after_first(
        &'a self,
        mut answers: BTreeMap<MetricSignal, Vec<Sample>>,
        complete: bool,
        names: Option<&SeriesNames>,
        idle: &IdleConfig,
    ) -> Option<FirstRound<'a>> {
        to_percent(&mut answers, names);
        let devices = DeviceSeries::from(self.likely.iter().map(|likely| likely.series.clone()).collect::<Vec<_>>());
        let usage = evaluate(self.instance, &answers, &DeviceSeries::default(), None, self.window, idle);
        if matches!(usage, Usage::Busy(_)) {
            let shown_by = evidence(self.instance, &answers, &devices, self.window, idle);
            return Some(FirstRound::Found(QueryResult::Answered(usage, shown_by)));
        }
        if !complete {
            return None;
        }
        Some(if self.is_enough(&answers, idle) {
            FirstRound::Found(QueryResult::NoWork)
        } else {
            FirstRound::Open(OpenQuery { ask: self, answers })
        })
    }

    /// `true` if a first round that shows no work is all that is wanted.
    fn is_enough(&self, answers: &BTreeMap<MetricSignal, Vec<Sample>>, idle: &IdleConfig) -> bool {
        match self.depth {
            QueryDepth::Full | QueryDepth::IfInstrumented => false,
            QueryDepth::UnlessHeld => memory_held(self.instance, answers, self.window)
                .is_some_and(|(_, held_mib)| held_mib > idle.gpu_memory_held_mib),
            QueryDepth::WorkOnly => true,
        }
    }
}

impl OpenQuery<'_> {
    /// Returns the questions that are left; `None` if an answer would be worth nothing.
    #[must_use]
    pub fn questions(
        &self,
        devices: &DeviceSeries,
        names: Option<&SeriesNames>,
        idle: &IdleConfig,
    ) -> Option<Vec<MetricQuestion>> {
        if self.ask.depth == QueryDepth::IfInstrumented && !self.lists_all(devices, names, idle) {
            return None;
        }
        let known = self.answers_by_place(devices, names);
        let mut questions = further_questions(self.ask, devices, names);
        questions.retain(|question| !known.contains_key(&question.signal));
        Some(questions)
    }

    /// True if each of its devices is listed with its utilisation, or with a power that can show it to be idle.
    fn lists_all(&self, devices: &DeviceSeries, names: Option<&SeriesNames>, idle: &IdleConfig) -> bool {
        let instance = self.ask.instance;
        let has = |listed: usize, expected: u32| u32::try_from(listed).is_ok_and(|listed| listed >= expected);
        let by_power = reads_power(instance.machine.accelerator, idle) && idle_below_percent(instance, idle).is_some();
        let with_power = || devices.power.iter().map(power_device).collect::<BTreeSet<_>>().len();
        names.is_some_and(|names| has(devices.utilization.len(), names.series_of(&instance.machine)))
            || by_power && has(with_power(), instance.machine.accelerators.max(1))
    }

    /// Concludes from all answers together; `None` if they are not `complete` and show no work.
    #[must_use]
    pub fn conclude(
        &self,
        mut further: BTreeMap<MetricSignal, Vec<Sample>>,
        complete: bool,
        devices: &DeviceSeries,
        names: Option<&SeriesNames>,
        idle: &IdleConfig,
    ) -> Option<QueryResult> {
        let UsageQuery { instance, window, .. } = *self.ask;
        let mut answers = self.answers_by_place(devices, names);
        to_percent(&mut further, names);
        answers.extend(further);
        let usage = evaluate(instance, &answers, devices, names, window, idle);
        let shown_by = match &usage {
            Usage::Busy(_) => evidence(instance, &answers, devices, window, idle),
            Usage::Idle(quiet) if quiet.reserved => {
                names.and_then(|names| held_by(instance, &answers, devices, window, names))
            }
            Usage::Idle(_) | Usage::Unknown(_) => None,
        };
        (matches!(usage, Usage::Busy(_)) || complete).then_some(QueryResult::Answered(usage, shown_by))
    }

    /// The answers of the first round, with the GPU that was asked there where it stands among all.
    fn answers_by_place(
        &self,
        devices: &DeviceSeries,
        names: Option<&SeriesNames>,
    ) -> BTreeMap<MetricSignal, Vec<Sample>> {
        let mut answers = self.answers.clone();
        if let Some(likely) = &self.ask.likely
            && let Some(samples) = answers.remove(&likely.signal)
        {
            // Only by the very metric that is configured now.
            let is_it = |device: &MetricSeries| match likely.signal {
                MetricSignal::GpuMemory(_) => names.is_some_and(|names| memory_of(device, names) == likely.series),
                _ => *device == likely.series,
            };
            let place = devices.utilization.iter().position(is_it);
            let place = place.and_then(|place| u32::try_from(place).ok());
            let signal = match likely.signal {
                MetricSignal::Gpu(_) => place.map(MetricSignal::Gpu),
                MetricSignal::GpuMemory(_) => place.map(MetricSignal::GpuMemory),
                signal => Some(signal),
            };
            answers.extend(signal.map(|signal| (signal, samples)));
        }
        answers
    }
}

/// Converts utilisation to percent, where its declared unit is a ratio.
fn to_percent(answers: &mut BTreeMap<MetricSignal, Vec<Sample>>, names: Option<&SeriesNames>) {
    if names.is_none_or(|names| names.utilization_unit != UtilizationUnit::Ratio) {
        return;
    }
    let of_devices = answers.iter_mut().filter(|(signal, _)| matches!(signal, MetricSignal::Gpu(_)));
    for (_, value) in of_devices.flat_map(|(_, samples)| samples) {
        *value *= 100.0;
    }
}

#[cfg(test)]
mod tests;
