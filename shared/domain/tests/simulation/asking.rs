//! Asking what instances do, in the order of the product: whom to ask, CPU first, then the rest of those whose CPU showed
//! no work; and what is remembered of the answers.

use std::collections::{BTreeMap, BTreeSet};

use domain::config::SeriesNames;
use domain::id::{Region, ResourceId};
use domain::instance::{Accelerator, Instance};
use domain::observed::{Gap, GapKind};
use domain::policy::Policy;
use domain::policy::instances::{Ask, Memory, answered, asked, asks, usage_of_unasked};
use domain::usage::{
    Activity, Answers, Question, Series, Unknown, Usage, devices, evaluate, first_questions, further_questions,
};

use crate::chance::{HOUR, TICK, stamp};
use crate::faults::{Fault, Faults};
use crate::world::Machine;

/// What is known about one region.
pub(crate) struct Asked {
    pub(crate) usages: Vec<(ResourceId, Usage)>,
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
        return Asked { usages: Vec::new(), gaps: Vec::new(), after: None };
    }
    let nothing_known = Activity::default();
    let activity = known.unwrap_or(&nothing_known);
    let mut gaps = Vec::new();
    if known.is_none() {
        gaps.push(gap(region, "s3:GetObject"));
    }
    let due: Vec<Ask<'_>> = asks(&of_region, activity, memory, policy, now);
    let found = cloudwatch.usages(region, &due, policy, &mut gaps);
    let usages: BTreeMap<ResourceId, Usage> = due
        .iter()
        .filter_map(|ask| Some((ask.instance, found.get(&ask.instance.id)?.clone())))
        .map(|(instance, usage)| (instance.id.clone(), answered(instance, usage, activity)))
        .collect();
    let after = known.and_then(|before| remembered(before, &of_region, &due, &usages, cloudwatch.now));
    let asked_about: BTreeSet<&ResourceId> = due.iter().map(|ask| &ask.instance.id).collect();
    let believed = of_region
        .iter()
        .filter(|instance| !asked_about.contains(&instance.id))
        .map(|instance| (instance.id.clone(), usage_of_unasked(instance, activity, policy, now)));
    Asked { usages: believed.chain(usages).collect(), gaps, after }
}

fn remembered(
    before: &Activity,
    of_region: &[&Instance],
    due: &[Ask<'_>],
    usages: &BTreeMap<ResourceId, Usage>,
    now: i64,
) -> Option<Activity> {
    let gone = |id: &ResourceId| !of_region.iter().any(|instance| instance.id == *id);
    if due.is_empty() && !before.instances.keys().any(gone) {
        return None;
    }
    let mut after = before.clone();
    after.instances.retain(|id, _| !gone(id));
    for ask in due {
        let usage = usages.get(&ask.instance.id).filter(|usage| **usage != Usage::Unknown(Unknown::NotAsked));
        if let Some(usage) = usage {
            after.instances.insert(ask.instance.id.clone(), asked(ask, usage, stamp(now)));
        }
    }
    (*before != after).then_some(after)
}

impl CloudWatch<'_> {
    fn usages(
        &mut self,
        region: &Region,
        due: &[Ask<'_>],
        policy: &Policy,
        gaps: &mut Vec<Gap>,
    ) -> BTreeMap<ResourceId, Usage> {
        let mut usages = BTreeMap::new();
        if due.is_empty() {
            return usages;
        }
        let idle = &policy.config.idle;
        let first = due.iter().flat_map(|ask| first_questions(ask.instance, ask.window.from)).collect();
        let (mut answers, _) = self.answer(region, first, gaps);
        let mut open: Vec<&Ask<'_>> = Vec::new();
        for ask in due {
            let Some(of_ask) = answers.get(&ask.instance.id) else { continue };
            match evaluate(ask.instance, of_ask, &[], None, ask.window, idle) {
                busy @ Usage::Busy(_) => drop(usages.insert(ask.instance.id.clone(), busy)),
                Usage::Idle(_) | Usage::Unknown(_) => open.push(ask),
            }
        }
        let names_of = |instance: &Instance| match instance.machine.accelerator {
            Accelerator::Nvidia => policy.config.metrics.nvidia.as_ref(),
            Accelerator::Amd | Accelerator::Neuron | Accelerator::Other => None,
        };
        let known = self.all_devices(region, &mut open, names_of, gaps);
        let of = |instance: &Instance| known.get(&instance.id).map_or(&[][..], Vec::as_slice);
        let further = open
            .iter()
            .flat_map(|ask| further_questions(ask.instance, of(ask.instance), names_of(ask.instance), ask.window.from));
        let (second, missed) = self.answer(region, further.collect(), gaps);
        for (id, of_instance) in second {
            answers.entry(id).or_default().extend(of_instance);
        }
        for ask in open {
            let Some(of_ask) = answers.get(&ask.instance.id) else { continue };
            let names = names_of(ask.instance);
            let usage = evaluate(ask.instance, of_ask, of(ask.instance), names, ask.window, idle);
            if matches!(usage, Usage::Busy(_)) || !missed.contains(&ask.instance.id) {
                usages.insert(ask.instance.id.clone(), usage);
            }
        }
        usages
    }

    /// The utilisation series of each instance; whoever's could not be listed is no longer open.
    fn all_devices<'n>(
        &mut self,
        region: &Region,
        open: &mut Vec<&Ask<'_>>,
        names_of: impl Fn(&Instance) -> Option<&'n SeriesNames>,
        gaps: &mut Vec<Gap>,
    ) -> BTreeMap<ResourceId, Vec<Series>> {
        let with_names: Vec<&Ask<'_>> = open.iter().copied().filter(|ask| names_of(ask.instance).is_some()).collect();
        let Some(names) = with_names.first().and_then(|ask| names_of(ask.instance)) else {
            return BTreeMap::new();
        };
        if self.faults.strikes(Fault::SeriesUnlisted, self.now) {
            gaps.push(gap(region, "cloudwatch:ListMetrics"));
            open.retain(|ask| names_of(ask.instance).is_none());
            return BTreeMap::new();
        }
        let of_late = with_names.iter().all(|ask| self.now - ask.window.from.as_second() <= 2 * HOUR);
        let since = if of_late { self.now - 3 * HOUR } else { i64::MIN };
        let of_region = self.machines.iter().filter(|machine| machine.ec2.region == *region);
        let mut listed: Vec<Series> =
            of_region.flat_map(|machine| machine.listed_series(since, self.now)).cloned().collect();
        listed.sort();
        let instances: Vec<&Instance> = with_names.iter().map(|ask| ask.instance).collect();
        devices(&listed, names, &instances)
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

pub(crate) fn gap(region: &Region, call: &str) -> Gap {
    let error = format!("{call} failed: the simulation refuses it");
    Gap { region: region.clone(), call: call.to_owned(), error, kind: GapKind::Part }
}
