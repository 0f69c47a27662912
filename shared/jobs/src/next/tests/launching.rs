use super::fixture::*;
use crate::*;

#[test]
fn a_launch_without_an_answer_is_asked_again_with_the_same_token_and_the_same_words() {
    let ask = |given: JobInput| given.turn().1;
    let first = ask(launching());
    assert_eq!(line(&launching().job, &first), "launching 1.1.0: launch g6.xlarge until 20:00:00");
    // A crash, hours, a new ranking that was not written, a cancel: the request stays the same.
    for seconds in [3 * HOUR, 8 * HOUR - 15 * MINUTE, -MINUTE] {
        assert_eq!(ask(launching().at_time(seconds)), first);
    }
    assert_eq!(ask(launching().at_time(3 * HOUR).cancelled()), first);
    assert_eq!(ask(launching().at_time(3 * HOUR).result(1, true)), first);
}

#[test]
fn an_old_token_is_not_repeated_but_its_machine_is_searched_for() {
    let ask = |given: JobInput| match given.turn().1.as_slice() {
        [Effect::Launch(launch)] => launch.clone(),
        other => panic!("{other:?}"),
    };
    let first = ask(launching());
    let longer = |given: JobInput| {
        given.job(|job| match &mut job.phase {
            Phase::Launching(launching) => launching.ends_at = noon_plus(99 * HOUR),
            other => panic!("{other:?}"),
        })
    };
    assert!(!first.only_find && !ask(longer(launching()).at_time(12 * HOUR - 1)).only_find);
    assert!(ask(longer(launching()).at_time(12 * HOUR)).only_find);
    for seconds in [12 * HOUR, 30 * HOUR] {
        assert_eq!(ask(launching().at_time(seconds)), LaunchRequest { only_find: true, ..first.clone() });
    }
    // Surely nothing is there: the next candidate is launched, by a token of its own.
    let second = launching().job(|job| job.terms.max_runtime_seconds = 48 * HOUR).at_time(13 * HOUR).no_capacity();
    let second =
        second.job(|job| job.reserved = job.reserved.map(|one| JobReservation { until: noon_plus(99 * HOUR), ..one }));
    assert!(!ask(second.clone()).only_find && ask(second).token != first.token);
    // It may have come to a result meanwhile.
    check(launching().at_time(13 * HOUR).result(1, true).no_capacity(), "succeeded: note over, release");
}

#[test]
fn people_hear_of_a_launch_that_has_no_answer_for_long() {
    let since = |given: JobInput| given.job.unanswered_since(given.now);
    assert_eq!(since(launching().at_time(10 * MINUTE - 1)), None);
    assert_eq!(since(launching().at_time(10 * MINUTE)), Some(noon_plus(0)));
    assert_eq!((since(running()), since(waiting().at_time(9 * HOUR))), (None, None));
}

#[test]
fn a_late_machine_is_disowned() {
    let given = launching();
    let token = given.job.awaited().expect("it waits for one");
    let machine = placed("i-1", 1);
    let disowned = |given: JobInput| given.job.rejects_machine(&machine, &token);
    assert!(!disowned(given.clone()), "it is what the job waits for");
    assert!(!disowned(given.clone().launched("i-1", 2).next()), "it is what the job has");
    assert!(disowned(given.clone().launched("i-2", 2).next()), "it has another one");
    assert!(disowned(given.clone().no_capacity().next()), "it waits for another one");
    assert!(disowned(waiting()) && disowned(held(HoldReason::Quota)) && disowned(submitted()));
    assert!(disowned(given.cancelled().no_capacity().next()), "it is over");
}

#[test]
fn a_run_that_loses_its_write_terminates_only_a_machine_that_the_job_rejects() {
    let given = launching();
    let Reconciliation::Observe(decision) = Reconciliation::<Box<Job>>::begin(Box::new(given.job.clone()), None) else {
        panic!("it begins with what it observes")
    };
    let Reconciliation::CarryOut(Effect::Launch(_), pending) = decision.decide(given.facts.clone(), given.now) else {
        panic!("it launches")
    };
    let answer = given.clone().launched("i-1", 2).facts.answer;
    let Reconciliation::Observe(decision) = pending.carried_out(answer) else { panic!("it decides on the answer") };
    let Reconciliation::Write(write) = decision.decide(given.facts.clone(), given.now) else { panic!("it writes") };
    let Reconciliation::ReadAgain(unrecorded) = write.lost() else { panic!("it reads what the other run wrote") };
    let compare = |job: Option<Job>| unrecorded.clone().compare(job.map(Box::new));
    let recorded = given.clone().launched("i-1", 2).next().job;
    assert_eq!(compare(Some(recorded)), Reconciliation::Lost);
    assert_eq!(compare(None), Reconciliation::Lost);
    let moved_on = given.no_capacity().next().job;
    let machine = unrecorded.machine().clone();
    assert_eq!(compare(Some(moved_on.clone())), Reconciliation::Terminate(machine, Box::new(moved_on)));
}

#[test]
fn an_unknown_answer_waits_for_the_next_run() {
    check_nothing(launching().answered(EffectResult::Launched(LaunchResult::Unknown("timeout".to_owned()))));
}

#[test]
fn in_observe_mode_a_launch_stays_open() {
    check_nothing(launching().observing());
    check_nothing(launching().observing().at_time(9 * HOUR).cancelled());
}

#[test]
fn a_launched_machine_runs_until_the_end_that_was_decided() {
    let given = launching().launched("i-1", 2).at_time(5);
    check(given.clone(), "running i-1: note launched i-1, settle i-1");
    let expect = JobMachine { launched_at: noon_plus(2), ..placed("i-1", 1) };
    assert_eq!(given.next().job.machine(), Some(&expect));
}

#[test]
fn a_launch_that_is_resolved_after_hours_is_that_of_then() {
    let given = launching().at_time(30 * HOUR).launched("i-1", 2);
    check(given.clone(), "running i-1: note launched i-1, settle i-1");
    // It has ended by itself meanwhile, and nothing is left.
    let gone =
        given.next().with_machine(model::instance::InstanceState::Terminated, Some("Client.InstanceInitiatedShutdown"));
    let gone = gone.exit(None).facts(|facts| facts.head = Some(None));
    check(gone, "expired: note lost i-1 Overdue, note over, release");
}

#[test]
fn without_capacity_the_next_candidate_is_tried_until_none_is_left() {
    let second = launching().at_time(2).no_capacity();
    check(second.clone(), "launching 1.1.1: launch g5.xlarge until 20:00:02");
    let third = second.next().at_time(4).no_capacity();
    check(third.clone(), "launching 1.1.2: launch g6e.xlarge until 20:00:04");
    let none = third.next().at_time(6).no_capacity();
    check(none.clone(), "waiting after 1: note waits, release");
    assert_eq!(none.next().job.unplaced_since, Some(noon_plus(6)));
}

#[test]
fn the_pool_that_was_just_lost_is_tried_last() {
    let avoiding = |candidate| {
        launching().no_capacity().job(|job| {
            if let Phase::Launching(launching) = &mut job.phase {
                (launching.candidate, launching.avoid) = (candidate, Some(0));
            }
        })
    };
    check(avoiding(1), "launching 1.1.2: launch g6e.xlarge until 20:00:00");
    check(avoiding(2), "launching 1.1.0: launch g6.xlarge until 20:00:00");
    check(avoiding(0), "waiting after 1: note waits, release");
}

#[test]
fn no_other_candidate_of_a_used_up_quota_is_tried_in_that_pass() {
    check(launching().over_quota(None), "launching 1.1.2: launch g6e.xlarge until 20:00:00");
    check(launching().over_quota(Some("L-SPOT")), "launching 1.1.2: launch g6e.xlarge until 20:00:00");
}

#[test]
fn used_up_quotas_alone_hold_it_and_are_named() {
    let given = launching().over_quota(None).next().over_quota(None);
    check(given.clone(), "held by quota: note held, release");
    let Phase::Held(held) = given.next().job.phase else { unreachable!() };
    assert!(held.why.contains("L-SPOT in us-east-1, L-DEMAND in us-east-1"), "{}", held.why);
    assert_eq!((held.until, given.next().job.unplaced_since), (noon_plus(15 * MINUTE), Some(noon_plus(0))));
}

#[test]
fn a_used_up_quota_beside_missing_capacity_waits() {
    check(launching().over_quota(None).next().no_capacity(), "waiting after 1: note waits, release");
}

#[test]
fn while_the_machine_before_may_hold_the_quota_it_waits_for_a_minute() {
    let given = launching().after(MachineSight::Unknown).over_quota(None).next().over_quota(None);
    check(given.clone(), "waiting after 1: note waits, release");
    let Phase::Waiting(waiting) = given.next().job.phase else { unreachable!() };
    assert_eq!(waiting.until, noon_plus(MINUTE));
}

#[test]
fn too_late_for_an_attempt_nothing_is_launched_but_earlier_machines_are_searched_for() {
    let only_finds = |given: JobInput| match given.turn().1.as_slice() {
        [Effect::Launch(launch)] => launch.only_find,
        other => panic!("{other:?}"),
    };
    let too_late = 8 * HOUR - 15 * MINUTE + 1;
    assert!(!only_finds(launching().at_time(too_late - 1)));
    assert!(only_finds(launching().at_time(too_late)) && only_finds(launching().at_time(9 * HOUR)));
    // What is decided now has so much time, to the second.
    let shortest = launching().job(|job| job.terms.max_runtime_seconds = 15 * MINUTE).at_time(1).no_capacity();
    assert!(!only_finds(shortest.clone()));
    // A moment later it may have been launched already, and EC2 not show it yet.
    let later = shortest.next().at_time(2 * MINUTE);
    assert!(only_finds(later.clone()));
    check_nothing(later.no_capacity());
    check(launching().at_time(too_late).no_capacity(), "reserving: reserve $32.00 until 04:45");
}

#[test]
fn that_it_was_observed_is_remembered() {
    let given = submitted().observing().next();
    assert!(given.job.was_observed && !submitted().job.was_observed);
    assert!(given.facts(|facts| facts.may_act = true).next().job.was_observed);
}

#[test]
fn a_token_by_which_something_else_was_asked_for_waits_until_ec2_would_show_it() {
    let given = launching().answered(says(LaunchResult::Mismatch));
    check_nothing(given.clone().at_time(15 * MINUTE - 1));
    check(given.at_time(15 * MINUTE), "launching 1.1.1: launch g5.xlarge until 20:15:00");
}

#[test]
fn money_that_does_not_cover_the_next_candidate_any_more_is_reserved_anew() {
    check(launching().at_time(2 * HOUR).no_capacity(), "reserving: reserve $32.00 until 23:00");
}

#[test]
fn a_candidate_for_which_too_little_money_is_left_is_skipped() {
    let given = launching().job(|job| {
        job.terms.max_usd = Some(model::money::Amount::from_usd(0.6));
        if let Phase::Launching(launching) = &mut job.phase {
            launching.candidate = 1;
        }
    });
    // Sixty cents are 9 minutes of the third candidate.
    check(given.no_capacity(), "waiting after 1: note waits, release");
}

#[test]
fn a_cancel_counts_once_the_launch_is_resolved() {
    check(launching().cancelled().no_capacity(), "cancelled: note over, release");
    check(
        launching().cancelled().launched("i-1", 0),
        "cancelled with i-1: note launched i-1, note over, terminate i-1, settle i-1",
    );
}

#[test]
fn a_result_of_an_earlier_attempt_counts_once_the_launch_is_resolved() {
    let second = |given: JobInput| given.job(|job| job.attempt = 2).result(1, true);
    check(second(launching()).no_capacity(), "succeeded: note over, release");
    check(
        second(launching()).launched("i-1", 0),
        "succeeded with i-1: note launched i-1, note over, release, settle i-1",
    );
}

#[test]
fn a_warning_for_the_very_machine_that_is_being_launched_is_not_lost() {
    let given = launching().warned("i-1");
    check(given.clone(), "launching 1.1.0: launch g6.xlarge until 20:00:00");
    check(
        given.launched("i-1", 0),
        "launching 2.1.1: note launched i-1, note lost i-1 Reclaimed, launch g5.xlarge until 19:58:00, settle i-1",
    );
}

#[test]
fn a_warning_for_another_machine_changes_nothing() {
    check(launching().warned("i-9").launched("i-1", 0), "running i-1: note launched i-1, settle i-1");
}

#[test]
fn it_waits_longer_each_time_within_a_quarter_and_always_the_same() {
    let pause = |passes: u32| {
        let given = launching().no_capacity().job(|job| {
            job.passes = passes;
            if let Phase::Launching(launching) = &mut job.phase {
                (launching.pass, launching.candidate) = (passes, 2);
            }
        });
        let Phase::Waiting(waiting) = given.next().job.phase else { unreachable!() };
        waiting.until.duration_since(noon_plus(0)).as_secs()
    };
    for (passes, minutes) in (1..).zip([1, 2, 4, 8, 15, 15, 15]) {
        let (least, most) = (minutes * 45, minutes * 75);
        assert!((least..=most).contains(&pause(passes)), "{passes}: {}", pause(passes));
    }
    let distinct: std::collections::BTreeSet<i64> = (5..50).map(pause).collect();
    assert!(distinct.len() > 20, "they spread: {distinct:?}");
    assert!((675..=1_125).contains(&pause(u32::MAX)));
}

#[test]
fn who_waits_hears_what_was_left_out_and_how_to_allow_it() {
    const LEFT_OUT: &str = "left out: p4d.24xlarge with 8 GPUs at $21.96/h; to allow one, name it in `gpu.types`";
    let given = launching().no_capacity().job(|job| {
        job.ranking.as_mut().expect("it is ranked").left_out = Some(LEFT_OUT.to_owned());
        if let Phase::Launching(launching) = &mut job.phase {
            launching.candidate = 2;
        }
    });
    let waiting = given.clone().next();
    assert!(JobOverview::from_job(&waiting.job, noon_plus(0)).why.ends_with(&format!("; {LEFT_OUT}")));
    let JobNotification { notification, .. } = waiting.job.notification().expect("its owner is notified");
    assert!(notification.text.to_string().contains("p4d.24xlarge"), "{notification:?}");
    let over = waiting.job(|job| job.terms.finish_by = Some(noon_plus(HOUR))).at_time(HOUR);
    let over = over.facts(|facts| (facts.answer, facts.head) = (None, Some(None))).next();
    assert!(
        JobOverview::from_job(&over.job, noon_plus(HOUR)).why.ends_with(&format!("; {LEFT_OUT}")),
        "{:?}",
        over.job.phase
    );
}

#[test]
fn a_job_names_its_last_machine_after_its_end() {
    let launched = launching().launched("i-1", 0).next();
    let last = |job: &Job| JobOverview::from_job(job, noon_plus(HOUR)).last_machine.map(|machine| machine.instance);
    let job = Job { phase: Phase::Submitted, ..launched.job };
    assert_eq!(last(&job), Some("i-1".into()));
}

#[test]
fn a_state_that_nothing_can_be_launched_from_is_ranked_anew() {
    check(launching().job(|job| job.ranking = None), "submitted: rank");
    let beyond = launching().job(|job| {
        if let Phase::Launching(launching) = &mut job.phase {
            launching.candidate = 200;
        }
    });
    check(beyond, "submitted: rank");
}

#[test]
fn an_attempt_is_one_machine_for_any_number_of_candidates() {
    let mut given = launching();
    let mut tokens = Vec::new();
    for minute in 0..100 {
        given = given.at_time(minute * MINUTE).no_capacity().next();
        if let Phase::Waiting(_) = given.job.phase {
            given = given.released().at_time((minute + 30) * MINUTE).next();
            given = given.answered(EffectResult::Ranked(Ok(ranking(noon_plus(minute * MINUTE))))).next();
            given = given.answered(EffectResult::Reserved(ReserveResult::Granted)).next();
        }
        let Phase::Launching(launching) = &given.job.phase else { continue };
        assert_eq!(given.job.attempt, 1);
        tokens.push((launching.pass, launching.candidate));
    }
    let asked = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert!(asked > 20 && tokens.len() == asked, "no launch is asked for twice as another one: {tokens:?}");
}
