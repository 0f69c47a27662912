//! What must happen in the end: idle hours are recovered, tags of owners are enforced, and machines start in the morning.

use model::instance::{Accelerator, InstanceState};
use model::mode::Mode;
use model::rule::Rule;

use super::InvariantOracle;
use super::truth::{HOURS_NOTICE, LAG};
use crate::budgets::{BEAT, SimulatedBudgets};
use crate::chance::{DAY, HOUR, MINUTE, TICK};
use crate::jobs::{JobReading, MachineOwner};
use crate::settings::SimulatedConfig;
use crate::world::{Instrumentation, LastActivity, MachineWork, SimulatedMachine, StoppedBy};

/// Windows are whole periods, and a run comes once a tick: one for each of the two, one to mark, one to act.
const TICKS_OF_A_STATE_MACHINE: i64 = 4 * TICK;
/// An unknown answer is queried again a window later; beyond that no delay is acceptable without faults.
const DELAY_MAX: i64 = 3 * HOUR;
/// Beyond the last change by the adversary: a label that he removed is written again, and the action waits for the next run.
const TAMPERED_WITHIN: i64 = 3 * TICK;
/// Between the announcement of an expiry that no run had seen before its time, and the action.
const UNSEEN_EXPIRY_GRACE: i64 = 15 * MINUTE;

/// Avoidable idle time, in seconds.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IdleShare {
    pub(crate) recovered: i64,
    pub(crate) lost: i64,
}

impl IdleShare {
    pub(crate) fn add(&mut self, other: Self) {
        self.recovered += other.recovered;
        self.lost += other.lost;
    }
}

/// The due action, and since when, if no event came between.
struct OverdueAction {
    what: &'static str,
    place: usize,
    since: i64,
    within: i64,
}

impl InvariantOracle {
    /// Checks a machine once a tick. Returns whether it is idle for longer than it should be.
    pub(crate) fn watch(
        &mut self,
        machine: &SimulatedMachine,
        settings: &SimulatedConfig,
        ceiling: Mode,
        budgets: &SimulatedBudgets,
        jobs: &JobReading,
        now: i64,
    ) -> bool {
        let whose = jobs.whose(machine);
        self.is_every_end_told(machine, now);
        let last_fault = self.last_fault;
        let record = self.record(machine.id());
        if machine.is(InstanceState::Running) {
            record.stop_unproved = false;
        } else {
            let around = machine.changed_at - 2 * TICK..=machine.changed_at + 3 * TICK;
            record.stop_unproved |= around.contains(&last_fault);
        }
        let held_lately = record.held_at >= now - 2 * TICK;
        if machine.is(InstanceState::Stopped) || machine.is(InstanceState::Stopping) {
            if machine.stopped_by == Some(StoppedBy::Curfew(Rule::Idle)) && machine.work == MachineWork::Nothing {
                self.share.recovered += TICK;
            }
            let start = self.start_due(machine, settings, ceiling, now).filter(|_| !whose.knows_only_its_expiry());
            self.expect(4, start, machine, now);
            return false;
        }
        // Above the limits an action awaits approval; and the reaper skips protected machines.
        // What EC2 refused is tried again a day later, or once it has its turn.
        let is_refused = machine.stop_protection.is_on || now < machine.stop_protection.refused_at + DAY + 4 * TICK;
        // One of a gang waits for all others, whatever keeps them.
        let waits = is_refused || machine.ec2.placement_group.is_some();
        if !machine.is(InstanceState::Running) || held_lately || waits || machine.skip_reason(now).is_some() {
            self.record(machine.id()).overdue = [None; 7];
            return false;
        }
        let unchanged_since = machine.changed_at.max(self.configured_at).max(machine.says.kept_until.unwrap_or(0));
        let enforced = |rule| {
            machine.mode(rule, whose, settings, ceiling) == Mode::Enforce
                && machine.ending(rule, whose, settings).is_some()
                && (rule == Rule::Expired || !whose.knows_only_its_expiry())
        };
        let idle = enforced(Rule::Idle).then(|| idle_due(machine, settings, unchanged_since)).flatten();
        let promised = self.promised(machine, Rule::Idle) + 2 * TICK;
        let overdue = idle.as_ref().is_some_and(|idle| now > (idle.since + idle.within).max(promised));
        self.share.lost += if overdue { TICK } else { 0 };
        self.expect(0, idle.filter(|_| now > promised), machine, now);
        let untagged =
            enforced(Rule::Untagged).then(|| untagged_due(machine, whose, settings, unchanged_since)).flatten();
        let promised = self.promised(machine, Rule::Untagged) + 2 * TICK;
        self.expect(1, untagged.filter(|_| now > promised), machine, now);
        let lifetime =
            enforced(Rule::Lifetime).then(|| lifetime_due(machine, settings, unchanged_since, now)).flatten();
        let promised = self.promised(machine, Rule::Lifetime) + 2 * TICK;
        self.expect(2, lifetime.filter(|_| now > promised), machine, now);
        let unlisted = enforced(Rule::UnlistedProject).then(|| unlisted_due(machine, settings, unchanged_since));
        let promised = self.promised(machine, Rule::UnlistedProject) + 2 * TICK;
        self.expect(6, unlisted.flatten().filter(|_| now > promised), machine, now);
        let over_budget =
            enforced(Rule::OverBudget).then(|| over_budget_due(machine, settings, budgets, unchanged_since));
        let promised = self.promised(machine, Rule::OverBudget) + 2 * TICK;
        self.expect(5, over_budget.flatten().filter(|_| now > promised), machine, now);
        let owners = if enforced(Rule::Expired) && machine.says.expires_at.is_some_and(|at| at <= now) {
            let expires_at = machine.says.expires_at.unwrap_or(0);
            let was_seen = machine.changed_at.max(self.last_fault) + 3 * TICK < expires_at;
            let grace = if was_seen { 2 * TICK } else { UNSEEN_EXPIRY_GRACE + TICKS_OF_A_STATE_MACHINE };
            let since = expires_at.max(unchanged_since);
            Some(OverdueAction { what: "it expired", place: 3, since, within: grace - DELAY_MAX })
        } else if enforced(Rule::Hours) {
            self.hours_due(machine, unchanged_since, now)
        } else {
            None
        };
        self.expect(3, owners, machine, now);
        overdue
    }

    /// When an announced action is due: an announcement keeps its deadline if the configured grace is shortened.
    fn promised(&mut self, machine: &SimulatedMachine, rule: Rule) -> i64 {
        let of_rule = self.record(machine.id()).announced.iter().filter(|one| one.rule == rule);
        of_rule.map(|one| one.deadline).max().unwrap_or(0)
    }

    /// Reports once that an action stays due without faults.
    fn expect(&mut self, place: usize, due: Option<OverdueAction>, machine: &SimulatedMachine, now: i64) {
        let Some(due) = due else {
            self.record(machine.id()).overdue[place] = None;
            return;
        };
        debug_assert_eq!(place, due.place);
        let since = due.since.max(self.last_fault);
        let tampered = now <= machine.tampered_at + TAMPERED_WITHIN;
        if now <= since + due.within + DELAY_MAX
            || tampered
            || self.record(machine.id()).overdue[place] == Some(due.since)
        {
            return;
        }
        self.record(machine.id()).overdue[place] = Some(due.since);
        let what = format!(
            "{}: nothing happens, although {} since {}",
            machine.id(),
            due.what,
            crate::chance::stamp(due.since)
        );
        self.violated(now, what);
    }

    /// Whether its hours are on, and since when; evaluated once a tick.
    fn hours_now(&mut self, machine: &SimulatedMachine, now: i64) -> Option<(bool, i64)> {
        let hours = machine.says.hours?;
        let inside = hours.is_inside(now);
        let record = self.record(machine.id());
        let since = match record.hours {
            Some((set_at, was_inside, since)) if set_at == machine.retagged_at && was_inside == inside => since,
            _ if inside => hours.last_start(now),
            _ => hours.last_end(now),
        };
        record.hours = Some((machine.retagged_at, inside, since));
        Some((inside, since))
    }

    fn hours_due(&mut self, machine: &SimulatedMachine, unchanged_since: i64, now: i64) -> Option<OverdueAction> {
        let (inside, since) = self.hours_now(machine, now)?;
        let within = HOURS_NOTICE + TICKS_OF_A_STATE_MACHINE - DELAY_MAX;
        let since_both = since.max(unchanged_since);
        (!inside && machine.launched < since).then_some(OverdueAction {
            what: "its hours have ended",
            place: 3,
            since: since_both,
            within,
        })
    }

    fn start_due(
        &mut self,
        machine: &SimulatedMachine,
        settings: &SimulatedConfig,
        ceiling: Mode,
        now: i64,
    ) -> Option<OverdueAction> {
        let by_curfew = matches!(machine.stopped_by, Some(StoppedBy::Curfew(Rule::Hours | Rule::Idle)));
        if !by_curfew || !machine.is(InstanceState::Stopped) {
            return None;
        }
        let (inside, since) = self.hours_now(machine, now)?;
        let is_proved = !self.record(machine.id()).stop_unproved;
        let wanted = machine.mode(Rule::Hours, MachineOwner::NoJob, settings, ceiling) == Mode::Enforce
            && machine.skip_reason(now).is_none()
            && machine.says.expires_at.is_none_or(|at| at > now);
        let since_all =
            since.max(self.configured_at).max(machine.retagged_at).max(machine.says.kept_until.unwrap_or(0));
        // A machine that was stopped within these hours stays so until the next.
        (inside && wanted && is_proved && machine.changed_at < since).then_some(OverdueAction {
            what: "its hours have begun",
            place: 4,
            since: since_all,
            within: 30 * MINUTE - DELAY_MAX,
        })
    }
}

/// Truly idle, fully instrumented and opted in.
fn idle_due(machine: &SimulatedMachine, settings: &SimulatedConfig, unchanged_since: i64) -> Option<OverdueAction> {
    let window = machine.idle_window(settings)?;
    let instrumented =
        machine.make.instrumented == Instrumentation::Fully && machine.ec2.machine.accelerator == Accelerator::Nvidia;
    if machine.does != LastActivity::Nothing || !instrumented {
        return None;
    }
    let idle_since = machine.idle_since.max(machine.launched + settings.idle.boot_grace);
    let within = window + LAG + machine.grace(Rule::Idle, settings) + TICKS_OF_A_STATE_MACHINE;
    Some(OverdueAction { what: "it is idle", place: 0, since: idle_since.max(unchanged_since), within })
}

fn untagged_due(
    machine: &SimulatedMachine,
    whose: MachineOwner,
    settings: &SimulatedConfig,
    unchanged_since: i64,
) -> Option<OverdueAction> {
    let is_untagged = machine.lacks_tags(settings) || whose.is_disowned();
    if !is_untagged || (settings.untagged.spare_busy && machine.does != LastActivity::Nothing) {
        return None;
    }
    let idle_since = if settings.untagged.spare_busy { machine.idle_since } else { 0 };
    let since = (machine.launched + settings.untagged.settle).max(unchanged_since).max(idle_since);
    let window = machine.idle_window(settings).unwrap_or(settings.idle.window);
    Some(OverdueAction {
        what: "it lacks its tags",
        place: 1,
        since,
        within: window + LAG + machine.grace(Rule::Untagged, settings),
    })
}

fn unlisted_due(machine: &SimulatedMachine, settings: &SimulatedConfig, unchanged_since: i64) -> Option<OverdueAction> {
    let since = (machine.launched + settings.untagged.settle).max(unchanged_since);
    let what = "its project is not listed";
    machine.is_unlisted(settings).then_some(OverdueAction {
        what,
        place: 6,
        since,
        within: machine.grace(Rule::UnlistedProject, settings),
    })
}

/// Of the budgets by which it is stopped, the one that is spent for the longest time.
fn over_budget_due(
    machine: &SimulatedMachine,
    settings: &SimulatedConfig,
    budgets: &SimulatedBudgets,
    unchanged_since: i64,
) -> Option<OverdueAction> {
    let spent = machine.stopping_budgets(settings).filter_map(|holder| budgets.spent_since(holder));
    let since = spent.min()?.max(machine.launched).max(unchanged_since);
    Some(OverdueAction {
        what: "its budget is spent",
        place: 5,
        since,
        within: BEAT + machine.grace(Rule::OverBudget, settings),
    })
}

fn lifetime_due(
    machine: &SimulatedMachine,
    settings: &SimulatedConfig,
    unchanged_since: i64,
    now: i64,
) -> Option<OverdueAction> {
    let too_old_at = machine.launched + settings.lifetime.max;
    (too_old_at < now && machine.says.expires_at.is_none()).then_some(OverdueAction {
        what: "it is too old",
        place: 2,
        since: too_old_at.max(unchanged_since),
        within: machine.grace(Rule::Lifetime, settings),
    })
}
