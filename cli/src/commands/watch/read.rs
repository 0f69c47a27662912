//! Reading the facts of a dashboard: one list of the instances of each region, and objects of the state bucket.
//!
//! The records of runs are listed only when another one is due, so that a refresh costs little more than the documents it reads.

use std::collections::BTreeMap;
use std::time::Duration;

use billing::budget::{Budget, BudgetHolder, BudgetMonth};
use futures::future::{join, join_all};
use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use jobs::{Job, JobId};
use model::channels::MessageTopics;
use model::config::Config;
use model::curfew_tags::JOB;
use model::id::Region;
use model::instance::Instance;
use model::mode::Mode;
use model::moment::after;
use model::notification_log::NotificationLogs;
use model::observation::{Observation, Observed};
use model::subscriptions::TopicSubscriptions;
use model::usage::ActivityCache;
use operator::doctor::runs::ScheduledFunction;
use operator::watch::{WatchFacts, WatchedJob, functions_to_read, holders_to_read};
use plan::report::RunRecord;
use reaping::job_ownership::JobStates;
use store::{ActivityDocuments as _, Documents as _, MachineDocuments as _, Store, StoreError};

use crate::command_error::{CommandError, describe_gap, describe_store_error};
use crate::commands::budget::read::read_documents;
use crate::context::CommandContext;
use crate::node_heartbeats::read_node_heartbeats;
use crate::resolve_job::states;

/// The timeout of a region.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Calls to the bucket at once.
const READS_AT_ONCE: usize = 16;
/// Each is two objects, and more jobs fit no screen.
const JOBS_MAX: usize = 200;
/// Interval at which a record that is due and missing is read again.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(1);
const REAPER: &str = "reap-instances";

/// Reads facts, again and again.
pub(super) struct FactsReader<'a> {
    context: &'a CommandContext,
    store: Store,
    topics: Option<MessageTopics>,
    runs: BTreeMap<&'static str, KnownRun>,
    /// The subscriptions of the topic, and when to read them again.
    subscriptions: Option<(TopicSubscriptions, Timestamp)>,
}

/// The newest record of a function, and when to look for another one.
struct KnownRun {
    record: Option<RunRecord>,
    look_again_at: Timestamp,
}

impl<'a> FactsReader<'a> {
    pub(super) const fn new(context: &'a CommandContext, store: Store, topics: Option<MessageTopics>) -> Self {
        Self { context, store, topics, runs: BTreeMap::new(), subscriptions: None }
    }

    /// Reads the facts as of `now`; `anew` also lists records that are not due.
    ///
    /// # Errors
    /// If the configuration could not be read: every judgement depends on it.
    pub(super) async fn read(&mut self, now: Timestamp, anew: bool) -> Result<WatchFacts, CommandError> {
        let config = self.store.read_config().await?;
        let mut problems = self.refresh_runs(now, anew).await;
        problems.extend(self.refresh_subscriptions(now).await);
        let store = &self.store;
        let (seen, (prices, (budgets, jobs))) = join(
            self.observe(&config),
            join(
                execution::prices::load(store, &config, now),
                join(read_budgets(store, &config, now), Box::pin(read_jobs(store))),
            ),
        )
        .await;
        let budgets = budgets.with_problems_in(&mut problems);
        let jobs = jobs.with_problems_in(&mut problems);
        let (regions, Observation { items: instances, gaps }) = seen;
        problems.extend(gaps.iter().map(describe_gap));
        let hiding = gaps.iter().filter(|gap| gap.kind.hides_resources());
        let incomplete_regions = hiding.map(|gap| gap.region.clone()).collect();
        let (of_regions, job_states) = join(read_regions(store, &instances), self.job_states(&jobs, &instances)).await;
        let (activity, notices) = of_regions.with_problems_in(&mut problems);
        let job_states = job_states.with_problems_in(&mut problems);
        let runs = self.runs.values().filter_map(|known| known.record.clone()).collect();
        Ok(WatchFacts {
            now,
            regions,
            instances,
            incomplete_regions,
            activity,
            notices,
            config,
            prices,
            budgets,
            jobs,
            job_states,
            runs,
            subscriptions: self.subscriptions.as_ref().map(|(subscriptions, _)| subscriptions.clone()),
            problems,
        })
    }

    async fn observe(&self, config: &Config) -> (Vec<Region>, Observation<Instance>) {
        let Observation { items: regions, gaps } = cloud::regions(&self.context.aws, config).await;
        let mut seen = cloud::instances(&self.context.aws, &regions, TIMEOUT).await;
        seen.gaps.extend(gaps);
        (regions, seen)
    }

    /// Reads the subscriptions of the topic, if they are due and reap-instances enforces. Returns the problem, if there is one.
    async fn refresh_subscriptions(&mut self, now: Timestamp) -> Option<String> {
        let newest = self.runs.get(REAPER).and_then(|known| known.record.as_ref());
        let enforces = newest.is_some_and(|record| record.mode == Mode::Enforce);
        let is_due = self.subscriptions.as_ref().is_none_or(|(_, read_again_at)| *read_again_at <= now);
        let topics = self.topics.as_ref().filter(|_| enforces && is_due)?;
        match cloud::sns::subscriptions(&self.context.aws, topics).await {
            Ok(subscriptions) => {
                self.subscriptions = Some((subscriptions, after(now, LOOK_AGAIN)));
                None
            }
            Err(error) => Some(describe_gap(&error.gap())),
        }
    }

    /// Reads the records that are due. If one cannot be read, the previous one counts.
    async fn refresh_runs(&mut self, now: Timestamp, anew: bool) -> Vec<String> {
        let is_due = |function: &str| self.runs.get(function).is_none_or(|known| anew || known.look_again_at <= now);
        let due: Vec<ScheduledFunction> = functions_to_read().filter(|scheduled| is_due(scheduled.function)).collect();
        let store = &self.store;
        let reads = due.into_iter().map(|scheduled| async move {
            (scheduled, store.newest_plan_after_applies(scheduled.function, now).await)
        });
        let mut problems = Vec::new();
        for (ScheduledFunction { function, every, .. }, read) in join_all(reads).await {
            match read {
                Ok(record) => {
                    // What awaits approval may be applied at any time.
                    let settled = record.as_ref().filter(|record| record.waiting().next().is_none());
                    let next_at = settled.and_then(|record| record.at.checked_add(every).ok());
                    let look_again_at = next_at.unwrap_or(now).max(after(now, LOOK_AGAIN));
                    self.runs.insert(function, KnownRun { record, look_again_at });
                }
                Err(error) => problems.push(format!("the newest run of {function}: {}", describe_store_error(&error))),
            }
        }
        problems
    }

    /// The state of every job that an instance names: as just read, if it is unfinished.
    async fn job_states(&self, jobs: &[WatchedJob], instances: &[Instance]) -> Read<JobStates> {
        let known = jobs.iter().map(|watched| (watched.job.job.clone(), Some(watched.job.clone())));
        let mut states: BTreeMap<JobId, Option<Job>> = known.collect();
        let names_other = |instance: &&Instance| {
            let named = instance.tags.get(JOB).and_then(|job| JobId::read(job).ok());
            named.is_some_and(|job| !states.contains_key(&job))
        };
        let others: Vec<&Instance> = instances.iter().filter(names_other).collect();
        let Observed { items: more, gaps } =
            execution::load_job_states(&self.store, others, self.context.aws.home(), TIMEOUT).await;
        states.extend(more.0);
        Read { value: JobStates(states), problems: gaps.iter().map(describe_gap).collect() }
    }
}

/// The result of a read, and the failures.
struct Read<T> {
    value: T,
    problems: Vec<String>,
}

impl<T> Read<T> {
    fn with_problems_in(self, problems: &mut Vec<String>) -> T {
        problems.extend(self.problems);
        self.value
    }
}

fn describe_unread(what: &str, error: &StoreError) -> String {
    format!("{what}: {}", describe_store_error(error))
}

async fn read_budgets(store: &Store, config: &Config, now: Timestamp) -> Read<BTreeMap<BudgetHolder, Budget>> {
    let month = &BudgetMonth::containing(now, config).month;
    let (value, errors) = read_documents(store, holders_to_read(config), month).await;
    Read { value, problems: errors.iter().map(|error| describe_unread("a budget", error)).collect() }
}

/// The unfinished jobs, and the heartbeat of those that have a machine.
async fn read_jobs(store: &Store) -> Read<Vec<WatchedJob>> {
    let mut problems = Vec::new();
    let mut names = match store.active().await {
        Ok(names) => names,
        Err(error) => {
            return Read { value: Vec::new(), problems: vec![describe_unread("the list of jobs", &error)] };
        }
    };
    if names.len() > JOBS_MAX {
        problems.push(format!("of {} unfinished jobs only {JOBS_MAX} are shown: curfew jobs lists all", names.len()));
        names.truncate(JOBS_MAX);
    }
    let mut jobs = Vec::new();
    for read in states(store, names).await {
        match read {
            Ok(job) => jobs.push(job),
            Err(error) => problems.push(describe_unread("a job", &error)),
        }
    }
    let beats = jobs.into_iter().map(|job| read_heartbeat(store, job));
    let (value, unheard): (Vec<_>, Vec<_>) =
        stream::iter(beats).buffered(READS_AT_ONCE).collect::<Vec<_>>().await.into_iter().unzip();
    problems.extend(unheard.into_iter().flatten());
    Read { value, problems }
}

async fn read_heartbeat(store: &Store, job: Job) -> (WatchedJob, Option<String>) {
    let Some(machine) = job.machine() else { return (WatchedJob::alone(job, None), None) };
    if let Some(gang) = machine.gang(&job.job) {
        let (nodes, failures) = read_node_heartbeats(store, &gang).await;
        let problem = failures.first().map(|error| describe_unread(&format!("a heartbeat of {}", job.job), error));
        return (WatchedJob { job, heartbeat: None, nodes }, problem);
    }
    let (beat, refused) = match store.read_heartbeat(&job.job, job.machine_attempt()).await {
        Ok(read) => read.into_parts(),
        Err(error) => (None, Some(error)),
    };
    let problem = refused.map(|error| describe_unread(&format!("the heartbeat of {}", job.job), &error));
    (WatchedJob::alone(job, beat.map(|beat| (beat.at, beat.heartbeat))), problem)
}

/// The memory and the notifications of runs, for the regions that have instances.
async fn read_regions(
    store: &Store,
    instances: &[Instance],
) -> Read<(BTreeMap<Region, ActivityCache>, NotificationLogs)> {
    let mut regions: Vec<&Region> = instances.iter().map(|instance| &instance.region).collect();
    regions.sort_unstable();
    regions.dedup();
    let reads = regions.into_iter().map(|region| async move {
        let (activity, notices) = join(store.read_activity(region), store.read_notices(REAPER, region)).await;
        (region.clone(), activity, notices)
    });
    let mut read = Read { value: (BTreeMap::new(), NotificationLogs::new()), problems: Vec::new() };
    for (region, activity, notices) in join_all(reads).await {
        match activity {
            Ok(activity) => drop(read.value.0.insert(region.clone(), activity.value)),
            Err(error) => read.problems.push(describe_unread(&format!("the GPU use of {region}"), &error)),
        }
        match notices {
            Ok(notices) => drop(read.value.1.insert(region, notices.value)),
            Err(error) => read.problems.push(describe_unread(&format!("the notifications of {region}"), &error)),
        }
    }
    read
}
