//! What must happen in the end: what a rule ends is ended, its owner is notified, marks go with their reason, and notebook instances start in
//! the morning.

use billing::budget::BudgetVerdict;
use model::mode::Mode;
use model::rule::Rule;
use model::sagemaker::SageMakerStatus;

use super::InvariantOracle;
use super::notifications::grace;
use super::truth::SeenUse;
use crate::budgets::{SimulatedBudgets, stopping};
use crate::chance::{HOUR, stamp};
use crate::settings::SimulatedConfig;
use crate::world::{LAG, SimulatedResource, Sort, StoppedBy};

/// Without faults, the delay beyond the configured times: runs come once an hour, and one rule waits for another.
const DELAY_MAX: i64 = 8 * HOUR;
/// For a direct observation, notification or write.
const AT_ONCE: i64 = 4 * HOUR;

const RULES: usize = Rule::RUNNING.len();
/// What can be overdue, by place: the end of each rule, its notification, and these.
pub(super) const DUES: usize = 2 * RULES + 3;
const UNMARKED: usize = 2 * RULES;
const UNREADABLE: usize = 2 * RULES + 1;
const STARTED: usize = 2 * RULES + 2;

pub(super) fn place_of(rule: Rule) -> usize {
    Rule::RUNNING.iter().position(|one| *one == rule).unwrap_or(0)
}

impl InvariantOracle {
    /// Checks everything once an hour.
    pub(crate) fn watch(
        &mut self,
        resources: &[SimulatedResource],
        settings: &SimulatedConfig,
        ceiling: Mode,
        budgets: &SimulatedBudgets,
        now: i64,
    ) {
        for (place, one) in resources.iter().enumerate() {
            self.is_every_end_told(place, one, now);
            if one.gone_at.is_some() {
                continue;
            }
            let around = one.stopped_at - 2 * HOUR..=one.stopped_at + AT_ONCE;
            let is_doubtful = around.contains(&self.last_fault);
            let stop_unproved = &mut self.record(place).stop_unproved;
            *stop_unproved = !one.is_running() && (*stop_unproved || is_doubtful);
            let kept = one.says.kept_until.filter(|at| *at <= now).unwrap_or(0);
            let quiet_since = one.changed_at.max(one.modified).max(kept).max(self.configured_at).max(self.last_fault);
            if one.is_unreadable() && !one.says.protected {
                let due =
                    (self.record(place).unreadable_told_at < one.remembered_since).then_some(quiet_since + AT_ONCE);
                self.expect(place, UNREADABLE, due, "it cannot be read, and was not notified", one, now);
            }
            if one.skip_reason(settings, now).is_some() {
                continue;
            }
            if one.is_running() {
                self.watch_running(place, one, (settings, ceiling, budgets), quiet_since, now);
            } else if one.status == SageMakerStatus::Stopped {
                let due = start_due(one, settings, ceiling, now).filter(|_| !self.record(place).stop_unproved);
                let due = due.map(|since| quiet_since.max(since) + AT_ONCE);
                self.expect(place, STARTED, due, "its hours have begun", one, now);
            }
        }
    }

    fn watch_running(
        &mut self,
        place: usize,
        one: &SimulatedResource,
        (settings, ceiling, budgets): (&SimulatedConfig, Mode, &SimulatedBudgets),
        quiet_since: i64,
        now: i64,
    ) {
        // An endpoint that changed within its window is skipped until then.
        let window = one.window(settings).unwrap_or(settings.endpoint_window);
        let quiet_since = quiet_since.max(if one.serves() { one.modified + window } else { 0 });
        let promised = self.record(place).announced.iter().map(|announced| announced.deadline).max().unwrap_or(0);
        // Above the limits an end awaits approval.
        let held = self.record(place).held_at > now - 3 * HOUR;
        let seen_use = one.seen_use(settings, now, Some(LAG));
        for rule in Rule::RUNNING {
            let since = violated_since(one, rule, seen_use, (settings, budgets), now);
            let is_enforced = one.mode(rule, settings, ceiling) == Mode::Enforce;
            let ends = is_enforced && one.ending(rule, settings).is_some() && !held;
            let end = since.filter(|_| ends).map(|since| {
                let announced = if rule == Rule::Expired { 0 } else { promised };
                let due = (quiet_since.max(since) + grace(rule, settings)).max(announced) + DELAY_MAX;
                // Whatever the adversary does to its labels costs a run or two.
                due.max(one.tampered_at + AT_ONCE)
            });
            let what = format!("{rule} is violated in {:?}", one.mode(rule, settings, ceiling));
            self.expect(place, place_of(rule), end, &what, one, now);
            let not_before = self.violated_not_before(one, rule, now);
            let is_told = held || self.record(place).told_of[place_of(rule)] >= not_before;
            let told = since.filter(|_| !is_told);
            let told = told.map(|since| quiet_since.max(since) + DELAY_MAX);
            self.expect(place, RULES + place_of(rule), told, &format!("{what}, and was not notified"), one, now);
        }
        let is_busy = seen_use == SeenUse::Busy;
        let is_enforced = one.mode(Rule::Idle, settings, ceiling) == Mode::Enforce;
        let is_stale = one.is_marked_idle() && is_busy && is_enforced && one.silences.is_empty() && !held;
        let used_since = one.uses.iter().filter(|(begin, _)| *begin < now).map(|(begin, _)| *begin).max();
        let due =
            used_since.filter(|_| is_stale).map(|since| quiet_since.max(since + LAG).max(one.tampered_at) + AT_ONCE);
        self.expect(place, UNMARKED, due, "it is used, and still carries a mark", one, now);
    }

    /// The time before which a rule was certainly not violated for what it is violated for now. Amid faults and silence no run may have seen the
    /// last use.
    fn violated_not_before(&self, one: &SimulatedResource, rule: Rule, now: i64) -> i64 {
        let shown = one.last_shown_use(now);
        let is_seen = shown > self.last_fault && one.silences.iter().all(|(_, end)| *end < shown);
        match rule {
            Rule::Idle if is_seen => shown,
            // What has no hours to be stopped by is told of the rule, and not of each end.
            Rule::Hours if matches!(one.sort, Sort::Notebook | Sort::App) => one.last_end_of_hours(now) - HOUR,
            _ => one.remembered_since,
        }
    }

    /// Reports once that an action stays due without faults.
    fn expect(&mut self, place: usize, kind: usize, due: Option<i64>, what: &str, one: &SimulatedResource, now: i64) {
        let Some(due) = due.filter(|due| now > *due) else { return };
        if self.record(place).overdue[kind] < due {
            self.record(place).overdue[kind] = now;
            self.violated(now, format!("{}: nothing happens since {}, although {what}", one.id, stamp(due)));
        }
    }
}

/// Since when a rule is certainly violated without a break.
fn violated_since(
    one: &SimulatedResource,
    rule: Rule,
    seen_use: SeenUse,
    (settings, budgets): (&SimulatedConfig, &SimulatedBudgets),
    now: i64,
) -> Option<i64> {
    let window = one.window(settings);
    let spent_since = || stopping(one.says.team, settings).filter_map(|holder| budgets.spent_since(holder)).min();
    let known = spent_since().map(|_| BudgetVerdict::Stop);
    one.unfounded(rule, seen_use, &[known], settings, now).is_none().then_some(())?;
    let last = |times: &[(i64, i64)]| times.iter().map(|(_, end)| *end).max().unwrap_or(0);
    let unused_since = || last(&one.uses).max(last(&one.silences)).max(one.since()) + window.unwrap_or(0) + HOUR;
    Some(match rule {
        Rule::Expired => one.says.expires_at?,
        // What is used, or unknown, waits.
        Rule::Untagged => (one.created + settings.settle).max(if settings.spare_busy { unused_since() } else { 0 }),
        Rule::Idle => unused_since(),
        Rule::OverBudget if !one.serves() => spent_since()?.max(one.since()),
        Rule::OverBudget => spent_since()?.max(unused_since()),
        Rule::Hours => one.last_end_of_hours(now) + HOUR,
        _ => one.since() + settings.age_max,
    })
}

/// Since when a notebook instance that Curfew stopped for its hours should run.
fn start_due(one: &SimulatedResource, settings: &SimulatedConfig, ceiling: Mode, now: i64) -> Option<i64> {
    let hours = one.says.hours.filter(|hours| hours.is_inside(now))?;
    let began = hours.last_start(now);
    let is_due = one.sort == Sort::Notebook
        && one.stopped_by == Some(StoppedBy::Curfew)
        && one.was_stopped_for_hours
        && one.stopped_at < began
        && one.mode(Rule::Hours, settings, ceiling) == Mode::Enforce
        && one.says.expires_at.is_none_or(|at| at > now);
    is_due.then_some(began)
}
