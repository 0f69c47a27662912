//! The groups of a gang, from before its launch until after its end.

use model::instance::InstanceState::{Running, ShuttingDown};

use super::fixture::*;
use crate::*;

fn placement(attempt: u32, is_made: bool) -> JobGroup {
    JobGroup::Placement { region: "us-east-1".into(), attempt, is_made }
}

fn security() -> JobGroup {
    JobGroup::Security { region: "us-east-1".into(), vpc: "vpc-1".into(), id: "sg-1".into() }
}

/// A gang with these groups, whose candidates want a placement group.
fn gang(given: JobInput, groups: &[JobGroup]) -> JobInput {
    given.job(|job| {
        job.terms.gpu.nodes = 2;
        job.groups = groups.to_vec();
        for candidate in &mut job.ranking.as_mut().unwrap().candidates {
            candidate.network = Some(Box::new(clustered()));
        }
    })
}

fn clustered() -> CandidateNetwork {
    CandidateNetwork {
        vpc: Some("vpc-1".into()),
        group: Some("sg-1".into()),
        is_clustered: true,
        ..CandidateNetwork::default()
    }
}

#[test]
fn the_state_names_the_groups_before_they_are_made() {
    let given = gang(launching(), &[]).no_capacity();
    let (next, effects) = given.turn();
    let Some(Effect::Launch(launch)) = effects.last() else { panic!("{effects:?}") };
    assert_eq!(launch.placement_group.as_deref(), Some("curfew-llama-1a2b3c4d-1"));
    assert_eq!(next.job.groups, [placement(1, false)]);
    // Another candidate of the attempt in the same region has the same one.
    assert_eq!(gang(next, &[placement(1, false)]).no_capacity().next().job.groups, [placement(1, false)]);
    let ranking = gang(launching(), &[]).job.ranking.unwrap();
    let ranked = gang(submitted().job(|job| job.ranking = Some(ranking.clone())), &[]);
    let ranked = ranked.answered(EffectResult::Ranked(Ok(ranking)));
    assert_eq!(ranked.next().job.groups, [security()]);
}

#[test]
fn the_group_of_the_next_attempt_is_made_while_this_one_runs() {
    let given = gang(running(), &[security(), placement(1, true)]);
    check(given.clone(), "running i-1: make placement 2");
    let named = given.next();
    assert_eq!(named.job.groups, [security(), placement(1, true), placement(2, false)]);
    check_nothing(named.clone().answered(EffectResult::GroupUnchanged));
    // A run that was cut off has left it.
    check(named.clone(), "running i-1: make placement 2");
    let made = named.answered(EffectResult::GroupMade(placement(2, false))).next();
    assert_eq!(made.job.groups, [security(), placement(1, true), placement(2, true)]);
    check_nothing(made.clone());
    // After a warning there is no time for a group.
    let (next, effects) = made.warned("i-1").turn();
    assert!(matches!(effects.last(), Some(Effect::Launch(launch)) if launch.attempt == 2), "{effects:?}");
    assert!(next.job.groups.contains(&placement(2, true)));
    check_nothing(gang(running(), &[security()]));
    check_nothing(given.observing());
}

#[test]
fn a_placement_group_is_deleted_once_its_machines_are_gone() {
    let groups = [security(), placement(0, true), placement(1, true), placement(2, true)];
    let seen = MachineSight::Seen { state: ShuttingDown, reason: None };
    check_nothing(gang(running(), &groups).after(seen));
    check(gang(running(), &groups), "running i-1: delete placement 0");
    let deleted = gang(running(), &groups).answered(EffectResult::GroupDeleted(placement(0, true)));
    check_nothing(deleted.next());
    assert_eq!(deleted.next().job.groups, [security(), placement(1, true), placement(2, true)]);
}

#[test]
fn a_job_closes_once_its_groups_are_deleted() {
    let release = |job: &mut Job| {
        if let Phase::Ended(ended) = &mut job.phase {
            ended.released = true;
        }
    };
    let groups = [security(), placement(1, true)];
    let ended = || gang(ended(JobResult::Failed), &groups).job(release);
    check_nothing(ended().with_machine(Running, None));
    let gone = ended().with_machine(ShuttingDown, None);
    check(gone.clone(), "failed: delete sg-1");
    // A machine that is shutting down still uses it.
    check_nothing(gone.next().answered(EffectResult::GroupUnchanged));
    let one = gone.next().answered(EffectResult::GroupDeleted(security()));
    check(one.clone(), "failed: delete placement 1");
    check(one.next().answered(EffectResult::GroupDeleted(placement(1, true))), "failed, closed: forget");
}
