//! Anything that people, other programs or a damaged bucket may write: it is understood, or it is refused with a sentence;
//! nothing panics, and what is not understood is never acted on. The judges read by a few lines of their own.
//!
//! `make fuzz` looks longer. Each mistake that was found has a named test where it was made.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a property that fails says so by panicking")]

mod configuration;
mod memory;
mod money;
mod mutate;
mod read;
mod strangers;
mod tags;

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::ResourceId;
use model::instance::Instance;
use model::usage::Usage;
use proptest::prelude::*;
use reaping::fixture::{NOW, enforcing, idle, time, untagged};
use reaping::policy::Policy;

/// Everything enforced, at once, without a limit: whatever is not skipped is ended.
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
    time(NOW)
}

fn merciless() -> Policy {
    enforcing(MERCILESS)
}

/// Running for two weeks.
fn instance(id: &str, tags: BTreeMap<String, String>) -> Instance {
    Instance { tags, ..untagged().id(id).launched("2026-08-18T12:00:00Z").build() }
}

fn all_idle(instances: &[Instance]) -> BTreeMap<ResourceId, Usage> {
    instances.iter().map(|instance| (instance.id.clone(), idle())).collect()
}
