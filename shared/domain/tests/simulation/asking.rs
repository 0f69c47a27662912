//! Asking what instances do, in the order of the product: whom to ask, first what settles most of them, then the rest of
//! those who are still open; and what is learnt from the answers.

use std::collections::{BTreeMap, BTreeSet};

use domain::config::SeriesNames;
use domain::id::{Region, ResourceId};
use domain::instance::Instance;
use domain::notices::Memory;
use domain::observed::Gap;
use domain::policy::Policy;
use domain::policy::instances::{asks, learn};
use domain::usage::{
    Activity, Answers, Ask, First, Found, Open, Owners, Question, Series, Usage, devices, first_questions,
};

use crate::chance::{HOUR, TICK, stamp};
use crate::fault::Fault;
use crate::faults::Faults;
use crate::reaper::gap;
use crate::world::Machine;

/// What is known about one region.
pub(crate) struct Asked {
    pub(crate) usages: BTreeMap<ResourceId, Usage>,
    pub(crate) gaps: Vec<Gap>,
    /// What to remember, where it changed and could be read.
    pub(crate) after: Option<Activity>,
}

/// `CloudWatch`, as the account's machines fill it.
pub(crate) struct CloudWatch<'a> {
    pub(crate) machines: &'a [Machine],
    pub(crate) faults: &'a mut Faults,
    pub(crate) now: i64,
}

pub(crate) fn usages(
    region: &Region,
    seen: &[Instance],
    known: Option<&Activity>,
    memory: &Memory,
    policy: &Policy,
    mut cloudwatch: CloudWatch<'_>,
) -> Asked {
    let now = stamp(cloudwatch.now);
    let of_region: Vec<&Instance> = seen.iter().filter(|instance| instance.region == *region).collect();
    if of_region.is_empty() {
        return Asked { usages: BTreeMap::new(), gaps: Vec::new(), after: None };
    }
    let nothing_known = Activity::default();
    let activity = known.unwrap_or(&nothing_known);
    let mut gaps = Vec::new();
    if known.is_none() {
        gaps.push(gap(region, "s3:GetObject"));
    }
    let due = asks(&of_region, activity, memory, policy, now);
    let found = cloudwatch.find(region, &due, policy, &mut gaps);
    let learnt = learn(&of_region, &due, found, activity, policy, now);
    let after = known.filter(|before| **before != learnt.activity).map(|_| learnt.activity);
    Asked { usages: learnt.usages, gaps, after }
}

impl CloudWatch<'_> {
    fn find(
        &mut self,
        region: &Region,
        due: &[Ask<'_>],
        policy: &Policy,
        gaps: &mut Vec<Gap>,
    ) -> BTreeMap<ResourceId, Found> {
        let mut found = BTreeMap::new();
        if due.is_empty() {
            return found;
        }
        let idle = &policy.config.idle;
        let (mut first, missed) = self.answer(region, due.iter().flat_map(first_questions).collect(), gaps);
        let mut open: Vec<Open<'_>> = Vec::new();
        for ask in due {
            let id = &ask.instance.id;
            let Some(answers) = first.remove(id) else { continue };
            match ask.after_first(answers, !missed.contains(id), idle) {
                Some(First::Found(one)) => drop(found.insert(id.clone(), one)),
                Some(First::Open(one)) => open.push(one),
                None => {}
            }
        }
        let names_of = |instance: &Instance| policy.config.metrics.of(instance.machine.accelerator);
        let mut known = self.all_devices(region, &mut open, names_of, gaps);
        let mut further: Vec<(Open<'_>, Vec<Series>)> = Vec::new();
        let mut questions = Vec::new();
        for one in open {
            let id = &one.ask.instance.id;
            let of_instance = known.remove(id).unwrap_or_default();
            match one.questions(&of_instance, names_of(one.ask.instance)) {
                Some(more) => {
                    questions.extend(more);
                    further.push((one, of_instance));
                }
                None => drop(found.insert(id.clone(), Found::NoWork)),
            }
        }
        let (mut second, missed) = self.answer(region, questions, gaps);
        for (one, of_instance) in further {
            let instance = one.ask.instance;
            let answers = second.remove(&instance.id).unwrap_or_default();
            let complete = !missed.contains(&instance.id);
            let concluded = one.conclude(answers, complete, &of_instance, names_of(instance), idle);
            found.extend(concluded.map(|one| (instance.id.clone(), one)));
        }
        found
    }

    /// The utilisation series of each instance; whoever's could not be listed is no longer open.
    fn all_devices<'n>(
        &mut self,
        region: &Region,
        open: &mut Vec<Open<'_>>,
        names_of: impl Fn(&Instance) -> Option<&'n SeriesNames>,
        gaps: &mut Vec<Gap>,
    ) -> BTreeMap<ResourceId, Vec<Series>> {
        let with_names: Vec<&Ask<'_>> =
            open.iter().map(|one| one.ask).filter(|ask| names_of(ask.instance).is_some()).collect();
        let Some(names) = with_names.first().and_then(|ask| names_of(ask.instance)) else {
            return BTreeMap::new();
        };
        if self.faults.strikes(Fault::SeriesUnlisted, self.now) {
            gaps.push(gap(region, "cloudwatch:ListMetrics"));
            open.retain(|one| names_of(one.ask.instance).is_none());
            return BTreeMap::new();
        }
        let of_late = with_names.iter().all(|ask| self.now - ask.window.from.as_second() <= 2 * HOUR);
        let since = if of_late { self.now - 3 * HOUR } else { i64::MIN };
        let of_region = self.machines.iter().filter(|machine| machine.ec2.region == *region);
        let mut listed: Vec<Series> =
            of_region.flat_map(|machine| machine.listed_series(since, self.now)).cloned().collect();
        listed.sort();
        devices(listed, &Owners::among(with_names.iter().map(|ask| ask.instance), names))
    }

    fn answer(
        &mut self,
        region: &Region,
        questions: Vec<Question>,
        gaps: &mut Vec<Gap>,
    ) -> (Answers, BTreeSet<ResourceId>) {
        let mut answers = Answers::new();
        let mut missed = BTreeSet::new();
        if questions.is_empty() {
            return (answers, missed);
        }
        let failed = self.faults.strikes(Fault::MetricsFailed, self.now);
        let until = (self.now + TICK - 1).div_euclid(TICK) * TICK;
        for question in questions {
            if failed || self.faults.strikes(Fault::MetricsPartly, self.now) {
                missed.insert(question.instance);
                continue;
            }
            let machine = self.machines.iter().find(|machine| machine.ec2.id == question.instance);
            let mut samples = machine.map_or_else(Vec::new, |machine| {
                machine.samples(question.signal, &question.series, question.from.as_second(), self.now)
            });
            samples.retain(|(at, _)| *at < stamp(until));
            answers.entry(question.instance).or_default().insert(question.signal, samples);
        }
        if !missed.is_empty() {
            gaps.push(gap(region, "cloudwatch:GetMetricData"));
        }
        (answers, missed)
    }
}
