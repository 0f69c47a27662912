//! The oracle: what must never happen, and what must happen in the end. It is written from the contract and uses nothing of the policy: neither
//! `decide`, nor its parsing of tags, configuration, usage or limits.

mod actions;
mod liveness;
mod notifications;
mod truth;

use std::collections::{BTreeMap, VecDeque};

use model::curfew_tags::MARKED;
use model::id::Region;
use model::instance::Instance;
use model::mode::Mode;
use model::rule::{ResourceAction, Rule};
use plan::{Evidence, Plan, SkipReason};

pub(crate) use liveness::IdleShare;

use crate::budgets::{BudgetReading, HOLDERS};
use crate::chance::stamp;
use crate::driver::find_bug;
use crate::jobs::{JobReading, MachineOwner};
use crate::session::Facts;
use crate::world::SimulatedMachine;

/// The most violations that one account stores: the first ones explain the rest.
const VIOLATIONS_MAX: usize = 20;
/// Two runs at once, and one that acts a tick later.
const RUNS_UNDER_WAY_MAX: usize = 4;

#[derive(Default)]
pub(crate) struct InvariantOracle {
    pub(crate) violations: Vec<(i64, String)>,
    pub(crate) share: IdleShare,
    /// The last fault of any kind, the last that may make a run forget what it did, and the last edit of the configuration or of `CURFEW_MODE`.
    pub(crate) last_fault: i64,
    pub(crate) last_forgotten: i64,
    pub(crate) configured_at: i64,
    /// Time of the last loss of a region's log, and with it of whatever was announced.
    logs_lost_at: BTreeMap<Region, i64>,
    /// When a budget was last spent or raised, or a month began.
    pub(crate) budgets_changed_at: i64,
    /// Policy actions of one run.
    inferred: (u64, i64),
    records: Vec<MachineRecord>,
    /// The budgets and jobs as the latest runs read them.
    reads: VecDeque<(u64, [Option<BudgetReading>; HOLDERS], JobReading)>,
    /// Stops and terminations by rule.
    pub(crate) ends: [[u64; 2]; Rule::RUNNING.len()],
}

/// The oracle's record of one machine.
#[derive(Default)]
pub(crate) struct MachineRecord {
    announced: Vec<PromisedAction>,
    /// Fingerprints of notifications, and when they were sent.
    told: Vec<(u64, i64)>,
    /// An action without a notification so far.
    untold_end: Option<i64>,
    /// Held by the limits in this run.
    held_at: i64,
    /// A fault may have kept the log from remembering the stop.
    stop_unproved: bool,
    /// Since when which rule should act on it.
    overdue: [Option<i64>; 7],
    /// The last end and the last start of its hours before a moment, by the hours of then.
    hours: Option<(i64, bool, i64)>,
}

/// An announcement.
struct PromisedAction {
    rule: Rule,
    ending: ResourceAction,
    deadline: i64,
    told_at: i64,
    /// The rule's grace at that time.
    grace: i64,
    /// A later run has found the rule compliant, has skipped the machine or only observed it, and could remember that.
    mended: bool,
    /// The run that announced it was cancelled.
    called_off_by: Option<u64>,
}

impl InvariantOracle {
    pub(crate) fn violated(&mut self, now: i64, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push((now, what));
        }
    }

    /// The budgets and jobs as a run read them.
    pub(crate) fn read(&mut self, run: u64, budgets: [Option<BudgetReading>; HOLDERS], jobs: JobReading) {
        self.reads.push_front((run, budgets, jobs));
        self.reads.truncate(RUNS_UNDER_WAY_MAX);
    }

    /// Records the budgets that this run reads.
    pub(crate) fn budgets_of(&self, facts: &Facts) -> [Option<BudgetReading>; HOLDERS] {
        let read = self.reads.iter().find(|(run, ..)| *run == facts.id);
        read.map_or([None; HOLDERS], |(_, budgets, _)| *budgets)
    }

    /// Records the jobs that this run reads.
    pub(crate) fn jobs_of(&self, facts: &Facts) -> JobReading {
        let read = self.reads.iter().find(|(run, ..)| *run == facts.id);
        read.map(|(.., jobs)| jobs.clone()).unwrap_or_default()
    }

    /// The job of a machine, by what that run read.
    fn whose(&self, machine: &SimulatedMachine, facts: &Facts) -> MachineOwner {
        let read = self.reads.iter().find(|(run, ..)| *run == facts.id);
        read.map_or(MachineOwner::NoJob, |(.., jobs)| jobs.whose(machine))
    }

    /// The record of `i-<number>`.
    fn record(&mut self, id: &str) -> &mut MachineRecord {
        let number = id.strip_prefix("i-").and_then(|hex| usize::from_str_radix(hex, 16).ok()).unwrap_or(0);
        if self.records.len() <= number {
            self.records.resize_with(number + 1, MachineRecord::default);
        }
        &mut self.records[number]
    }

    /// A plan names every observed instance exactly once, and holds exactly what exceeds the limits.
    pub(crate) fn planned(&mut self, plan: &Plan, seen: &[Instance], facts: &Facts) {
        let of_steps = plan.steps.iter().map(|step| &step.target);
        let mut planned: Vec<&str> = of_steps
            .chain(plan.skipped.iter().map(|skipped| &skipped.target))
            .map(|target| target.resource.as_str())
            .collect();
        let mut expected: Vec<&str> = seen.iter().map(|instance| instance.id.as_str()).collect();
        planned.sort_unstable();
        expected.sort_unstable();
        if planned != expected {
            self.violated(facts.now, format!("the plan has {planned:?}, and seen were {expected:?}"));
        }
        if let Some(bug) = find_bug(plan) {
            self.violated(facts.now, bug);
        }
        let is_inferred = |evidence: &Evidence| match evidence.rule() {
            Rule::Expired => was_first_seen_past(evidence),
            rule => rule != Rule::Hours,
        };
        let inferred = || {
            plan.steps.iter().filter(|step| {
                step.mode == Mode::Enforce
                    && step.action.stops_or_deletes()
                    && is_inferred(&step.evidence)
                    && step.refused_at.is_none()
            })
        };
        // More refused actions than the limits allow take turns.
        for skipped in plan.skipped.iter().filter(|skipped| skipped.reason == SkipReason::Refused) {
            self.record(skipped.target.resource.as_str()).held_at = facts.now;
        }
        let exceeded = !within_limits(i64::try_from(inferred().count()).unwrap_or(i64::MAX), facts);
        for step in inferred() {
            let id = step.target.resource.as_str();
            if step.held.is_some() != exceeded {
                let what =
                    if exceeded { "is not held, although the limits are exceeded" } else { "is held for nothing" };
                self.violated(facts.now, format!("{id}: its end {what}"));
            }
            if step.held.is_some() {
                self.record(id).held_at = facts.now;
            }
        }
    }

    /// Curfew writes tags: never on a protected resource, and no mark before its notification was accepted.
    pub(crate) fn tagged(&mut self, machine: &SimulatedMachine, tags: &[(&str, String)], facts: &Facts) {
        self.may_write(machine, "its tags are written", facts);
        let Some((_, mark)) = tags.iter().find(|(key, _)| *key == MARKED) else { return };
        // An owner's own deadline needs no announcement: it is marked and enforced in one run.
        let was_announced = mark.starts_with("expired=")
            || self.record(machine.id()).announced.iter().any(|one| {
                let marked = |ending| *mark == format!("{}={ending}@{}", one.rule, stamp(one.deadline));
                // The due action may be milder than the announced one, and is marked so.
                marked(one.ending) || (one.ending == ResourceAction::Terminate && marked(ResourceAction::Stop))
            });
        if !was_announced {
            self.violated(facts.now, format!("{}: is marked {mark}, which was not announced", machine.id()));
        }
    }

    fn may_write(&mut self, machine: &SimulatedMachine, what: &str, facts: &Facts) {
        if facts.ceiling == Mode::Observe {
            self.violated(facts.now, format!("{}: {what}, although Curfew only observes", machine.id()));
        }
        if let Some(skipped) = machine.skip_reason(facts.now) {
            self.violated(facts.now, format!("{}: {what}, although it is {skipped}", machine.id()));
        }
    }
}

/// Whether the limits allow a run so many policy actions.
fn within_limits(ends: i64, facts: &Facts) -> bool {
    let fleet = i64::try_from(facts.fleet).unwrap_or(i64::MAX);
    let too_large_a_share = fleet >= 10 && ends * 100 > fleet * facts.settings.fleet_share_max_percent;
    ends <= facts.settings.actions_max && !too_large_a_share
}

/// `true` if the evidence says that the expiry had passed when Curfew first saw it.
fn was_first_seen_past(evidence: &Evidence) -> bool {
    serde_json::to_value(evidence).is_ok_and(|facts| facts["first_seen_past"] == true)
}
