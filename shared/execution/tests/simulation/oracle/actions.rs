//! Stops, terminations and starts: of which machines, for which reason, and after which announcement.

use billing::budget::BudgetVerdict;
use model::config::PowerEvidence;
use model::curfew_tags::{EXPIRES_AT, JOB, MARKED};
use model::id::Region;
use model::instance::InstanceState;
use model::mode::Mode;
use model::rule::{ResourceAction, Rule};

use super::truth::{HOURS_NOTICE, TrueUsage};
use super::{InvariantOracle, within_limits};
use crate::chance::{TICK, stamp};
use crate::jobs::MachineOwner;
use crate::session::Facts;
use crate::world::{MachineWork, SimulatedMachine, StoppedBy};

impl InvariantOracle {
    /// EC2 carries out an end.
    pub(crate) fn ended(&mut self, machine: &SimulatedMachine, rule: Rule, ending: ResourceAction, facts: &Facts) {
        let what = format!("ended ({ending} for {rule})");
        self.may_write(machine, &what, facts);
        // IAM asks for one of them, whatever it says.
        if ![MARKED, EXPIRES_AT, JOB].iter().any(|key| machine.ec2.tags.contains_key(*key)) {
            self.violated(facts.now, format!("{}: {what}, without a tag that lets Curfew", machine.id()));
        }
        self.ends[rule_place(rule)][usize::from(ending == ResourceAction::Terminate)] += 1;
        let whose = self.whose(machine, facts);
        if whose.knows_only_its_expiry() && rule != Rule::Expired {
            self.violated(facts.now, format!("{}: {what}, although it may be a job's: {whose:?}", machine.id()));
        }
        if machine.mode(rule, whose, &facts.settings, facts.ceiling) == Mode::Observe {
            self.violated(facts.now, format!("{}: {what}, although it is only observed", machine.id()));
        }
        match machine.ending(rule, whose, &facts.settings) {
            Some(due) if due >= ending => {}
            Some(due) => self.violated(facts.now, format!("{}: {what}, where {due} is due", machine.id())),
            None => {
                self.violated(facts.now, format!("{}: {what}, although its owner is only to be told", machine.id()));
            }
        }
        if let Some(unfounded) = unfounded(machine, rule, whose, &self.stopping(machine, facts), facts) {
            self.violated(facts.now, format!("{}: {what}, although {unfounded}", machine.id()));
        }
        self.is_announced(machine, rule, ending, facts);
        // What was refused in this life counts for nothing.
        let is_counted = machine.stop_protection.refused_at < machine.launched;
        if is_counted && (!matches!(rule, Rule::Expired | Rule::Hours) || self.expired_unseen(machine, rule, facts)) {
            let count = if self.inferred.0 == facts.id { self.inferred.1 + 1 } else { 1 };
            self.inferred = (facts.id, count);
            if !within_limits(count, facts) {
                self.violated(facts.now, format!("{}: {what}, the {count}th of a run, above the limits", machine.id()));
            }
        }
        // A terminated machine is idle no longer; its owner would have left it idle until now.
        if rule == Rule::Idle && ending == ResourceAction::Terminate && machine.work == MachineWork::Nothing {
            self.share.recovered += (machine.work_until - facts.now).max(0);
        }
        self.record(machine.id()).untold_end = Some(facts.now);
    }

    /// EC2 ends one of a gang. `others` go on, or are ended after it.
    pub(crate) fn leaves_gang(
        &mut self,
        machine: &SimulatedMachine,
        others: &[&SimulatedMachine],
        rule: Rule,
        facts: &Facts,
    ) {
        // What its owner scheduled is about this one.
        if matches!(rule, Rule::Expired | Rule::Hours) {
            return;
        }
        // A run does not see what changes while it acts.
        for other in others.iter().filter(|other| other.changed_at < facts.now - TICK) {
            let whose = self.whose(other, facts);
            let window = other.idle_window(&facts.settings);
            let look = window.map(|window| other.true_usage(window, &facts.settings, facts.now));
            let complaint = if rule == Rule::Idle && !matches!(look, Some(TrueUsage::Idle { holds_memory: false })) {
                format!("looks {look:?}")
            } else if other.skip_reason(facts.now).is_some() {
                "is left alone".to_owned()
            } else if other.mode(rule, whose, &facts.settings, facts.ceiling) == Mode::Observe {
                "is only observed".to_owned()
            } else if other.ending(rule, whose, &facts.settings).is_none() {
                "may not be ended".to_owned()
            } else {
                continue;
            };
            let what = format!("{}: ended for {rule}, although {} of its gang {complaint}", machine.id(), other.id());
            self.violated(facts.now, what);
        }
    }

    /// A delivered message named it, announced nothing milder, and preceded it by its grace.
    fn is_announced(&mut self, machine: &SimulatedMachine, rule: Rule, ending: ResourceAction, facts: &Facts) {
        // Its owner announced it.
        if rule == Rule::Expired && !self.expired_unseen(machine, rule, facts) {
            return;
        }
        let launched = machine.launched;
        let (logs_lost_at, kept) = (self.log_lost_at(machine), machine.says.kept_until);
        let announced = &self.record(machine.id()).announced;
        let is_overtaken = |at: i64| kept.is_some_and(|until| until <= facts.now && until > at);
        let is_lost = |at: i64| at < logs_lost_at && logs_lost_at <= facts.now;
        let holds = |one: &super::PromisedAction| {
            one.told_at >= launched && !is_overtaken(one.told_at) && !is_lost(one.told_at)
        };
        let in_this_life = || announced.iter().filter(|one| one.rule == rule && holds(one));
        let in_time = |one: &&super::PromisedAction| {
            // Hours that were set, or observed, within half an hour of their end are announced late.
            let graced = rule == Rule::Hours || one.told_at + one.grace <= one.deadline + 1;
            one.deadline <= facts.now && graced
        };
        let complaint = if in_this_life().next().is_none() {
            Some("without an announcement")
        } else if !in_this_life().any(|one| in_time(&one)) {
            Some("before its time")
        } else if !in_this_life().any(|one| in_time(&one) && one.ending >= ending) {
            Some("after a milder announcement")
        } else if !in_this_life().any(|one| in_time(&one) && one.ending >= ending && !one.mended) {
            Some("on an announcement that was mended since")
        } else {
            None
        };
        if let Some(complaint) = complaint {
            let announced: Vec<String> =
                in_this_life().map(|one| format!("at {} for {}", stamp(one.told_at), stamp(one.deadline))).collect();
            let what = format!("{}: ended ({ending} for {rule}) {complaint}; announced: {announced:?}", machine.id());
            self.violated(facts.now, what);
        }
    }

    /// EC2 carries out a start.
    pub(crate) fn started(&mut self, machine: &SimulatedMachine, facts: &Facts) {
        self.may_write(machine, "started", facts);
        let now = facts.now;
        let id = machine.id();
        let whose = self.whose(machine, facts);
        if whose.knows_only_its_expiry() {
            self.violated(now, format!("{id}: started, although it may be a job's: {whose:?}"));
        }
        if machine.mode(Rule::Hours, whose, &facts.settings, facts.ceiling) == Mode::Observe {
            self.violated(now, format!("{id}: started, although it is only observed"));
        }
        if !machine.says.hours.is_some_and(|hours| hours.is_inside(now)) {
            self.violated(now, format!("{id}: started outside its hours"));
        }
        if machine.says.expires_at.is_some_and(|at| at <= now) {
            self.violated(now, format!("{id}: started after it expired"));
        }
        // A stop that Curfew began and could not finish leaves `curfew:stopped` on a machine that its owner stops a moment later.
        let clear = self.last_fault < machine.launched && machine.changed_at - machine.launched > 3 * TICK;
        match machine.stopped_by {
            Some(StoppedBy::Curfew(Rule::Hours | Rule::Idle)) => {}
            Some(StoppedBy::Curfew(rule)) => self.violated(now, format!("{id}: started, although stopped for {rule}")),
            Some(StoppedBy::Owner) if clear => {
                self.violated(now, format!("{id}: started, although its owner stopped it"));
            }
            Some(StoppedBy::Owner) | None => {}
        }
    }

    /// A run finished: a violation that it found resolved may not be enforced any more.
    pub(crate) fn ran(&mut self, facts: &Facts, machines: &[SimulatedMachine], last_fault: i64) {
        self.last_fault = last_fault;
        // An observation that a run could not read, write or remember does not count.
        if last_fault >= facts.now {
            return;
        }
        for machine in machines {
            let id = machine.id();
            if self.record(id).announced.is_empty() {
                continue;
            }
            let seen = machine.changed_at < facts.now;
            let passed_over = machine.skip_reason(facts.now).is_some() || !machine.is(InstanceState::Running);
            let (stopping, whose) = (self.stopping(machine, facts), self.whose(machine, facts));
            let logs_lost_at = self.log_lost_at(machine);
            let is_queried = |one: &super::PromisedAction| {
                one.rule == Rule::Idle && !one.mended && one.told_at > logs_lost_at && one.told_at < facts.now
            };
            let is_queried = self.record(id).announced.iter().any(is_queried);
            for rule in Rule::RUNNING {
                let only_observed = machine.mode(rule, whose, &facts.settings, facts.ceiling) == Mode::Observe;
                let over =
                    passed_over || only_observed || is_mended(machine, rule, whose, &stopping, is_queried, facts);
                let of_rule = self.record(id).announced.iter_mut().filter(|one| one.rule == rule);
                of_rule.filter(|one| seen && over && one.told_at < facts.now).for_each(|one| one.mended = true);
            }
            // Cancelled in a run that could remember it; otherwise it may hold again.
            for one in &mut self.record(id).announced {
                one.mended |= one.called_off_by == Some(facts.id);
            }
            let launched = machine.launched;
            self.record(id).announced.retain(|one| one.told_at >= launched);
        }
    }

    /// Each budget by which the machine may be stopped, as the run read it.
    fn stopping(&self, machine: &SimulatedMachine, facts: &Facts) -> Vec<Option<BudgetVerdict>> {
        let read = self.budgets_of(facts);
        machine.stopping_budgets(&facts.settings).map(|holder| read[holder]?.verdict(facts.now)).collect()
    }

    /// The logs of these regions are lost: whatever was announced is announced anew, and nothing that was stopped starts again.
    pub(crate) fn notices_are_lost(&mut self, regions: impl Iterator<Item = Region>, now: i64) {
        self.logs_lost_at.extend(regions.map(|region| (region, now)));
        self.records.iter_mut().for_each(|record| record.stop_unproved = true);
    }

    fn log_lost_at(&self, machine: &SimulatedMachine) -> i64 {
        self.logs_lost_at.get(&machine.ec2.region).copied().unwrap_or(0)
    }

    /// Whether no run can have known the expiry of a machine before its time: somebody wrote it too late, or the logs are lost.
    fn expired_unseen(&self, machine: &SimulatedMachine, rule: Rule, facts: &Facts) -> bool {
        let (Some(expires_at), written_at) = machine.expiry else { return false };
        let log_lost_at = self.log_lost_at(machine);
        let is_lost = log_lost_at >= expires_at && log_lost_at <= facts.now;
        rule == Rule::Expired && (written_at >= expires_at || is_lost)
    }
}

/// Why the given reason does not hold, by the readable data.
/// `stopping`: the status of the budgets by which it may be stopped.
fn unfounded(
    machine: &SimulatedMachine,
    rule: Rule,
    whose: MachineOwner,
    stopping: &[Option<BudgetVerdict>],
    facts: &Facts,
) -> Option<String> {
    let (settings, now) = (&facts.settings, facts.now);
    let window = machine.idle_window(settings);
    match rule {
        Rule::Expired => (machine.says.expires_at.is_none_or(|at| at > now)).then(|| "it has not expired".to_owned()),
        Rule::Hours => {
            let outside =
                machine.says.hours.is_some_and(|hours| !hours.is_inside(now) && machine.launched < hours.last_end(now));
            (!outside).then(|| "it is within its hours, or was started by hand after them".to_owned())
        }
        Rule::Lifetime => {
            let young = now - machine.launched <= settings.lifetime.max || machine.says.expires_at.is_some();
            young.then(|| "it is not too old".to_owned())
        }
        Rule::Untagged => {
            if !machine.lacks_tags(settings) && !whose.is_disowned() {
                return Some("it has its tags, and is the job's that it names".to_owned());
            }
            if machine.launched + settings.untagged.settle > now {
                return Some("its tags may still arrive".to_owned());
            }
            let look = machine.true_usage(window.unwrap_or(settings.idle.window), settings, now);
            (settings.untagged.spare_busy && look == TrueUsage::Busy).then(|| "it is at work".to_owned())
        }
        Rule::UnlistedProject if !machine.is_unlisted(settings) => {
            Some("its project is listed, or it names none".to_owned())
        }
        Rule::UnlistedProject => {
            (machine.launched + settings.untagged.settle > now).then(|| "its tags may still change".to_owned())
        }
        Rule::Idle => match window.map(|window| machine.true_usage(window, settings, now)) {
            Some(TrueUsage::Idle { holds_memory: false }) => None,
            Some(TrueUsage::IdleByPower) if settings.idle.power == PowerEvidence::Enforce => None,
            look => Some(format!("it looks {look:?}")),
        },
        Rule::OverBudget => (!stopping.contains(&Some(BudgetVerdict::Stop)))
            .then(|| "no young document of this month says that its budget is spent".to_owned()),
        Rule::Orphaned => Some("it is no volume".to_owned()),
    }
}

/// Whether the readable data shows a rule compliant.
/// `stopping`: as above. `is_queried`: CloudWatch is asked about it in every run.
fn is_mended(
    machine: &SimulatedMachine,
    rule: Rule,
    whose: MachineOwner,
    stopping: &[Option<BudgetVerdict>],
    is_queried: bool,
    facts: &Facts,
) -> bool {
    let (settings, now) = (&facts.settings, facts.now);
    if whose.knows_only_its_expiry() {
        // A job's machine violates no other rule; for a machine that may be one, that is unknown.
        return whose == MachineOwner::OwnJob && rule != Rule::Expired;
    }
    match rule {
        Rule::Expired | Rule::Orphaned => false,
        Rule::OverBudget => stopping.iter().all(|said| said.is_some_and(|verdict| verdict != BudgetVerdict::Stop)),
        Rule::Untagged => !machine.lacks_tags(settings) && !whose.is_disowned(),
        Rule::UnlistedProject => !machine.is_unlisted(settings),
        Rule::Lifetime => now - machine.launched <= settings.lifetime.max || machine.says.expires_at.is_some(),
        Rule::Hours => {
            machine.says.hours.is_none_or(|hours| hours.is_inside(now) && hours.is_inside(now + HOURS_NOTICE + TICK))
        }
        // Announced machines are queried in every run.
        Rule::Idle => match machine.idle_window(settings) {
            Some(window) => is_queried && machine.true_usage(window, settings, now) == TrueUsage::Busy,
            None => true,
        },
    }
}

pub(crate) fn rule_place(rule: Rule) -> usize {
    Rule::RUNNING.iter().position(|one| *one == rule).unwrap_or(0)
}
