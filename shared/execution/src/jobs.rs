//! Jobs: every hint only names jobs to look at now, and for each of them the state machine of `domain::job` says what to do.
//!
//! The order is the contract. The new state is written first, over the very version that was read; whoever loses that swap stops, and does
//! nothing; then comes the effect, which can be repeated without harm; then what came of it is a fact of the next round. People are told
//! last, and that they were is written down only after SNS took the message. What fails for one job never stops the others.

mod agents;
mod effects;
mod facts;
mod find;
mod inbox;
mod money;
mod ranking;
mod telling;
mod work;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cloud::jobs::Asked;
use domain::config::Config;
use domain::id::{Region, ResourceId};
use domain::job::{Job, Refusals};
use domain::mode::Mode;
use domain::news::News;
use domain::observed::Gap;
use domain::report::{JobStep, JobsReport};
use futures::future::join3;
use jiff::Timestamp;
use store::{ConfigFault, Versioned};

use crate::{Audience, RESERVE, Run, prices};

pub use agents::Agents;
use facts::Sights;

/// What an event says: where to look now, and never what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// At the inbox, and at every job that is not finished.
    All,
    /// At what was written to a bucket.
    Object {
        /// Which bucket.
        bucket: String,
        /// The key as the event has it.
        key: String,
        /// The key that this would be if it were encoded, where that is another one.
        decoded: Option<String>,
    },
    /// At the job of an instance.
    Instance {
        /// Where it is.
        region: Region,
        /// Which.
        instance: ResourceId,
        /// Whether AWS takes it back in two minutes.
        warned: bool,
    },
}

/// What the machines of jobs get from this deployment.
#[derive(Debug)]
pub struct Machines {
    /// What each runs first.
    pub agents: Agents,
    /// The instance profile, by name, of jobs that name none; `None`: they get none.
    pub profile: Option<String>,
}

/// Why a run did nothing at all.
#[derive(Debug, thiserror::Error)]
pub enum NotReconciled {
    /// The configuration was refused, or could not be read.
    #[error(transparent)]
    Configuration(#[from] ConfigFault),
    /// The event is of a bucket that is not Curfew's.
    #[error(
        "the event is of the bucket {0}, and the state bucket is {1}; nothing was done. Mend the rule that sent it"
    )]
    ForeignBucket(String, String),
}

/// One run, while it goes on.
struct Jobs<'a> {
    run: &'a Run<'a>,
    config: &'a Config,
    agents: &'a Agents,
    /// The instance profile of jobs that name none.
    profile: Option<&'a str>,
    /// Whether anything may be launched or ended.
    may_act: bool,
    /// The instance that AWS has warned of.
    warned: Option<ResourceId>,
    /// Instances as they were looked at for all jobs together.
    sights: Sights,
    /// What was asked of EC2 for one of them, and holds for the others.
    asked: Asked,
    prices: prices::Asking,
    refusals: Mutex<Refusals>,
    /// One job after the other writes the budgets: those of one run do not lose to each other.
    budgets: tokio::sync::Mutex<()>,
    found: Mutex<Found>,
}

/// What a run has to report.
#[derive(Debug, Default)]
struct Found {
    steps: Vec<JobStep>,
    gaps: Vec<Gap>,
    news: Vec<News>,
}

impl Jobs<'_> {
    fn found<T>(&self, add: impl FnOnce(&mut Found) -> T) -> T {
        add(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn step(&self, step: JobStep) {
        self.found(|found| found.steps.push(step));
    }

    fn gap(&self, gap: Gap) {
        self.found(|found| {
            if !found.gaps.contains(&gap) {
                found.gaps.push(gap);
            }
        });
    }

    fn say(&self, news: News) {
        self.found(|found| {
            if !found.news.contains(&news) {
                found.news.push(news);
            }
        });
    }

    /// The time, in whole seconds, as documents and tags show it.
    fn now(&self) -> Timestamp {
        let now = (self.run.clock)();
        Timestamp::from_second(now.as_second()).unwrap_or(now)
    }

    /// How long something may still take that is begun now; `None` where nothing is begun any more.
    fn time_left(&self) -> Option<Duration> {
        let left = self.run.deadline.duration_since((self.run.clock)());
        (left > RESERVE).then(|| Duration::try_from(left - RESERVE / 2).unwrap_or_default())
    }
}

/// Looks at the jobs that a hint names, does for each what is next, and tells people what they should hear.
///
/// # Errors
/// Where the configuration was refused or could not be read, or the event is of a foreign bucket: nothing was done.
pub async fn reconcile(run: &Run<'_>, machines: &Machines, hint: Hint) -> Result<JobsReport, NotReconciled> {
    if let Hint::Object { bucket, .. } = &hint
        && *bucket != run.store.bucket_name()
    {
        return Err(NotReconciled::ForeignBucket(bucket.clone(), run.store.bucket_name().to_owned()));
    }
    // Between an interruption and the next launch every second counts.
    let (config, audience, looked) = Box::pin(join3(run.config(), run.audience(), find::look(run, &hint))).await;
    let config = config?;
    let (may_act, may_judge) = match &audience {
        Audience::Listening => (run.mode == Mode::Enforce, true),
        Audience::Nobody(_) => (false, true),
        Audience::Unknown(_) => (false, false),
    };
    let warned = match &hint {
        Hint::Instance { instance, warned: true, .. } => Some(instance.clone()),
        _ => None,
    };
    let (agents, profile) = (&machines.agents, machines.profile.as_deref());
    let mut jobs = Jobs {
        run,
        config: &config,
        agents,
        profile,
        may_act,
        warned,
        sights: Sights::default(),
        asked: Asked::default(),
        prices: prices::Asking::default(),
        refusals: Mutex::default(),
        budgets: tokio::sync::Mutex::default(),
        found: Mutex::default(),
    };
    if let Audience::Nobody(gap) | Audience::Unknown(gap) = audience {
        jobs.gap(gap);
    }
    let named = Box::pin(jobs.named_by(&hint, looked)).await;
    let seen = named.len();
    // Where nobody can say whether somebody listens, nothing is begun or ended; the next run asks again.
    let worked: Vec<(Job, Option<String>)> = if may_judge { jobs.work_on(named).await } else { Vec::new() };
    let steps = jobs.found(|found| std::mem::take(&mut found.steps));
    let report = JobsReport {
        function: run.function,
        run: run.id.clone(),
        at: run.now,
        mode: run.mode,
        seen,
        steps,
        gaps: Vec::new(),
    };
    Ok(Box::pin(jobs.tell_and_record(report, worked, hint == Hint::All)).await)
}

/// A job as it was read.
type Read = Versioned<Option<Job>>;
