//! A job that comes after `a-11111111` and `b-22222222`.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::fixture::*;
use crate::*;

const A: &str = "a-11111111";
const B: &str = "b-22222222";

const DONE: DependencyState = DependencyState::Ended(JobResult::Succeeded);

fn after_two() -> JobInput {
    submitted().job(|job| job.waits_for = vec![A.to_owned(), B.to_owned()])
}

fn knowing(given: JobInput, known: &[(&str, DependencyState)]) -> JobInput {
    let known = known.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect();
    given.facts(|facts| facts.dependencies = known)
}

#[test]
fn it_is_ranked_once_all_have_succeeded() {
    check_nothing(after_two());
    check_nothing(knowing(after_two(), &[(A, DependencyState::Unfinished)]));
    let half = knowing(after_two(), &[(A, DONE), (B, DependencyState::Unfinished)]).next();
    assert_eq!(half.job.waits_for, [B]);
    check(knowing(half, &[(B, DONE)]), "submitted: rank");
    check(knowing(after_two(), &[(A, DONE), (B, DONE)]).observing(), "held by observing: note held");
}

#[test]
fn it_ends_without_a_launch_if_one_ends_otherwise() {
    let states = [JobResult::Failed, JobResult::Expired, JobResult::Cancelled].map(DependencyState::Ended);
    let member_failed = DependencyState::MemberEnded(3, JobResult::Failed);
    for state in states.into_iter().chain([member_failed, DependencyState::Absent]) {
        check(
            knowing(after_two(), &[(A, DependencyState::Unfinished), (B, state)]),
            "failed, closed: note over, forget",
        );
    }
    let given = knowing(after_two(), &[(B, DependencyState::Ended(JobResult::Expired))]).next();
    let Phase::Ended(ended) = given.job.phase else { panic!("{:?}", given.job.phase) };
    assert_eq!(ended.why, "it comes after b-22222222, which has expired");
}

#[test]
fn it_can_be_cancelled_and_its_deadline_holds() {
    check(after_two().cancelled(), "cancelled, closed: note over, forget");
    let by = after_two().job(|job| job.terms.finish_by = Some(noon_plus(HOUR)));
    check_nothing(by.clone().at_time(45 * MINUTE));
    check(by.at_time(45 * MINUTE + 1), "expired, closed: note over, forget");
}

#[test]
fn it_waits_at_the_end_of_the_queue_and_says_for_what() {
    assert!(needed_facts(&after_two().job, false, noon_plus(0)).dependencies);
    assert!(!needed_facts(&submitted().job, false, noon_plus(0)).dependencies);
    let overview = JobOverview::from_job(&after_two().job, noon_plus(0));
    assert_eq!(
        (overview.state, overview.why.as_str()),
        ("waiting", "it begins once a-11111111, b-22222222 have succeeded")
    );
    let order = by_priority(vec![after_two().job, submitted().job], |job| Some(job), 1, noon_plus(0));
    assert!(order[0].waits_for.is_empty(), "{order:?}");
}

fn fifth_member(earlier: Option<u32>) -> JobInput {
    let sweep =
        SweepMember { number: 5, parameters: vec![("lr".to_owned(), "1e-4".to_owned())], max_parallel: Some(2) };
    let given = submitted().job(|job| {
        job.job = JobId::read("vision/llama-0005-1a2b3c4d").unwrap();
        job.sweep = Some(sweep);
    });
    given.facts(|facts| facts.earlier_members = earlier)
}

#[test]
fn a_member_waits_for_its_turn_and_keeps_it() {
    assert!(needed_facts(&fifth_member(None).job, false, noon_plus(0)).earlier_members);
    for earlier in [None, Some(4), Some(2)] {
        check_nothing(fifth_member(earlier));
    }
    check(fifth_member(Some(1)), "submitted: rank");
    let begun = fifth_member(Some(1)).next();
    assert!(!needed_facts(&begun.job, false, noon_plus(0)).earlier_members);
    check(begun.facts(|facts| facts.earlier_members = None), "submitted: rank");
    let both = knowing(
        fifth_member(Some(0)).job(|job| job.waits_for = vec![A.to_owned()]),
        &[(A, DependencyState::Unfinished)],
    );
    assert_eq!(JobOverview::from_job(&both.next().job, noon_plus(0)).why, "it begins once a-11111111 has succeeded");
    let overview = JobOverview::from_job(&fifth_member(None).job, noon_plus(0));
    assert_eq!(
        (overview.state, overview.why.as_str()),
        ("waiting", "it begins once fewer than 2 earlier members of its sweep are unfinished")
    );
    check(fifth_member(None).cancelled(), "cancelled, closed: note over, forget");
}

proptest! {
    /// Each run may look with an old list of which members are closed: never more are unfinished at once than may be, and all come to their turn.
    #[test]
    fn no_runs_let_too_many_members_begin(most in 1_u32..4, steps in vec((any::<u8>(), any::<u8>(), any::<bool>()), 0..120)) {
        const MEMBERS: u32 = 8;
        let member = |number: u32| fifth_member(None).job(|job| {
            job.sweep = Some(SweepMember { number, parameters: Vec::new(), max_parallel: Some(most) });
        });
        let begins = |number: u32, closed: &BTreeSet<u32>| {
            let earlier = (1..number).filter(|other| !closed.contains(other)).count();
            let earlier = u32::try_from(earlier).unwrap();
            member(number).facts(|facts| facts.earlier_members = Some(earlier)).next().job.awaits_turn().is_none()
        };
        let (mut begun, mut views) = (BTreeSet::new(), vec![BTreeSet::new()]);
        let rest = (0..MEMBERS).flat_map(|_| (1..=MEMBERS).flat_map(|number| [(number, usize::MAX, false), (number, 0, true)]));
        let steps = steps.iter().map(|(number, view, closes)| (u32::from(*number) % MEMBERS + 1, usize::from(*view), *closes));
        for (number, view, closes) in steps.chain(rest) {
            let newest = views.last().cloned().unwrap_or_default();
            if closes && begun.contains(&number) {
                views.push(newest.iter().copied().chain([number]).collect());
            } else if !closes {
                let seen = views.get(view % views.len()).unwrap_or(&newest);
                let seen = if view == usize::MAX { &newest } else { seen };
                if begins(number, seen) {
                    begun.insert(number);
                }
            }
            let closed = views.last().map_or(0, BTreeSet::len);
            prop_assert!(begun.len() - closed <= most as usize, "{begun:?} {views:?}");
        }
        prop_assert_eq!(begun.len(), MEMBERS as usize);
    }
}
