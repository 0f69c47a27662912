//! Gangs: instances that work together are judged together, and stopped together or not at all.
//!
//! - A member is idle only if all members of its team are: while one works, all are busy, and while the use of one is being asked, that of all is
//!   unknown. Members that Curfew may not stop, and never asks about, do not count for that.
//! - Of every policy action, Curfew announces that of one member only if it would announce that of each: the same rule, in the same mode. One
//!   member that is protected, kept, managed by others, only observed or of unknown use, or that a rule only notifies about, makes all of them
//!   notify only. One of another team does so too, but for `over-budget`: no team may hold what the budget of another demands.
//! - `plan::missing_members` holds the stops of a run that does not stop all of them, and `execution` reads all of them again before the first.
//!
//! What an owner scheduled for one instance, by `curfew:expires-at` or `curfew:hours`, is about that instance alone.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use jiff::Timestamp;
use model::curfew_tags::CurfewTags;
use model::gang::{Gang, Gangs};
use model::id::{ResourceId, TeamName};
use model::instance::{Instance, InstanceState};
use model::mode::Mode;
use model::notification_log::NotificationLog;
use model::rule::Rule;
use model::usage::{ActivityCache, BusyEvidence, LastInquiry, UnknownUsage, Usage, UsageQuery};
use plan::NotifyOnlyReason;

use super::explain::full_usage_query;
use super::usage_queries::{cached_usage, looks_back};
use super::{InstanceCase, NOT_ASKED};
use crate::engine::announcements::AnnouncedResource;
use crate::engine::{ResourceCase, Running, RunningCase, catch_bug};
use crate::policy::{DueAction, Policy, Verdict, Violation};

/// The usage by which each instance is judged: an idle member of a gang is as busy as the others of its team.
pub(super) fn judged_usages<'a>(
    usages: &'a BTreeMap<ResourceId, Usage>,
    seen: &[Instance],
    policy: &Policy,
    now: Timestamp,
) -> Cow<'a, BTreeMap<ResourceId, Usage>> {
    let mut judged = Cow::Borrowed(usages);
    for members in members_by_team(seen, policy) {
        let may_be_idle = |member: &&&Instance| may_be_idle(member, policy, now);
        let Some(instead) = usage_of_gang(&members, usages, may_be_idle) else { continue };
        // One that was not queried is known to be busy if its gang is.
        let is_judged_anew = |member: &&&Instance| {
            matches!(
                (usages.get(&member.id), &instead),
                (Some(Usage::Idle(_)), _) | (Some(Usage::Unknown(UnknownUsage::NotAsked)) | None, Usage::Busy(_))
            )
        };
        for member in members.iter().filter(may_be_idle).filter(is_judged_anew) {
            judged.to_mut().insert(member.id.clone(), instead.clone());
        }
    }
    judged
}

/// The observed members of each gang, those of each team together.
fn members_by_team<'a>(seen: impl IntoIterator<Item = &'a Instance>, policy: &Policy) -> Vec<Vec<&'a Instance>> {
    let mut all: BTreeMap<(&ResourceId, &Option<TeamName>), Vec<&'a Instance>> = BTreeMap::new();
    for instance in seen {
        let Some(gang) = policy.gangs.gang_of(&instance.id) else { continue };
        if let (Some(first), Some(team)) = (gang.members.keys().next(), gang.members.get(&instance.id)) {
            all.entry((first, team)).or_default().push(instance);
        }
    }
    all.into_values().collect()
}

/// `None` if each is judged by its own usage.
fn usage_of_gang(
    members: &[&Instance],
    usages: &BTreeMap<ResourceId, Usage>,
    may_be_idle: impl Fn(&&&Instance) -> bool,
) -> Option<Usage> {
    let busy = members.iter().filter_map(|member| match usages.get(&member.id) {
        Some(Usage::Busy(busy)) => Some(busy.until),
        Some(Usage::Idle(_) | Usage::Unknown(_)) | None => None,
    });
    // What stays unknown is a finding about that member, and makes the others notify only.
    let is_asked = |member: &&&Instance| match usages.get(&member.id).unwrap_or(&NOT_ASKED) {
        Usage::Unknown(unknown) => !unknown.is_finding(),
        Usage::Busy(_) | Usage::Idle(_) => false,
    };
    match busy.max() {
        Some(until) => Some(Usage::Busy(BusyEvidence { until, shown: None })),
        None => members
            .iter()
            .filter(may_be_idle)
            .find(is_asked)
            .map(|member| Usage::Unknown(UnknownUsage::GangMember(member.id.clone()))),
    }
}

/// The queries that are due, with those that gangs need: members of one team can only be found idle if one run queries them all. While nothing can
/// follow, because one works, its use stays unknown, or Curfew never stops it, the idle ones are queried once a window.
#[must_use]
pub fn ask_gangs_together<'a>(
    due: Vec<UsageQuery<'a>>,
    seen: &[&'a Instance],
    activity: &ActivityCache,
    policy: &Policy,
    now: Timestamp,
) -> Vec<UsageQuery<'a>> {
    let mut due: BTreeMap<&ResourceId, UsageQuery<'a>> = due.into_iter().map(|ask| (&ask.instance.id, ask)).collect();
    let members = seen.iter().filter(|one| policy.gangs.gang_of(&one.id).is_some());
    let judged: BTreeSet<&ResourceId> =
        members.filter(|one| may_be_idle(one, policy, now)).map(|one| &one.id).collect();
    let asked = |member: &Instance| activity.last_inquiry(member, now);
    for members in members_by_team(seen.iter().copied(), policy) {
        let gang = members.first().and_then(|first| policy.gangs.gang_of(&first.id));
        let may_all_be_idle = gang.is_some_and(|gang| gang.members.keys().all(|id| judged.contains(id)));
        let members: Vec<&'a Instance> = members.into_iter().filter(|one| judged.contains(&one.id)).collect();
        let is_busy = |member: &&Instance| matches!(cached_usage(member, activity, policy, now), Usage::Busy(_));
        let one_works = members.iter().any(is_busy);
        let stays_unknown = members.iter().any(|member| {
            let is_unknown = |asked: &LastInquiry| asked.busy_until.is_none() && asked.found_idle_reserved.is_none();
            asked(member).is_some_and(is_unknown) && !due.contains_key(&member.id)
        });
        if one_works || stays_unknown || !may_all_be_idle {
            due.retain(|id, ask| {
                let window = ask.window.to.duration_since(ask.window.from);
                let is_known =
                    |asked: &LastInquiry| asked.found_idle_reserved.is_some() && now.duration_since(asked.at) < window;
                !members.iter().any(|member| member.id == **id && asked(member).is_some_and(is_known))
            });
        }
        if !one_works && members.iter().any(|member| due.contains_key(&member.id)) {
            for member in members {
                let Some(full) = full_usage_query(member, &policy.config, now) else { continue };
                let (likely, looks_back) =
                    (asked(member).and_then(|asked| asked.shown_by.clone()), looks_back(asked(member), now));
                due.insert(&member.id, UsageQuery { likely, looks_back, ..full });
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
pub(super) struct GangStandings<'a> {
    gang: &'a Gang,
    by_member: BTreeMap<ResourceId, BTreeMap<Rule, Standing>>,
}

/// The standings of each gang, by each of its members.
pub(super) fn standings_of_gangs<'a>(
    cases: &[InstanceCase<'a>],
    gangs: &'a Gangs,
) -> BTreeMap<&'a ResourceId, Rc<GangStandings<'a>>> {
    let by_id: BTreeMap<&ResourceId, InstanceCase<'a>> = cases.iter().map(|case| (&case.instance.id, *case)).collect();
    let mut all = BTreeMap::new();
    for gang in gangs.all() {
        let standings = Rc::new(GangStandings::new(gang, &by_id));
        all.extend(gang.members.keys().map(|member| (member, Rc::clone(&standings))));
    }
    all
}

/// The cases with the standings of their gangs.
pub(super) fn within_gangs<'a>(
    alone: &'a [InstanceCase<'a>],
    standings: &'a BTreeMap<&ResourceId, Rc<GangStandings<'a>>>,
) -> impl Iterator<Item = InstanceCase<'a>> {
    alone.iter().map(|case| InstanceCase { standings: standings.get(&case.instance.id).map(Rc::as_ref), ..*case })
}

impl<'a> GangStandings<'a> {
    /// Judges by the cases of all instances of the run. A member that it does not see, such as one that a person did not choose, is unknown.
    fn new(gang: &'a Gang, cases: &BTreeMap<&ResourceId, InstanceCase<'_>>) -> Self {
        let member_case = |id: &ResourceId| match cases.get(id) {
            // The decision about it names the bug.
            Some(case) => catch_bug(id, || case.standings()).unwrap_or_else(|_| all_rules(Standing::Unknown)),
            None => all_rules(Standing::Unknown),
        };
        Self { gang, by_member: gang.members.keys().map(|id| (id.clone(), member_case(id))).collect() }
    }

    /// The reason to hold an action on one member, whose mode for that rule is `mode`.
    fn hold(&self, member: &ResourceId, rule: Rule, mode: Mode) -> Option<Standing> {
        let team = self.gang.members.get(member);
        let mut hold = None;
        for (other, standings) in self.by_member.iter().filter(|(id, _)| *id != member) {
            let is_of_team = self.gang.members.get(other) == team;
            match standings.get(&rule) {
                _ if !is_of_team && rule == Rule::OverBudget => {}
                Some(Standing::Acts(other)) if *other >= mode => {}
                Some(Standing::Unknown) | None if is_of_team => hold = Some(Standing::Unknown),
                Some(Standing::Acts(_) | Standing::Holds | Standing::Unknown) | None => return Some(Standing::Holds),
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
            // Not for a moment, as while a query is due: its owner has a finding, and those of the others are to hear of them.
            Verdict::Unknown if case.cannot_be_judged().is_some() || case.ownership().knows_only_its_expiry() => {
                Standing::Holds
            }
            Verdict::Unknown => Standing::Unknown,
            Verdict::Compliant => Standing::Holds,
            Verdict::Violated(Violation { due, .. }) => match due {
                DueAction::After(..) | DueAction::AtOnce(..) => Standing::Acts(case.mode(curfew_tags, rule)),
                // That passes by itself.
                DueAction::NotifyOnly(NotifyOnlyReason::Busy) => Standing::Unknown,
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
