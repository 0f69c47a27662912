//! The blast radius: above `[limits]` a run carries out none of its policy actions, and asks a person.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use model::config::LimitsConfig;
use model::id::ResourceId;

use crate::gang::{self, gang_key};
use crate::{Action, Plan, SkipReason, Skipped, Step};

/// Reason that the policy actions of a run await approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsExceeded {
    /// Policy actions that are due.
    pub actions: usize,
    /// Observed instances, volumes or resources of `SageMaker`.
    pub fleet: usize,
    /// `instances`, `volumes` or `SageMaker resources`.
    pub kind: &'static str,
    /// `[limits].actions_max`.
    pub actions_max: u32,
    /// `[limits].fleet_share_max_percent`.
    pub fleet_share_max_percent: u8,
}

/// The text for owners, in messages, and for the person who approves.
impl fmt::Display for LimitsExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { actions, fleet, kind, actions_max, fleet_share_max_percent } = self;
        write!(f, "{actions} of {fleet} {kind} are due at once, which exceeds [limits] ")?;
        if *actions > usize::try_from(*actions_max).unwrap_or(usize::MAX) {
            write!(f, "actions_max = {actions_max}")?;
        } else {
            write!(f, "fleet_share_max_percent = {fleet_share_max_percent}")?;
        }
        f.write_str("; a person must approve that (`curfew plans`). Keep what you need: `curfew keep ID`")
    }
}

/// The share limit counts only in fleets of this size: in a smaller one a single instance is a large share.
const FLEET_MIN_FOR_SHARE: usize = 10;

/// Holds all policy actions of a plan that exceeds a limit. Marks, messages, starts and scheduled actions are neither counted nor
/// held; nor is an action that AWS refused before, and will refuse again. Of these a run tries as many as the limits allow, the one that
/// waits longest first: what refused them may be gone for all at once. Limits that allow nothing hold these as well, and those of a gang
/// that is larger than they allow.
pub fn hold_where_exceeded(plan: &mut Plan, limits: &LimitsConfig) {
    gang::wait_for_all(plan);
    hold(plan, limits);
    // What AWS refused before is neither held nor always tried.
    gang::wait_for_all(plan);
}

fn hold(plan: &mut Plan, limits: &LimitsConfig) {
    let fleet = plan.seen;
    let allowed = allowed(fleet, limits);
    let gangs = gang_sizes(plan);
    let fits = |step: &Step| gang_key(step).and_then(|key| gangs.get(key)).copied().unwrap_or(1) <= allowed;
    let is_retried = |step: &Step| step.is_policy_action() && step.refused_at.is_some() && fits(step);
    skip_refused_above(plan, allowed, &gangs, is_retried);
    let steps = &mut plan.steps;
    let is_counted = |step: &Step| step.is_policy_action() && !is_retried(step);
    let ends = steps.iter().filter(|step| is_counted(step)).count();
    if ends <= allowed {
        return;
    }
    let exceeded = LimitsExceeded {
        actions: ends,
        fleet,
        kind: resource_noun(steps),
        actions_max: limits.actions_max,
        fleet_share_max_percent: limits.fleet_share_max_percent.get(),
    };
    for step in steps.iter_mut().filter(|step| is_counted(step)) {
        step.held = Some(exceeded);
    }
}

/// The most policy actions of one run that exceed neither limit.
fn allowed(fleet: usize, limits: &LimitsConfig) -> usize {
    let actions_max = usize::try_from(limits.actions_max).unwrap_or(usize::MAX);
    if fleet < FLEET_MIN_FOR_SHARE {
        return actions_max;
    }
    let share = fleet.saturating_mul(usize::from(limits.fleet_share_max_percent.get())) / 100;
    actions_max.min(share)
}

/// The number of steps on each gang.
fn gang_sizes(plan: &Plan) -> BTreeMap<ResourceId, usize> {
    let mut sizes = BTreeMap::new();
    for key in plan.steps.iter().filter_map(gang_key) {
        let size: &mut usize = sizes.entry(key.clone()).or_default();
        *size = size.saturating_add(1);
    }
    sizes
}

/// Leaves the retries above `tried_max` to later runs. A gang is tried as a whole.
fn skip_refused_above(
    plan: &mut Plan,
    tried_max: usize,
    gangs: &BTreeMap<ResourceId, usize>,
    is_retried: impl Fn(&Step) -> bool,
) {
    let places = plan.steps.iter().enumerate().filter(|(_, step)| is_retried(step));
    let mut retries: Vec<_> = places.map(|(place, step)| (step.refused_at, place, gang_key(step))).collect();
    retries.sort_unstable();
    let (mut tried, mut tried_gangs, mut later) = (0_usize, BTreeSet::new(), BTreeSet::new());
    for (_, place, gang) in retries {
        if gang.is_some_and(|key| tried_gangs.contains(key)) {
            continue;
        }
        let more = tried.saturating_add(gang.and_then(|key| gangs.get(key)).copied().unwrap_or(1));
        if more > tried_max {
            later.insert(place);
        } else {
            tried = more;
            tried_gangs.extend(gang);
        }
    }
    for (place, step) in std::mem::take(&mut plan.steps).into_iter().enumerate() {
        if later.contains(&place) {
            let Step { target, finding, memory, .. } = step;
            plan.skipped.push(Skipped { finding, ..Skipped::new(target, SkipReason::Refused, memory) });
        } else {
            plan.steps.push(step);
        }
    }
}

/// A function's plan is about one kind, and only about its snapshots besides.
fn resource_noun(steps: &[Step]) -> &'static str {
    let kinds = steps.iter().find_map(|step| match step.action {
        Action::Volume(..) => Some("volumes"),
        Action::SageMaker(..) => Some("SageMaker resources"),
        Action::Instance(..) | Action::Snapshot(..) | Action::Budget(_) => None,
    });
    kinds.unwrap_or("instances")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Announcement, Evidence, Facts, InstanceAction, Target};
    use jiff::tz::TimeZone;
    use model::config::Config;
    use model::fixture::instance;
    use model::id::ResourceId;
    use model::mode::Mode;
    use model::rule::Rule;

    fn step(mode: Mode, action: InstanceAction, evidence: Evidence) -> Step {
        let seen = instance().build();
        let target = Target {
            region: seen.region.clone(),
            resource: ResourceId::from("i-0abc"),
            team: None,
            owner: None,
            name: None,
            what: seen.instance_type.to_string(),
        };
        Step::bare(target, Action::Instance(seen, action), evidence, mode)
    }

    fn stop() -> InstanceAction {
        InstanceAction::Stop { mark: None, stopped: "untagged 2026-09-01T12:00:00Z".to_owned() }
    }

    fn untagged() -> Evidence {
        Evidence::new(
            Rule::Untagged,
            Facts::named([("missing", vec!["Owner"].into())]),
            "it lacks the required tags Owner",
        )
    }

    fn expired() -> Evidence {
        Evidence::new(Rule::Expired, Facts::named([("expires_at", "2026-09-01T12:00:00Z".into())]), "it has passed")
    }

    /// Checks how many of `inferred` policy actions are held in a fleet of that size, beside steps that never count.
    fn check(inferred: usize, fleet: usize, config: &str, expect: usize) {
        let mut steps = vec![
            step(Mode::Enforce, stop(), expired()),
            step(Mode::Enforce, InstanceAction::Terminate { mark: None }, expired()),
            step(Mode::Enforce, InstanceAction::Announce(Announcement::Notify), untagged()),
            step(Mode::Enforce, InstanceAction::Start, untagged()),
            step(Mode::Observe, stop(), untagged()),
        ];
        let uncounted = steps.len();
        steps.extend((0..inferred).map(|_| step(Mode::Enforce, stop(), untagged())));
        let mut plan = Plan { seen: fleet, steps, skipped: Vec::new(), gaps: Vec::new(), time_zone: TimeZone::UTC };
        hold_where_exceeded(&mut plan, &Config::read(config).unwrap().limits);
        let steps = plan.steps;
        assert!(steps[..uncounted].iter().all(|step| step.held.is_none()));
        assert_eq!(
            steps[uncounted..].iter().filter(|step| step.held.is_some()).count(),
            expect,
            "{inferred} of {fleet}"
        );
    }

    #[test]
    fn the_reason_names_the_limit_and_the_commands() {
        let check = |actions_max: u32, allows: &str| {
            let (ends, fleet, kind) = (5, 30, "instances");
            let exceeded = LimitsExceeded { actions: ends, fleet, kind, actions_max, fleet_share_max_percent: 10 };
            let expect = format!(
                "5 of 30 instances are due at once, which exceeds [limits] {allows}; a person must approve that \
                 (`curfew plans`). Keep what you need: `curfew keep ID`"
            );
            assert_eq!(exceeded.to_string(), expect);
        };
        check(3, "actions_max = 3");
        check(5, "fleet_share_max_percent = 10");
    }

    #[test]
    fn the_number_of_ends_is_limited() {
        check(10, 1000, "", 0);
        check(11, 1000, "", 11);
        check(0, 0, "[limits]\nactions_max = 0", 0);
        check(1, 1000, "[limits]\nactions_max = 0", 1);
    }

    #[test]
    fn what_aws_refused_before_is_tried_within_the_limits_and_holds_nothing_else() {
        let refused = |minute: u32| Step {
            refused_at: Some(format!("2026-09-01T12:{minute:02}:00Z").parse().unwrap()),
            ..step(Mode::Enforce, stop(), untagged())
        };
        let mut plan = Plan {
            seen: 20,
            steps: [5, 3, 4, 1, 2].map(refused).into_iter().chain([step(Mode::Enforce, stop(), untagged())]).collect(),
            skipped: Vec::new(),
            gaps: Vec::new(),
            time_zone: TimeZone::UTC,
        };
        hold_where_exceeded(&mut plan, &Config::read("[limits]\nactions_max = 3").unwrap().limits);
        assert!(plan.steps.iter().all(|step| step.held.is_none()));
        let tried: Vec<_> = plan.steps.iter().map(|step| step.refused_at).collect();
        assert_eq!(tried, [refused(3).refused_at, refused(1).refused_at, refused(2).refused_at, None]);
        assert!(plan.skipped.iter().all(|skipped| skipped.reason == SkipReason::Refused) && plan.skipped.len() == 2);
        hold_where_exceeded(&mut plan, &Config::read("[limits]\nactions_max = 0").unwrap().limits);
        assert!(plan.steps.len() == 4 && plan.steps.iter().all(|step| step.held.is_some()));
    }

    #[test]
    fn their_share_is_limited_where_the_fleet_has_ten() {
        check(9, 9, "", 0);
        check(2, 10, "", 0);
        check(3, 10, "", 3);
        check(3, 14, "", 3);
        check(3, 15, "", 0);
        check(1, 10, "[limits]\nfleet_share_max_percent = 0", 1);
        check(10, 10, "[limits]\nfleet_share_max_percent = 100", 0);
    }
}
