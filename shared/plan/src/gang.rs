//! Gangs: instances that work together are stopped in one run, all of them or none.

use std::collections::{BTreeMap, BTreeSet};

use model::id::{Region, ResourceId};

use crate::limits::LimitsExceeded;
use crate::{Plan, SkipReason, Skipped, Step};

/// The members of the gang of each of these steps that none of these steps stops. Empty for all but policy actions on gangs.
#[must_use]
pub fn missing_members<'a>(steps: &[&'a Step]) -> Vec<Vec<&'a ResourceId>> {
    let acting: BTreeSet<(&Region, &ResourceId)> =
        steps.iter().filter(|step| stops_member(step)).map(|step| place(step)).collect();
    let missing = |step: &&'a Step| {
        let gang = step.gang.as_ref().filter(|_| stops_member(step));
        let members = gang.into_iter().flat_map(|gang| gang.members.keys());
        members.filter(|member| !acting.contains(&(&step.target.region, *member))).collect()
    };
    steps.iter().map(missing).collect()
}

/// Leaves the policy actions on a gang to a later run unless this one has an action for each member; if one awaits approval, all do.
pub(crate) fn wait_for_all(plan: &mut Plan) {
    if plan.steps.iter().all(|step| step.gang.is_none()) {
        return;
    }
    let steps: Vec<&Step> = plan.steps.iter().collect();
    let waits: Vec<bool> = missing_members(&steps).iter().map(|missing| !missing.is_empty()).collect();
    for (step, waits) in std::mem::take(&mut plan.steps).into_iter().zip(waits) {
        if waits {
            let Step { target, finding, memory, .. } = step;
            plan.skipped.push(Skipped { finding, ..Skipped::new(target, SkipReason::Marked, memory) });
        } else {
            plan.steps.push(step);
        }
    }
    let held: BTreeMap<ResourceId, LimitsExceeded> =
        plan.steps.iter().filter_map(|step| Some((gang_key(step)?.clone(), step.held?))).collect();
    for step in &mut plan.steps {
        step.held = gang_key(step).and_then(|key| held.get(key)).copied().or(step.held);
    }
}

/// The first member of the gang that a step stops a member of: no instance is of two gangs.
#[must_use]
pub fn gang_key(step: &Step) -> Option<&ResourceId> {
    step.gang.as_ref().filter(|_| stops_member(step))?.members.keys().next()
}

/// `true` for a policy action on a member of a gang. What its owner scheduled is about the instance alone, also if Curfew saw it late.
fn stops_member(step: &Step) -> bool {
    step.gang.is_some() && step.is_policy_action() && !step.evidence.rule().is_owners_own()
}

const fn place(step: &Step) -> (&Region, &ResourceId) {
    (&step.target.region, &step.target.resource)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::tz::TimeZone;
    use model::config::Config;
    use model::fixture::{instance, time};
    use model::gang::Gang;
    use model::mode::Mode;
    use model::rule::Rule;

    use super::*;
    use crate::limits::hold_where_exceeded;
    use crate::{Action, Announcement, Evidence, Facts, InstanceAction, Target};

    fn step(id: &str, action: InstanceAction, mode: Mode, gang: &[&str]) -> Step {
        let seen = instance().id(id).build();
        let target = Target::bare(&seen.region, &seen.id);
        let evidence = Evidence::new(Rule::Idle, Facts::named([]), "idle").unscheduled();
        let members: BTreeMap<ResourceId, Option<_>> = gang.iter().map(|id| (ResourceId::from(*id), None)).collect();
        let gang = Gang { name: "placement group a".to_owned(), region: target.region.clone(), members };
        let gang = (!gang.members.is_empty()).then(|| Arc::new(gang));
        Step { gang, ..Step::bare(target, Action::Instance(seen, action), evidence, mode) }
    }

    fn stop(id: &str, gang: &[&str]) -> Step {
        step(id, InstanceAction::Stop { mark: None, stopped: String::new() }, Mode::Enforce, gang)
    }

    fn limited(steps: Vec<Step>, config: &str) -> Plan {
        let mut plan = Plan { seen: 5, steps, skipped: Vec::new(), gaps: Vec::new(), time_zone: TimeZone::UTC };
        hold_where_exceeded(&mut plan, &Config::read(config).unwrap().limits);
        plan
    }

    fn acting(plan: &Plan) -> Vec<&str> {
        plan.steps.iter().map(|step| step.target.resource.as_str()).collect()
    }

    const PAIR: [&str; 2] = ["i-1", "i-2"];

    #[test]
    fn all_members_are_stopped_or_none() {
        assert_eq!(acting(&limited(vec![stop("i-1", &PAIR), stop("i-2", &PAIR)], "")), PAIR);
        let plan = limited(vec![stop("i-1", &PAIR), stop("i-3", &[])], "");
        assert_eq!(acting(&plan), ["i-3"]);
        let skipped: Vec<_> = plan.skipped.iter().map(|one| (one.target.resource.as_str(), one.reason)).collect();
        assert_eq!(skipped, [("i-1", SkipReason::Marked)]);
    }

    #[test]
    fn a_member_that_is_only_announced_or_observed_holds_all() {
        let announced = step("i-2", InstanceAction::Announce(Announcement::Notify), Mode::Enforce, &PAIR);
        assert_eq!(acting(&limited(vec![stop("i-1", &PAIR), announced], "")), ["i-2"]);
        let observed = Step { mode: Mode::Observe, ..stop("i-2", &PAIR) };
        assert_eq!(acting(&limited(vec![stop("i-1", &PAIR), observed], "")), ["i-2"]);
    }

    #[test]
    fn a_limit_that_holds_one_holds_all() {
        let refused = Step { refused_at: Some(time("2026-09-01T11:00:00Z")), ..stop("i-2", &PAIR) };
        let plan = limited(vec![stop("i-1", &PAIR), refused, stop("i-3", &[])], "[limits]\nactions_max = 1");
        assert!(plan.steps.len() == 3 && plan.steps.iter().all(|step| step.held.is_some()), "{plan:?}");
        // All of it were refused before: a person is asked as well, and other retries go on.
        let refused = |id, gang| Step { refused_at: Some(time("2026-09-01T11:00:00Z")), ..stop(id, gang) };
        let all = || vec![refused("i-1", &PAIR), refused("i-2", &PAIR), refused("i-3", &[])];
        let held = |plan: &Plan| plan.steps.iter().map(|step| step.held.is_some()).collect::<Vec<_>>();
        assert_eq!(held(&limited(all(), "[limits]\nactions_max = 1")), [true, true, false]);
        let plan = limited(all(), "[limits]\nactions_max = 2");
        assert_eq!((acting(&plan), held(&plan)), (PAIR.to_vec(), vec![false, false]));
        assert_eq!(held(&limited(all(), "[limits]\nactions_max = 3")), [false, false, false]);
    }

    #[test]
    fn a_member_elsewhere_is_another_one() {
        let mut far = stop("i-2", &PAIR);
        far.target.region = "eu-west-1".into();
        let near = stop("i-1", &PAIR);
        assert_eq!(missing_members(&[&near, &far]), [vec![&ResourceId::from("i-2")], vec![&ResourceId::from("i-1")]]);
    }
}
