//! The state machine over several runs: memory, marks, snapshots, deletions, notifications and skips.

mod asking;
mod own_snapshots;
mod owners;
mod skipped_ones;
mod whole_lives;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use insta::assert_snapshot;
use jiff::Timestamp;
use model::config::Config;
use model::curfew_tags::{DELETED_AT, MARKED, RESTORE, SNAPSHOT_OF, UNATTACHED_SINCE};
use model::id::ResourceId;
use model::instance::Tags;
use model::mark::Mark;
use model::notification_log::{NotificationLog, NotificationLogs, ResourceRecord, SafetyRecord};
use model::rule::Rule;
use model::volume::{Snapshot, SnapshotState, Volume, VolumeHost, VolumeState, VolumeUse, VolumeUseQuery};
use plan::report::{OutcomeKind, Report};
use plan::{Action, Announcement, Plan, SnapshotAction, Step, Target, VolumeAction};
use reaping::explain::{PlanDecision, RuleVerdict};
use reaping::fixture::{NOW, VolumeBuilder, enforcing, time, volume};
use reaping::policy::Policy;
use reaping::volumes::{LiveJobs, decide, explain, is_of_interest, volume_use_queries, wants_its_source};

use crate::aws::{AwsInMemory, RefusedCall};

const ENFORCED: &str = "mode = \"enforce\"\n";

/// An account of volumes over several runs.
struct Account {
    aws: AwsInMemory,
    /// Which metrics show use, and when.
    used: BTreeMap<ResourceId, Timestamp>,
    /// Whether `CloudWatch` answers.
    answers: bool,
    live_jobs: LiveJobs,
    policy: Policy,
    /// The notifications of the last run.
    messages_text: Vec<String>,
    log: String,
}

fn enforcing_account(volumes: impl IntoIterator<Item = VolumeBuilder>, config: &str) -> Account {
    let volumes = volumes.into_iter().map(VolumeBuilder::build).collect();
    Account {
        aws: AwsInMemory::new(Vec::new(), volumes, time(NOW)),
        used: BTreeMap::new(),
        answers: true,
        live_jobs: LiveJobs::new(),
        policy: enforcing(config),
        messages_text: Vec::new(),
        log: String::new(),
    }
}

impl Account {
    fn volume(&mut self) -> &mut Volume {
        &mut self.aws.storage.volumes.items[0]
    }

    /// What the log says about each volume: unattached since then, and the runs that requested snapshots.
    fn unattached_since(mut self, since: &str) -> Self {
        for volume in &self.aws.storage.volumes.items {
            let log = self.aws.memory.entry(volume.region.clone()).or_default();
            log.resources.insert(volume.id.clone(), ResourceRecord::about(time(since)));
        }
        self
    }

    fn tag_of(&self, key: &str) -> Option<&str> {
        self.aws.storage.volumes.items[0].tags.get(key).map(String::as_str)
    }

    fn attach(&mut self, instance: &str) -> &mut Self {
        let volume = self.volume();
        (volume.state, volume.attached_to) = (VolumeState::InUse, vec![instance.into()]);
        self
    }

    fn detach(&mut self) -> &mut Self {
        let volume = self.volume();
        (volume.state, volume.attached_to) = (VolumeState::Available, Vec::new());
        self
    }

    fn config(&mut self, text: &str) -> &mut Self {
        self.policy.config = Config::read(text).unwrap();
        self
    }

    fn snapshots_are(&mut self, state: SnapshotState) -> &mut Self {
        for snapshot in &mut self.aws.storage.snapshots {
            snapshot.state = state;
        }
        self
    }

    fn asked(&self) -> Vec<VolumeUseQuery> {
        volume_use_queries(&self.aws.storage, &self.live_jobs, &self.aws.memory, &self.policy, self.aws.now)
    }

    fn uses(&self) -> BTreeMap<ResourceId, VolumeUse> {
        let used = |ask: VolumeUseQuery| {
            let since = self.used.get(&ask.volume).filter(|at| **at >= ask.since);
            (ask.volume, since.map_or(VolumeUse::None, |at| VolumeUse::UsedAt(*at)))
        };
        self.asked().into_iter().filter(|_| self.answers).map(used).collect()
    }

    /// The explanation of each volume equals its step in the plan, except for the limits, which count all.
    fn is_explained_as(&self, plan: &Plan) {
        let uses = self.uses();
        let explained = |id: &ResourceId| {
            explain(&self.aws.storage, &uses, &self.live_jobs, &self.aws.memory, &self.policy, self.aws.now, id)
                .unwrap()
        };
        for step in &plan.steps {
            let explained = explained(&step.target.resource);
            let PlanDecision::Step(said) = &explained.decision else { panic!("{explained:?} is to be {step:?}") };
            assert_eq!(Step { held: None, ..Step::clone(said) }, Step { held: None, ..step.clone() });
            let [row] = &explained.rules[..] else { panic!("{explained:?}") };
            match step.action.announcement() {
                Some(Announcement::Mark(mark)) => {
                    assert_eq!(row.deadline, Some(mark[&Rule::Orphaned].deadline));
                }
                Some(Announcement::Notify) => {
                    assert_eq!((row.verdict, row.notify_only), (RuleVerdict::Violated, step.notify_only));
                }
                None if step.action.ending().is_some() => {
                    let not_queried_again = step.evidence.is_repeated();
                    let finds = if not_queried_again { RuleVerdict::Unknown } else { RuleVerdict::Violated };
                    assert!(row.verdict == finds && row.announced && row.deadline <= Some(self.aws.now), "{row:?}");
                }
                Some(Announcement::Unmark { .. }) | None => {}
            }
        }
        for skipped in &plan.skipped {
            let explained = explained(&skipped.target.resource);
            let PlanDecision::Skipped(said) = &explained.decision else { panic!("{explained:?} is to be {skipped:?}") };
            assert_eq!(said.as_ref(), skipped);
        }
    }

    /// One run at `month-day hour:minute` of 2026.
    fn run(&mut self, at: &str) -> &mut Self {
        self.aws.now = time(&format!("2026-{}:00Z", at.replace(' ', "T")));
        let plan =
            decide(&self.aws.storage, &self.uses(), &self.live_jobs, &self.aws.memory, &self.policy, self.aws.now);
        self.is_explained_as(&plan);
        let report = self.aws.carry_out(plan, &self.policy);
        self.messages_text = self.aws.messages.iter().map(|message| message.body.clone()).collect();
        self.write_down(at, &report);
        self
    }

    /// `09-01 12:00 mark orphaned=…; told`; ids only where there are several.
    fn write_down(&mut self, at: &str, report: &Report) {
        let alone = report.steps.len() + report.skipped.len() == 1;
        let who = |target: &Target| if alone { String::new() } else { format!("{} ", target.resource) };
        let mut did: Vec<String> = Vec::new();
        for (step, outcome) in &report.steps {
            let outcome =
                if outcome.kind == OutcomeKind::Done { String::new() } else { format!(" ({:?})", outcome.kind) };
            did.push(format!("{}{}{outcome}", who(&step.target), show(step)));
        }
        for skipped in &report.skipped {
            let reason = serde_json::to_value(skipped.reason).unwrap();
            did.push(format!("{}skipped {}", who(&skipped.target), reason.as_str().unwrap()));
        }
        let told = if self.messages_text.is_empty() { "" } else { " | notified" };
        let _ = writeln!(self.log, "{at} {}{told}", did.join(", "));
    }
}

fn show(step: &Step) -> String {
    match &step.action {
        Action::Volume(_, VolumeAction::Announce(Announcement::Mark(mark))) => {
            let earliest = Mark::earliest(mark.iter().map(|(rule, announced)| (*rule, *announced)));
            format!("mark {}", earliest.unwrap())
        }
        Action::Volume(_, VolumeAction::Announce(Announcement::Unmark { also, .. })) => {
            format!("unmark{}", if also.is_some() { " and forget" } else { "" })
        }
        Action::Volume(_, VolumeAction::TagUnattachedSince(at)) => format!("{UNATTACHED_SINCE}={at}"),
        Action::Volume(_, VolumeAction::Delete { safety: Some(safety), .. }) => {
            format!("delete, kept by {safety}")
        }
        Action::Snapshot(_, SnapshotAction::AnnounceExpiry(expiry)) => {
            format!("announce its deletion at {}", expiry.kept_until)
        }
        other => other.as_str().to_owned(),
    }
}
