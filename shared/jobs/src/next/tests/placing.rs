use super::fixture::*;
use crate::*;

fn ranks(result: Result<Ranking, &str>) -> EffectResult {
    EffectResult::Ranked(result.map_err(LaunchObstacle::new))
}

fn reserves(answer: ReserveResult) -> EffectResult {
    EffectResult::Reserved(answer)
}

#[test]
fn a_submitted_job_is_ranked_first() {
    check(submitted(), "submitted: rank");
    check(submitted().knowing_nothing(), "submitted: rank");
}

#[test]
fn money_for_the_dearest_candidate_is_reserved_for_all_the_time_that_is_left() {
    check(submitted().answered(ranks(Ok(ranking(noon_plus(0))))), "reserving: reserve $32.00 until 21:00");
    let half = submitted().job(|job| job.used.seconds = 4 * HOUR);
    check(half.answered(ranks(Ok(ranking(noon_plus(0))))), "reserving: reserve $16.00 until 17:00");
}

#[test]
fn no_more_is_reserved_than_may_still_be_spent() {
    let given = submitted().job(|job| {
        job.terms.max_usd = Some(model::money::Amount::from_usd(10.0));
        job.used.usd = model::money::Amount::from_usd(4.0);
    });
    // Six dollars last for six hours of the cheapest candidate.
    check(given.answered(ranks(Ok(ranking(noon_plus(0))))), "reserving: reserve $6.00 until 19:00");
}

#[test]
fn a_reservation_that_covers_every_candidate_is_used_again() {
    let given = running().job(|job| job.phase = Phase::Submitted).at_time(0);
    check(given.clone().answered(ranks(Ok(ranking(noon_plus(0))))), "launching 2.1.0: launch g6.xlarge until 20:00:00");
    let dearer = given.clone().answered(ranks(Ok({
        let mut dearer = ranking(noon_plus(0));
        dearer.candidates[2].rate_max = model::money::Rate::from_usd_micros_per_hour(5_000_000);
        dearer
    })));
    check(dearer, "reserving: reserve $40.00 until 21:00");
    let later = given.at_time(2 * HOUR).answered(ranks(Ok(ranking(noon_plus(2 * HOUR)))));
    check(later, "reserving: reserve $32.00 until 23:00");
}

#[test]
fn money_for_checkpoints_to_another_region_is_reserved() {
    let check_transfer = |usd_micros_per_hour: u64, usd: f64, expect: &str| {
        let mut abroad = ranking(noon_plus(0));
        abroad.candidates[2].transfer = Some(TransferCost {
            usd_per_hour: model::money::Rate::from_usd_micros_per_hour(usd_micros_per_hour),
            usd_per_machine: model::money::Amount::from_usd(usd),
        });
        let given = running().job(|job| job.phase = Phase::Submitted).at_time(0);
        check(given.answered(ranks(Ok(abroad))), expect);
    };
    // What is reserved covers the machine alone.
    check_transfer(500_000, 0.0, "reserving: reserve $36.00 until 21:00");
    check_transfer(0, 1.5, "reserving: reserve $33.50 until 21:00");
    check_transfer(500_000, 1.5, "reserving: reserve $37.50 until 21:00");
    check_transfer(0, 0.0, "launching 2.1.0: launch g6.xlarge until 20:00:00");
}

#[test]
fn a_pending_launch_covers_nothing() {
    let given = reserving().job(|job| job.phase = Phase::Submitted);
    check(given.answered(ranks(Ok(ranking(noon_plus(0))))), "reserving: reserve $32.00 until 21:00");
}

#[test]
fn nowhere_to_run_holds_it_for_five_minutes() {
    let given = submitted().answered(ranks(Err("no type has so much memory")));
    check(given.clone(), "held by unplaceable: note held");
    let Phase::Held(held) = given.next().job.phase else { unreachable!() };
    assert_eq!((held.why.as_str(), held.until), ("no type has so much memory", noon_plus(5 * MINUTE)));
}

#[test]
fn a_ranking_that_nothing_can_be_launched_from_holds_it() {
    let empty = Ranking { candidates: Vec::new(), ..ranking(noon_plus(0)) };
    let imageless = Ranking { images: Vec::new(), ..ranking(noon_plus(0)) };
    for ranking in [empty, imageless] {
        check(submitted().answered(ranks(Ok(ranking))), "held by unplaceable: note held");
    }
}

#[test]
fn more_candidates_than_are_kept_are_cut_off() {
    let mut long = ranking(noon_plus(0));
    long.candidates = long.candidates.iter().cycle().take(1_000).cloned().collect();
    let given = submitted().answered(ranks(Ok(long))).next();
    assert_eq!(given.job.ranking.unwrap().candidates.len(), Ranking::MAX);
}

#[test]
fn money_is_asked_for_again_after_a_crash() {
    check(reserving(), "reserving: reserve $32.00 until 21:00");
    check(reserving().knowing_nothing(), "reserving: reserve $32.00 until 21:00");
}

#[test]
fn an_old_ranking_is_made_anew_after_a_crash() {
    check(reserving().at_time(15 * MINUTE), "submitted: rank");
}

#[test]
fn granted_money_launches_the_best_candidate() {
    check(reserving().answered(reserves(ReserveResult::Granted)), "launching 1.1.0: launch g6.xlarge until 20:00:00");
}

#[test]
fn an_attempt_that_was_never_placed_keeps_its_number_and_its_passes() {
    let given = reserving().job(|job| (job.attempt, job.passes) = (3, 7));
    check(given.answered(reserves(ReserveResult::Granted)), "launching 3.8.0: launch g6.xlarge until 20:00:00");
}

#[test]
fn a_refused_reservation_and_an_unreadable_budget_hold_it() {
    for answer in [ReserveResult::Refused("spent".to_owned()), ReserveResult::Unknown("unread".to_owned())] {
        check(reserving().answered(reserves(answer)), "held by budget: note held, release");
    }
}

#[test]
fn a_contended_budget_is_retried_by_the_next_run() {
    let given = reserving().answered(reserves(ReserveResult::Overtaken));
    check_nothing(given.clone());
    let then = given.next().facts(|facts| facts.answer = None).at_time(MINUTE);
    let (job, effects) = next(&then.job, &then.facts, then.now);
    assert!(job == then.job && matches!(effects.as_slice(), [Effect::Reserve { .. }]), "{effects:?}");
}

#[test]
fn money_that_was_granted_too_late_is_asked_for_anew() {
    let given = reserving().at_time(10 * MINUTE).job(|job| {
        job.reserved = job.reserved.map(|reserved| JobReservation { until: noon_plus(8 * HOUR), ..reserved });
    });
    check(given.answered(reserves(ReserveResult::Granted)), "reserving: reserve $32.00 until 21:10");
}

#[test]
fn in_observe_mode_nothing_is_ranked_reserved_or_launched() {
    check(submitted().observing(), "held by observing: note held");
    check(submitted().observing().answered(ranks(Ok(ranking(noon_plus(0))))), "held by observing: note held");
    check(reserving().observing(), "held by observing: note held, release");
    check(reserving().observing().answered(reserves(ReserveResult::Granted)), "held by observing: note held, release");
    check_nothing(held(HoldReason::Observing).observing().at_time(48 * HOUR));
    check_nothing(waiting().observing().at_time(HOUR));
    check(held(HoldReason::Budget).observing().at_time(HOUR), "held by observing: note held");
}

#[test]
fn it_continues_as_soon_as_curfew_may_act() {
    check(held(HoldReason::Observing), "submitted: rank");
}

#[test]
fn a_hold_lasts_until_its_time_and_then_it_is_ranked_anew() {
    for by in [HoldReason::Budget, HoldReason::Quota, HoldReason::Unplaceable] {
        check_nothing(held(by.clone()).at_time(5 * MINUTE - 1));
        check_nothing(held(by.clone()).at_time(-HOUR));
        check(held(by.clone()).at_time(5 * MINUTE), "submitted: rank");
        check(held(by).at_time(31 * 24 * HOUR), "submitted: rank");
    }
}

#[test]
fn a_day_of_holds_loses_nothing() {
    let mut given = submitted();
    for minute in 0..24 * 60 {
        given = given.at_time(minute * MINUTE);
        for _ in 0..4 {
            let (after, effects) = given.turn();
            given = after;
            given.facts.answer = effects.iter().find_map(|effect| match effect {
                Effect::Rank => Some(ranks(Ok(ranking(given.now)))),
                Effect::Reserve { .. } => Some(reserves(ReserveResult::Refused("spent".to_owned()))),
                _ => None,
            });
        }
    }
    given.facts.answer = None;
    assert_eq!((given.job.attempt, given.job.passes, given.job.used), (0, 0, JobUsage::default()));
    assert_eq!(given.job.notification().unwrap().fingerprint, "unplaced 0: held budget");
}

#[test]
fn without_a_machine_it_gives_its_money_back_before_anything_else() {
    let owes = |given: JobInput| {
        given.job(|job| {
            job.reserved = job.reserved.map(|reserved| JobReservation { granted: true, released: false, ..reserved });
        })
    };
    check(owes(waiting()).at_time(10 * MINUTE), "waiting after 2: release");
    check(running().job(|job| job.phase = Phase::Submitted), "submitted: release");
    // Its state has none granted before that, so that no run launches by it; a release that failed is repeated.
    let given = owes(waiting()).next();
    assert!(given.job.reserved.is_some_and(|reserved| !reserved.granted && !reserved.released));
    check_nothing(given.clone().answered(EffectResult::Released(false)));
    check(given.clone(), "waiting after 2: release");
    check_nothing(given.answered(EffectResult::Released(true)).next());
    // The next is another reservation.
    let asked = reserving().job(|job| job.phase = Phase::Submitted).answered(ranks(Ok(ranking(noon_plus(0)))));
    assert!(matches!(asked.turn().1.as_slice(), [Effect::Reserve { number: 2, .. }]));
}

#[test]
fn after_a_wait_it_is_ranked_anew() {
    check_nothing(waiting());
    check_nothing(waiting().at_time(-HOUR));
    check(waiting().at_time(10 * MINUTE), "submitted: rank");
    let ranked = waiting().at_time(10 * MINUTE).next().answered(ranks(Ok(ranking(noon_plus(10 * MINUTE)))));
    check(ranked.clone(), "reserving: reserve $32.00 until 21:10");
    let granted = ranked.next().answered(reserves(ReserveResult::Granted));
    check(granted, "launching 1.3.0: launch g6.xlarge until 20:10:00");
}

#[test]
fn the_pool_that_was_just_lost_comes_last_in_a_new_ranking() {
    let given = running().at_time(0).after(MachineSight::Unknown).job(|job| job.phase = Phase::Submitted);
    check(given.answered(ranks(Ok(ranking(noon_plus(0))))), "launching 2.1.1: launch g5.xlarge until 20:00:00");
}

#[test]
fn an_answer_to_another_question_is_no_answer() {
    check(submitted().launched("i-9", 0), "submitted: rank");
    check(submitted().answered(reserves(ReserveResult::Granted)), "submitted: rank");
    check(reserving().launched("i-9", 0), "reserving: reserve $32.00 until 21:00");
    check(reserving().answered(ranks(Ok(ranking(noon_plus(0))))), "reserving: reserve $32.00 until 21:00");
    check_nothing(waiting().launched("i-9", 0));
    check_nothing(held(HoldReason::Budget).launched("i-9", 0));
    check_nothing(running().launched("i-9", 0));
}
