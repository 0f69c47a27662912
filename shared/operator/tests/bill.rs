//! What asking costs in a month: 1,000 instances of 8 GPUs, a run every 5 minutes, every metric counted that a run asks for.
//!
//!     cargo test --package operator --test bill -- --nocapture

#![expect(clippy::unwrap_used, clippy::panic, reason = "a bill that cannot be computed says so by panicking")]
#![expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::BudgetStatuses;
use billing::price::PriceBook;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::curfew_tags::MARKED;
use model::id::{Region, ResourceId};
use model::instance::{Accelerator, Instance, InstanceState, InstanceTypeFacts, PurchaseOption};
use model::mode::Mode;
use model::notification_log::{NotificationLog, NotificationLogs};
use model::observation::Observation;
use model::usage::{
    ActivityCache, FirstRound, LAG, MetricQuestion, MetricSeries, MetricSignal, PERIOD, QueryResult, Sample,
    SeriesOwners, devices, first_questions,
};
use notify::{late_notifications, messages, notifications, update_log};
use plan::Action;
use plan::report::{OutcomeKind, Report, StepOutcome};
use reaping::instances::{decide, learn_usage, usage_queries};
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;

const GPUS: u32 = 8;
const INSTANCES: f64 = 1000.0;
/// So many are lived through, and stand for all: they differ in when they were launched.
const LIVED: usize = 3;
const DAYS: i32 = 30;

/// `CloudWatch` pricing, us-east-1: `GetMetricData` per metric asked for, other calls per request.
const USD_PER_METRIC: f64 = 0.01 / 1000.0;
const USD_PER_LIST: f64 = 0.01 / 1000.0;
/// S3 pricing, Standard, us-east-1: `PUT` and `GET`; and SNS pricing per publish.
const USD_PER_PUT: f64 = 0.005 / 1000.0;
const USD_PER_GET: f64 = 0.0004 / 1000.0;
const USD_PER_PUBLISH: f64 = 0.50 / 1e6;
/// `CloudWatch` API reference, `ListMetrics`: series of a page.
const LIST_PAGE: f64 = 500.0;
/// Of every run in one region, whatever there is to do: `integration/tests/test_fewest_calls.py` counts them on the wire. Configuration, prices,
/// notices and activity are read, the plan is written.
const GETS_A_RUN: f64 = 4.0;
const PUTS_A_RUN: f64 = 1.0;

/// What the machines of a fleet do all month.
#[derive(Debug, Clone, Copy, PartialEq)]
enum FleetBehaviour {
    /// Trains; the CPUs feed the GPUs.
    Trains,
    /// Trains on its GPUs alone.
    TrainsUnderQuietCpus,
    /// Does that from 9 to 17 on working days.
    OfficeHours,
    /// Nothing.
    Idles,
    /// Nothing, and holds memory.
    HoldsMemory,
    /// Nobody can say.
    Uninstrumented,
}

struct Fleet {
    name: &'static str,
    life: FleetBehaviour,
    config: &'static str,
}

const ENFORCED: &str = "mode = \"enforce\"\n";
const EXPENDABLE: &str = "mode = \"enforce\"\n[idle]\nlocal_disk = \"expendable\"\n";

/// Above the limits: announced, due, and ended by nobody. They are asked about in every run, lest one be ended that works.
const HELD: Fleet = Fleet {
    name: "idle, held by the limits",
    life: FleetBehaviour::Idles,
    config: "mode = \"enforce\"\n[idle]\nlocal_disk = \"expendable\"\n[limits]\nactions_max = 0\n",
};

const FLEETS: [Fleet; 8] = [
    Fleet { name: "trains, CPUs at work", life: FleetBehaviour::Trains, config: EXPENDABLE },
    Fleet { name: "trains, CPUs quiet", life: FleetBehaviour::TrainsUnderQuietCpus, config: EXPENDABLE },
    Fleet { name: "9 to 5, only told (NVMe is kept)", life: FleetBehaviour::OfficeHours, config: ENFORCED },
    Fleet { name: "idle, observed", life: FleetBehaviour::Idles, config: "" },
    Fleet { name: "idle, only told (NVMe is kept)", life: FleetBehaviour::Idles, config: ENFORCED },
    Fleet { name: "idle with memory held", life: FleetBehaviour::HoldsMemory, config: EXPENDABLE },
    Fleet { name: "uninstrumented, observed", life: FleetBehaviour::Uninstrumented, config: "" },
    Fleet { name: "uninstrumented, enforced", life: FleetBehaviour::Uninstrumented, config: EXPENDABLE },
];

impl FleetBehaviour {
    fn works_at(self, at: Timestamp) -> bool {
        match self {
            Self::Trains | Self::TrainsUnderQuietCpus => true,
            Self::OfficeHours => {
                let there = at.to_zoned(TimeZone::UTC);
                there.weekday().to_monday_zero_offset() < 5 && (9..17).contains(&there.hour())
            }
            Self::Idles | Self::HoldsMemory | Self::Uninstrumented => false,
        }
    }

    fn value(self, signal: MetricSignal, at: Timestamp) -> f64 {
        match signal {
            MetricSignal::Cpu if self == Self::Trains => 40.0,
            MetricSignal::Gpu(_) if self.works_at(at) => 95.0,
            MetricSignal::GpuMemory(_) if self == Self::HoldsMemory => 30_000.0,
            // Whole percent, as the CloudWatch agent publishes them.
            MetricSignal::Gpu(_) => 0.0,
            _ => 0.1,
        }
    }

    fn series(self) -> u32 {
        if self == Self::Uninstrumented { 0 } else { GPUS }
    }
}

fn p4d(number: usize, began: Timestamp) -> Instance {
    Instance {
        id: ResourceId::new(format!("i-{number}")),
        region: "us-east-1".into(),
        instance_type: "p4d.24xlarge".into(),
        state: InstanceState::Running,
        // Not all in the same run.
        launched_at: began + SignedDuration::from_mins(7 * i64::try_from(number).unwrap()),
        tags: [("Team", "vision"), ("Owner", "ada")].map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        purchase: PurchaseOption::OnDemand,
        root_on_instance_storage: false,
        operator: None,
        prepaid: None,
        zone: None,
        plain_linux: true,
        host: None,
        state_reason: None,
        machine: InstanceTypeFacts {
            accelerator: Accelerator::Nvidia,
            accelerators: GPUS,
            vcpus: 96,
            instance_storage_gb: 8000,
        },
    }
}

fn listed(instances: &[Instance], life: FleetBehaviour) -> Vec<MetricSeries> {
    let of = |instance: &Instance, index: u32| MetricSeries {
        namespace: "CWAgent".to_owned(),
        metric: "nvidia_smi_utilization_gpu".to_owned(),
        dimensions: vec![
            ("InstanceId".to_owned(), instance.id.as_str().to_owned()),
            ("index".to_owned(), index.to_string()),
        ],
    };
    instances.iter().flat_map(|instance| (0..life.series()).map(move |index| of(instance, index))).collect()
}

/// What is asked for.
#[derive(Debug, Default)]
struct BillableCounts {
    metrics: usize,
    /// Runs that listed series.
    lists: usize,
    activity_writes: usize,
    notices_writes: usize,
    messages: usize,
}

/// A month of one fleet: instances, and everything that Curfew remembers.
struct SimulatedMonth {
    life: FleetBehaviour,
    policy: Policy,
    instances: Vec<Instance>,
    series: Vec<MetricSeries>,
    activity: ActivityCache,
    memory: NotificationLogs,
    counted: BillableCounts,
}

impl SimulatedMonth {
    fn new(fleet: &Fleet, began: Timestamp) -> Self {
        let config = Config::read(fleet.config).unwrap_or_else(|fault| panic!("{fault}"));
        let instances: Vec<Instance> = (0..LIVED).map(|number| p4d(number, began)).collect();
        Self {
            life: fleet.life,
            policy: Policy {
                config,
                ceiling: Mode::Enforce,
                prices: PriceBook::dated(),
                budgets: BudgetStatuses::default(),
                jobs: JobStates::default(),
            },
            series: listed(&instances, fleet.life),
            instances,
            activity: ActivityCache::default(),
            memory: NotificationLogs::from([("us-east-1".into(), NotificationLog::default())]),
            counted: BillableCounts::default(),
        }
    }

    fn answers(&mut self, questions: Vec<MetricQuestion>, now: Timestamp) -> BTreeMap<MetricSignal, Vec<Sample>> {
        self.counted.metrics += questions.len();
        let of = |question: MetricQuestion| {
            let mut at = question.from;
            let mut samples = Vec::new();
            while at + PERIOD + LAG <= now {
                samples.push((at, self.life.value(question.signal, at)));
                at += PERIOD;
            }
            (question.signal, samples)
        };
        questions.into_iter().map(of).collect()
    }

    /// One run: ask, decide, tell, mark, remember. Nothing of these fleets is ended.
    fn run(&mut self, now: Timestamp) {
        let instances = self.instances.clone();
        let seen: Vec<&Instance> = instances.iter().collect();
        let policy = self.policy.clone();
        let idle = &policy.config.idle;
        let names = policy.config.metrics.series_names(Accelerator::Nvidia);
        let asks = usage_queries(&seen, &self.activity, &self.memory, &policy, now);
        let mut found: BTreeMap<ResourceId, QueryResult> = BTreeMap::new();
        let mut listed = false;
        for ask in &asks {
            let first = self.answers(first_questions(ask), now);
            let settled = match ask.after_first(first, true, idle) {
                Some(FirstRound::Found(settled)) => settled,
                Some(FirstRound::Open(open)) => {
                    listed = true;
                    let owner = SeriesOwners::among(std::iter::once(ask.instance), names.unwrap());
                    let own = devices(self.series.clone(), &owner).remove(&ask.instance.id).unwrap_or_default();
                    match open.questions(&own, names) {
                        Some(questions) => {
                            let further = self.answers(questions, now);
                            open.conclude(further, true, &own, names, idle).unwrap()
                        }
                        None => QueryResult::NoWork,
                    }
                }
                None => panic!("all was answered"),
            };
            found.insert(ask.instance.id.clone(), settled);
        }
        let learnt = learn_usage(&seen, &asks, found, &self.activity, &policy, now);
        self.counted.lists += usize::from(listed);
        self.counted.activity_writes += usize::from(learnt.activity != self.activity);
        self.activity = learnt.activity;
        self.report(learnt.usages, now);
    }

    fn report(&mut self, usages: BTreeMap<ResourceId, model::usage::Usage>, now: Timestamp) {
        let home = Region::from("us-east-1");
        let seen = Observation { items: self.instances.clone(), gaps: Vec::new() };
        let plan = decide(&seen, &usages, &self.memory, &self.policy, now);
        let mut report =
            Report::from_plan(plan, "reap-instances", "run".into(), now, Mode::Enforce, vec![home.clone()]);
        for (step, outcome) in &mut report.steps {
            let kind = match &step.action {
                _ if step.mode == Mode::Observe => OutcomeKind::Observed,
                _ if step.held.is_some() => OutcomeKind::NotReached,
                Action::Notify => OutcomeKind::Done,
                Action::Mark(mark) => {
                    let marked = self.instances.iter_mut().find(|instance| instance.id == step.target.resource);
                    marked.unwrap().tags.insert(MARKED.to_owned(), mark.to_string());
                    OutcomeKind::Done
                }
                _ => panic!("{step:?}"),
            };
            *outcome = StepOutcome::from_kind(kind);
        }
        let said = notifications(&report, &self.memory, &home, now);
        let teams: BTreeSet<String> =
            messages(&report, &said, &self.memory).into_iter().map(|message| message.team).collect();
        self.counted.messages += teams.len();
        let late = late_notifications(&report, &said, &self.memory, &home, now);
        let after = update_log(&self.memory, &report, &said, &late, &teams, now);
        self.counted.notices_writes += usize::from(after != self.memory);
        self.memory = after;
    }
}

/// US dollars of a month, and how they come about.
fn bill(fleet: &Fleet) -> f64 {
    let began: Timestamp = "2026-09-01T00:00:00Z".parse().unwrap();
    let mut month = SimulatedMonth::new(fleet, began);
    let runs = DAYS * 24 * 12;
    for run in 1..=runs {
        month.run(began + PERIOD * run);
    }
    let BillableCounts { metrics, lists, activity_writes, notices_writes, messages } = month.counted;
    let share = INSTANCES / LIVED as f64;
    let runs = f64::from(runs);
    // With 1,000 instances launched at all hours, there is something to ask, to list and to remember in most runs.
    let in_runs = |lived: usize| (lived as f64 * share).min(runs);
    let pages = (INSTANCES * f64::from(GPUS) / LIST_PAGE).ceil();
    let asked = metrics as f64 * share;
    let of_metrics = asked * USD_PER_METRIC;
    let of_lists = in_runs(lists) * pages * USD_PER_LIST;
    let puts = runs * PUTS_A_RUN + in_runs(activity_writes) + in_runs(notices_writes);
    let of_requests = puts * USD_PER_PUT + runs * GETS_A_RUN * USD_PER_GET + in_runs(messages) * USD_PER_PUBLISH;
    let total = of_metrics + of_lists + of_requests;
    println!(
        "| {:<32} | {asked:>9.0} | {of_metrics:>5.2} | {of_lists:>5.2} | {of_requests:>5.2} | {total:>5.2} |",
        fleet.name
    );
    assert!(metrics > 0 && activity_writes > 0, "a month without a question shows nothing");
    total
}

#[test]
fn a_month_of_a_thousand_machines_costs_less_than_thirty_dollars() {
    println!("| 1,000 instances of 8 GPUs that   | metrics   |   USD | lists | S3+SNS| total |");
    println!("|----------------------------------|-----------|-------|-------|-------|-------|");
    for fleet in &FLEETS {
        let usd = bill(fleet);
        assert!(usd < 30.0, "{}: {usd:.2} USD", fleet.name);
    }
}

#[test]
fn what_is_held_by_the_limits_is_dear_until_somebody_decides() {
    let usd = bill(&HELD);
    assert!((1000.0..2500.0).contains(&usd), "{usd:.2} USD");
}
