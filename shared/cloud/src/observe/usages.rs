//! What instances have been doing, in two rounds: CPU first, and everything else of those whose CPU showed no work.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::config::{Idle, Metrics, SeriesNames};
use domain::id::{Region, ResourceId};
use domain::instance::{Accelerator, Instance};
use domain::observed::Gap;
use domain::policy::instances::Ask;
use domain::usage::{Series, Usage, devices, evaluate, first_questions, further_questions};
use jiff::{SignedDuration, Timestamp};

use super::batch::end_of_period;
use super::metric_data::{ask, series};
use crate::aws::Aws;
use crate::error::CallError;

/// So many samples are held at once. Each takes 24 bytes, and the smallest Lambda has 128 MB.
const SAMPLES_AT_ONCE_MAX: usize = 500_000;

/// Whoever looks back no further asks for series that reported of late; a longer window may have begun with one that ended.
const OF_LATE: SignedDuration = SignedDuration::from_hours(2);

/// How accelerators report, and what counts as idle.
#[derive(Clone, Copy)]
pub struct Lines<'a> {
    /// By which metrics.
    pub metrics: &'a Metrics,
    /// Below which lines.
    pub idle: &'a Idle,
}

/// What the instances of this region have been doing, of all that are asked about. Whoever could not be asked about in
/// full, or within `patience`, is not among them, unless what was answered shows work; and there is a gap.
pub async fn usages(
    aws: &Aws,
    region: &Region,
    asks: &[Ask<'_>],
    lines: Lines<'_>,
    now: Timestamp,
    patience: Duration,
) -> (BTreeMap<ResourceId, Usage>, Vec<Gap>) {
    let mut found = Found::default();
    let all = async {
        for some in chunks(asks.iter().filter(|ask| ask.instance.region == *region).collect(), lines.metrics) {
            found.ask(aws, region, &some, lines, now).await;
        }
    };
    let in_time = tokio::time::timeout(patience, all).await;
    if in_time.is_err() {
        found.errors.push(CallError::impatient("cloudwatch:GetMetricData", region, patience));
    }
    (found.usages, gaps(found.errors.into_iter()))
}

/// Whom to ask about together, so that their samples fit.
fn chunks<'a, 'i>(asks: Vec<&'a Ask<'i>>, metrics: &Metrics) -> Vec<Vec<&'a Ask<'i>>> {
    let mut chunks: Vec<Vec<&Ask<'_>>> = Vec::new();
    let mut room = 0;
    for ask in asks {
        let machine = &ask.instance.machine;
        let devices = names_of(metrics, machine.accelerator).map_or(0, |names| names.series_of(machine));
        let series = 5 + 2 * usize::try_from(devices).unwrap_or(usize::MAX / 4);
        let samples = ask.window.periods().saturating_mul(series);
        match chunks.last_mut() {
            Some(chunk) if samples <= room => {
                chunk.push(ask);
                room -= samples;
            }
            _ => {
                chunks.push(vec![ask]);
                room = SAMPLES_AT_ONCE_MAX.saturating_sub(samples);
            }
        }
    }
    chunks
}

#[derive(Default)]
struct Found {
    usages: BTreeMap<ResourceId, Usage>,
    errors: Vec<CallError>,
}

impl Found {
    async fn ask(
        &mut self,
        aws: &Aws,
        region: &Region,
        asks: &[&Ask<'_>],
        Lines { metrics, idle }: Lines<'_>,
        now: Timestamp,
    ) {
        let client = aws.cloudwatch(region);
        let until = end_of_period(now);
        let first = asks.iter().flat_map(|ask| first_questions(ask.instance, ask.window.from)).collect();
        let mut answered = ask(&client, region, first, until).await;
        self.errors.append(&mut answered.errors);
        let mut open = Vec::new();
        for one in asks {
            let Some(answers) = answered.answers.get(&one.instance.id) else { continue };
            match evaluate(one.instance, answers, &[], None, one.window, idle) {
                Usage::Busy(busy) => drop(self.usages.insert(one.instance.id.clone(), Usage::Busy(busy))),
                Usage::Idle(_) | Usage::Unknown(_) => open.push(one),
            }
        }
        let known = all_devices(&client, region, metrics, &open, until).await;
        self.errors.extend(known.errors);
        open.retain(|one| !known.failed.contains(&one.instance.machine.accelerator));
        let of = |instance: &Instance| known.by_instance.get(&instance.id).map_or(&[][..], Vec::as_slice);
        let further = open.iter().flat_map(|one| {
            let names = names_of(metrics, one.instance.machine.accelerator);
            further_questions(one.instance, of(one.instance), names, one.window.from)
        });
        let second = ask(&client, region, further.collect(), until).await;
        self.errors.extend(second.errors);
        for (id, answers) in second.answers {
            answered.answers.entry(id).or_default().extend(answers);
        }
        for one in open {
            let names = names_of(metrics, one.instance.machine.accelerator);
            let Some(answers) = answered.answers.get(&one.instance.id) else { continue };
            let usage = evaluate(one.instance, answers, of(one.instance), names, one.window, idle);
            if matches!(usage, Usage::Busy(_)) || !second.missed.contains(&one.instance.id) {
                self.usages.insert(one.instance.id.clone(), usage);
            }
        }
    }
}

/// The utilisation series of each instance.
struct Devices {
    by_instance: BTreeMap<ResourceId, Vec<Series>>,
    /// Of these nobody could list any.
    failed: Vec<Accelerator>,
    errors: Vec<CallError>,
}

async fn all_devices(
    client: &aws_sdk_cloudwatch::Client,
    region: &Region,
    metrics: &Metrics,
    asks: &[&&Ask<'_>],
    until: Timestamp,
) -> Devices {
    let mut all = Devices { by_instance: BTreeMap::new(), failed: Vec::new(), errors: Vec::new() };
    let mut by_kind: BTreeMap<Accelerator, Vec<&Ask<'_>>> = BTreeMap::new();
    for ask in asks {
        by_kind.entry(ask.instance.machine.accelerator).or_default().push(ask);
    }
    for (accelerator, asks) in by_kind {
        let Some(names) = names_of(metrics, accelerator) else { continue };
        let of_late = asks.iter().all(|ask| until.duration_since(ask.window.from) <= OF_LATE);
        let instances: Vec<&Instance> = asks.iter().map(|ask| ask.instance).collect();
        match series(client, region, names, of_late).await {
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
