//! The state machine over several runs: what is remembered, marked, snapshotted, deleted, told and spared.

mod asking;
mod own_snapshots;
mod owners;
mod spared_ones;
mod whole_lives;

use std::fmt::Write as _;

use insta::assert_snapshot;
use model::config::Config;
use model::curfew_tags::{DELETED_AT, MARKED};
use model::volume::VolumeState;
use notify::{messages, notifications, update_log};
use plan::report::{OutcomeKind, Report, StepOutcome};

use super::*;
use crate::explain::{PlanDecision, RuleVerdict};
use crate::fixture::{VolumeBuilder, enforcing, time, volume};

const ENFORCED: &str = "mode = \"enforce\"\n";

/// An account of volumes, and what becomes of them from run to run.
struct Account {
    storage: ObservedStorage,
    /// What shows use, and when.
    used: BTreeMap<ResourceId, Timestamp>,
    /// Whether `CloudWatch` answers.
    answers: bool,
    live_jobs: LiveJobs,
    memory: NotificationLogs,
    policy: Policy,
    now: Timestamp,
    /// How new snapshots begin.
    new_snapshots: SnapshotState,
    /// What people were told in the last run.
    told: Vec<String>,
    log: String,
}

fn enforcing_account(volumes: impl IntoIterator<Item = VolumeBuilder>, config: &str) -> Account {
    let mut storage = ObservedStorage::default();
    storage.volumes.items = volumes.into_iter().map(VolumeBuilder::build).collect();
    Account {
        storage,
        used: BTreeMap::new(),
        answers: true,
        live_jobs: LiveJobs::new(),
        memory: NotificationLogs::from([("us-east-1".into(), NotificationLog::default())]),
        policy: enforcing(config),
        now: time(crate::fixture::NOW),
        new_snapshots: SnapshotState::Completed,
        told: Vec::new(),
        log: String::new(),
    }
}

impl Account {
    fn volume(&mut self) -> &mut Volume {
        &mut self.storage.volumes.items[0]
    }

    fn tag_of(&self, key: &str) -> Option<&str> {
        self.storage.volumes.items[0].tags.get(key).map(String::as_str)
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
        for snapshot in &mut self.storage.snapshots {
            snapshot.state = state;
        }
        self
    }

    fn asked(&self) -> Vec<VolumeUseQuery> {
        volume_use_queries(&self.storage, &self.live_jobs, &self.memory, &self.policy, self.now)
    }

    fn uses(&self) -> BTreeMap<ResourceId, VolumeUse> {
        let used = |ask: VolumeUseQuery| {
            let since = self.used.get(&ask.volume).filter(|at| **at >= ask.since);
            (ask.volume, since.map_or(VolumeUse::None, |at| VolumeUse::UsedAt(*at)))
        };
        self.asked().into_iter().filter(|_| self.answers).map(used).collect()
    }

    /// What would be explained of each is what is planned, limits aside, which count all.
    fn is_explained_as(&self, plan: &Plan) {
        let uses = self.uses();
        let explained = |id: &ResourceId| {
            explain(&self.storage, &uses, &self.live_jobs, &self.memory, &self.policy, self.now, id).unwrap()
        };
        for step in &plan.steps {
            let explained = explained(&step.target.resource);
            let PlanDecision::Step(said) = &explained.decision else { panic!("{explained:?} is to be {step:?}") };
            assert_eq!(Step { held: None, ..Step::clone(said) }, Step { held: None, ..step.clone() });
            let [row] = &explained.rules[..] else { panic!("{explained:?}") };
            match &step.action {
                Action::Mark(mark) => assert_eq!(row.deadline, Some(mark.entries[&Rule::Orphaned].deadline)),
                Action::Snapshot { .. } | Action::Delete { .. } => {
                    let not_asked_again = matches!(step.evidence, Evidence::Repeated(_));
                    let finds = if not_asked_again { RuleVerdict::Unknown } else { RuleVerdict::Violated };
                    assert!(row.verdict == finds && row.announced && row.deadline <= Some(self.now), "{row:?}");
                }
                Action::Notify => assert_eq!((row.verdict, row.notify_only), (RuleVerdict::Violated, step.notify_only)),
                _ => {}
            }
        }
        for skipped in &plan.skipped {
            let explained = explained(&skipped.target.resource);
            let PlanDecision::Skipped(said) = &explained.decision else { panic!("{explained:?} is to be {skipped:?}") };
            assert_eq!(said.as_ref(), skipped);
        }
    }

    /// One run at `month-day hour:minute` of 2026: ask, decide, act, tell, mark, remember.
    fn run(&mut self, at: &str) -> &mut Self {
        self.now = time(&format!("2026-{}:00Z", at.replace(' ', "T")));
        let plan = decide(&self.storage, &self.uses(), &self.live_jobs, &self.memory, &self.policy, self.now);
        self.is_explained_as(&plan);
        let home = Region::from("us-east-1");
        let mut report =
            Report::from_plan(plan, "reap-volumes", "run-1".into(), self.now, self.policy.ceiling, vec![home.clone()]);
        self.act(&mut report, |step| !matches!(step.action, Action::Mark(_)));
        let news = notifications(&report, &self.memory, &home, self.now);
        self.told = messages(&report, &news, &self.memory).into_iter().map(|message| message.body).collect();
        let teams = news.iter().map(|news| news.team.clone()).collect();
        self.act(&mut report, |step| matches!(step.action, Action::Mark(_)));
        self.memory = update_log(&self.memory, &report, &news, &[], &teams, self.now);
        self.write_down(at, &report);
        self
    }

    fn act(&mut self, report: &mut Report, wanted: impl Fn(&Step) -> bool) {
        for (step, outcome) in report.steps.iter_mut().filter(|(step, _)| wanted(step)) {
            *outcome = match (step.held, step.mode) {
                (Some(held), _) => StepOutcome::with(OutcomeKind::NotReached, held.to_string()),
                (None, Mode::Observe) => StepOutcome::from_kind(OutcomeKind::Observed),
                (None, Mode::Enforce) => {
                    self.write(step);
                    StepOutcome::from_kind(OutcomeKind::Done)
                }
            };
        }
    }

    /// What EC2 holds after a step was done.
    fn write(&mut self, step: &Step) {
        let ObservedStorage { volumes, snapshots, .. } = &mut self.storage;
        let place = volumes.items.iter().position(|volume| volume.id == step.target.resource);
        let Some(place) = place else {
            let place = snapshots.iter().position(|snapshot| snapshot.id == step.target.resource).unwrap();
            match &step.action {
                Action::Date { key, at } => drop(snapshots[place].tags.insert((*key).to_owned(), at.to_string())),
                Action::Delete { .. } => drop(snapshots.remove(place)),
                other => panic!("a snapshot takes no {}", other.as_str()),
            }
            return;
        };
        let volume = &mut volumes.items[place];
        match &step.action {
            Action::Notify => {}
            Action::Mark(mark) => {
                volume.tags.insert(MARKED.to_owned(), mark.to_string());
                let Evidence::Orphaned(orphaned) = &step.evidence else { panic!("{:?}", step.evidence) };
                volume.tags.insert(UNATTACHED_SINCE.to_owned(), orphaned.unattached_since.to_string());
            }
            Action::Date { key, at } => drop(volume.tags.insert((*key).to_owned(), at.to_string())),
            Action::Unmark { remaining, also } => {
                assert_eq!(*remaining, None);
                volume.tags.remove(MARKED);
                also.map(|key| volume.tags.remove(key));
            }
            Action::Snapshot { tags } => snapshots.push(Snapshot {
                id: ResourceId::new(format!("snap-{}", snapshots.len() + 1)),
                region: volume.region.clone(),
                of_volume: volume.id.clone(),
                state: self.new_snapshots,
                started_at: self.now,
                size_gib: volume.size_gib,
                tags: tags.clone(),
            }),
            Action::Delete { expiring, .. } => {
                drop(volumes.items.remove(place));
                for snapshot in snapshots.iter_mut().filter(|snapshot| expiring.contains(&snapshot.id)) {
                    snapshot.tags.insert(DELETED_AT.to_owned(), self.now.to_string());
                }
            }
            other => panic!("a volume takes no {}", other.as_str()),
        }
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
            did.push(format!("{}spared {}", who(&skipped.target), reason.as_str().unwrap()));
        }
        let told = if self.told.is_empty() { "" } else { " | told" };
        let _ = writeln!(self.log, "{at} {}{told}", did.join(", "));
    }
}

fn show(step: &Step) -> String {
    match &step.action {
        Action::Mark(mark) => format!("mark {}", mark.to_string().split_once(' ').unwrap().1),
        Action::Date { key, at } => format!("{key}={at}"),
        Action::Unmark { also, .. } => format!("unmark{}", if also.is_some() { " and forget" } else { "" }),
        Action::Delete { safety: Some(safety), .. } => format!("delete, kept by {}", safety.snapshot),
        other => other.as_str().to_owned(),
    }
}
