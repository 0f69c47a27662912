//! Refusals of a launch that end or hold the job.

use super::fixture::*;
use crate::*;

fn refused(given: JobInput, why: &str) -> JobInput {
    given.answered(EffectResult::Launched(LaunchResult::Refused(why.to_owned())))
}

fn why_it_ended(given: JobInput) -> String {
    let Phase::Ended(ended) = given.next().job.phase else { panic!("{:?}", given.next().job.phase) };
    ended.why
}

#[test]
fn a_denied_launch_fails_the_job_at_once() {
    let given = launching().answered(says(LaunchResult::Denied));
    check(given.clone(), "failed: note over, release");
    assert_eq!(why_it_ended(given), "so EC2 says");
}

#[test]
fn a_refused_candidate_is_followed_by_the_next() {
    let second = refused(launching().at_time(2), "UnsupportedOperation: not this type");
    check(second.clone(), "launching 1.1.1: launch g5.xlarge until 20:00:02");
    let third = second.next().at_time(4).no_capacity();
    check(third.clone(), "launching 1.1.2: launch g6e.xlarge until 20:00:04");
    // One had no capacity, and may have some later.
    let last = refused(third.next().at_time(6), "InvalidParameterValue: not this image");
    check(last.clone(), "waiting after 1: note waits, release");
    check(refused(launching(), "so").cancelled(), "cancelled: note over, release");
    check(refused(launching(), "so").next().launched("i-1", 0), "running i-1: note launched i-1, settle i-1");
}

#[test]
fn a_job_ends_once_every_candidate_is_refused_and_says_why_of_each() {
    let second = refused(launching(), "UnsupportedOperation: not this type.").next();
    let third = refused(second, "InvalidParameterValue: not this image").next();
    let given = refused(third, "UnsupportedOperation: not this type.");
    check(given.clone(), "failed: note over, release");
    assert_eq!(
        why_it_ended(given),
        "EC2 refuses each of the 3 candidates: UnsupportedOperation: not this type; InvalidParameterValue: not this image"
    );
}

#[test]
fn a_candidate_for_which_no_money_is_left_does_not_keep_a_refused_job_alive() {
    let poor = |given: JobInput| given.job(|job| job.terms.max_usd = Some(model::money::Amount::from_usd(0.6)));
    // Sixty cents are 18 minutes of the second candidate, and 9 of the third.
    let given = refused(refused(poor(launching()), "so EC2 says").next(), "so EC2 says");
    check(given.clone(), "failed: note over, release");
    assert_eq!(why_it_ended(given), "EC2 refuses each of the 2 candidates: so EC2 says");
}

#[test]
fn without_the_role_for_spot_it_is_held_until_somebody_creates_it() {
    let given = launching().answered(says(LaunchResult::SpotRoleMissing));
    check(given.clone(), "held by spot-role: note held, release");
    check(given.clone().cancelled(), "cancelled: note over, release");
    let held = given.next().released();
    let Phase::Held(LaunchHold { why, until, .. }) = &held.job.phase else { panic!("{:?}", held.job.phase) };
    assert_eq!((why.as_str(), *until), ("so EC2 says", noon_plus(15 * MINUTE)));
    check_nothing(held.clone().at_time(15 * MINUTE - 1));
    check(held.at_time(15 * MINUTE), "submitted: rank");
}

#[test]
fn a_profile_that_ec2_does_not_know_yet_is_asked_for_again_and_then_holds_the_job() {
    let given = launching().answered(says(LaunchResult::ProfileUnknown));
    check_nothing(given.clone());
    check_nothing(given.clone().at_time(5 * MINUTE - 1));
    let again = given.next().at_time(MINUTE);
    check(again.clone(), "launching 1.1.0: launch g6.xlarge until 20:00:00");
    check(again.launched("i-1", MINUTE), "running i-1: note launched i-1, settle i-1");
    check(given.clone().cancelled(), "cancelled: note over, release");
    check(given.at_time(5 * MINUTE), "held by instance-profile: note held, release");
}

#[test]
fn an_old_ranking_is_made_anew_before_it_fails_the_job() {
    let refused = launching().answered(says(LaunchResult::Refused));
    check(refused.clone().at_time(15 * MINUTE - 1), "launching 1.1.1: launch g5.xlarge until 20:14:59");
    check(refused.clone().at_time(15 * MINUTE), "submitted: rank");
    check(refused.at_time(15 * MINUTE).cancelled(), "cancelled: note over, release");
    let anew = launching().at_time(15 * MINUTE).answered(says(LaunchResult::Refused)).next();
    let again = anew.answered(EffectResult::Ranked(Ok(ranking(noon_plus(15 * MINUTE))))).next();
    check(again.clone(), "launching 1.2.0: launch g6.xlarge until 20:15:00");
    check(again.answered(says(LaunchResult::Refused)), "launching 1.2.1: launch g5.xlarge until 20:15:00");
}

#[test]
fn a_removed_permission_holds_jobs_that_ran_or_waited() {
    let denied = |given: JobInput| given.answered(says(LaunchResult::Denied));
    let expect = "held by permission: note held, release";
    check(denied(launching().job(|job| job.machines = 1)), expect);
    check(denied(launching().no_capacity().next()), expect);
    check(denied(launching().job(|job| job.was_observed = true)), expect);
    check(denied(launching()).cancelled(), "cancelled: note over, release");
    let given = denied(launching().no_capacity().next()).next();
    let Phase::Held(held) = &given.job.phase else { unreachable!() };
    assert_eq!((held.why.as_str(), held.until), ("so EC2 says", noon_plus(15 * MINUTE)));
    // It is asked again, and held again.
    let again = given.released().at_time(15 * MINUTE).next();
    let again = again.answered(EffectResult::Ranked(Ok(ranking(noon_plus(15 * MINUTE))))).next();
    let again = again.answered(EffectResult::Reserved(ReserveResult::Granted)).next();
    check(again.clone(), "launching 1.2.0: launch g6.xlarge until 20:15:00");
    check(denied(again), expect);
}

#[test]
fn a_role_that_ec2_does_not_know_holds_the_job_until_it_does() {
    let refused = launching().answered(says(LaunchResult::NoProfile));
    check(refused.clone(), "held by role: note held, release");
    check(refused.clone().cancelled(), "cancelled: note over, release");
    let held = refused.next().released();
    check_nothing(held.clone().at_time(2 * MINUTE - 1));
    check(held.clone().at_time(2 * MINUTE), "submitted: rank");
    let again = held.at_time(2 * MINUTE).next().answered(EffectResult::Ranked(Ok(ranking(noon_plus(2 * MINUTE)))));
    let again = again.next().answered(EffectResult::Reserved(ReserveResult::Granted)).next();
    check(again, "launching 1.2.0: launch g6.xlarge until 20:02:00");
}

#[test]
fn a_role_that_no_machine_may_have_holds_the_job_before_money_is_reserved() {
    let refused = submitted().answered(EffectResult::NoRole("so it is".to_owned()));
    check(refused.clone(), "held by role: note held");
    check(refused.next().at_time(2 * MINUTE), "submitted: rank");
}

#[test]
fn what_its_team_may_not_use_holds_the_job_until_it_may() {
    let refused = submitted().answered(EffectResult::NotAllowed("so it is".to_owned()));
    check(refused.clone(), "held by not-allowed: note held");
    check(refused.next().at_time(5 * MINUTE), "submitted: rank");
    // The configuration has changed since it was ranked.
    let at_launch = launching().answered(says(LaunchResult::NotAllowed));
    check(at_launch.clone(), "held by not-allowed: note held, release");
    check(at_launch.cancelled(), "cancelled: note over, release");
}
