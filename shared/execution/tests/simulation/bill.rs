//! The cost of queries in a month: 1,000 instances of 8 GPUs, a run every 5 minutes, with every metric that a run requests.
//!
//!     cargo test --package execution --test simulation -- --bill

use jiff::tz::TimeZone;
use model::instance::{Accelerator, Instance, InstanceTypeFacts, PurchaseOption};

use crate::account::SimulatedAccount;
use crate::chance::{DAY, HOUR, RandomStream, TICK, stamp};
use crate::metrics::series_of;
use crate::schedule;
use crate::tags::OwnerTags;
use crate::world::{Instrumentation, MachineTraits, MachineWork, SimulatedMachine};

const GPUS: u32 = 8;
const INSTANCES: f64 = 1000.0;
const DAYS: i64 = 30;
/// Tuesday, 2026-09-01.
const BEGIN: i64 = 1_788_220_800;

/// `CloudWatch` pricing, us-east-1: `GetMetricData` per requested metric, other calls per request.
const USD_PER_METRIC: f64 = 0.01 / 1000.0;
const USD_PER_LIST: f64 = 0.01 / 1000.0;
/// S3 pricing, Standard, us-east-1: `PUT` and `GET`; and SNS pricing per publish.
const USD_PER_PUT: f64 = 0.005 / 1000.0;
const USD_PER_GET: f64 = 0.0004 / 1000.0;
const USD_PER_PUBLISH: f64 = 0.50 / 1e6;
/// `CloudWatch` API reference, `ListMetrics`: series of a page.
const LIST_PAGE: f64 = 500.0;
/// Each run in one region reads the configuration, prices, notifications and activity, and writes the plan:
/// `integration/tests/test_fewest_calls.py` counts them on the wire.
const GETS_A_RUN: f64 = 4.0;
const PUTS_A_RUN: f64 = 1.0;

struct Fleet {
    name: &'static str,
    /// `None`: training on the GPUs alone, from 9 to 17 on working days.
    work: Option<MachineWork>,
    instrumented: bool,
    config: &'static str,
    /// US dollars of a month: the least and the most.
    bounds: (f64, f64),
}

const ENFORCED: &str = "mode = \"enforce\"\n";
const EXPENDABLE: &str = "mode = \"enforce\"\n[idle]\nlocal_disk = \"expendable\"\n";
/// Due actions await approval, and a run queries these instances in full, because it may act on them.
const HELD: &str = "mode = \"enforce\"\n[idle]\nlocal_disk = \"expendable\"\n[limits]\nactions_max = 0\n";
const BOUNDS: (f64, f64) = (1.0, 30.0);

const FLEETS: [Fleet; 8] = [
    fleet("train, CPUs at work", Some(MachineWork::Train), EXPENDABLE),
    fleet("train, CPUs quiet", Some(MachineWork::OneGpu(0)), EXPENDABLE),
    fleet("work from 9 to 17, notify only", None, ENFORCED),
    fleet("are idle and observed", Some(MachineWork::Nothing), ""),
    fleet("are idle, notify only", Some(MachineWork::Nothing), ENFORCED),
    fleet("are idle with GPU memory held", Some(MachineWork::HoldsMemory), EXPENDABLE),
    Fleet { instrumented: false, ..fleet("are uninstrumented", Some(MachineWork::Nothing), EXPENDABLE) },
    Fleet { bounds: (1000.0, 2500.0), ..fleet("are idle, held by the limits", Some(MachineWork::Nothing), HELD) },
];

const fn fleet(name: &'static str, work: Option<MachineWork>, config: &'static str) -> Fleet {
    Fleet { name, work, instrumented: true, config, bounds: BOUNDS }
}

/// Prints the bill of each fleet. Returns whether all are within their bounds.
pub(crate) fn check() -> bool {
    println!("| 1,000 instances of 8 GPUs that  | metrics   | USD     | with requests |");
    println!("|---------------------------------|-----------|---------|---------------|");
    let costs = FLEETS.each_ref().map(|fleet| (cost(fleet), fleet));
    costs.iter().all(|(usd, fleet)| {
        let is_within = *usd >= fleet.bounds.0 && *usd < fleet.bounds.1;
        if !is_within {
            println!("instances that {}: {usd:.2} USD a month, expected {:?}", fleet.name, fleet.bounds);
        }
        is_within
    })
}

/// One instance lives for some days, and stands for all of them in a month.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn cost(fleet: &Fleet) -> f64 {
    let mut account = SimulatedAccount::from_parts(fleet.config, machine(fleet), BEGIN);
    let days = if fleet.work.is_some() { 3 } else { 7 };
    for hour in 0..days * 24 {
        account.machines[0].work = fleet.work.unwrap_or_else(|| office_work(BEGIN + hour * HOUR));
        account = schedule::live(account, HOUR / TICK);
    }
    let months = DAYS as f64 / days as f64;
    let runs = (DAYS * DAY / TICK) as f64;
    // One of 1,000 instances has something to query, to list and to remember in most runs.
    let in_runs = |lived: u64| (lived as f64 * months * INSTANCES).min(runs);
    let versions = account.activity.values().map(|(version, _)| *version);
    let writes: f64 = versions.chain(account.notices.values().map(|(version, _)| *version)).map(in_runs).sum();
    let metrics = account.calls.metrics as f64 * months * INSTANCES;
    let of_metrics = metrics * USD_PER_METRIC;
    let pages = (INSTANCES * f64::from(GPUS) / LIST_PAGE).ceil();
    let of_lists = in_runs(account.calls.lists) * pages * USD_PER_LIST;
    let of_bucket = (runs * PUTS_A_RUN + writes) * USD_PER_PUT + runs * GETS_A_RUN * USD_PER_GET;
    let total = of_metrics + of_lists + of_bucket + in_runs(account.messages) * USD_PER_PUBLISH;
    println!("| {:<31} | {metrics:>9.0} | {of_metrics:>7.2} | {total:>13.2} |", fleet.name);
    total
}

fn office_work(now: i64) -> MachineWork {
    let here = stamp(now).to_zoned(TimeZone::UTC);
    let is_there = here.weekday().to_monday_zero_offset() < 5 && (9..17).contains(&here.hour());
    if is_there { MachineWork::OneGpu(0) } else { MachineWork::Nothing }
}

/// A p4d that its owner never touches.
fn machine(fleet: &Fleet) -> SimulatedMachine {
    let says = OwnerTags { team: Some(0), owner: true, ..OwnerTags::default() };
    let mut machine = SimulatedMachine::launch(1, 1, says, BEGIN, &mut RandomStream::from_seed(0, 1));
    let id = machine.id().to_owned();
    let gpus = if fleet.instrumented { GPUS } else { 0 };
    machine.make = MachineTraits {
        foreign: None,
        instrumented: if fleet.instrumented { Instrumentation::Fully } else { Instrumentation::No },
        series: (0..gpus).map(|gpu| series_of(Ok(&id), gpu)).collect(),
        power: Vec::new(),
        has_detailed_monitoring: false,
    };
    machine.ec2 = Instance {
        instance_type: "p4d.24xlarge".into(),
        purchase: PurchaseOption::OnDemand,
        root_on_instance_storage: false,
        operator: None,
        prepaid: None,
        machine: InstanceTypeFacts {
            accelerator: Accelerator::Nvidia,
            accelerators: GPUS,
            accelerator_memory_mib: 40_960,
            vcpus: 96,
            instance_storage_gb: 8000,
        },
        ..machine.ec2
    };
    machine.retag(BEGIN);
    (machine.work_until, machine.next_random_action) = (i64::MAX, i64::MAX);
    machine
}
