//! The explanation of one instance.

use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Timestamp;
use model::config::Config;
use model::curfew_tags::{CurfewTags, UnreadableTag};
use model::foreign::controller;
use model::foreign_text::quoted_unless_word;
use model::hours::HoursPosition;
use model::id::ResourceId;
use model::instance::{Instance, InstanceState};
use model::notification_log::{NotificationLog, NotificationLogs};
use model::observation::Observation;
use model::rule::Rule;
use model::usage::{Usage, UsageQuery, UsageWindow};
use plan::NotifyOnlyReason;

use super::feasible::describe_prepaid;
use super::gangs::{judged_usages, standings_of_gangs};
use super::{InstanceCase, NOT_ASKED, decide};
use crate::engine::{ResourceCase, RunningCase};
use crate::explain::{Explanation, ImmediateSkip, PlanDecision, RuleExplanation, explain_rules, state_name};
use crate::job_ownership::JobOwnership;
use crate::policy::Policy;
use crate::rules::{hours, idle};

/// Explains one instance that works alone, by the input of a run.
#[must_use]
pub fn explain(
    instance: &Instance,
    usage: Option<&Usage>,
    log: &NotificationLog,
    policy: &Policy,
    now: Timestamp,
) -> Option<Explanation> {
    let usages = usage.map(|usage| (instance.id.clone(), usage.clone())).into_iter().collect();
    explain_among(instance, std::slice::from_ref(instance), &usages, log, policy, now)
}

/// Explains one instance by the input of a run. Of the others, those of its gang count.
#[must_use]
pub fn explain_among(
    instance: &Instance,
    seen: &[Instance],
    usages: &BTreeMap<ResourceId, Usage>,
    log: &NotificationLog,
    policy: &Policy,
    now: Timestamp,
) -> Option<Explanation> {
    let gang = policy.gangs.gang_of(&instance.id);
    let is_member = |other: &&Instance| gang.is_some_and(|gang| gang.members.contains_key(&other.id));
    let mut members: Vec<Instance> = seen.iter().filter(is_member).cloned().collect();
    if members.is_empty() {
        members.push(instance.clone());
    }
    let memory = NotificationLogs::from([(instance.region.clone(), log.clone())]);
    let judged = judged_usages(usages, &members, policy, now);
    let usage = |id: &ResourceId| judged.get(id).unwrap_or(&NOT_ASKED);
    let alone: Vec<InstanceCase<'_>> = members
        .iter()
        .map(|member| InstanceCase { instance: member, usage: usage(&member.id), log, standings: None, policy, now })
        .collect();
    let standings = standings_of_gangs(&alone, &policy.gangs);
    let standings = standings.get(&instance.id).map(Rc::as_ref);
    let case = InstanceCase { instance, usage: usage(&instance.id), log, standings, policy, now };
    let members = Observation { items: members.clone(), gaps: Vec::new() };
    let decision = PlanDecision::from_plan(decide(&members, usages, &memory, policy, now), instance.id.as_str())?;
    let curfew_tags = CurfewTags::read(instance);
    let skipped = ImmediateSkip::explain(case, |_| {
        let owner = controller(instance, &policy.config.managed).unwrap_or_default();
        format!("managed by {owner}; change it there")
    });
    let mut rules = case.rules(&curfew_tags);
    if instance.prepaid.is_some() {
        for row in &mut rules {
            row.when = row.when.replace(NotifyOnlyReason::SavesNothing.explain(), &describe_prepaid(instance));
        }
    }
    let curfew_tags = curfew_tags.unwrap_or_default();
    Some(Explanation {
        target: case.target(),
        state: state_name(&instance.state),
        since: instance.launched_at,
        price: policy.prices.saved_by_ending(instance),
        // That of any policy action.
        mode: case.effective_mode(&curfew_tags, Rule::Lifetime),
        rules: if skipped.is_some() { rules.into_iter().map(RuleExplanation::while_skipped).collect() } else { rules },
        skipped,
        decision,
    })
}

/// The full `CloudWatch` query about one instance, whether or not a run would query now; `None` if it does not run.
#[must_use]
pub fn full_usage_query<'a>(instance: &'a Instance, config: &Config, now: Timestamp) -> Option<UsageQuery<'a>> {
    let curfew_tags = CurfewTags::read(instance).unwrap_or_default();
    let length = idle::window(&curfew_tags, config).unwrap_or(config.idle.window);
    let ask = UsageQuery::in_full(instance, UsageWindow::ending_before(now, length));
    Some(ask).filter(|_| instance.state == InstanceState::Running)
}

impl InstanceCase<'_> {
    fn rules(self, curfew_tags: &Result<CurfewTags, Vec<UnreadableTag>>) -> Vec<RuleExplanation> {
        let no_tags = CurfewTags::default();
        let readable_tags = curfew_tags.as_ref().unwrap_or(&no_tags);
        let not_judged = |why: &str, when: &str| {
            let row = |rule| {
                RuleExplanation::not_judged(
                    rule,
                    self.effective_mode(readable_tags, rule),
                    why.to_owned(),
                    when.to_owned(),
                )
            };
            Rule::RUNNING.map(row).to_vec()
        };
        if curfew_tags.is_err() && self.immediate_skip().is_some() {
            return not_judged("one of its tags cannot be read", "not while a tag cannot be read");
        }
        if let Some(why) = self.only_its_expiry_counts() {
            let when = "not while it belongs, or may belong, to that job";
            let mut rules = not_judged(&why, when);
            if self.instance.state == InstanceState::Running {
                for (row, judged) in rules.iter_mut().zip(explain_rules(self, readable_tags)) {
                    if row.rule == Rule::Expired {
                        *row = judged;
                    } else {
                        // What was announced before still is, where it is unknown whose it is.
                        (row.announced, row.deadline) = (judged.announced, judged.deadline);
                    }
                }
            }
            return rules;
        }
        if self.instance.state != InstanceState::Running {
            let state = format!("it is {}", state_name(&self.instance.state));
            let mut rules = not_judged(&state, "not before it runs");
            for row in rules.iter_mut().filter(|row| row.rule == Rule::Hours) {
                if let Some(began) = self.starts_at(readable_tags) {
                    row.starts_at = Some(began);
                    row.when = format!("started by the first run from {began} on, as its hours begin");
                }
            }
            return rules;
        }
        explain_rules(self, readable_tags)
    }

    /// The reason why only `expired` is judged: the instance is, or may be, a job's machine.
    fn only_its_expiry_counts(self) -> Option<String> {
        match self.ownership() {
            JobOwnership::Owned(job) => {
                Some(format!("it belongs to the job {}, which terminates it", quoted_unless_word(job)))
            }
            JobOwnership::Unknown(job) => {
                Some(format!("it is unknown whether it belongs to the job {} that it names", quoted_unless_word(job)))
            }
            JobOwnership::None | JobOwnership::NotOwned(_) => None,
        }
    }

    /// Time at which Curfew starts an instance again that it stopped for the night.
    fn starts_at(self, curfew_tags: &CurfewTags) -> Option<Timestamp> {
        let at = match curfew_tags.hours.as_ref()?.position(self.now) {
            HoursPosition::Inside { .. } => self.now,
            HoursPosition::Outside { until, .. } => until?,
        };
        let record = self.log.record(&self.instance.id);
        hours::start_is_due(self.instance, curfew_tags, record, at).filter(|began| !self.was_stopped_again(*began))
    }
}

#[cfg(test)]
mod tests;
