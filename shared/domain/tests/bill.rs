//! What asking costs in a month: 1,000 instances of 8 GPUs, a run every 5 minutes, every metric counted that a run asks for.
//!
//!     cargo test --package domain --test bill -- --nocapture

#![expect(clippy::unwrap_used, clippy::panic, reason = "a bill that cannot be computed says so by panicking")]
#![expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]

use std::collections::{BTreeMap, BTreeSet};

use domain::budget::Standings;
use domain::config::Config;
use domain::id::{Region, ResourceId};
use domain::instance::{Accelerator, Instance, Machine, Purchase, State};
use domain::mode::Mode;
use domain::news::{late_news, messages, news, remember};
use domain::notices::Memory;
use domain::notices::Notices;
use domain::observed::Observed;
use domain::plan::Action;
use domain::policy::Policy;
use domain::policy::claim::Jobs;
use domain::policy::instances::{asks, decide, learn};
use domain::price::PriceBook;
use domain::report::{Outcome, OutcomeKind, Report};
use domain::usage::{
    Activity, First, Found, LAG, Owners, PERIOD, Question, Sample, Series, Signal, devices, first_questions,
};
use domain::vocabulary::MARKED;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

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
enum Life {
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
    life: Life,
    config: &'static str,
}

const ENFORCED: &str = "mode = \"enforce\"\n";
const EXPENDABLE: &str = "mode = \"enforce\"\n[idle]\nlocal_disk = \"expendable\"\n";

/// Above the limits: announced, due, and ended by nobody. They are asked about in every run, lest one be ended that works.
const HELD: Fleet = Fleet {
    name: "idle, held by the limits",
    life: Life::Idles,
    config: "mode = \"enforce\"\n[idle]\nlocal_disk = \"expendable\"\n[limits]\nactions_max = 0\n",
};

const FLEETS: [Fleet; 8] = [
    Fleet { name: "trains, CPUs at work", life: Life::Trains, config: EXPENDABLE },
    Fleet { name: "trains, CPUs quiet", life: Life::TrainsUnderQuietCpus, config: EXPENDABLE },
    Fleet { name: "9 to 5, only told (NVMe is kept)", life: Life::OfficeHours, config: ENFORCED },
    Fleet { name: "idle, observed", life: Life::Idles, config: "" },
    Fleet { name: "idle, only told (NVMe is kept)", life: Life::Idles, config: ENFORCED },
    Fleet { name: "idle with memory held", life: Life::HoldsMemory, config: EXPENDABLE },
    Fleet { name: "uninstrumented, observed", life: Life::Uninstrumented, config: "" },
    Fleet { name: "uninstrumented, enforced", life: Life::Uninstrumented, config: EXPENDABLE },
];

impl Life {
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

    fn value(self, signal: Signal, at: Timestamp) -> f64 {
        match signal {
            Signal::Cpu if self == Self::Trains => 40.0,
            Signal::Gpu(_) if self.works_at(at) => 95.0,
            Signal::GpuMemory(_) if self == Self::HoldsMemory => 30_000.0,
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
        state: State::Running,
        // Not all in the same run.
        launched_at: began + SignedDuration::from_mins(7 * i64::try_from(number).unwrap()),
        tags: [("Team", "vision"), ("Owner", "ada")].map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        purchase: Purchase::OnDemand,
        root_on_instance_storage: false,
        operator: None,
        prepaid: None,
        zone: None,
        plain_linux: true,
        host: None,
        state_reason: None,
        machine: Machine { accelerator: Accelerator::Nvidia, accelerators: GPUS, vcpus: 96, instance_storage_gb: 8000 },
    }
}

fn listed(instances: &[Instance], life: Life) -> Vec<Series> {
    let of = |instance: &Instance, index: u32| Series {
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
struct Counted {
    metrics: usize,
    /// Runs that listed series.
    lists: usize,
    activity_writes: usize,
    notices_writes: usize,
    messages: usize,
}

/// A month of one fleet: instances, and everything that Curfew remembers.
struct Month {
    life: Life,
    policy: Policy,
    instances: Vec<Instance>,
    series: Vec<Series>,
    activity: Activity,
    memory: Memory,
    counted: Counted,
}

impl Month {
    fn of(fleet: &Fleet, began: Timestamp) -> Self {
        let config = Config::read(fleet.config).unwrap_or_else(|fault| panic!("{fault}"));
        let instances: Vec<Instance> = (0..LIVED).map(|number| p4d(number, began)).collect();
        Self {
            life: fleet.life,
            policy: Policy {
                config,
                ceiling: Mode::Enforce,
                prices: PriceBook::dated(),
                budgets: Standings::default(),
                jobs: Jobs::default(),
            },
            series: listed(&instances, fleet.life),
            instances,
            activity: Activity::default(),
            memory: Memory::from([("us-east-1".into(), Notices::default())]),
            counted: Counted::default(),
        }
    }

    fn answers(&mut self, questions: Vec<Question>, now: Timestamp) -> BTreeMap<Signal, Vec<Sample>> {
        self.counted.metrics += questions.len();
        let of = |question: Question| {
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
        let names = policy.config.metrics.of(Accelerator::Nvidia);
        let asks = asks(&seen, &self.activity, &self.memory, &policy, now);
        let mut found: BTreeMap<ResourceId, Found> = BTreeMap::new();
        let mut listed = false;
        for ask in &asks {
            let first = self.answers(first_questions(ask), now);
            let settled = match ask.after_first(first, true, idle) {
                Some(First::Found(settled)) => settled,
                Some(First::Open(open)) => {
                    listed = true;
                    let owner = Owners::among(std::iter::once(ask.instance), names.unwrap());
                    let own = devices(self.series.clone(), &owner).remove(&ask.instance.id).unwrap_or_default();
                    match open.questions(&own, names) {
                        Some(questions) => {
                            let further = self.answers(questions, now);
                            open.conclude(further, true, &own, names, idle).unwrap()
                        }
                        None => Found::NoWork,
                    }
                }
                None => panic!("all was answered"),
            };
            found.insert(ask.instance.id.clone(), settled);
        }
        let learnt = learn(&seen, &asks, found, &self.activity, &policy, now);
        self.counted.lists += usize::from(listed);
        self.counted.activity_writes += usize::from(learnt.activity != self.activity);
        self.activity = learnt.activity;
        self.report(learnt.usages, now);
    }

    fn report(&mut self, usages: BTreeMap<ResourceId, domain::usage::Usage>, now: Timestamp) {
        let home = Region::from("us-east-1");
        let seen = Observed { items: self.instances.clone(), gaps: Vec::new() };
        let plan = decide(&seen, &usages, &self.memory, &self.policy, now);
        let mut report = Report::of(plan, "reap-instances", "run".into(), now, Mode::Enforce, vec![home.clone()]);
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
            *outcome = Outcome::of(kind);
        }
        let said = news(&report, &self.memory, &home, now);
        let teams: BTreeSet<String> =
            messages(&report, &said, &self.memory).into_iter().map(|message| message.team).collect();
        self.counted.messages += teams.len();
        let late = late_news(&report, &said, &self.memory, &home, now);
        let after = remember(&self.memory, &report, &said, &late, &teams, now);
        self.counted.notices_writes += usize::from(after != self.memory);
        self.memory = after;
    }
}

/// US dollars of a month, and how they come about.
fn bill(fleet: &Fleet) -> f64 {
    let began: Timestamp = "2026-09-01T00:00:00Z".parse().unwrap();
    let mut month = Month::of(fleet, began);
    let runs = DAYS * 24 * 12;
    for run in 1..=runs {
        month.run(began + PERIOD * run);
    }
    let Counted { metrics, lists, activity_writes, notices_writes, messages } = month.counted;
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
