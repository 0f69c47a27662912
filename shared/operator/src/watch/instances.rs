//! Instances as rows.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use billing::price;
use jiff::Timestamp;
use model::id::{Region, ResourceId, TeamName};
use model::instance::{Instance, InstanceState};
use model::known_sum::KnownSum;
use model::money::Rate;
use model::notification_log::{NotificationLog, NotificationLogs};
use model::usage::ActivityCache;
use plan::report::RunRecord;
use reaping::instances::{explain, learn_usage};
use reaping::policy::Policy;
use serde::Serialize;

use super::{GpuUse, JobRow, Outlook};

/// One instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InstanceRow {
    pub region: Region,
    pub instance: ResourceId,
    pub instance_type: String,
    pub accelerators: u32,
    pub team: Option<TeamName>,
    pub owner: Option<String>,
    pub name: Option<String>,
    /// EC2's name for it.
    pub state: String,
    /// Cost of the instance now: zero unless it runs; `None` if unknown.
    pub usd_per_hour: Option<Rate>,
    pub gpu: GpuUse,
    pub outlook: Outlook,
}

impl InstanceRow {
    /// The dearest first; those that run at an unknown price next, the largest first; then what does not run.
    pub(super) fn by_money(&self, other: &Self) -> Ordering {
        let place = |row: &Self| {
            let is_unknown = row.usd_per_hour.is_none();
            (Reverse(row.usd_per_hour.filter(|rate| *rate > Rate::ZERO)), !is_unknown, Reverse(row.accelerators))
        };
        place(self)
            .cmp(&place(other))
            .then_with(|| (&self.region, &self.instance).cmp(&(&other.region, &other.instance)))
    }
}

/// Totals of all instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct InstanceTotals {
    pub running: usize,
    pub others: usize,
    #[serde(flatten)]
    pub costs: KnownSum<Rate>,
}

impl InstanceTotals {
    pub(super) fn from_rows(rows: &[InstanceRow]) -> Self {
        let mut totals = Self::default();
        for row in rows {
            let runs = row.gpu.state != super::GpuState::Off;
            totals.running += usize::from(runs);
            totals.others += usize::from(!runs);
            totals.costs = totals.costs.with(row.usd_per_hour);
        }
        totals
    }
}

/// The facts that a row is made of, besides its instance.
pub(super) struct Context<'a> {
    pub(super) policy: &'a Policy,
    pub(super) activity: &'a BTreeMap<Region, ActivityCache>,
    pub(super) notices: &'a NotificationLogs,
    /// The newest record of reap-instances.
    pub(super) newest: Option<&'a RunRecord>,
    pub(super) jobs: &'a [JobRow],
    pub(super) now: Timestamp,
}

impl Context<'_> {
    /// `None` for what no plan names.
    pub(super) fn row(&self, instance: &Instance) -> Option<InstanceRow> {
        let (no_activity, empty_log) = (ActivityCache::default(), NotificationLog::default());
        let activity = self.activity.get(&instance.region).unwrap_or(&no_activity);
        let notices = self.notices.get(&instance.region).unwrap_or(&empty_log);
        let learned = learn_usage(&[instance], &[], BTreeMap::new(), activity, self.policy, self.now);
        let usage = learned.usages.get(&instance.id);
        let explanation = explain(instance, usage, notices, self.policy, self.now)?;
        let measured = self.jobs.iter().find_map(|job| job.gpu_of_instance(&instance.region, &instance.id));
        let asked = activity.last_inquiry(instance, self.now);
        let runs = instance.state == InstanceState::Running;
        let costs = if runs { price::rate(self.policy.prices.running_cost(instance)) } else { Some(Rate::ZERO) };
        Some(InstanceRow {
            gpu: GpuUse::for_instance(instance, asked, self.newest, measured),
            outlook: Outlook::from_explanation(instance, &explanation, self.newest, self.now),
            region: explanation.target.region,
            instance: explanation.target.resource,
            instance_type: explanation.target.what,
            accelerators: instance.machine.accelerators,
            team: explanation.target.team,
            owner: explanation.target.owner,
            name: explanation.target.name,
            state: explanation.state,
            usd_per_hour: costs,
        })
    }
}
