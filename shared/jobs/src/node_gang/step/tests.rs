use super::*;
use crate::node_gang::tests::{at, gang, member};
use crate::node_gang::{GangDocument, Listed, NodeExitReason};

const NODES: Node = 2;

fn me(node: Node, work: NodeWork) -> OwnNode {
    OwnNode { node, member: member(node), retry_of: 0, is_previous_over: true, ending: None, work }
}

fn listed<T>(seconds: i64, document: T) -> Listed<T> {
    Listed { at: at(seconds), content: DocumentSight::Read(document) }
}

fn ours(checkpoint: Option<u64>) -> Head {
    let checkpoint = checkpoint.map(|step| Checkpoint { attempt: 1, step, rewrite: 0 });
    Head { attempt: 2, launch: gang(NODES).launch, checkpoint, ..Head::default() }
}

fn joined() -> GangListing {
    let mut listing = GangListing::default();
    for node in 0..NODES {
        listing.members.insert(node, listed(0, member(node)));
        listing.beats.insert(node, at(0));
    }
    listing
}

fn round(checkpoint: Option<u64>, number: u32) -> GangRound {
    let addresses = (0..NODES).map(|node| member(node).address).collect();
    let checkpoint = checkpoint.map(|step| Checkpoint { attempt: 1, step, rewrite: 0 });
    GangRound { addresses, port: GangRound::port_of(number), checkpoint }
}

fn started(checkpoint: Option<u64>) -> GangListing {
    let mut listing = joined();
    let ready = (0..NODES).map(|node| (node, listed(10, NodeReady::Restored))).collect();
    let round = GangRoundListing { round: Some(listed(5, round(checkpoint, 0))), ready, ..GangRoundListing::default() };
    listing.rounds.insert(0, round);
    listing
}

fn next(me: &OwnNode, listing: &GangListing, head: &Head) -> GangStep {
    next_gang_step(&gang(NODES), me, listing, Some(head), at(20))
}

fn ended(listing: &mut GangListing, node: Node, exit_code: Option<i32>, seconds: i64, by_curfew: bool) -> NodeEnded {
    let ended = NodeEnded { code: exit_code, at: at(seconds), by_curfew, is_peer_gone: false };
    listing.rounds.get_mut(&0).unwrap().ended.insert(node, listed(seconds, ended));
    ended
}

fn stop_of(step: GangStep) -> (StopCause, Node, i64) {
    match step {
        GangStep::WriteStop(written) => (written.cause, written.node, written.until.as_second() - at(0).as_second()),
        other => panic!("{other:?}"),
    }
}

fn exit_of(step: GangStep) -> NodeExitReason {
    match step {
        GangStep::WriteExit(exit) => exit.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_gang_joins_claims_head_and_restores_one_checkpoint() {
    let idle = me(0, NodeWork::Idle);
    assert_eq!(next(&idle, &GangListing::default(), &Head::default()), GangStep::WriteMember);
    let mut one = joined();
    one.members.remove(&1);
    assert_eq!(next(&idle, &one, &Head::default()), GangStep::Wait(GangWait::Members));
    assert_eq!(next(&idle, &joined(), &Head::default()), GangStep::ClaimHead);
    let before = Head { attempt: 1, launch: "0".repeat(16), ..ours(Some(40)) };
    let waiting = OwnNode { is_previous_over: false, ..idle.clone() };
    assert_eq!(next(&waiting, &joined(), &before), GangStep::Wait(GangWait::PreviousAttempt));
    let document = round(Some(40), 0);
    assert_eq!(next(&idle, &joined(), &ours(Some(40))), GangStep::WriteRound { round: 0, document });
    let mut listing = started(Some(40));
    listing.rounds.get_mut(&0).unwrap().ready.clear();
    let checkpoint = round(Some(40), 0).checkpoint;
    assert_eq!(next(&idle, &listing, &ours(Some(40))), GangStep::Restore { round: 0, checkpoint });
    let restored = me(0, NodeWork::Restored { round: 0, ready: NodeReady::Restored });
    assert!(matches!(next(&restored, &listing, &ours(Some(40))), GangStep::WriteReady { .. }));
    assert_eq!(next(&restored, &started(Some(40)), &ours(Some(40))), GangStep::Start { round: 0 });
    let mut unread = started(Some(40));
    unread.rounds.get_mut(&0).unwrap().ready.get_mut(&1).unwrap().content = DocumentSight::Unread;
    assert_eq!(next(&restored, &unread, &ours(Some(40))), GangStep::Wait(GangWait::Ready));
}

#[test]
fn another_machine_and_another_launch_end_it() {
    let idle = me(0, NodeWork::Idle);
    let mut taken = joined();
    taken.members.insert(0, listed(0, member(1)));
    assert_eq!(next(&idle, &taken, &Head::default()), GangStep::Leave(LeaveReason::Displaced));
    assert_eq!(next(&me(NODES, NodeWork::Idle), &joined(), &Head::default()), GangStep::Leave(LeaveReason::NoMember));
    let stray = Head { launch: "f".repeat(16), ..ours(None) };
    assert_eq!(next(&idle, &joined(), &stray), GangStep::Leave(LeaveReason::Fenced));
    let unread = next_gang_step(&gang(NODES), &idle, &joined(), None, at(0));
    assert_eq!(unread, GangStep::Wait(GangWait::Documents));
}

#[test]
fn who_is_late_or_lost_is_told_by_the_clock_of_s3() {
    let idle = me(0, NodeWork::Idle);
    let mut listing = joined();
    listing.members.remove(&1);
    listing.beats.remove(&1);
    let at_beat = |listing: &mut GangListing, seconds| listing.beats.insert(0, at(seconds));
    at_beat(&mut listing, 599);
    assert_eq!(next(&idle, &listing, &Head::default()), GangStep::Wait(GangWait::Members));
    at_beat(&mut listing, 600);
    assert_eq!(stop_of(next(&idle, &listing, &Head::default())), (StopCause::NeverJoined, 1, 630));
    let mut listing = started(None);
    let running = me(0, NodeWork::Running { round: 0 });
    at_beat(&mut listing, 299);
    assert_eq!(next(&running, &listing, &ours(None)), GangStep::Wait(GangWait::Command));
    at_beat(&mut listing, 300);
    assert_eq!(stop_of(next(&running, &listing, &ours(None))).0, StopCause::Lost);
    listing.beats.remove(&0);
    assert_eq!(next(&running, &listing, &ours(None)), GangStep::Wait(GangWait::Command));
}

#[test]
fn a_damaged_checkpoint_makes_the_next_round() {
    let mut listing = started(Some(40));
    let damaged = NodeReady::Damaged { why: "x".to_owned() };
    listing.rounds.get_mut(&0).unwrap().ready.insert(1, listed(10, damaged));
    let head = Head { kept: vec![Checkpoint { attempt: 1, step: 30, rewrite: 0 }], ..ours(Some(40)) };
    let restoring = me(0, NodeWork::Restoring { round: 0 });
    assert!(matches!(
        next(&restoring, &listing, &head),
        GangStep::WriteEnded { ended: NodeEnded { by_curfew: true, .. }, .. }
    ));
    ended(&mut listing, 0, None, 12, true);
    assert_eq!(next(&restoring, &listing, &head), GangStep::Wait(GangWait::Ended));
    ended(&mut listing, 1, None, 12, true);
    let document = round(Some(30), 1);
    assert_eq!(next(&restoring, &listing, &head), GangStep::WriteRound { round: 1, document });
    let document = round(None, 1);
    assert_eq!(next(&restoring, &listing, &ours(Some(40))), GangStep::WriteRound { round: 1, document });
}

#[test]
fn a_failure_soon_after_a_resume_is_tried_again_once() {
    let mut listing = started(Some(40));
    ended(&mut listing, 1, Some(7), 15, false);
    let running = me(0, NodeWork::Running { round: 0 });
    assert_eq!(next(&running, &listing, &ours(Some(40))), GangStep::EndCommand { round: 0 });
    ended(&mut listing, 0, None, 16, true);
    let again = GangStep::WriteRound { round: 1, document: round(Some(40), 1) };
    assert_eq!(next(&me(0, NodeWork::Idle), &listing, &ours(Some(40))), again);
    let mut second = listing.clone();
    let round_1 = GangRoundListing { round: Some(listed(20, round(Some(40), 1))), ..listing.rounds[&0].clone() };
    second.rounds.insert(1, round_1);
    assert_eq!(stop_of(next(&me(0, NodeWork::Idle), &second, &ours(Some(40)))), (StopCause::Failed, 1, 50));
    let kept = Head { checkpoint: Some(Checkpoint { attempt: 2, step: 41, rewrite: 0 }), ..ours(None) };
    assert_eq!(stop_of(next(&running, &listing, &kept)).0, StopCause::Failed);
    let mut one_succeeded = listing.clone();
    ended(&mut one_succeeded, 0, Some(0), 14, false);
    assert_eq!(stop_of(next(&running, &one_succeeded, &ours(Some(40)))).0, StopCause::Failed);
    let mut late = started(Some(40));
    ended(&mut late, 1, Some(7), 10 + 30 * 60, false);
    assert_eq!(stop_of(next(&running, &late, &ours(Some(40)))).0, StopCause::Failed);
}

#[test]
fn a_warning_ends_all_and_each_in_its_time() {
    let mut warned = me(0, NodeWork::Running { round: 0 });
    warned.ending = Some(OwnEnding::Warned { at: at(20), notice: Some(at(110)) });
    let mut listing = started(None);
    let GangStep::WriteStop(stop) = next(&warned, &listing, &ours(None)) else { panic!() };
    assert_eq!((stop.cause, stop.until), (StopCause::Warned, at(105)));
    assert!(stop.why.contains("node 0 (i-0) is taken back by AWS at"), "{}", stop.why);
    listing.stop = Some(listed(21, stop));
    let until = |me: &OwnNode| match next(me, &listing, &ours(None)) {
        GangStep::Stop(order) => order.until,
        other => panic!("{other:?}"),
    };
    let other = me(1, NodeWork::Running { round: 0 });
    assert_eq!((until(&warned), until(&other)), (at(105), at(171)));
    let both = OwnNode { ending: Some(OwnEnding::Warned { at: at(22), notice: Some(at(60)) }), ..other };
    assert_eq!(until(&both), at(55));
}

#[test]
fn after_a_loss_no_exit_is_a_result_but_what_had_ended_before() {
    let mut listing = started(None);
    let work = |ended| NodeWork::Ended { round: 0, ended, is_saved: true };
    let early = ended(&mut listing, 0, Some(0), 15, false);
    let stop = GangStop { cause: StopCause::Lost, node: 1, until: at(30), why: String::new() };
    listing.stop = Some(listed(16, stop.clone()));
    assert_eq!(exit_of(next(&me(0, work(early)), &listing, &ours(None))), NodeExitReason::Succeeded);
    listing.stop = Some(listed(15, stop.clone()));
    assert_eq!(exit_of(next(&me(0, work(early)), &listing, &ours(None))), NodeExitReason::Interrupted);
    let failed = ended(&mut listing, 0, Some(1), 15, false);
    assert_eq!(exit_of(next(&me(0, work(failed)), &listing, &ours(None))), NodeExitReason::Interrupted);
    listing.stop = Some(listed(16, GangStop { cause: StopCause::Failed, ..stop }));
    assert_eq!(exit_of(next(&me(0, work(failed)), &listing, &ours(None))), NodeExitReason::Failed);
    assert_eq!(exit_of(next(&me(0, NodeWork::Idle), &listing, &ours(None))), NodeExitReason::Stopped);
    let mut broken = me(0, NodeWork::Idle);
    broken.ending = Some(OwnEnding::Broken { why: "no disk".to_owned() });
    assert_eq!(exit_of(next(&broken, &listing, &ours(None))), NodeExitReason::Broken);
}

#[test]
fn the_last_exit_makes_the_result() {
    let mut listing = started(None);
    let exit = |reason, code| NodeExit { reason, code, at: at(30), is_peer_gone: false, why: String::new() };
    let me = me(0, NodeWork::Idle);
    listing.exits.insert(0, listed(30, exit(NodeExitReason::Succeeded, Some(0))));
    assert_eq!(next(&me, &listing, &ours(None)), GangStep::Wait(GangWait::Exits));
    listing.exits.insert(1, listed(30, exit(NodeExitReason::Succeeded, Some(0))));
    let GangStep::WriteResult(result) = next(&me, &listing, &ours(None)) else { panic!() };
    let done = Head { result: Some(result), ..ours(None) };
    assert_eq!(next(&me, &listing, &done), GangStep::Leave(LeaveReason::Done));
    listing.exits.insert(1, listed(30, exit(NodeExitReason::Interrupted, None)));
    assert_eq!(next(&me, &listing, &ours(None)), GangStep::Leave(LeaveReason::NoResult));
}

#[test]
fn an_unreadable_stop_ends_the_command() {
    let mut listing = started(None);
    listing.add(GangDocument::Stop, at(10));
    let running = me(0, NodeWork::Running { round: 0 });
    assert_eq!(next(&running, &listing, &ours(None)), GangStep::Wait(GangWait::Documents));
    listing.put(&gang(NODES), GangDocument::Stop, None);
    assert!(matches!(
        next(&running, &listing, &ours(None)),
        GangStep::Stop(StopOrder { cause: Some(StopCause::Failed), .. })
    ));
}

#[test]
fn a_failure_that_tells_of_another_node_is_named_as_such() {
    let mut listing = started(None);
    let failed = ended(&mut listing, 0, Some(1), 15, false);
    let content = NodeEnded { is_peer_gone: true, ..failed };
    listing.rounds.get_mut(&0).unwrap().ended.insert(0, listed(15, content));
    let stop = |listing: &GangListing| match next(&me(1, NodeWork::Running { round: 0 }), listing, &ours(None)) {
        GangStep::WriteStop(stop) => (stop.node, stop.why),
        other => panic!("{other:?}"),
    };
    let words =
        "the command has ended with exit code 1 on node 0, as was seen first: its log says that another node was gone";
    assert_eq!(stop(&listing), (0, words.to_owned()));
    // One that failed by itself comes first, however late it says so.
    ended(&mut listing, 1, Some(7), 16, false);
    assert_eq!(stop(&listing), (1, "the command has ended with exit code 7 on node 1".to_owned()));
}
