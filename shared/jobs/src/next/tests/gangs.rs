//! One attempt on three machines: all or nothing.

use model::id::ResourceId;
use model::instance::InstanceState::{Pending, Running, ShuttingDown, Stopped, Terminated};

use super::fixture::*;
use crate::node_gang::{FirstFailure, GangReport, GangSight, gang_sight};
use crate::*;

const VOLUMES: Option<&str> = Some("Client.VolumeLimitExceeded");

fn nodes() -> JobMachine {
    let members = vec!["i-2".into(), "i-3".into()];
    JobMachine { members, launch: "0123456789abcdef".to_owned(), ..placed("i-1", 1) }
}

/// Three machines run since noon.
fn gang() -> JobInput {
    running().job(|job| {
        job.terms.gpu.nodes = 3;
        job.phase = Phase::Running(nodes());
    })
}

/// The machines are seen so.
fn seen(given: JobInput, sights: [(model::instance::InstanceState, Option<&str>); 3]) -> JobInput {
    let sights = sights.map(|(state, reason)| MachineSight::Seen { state, reason: reason.map(str::to_owned) });
    let machines: Vec<_> = nodes().instances().cloned().zip(sights.clone()).collect();
    given.facts(|facts| {
        facts.machine = gang_sight(&sights);
        facts.gang = Some(GangSight::from_machines(&machines));
    })
}

const WELL: (model::instance::InstanceState, Option<&str>) = (Running, None);

fn answered(given: JobInput, answer: LaunchResult) -> JobInput {
    given.job(|job| job.terms.gpu.nodes = 3).answered(EffectResult::Launched(answer))
}

#[test]
fn all_machines_of_a_launch_become_the_job_s() {
    let members: Vec<ResourceId> = vec!["i-2".into(), "i-3".into()];
    let all = LaunchResult::Launched { instance: "i-1".into(), members: members.clone(), launched_at: noon_plus(2) };
    let given = answered(launching(), all);
    check(given.clone(), "running i-1: note launched i-1, settle i-1+i-2+i-3");
    let machine = given.next().job.machine().unwrap().clone();
    assert_eq!((machine.members, machine.launch), (members, launch_id(&given.job.awaited().unwrap())));
    for (instance, expect) in [("i-3", Some(true)), ("i-4", Some(false))] {
        assert_eq!(given.next().job.knows(&"us-east-1".into(), &instance.into(), Some(1)), expect);
    }
}

#[test]
fn a_part_of_a_gang_is_terminated_once_the_rest_had_its_time() {
    let part = |left: &[&str]| LaunchResult::Incomplete(left.iter().map(|id| (*id).into()).collect());
    check_nothing(answered(launching().at_time(14 * MINUTE), part(&["i-2"])));
    check_nothing(answered(launching().at_time(14 * MINUTE), part(&[])));
    let late = answered(launching().at_time(15 * MINUTE), part(&["i-2", "i-3"]));
    check(late.clone(), "launching 1.1.0: terminate i-2+i-3");
    check_nothing(late.clone().answered(EffectResult::Terminated));
    check_nothing(late.observing());
    let none_left = answered(launching().at_time(15 * MINUTE), part(&[]));
    check(none_left.clone(), "launching 1.1.1: launch g5.xlarge until 20:00:00");
    assert!(none_left.next().job.used.usd > model::money::Amount::ZERO, "what it cost counts");
}

#[test]
fn one_lost_machine_ends_the_others_before_all_are_replaced() {
    let lost = seen(gang(), [WELL, (ShuttingDown, RECLAIMED), WELL]);
    check(lost.clone(), "interrupted i-1 Reclaimed: note ended i-1");
    // The others save, and end by themselves.
    let saving = lost.next();
    check_nothing(saving.clone().at_time(HOUR + 2 * MINUTE));
    check(saving.clone().at_time(HOUR + 3 * MINUTE), "interrupted i-1 Reclaimed: terminate i-1+i-2+i-3");
    let gone = seen(
        saving.at_time(HOUR + 3 * MINUTE),
        [(Terminated, ITSELF), (Terminated, RECLAIMED), (ShuttingDown, ITSELF)],
    );
    assert!(
        line(&gone.next().job, &[]).starts_with("submitted") || line(&gone.next().job, &[]).starts_with("reserving")
    );
    assert_eq!(gone.next().job.retries, JobRetries::default(), "no retry is used up");
}

#[test]
fn machines_that_cannot_save_are_not_waited_for() {
    let saving = seen(gang(), [WELL, (ShuttingDown, RECLAIMED), WELL]).next();
    let until = |seconds: i64| {
        let report = GangReport { saves_until: Some(noon_plus(seconds)), ..GangReport::default() };
        saving.clone().facts(|facts| facts.gang_report = Some(report))
    };
    check_nothing(until(HOUR + MINUTE + 10).at_time(HOUR + MINUTE));
    check(until(HOUR + MINUTE + 10).at_time(HOUR + MINUTE + 10), "interrupted i-1 Reclaimed: terminate i-1+i-2+i-3");
    // No word of a machine makes it longer.
    check(until(3 * HOUR).at_time(HOUR + 3 * MINUTE), "interrupted i-1 Reclaimed: terminate i-1+i-2+i-3");
}

#[test]
fn a_node_that_ended_because_of_another_is_not_named_as_the_lost_one() {
    let failed = Some(FirstFailure { node: 0, is_peer_gone: true });
    let notes = |given: JobInput, report: GangReport| {
        format!("{:?}", given.facts(|facts| facts.gang_report = Some(report)).turn().1)
    };
    // Its agent has ended the machine of node 0, and EC2 says that the others run.
    let ended = || seen(gang(), [(ShuttingDown, ITSELF), WELL, WELL]).facts(|facts| facts.exit = Some(None));
    let lost = GangReport { failed, lost: Some((2, noon_plus(60))), ..GangReport::default() };
    let words = "node 0 failed first seen; i-3 (node 2) was lost: it has sent nothing since 12:01:00; the other machines end before all are replaced";
    assert!(notes(ended(), lost.clone()).contains(words), "{}", notes(ended(), lost));
    // As long as it is not known which one.
    let words = "i-1 (node 0) shut itself down and left no result; node 0 failed first seen, and its log says that another node was gone; the other";
    let unknown = GangReport { failed, ..GangReport::default() };
    assert!(notes(ended(), unknown.clone()).contains(words), "{}", notes(ended(), unknown));
    // EC2 knows it better.
    let reclaimed = || seen(gang(), [WELL, WELL, (ShuttingDown, RECLAIMED)]);
    let both = GangReport { failed, lost: Some((2, noon_plus(60))), ..GangReport::default() };
    let said = notes(reclaimed(), both);
    assert!(said.contains("i-3 (node 2) was taken back by AWS; node 0 failed first seen"), "{said}");
    // Nobody has heard of node 1, and EC2 says that all run.
    let silent =
        seen(gang().at_time(HOUR), [WELL, WELL, WELL]).facts(|facts| facts.heartbeat = Some(Some(noon_plus(60))));
    let only_silent = GangReport { lost: Some((1, noon_plus(60))), ..GangReport::default() };
    let said = notes(silent, only_silent);
    assert!(
        said.contains(
            "i-2 (node 1) was lost: it has sent nothing since 12:01:00; it is terminated before it is replaced"
        ),
        "{said}"
    );
}

#[test]
fn a_machine_that_never_came_up_takes_the_others_at_once() {
    let lost = seen(gang().without_heartbeat(), [(Pending, None), (Terminated, VOLUMES), WELL]);
    check(lost.clone(), "interrupted i-1 StorageUsedUp: note ended i-1, terminate i-1+i-2+i-3");
    let gone = seen(
        lost.next().without_heartbeat(),
        [(ShuttingDown, A_PERSON), (Terminated, VOLUMES), (Terminated, A_PERSON)],
    );
    // Curfew itself terminated the others.
    check(gone, "held by quota: note lost i-1 StorageUsedUp, note held, release");
}

#[test]
fn a_warning_of_any_node_replaces_all() {
    let warned = gang().warned("i-3");
    assert!(warned.job.is_warned_by(&"i-3".into()) && !warned.job.is_warned_by(&"i-4".into()));
    let (next, effects) = warned.turn();
    let notes = format!("{effects:?}");
    assert!(notes.contains("i-3 (node 2) was taken back by AWS"), "{notes}");
    assert_eq!(next.job.previous_attempt.unwrap().instances().count(), 3);
}

#[test]
fn a_person_who_stops_one_cancels_the_job_and_ends_the_others() {
    let stopped = seen(gang(), [WELL, WELL, (Stopped, A_PERSON)]);
    check(stopped.clone(), "cancelled with i-1: note over, terminate i-1+i-2");
    let Phase::Ended(ended) = stopped.next().job.phase else { panic!() };
    assert_eq!(ended.why, "i-3 (node 2) was stopped by a person; it stays stopped, and its volumes still cost money");
}

#[test]
fn a_job_closes_once_all_its_machines_are_gone() {
    let ended = ended(JobResult::Cancelled).job(|job| {
        if let Phase::Ended(ended) = &mut job.phase {
            (ended.machine, ended.released) = (Some(nodes()), true);
        }
    });
    let part = seen(ended.clone(), [(Terminated, ITSELF), WELL, (Terminated, ITSELF)]);
    check(part, "cancelled with i-1: terminate i-1+i-2+i-3");
    let all = seen(ended, [(Terminated, ITSELF), (ShuttingDown, ITSELF), (Terminated, ITSELF)]);
    check(all, "cancelled, closed: forget");
}

#[test]
fn messages_name_all_machines() {
    let lost = seen(gang(), [WELL, (ShuttingDown, RECLAIMED), WELL]).next();
    let text = |given: &JobInput| given.job.notification().unwrap().notification.text;
    let said = text(&lost);
    let words = "one of i-1 and 2 more, the machines of attempt 1, was taken back by AWS. The others end, and once all are gone";
    assert!(said.contains(words), "{said}");
    assert!(text(&gang()).contains("runs on i-1 and 2 more (3 × g6.xlarge, Spot, us-east-1a)"), "{}", text(&gang()));
    let fault = gang().job.notify_not_terminated(&nodes(), "no", &"us-east-1".into()).text.to_string();
    assert!(fault.contains("--instance-ids i-1 i-2 i-3"), "{fault}");
}
