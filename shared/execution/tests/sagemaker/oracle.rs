//! The oracle: what must never happen, and what must happen in the end. It is written from the contract and uses nothing of the policy: neither
//! `decide`, nor its parsing of tags, configuration, activity or limits.

mod liveness;
mod notifications;
mod truth;

use std::collections::VecDeque;

use billing::budget::BudgetVerdict;
use model::curfew_tags::{EXPIRES_AT, MARKED, STOPPED};
use model::mode::Mode;
use model::rule::{ResourceAction, Rule};
use model::sagemaker::ObservedSageMaker;
use plan::{Evidence, Plan};

use crate::budgets::{BudgetReading, HOLDERS, stopping};
use crate::chance::{DAY, HOUR, stamp};
use crate::driver::find_bug;
use crate::session::Facts;
use crate::world::{SimulatedResource, StoppedBy};
use truth::SeenUse;

/// The most violations that one account stores: the first ones explain the rest.
const VIOLATIONS_MAX: usize = 20;
/// An older announcement is void.
const FORGOTTEN_AFTER: i64 = 7 * DAY;
/// Two runs at once, and one that acts an hour later.
const RUNS_UNDER_WAY_MAX: usize = 4;

#[derive(Default)]
pub(crate) struct InvariantOracle {
    pub(crate) violations: Vec<(i64, String)>,
    /// The last fault of any kind, the last that may make a run forget what it did, and the last edit of the configuration or of `CURFEW_MODE`.
    pub(crate) last_fault: i64,
    pub(crate) last_forgotten: i64,
    pub(crate) configured_at: i64,
    /// When the logs were lost, and with them whatever was announced.
    logs_lost_at: i64,
    /// When a budget was last spent or raised, or a month began.
    pub(crate) budgets_changed_at: i64,
    /// The budgets as the latest runs read them.
    reads: VecDeque<(u64, [Option<BudgetReading>; HOLDERS])>,
    /// Policy actions of one run.
    inferred: (u64, i64),
    records: Vec<ResourceRecord>,
}

/// The oracle's record of what runs under one name.
#[derive(Default)]
struct ResourceRecord {
    announced: Vec<PromisedAction>,
    /// Fingerprints of notifications, and when they were sent.
    told: Vec<(u64, i64)>,
    /// When its owner was last notified of a rule, and of a tag that cannot be read.
    told_of: [i64; Rule::RUNNING.len()],
    unreadable_told_at: i64,
    /// A stop or deletion without a notification so far.
    untold_end: Option<i64>,
    /// Held by the limits in this run.
    held_at: i64,
    /// Its owner reacted to a message of the run that began then.
    reacted_at: i64,
    /// What the latest runs were told by metrics: how late these were; nothing where a question was not answered.
    asked: Vec<(i64, Option<i64>)>,
    /// A fault may have kept the log from remembering the stop.
    stop_unproved: bool,
    /// Already reported.
    overdue: [i64; liveness::DUES],
}

/// An announcement.
struct PromisedAction {
    rule: Rule,
    deadline: i64,
    told_at: i64,
    /// The rule's grace at that time.
    grace: i64,
    /// A later run has found the rule compliant, skipped or only observed the resource, or cancelled it, and could remember that.
    void: bool,
    /// The run that announced it was cancelled.
    called_off_by: Option<u64>,
}

impl InvariantOracle {
    pub(crate) fn violated(&mut self, now: i64, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push((now, what));
        }
    }

    /// The budgets as a run read them.
    pub(crate) fn read(&mut self, run: u64, budgets: [Option<BudgetReading>; HOLDERS]) {
        self.reads.push_front((run, budgets));
        self.reads.truncate(RUNS_UNDER_WAY_MAX);
    }

    pub(crate) fn budgets_of(&self, facts: &Facts) -> [Option<BudgetReading>; HOLDERS] {
        let read = self.reads.iter().find(|(run, _)| *run == facts.id);
        read.map_or([None; HOLDERS], |(_, budgets)| *budgets)
    }

    /// The verdict of each budget by which it may be stopped, as the run read it.
    fn stopping(&self, one: &SimulatedResource, facts: &Facts) -> Vec<Option<BudgetVerdict>> {
        let read = self.budgets_of(facts);
        stopping(one.says.team, &facts.settings).map(|holder| read[holder]?.verdict(facts.now)).collect()
    }

    fn record(&mut self, place: usize) -> &mut ResourceRecord {
        if self.records.len() <= place {
            self.records.resize_with(place + 1, ResourceRecord::default);
        }
        &mut self.records[place]
    }

    /// A run asked a metric of it, and was told so late, or nothing.
    pub(crate) fn asked(&mut self, place: usize, now: i64, lag: Option<i64>) {
        let asked = &mut self.record(place).asked;
        match asked.iter_mut().find(|(at, _)| *at == now) {
            Some((_, known)) => *known = known.and(lag),
            None => asked.push((now, lag)),
        }
        let over = asked.len().saturating_sub(RUNS_UNDER_WAY_MAX);
        asked.drain(..over);
    }

    /// A plan names every observed resource exactly once, and holds exactly what exceeds the limits.
    pub(crate) fn planned(
        &mut self,
        plan: &Plan,
        seen: &ObservedSageMaker,
        resources: &[SimulatedResource],
        facts: &Facts,
    ) {
        let of_steps = plan.steps.iter().map(|step| &step.target);
        let targets = of_steps.chain(plan.skipped.iter().map(|skipped| &skipped.target));
        let mut planned: Vec<_> = targets.map(|target| (target.region.as_str(), target.resource.as_str())).collect();
        let mut expected: Vec<_> = seen.items.iter().map(|one| (one.region.as_str(), one.id.as_str())).collect();
        planned.sort_unstable();
        expected.sort_unstable();
        if planned != expected {
            self.violated(facts.now, format!("the plan has {planned:?}, and seen were {expected:?}"));
        }
        if let Some(bug) = find_bug(plan) {
            self.violated(facts.now, bug);
        }
        let enforced = plan.steps.iter().filter(|step| step.mode == Mode::Enforce && step.action.stops_or_deletes());
        let is_inferred = |evidence: &Evidence| match evidence.rule() {
            Rule::Expired => was_first_seen_past(evidence),
            rule => is_inferred(rule),
        };
        let inferred: Vec<_> = enforced.filter(|step| is_inferred(&step.evidence)).collect();
        let exceeded = !within_limits(inferred.len(), facts);
        for step in inferred {
            let target = &step.target;
            if step.held.is_some() != exceeded {
                let is_held = if exceeded { "not held, above the limits" } else { "held for nothing" };
                self.violated(facts.now, format!("{}: its end is {is_held}", target.resource));
            }
            let is_it = |one: &SimulatedResource| one.id == target.resource && one.region == target.region;
            if let Some(place) = resources.iter().position(is_it).filter(|_| exceeded) {
                self.record(place).held_at = facts.now;
            }
        }
    }

    /// Curfew writes tags: its own alone, and no mark before its notification was accepted.
    pub(crate) fn tagged(&mut self, place: usize, one: &SimulatedResource, tags: &[(&str, String)], facts: &Facts) {
        // Of two concurrent runs the second tells the owner, who may react between the second read of the first and its write.
        if self.record(place).reacted_at <= facts.now {
            self.may_write(one, "its tags are written", facts);
        }
        if tags.iter().any(|(key, _)| ![MARKED, STOPPED].contains(key)) {
            self.violated(facts.now, format!("{}: other tags than Curfew's own are written: {tags:?}", one.id));
        }
        if let Some((_, mark)) = tags.iter().find(|(key, _)| *key == MARKED) {
            // An owner's own end needs no announcement: it is marked and carried out in one run.
            let was_announced = mark.starts_with("expired=")
                || self.record(place).announced.iter().any(|announced| {
                    let (rule, deadline) = (announced.rule, stamp(announced.deadline));
                    [ResourceAction::Stop, ResourceAction::Delete]
                        .iter()
                        .any(|ending| *mark == format!("{rule}={ending}@{deadline}"))
                });
            if !was_announced {
                self.violated(facts.now, format!("{}: is marked {mark}, which was not announced", one.id));
            }
        }
    }

    /// The owner reacts to the message of the run that began at `now`.
    pub(crate) fn owner_reacts(&mut self, place: usize, now: i64) {
        self.record(place).reacted_at = now;
    }

    fn may_write(&mut self, one: &SimulatedResource, what: &str, facts: &Facts) {
        if facts.ceiling == Mode::Observe {
            self.violated(facts.now, format!("{}: {what}, although Curfew only observes", one.id));
        }
        if let Some(skipped) = one.skip_reason(&facts.settings, facts.now) {
            self.violated(facts.now, format!("{}: {what}, although it is {skipped}", one.id));
        }
    }

    /// `SageMaker` stops or deletes it: one rule at least must justify that.
    pub(crate) fn ended(&mut self, place: usize, one: &SimulatedResource, ending: ResourceAction, facts: &Facts) {
        self.may_write(one, "ended", facts);
        // IAM asks for one of them, whatever it says.
        if ![MARKED, EXPIRES_AT].iter().any(|key| one.tags().contains_key(*key)) {
            self.violated(facts.now, format!("{}: ended, without a tag that lets Curfew", one.id));
        }
        let is_unseen = self.expired_unseen(one, facts.now);
        let complaints = Rule::RUNNING.map(|rule| (rule, self.unjustified(place, one, rule, ending, facts)));
        let is_justified = |owners_own: bool| {
            let is_inferred = |rule: Rule| is_inferred(rule) || (rule == Rule::Expired && is_unseen);
            complaints.iter().any(|(rule, complaint)| is_inferred(*rule) != owners_own && complaint.is_none())
        };
        if !is_justified(true) && !is_justified(false) {
            self.violated(facts.now, format!("{}: ended ({ending}), although {complaints:?}", one.id));
        }
        if !is_justified(true) {
            let count = if self.inferred.0 == facts.id { self.inferred.1 + 1 } else { 1 };
            self.inferred = (facts.id, count);
            if !within_limits(usize::try_from(count).unwrap_or(usize::MAX), facts) {
                self.violated(facts.now, format!("{}: the {count}th end of a run, above the limits", one.id));
            }
        }
        self.record(place).untold_end = Some(facts.now);
    }

    /// Why a rule does not justify an end.
    fn unjustified(
        &mut self,
        place: usize,
        one: &SimulatedResource,
        rule: Rule,
        ending: ResourceAction,
        facts: &Facts,
    ) -> Option<String> {
        let (settings, now) = (&facts.settings, facts.now);
        if one.mode(rule, settings, facts.ceiling) == Mode::Observe {
            return Some("it is only observed".to_owned());
        }
        if one.ending(rule, settings) != Some(ending) {
            return Some("its owner is only to be told".to_owned());
        }
        let asked = self.record(place).asked.iter().find(|(at, _)| *at == now).map(|(_, lag)| *lag);
        let seen_use = one.seen_use(settings, now, asked.unwrap_or_default());
        let stopping = self.stopping(one, facts);
        if let Some(unfounded) = one.unfounded(rule, seen_use, &stopping, settings, now) {
            return Some(unfounded.to_owned());
        }
        if rule == Rule::Expired && !self.expired_unseen(one, now) {
            return None;
        }
        // What was announced before it was kept, made again, or forgotten with the log, is announced anew.
        let kept = one.says.kept_until.filter(|until| *until <= now).unwrap_or(0);
        let told_after = kept.max(one.created).max(if self.logs_lost_at <= now { self.logs_lost_at } else { 0 });
        let not_before = one.since().max(if rule == Rule::Hours { one.last_end_of_hours(now) } else { 0 });
        let of_rule = || self.records[place].announced.iter().filter(|announced| announced.rule == rule);
        let in_time = |announced: &&PromisedAction| {
            // Hours that were set, or observed, within an hour of their end are announced late.
            let graced = rule == Rule::Hours || announced.told_at + announced.grace <= announced.deadline + 1;
            let stands = (not_before..=now).contains(&announced.deadline) && told_after <= announced.told_at;
            graced && stands && now - announced.deadline <= FORGOTTEN_AFTER
        };
        if of_rule().next().is_none() {
            Some("it was not announced".to_owned())
        } else if !of_rule().any(|announced| in_time(&announced)) {
            let moments = of_rule().map(|one| format!("{} for {}", stamp(one.told_at), stamp(one.deadline)));
            Some(format!("its time has not come: {:?}", moments.collect::<Vec<_>>()))
        } else if of_rule().any(|announced| in_time(&announced) && !announced.void) {
            None
        } else {
            Some("the announcement was withdrawn".to_owned())
        }
    }

    /// `SageMaker` starts a notebook instance.
    pub(crate) fn started(&mut self, one: &SimulatedResource, facts: &Facts) {
        self.may_write(one, "started", facts);
        let now = facts.now;
        if one.mode(Rule::Hours, &facts.settings, facts.ceiling) == Mode::Observe {
            self.violated(now, format!("{}: started, although it is only observed", one.id));
        }
        if !one.says.hours.is_some_and(|hours| hours.is_inside(now)) {
            self.violated(now, format!("{}: started outside its hours", one.id));
        }
        if one.says.expires_at.is_some_and(|at| at <= now) {
            self.violated(now, format!("{}: started after it expired", one.id));
        }
        if one.stopped_by != Some(StoppedBy::Curfew) || !one.was_stopped_for_hours {
            self.violated(now, format!("{}: started, although stopped by {:?}", one.id, one.stopped_by));
        }
    }

    /// The logs are lost: whatever was announced is announced anew, and nothing that was stopped starts again.
    pub(crate) fn notices_are_lost(&mut self, now: i64) {
        self.logs_lost_at = now;
        self.records.iter_mut().for_each(|record| record.stop_unproved = true);
    }

    /// Whether no run can have known the expiry before its time: somebody wrote it too late, or the logs are lost.
    const fn expired_unseen(&self, one: &SimulatedResource, now: i64) -> bool {
        let (Some(expires_at), written_at) = one.expiry else { return false };
        written_at >= expires_at || (self.logs_lost_at >= expires_at && self.logs_lost_at <= now)
    }

    /// Withdraws announcements that a run found resolved, or cancelled, where it could remember that.
    fn withdraw(&mut self, place: usize, one: &SimulatedResource, facts: &Facts) {
        let (settings, now) = (&facts.settings, facts.now);
        let asked = self.record(place).asked.iter().find(|(at, _)| *at == now).and_then(|(_, lag)| *lag);
        let seen_use = one.seen_use(settings, now, asked);
        let passed_over = !one.is_running() || one.skip_reason(settings, now).is_some();
        let stopping = self.stopping(one, facts);
        let is_resolved = |rule: Rule| match rule {
            Rule::Idle => seen_use == SeenUse::Busy,
            // That an endpoint is used defers its end.
            Rule::OverBudget => stopping.iter().all(|said| said.is_some_and(|verdict| verdict != BudgetVerdict::Stop)),
            // An announced end waits while it is used, or where that is unknown.
            Rule::Untagged => !one.lacks_tags(),
            Rule::Hours => one.says.hours.is_none_or(|hours| hours.is_inside(now) && hours.is_inside(now + 2 * HOUR)),
            _ => one.unfounded(rule, seen_use, &stopping, settings, now).is_some(),
        };
        let is_over =
            |rule: Rule| passed_over || one.mode(rule, settings, facts.ceiling) == Mode::Observe || is_resolved(rule);
        let is_seen = one.changed_at < now;
        for announced in self.record(place).announced.iter_mut().filter(|announced| announced.told_at < now) {
            announced.void |= announced.called_off_by == Some(facts.id) || (is_seen && is_over(announced.rule));
        }
        self.record(place).announced.retain(|announced| now - announced.deadline < 30 * DAY);
    }
}

/// Not wanted by its owner.
fn is_inferred(rule: Rule) -> bool {
    !matches!(rule, Rule::Expired | Rule::Hours)
}

/// Whether the limits allow a run so many policy actions.
fn within_limits(ends: usize, facts: &Facts) -> bool {
    let ends = i64::try_from(ends).unwrap_or(i64::MAX);
    let fleet = i64::try_from(facts.fleet).unwrap_or(i64::MAX);
    let too_large_a_share = fleet >= 10 && ends * 100 > fleet * facts.settings.fleet_share_max_percent;
    ends <= facts.settings.actions_max && !too_large_a_share
}

/// `true` if the evidence says that the expiry had passed when Curfew first saw it.
fn was_first_seen_past(evidence: &Evidence) -> bool {
    serde_json::to_value(evidence).is_ok_and(|facts| facts["first_seen_past"] == true)
}
