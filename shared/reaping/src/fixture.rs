//! Fixtures for tests: the input of a rule, policies, logs, and jobs that instances name.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::must_use_candidate,
    clippy::missing_panics_doc,
    clippy::return_self_not_must_use,
    reason = "only tests use it"
)]

use std::collections::BTreeMap;

use billing::budget::{BudgetHolder, BudgetStatus, BudgetStatuses, BudgetVerdict};
use billing::price::PriceBook;
use jiff::{SignedDuration, Timestamp};
use jobs::{
    GpuSpec, Job, JobId, JobMachine, JobTerms, LaunchInProgress, Lifecycle, MachineSpec, Phase, RefusedCandidates,
};
use model::ceiling::Ceiling;
use model::config::Config;
use model::curfew_tags::{CurfewTags, EXPIRES_AT, MARKED, STOPPED};
pub use model::fixture::*;
use model::gang::Gangs;
use model::id::ResourceId;
use model::instance::{Instance, Tags};
use model::mark::AnnouncedAction;
use model::mode::Mode;
use model::moment;
use model::moment::before;
use model::money::{Amount, Rate};
use model::notification_log::{CarriedOut, NotificationLog, ResourceRecord};
use model::rule::{ResourceAction, Rule};
use model::sagemaker::{ActivitySource, InactiveEvidence};
use model::usage::Usage;
use plan::Evidence;

use crate::job_ownership::JobStates;
use crate::policy::{Policy, Verdict};
use crate::rules::orphaned::VolumeSubject;
use crate::rules::{self, expired, idle as idleness, orphaned as orphans};
use crate::subject::{Subject, SubjectKind};

/// The part of an id by which a test makes every decision about a resource panic.
pub const PLANTED_BUG: &str = "planted-bug";

pub(crate) fn panic_if_planted(id: &ResourceId) {
    assert!(!id.as_str().contains(PLANTED_BUG), "planted for a test");
}

/// The input of a rule. Without other values: unknown usage, the default configuration, noon.
pub struct RuleInput {
    instance: Instance,
    usage: Usage,
    config: Config,
    budgets: BudgetStatuses,
    jobs: JobStates,
    expiry_seen: Option<Timestamp>,
    now: Timestamp,
}

impl From<InstanceBuilder> for RuleInput {
    fn from(builder: InstanceBuilder) -> Self {
        Self {
            instance: builder.build(),
            usage: unknown(),
            config: Config::default(),
            budgets: BudgetStatuses::default(),
            jobs: JobStates::default(),
            expiry_seen: None,
            now: time(NOW),
        }
    }
}

impl RuleInput {
    pub fn usage(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    pub fn config(self, text: &str) -> Self {
        Self { config: Config::read(text).unwrap(), ..self }
    }

    pub fn budgets(self, budgets: BudgetStatuses) -> Self {
        Self { budgets, ..self }
    }

    pub fn jobs(self, jobs: JobStates) -> Self {
        Self { jobs, ..self }
    }

    pub fn expiry_seen(self, at: &str) -> Self {
        Self { expiry_seen: Some(time(at)), ..self }
    }

    pub fn at_time(self, now: &str) -> Self {
        Self { now: time(now), ..self }
    }

    pub fn judge(&self, rule: impl Fn(Subject<'_>) -> Verdict) -> Verdict {
        let curfew_tags = CurfewTags::read(&self.instance).unwrap();
        rule(Subject {
            kind: SubjectKind::Instance { instance: &self.instance, usage: &self.usage },
            tags: &self.instance.tags,
            curfew_tags: &curfew_tags,
            config: &self.config,
            budgets: &self.budgets,
            ownership: self.jobs.ownership(&self.instance),
            job_deadline: self.jobs.deadline(&self.instance),
            expiry_seen: self.expiry_seen,
            created_at: self.instance.launched_at,
            running_since: self.instance.launched_at,
            now: self.now,
        })
    }
}

/// Evidence of each kind, with every fact that it may have.
pub fn evidence_of_each_rule() -> Vec<Evidence> {
    let evidence_of = |rule, input: RuleInput| match input.judge(|subject| rules::judge(rule, subject)) {
        Verdict::Violated(violation) => violation.evidence,
        verdict => panic!("{rule}: {verdict:?}"),
    };
    let at = time(NOW);
    let spent = BudgetStatus {
        verdict: BudgetVerdict::Stop,
        as_of: at,
        month: "2026-09".to_owned(),
        spent: Amount::from_usd(120.0),
        others: Amount::ZERO,
        reserved: Amount::ZERO,
    };
    let budgets = BudgetStatuses(BTreeMap::from([(BudgetHolder::Team("vision".into()), spent)]));
    let budget = "[teams.vision]\nmonthly_budget_usd = 100\nover_budget = \"stop\"";
    let no_job = JobStates(BTreeMap::from([(JobId::read("vision/llama-0123abcd").unwrap(), None)]));
    let not_owned = untagged().tag("curfew:job", "vision/llama-0123abcd").tag("curfew:attempt", "1");
    let volume = volume().build();
    let config = Config::default();
    let orphaned = VolumeSubject {
        volume: &volume,
        unattached_since: at,
        used: None,
        tags_to_keep: 0,
        price: None,
        last_host: Some(&ResourceId::from("i-0abc")),
        rule: &config.volumes,
        now: at,
    };
    let inactive =
        InactiveEvidence { from: at, to: at, shown_by: ActivitySource::Requests, gpu_max_percent: Some(0.0) };
    vec![
        evidence_of(Rule::Expired, instance().tag(EXPIRES_AT, "2026-09-01T11:00:00Z").into()),
        evidence_of(Rule::OverBudget, RuleInput::from(instance()).config(budget).budgets(budgets)),
        evidence_of(Rule::Untagged, RuleInput::from(not_owned).jobs(no_job)),
        evidence_of(
            Rule::UnlistedProject,
            RuleInput::from(instance().tag("Project", "doom")).config("[projects]\nallowed = [\"atlas\"]"),
        ),
        evidence_of(Rule::Idle, RuleInput::from(instance()).usage(idle())),
        evidence_of(Rule::Idle, RuleInput::from(instance()).usage(idle_by_power())),
        evidence_of(Rule::Hours, instance().tag("curfew:hours", "Mon-Fri 06:00-12:10 UTC").into()),
        evidence_of(Rule::Lifetime, instance().launched("2026-08-01T00:00:00Z").into()),
        orphaned.evidence(),
        expired::evidence_of_snapshot("vol-0abc".into(), at, at),
        orphans::evidence_of_failed_snapshot(&"vol-0abc".into(), &"snap-0def".into()),
        idleness::evidence_of_sagemaker(&inactive),
        Evidence::resolved(Rule::Idle),
        Evidence::repeated(Rule::Idle),
    ]
}

/// An announcement of an hour before noon, in enforce mode.
pub fn announced(ending: ResourceAction, deadline: &str) -> AnnouncedAction {
    AnnouncedAction { ending, mode: Mode::Enforce, at: time("2026-09-01T11:00:00Z"), deadline: time(deadline) }
}

/// The record of a resource whose labels Curfew wrote itself: announced an hour before each deadline, and its expiry seen in time.
pub fn record_of_labels(since: Timestamp, tags: &Tags) -> ResourceRecord {
    let announced = tags.get(MARKED).into_iter().flat_map(|mark| mark.split(' ')).filter_map(|word| {
        let (rule, announced) = word.split_once('=')?;
        let (ending, deadline) = announced.split_once('@')?;
        let deadline = time(deadline);
        let ending = ResourceAction::ALL.into_iter().find(|one| one.as_str() == ending)?;
        let at = before(deadline, SignedDuration::from_hours(1));
        Some((Rule::read(rule)?, AnnouncedAction { ending, mode: Mode::Enforce, at, deadline }))
    });
    let carried_out = tags.get(STOPPED).and_then(|label| {
        let (rule, at) = label.split_once(' ')?;
        Some(CarriedOut { rule: Rule::read(rule)?, action: ResourceAction::Stop, at: time(at) })
    });
    ResourceRecord {
        announced: announced.collect(),
        carried_out,
        expiry_seen: tags.get(EXPIRES_AT).and_then(|at| moment::read(at)),
        ..ResourceRecord::about(since)
    }
}

/// The log of a region with one such resource.
pub fn log_of_labels(id: &ResourceId, since: Timestamp, tags: &Tags) -> NotificationLog {
    let resources = BTreeMap::from([(id.clone(), record_of_labels(since, tags))]);
    NotificationLog { resources, ..NotificationLog::default() }
}

/// The log of a region with several.
pub fn log_of_instances<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> NotificationLog {
    let record = |one: &Instance| (one.id.clone(), record_of_labels(one.launched_at, &one.tags));
    NotificationLog { resources: instances.into_iter().map(record).collect(), ..NotificationLog::default() }
}

pub fn enforcing(config: &str) -> Policy {
    Policy {
        config: Config::read(config).unwrap(),
        ceiling: Ceiling::fixed(Mode::Enforce),
        prices: PriceBook::dated(),
        budgets: BudgetStatuses::default(),
        jobs: JobStates::default(),
        gangs: Gangs::default(),
    }
}

/// The states of all jobs: `vision/llama-0123abcd` alone, in this phase.
pub fn jobs(phase: Phase) -> JobStates {
    let id = JobId::read("vision/llama-0123abcd").unwrap();
    let terms = JobTerms {
        tags: BTreeMap::new(),
        gpu: GpuSpec { count: 1, nodes: 1, name: None, memory_gib_min: 0, types: Vec::new() },
        network: None,
        spot: None,
        max_runtime_seconds: 8 * 3600,
        finish_by: None,
        estimated_runtime_seconds: None,
        max_usd: None,
        max_rate: None,
        gpu_box: None,
        retries: 0,
        bucket_region: None,
        checkpoint: None,
        machine: MachineSpec::default(),
    };
    let job = Job { attempt: 2, phase, ..Job::submitted(id.clone(), None, terms, time(NOW)) };
    JobStates(BTreeMap::from([(id, Some(job))]))
}

/// The phase of a job whose machine is being launched.
pub fn launching() -> Phase {
    let at = time(NOW);
    Phase::Launching(LaunchInProgress {
        candidate: 0,
        pass: 1,
        at,
        ends_at: at,
        quotas: Vec::new(),
        avoid: None,
        unanswered: false,
        refused: RefusedCandidates::default(),
        replaces: None,
    })
}

/// The machine of its second attempt.
pub fn placed(instance: &str, region: &str) -> JobMachine {
    JobMachine {
        instance: instance.into(),
        members: Vec::new(),
        launch: String::new(),
        region: region.into(),
        zone: format!("{region}a"),
        instance_type: "g5.xlarge".into(),
        lifecycle: Lifecycle::OnDemand,
        rate_max: Rate::from_usd_micros_per_hour(1_006_000),
        rate: Rate::from_usd_micros_per_hour(1_006_000),
        transfer: None,
        attempt: 2,
        candidate: 0,
        launched_at: time("2026-08-31T12:00:00Z"),
        ends_at: time("2026-09-02T12:00:00Z"),
    }
}
