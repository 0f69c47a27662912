use model::fixture::{NOW, busy, idle, instance, reserved, time, unknown};
use model::instance::PurchaseOption;
use model::notification_log::NotificationLogs;
use model::observation::Observation;
use model::usage::LastInquiry;
use plan::{Action, Announcement, InstanceAction, Plan, SkipReason};

use super::*;
use crate::fixture::{InstanceBuilder, enforcing};
use crate::instances::{decide, explain_among};

fn member(id: &str) -> InstanceBuilder {
    instance().id(id).with(|instance| instance.placement_group = Some("llama".to_owned()))
}

fn policy(all: &[Instance], config: &str) -> Policy {
    let policy = enforcing(config);
    Policy { gangs: Gangs::find(all, &policy.config), ..policy }
}

fn planned(all: Vec<(InstanceBuilder, Usage)>, config: &str) -> (Vec<Instance>, Plan) {
    let (all, usages): (Vec<Instance>, Vec<Usage>) = all.into_iter().map(|(one, usage)| (one.build(), usage)).unzip();
    let usages = all.iter().map(|one| one.id.clone()).zip(usages).collect();
    let seen = Observation { items: all.clone(), gaps: Vec::new() };
    let (policy, memory) = (policy(&all, config), NotificationLogs::new());
    let plan = decide(&seen, &usages, &memory, &policy, time(NOW));
    for one in &all {
        let log = NotificationLog::default();
        let explained = explain_among(one, &all, &usages, &log, &policy, time(NOW)).unwrap();
        assert!(explained.rules.iter().all(|row| !row.evidence.is_empty() && !row.when.is_empty()), "{explained:?}");
        let step = plan.steps.iter().find(|step| step.target.resource == one.id);
        match explained.decision {
            crate::explain::PlanDecision::Step(said) => assert_eq!(Some(&*said), step),
            crate::explain::PlanDecision::Skipped(_) => assert_eq!(step, None),
        }
    }
    (all, plan)
}

/// The decision of each, in the order of their ids: `mark`, the reason to notify only, or the reason to skip.
fn decisions(all: Vec<(InstanceBuilder, Usage)>, config: &str) -> Vec<String> {
    let (all, plan) = planned(all, config);
    let decision = |id: &ResourceId| {
        let step = plan.steps.iter().find(|step| step.target.resource == *id);
        let skipped = plan.skipped.iter().find(|skipped| skipped.target.resource == *id);
        match (step, skipped) {
            (Some(step), None) => match (&step.action, step.notify_only) {
                (_, Some(why)) => why.as_str().to_owned(),
                (Action::Instance(_, InstanceAction::Announce(Announcement::Mark(_))), None) => "mark".to_owned(),
                (action, None) => action.as_str().to_owned(),
            },
            (None, Some(skipped)) => serde_json::to_value(skipped.reason).unwrap().as_str().unwrap().to_owned(),
            other => panic!("{other:?}"),
        }
    };
    all.iter().map(|one| decision(&one.id)).collect()
}

const ENFORCED: &str = "mode = \"enforce\"";

#[test]
fn a_gang_of_idle_members_is_announced_together() {
    assert_eq!(decisions(vec![(member("i-1"), idle()), (member("i-2"), idle())], ENFORCED), ["mark", "mark"]);
}

#[test]
fn one_member_at_work_keeps_all() {
    let all = |second| vec![(member("i-1"), idle()), (member("i-2"), second), (member("i-3"), idle())];
    assert_eq!(decisions(all(busy()), ENFORCED), ["busy", "busy", "busy"]);
    let none = Usage::Unknown(UnknownUsage::NotAsked);
    // For good: the owners of the others are told what they cost.
    assert_eq!(decisions(all(unknown()), ENFORCED), ["gang", "usage-unknown", "gang"]);
    assert_eq!(decisions(all(none), ENFORCED), ["usage-unknown", "usage-unknown", "usage-unknown"]);
    assert_eq!(decisions(all(Usage::Unknown(UnknownUsage::Young)), ENFORCED)[0], "usage-unknown");
    // By itself each would be announced.
    let alone = "mode = \"enforce\"\n[gangs]\nplacement_groups = false";
    assert_eq!(decisions(all(busy()), alone), ["mark", "busy", "mark"]);
}

#[test]
fn a_member_that_nobody_queried_is_as_busy_as_its_gang() {
    let none = Usage::Unknown(UnknownUsage::NotAsked);
    assert_eq!(decisions(vec![(member("i-1"), none), (member("i-2"), busy())], ENFORCED), ["busy", "busy"]);
}

#[test]
fn one_member_that_may_not_be_stopped_makes_all_notify_only() {
    let with = |second: InstanceBuilder| {
        let decisions = decisions(vec![(member("i-1"), idle()), (second, idle())], ENFORCED);
        decisions.first().cloned().unwrap()
    };
    let second = || member("i-2");
    assert_eq!(with(second()), "mark");
    assert_eq!(with(second().tag("curfew:protected", "")), "gang");
    assert_eq!(with(second().tag("curfew:keep-until", "2026-09-30")), "gang");
    assert_eq!(with(second().tag("curfew:keep-until", "soon")), "gang");
    assert_eq!(with(second().tag("curfew:mode", "observe")), "gang");
    assert_eq!(with(second().tag("curfew:on-idle", "notify")), "gang");
    assert_eq!(with(second().tag("curfew:idle-after", "off")), "gang");
    assert_eq!(with(second().tag("aws:autoscaling:groupName", "g")), "gang");
    assert_eq!(with(second().purchase(PurchaseOption::SpotOneTime)), "gang");
    // EC2 forgets a Spot request of an instance that runs on.
    assert_eq!(with(second().purchase(PurchaseOption::SpotUnknown)), "gang");
    assert_eq!(with(second().state(InstanceState::Pending)), "usage-unknown");
    assert_eq!(with(second().state(InstanceState::Stopped)), "mark");
}

/// No run asks about the second.
#[test]
fn a_member_that_is_never_queried_hides_no_finding() {
    let never_queried = [
        ("curfew:protected", ""),
        ("curfew:keep-until", "2026-09-30"),
        ("curfew:idle-after", "off"),
        ("aws:autoscaling:groupName", "g"),
    ];
    let none = || Usage::Unknown(UnknownUsage::NotAsked);
    for (key, value) in never_queried {
        let second = || member("i-2").tag(key, value);
        let all = vec![(member("i-1"), idle()), (second(), none())];
        assert_eq!(decisions(all, ENFORCED)[0], "gang");
        let (recent, old) = ("2026-09-01T11:55:00Z", "2026-09-01T10:40:00Z");
        let queried = |at| queried_among(vec![member("i-1"), second()], &[("i-1", at, Some(idle()))]);
        assert!(queried(old).contains(&"i-1".to_owned()));
        // Nothing follows from it before.
        assert!(!queried(recent).contains(&"i-1".to_owned()));
    }
}

#[test]
fn a_member_of_another_team_may_hold_a_stop_and_hides_nothing() {
    let all = |other: Usage| {
        let other = (member("i-2").tag("Team", "nlp"), other);
        decisions(vec![(member("i-1"), idle()), other, (member("i-3"), idle())], ENFORCED)
    };
    assert_eq!(all(busy()), ["gang", "busy", "gang"]);
    assert_eq!(all(unknown()), ["gang", "usage-unknown", "gang"]);
    assert_eq!(all(Usage::Unknown(UnknownUsage::NotAsked)), ["gang", "usage-unknown", "gang"]);
    assert_eq!(all(idle()), ["mark", "mark", "mark"]);
}

#[test]
fn of_two_teams_the_one_in_observe_mode_counts() {
    let other = || member("i-2").tag("Team", "nlp");
    let config = "[teams.vision]\nmode = \"enforce\"\n[teams.nlp]\nmode = \"observe\"";
    let decided = decisions(vec![(member("i-1"), idle()), (other(), idle())], config);
    assert_eq!(decided, ["gang", "mark"]);
    let both = decisions(vec![(member("i-1"), idle()), (other(), idle())], ENFORCED);
    assert_eq!(both, ["mark", "mark"]);
}

#[test]
fn memory_that_one_member_holds_keeps_all() {
    assert_eq!(decisions(vec![(member("i-1"), idle()), (member("i-2"), reserved())], ENFORCED), ["gang", "reserved"]);
}

#[test]
fn other_policy_actions_are_of_all_members_too() {
    let untagged =
        |id| crate::fixture::untagged().id(id).with(|instance| instance.placement_group = Some("a".to_owned()));
    let config = "[untagged]\nmode = \"enforce\"\nspare_busy = false";
    let tagged = || instance().id("i-2").with(|instance| instance.placement_group = Some("a".to_owned()));
    assert_eq!(decisions(vec![(untagged("i-1"), busy()), (tagged(), busy())], config), ["gang", "busy"]);
    assert_eq!(decisions(vec![(untagged("i-1"), busy()), (untagged("i-2"), busy())], config), ["mark", "mark"]);
}

#[test]
fn what_an_owner_scheduled_is_about_one_instance() {
    let expired = member("i-1").tag("curfew:expires-at", "2026-09-01T11:00:00Z");
    assert_eq!(decisions(vec![(expired, busy()), (member("i-2"), busy())], ENFORCED), ["mark", "busy"]);
}

#[test]
fn a_member_that_the_run_does_not_see_holds_all() {
    let all = [member("i-1").build(), member("i-2").build()];
    let policy = policy(&all, ENFORCED);
    let seen = Observation { items: vec![all[0].clone()], gaps: Vec::new() };
    let usages = BTreeMap::from([(all[0].id.clone(), idle())]);
    let plan = decide(&seen, &usages, &NotificationLogs::new(), &policy, time(NOW));
    assert_eq!((plan.steps.len(), plan.skipped[0].reason), (0, SkipReason::UsageUnknown));
}

/// The ids that a run queries, by what the last one found at that time.
fn queried(found: &[(&str, &str, Option<Usage>)]) -> Vec<String> {
    queried_among(found.iter().map(|(id, ..)| member(id)).collect(), found)
}

fn queried_among(all: Vec<InstanceBuilder>, found: &[(&str, &str, Option<Usage>)]) -> Vec<String> {
    let all: Vec<Instance> = all.into_iter().map(InstanceBuilder::build).collect();
    let policy = policy(&all, ENFORCED);
    let mut activity = ActivityCache::default();
    for (id, at, usage) in found {
        let Some(usage) = usage else { continue };
        let at = time(at);
        let (busy_until, found_idle_reserved) = match usage {
            Usage::Busy(_) => (Some(at), None),
            Usage::Idle(_) => (None, Some(false)),
            Usage::Unknown(_) => (None, None),
        };
        let hour = jiff::SignedDuration::from_hours(1);
        let idle_not_before = match usage {
            Usage::Idle(_) => at,
            Usage::Busy(_) | Usage::Unknown(_) => model::moment::after(at, hour),
        };
        let asked = LastInquiry {
            at,
            busy_until,
            shown_by: None,
            found_idle_reserved,
            found_idle_by_power: false,
            looked_back: None,
            in_full_at: Some(at),
            idle_not_before,
        };
        activity.instances.insert((*id).into(), asked);
    }
    let seen: Vec<&Instance> = all.iter().collect();
    let due = crate::instances::usage_queries(&seen, &activity, &NotificationLogs::new(), &policy, time(NOW));
    let asked = ask_gangs_together(due, &seen, &activity, &policy, time(NOW));
    asked.iter().map(|ask| ask.instance.id.to_string()).collect()
}

#[test]
fn a_gang_is_queried_as_a_whole_or_not_at_all() {
    let (recent, old) = ("2026-09-01T11:55:00Z", "2026-09-01T10:40:00Z");
    assert_eq!(queried(&[("i-1", recent, None), ("i-2", recent, None)]), ["i-1", "i-2"]);
    // While one works, the idle one is not asked in every run.
    assert_eq!(queried(&[("i-1", recent, Some(idle())), ("i-2", recent, Some(busy()))]), Vec::<String>::new());
    // Once it may be idle, all are asked again.
    assert_eq!(queried(&[("i-1", recent, Some(idle())), ("i-2", old, Some(busy()))]), ["i-1", "i-2"]);
    // While the use of one stays unknown, the idle one is asked once a window.
    assert_eq!(queried(&[("i-1", recent, Some(idle())), ("i-2", recent, Some(unknown()))]), Vec::<String>::new());
    assert_eq!(queried(&[("i-1", recent, Some(idle())), ("i-2", old, Some(unknown()))]), ["i-1", "i-2"]);
}
