//! The decisions about Amazon `FSx` for Lustre file systems, which training reads its data from and which AWS bills by their size. Curfew never changes
//! one: it notifies the owner.
//!
//! A file system is **idle**, if and only if
//! - it is older than `[file_systems].idle_after`,
//! - and in that time no client read a byte, wrote one, or made a metadata operation, by metrics that reported often enough.
//!
//! The owner is notified once, and again after a day on which it was in use. `curfew:protected` and `curfew:keep-until` count as on any resource.

use std::collections::BTreeMap;

use billing::price;
use jiff::Timestamp;
use model::curfew_tags::{CurfewTags, PROTECTED, UnreadableTag};
use model::file_system::{FileSystemQuestion, FileSystemSignal, FileSystemUse, LustreFileSystem};
use model::id::{Region, ResourceId};
use model::mark::whole_second;
use model::notification_log::{NotificationKey, NotificationLog, NotificationLogs, ResourceRecord};
use model::observation::Observation;
use model::sagemaker::ActivitySamples;
use model::usage::{MetricSeries, Statistic, UsageWindow};
use plan::{FindingKind, LeftCost, OwnerFinding, ResourceMemory, SkipReason, Skipped, Target};

use crate::engine::{PlanDecision, ResourceCase, ResourceFacts, decide_unchanged};
use crate::long_window;
use crate::policy::Policy;
use crate::scan::{self, FoundKind, ScanFinding, find_in_each};

/// The use of each file system that was asked about.
pub type FileSystemUses = BTreeMap<(Region, ResourceId), FileSystemUse>;

/// The one who asks: a run comes by the hour and asks once a day, and a scan has no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inquiry {
    OfRun,
    OfScan,
}

/// The questions to `CloudWatch` about one file system.
#[must_use]
pub fn questions(of: &LustreFileSystem, policy: &Policy, inquiry: Inquiry, now: Timestamp) -> Vec<FileSystemQuestion> {
    let is_due = inquiry == Inquiry::OfScan || long_window::is_asked_today(of.created_at, now);
    let is_asked = is_due && !of.tags.contains_key(PROTECTED);
    let Some(UsageWindow { from, to }) = window(of, policy, now).filter(|_| is_asked) else {
        return Vec::new();
    };
    let question = |signal: FileSystemSignal| FileSystemQuestion {
        resource: of.id.clone(),
        signal,
        series: MetricSeries {
            namespace: "AWS/FSx".to_owned(),
            metric: signal.metric().to_owned(),
            dimensions: vec![("FileSystemId".to_owned(), of.id.as_str().to_owned())],
        },
        statistic: Statistic::Sum,
        period: long_window::HOUR,
        from,
        until: to,
    };
    FileSystemSignal::ALL.map(question).to_vec()
}

/// The use of one file system, by the answers.
#[must_use]
pub fn evaluate(
    of: &LustreFileSystem,
    answers: &ActivitySamples<FileSystemSignal>,
    policy: &Policy,
    now: Timestamp,
) -> FileSystemUse {
    let (Some(window), Some(answered)) = (window(of, policy, now), answers.get(&of.id)) else {
        return FileSystemUse::Unknown;
    };
    let coverage = policy.config.idle.coverage_min_percent.get();
    let samples = |signal: &FileSystemSignal| {
        let samples = answered.get(signal).map_or(&[][..], Vec::as_slice).iter();
        samples.filter(|(at, _)| (window.from..window.to).contains(at)).map(|(_, value)| *value)
    };
    if FileSystemSignal::ALL.iter().flat_map(samples).any(|value| value > 0.0) {
        return FileSystemUse::Used;
    }
    // A sum below zero is impossible, and may have been a use.
    let is_quiet = |signal: &FileSystemSignal| {
        samples(signal).all(|value| value == 0.0) && long_window::is_covered(samples(signal).count(), window, coverage)
    };
    if FileSystemSignal::ALL.iter().all(is_quiet) {
        return FileSystemUse::Idle { from: window.from, to: window.to };
    }
    FileSystemUse::Unknown
}

/// The window of a file system that is old enough; `None` with `idle_after = "0s"`, too.
fn window(of: &LustreFileSystem, policy: &Policy, now: Timestamp) -> Option<UsageWindow> {
    let idle_after = policy.config.file_systems.idle_after;
    let window = long_window::ending_before(now, idle_after).filter(|_| !idle_after.is_zero())?;
    (of.created_at <= window.from).then_some(window)
}

/// The decisions about these file systems: none of them is changed.
#[must_use]
pub fn decide(
    seen: &[LustreFileSystem],
    uses: &FileSystemUses,
    memory: &NotificationLogs,
    policy: &Policy,
    now: Timestamp,
) -> Vec<Skipped> {
    let empty_log = NotificationLog::default();
    let case = |file_system| FileSystemCase::new(file_system, uses, memory, &empty_log, policy, now);
    decide_unchanged(seen.iter().map(case))
}

/// Every idle file system that is neither protected nor kept.
#[must_use]
pub fn scan(
    seen: &[LustreFileSystem],
    uses: &FileSystemUses,
    policy: &Policy,
    now: Timestamp,
) -> Observation<ScanFinding> {
    let (memory, empty_log) = (NotificationLogs::default(), NotificationLog::default());
    let cases = seen.iter().map(|one| FileSystemCase::new(one, uses, &memory, &empty_log, policy, now));
    find_in_each(cases, FileSystemCase::scan_finding)
}

/// One file system with everything that is known about it.
#[derive(Clone, Copy)]
struct FileSystemCase<'a> {
    file_system: &'a LustreFileSystem,
    usage: FileSystemUse,
    log: &'a NotificationLog,
    policy: &'a Policy,
    now: Timestamp,
}

impl<'a> FileSystemCase<'a> {
    fn new(
        file_system: &'a LustreFileSystem,
        uses: &FileSystemUses,
        memory: &'a NotificationLogs,
        empty_log: &'a NotificationLog,
        policy: &'a Policy,
        now: Timestamp,
    ) -> Self {
        let LustreFileSystem { region, id, .. } = file_system;
        let usage = uses.get(&(region.clone(), id.clone())).copied().unwrap_or(FileSystemUse::Unknown);
        Self { file_system, usage, log: memory.get(region).unwrap_or(empty_log), policy, now }
    }

    /// The evidence, and the way to end the cost.
    fn describe_idle(self, from: Timestamp, to: Timestamp) -> String {
        let LustreFileSystem { id, region, .. } = self.file_system;
        format!(
            "no client read, wrote or listed anything from {from} to {to}. If nothing needs its files, which go with it unless they are in S3: \
             `aws fsx delete-file-system --region {region} --file-system-id {id}`"
        )
    }

    fn left_cost(self) -> LeftCost {
        let price = self.policy.prices.file_system_cost(self.file_system);
        LeftCost { price, waste: Some("an idle file system".to_owned()) }
    }

    fn scan_finding(self) -> Option<ScanFinding> {
        let FileSystemUse::Idle { from, to } = self.usage else { return None };
        if self.is_exempt() {
            return None;
        }
        let found = FoundKind {
            kind: scan::FindingKind::IdleFileSystem,
            evidence: self.describe_idle(from, to),
            in_short: format!("unused since {from}"),
        };
        let finding = ScanFinding::from_kinds(self.target(), vec![found], None, &self.curfew_tags())?;
        let price = self.policy.prices.file_system_cost(self.file_system);
        Some(ScanFinding { price, size_gib: self.file_system.capacity_gib, ..finding })
    }
}

impl<'a> ResourceCase<'a> for FileSystemCase<'a> {
    fn facts(self) -> ResourceFacts<'a> {
        let Self { file_system: LustreFileSystem { region, id, tags, created_at, .. }, log, policy, now, .. } = self;
        let since = whole_second(*created_at);
        ResourceFacts { region, id, tags, began: since, since, log, policy, now }
    }

    fn target(self) -> Target {
        let LustreFileSystem { capacity_gib, storage_type, deployment, tags, .. } = self.file_system;
        self.facts().target(tags, format!("{capacity_gib} GiB FSx for Lustre, {deployment} {storage_type}"))
    }

    fn curfew_tags(self) -> Result<CurfewTags, Vec<UnreadableTag>> {
        CurfewTags::read_volume(&self.file_system.tags)
    }

    fn unjudged(self, active_keys: Vec<NotificationKey>) -> ResourceMemory {
        ResourceMemory { active_keys, record: ResourceRecord::about(self.facts().began), host_tags: None }
    }

    fn skip_of_kind(self, _: &CurfewTags) -> Option<Skipped> {
        None
    }

    fn decide_by_rules(self, _: &CurfewTags) -> PlanDecision {
        let key = FindingKind::IdleFileSystem.key();
        let (from, to) = match self.usage {
            FileSystemUse::Used => return self.skip(SkipReason::Busy, Vec::new()).into(),
            FileSystemUse::Idle { from, to } => (from, to),
            FileSystemUse::Unknown if window(self.file_system, self.policy, self.now).is_none() => {
                return self.skip(SkipReason::Young, Vec::new()).into();
            }
            // A query comes once a day: in between, what the last one found counts.
            FileSystemUse::Unknown if self.log.notification(&self.file_system.id, &key).is_some() => {
                let skipped = self.skip(SkipReason::Notified, vec![key]);
                return Skipped { left_cost: Some(self.left_cost()), ..skipped }.into();
            }
            FileSystemUse::Unknown => return self.skip(SkipReason::UsageUnknown, Vec::new()).into(),
        };
        let cost = price::describe_monthly_cost(self.left_cost().price);
        let finding = OwnerFinding {
            kind: FindingKind::IdleFileSystem,
            what: self.facts().began.to_string(),
            text: format!("{}. {cost}", self.describe_idle(from, to)),
        };
        let skipped = self.skip(SkipReason::Notified, vec![key]);
        Skipped { finding: Some(finding), left_cost: Some(self.left_cost()), ..skipped }.into()
    }
}

#[cfg(test)]
mod tests;
