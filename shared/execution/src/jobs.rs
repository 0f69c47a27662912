//! Jobs: every hint only names jobs to reconcile now, and the state machine of `jobs` decides what to do for each.
//!
//! The order is the contract. The new state is written first, over the version that was read; a run that loses that swap stops and does nothing.
//! Then comes the effect, which is idempotent; its result is a fact of the next round. Notifications come last, and are recorded only after SNS
//! accepted the message. A failure of one job never stops the others.

mod agents;
mod answer_cache;
mod backlog;
mod boxes;
mod dependencies;
mod effects;
mod facts;
mod find;
mod gang;
mod groups;
mod inbox;
mod money;
mod notifications;
mod ranking;
mod schedules;
mod sweeps;
mod takeover;
mod triggers;
mod work;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::join3;
use jiff::Timestamp;
use jobs::takeover::Takeover;
use jobs::trigger::TriggerObject;
use jobs::{Job, JobId, LaunchRefusals, Phase};
use model::config::{Config, ConfigInForce};
use model::home::StateBucket;
use model::id::{Region, ResourceId, TeamName};
use model::mode::Mode;
use model::notification_log::{Notification, NotificationKind};
use model::observation::{Gap, GapKind};
use plan::report::{JobStep, JobsReport, RunUsage};
use ports::{
    BacklogDocuments, BudgetDocuments, ConfigLoadError, Documents, InboxDocuments, JobCloud, ReconcilerDocuments,
    StoreError, SweepDocuments, TriggerDocuments, Versioned,
};
use report::AccountMetrics;

use crate::run::{home_gap, hub_gap};
use crate::{RESERVE, Run, answer_timeout, catch_bug, prices};

pub use agents::AgentBinaries;
pub use answer_cache::AnswerCache;
use facts::MachineSightings;
pub use jobs::Arrival;

/// All documents of a run about jobs.
pub trait JobRunDocuments:
    Documents
    + BudgetDocuments
    + ReconcilerDocuments
    + InboxDocuments
    + BacklogDocuments
    + SweepDocuments
    + TriggerDocuments
{
}

impl<D> JobRunDocuments for D where
    D: Documents
        + BudgetDocuments
        + ReconcilerDocuments
        + InboxDocuments
        + BacklogDocuments
        + SweepDocuments
        + TriggerDocuments
{
}

/// A hint from an event, which tells a run what to read now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventHint {
    /// The inbox, and every unfinished job.
    All,
    /// One object of a bucket.
    Object {
        bucket: String,
        /// The key as the event has it.
        key: String,
        /// The key that this would be if it were encoded, if that differs.
        decoded: Option<String>,
    },
    Instance {
        region: Region,
        instance: ResourceId,
        /// `true` if AWS interrupts the instance in two minutes.
        warned: bool,
    },
}

/// The resources and settings that this deployment provides to jobs.
#[derive(Debug)]
pub struct DeploymentSetup {
    /// The agents, which each runs first.
    pub agents: AgentBinaries,
    /// The name of the instance profile for jobs that name none; `None`: they get none.
    pub profile: Option<String>,
    /// The buckets whose events make jobs by triggers.
    pub trigger_buckets: Vec<String>,
    /// `true` if schedules make jobs.
    pub runs_schedules: bool,
    /// The copy of the state bucket, which machines are told.
    pub replica: Option<StateBucket>,
    /// `true` if the state bucket was a copy, so that states may be older than machines.
    pub is_restored: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The configuration was refused, or could not be read.
    #[error(transparent)]
    Configuration(#[from] ConfigLoadError),
    /// The event names a bucket that is not Curfew's.
    #[error(
        "the event is of the bucket {0}, and the state bucket is {1}; nothing was done. Correct the rule that sent it"
    )]
    ForeignBucket(String, String),
    /// The bucket was a copy, and the record of the takeover could not be read.
    #[error(
        "it is unknown since when this stack acts, and states may be older than machines, so nothing was done: {0}"
    )]
    Takeover(StoreError),
    /// An arrival was not recorded. The queue brings the events back.
    #[error("an arrival was not recorded for the triggers, so its event is tried again: {0}")]
    Arrivals(StoreError),
    /// Another stack may act. The queue brings the events back.
    #[error("an arrival was not recorded for the triggers, so its event is tried again: {0}")]
    Standby(String),
}

/// The state of one run.
struct JobsRun<'a, C, D> {
    run: &'a Run<'a, C, D>,
    config: &'a Config,
    /// `true` in enforce mode.
    enforces: bool,
    subscription: ConfirmedSubscription,
    setup: &'a DeploymentSetup,
    /// `false`: nothing is accepted, because the hub may allow less than the account's own configuration.
    is_hub_known: bool,
    /// The instance of the interruption warning.
    warned: Option<ResourceId>,
    /// The takeover by which this stack acts.
    takeover: Option<Takeover>,
    /// Instances that were described for all jobs together.
    sights: MachineSightings,
    /// The states of the jobs that other jobs wait for.
    dependencies: dependencies::KnownDependencies,
    sweeps: sweeps::KnownSweeps,
    /// Answers of EC2 for one job that hold for the others.
    asked: AnswerCache,
    prices: prices::PriceCache,
    /// The teams with accepted jobs, once a job needs to know.
    teams: tokio::sync::OnceCell<Vec<TeamName>>,
    refusals: Mutex<LaunchRefusals>,
    /// Jobs write the budgets one after the other, so those of one run do not lose to each other.
    budgets: tokio::sync::Mutex<()>,
    /// Jobs count the boxes of a person and take theirs one after the other.
    box_takes: tokio::sync::Mutex<()>,
    findings: Mutex<RunFindings>,
}

#[derive(Debug, Default)]
struct RunFindings {
    steps: Vec<JobStep>,
    gaps: Vec<Gap>,
    notifications: Vec<Notification>,
    /// Sweeps whose members are all over, each with the notification of that.
    ended_sweeps: Vec<(JobId, Notification)>,
    /// The answers to documents of sweeps, which are written after the messages.
    accepted_sweeps: Vec<inbox::Acceptance>,
}

impl<C: JobCloud, D: JobRunDocuments> JobsRun<'_, C, D> {
    /// Returns `true` if the run may begin or end something of this job.
    fn may_act(&self, job: &Job) -> bool {
        self.enforces && (self.subscription == ConfirmedSubscription::Found || was_launched(job))
    }

    fn with_findings<T>(&self, add: impl FnOnce(&mut RunFindings) -> T) -> T {
        add(&mut self.findings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn step(&self, step: JobStep) {
        self.with_findings(|found| found.steps.push(step));
    }

    fn gap(&self, gap: Gap) {
        self.with_findings(|found| {
            if !found.gaps.contains(&gap) {
                found.gaps.push(gap);
            }
        });
    }

    /// Does work about one job, sweep or document. A bug in it is a gap that names that one, and the others go on.
    async fn or_gap<T: Default>(&self, name: impl Display, work: impl Future<Output = T>) -> T {
        catch_bug(work).await.unwrap_or_else(|bug| {
            self.gap(Gap::for_bug(&bug, self.run.cloud.home(), &ResourceId::new(name.to_string())));
            T::default()
        })
    }

    fn notify(&self, notification: Notification) {
        self.with_findings(|found| {
            // One of each topic is enough, such as that of one member of a sweep.
            let is_state = notification.kind != NotificationKind::Event;
            let is_same = |one: &Notification| {
                is_state
                    && (&one.team, &one.resource, &one.kind)
                        == (&notification.team, &notification.resource, &notification.kind)
            };
            if !found.notifications.iter().any(|one| is_same(one) || *one == notification) {
                found.notifications.push(notification);
            }
        });
    }

    /// Reconciles each job. A run about all jobs publishes the number of those that are held, unless it could not read each; the state of a job that
    /// another run has written is unknown.
    async fn reconcile_counted(&self, named: Vec<find::NamedJob>, is_of_all: bool) -> Vec<(Job, Option<String>)> {
        let is_all = is_of_all && named.len() < find::TEAM_JOBS_MAX;
        let Some(publisher) = self.run.metrics.as_ref().filter(|_| is_all) else {
            return self.reconcile_all(named).await;
        };
        let has_state = |(_, read): &&find::NamedJob| read.value.is_some();
        let unfinished: Vec<JobId> = named.iter().filter(has_state).map(|(id, _)| id.clone()).collect();
        let worked = self.reconcile_all(named).await;
        if self.with_findings(|found| found.gaps.iter().all(|gap| gap.kind == GapKind::Readers)) {
            let is_held = |(job, _): &(Job, Option<String>)| (job.job.clone(), matches!(job.phase, Phase::Held(_)));
            let known: BTreeMap<JobId, bool> = worked.iter().map(is_held).collect();
            let jobs = unfinished.iter().map(|job| (&job.team, known.get(job).copied()));
            self.run.publish_metrics(&AccountMetrics::from_jobs(publisher.account, jobs));
        }
        worked
    }

    /// The time, in whole seconds, as documents and tags have it.
    fn now(&self) -> Timestamp {
        let now = (self.run.clock)();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    /// Returns the timeout of a call that begins now; `None` if it is too late to begin one.
    fn time_left(&self) -> Option<Duration> {
        let left = self.run.deadline.duration_since((self.run.clock)());
        (left > RESERVE).then(|| answer_timeout(left))
    }
}

/// Finds the jobs that a hint names, reconciles each, and notifies people.
///
/// # Errors
/// If the configuration was refused or could not be read, the event names a foreign bucket, or the record of a takeover could not be read: nothing
/// was done. If an arrival was not recorded: all else was done.
pub async fn reconcile(
    run: &Run<'_, impl JobCloud, impl JobRunDocuments>,
    setup: &DeploymentSetup,
    mut hint: EventHint,
    arrivals: Vec<Arrival>,
) -> Result<JobsReport, ReconcileError> {
    let (here, mut arrivals): (Vec<_>, Vec<_>) =
        arrivals.into_iter().partition(|one| one.bucket == run.store.bucket_name());
    let triggers: Vec<_> = here.iter().filter_map(|one| TriggerObject::from_key(&one.key)).collect();
    arrivals.retain(|arrival| setup.trigger_buckets.contains(&arrival.bucket));
    if let EventHint::Object { bucket, .. } = &hint
        && *bucket != run.store.bucket_name()
    {
        if arrivals.is_empty() {
            return Err(ReconcileError::ForeignBucket(bucket.clone(), run.store.bucket_name().to_owned()));
        }
        hint = EventHint::All;
    }
    // Between an interruption and the next launch every second counts.
    let (config, (subscription, subscription_gap), machines) =
        Box::pin(join3(run.config(), find_subscription(run), find::observe_hinted_machine(run, &hint))).await;
    let ConfigInForce { config, hub } = config?;
    let is_hub_known = hub.unknown().is_none();
    let subscription = if is_hub_known { subscription } else { ConfirmedSubscription::Unknown };
    let takeover = read_takeover(run.store, setup).await?;
    let is_subscription_known = subscription != ConfirmedSubscription::Unknown;
    let mut jobs = JobsRun {
        run,
        config: &config,
        enforces: run.mode == Mode::Enforce,
        subscription,
        setup,
        is_hub_known,
        warned: warned_instance(&hint),
        takeover,
        sights: MachineSightings::default(),
        dependencies: dependencies::KnownDependencies::default(),
        sweeps: sweeps::KnownSweeps::default(),
        asked: AnswerCache::default(),
        prices: prices::PriceCache::default(),
        teams: tokio::sync::OnceCell::default(),
        refusals: Mutex::default(),
        budgets: tokio::sync::Mutex::default(),
        box_takes: tokio::sync::Mutex::default(),
        findings: Mutex::default(),
    };
    let home = run.cloud.home();
    let stack_gap = home_gap(&run.home, home, run.function);
    for gap in subscription_gap.into_iter().chain(hub_gap(&hub, home, run.function)).chain(stack_gap) {
        jobs.gap(gap);
    }
    if let Some(reason) = run.standby_reason() {
        if !arrivals.is_empty() {
            return Err(ReconcileError::Standby(reason.to_owned()));
        }
        return Ok(Box::pin(jobs.notify_and_record(empty_report(run), Vec::new(), hint == EventHint::All)).await);
    }
    Box::pin(jobs.judge_written(&triggers)).await;
    // Before the inbox is read: what they put there is accepted in this run.
    let recorded = if hint == EventHint::All { Box::pin(jobs.run_triggers(&arrivals)).await } else { Ok(()) };
    let mut named = Box::pin(jobs.named_by(&hint, machines)).await;
    let seen = named.len();
    // While the subscriptions are unknown, the run begins no job; the next run asks again.
    named.retain(|(_, read)| is_subscription_known || read.value.as_ref().is_some_and(was_launched));
    let worked = jobs.reconcile_counted(named, is_subscription_known && hint == EventHint::All).await;
    if is_subscription_known && hint == EventHint::All {
        Box::pin(jobs.find_ended_sweeps()).await;
        Box::pin(jobs.release_strays()).await;
        Box::pin(jobs.delete_left_groups(&worked)).await;
    }
    let steps = jobs.with_findings(|found| std::mem::take(&mut found.steps));
    let report = JobsReport { seen, steps, ..empty_report(run) };
    let report = Box::pin(jobs.notify_and_record(report, worked, hint == EventHint::All)).await;
    recorded.map(|()| report).map_err(ReconcileError::Arrivals)
}

/// The takeover by which this stack acts; without a call `None` if its bucket was no copy.
async fn read_takeover(
    store: &impl ReconcilerDocuments,
    setup: &DeploymentSetup,
) -> Result<Option<Takeover>, ReconcileError> {
    if !setup.is_restored {
        return Ok(None);
    }
    Box::pin(store.read_takeover()).await.map_err(ReconcileError::Takeover)
}

/// The report of a run that did nothing.
fn empty_report<C, D>(run: &Run<'_, C, D>) -> JobsReport {
    JobsReport {
        function: run.function,
        run: run.id.clone(),
        at: run.now,
        mode: run.mode,
        seen: 0,
        steps: Vec::new(),
        gaps: Vec::new(),
        usage: RunUsage::default(),
    }
}

fn warned_instance(hint: &EventHint) -> Option<ResourceId> {
    match hint {
        EventHint::Instance { instance, warned: true, .. } => Some(instance.clone()),
        _ => None,
    }
}

/// Result of looking for a confirmed subscription of the topic. No job is launched for the first time without one; a job that was launched
/// goes on, also while SNS has suspended the only subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConfirmedSubscription {
    /// One was found, or the run only observes.
    Found,
    NotFound,
    Unknown,
}

async fn find_subscription(run: &Run<'_, impl JobCloud, impl JobRunDocuments>) -> (ConfirmedSubscription, Option<Gap>) {
    if run.mode == Mode::Observe {
        return (ConfirmedSubscription::Found, None);
    }
    let topics = &run.channels.topics;
    match run.cloud.has_confirmed_subscription(topics).await {
        Ok(true) => (ConfirmedSubscription::Found, None),
        Ok(false) => {
            let error = format!(
                "the topic {} has no confirmed subscription, so Curfew launches no new job; subscribe somebody and confirm the \
                 e-mail",
                topics.teams
            );
            let gap = Gap::new(run.cloud.home(), "sns:ListSubscriptionsByTopic", error, GapKind::Readers);
            (ConfirmedSubscription::NotFound, Some(gap))
        }
        Err(error) => (ConfirmedSubscription::Unknown, Some(error.gap())),
    }
}

const fn was_launched(job: &Job) -> bool {
    job.attempt > 0
}

type ReadJob = Versioned<Option<Job>>;
