//! Facts that were read about a month.

use std::collections::{BTreeMap, BTreeSet};

use billing::budget::{Budget, BudgetHolder};
use billing::ledger::{CalendarMonth, Ledger};
use billing::price::PriceBook;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use jobs::JobOverview;
use model::id::{Region, ResourceId};
use model::instance::{Instance, InstanceState};
use model::moment::after;
use model::observation::Observation;
use plan::report::RunRecord;

use crate::{AttemptRecord, DayActions, FunctionRuns, StoredCheckpoints, UsageFacts};

/// Everything that a report is made from.
#[derive(Debug)]
pub struct MonthFacts {
    pub month: CalendarMonth,
    /// The account's time zone: its days are those of the report.
    pub zone: TimeZone,
    pub now: Timestamp,
    /// Ledgers of the month, one for each region.
    pub ledgers: Vec<Ledger>,
    /// Number of regions whose ledger of the month exists, and could not be read.
    pub unread_ledgers: usize,
    /// Ledgers of the previous month: a resource that was stopped in its last days may have started again in it.
    pub previous_ledgers: Vec<Ledger>,
    /// Number of regions whose ledger of the previous month exists, and could not be read.
    pub unread_previous_ledgers: usize,
    pub budgets: BTreeMap<BudgetHolder, Budget>,
    /// Prices by which Spot is compared with on-demand.
    pub prices: PriceBook,
    /// Days of the month, and the seven days before it: a stop on one of those still saves.
    pub days: Vec<DayActions>,
    /// Curfew's own runs of the month, by function.
    pub runs: BTreeMap<String, FunctionRuns>,
    /// The newest record of each reaper, after every apply.
    pub newest: Vec<RunRecord>,
    /// Jobs that are unfinished, or were until lately.
    pub jobs: Vec<JobOverview>,
    /// Last reports of each job's attempts in the month, by job, `<team>/<job>`.
    pub attempts: BTreeMap<String, Vec<AttemptRecord>>,
    /// Present size of the checkpoints; empty for a month that is over.
    pub checkpoints: StoredCheckpoints,
    /// Use of the instances; `None` if it was not requested.
    pub usage: Option<UsageFacts>,
    /// Descriptions of everything that could not be read.
    pub gaps: Vec<String>,
}

/// The report of a month that ended so lately still says what could cost less next month: it is sent on the first day of that month.
const LATELY: SignedDuration = SignedDuration::from_hours(24);

impl MonthFacts {
    /// Returns `true` if the use of the instances that run now belongs to this month.
    #[must_use]
    pub fn is_recent(&self) -> bool {
        self.now < after(self.month.span().to, LATELY)
    }
}

/// The instances that run, of the regions that could be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeenInstances {
    regions: BTreeSet<Region>,
    running: BTreeSet<ResourceId>,
}

impl SeenInstances {
    /// Reads them from the observation of these regions.
    #[must_use]
    pub fn new(regions: &[Region], seen: &Observation<Instance>) -> Self {
        let is_hidden =
            |region: &Region| seen.gaps.iter().any(|gap| gap.region == *region && gap.kind.hides_resources());
        let runs = |instance: &&Instance| {
            matches!(instance.state, InstanceState::Pending | InstanceState::Running | InstanceState::Unknown)
        };
        Self {
            regions: regions.iter().filter(|region| !is_hidden(region)).cloned().collect(),
            running: seen.items.iter().filter(runs).map(|instance| instance.id.clone()).collect(),
        }
    }

    /// Returns `true` for an instance that was stopped, or is gone.
    pub(crate) fn has_ended(&self, region: &Region, resource: &ResourceId) -> bool {
        resource.as_str().starts_with("i-") && self.regions.contains(region) && !self.running.contains(resource)
    }
}

#[cfg(test)]
mod tests {
    use model::fixture::instance;
    use model::observation::{Gap, GapKind};

    use super::*;

    #[test]
    fn what_does_not_run_in_a_region_that_was_read_has_ended() {
        let regions = ["us-east-1", "eu-west-1"].map(Region::from);
        let items = vec![
            instance().id("i-runs").build(),
            instance().id("i-stops").state(InstanceState::Stopping).build(),
            instance().id("i-far").region("eu-west-1").state(InstanceState::Stopped).build(),
        ];
        let gaps = vec![Gap::new(&"eu-west-1".into(), "ec2:DescribeInstances", "late".to_owned(), GapKind::Region)];
        let seen = SeenInstances::new(&regions, &Observation { items, gaps });
        let check = |region: &str, resource: &str, expect: bool| {
            assert_eq!(seen.has_ended(&region.into(), &resource.into()), expect, "{region} {resource}");
        };
        check("us-east-1", "i-runs", false);
        check("us-east-1", "i-stops", true);
        check("us-east-1", "i-gone", true);
        check("eu-west-1", "i-far", false);
        check("ap-south-1", "i-unread", false);
        check("us-east-1", "vol-1", false);
    }
}
