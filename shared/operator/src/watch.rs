//! The state of an account at one moment, for people: instances, jobs, budgets, and upcoming events.
//!
//! The rules that the functions run by judge each instance, by what the state bucket already knows of its use. Nothing asks `CloudWatch`,
//! so the use of many instances is unknown here, and unknown is never shown as zero.

mod budgets;
mod clock;
mod gpu_use;
mod instances;
mod jobs;
mod outlook;
mod runs;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};

use ::jobs::node_gang::NodeHeartbeats;
use ::jobs::{Heartbeat, Job};
use billing::budget::overview::BudgetOverview;
use billing::budget::{Budget, BudgetHolder, BudgetMonth, BudgetStatuses};
use billing::price::PriceBook;
use jiff::Timestamp;
use model::ceiling::Ceiling;
use model::config::Config;
use model::fault::Bug;
use model::gang::Gangs;
use model::id::Region;
use model::instance::Instance;
use model::mode::Mode;
use model::notification_log::NotificationLogs;
use model::subscriptions::TopicSubscriptions;
use model::usage::ActivityCache;
use plan::report::RunRecord;
use reaping::job_ownership::JobStates;
use reaping::policy::Policy;
use serde::Serialize;

pub use budgets::{BudgetLine, holders_to_read};
pub use clock::format_moment;
pub use gpu_use::{GpuState, GpuUse};
pub use instances::{InstanceRow, InstanceTotals};
pub use jobs::JobRow;
pub use outlook::{Outlook, OutlookKind};
pub use runs::{AwaitingApproval, RunLine, functions_to_read};
pub use timeline::{EventKind, UpcomingEvent};

/// Everything that was read for one dashboard.
pub struct WatchFacts {
    pub now: Timestamp,
    /// The regions where instances were looked for.
    pub regions: Vec<Region>,
    /// The instances with an accelerator that are not terminated.
    pub instances: Vec<Instance>,
    /// The regions where an instance may exist that was not seen.
    pub incomplete_regions: BTreeSet<Region>,
    /// The use of instances as runs learnt it, by region.
    pub activity: BTreeMap<Region, ActivityCache>,
    /// The notifications of reap-instances, by region.
    pub notices: NotificationLogs,
    pub config: Config,
    pub prices: PriceBook,
    /// The documents of this month that exist, of [`holders_to_read`].
    pub budgets: BTreeMap<BudgetHolder, Budget>,
    /// Every unfinished job that could be read.
    pub jobs: Vec<WatchedJob>,
    /// The states of the jobs that instances name.
    pub job_states: JobStates,
    /// The newest record of each function of [`functions_to_read`] that has one, after every apply.
    pub runs: Vec<RunRecord>,
    /// The subscriptions of the topic; `None` if nothing is enforced, or they are unknown.
    pub subscriptions: Option<TopicSubscriptions>,
    /// Everything that could not be read, in words for people.
    pub problems: Vec<String>,
}

/// A job, and what its machine last said.
pub struct WatchedJob {
    pub job: Job,
    /// The heartbeat of its present attempt, and when S3 took it.
    pub heartbeat: Option<(Timestamp, Heartbeat)>,
    /// Those of the nodes of a gang, instead of that one.
    pub nodes: NodeHeartbeats,
}

impl WatchedJob {
    /// A job on one machine.
    #[must_use]
    pub fn alone(job: Job, heartbeat: Option<(Timestamp, Heartbeat)>) -> Self {
        Self { job, heartbeat, nodes: NodeHeartbeats::new() }
    }
}

/// The view of an account for people. Times are UTC; lists begin with what costs the most, `next` with what comes first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dashboard {
    pub at: Timestamp,
    /// The most that reap-instances may do, by its newest record; `None` if it left none lately: then outlooks assume observe mode.
    pub mode: Option<Mode>,
    pub regions: Vec<Region>,
    pub totals: InstanceTotals,
    pub instances: Vec<InstanceRow>,
    pub jobs: Vec<JobRow>,
    /// The account first, then the budgets nearest to their end.
    pub budgets: Vec<BudgetLine>,
    pub next: Vec<UpcomingEvent>,
    pub awaiting_approval: Vec<AwaitingApproval>,
    pub runs: Vec<RunLine>,
    /// Everything that is not known, with the reason.
    pub problems: Vec<String>,
}

/// The dashboard of what was read. The same facts give the same dashboard.
#[must_use]
pub fn dashboard(mut facts: WatchFacts) -> Dashboard {
    let now = facts.now;
    let seen = runs::SeenInstances {
        instances: &facts.instances,
        regions: &facts.regions,
        incomplete_regions: &facts.incomplete_regions,
    };
    runs::settle_by_state(&mut facts.runs, &seen);
    let mode = runs::ceiling(&facts.runs);
    let month = BudgetMonth::containing(now, &facts.config);
    let statuses = facts.budgets.iter().filter(|(holder, budget)| budget.belongs_to(holder));
    let statuses = statuses.filter_map(|(holder, budget)| Some((holder.clone(), budget.to_status()?)));
    let policy = Policy {
        ceiling: match facts.subscriptions {
            Some(subscriptions) if mode == Some(Mode::Enforce) => {
                Ceiling::with_readers(Mode::Enforce, runs::OF_INSTANCES, subscriptions)
            }
            _ => Ceiling::fixed(mode.unwrap_or(Mode::Observe)),
        },
        prices: facts.prices,
        budgets: BudgetStatuses(statuses.collect()),
        jobs: facts.job_states,
        gangs: Gangs::default(),
        config: facts.config,
    };
    let mut jobs: Vec<JobRow> = facts.jobs.iter().map(|watched| JobRow::from_job(watched, now)).collect();
    jobs.sort_by(JobRow::by_money);
    let reaped = facts.runs.iter().find(|run| run.function == runs::OF_INSTANCES);
    let seen = instances::Context {
        policy: &policy,
        activity: &facts.activity,
        notices: &facts.notices,
        newest: reaped,
        jobs: &jobs,
        now,
    };
    let mut problems = facts.problems;
    let row = |one: &Instance| {
        Bug::catch(|| seen.row(one)).unwrap_or_else(|bug| {
            problems.push(format!("{}: {bug}", one.id));
            None
        })
    };
    let mut instances: Vec<InstanceRow> = facts.instances.iter().filter_map(row).collect();
    instances.sort_by(InstanceRow::by_money);
    let overview = BudgetOverview::from_documents(facts.budgets, None, &policy.config, month, now);
    let budgets: Vec<BudgetLine> = overview.rows.iter().map(|row| BudgetLine::from_row(row, &overview)).collect();
    let next = timeline::events(&instances, &jobs, &budgets, &overview.period, now);
    problems.extend(runs::problems(&facts.runs, now));
    problems.extend(overview.problems());
    Dashboard {
        at: now,
        mode,
        regions: facts.regions,
        totals: InstanceTotals::from_rows(&instances),
        instances,
        jobs,
        budgets,
        next,
        awaiting_approval: runs::awaiting_approval(&facts.runs),
        runs: facts.runs.iter().map(|run| RunLine::from_record(run, now)).collect(),
        problems,
    }
}

#[cfg(test)]
mod tests;
