//! Gangs: instances that work together are judged together, and stopped together or not at all.
//!
//! - A member is idle only if all members are: while one works, all are busy, and while the use of one is unknown, that of all is.
//! - Of every policy action, Curfew announces that of one member only if it would announce that of each: the same rule, in the same mode. One
//!   member that is protected, kept, managed by others or only observed, or that a rule only notifies about, makes all of them notify only.
//! - `plan::missing_members` holds the stops of a run that does not stop all of them, and `execution` reads all of them again before the first.
//!
//! What an owner scheduled for one instance, by `curfew:expires-at` or `curfew:hours`, is about that instance alone.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Timestamp;
use model::curfew_tags::CurfewTags;
use model::gang::{Gang, Gangs};
use model::id::ResourceId;
use model::instance::{Instance, InstanceState};
use model::mode::Mode;
use model::notification_log::NotificationLog;
use model::rule::Rule;
use model::usage::{ActivityCache, BusyEvidence, UnknownUsage, Usage, UsageQuery};
use plan::NotifyOnlyReason;

use super::explain::full_usage_query;
use super::usage_queries::cached_usage;
use super::{InstanceCase, NOT_ASKED};
use crate::engine::announcements::AnnouncementTarget;
use crate::engine::{ResourceCase, Running, RunningCase, catch_bug};
use crate::policy::{DueAction, Policy, Verdict, Violation};

/// The usage by which each instance is judged: that of a gang for its idle members.
pub(super) fn judged_usages<'a>(
    usages: &'a BTreeMap<ResourceId, Usage>,
    gangs: &Gangs,
) -> Cow<'a, BTreeMap<ResourceId, Usage>> {
    let mut judged = Cow::Borrowed(usages);
    for gang in gangs.all() {
        let Some(instead) = usage_of_gang(gang, usages) else { continue };
        // One that was not queried is known to be busy if its gang is.
        let is_judged_anew = |member: &&ResourceId| {
            matches!(
                (usages.get(*member), &instead),
                (Some(Usage::Idle(_)), _) | (Some(Usage::Unknown(UnknownUsage::NotAsked)) | None, Usage::Busy(_))
            )
        };
        for member in gang.members.iter().filter(is_judged_anew) {
            judged.to_mut().insert(member.clone(), instead.clone());
        }
    }
    judged
}

/// `None` if all members are idle.
fn usage_of_gang(gang: &Gang, usages: &BTreeMap<ResourceId, Usage>) -> Option<Usage> {
    let all = || gang.members.iter().map(|member| (member, usages.get(member).unwrap_or(&NOT_ASKED)));
    let busy = all().filter_map(|(_, usage)| match usage {
        Usage::Busy(busy) => Some(busy.until),
        Usage::Idle(_) | Usage::Unknown(_) => None,
    });
    let unknown = || all().find(|(_, usage)| matches!(usage, Usage::Unknown(_)));
    match busy.max() {
        Some(until) => Some(Usage::Busy(BusyEvidence { until, shown: None })),
        None => unknown().map(|(member, _)| Usage::Unknown(UnknownUsage::GangMember(member.clone()))),
    }
}

/// The queries that are due, with those that gangs need: a gang can only be found idle if one run queries all its members, and while one is known
/// to work, or its use stays unknown, nothing follows from the others.
#[must_use]
pub fn ask_gangs_together<'a>(
    due: Vec<UsageQuery<'a>>,
    seen: &[&'a Instance],
    activity: &ActivityCache,
    policy: &Policy,
    now: Timestamp,
) -> Vec<UsageQuery<'a>> {
    let mut due: BTreeMap<&ResourceId, UsageQuery<'a>> = due.into_iter().map(|ask| (&ask.instance.id, ask)).collect();
    let by_id: BTreeMap<&ResourceId, &'a Instance> = seen.iter().map(|instance| (&instance.id, *instance)).collect();
    for gang in policy.gangs.all() {
        let members: Vec<&'a Instance> = gang.members.iter().filter_map(|id| by_id.get(id).copied()).collect();
        if !members.iter().any(|member| due.contains_key(&member.id)) {
            continue;
        }
        let asked = |member: &Instance| activity.last_inquiry(member, now);
        let is_unknown = |member: &Instance| {
            asked(member).is_some_and(|asked| asked.busy_until.is_none() && asked.found_idle_reserved.is_none())
        };
        let is_busy = |member: &Instance| matches!(cached_usage(member, activity, policy, now), Usage::Busy(_));
        let stays_unknown = |member: &Instance| is_unknown(member) && !due.contains_key(&member.id);
        let is_complete =
            members.len() == gang.members.len() && members.iter().all(|one| may_be_idle(one, policy, now));
        let may_be_found_idle = is_complete && !members.iter().any(|member| is_busy(member) || stays_unknown(member));
        for member in members {
            let Some(full) = full_usage_query(member, &policy.config, now) else { continue };
            let length = full.window.to.duration_since(full.window.from);
            if may_be_found_idle {
                let likely = asked(member).and_then(|asked| asked.shown_by.clone());
                due.insert(&member.id, UsageQuery { likely, ..full });
            } else if asked(member)
                .is_some_and(|asked| asked.found_idle_reserved.is_some() && now.duration_since(asked.at) < length)
            {
                due.remove(&member.id);
            }
        }
    }
    due.into_values().collect()
}

/// `true` unless its tags alone say that it is never found idle.
fn may_be_idle(instance: &Instance, policy: &Policy, now: Timestamp) -> bool {
    let log = &NotificationLog::default();
    let case = InstanceCase { instance, usage: &NOT_ASKED, log, standings: None, policy, now };
    instance.state == InstanceState::Running && case.immediate_skip().is_none() && case.is_judged_for_idleness()
}

/// Case of one member by itself, of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is announced, or due, in this mode.
    Acts(Mode),
    Unknown,
    /// No action follows.
    Holds,
}

/// The standings of all members of one gang.
#[derive(Debug)]
pub(super) struct GangStandings(BTreeMap<ResourceId, BTreeMap<Rule, Standing>>);

/// The standings of each gang, by each of its members.
pub(super) fn standings_of_gangs<'a>(
    cases: &[InstanceCase<'a>],
    gangs: &'a Gangs,
) -> BTreeMap<&'a ResourceId, Rc<GangStandings>> {
    let by_id: BTreeMap<&ResourceId, InstanceCase<'a>> = cases.iter().map(|case| (&case.instance.id, *case)).collect();
    let mut all = BTreeMap::new();
    for gang in gangs.all() {
        let standings = Rc::new(GangStandings::new(gang, &by_id));
        all.extend(gang.members.iter().map(|member| (member, Rc::clone(&standings))));
    }
    all
}

impl GangStandings {
    /// Judges by the cases of all instances of the run. A member that it does not see, such as one that a person did not choose, is unknown.
    fn new(gang: &Gang, cases: &BTreeMap<&ResourceId, InstanceCase<'_>>) -> Self {
        let member_case = |id: &ResourceId| match cases.get(id) {
            // The decision about it names the bug.
            Some(case) => catch_bug(id, || case.standings()).unwrap_or_else(|_| all_rules(Standing::Unknown)),
            None => all_rules(Standing::Unknown),
        };
        Self(gang.members.iter().map(|id| (id.clone(), member_case(id))).collect())
    }

    /// The reason to hold an action on one member, whose mode for that rule is `mode`.
    fn hold(&self, member: &ResourceId, rule: Rule, mode: Mode) -> Option<Standing> {
        let others = self.0.iter().filter(|(id, _)| *id != member);
        let mut hold = None;
        for (_, standings) in others {
            match standings.get(&rule) {
                Some(Standing::Acts(other)) if *other >= mode => {}
                Some(Standing::Acts(_) | Standing::Holds) => return Some(Standing::Holds),
                Some(Standing::Unknown) | None => hold = Some(Standing::Unknown),
            }
        }
        hold
    }
}

fn all_rules(standing: Standing) -> BTreeMap<Rule, Standing> {
    Rule::RUNNING.into_iter().map(|rule| (rule, standing)).collect()
}

impl InstanceCase<'_> {
    /// The standings of this member by itself.
    fn standings(self) -> BTreeMap<Rule, Standing> {
        let case = InstanceCase { standings: None, ..self };
        if case.instance.state != InstanceState::Running {
            return all_rules(Standing::Unknown);
        }
        if case.immediate_skip().is_some() {
            return all_rules(Standing::Holds);
        }
        let curfew_tags = &case.curfew_tags().unwrap_or_default();
        let verdicts = Running { case, curfew_tags }.within_labels(case.verdicts(curfew_tags));
        let standing = |rule, verdict: &Verdict| match verdict {
            Verdict::Unknown => Standing::Unknown,
            Verdict::Compliant => Standing::Holds,
            Verdict::Violated(Violation { due, .. }) => match due {
                DueAction::After(..) | DueAction::AtOnce(..) => Standing::Acts(case.mode(curfew_tags, rule)),
                // Both pass by themselves.
                DueAction::NotifyOnly(NotifyOnlyReason::Busy | NotifyOnlyReason::SpotRequestUnknown) => {
                    Standing::Unknown
                }
                DueAction::NotifyOnly(_) => Standing::Holds,
            },
        };
        verdicts.iter().map(|(rule, verdict)| (*rule, standing(*rule, verdict))).collect()
    }

    /// The verdict on a member of a gang: no policy action of which the others are left out.
    pub(super) fn within_gang(self, curfew_tags: &CurfewTags, rule: Rule, verdict: Verdict) -> Verdict {
        let Verdict::Violated(violation @ Violation { due: DueAction::After(..), .. }) = verdict else {
            return verdict;
        };
        let standings = self.standings.filter(|_| !rule.is_owners_own());
        match standings.and_then(|gang| gang.hold(&self.instance.id, rule, self.mode(curfew_tags, rule))) {
            None | Some(Standing::Acts(_)) => Verdict::Violated(violation),
            Some(Standing::Unknown) => Verdict::Unknown,
            Some(Standing::Holds) => {
                Verdict::Violated(Violation { due: DueAction::NotifyOnly(NotifyOnlyReason::Gang), ..violation })
            }
        }
    }
}

#[cfg(test)]
mod tests;
