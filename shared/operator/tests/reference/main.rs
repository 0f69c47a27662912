//! Keeps the pages of the reference, which `docs/reference.md` lists, equal to the code: what is documented exists, and what exists is documented.
//!
//! The code is asked, not copied: accepted configuration keys and values come from the parser's own refusals, names from
//! deserialising one that does not exist, or from serialising every variant.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that fails may say so by panicking")]

mod configuration;
mod names;
mod prices;
mod response;
mod tags;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::instance::{Accelerator, Instance, InstanceState, InstanceTypeFacts, PurchaseOption};
use model::volume::{Volume, VolumeState};

const TAGS: &str = include_str!("../../../../docs/tags.md");
const CONFIGURATION: &str = include_str!("../../../../docs/configuration.md");
const BUDGETS: &str = include_str!("../../../../docs/budgets.md");
const STATE_BUCKET: &str = include_str!("../../../../docs/state-bucket.md");
const RUNS: &str = include_str!("../../../../docs/runs.md");

/// The pages of the reference that are compared with the code.
const REFERENCE: [&str; 4] = [TAGS, CONFIGURATION, BUDGETS, RUNS];

/// Every document that names tags.
const DOCUMENTS: [(&str, &str); 18] = [
    ("docs/tags.md", TAGS),
    ("docs/configuration.md", CONFIGURATION),
    ("docs/budgets.md", BUDGETS),
    ("docs/state-bucket.md", STATE_BUCKET),
    ("docs/runs.md", RUNS),
    ("docs/iam.md", include_str!("../../../../docs/iam.md")),
    ("docs/job-machines.md", include_str!("../../../../docs/job-machines.md")),
    ("docs/faq.md", include_str!("../../../../docs/faq.md")),
    ("docs/troubleshooting.md", include_str!("../../../../docs/troubleshooting.md")),
    ("docs/from-schedulers.md", include_str!("../../../../docs/from-schedulers.md")),
    ("docs/deploy.md", include_str!("../../../../docs/deploy.md")),
    ("docs/glossary.md", include_str!("../../../../docs/glossary.md")),
    ("docs/running-jobs.md", include_str!("../../../../docs/running-jobs.md")),
    ("docs/safety.md", include_str!("../../../../docs/safety.md")),
    ("docs/volumes.md", include_str!("../../../../docs/volumes.md")),
    ("README.md", include_str!("../../../../README.md")),
    ("ARCHITECTURE.md", include_str!("../../../../ARCHITECTURE.md")),
    ("CONTRIBUTING.md", include_str!("../../../../CONTRIBUTING.md")),
];

/// The text under a heading, to the next heading of its level or a higher one.
fn section(heading: &str) -> &'static str {
    let line = format!("\n{heading}\n");
    let found = REFERENCE.iter().find_map(|page| page.split_once(line.as_str()));
    let (_, body) = found.unwrap_or_else(|| panic!("no heading {heading:?}"));
    let level = heading.chars().take_while(|c| *c == '#').count();
    let ends = |line: &str| {
        let hashes = line.chars().take_while(|c| *c == '#').count();
        (1..=level).contains(&hashes) && line[hashes..].starts_with(' ')
    };
    let (mut end, mut fenced) = (0, false);
    for line in body.split_inclusive('\n') {
        fenced ^= line.starts_with("```");
        if !fenced && ends(line) {
            break;
        }
        end += line.len();
    }
    &body[..end]
}

/// The rows of the section's tables whose first cell is a name in backticks: that name, and all cells.
fn rows(heading: &str) -> Vec<(&'static str, Vec<&'static str>)> {
    let lines = section(heading).lines().filter(|line| line.starts_with("| `"));
    let cells = lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let rows: Vec<_> = cells.map(|cells| (quoted(cells[0]).next().unwrap(), cells)).collect();
    let names: BTreeSet<_> = rows.iter().map(|(name, _)| name).collect();
    assert!(!rows.is_empty() && names.len() == rows.len(), "{heading:?} has no rows, or two of one name");
    rows
}

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The code blocks of a section in one language.
fn blocks(heading: &str, language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    section(heading).split(fence.as_str()).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

fn check_names(heading: &str, exist: impl IntoIterator<Item = String>) {
    let documented: BTreeSet<String> = rows(heading).into_iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(documented, exist.into_iter().collect(), "{heading:?}: documented on the left, existing on the right");
}

/// Every variant of an enum, by a function that leads from each to the next and so has to name all of them.
fn every<T>(first: T, after: impl FnMut(&T) -> Option<T>) -> Vec<T> {
    std::iter::successors(Some(first), after).collect()
}

fn volume(size_gib: u64, iops: u64, mibps: u64) -> Volume {
    Volume {
        id: "vol-0abc".into(),
        region: "us-east-1".into(),
        zone: "us-east-1a".to_owned(),
        volume_type: String::new(),
        size_gib,
        iops: Some(iops),
        throughput_mibps: Some(mibps),
        state: VolumeState::Available,
        attached_to: Vec::new(),
        multi_attach: false,
        created_at: Timestamp::UNIX_EPOCH,
        tags: BTreeMap::new(),
        from_snapshot: None,
        operator: None,
    }
}

/// Running, on demand, without tags, launched on the day before the documented response.
fn instance(id: &str) -> Instance {
    Instance {
        id: id.into(),
        region: "us-east-1".into(),
        instance_type: "g5.xlarge".into(),
        state: InstanceState::Running,
        launched_at: "2026-08-31T12:00:00Z".parse().unwrap(),
        tags: BTreeMap::new(),
        purchase: PurchaseOption::OnDemand,
        root_on_instance_storage: false,
        operator: None,
        prepaid: None,
        capacity_reservation: None,
        placement_group: None,
        zone: None,
        plain_linux: true,
        host: None,
        state_reason: None,
        machine: InstanceTypeFacts {
            accelerator: Accelerator::Nvidia,
            accelerators: 1,
            accelerator_memory_mib: 22_888,
            vcpus: 4,
            instance_storage_gb: 0,
        },
    }
}
