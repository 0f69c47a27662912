//! Refusals that concern more than one candidate: quotas, and requests that are wrong in themselves.

use super::fixture::{JobInput, check, launching, noon_plus};
use crate::{EffectResult, Job, LaunchInProgress, LaunchResult, Phase, QuotaCode};

/// The first two candidates are of one family, in two zones; the third is of another one.
fn launching_in_one_family() -> JobInput {
    launching().job(|job| candidates(job)[1].instance_type = "g6.2xlarge".into())
}

fn candidates(job: &mut Job) -> &mut Vec<crate::Candidate> {
    &mut job.ranking.as_mut().unwrap().candidates
}

#[test]
fn the_quota_that_service_quotas_names_counts_the_whole_family() {
    // The table names another one, or none.
    for by_table in [Some("L-OLD"), None] {
        let given = launching_in_one_family().job(|job| {
            for one in &mut candidates(job)[..2] {
                one.quota = by_table.map(|code| QuotaCode(code.to_owned()));
            }
        });
        let refused = given.over_quota(Some("L-NEW"));
        check(refused.clone(), "launching 1.1.2: launch g6e.xlarge until 20:00:00");
        let held = refused.next().over_quota(None);
        check(held.clone(), "held by quota: note held, release");
        let Phase::Held(held) = held.next().job.phase else { unreachable!() };
        assert!(held.why.contains("L-NEW in us-east-1, L-DEMAND in us-east-1"), "{}", held.why);
    }
}

#[test]
fn a_quota_says_nothing_of_another_family_that_the_table_counts_otherwise() {
    check(launching().over_quota(Some("L-OTHER")), "launching 1.1.1: launch g5.xlarge until 20:00:00");
}

#[test]
fn each_region_has_a_quota_of_its_own() {
    let given = launching_in_one_family().job(|job| candidates(job)[1].region = "eu-west-1".into());
    let second = given.over_quota(None);
    check(second.clone(), "launching 1.1.1: launch g6.2xlarge until 20:00:00");
    let Phase::Launching(LaunchInProgress { quotas, .. }) = second.next().job.phase else { unreachable!() };
    assert_eq!(quotas.len(), 1);
}

#[test]
fn a_request_that_is_wrong_in_itself_is_made_once() {
    let wrong = |given: JobInput| {
        given.answered(EffectResult::Launched(LaunchResult::RefusedRequest("MissingParameter: so EC2 says".to_owned())))
    };
    let given = wrong(launching());
    check(given.clone(), "failed: note over, release");
    let Phase::Ended(ended) = given.next().job.phase else { unreachable!() };
    assert_eq!((ended.why.as_str(), ended.at), ("MissingParameter: so EC2 says", noon_plus(0)));
    check(wrong(launching()).cancelled(), "cancelled: note over, release");
}
