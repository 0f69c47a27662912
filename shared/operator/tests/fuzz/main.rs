//! Anything that people, other programs or a damaged bucket may write: it is understood, or it is refused with a sentence;
//! nothing panics, and what is not understood is never acted on. The judges read by a few lines of their own.
//!
//! `make fuzz` looks longer. Each mistake that was found has a named test where it was made.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a property that fails says so by panicking")]

mod configuration;
mod memory;
mod mutate;
mod read;
mod tags;

use std::collections::BTreeMap;

use billing::budget::BudgetStatuses;
use billing::price::PriceBook;
use jiff::{SignedDuration, Timestamp};
use model::config::Config;
use model::id::ResourceId;
use model::instance::{Accelerator, Instance, InstanceState, InstanceTypeFacts, PurchaseOption};
use model::mode::Mode;
use model::usage::{IdleEvidence, Usage};
use proptest::prelude::*;
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;

/// Everything enforced, at once, without a limit: whatever is not spared is ended.
const MERCILESS: &str = r#"
    mode = "enforce"
    [untagged]
    mode = "enforce"
    grace = "0s"
    spare_busy = false
    [idle]
    grace = "0s"
    local_disk = "expendable"
    [lifetime]
    grace = "0s"
    action = "stop"
    [limits]
    actions_max = 1000
    fleet_share_max_percent = 100
"#;

/// So many times as many cases as proptest's own, which `PROPTEST_CASES` sets.
fn cases(times: u32) -> ProptestConfig {
    let own = ProptestConfig::default();
    ProptestConfig { cases: own.cases * times, failure_persistence: None, ..own }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn now() -> Timestamp {
    "2026-09-01T12:00:00Z".parse().unwrap()
}

fn merciless() -> Policy {
    Policy {
        config: Config::read(MERCILESS).unwrap(),
        ceiling: Mode::Enforce,
        prices: PriceBook::dated(),
        budgets: BudgetStatuses::default(),
        jobs: JobStates::default(),
    }
}

/// Running for two weeks.
fn instance(id: &str, tags: BTreeMap<String, String>) -> Instance {
    Instance {
        id: id.into(),
        region: "us-east-1".into(),
        instance_type: "g5.xlarge".into(),
        state: InstanceState::Running,
        launched_at: now() - SignedDuration::from_hours(14 * 24),
        tags,
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
            accelerators: 1,
            vcpus: 4,
            instance_storage_gb: 0,
        },
    }
}

fn idle() -> Usage {
    Usage::Idle(IdleEvidence {
        from: now() - SignedDuration::from_mins(75),
        to: now() - SignedDuration::from_mins(15),
        devices: 1,
        coverage_percent: 100,
        gpu_max_percent: 0.0,
        cpu_max_vcpus: 0.1,
        network_max_mbps: 0.1,
        disk_max_mbps: None,
        gpu_memory_held_mib: None,
        reserved: false,
    })
}

fn all_idle(instances: &[Instance]) -> BTreeMap<ResourceId, Usage> {
    instances.iter().map(|instance| (instance.id.clone(), idle())).collect()
}
