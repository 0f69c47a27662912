//! The usage of instances, queried in two rounds: first the metrics that most likely show work, then all others for the instances that
//! showed none.

mod device_reports;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::config::{IdleConfig, MetricsConfig, SeriesNames};
use model::id::{Region, ResourceId};
use model::instance::{Accelerator, Instance};
use model::notification_log::NotificationLogs;
use model::observation::{Gap, Observed};
use model::usage::{
    ActivityCache, DeviceReport, DeviceSeries, FirstRound, MetricSeries, OpenQuery, PERIOD, QueryResult, SeriesOwners,
    UnknownUsage, Usage, UsageQuery, basic_questions, basic_use, devices, first_questions, power_names, reads_power,
};
use ports::{CallError, InstanceCloud, gaps};
use reaping::instances::{LearnedUsage, full_usage_query};
use reaping::policy::Policy;

pub use device_reports::{device_reports, listed_devices};

use crate::bugs::{due_queries, learn_usage, or_gap};
use device_reports::{OpenReport, explain_reports, unowned_of};

/// The most samples of a round in memory. Each takes 24 bytes, and the smallest Lambda has 128 MB.
const SAMPLES_AT_ONCE_MAX: usize = 500_000;

/// A window up to this length needs only series that reported recently; a longer one may have begun with a series that has ended.
const RECENT: SignedDuration = SignedDuration::from_hours(2);

/// The metrics that accelerators report, and the thresholds of idleness.
#[derive(Clone, Copy)]
pub struct IdleThresholds<'a> {
    pub metrics: &'a MetricsConfig,
    /// The thresholds.
    pub idle: &'a IdleConfig,
}

/// Queries the usage of these instances in one region. An instance that could not be queried in full, or within `timeout`, is left out with
/// a gap, unless an answer shows work.
pub async fn usages(
    cloud: &impl InstanceCloud,
    region: &Region,
    asks: &[UsageQuery<'_>],
    thresholds: IdleThresholds<'_>,
    now: Timestamp,
    timeout: Duration,
) -> Observed<BTreeMap<ResourceId, QueryResult>> {
    let mut inquiry = RegionInquiry {
        cloud,
        region,
        thresholds,
        now,
        until: end_of_period(now),
        found: BTreeMap::new(),
        unowned: BTreeMap::new(),
        errors: Vec::new(),
        bugs: Vec::new(),
    };
    let asks: Vec<&UsageQuery<'_>> = asks.iter().filter(|ask| ask.instance.region == *region).collect();
    let all = async {
        inquiry.ask(&asks).await;
        inquiry.explain_reports(&asks).await;
        inquiry.look_back(&asks).await;
    };
    let in_time = tokio::time::timeout(timeout, all).await;
    if in_time.is_err() {
        inquiry.errors.push(CallError::timed_out("cloudwatch:GetMetricData", region, timeout));
    }
    Observed { items: inquiry.found, gaps: [gaps(inquiry.errors), inquiry.bugs].concat() }
}

/// The input of an inquiry about usage in which runs, `curfew scan` and `curfew explain` differ.
#[derive(Clone, Copy)]
pub struct UsageInquiry<'a> {
    /// The findings of earlier runs.
    pub activity: &'a ActivityCache,
    /// The notifications of earlier runs, by which queries are due; `None` to query every instance in full.
    pub memory: Option<&'a NotificationLogs>,
    pub policy: &'a Policy,
    pub now: Timestamp,
    pub timeout: Duration,
}

impl UsageInquiry<'_> {
    /// Learns the usage of these instances of one region: queried if a query is due, otherwise taken from what is known.
    pub async fn learn(
        self,
        cloud: &impl InstanceCloud,
        region: &Region,
        instances: &[&Instance],
    ) -> Observed<LearnedUsage> {
        let Self { activity, policy, now, .. } = self;
        let mut gaps = Vec::new();
        let due = match self.memory {
            Some(memory) => due_queries(instances, activity, memory, policy, now).with_gaps_in(&mut gaps),
            None => instances.iter().filter_map(|instance| full_usage_query(instance, &policy.config, now)).collect(),
        };
        let thresholds = IdleThresholds { metrics: &policy.config.metrics, idle: &policy.config.idle };
        let found = usages(cloud, region, &due, thresholds, now, self.timeout).await.with_gaps_in(&mut gaps);
        let items = learn_usage(instances, &due, found, activity, policy, now).with_gaps_in(&mut gaps);
        Observed { items, gaps }
    }
}

/// Parts whose samples fit into the limit, each of one instance at least.
fn parts<T>(all: Vec<T>, samples_of: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut parts: Vec<Vec<T>> = Vec::new();
    let mut room = 0;
    for one in all {
        let samples = samples_of(&one);
        match parts.last_mut() {
            Some(part) if samples <= room => {
                part.push(one);
                room -= samples;
            }
            _ => {
                parts.push(vec![one]);
                room = SAMPLES_AT_ONCE_MAX.saturating_sub(samples);
            }
        }
    }
    parts
}

/// The rounds of queries about one region.
struct RegionInquiry<'a, C> {
    cloud: &'a C,
    region: &'a Region,
    thresholds: IdleThresholds<'a>,
    now: Timestamp,
    until: Timestamp,
    found: BTreeMap<ResourceId, QueryResult>,
    /// Listed series that name no instance.
    unowned: BTreeMap<Accelerator, Vec<MetricSeries>>,
    errors: Vec<CallError>,
    bugs: Vec<Gap>,
}

/// An instance of the second round, with the series of its devices, and the number of samples to expect.
struct FurtherQuery<'a> {
    open: OpenQuery<'a>,
    devices: DeviceSeries,
    samples: usize,
}

/// The number of samples for so many queries about one instance.
fn samples(ask: &UsageQuery<'_>, questions: usize) -> usize {
    ask.window.periods().saturating_mul(questions)
}

impl<C: InstanceCloud> RegionInquiry<'_, C> {
    async fn ask(&mut self, asks: &[&UsageQuery<'_>]) {
        let samples_of = |ask: &UsageQuery<'_>| samples(ask, 1 + usize::from(ask.likely.is_some()));
        let (mut open, mut samples_kept) = (Vec::new(), 0_usize);
        for part in parts(asks.to_vec(), |ask| samples_of(ask)) {
            let room = SAMPLES_AT_ONCE_MAX.saturating_sub(part.iter().map(|ask| samples_of(ask)).sum());
            // All are listed together, unless the answers of the first round take too much room.
            if samples_kept > room {
                self.start_second_round(std::mem::take(&mut open)).await;
                samples_kept = 0;
            }
            let more = self.first_round(&part).await;
            samples_kept += more.iter().map(|one| samples_of(one.ask)).sum::<usize>();
            open.extend(more);
        }
        self.start_second_round(open).await;
    }

    async fn start_second_round(&mut self, open: Vec<OpenQuery<'_>>) {
        let further = self.list(open).await;
        for part in parts(further, |further| further.samples) {
            self.second_round(&part).await;
        }
    }

    /// The instances that the first round leaves open.
    async fn first_round<'a>(&mut self, asks: &[&'a UsageQuery<'a>]) -> Vec<OpenQuery<'a>> {
        let questions = asks.iter().flat_map(|ask| first_questions(ask));
        let mut answered = self.cloud.metric_data(self.region, questions, self.until).await;
        self.errors.append(&mut answered.errors);
        let mut open = Vec::new();
        for ask in asks {
            let id = &ask.instance.id;
            let Some(answers) = answered.answers.remove(id) else { continue };
            let names = self.thresholds.metrics.series_names(ask.instance.machine.accelerator);
            let is_whole = !answered.missed.contains(id);
            let work = || ask.after_first(answers, is_whole, names, self.thresholds.idle);
            match or_gap((self.region, id), &mut self.bugs, work).flatten() {
                Some(FirstRound::Found(found)) => drop(self.found.insert(id.clone(), found)),
                Some(FirstRound::Open(one)) => open.push(one),
                None => {}
            }
        }
        open
    }

    /// The instances to query further, with the queries. Instances whose devices could not be listed are left out.
    async fn list<'a>(&mut self, open: Vec<OpenQuery<'a>>) -> Vec<FurtherQuery<'a>> {
        let mut by_kind: BTreeMap<Accelerator, Vec<OpenQuery<'a>>> = BTreeMap::new();
        for one in open {
            by_kind.entry(one.ask.instance.machine.accelerator).or_default().push(one);
        }
        let mut further = Vec::new();
        let idle = self.thresholds.idle;
        for (accelerator, open) in by_kind {
            let names = self.thresholds.metrics.series_names(accelerator);
            let mut by_instance = match names {
                Some(names) => match self.devices(accelerator, names, &open).await {
                    Ok(devices) => devices,
                    Err(error) => {
                        self.errors.push(error);
                        continue;
                    }
                },
                None => BTreeMap::new(),
            };
            for open in open {
                let devices = by_instance.remove(&open.ask.instance.id).unwrap_or_default();
                let id = &open.ask.instance.id;
                match or_gap((self.region, id), &mut self.bugs, || open.questions(&devices, names, idle)) {
                    Some(Some(questions)) => {
                        let samples = samples(open.ask, questions.len());
                        further.push(FurtherQuery { open, devices, samples });
                    }
                    Some(None) => drop(self.found.insert(id.clone(), QueryResult::NoWork)),
                    None => {}
                }
            }
        }
        further
    }

    async fn devices(
        &mut self,
        accelerator: Accelerator,
        names: &SeriesNames,
        open: &[OpenQuery<'_>],
    ) -> Result<BTreeMap<ResourceId, DeviceSeries>, CallError> {
        let is_recent = open.iter().all(|open| self.until.duration_since(open.ask.window.from) <= RECENT);
        let owners = SeriesOwners::among(open.iter().map(|open| open.ask.instance), names);
        let listed = self.cloud.series(self.region, names, is_recent, &owners).await?;
        self.unowned.insert(accelerator, unowned_of(&listed, &owners));
        let utilization = devices(listed, &owners).into_iter();
        let mut found: BTreeMap<ResourceId, DeviceSeries> =
            utilization.map(|(id, series)| (id, DeviceSeries::from(series))).collect();
        if reads_power(accelerator, self.thresholds.idle) {
            let owners = SeriesOwners::among(open.iter().map(|open| open.ask.instance), power_names());
            let listed = self.cloud.series(self.region, power_names(), is_recent, &owners).await?;
            for (id, series) in devices(listed, &owners) {
                found.entry(id).or_default().power = series;
            }
        }
        Ok(found)
    }

    async fn second_round(&mut self, part: &[FurtherQuery<'_>]) {
        let metrics = self.thresholds.metrics;
        let names_of = |open: &OpenQuery<'_>| metrics.series_names(open.ask.instance.machine.accelerator);
        // Built anew for each call: all at once they would take more room than all answers.
        let questions = part.iter().flat_map(|FurtherQuery { open, devices, .. }| {
            open.questions(devices, names_of(open), self.thresholds.idle).unwrap_or_default()
        });
        let mut answered = self.cloud.metric_data(self.region, questions, self.until).await;
        self.errors.append(&mut answered.errors);
        for FurtherQuery { open, devices, .. } in part {
            let UsageQuery { instance, .. } = open.ask;
            let complete = !answered.missed.contains(&instance.id);
            let answers = answered.answers.remove(&instance.id).unwrap_or_default();
            let work = || open.conclude(answers, complete, devices, names_of(open), self.thresholds.idle);
            let found = or_gap((self.region, &instance.id), &mut self.bugs, work).flatten();
            self.found.extend(found.map(|found| (instance.id.clone(), found)));
        }
    }
}

impl<C: InstanceCloud> RegionInquiry<'_, C> {
    /// Adds what was found instead to the findings about instances none of whose devices reports.
    async fn explain_reports(&mut self, asks: &[&UsageQuery<'_>]) {
        let instances: BTreeMap<&ResourceId, &Instance> =
            asks.iter().map(|ask| (&ask.instance.id, ask.instance)).collect();
        let open = self.found.iter_mut().filter_map(|(id, found)| {
            let report = report_of(found)?;
            let instance = instances.get(id)?;
            let names = self.thresholds.metrics.series_names(instance.machine.accelerator)?;
            Some(OpenReport { instance, names, report })
        });
        let errors = explain_reports(self.cloud, self.region, open, &self.unowned).await;
        self.errors.extend(errors);
    }
}

impl<C: InstanceCloud> RegionInquiry<'_, C> {
    /// Adds what EC2's own metrics say of the last days of instances whose devices do not report. Without an answer nothing is added.
    async fn look_back(&mut self, asks: &[&UsageQuery<'_>]) {
        let is_open = |ask: &&&UsageQuery<'_>| {
            let found = self.found.get(&ask.instance.id);
            ask.looks_back
                && matches!(found, Some(QueryResult::Answered(Usage::Unknown(UnknownUsage::Uninstrumented(_)), _)))
        };
        let open: Vec<&Instance> = asks.iter().filter(is_open).map(|ask| ask.instance).collect();
        // 336 samples each of five metrics.
        for part in open.chunks(SAMPLES_AT_ONCE_MAX / 5 / 336) {
            let questions = part.iter().flat_map(|instance| basic_questions(instance, self.now));
            let mut answered = self.cloud.metric_data(self.region, questions, self.until).await;
            self.errors.append(&mut answered.errors);
            for instance in part {
                let Some(answers) = answered.answers.remove(&instance.id) else { continue };
                let work = || basic_use(instance, &answers, self.now, self.thresholds.idle);
                let basic = or_gap((self.region, &instance.id), &mut self.bugs, work).flatten();
                if let Some(report) = self.found.get_mut(&instance.id).and_then(report_of) {
                    report.basic = basic.map(Box::new);
                }
            }
        }
    }
}

fn report_of(found: &mut QueryResult) -> Option<&mut DeviceReport> {
    match found {
        QueryResult::Answered(Usage::Unknown(UnknownUsage::Uninstrumented(report)), _) => Some(report),
        QueryResult::Answered(..) | QueryResult::NoWork => None,
    }
}

/// The end of the period that `now` lies in.
fn end_of_period(now: Timestamp) -> Timestamp {
    let period = PERIOD.as_secs();
    let end = now.as_second().saturating_add(period.saturating_sub(1)).div_euclid(period.max(1)).saturating_mul(period);
    Timestamp::from_second(end).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use model::usage::{UsageWindow, WINDOW_MAX};

    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn parts_hold_no_more_samples_than_fit() {
        // An hour, 21 series each: 252 samples.
        const PERIODS: usize = 12;
        let sizes = |count: usize| {
            let all = vec![PERIODS * 21; count];
            parts(all, |one| *one).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(0), Vec::<usize>::new());
        assert_eq!(sizes(1984), [1984]);
        assert_eq!(sizes(1985), [1984, 1]);
        let sixty_days = UsageWindow::ending_before(time("2026-09-01T12:00:00Z"), WINDOW_MAX).periods();
        assert_eq!(parts(vec![sixty_days; 40], |one| *one).len(), 2);
        assert_eq!(parts(vec![usize::MAX, PERIODS], |one| *one).len(), 2, "one that does not fit goes alone");
    }

    #[test]
    fn the_end_is_a_whole_period() {
        assert_eq!(end_of_period(time("2026-09-01T12:00:00Z")), time("2026-09-01T12:00:00Z"));
        assert_eq!(end_of_period(time("2026-09-01T12:00:01Z")), time("2026-09-01T12:05:00Z"));
        assert_eq!(end_of_period(time("2026-09-01T12:04:59.9Z")), time("2026-09-01T12:05:00Z"));
    }
}
