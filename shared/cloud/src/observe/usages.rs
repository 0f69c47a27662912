//! What instances have been doing, in two rounds: CPU first, and everything else of those whose CPU showed no work.

use std::collections::BTreeMap;

use domain::config::{Idle, Metrics, SeriesNames};
use domain::id::{Region, ResourceId};
use domain::instance::{Accelerator, Instance};
use domain::observed::Gap;
use domain::policy::instances::Ask;
use domain::usage::{Series, Usage, devices, evaluate, first_questions, further_questions};
use jiff::Timestamp;

use super::batch::end_of_period;
use super::metric_data::{ask, series};
use crate::aws::Aws;
use crate::error::CallError;

/// What the instances of this region have been doing, of all that are asked about. Whoever could not be asked about in
/// full is not among them, unless what was answered shows work; and there is a gap.
pub async fn usages(
    aws: &Aws,
    region: &Region,
    asks: &[Ask<'_>],
    metrics: &Metrics,
    idle: &Idle,
    now: Timestamp,
) -> (BTreeMap<ResourceId, Usage>, Vec<Gap>) {
    let client = aws.cloudwatch(region);
    let until = end_of_period(now);
    let asks: Vec<&Ask<'_>> = asks.iter().filter(|ask| ask.instance.region == *region).collect();
    let mut usages = BTreeMap::new();

    let first = asks.iter().flat_map(|ask| first_questions(ask.instance, ask.window.from)).collect();
    let mut answered = ask(&client, region, first, until).await;
    let mut open = Vec::new();
    for one in asks {
        match answered.answers.get(&one.instance.id) {
            None => {}
            Some(answers) => match evaluate(one.instance, answers, &[], None, one.window, idle) {
                Usage::Busy(busy) => drop(usages.insert(one.instance.id.clone(), Usage::Busy(busy))),
                Usage::Idle(_) | Usage::Unknown(_) => open.push(one),
            },
        }
    }

    let instances: Vec<&Instance> = open.iter().map(|one| one.instance).collect();
    let known = all_devices(&client, region, metrics, &instances).await;
    open.retain(|one| !known.failed.contains(&one.instance.machine.accelerator));
    let further = open.iter().flat_map(|one| {
        let names = names_of(metrics, one.instance.machine.accelerator);
        further_questions(one.instance, known.of(one.instance), names, one.window.from)
    });
    let second = ask(&client, region, further.collect(), until).await;
    for (id, answers) in second.answers {
        answered.answers.entry(id).or_default().extend(answers);
    }
    for one in open {
        let names = names_of(metrics, one.instance.machine.accelerator);
        let Some(answers) = answered.answers.get(&one.instance.id) else { continue };
        let usage = evaluate(one.instance, answers, known.of(one.instance), names, one.window, idle);
        if matches!(usage, Usage::Busy(_)) || !second.missed.contains(&one.instance.id) {
            usages.insert(one.instance.id.clone(), usage);
        }
    }
    let errors = answered.errors.into_iter().chain(known.errors).chain(second.errors);
    (usages, gaps(errors))
}

/// The utilisation series of each instance.
struct Devices {
    by_instance: BTreeMap<ResourceId, Vec<Series>>,
    /// Of these nobody could list any.
    failed: Vec<Accelerator>,
    errors: Vec<CallError>,
}

impl Devices {
    fn of(&self, instance: &Instance) -> &[Series] {
        self.by_instance.get(&instance.id).map_or(&[], Vec::as_slice)
    }
}

async fn all_devices(
    client: &aws_sdk_cloudwatch::Client,
    region: &Region,
    metrics: &Metrics,
    instances: &[&Instance],
) -> Devices {
    let mut all = Devices { by_instance: BTreeMap::new(), failed: Vec::new(), errors: Vec::new() };
    let mut by_kind: BTreeMap<Accelerator, Vec<&Instance>> = BTreeMap::new();
    for instance in instances {
        by_kind.entry(instance.machine.accelerator).or_default().push(instance);
    }
    for (accelerator, instances) in by_kind {
        let Some(names) = names_of(metrics, accelerator) else { continue };
        match series(client, region, names).await {
            Ok(listed) => all.by_instance.extend(devices(&listed, names, &instances)),
            Err(error) => {
                all.failed.push(accelerator);
                all.errors.push(error);
            }
        }
    }
    all
}

fn names_of(metrics: &Metrics, accelerator: Accelerator) -> Option<&SeriesNames> {
    match accelerator {
        Accelerator::Nvidia => metrics.nvidia.as_ref(),
        Accelerator::Amd => metrics.amd.as_ref(),
        Accelerator::Neuron => metrics.neuron.as_ref(),
        Accelerator::Other => None,
    }
}

/// One gap a call: the first error of it, and how many more there were.
fn gaps(errors: impl Iterator<Item = CallError>) -> Vec<Gap> {
    let mut by_call: BTreeMap<&str, (Gap, usize)> = BTreeMap::new();
    for error in errors {
        by_call.entry(error.call).and_modify(|(_, more)| *more += 1).or_insert_with(|| (error.gap(), 0));
    }
    let with_count = |(gap, more): (Gap, usize)| match more {
        0 => gap,
        _ => Gap { error: format!("{} (and {more} more like it)", gap.error), ..gap },
    };
    by_call.into_values().map(with_count).collect()
}

#[cfg(test)]
mod tests;
