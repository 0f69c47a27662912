use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use model::id::Region;
use model::instance::InstanceState;
use model::notification_log::{
    Headline, Notification, NotificationEntry, NotificationKind, NotificationLog, NotificationLogs, Severity,
    without_known,
};

mod liveness;

use insta::assert_snapshot;

use crate::next::tests::fixture::*;
use crate::next::tests::retry::{alone, retrying};
use crate::*;

/// Of a paragraph that begins with the job and ends with how to stop it, what is between.
#[track_caller]
fn check(given: JobInput, fingerprint: &str, severity: Severity, expect: &str) {
    let notification = given.job.notification().unwrap();
    assert_eq!((notification.fingerprint.as_str(), notification.notification.severity), (fingerprint, severity));
    let text = notification.notification.text.strip_prefix("vision/llama-1a2b3c4d (owner \"ada\"): ").unwrap();
    let is_over = matches!(given.job.phase, Phase::Ended(_));
    let stop = "\nTo stop it: curfew cancel vision/llama-1a2b3c4d";
    assert_eq!(if is_over { text } else { text.strip_suffix(stop).unwrap() }, expect);
    assert_eq!(notification.notification.team, "vision");
    let named = given.job.machine().map_or("llama-1a2b3c4d", |placed| placed.instance.as_str());
    assert_eq!(notification.notification.resource.unwrap().as_str(), named);
}

/// The first line of a message about it alone; all together are short enough for one that also says what is lost.
#[track_caller]
fn headline(notification: &Notification) -> String {
    let headline = Headline::describe(
        &[&notification.headline],
        &BTreeSet::from([notification.team.as_str()]),
        &noon_plus(HOUR).to_zoned(TimeZone::UTC),
    );
    assert!(headline.chars().count() < 120, "{headline}");
    headline
}

#[test]
fn a_headline_has_the_job_its_outcome_time_and_cost() {
    let shown = |given: JobInput| headline(&given.job.notification().unwrap().notification);
    assert_snapshot!(shown(running()), @"Curfew launched job llama-1a2b3c4d of team vision at 2026-09-01 12:00 UTC: $0.40/h");
    assert_snapshot!(shown(again(running())), @"Curfew launched job llama-1a2b3c4d of team vision again at 2026-09-01 13:00 UTC: $0.50/h");
    assert_snapshot!(shown(running().warned("i-1").next()), @"The machine of job llama-1a2b3c4d of team vision was lost at 2026-09-01 13:00 UTC");
    assert_snapshot!(shown(interrupted()), @"Curfew terminates the lost machine of job llama-1a2b3c4d of team vision at 2026-09-01 13:00 UTC");
    assert_snapshot!(shown(waiting()), @"Curfew cannot launch job llama-1a2b3c4d of team vision yet at 2026-09-01 13:00 UTC");
    assert_snapshot!(shown(held(HoldReason::Quota)), @"Curfew does not launch job llama-1a2b3c4d of team vision (quota) at 2026-09-01 13:00 UTC");
    assert_snapshot!(shown(ended(JobResult::Succeeded)), @"Curfew closed job llama-1a2b3c4d of team vision as succeeded at 2026-09-01 13:00 UTC: $1.17 at most");
    assert_snapshot!(shown(ended(JobResult::Cancelled)), @"Curfew closed job llama-1a2b3c4d of team vision as cancelled at 2026-09-01 13:00 UTC: $1.17 at most");
    let job = running().job;
    let machine = job.machine().unwrap();
    let home = Region::new("us-east-1");
    assert_snapshot!(headline(&job.notify_not_terminated(machine, "UnauthorizedOperation", &home)), @"Curfew could not terminate the machine of job llama-1a2b3c4d of team vision at 2026-09-01 13:00 UTC: $1.00/h");
    assert_snapshot!(headline(&job.notify_refused_document("it is too large", &home)), @"Curfew ignores a document of the machine of job llama-1a2b3c4d of team vision at 2026-09-01 13:00 UTC");
    assert_snapshot!(headline(&trouble(&running(), 1, AgentWarningKind::Disk, "the disk is nearly full").unwrap()), @"Curfew passes on a warning from the agent of job llama-1a2b3c4d of team vision at 2026-09-01 13:00 UTC");
    let kept = interrupted().job(|job| job.machine_hold = Some(MachineHold::Protected));
    assert_snapshot!(shown(kept), @"Curfew may not end the lost machine of job llama-1a2b3c4d of team vision at 2026-09-01 13:00 UTC: $1.00/h");
}

fn again(given: JobInput) -> JobInput {
    given.warned("i-1").next().launched("i-2", HOUR).next()
}

#[test]
fn there_is_nothing_to_say_before_anything_has_happened() {
    for given in [submitted(), reserving(), launching(), waiting().at_time(HOUR).next()] {
        assert_eq!(given.job.notification(), None);
    }
}

#[test]
fn a_first_launch_says_what_runs_where_for_how_much_and_until_when() {
    check(
        running(),
        "runs 1",
        Severity::Action,
        "attempt 1 runs on i-1 (g6.xlarge, Spot, us-east-1a) since 2026-09-01T12:00:00Z. It costs $0.40/h now and $1.00/h at \
         most, which is $8.00 until its end at 2026-09-01T20:00:00Z.",
    );
}

#[test]
fn a_launch_after_an_interruption_says_from_which_step_it_resumes() {
    let lost = "its previous machine was taken back by AWS; attempt 2 runs on i-2 (g5.xlarge, Spot, us-east-1b) since \
                2026-09-01T13:00:00Z. It costs $0.50/h now and $2.00/h at most, which is $13.93 until its end at \
                2026-09-01T19:58:00Z; ";
    let says = |given: JobInput, from: &str| check(again(given), "runs 2", Severity::Warning, &format!("{lost}{from}"));
    says(running().checkpoint(1, 300).next(), "it resumes from its newest complete checkpoint, step 300 or later.");
    says(running(), "it resumes from its newest complete checkpoint, if there is one: none is known yet.");
    says(running().job(|job| job.terms.checkpoint = None), "it has no [checkpoint], so it starts at zero.");
}

#[test]
fn an_interruption_is_notified_even_before_the_next_launch_is_answered() {
    check(
        running().warned("i-1").next(),
        "unplaced 1: lost",
        Severity::Warning,
        "its machine was taken back by AWS. It is launched again; it resumes from its newest complete \
         checkpoint, if there is one: none is known yet.",
    );
}

#[test]
fn a_machine_that_was_lost_is_only_replaced_within_the_limits_of_the_job() {
    let given = running().at_time(7 * HOUR + 50 * MINUTE).warned("i-1").next();
    assert!(
        given.job.notification().unwrap().notification.text.contains("It is launched again, if its limits allow; ")
    );
}

#[test]
fn the_notification_of_a_termination_names_the_lost_work() {
    check(
        interrupted(),
        "interrupted 1",
        Severity::Warning,
        "i-1, the machine of attempt 1, stopped sending heartbeats for 10 minutes. It is terminated, and once it is gone \
         another one is launched; it resumes from its newest complete checkpoint, if there is one: none is known yet.",
    );
    let loses = |given: JobInput| given.job.notification().unwrap().notification.loses;
    let with = Some("what i-1 wrote to its own disks since its newest complete checkpoint".to_owned());
    assert_eq!(loses(interrupted()), with);
    assert_eq!(loses(ended(JobResult::Cancelled)), with);
    let without = interrupted().job(|job| job.terms.checkpoint = None);
    assert_eq!(loses(without), Some("what i-1 wrote to its own disks".to_owned()));
    for given in [running(), again(running()), waiting(), ended(JobResult::Succeeded)] {
        assert_eq!(loses(given), None);
    }
}

#[test]
fn a_failure_is_notified_with_its_retry() {
    for given in [retrying(), alone(retrying())] {
        check(
            given,
            "retries 1",
            Severity::Warning,
            "attempt 1: the command has failed with exit code 3; retry 1 of 2 at 13:01 UTC; it resumes from its newest complete checkpoint, \
             if there is one: none is known yet.\nIts log: curfew logs vision/llama-1a2b3c4d --attempt 1",
        );
    }
    assert_snapshot!(headline(&retrying().job.notification().unwrap().notification), @"The command of job llama-1a2b3c4d of team vision failed; Curfew retries at 2026-09-01 13:01 UTC");
    let held = retrying().job(|job| job.machine_hold = Some(MachineHold::Protected));
    assert_eq!(held.job.notification().unwrap().fingerprint, "machine-held 1 protected");
}

#[test]
fn a_wait_has_its_begin_and_its_next_try() {
    check(
        waiting(),
        "unplaced 0: waits",
        Severity::Warning,
        "nothing can be launched for it since 2026-09-01T12:00:00Z: no capacity. Curfew retries, and it costs \
         nothing meanwhile; from 2026-09-01T14:00:00Z on it is launched on demand as well.",
    );
    let replaced = waiting().after(MachineSight::Unknown).job(|job| {
        (job.terms.spot, job.lost, job.attempt) = (None, Some(LossReason::HeartbeatStopped), 2);
    });
    check(
        replaced,
        "unplaced 0: waits",
        Severity::Warning,
        "its machine stopped sending heartbeats for 10 minutes; nothing can be launched for it since \
         2026-09-01T12:00:00Z: no capacity. Curfew retries.",
    );
}

#[test]
fn a_hold_says_why_until_when_and_what_to_do() {
    let until =
        "it is not launched: so; Curfew checks again from 2026-09-01T12:05:00Z on, and it costs nothing meanwhile.";
    let says = |by: HoldReason, what: &str| {
        let fingerprint = format!("unplaced 0: held {}", by.as_str());
        check(held(by), &fingerprint, Severity::Warning, &format!("{until} {what}"));
    };
    says(HoldReason::Budget, "Ask for a larger budget, or submit it with a smaller max_usd or max_runtime.");
    says(HoldReason::Quota, "Once the quota is raised, it is launched by itself.");
    says(HoldReason::Unplaceable, "Look at its [gpu], [spot] and [machine]: submit it anew if they ask for too much.");
    says(HoldReason::Role, "It is launched by itself then.");
    check(
        held(HoldReason::Permission),
        "unplaced 0: held permission",
        Severity::Error,
        &format!(
            "{until} Look at the policy of Curfew's role run-jobs, and at what the account's organisation forbids."
        ),
    );
    for (by, what) in [
        (HoldReason::SpotRole, "Once the role exists, the job is launched by itself."),
        (
            HoldReason::InstanceProfile,
            "Create the instance profile, or submit the job with another one. Then it is launched by itself.",
        ),
    ] {
        let fingerprint = format!("unplaced 0: held {}", by.as_str());
        check(held(by), &fingerprint, Severity::Error, &format!("{until} {what}"));
    }
    check(
        held(HoldReason::Observing),
        "unplaced 0: held observing",
        Severity::Info,
        "it is not launched: so, and it costs nothing meanwhile. It is launched once enforce mode is on and a subscription is confirmed.",
    );
}

#[test]
fn an_end_has_the_result_the_cost_and_the_leftovers() {
    let says = |result, severity, word: &str, left: &str| {
        let text = format!(
            "it {word} at 2026-09-01T13:00:00Z: so. 1 attempt took at most 1h10m and cost at most $1.17. {left}\nIts log: curfew \
             logs vision/llama-1a2b3c4d"
        );
        check(ended(result), &format!("ended {word}"), severity, &text);
    };
    let itself = "i-1 shuts itself down now, and is terminated in five minutes if it does not.";
    says(JobResult::Succeeded, Severity::Info, "succeeded", itself);
    says(JobResult::Failed, Severity::Error, "failed", itself);
    says(JobResult::Expired, Severity::Warning, "expired", "i-1 is terminated now.");
    says(JobResult::Cancelled, Severity::Info, "was cancelled", "i-1 is terminated now.");
}

#[test]
fn an_end_after_several_attempts_counts_all_of_them() {
    let expect = "2 attempts took at most 3h12m and cost at most $5.37. i-2 shuts itself down now, and is terminated in five \
                  minutes if it does not. i-1, which it ran on before, is going, and is terminated if it does not.";
    let given = again(running()).at_time(3 * HOUR).facts(|facts| facts.warned = None).result(2, true).next();
    let text = given.job.notification().unwrap().notification.text;
    assert!(text.contains(expect), "{text}");
}

#[test]
fn a_job_that_was_never_launched_cost_nothing() {
    check(
        submitted().cancelled().next(),
        "ended was cancelled",
        Severity::Info,
        "it was cancelled at 2026-09-01T12:00:00Z: cancelled by ada. It was never launched, and cost nothing. It has no machine \
         any more.",
    );
}

#[test]
fn retries_and_figures_cause_no_new_notification() {
    let fingerprint = |given: JobInput| given.job.notification().unwrap().fingerprint;
    let later = waiting().job(|job| {
        job.passes = 40;
        job.phase =
            Phase::Waiting(CapacityWait { until: noon_plus(9 * HOUR), passes: 40, message: "still none".to_owned() });
    });
    assert_eq!(fingerprint(later), fingerprint(waiting()));
    let held_later = held(HoldReason::Budget).job(|job| {
        let why = "$5,001.00 of $5,000.00".to_owned();
        job.phase = Phase::Held(LaunchHold { by: HoldReason::Budget, why, until: noon_plus(9 * HOUR), passes: 7 });
    });
    assert_eq!(fingerprint(held_later), fingerprint(held(HoldReason::Budget)));
    let gone = ended(JobResult::Failed).with_machine(InstanceState::Terminated, None).next();
    assert_eq!(fingerprint(gone.clone()), fingerprint(ended(JobResult::Failed)));
    assert_eq!(fingerprint(gone.answered(EffectResult::Released(true)).next()), fingerprint(ended(JobResult::Failed)));
    let wrote = running().checkpoint(1, 300).next();
    assert_eq!(fingerprint(wrote), fingerprint(running()));
}

/// It was sent.
fn notify(given: JobInput) -> JobInput {
    given.job(|job| {
        job.notified = job.notification().map(|notification| notification.fingerprint).or(job.notified.take());
    })
}

fn is_new(given: &JobInput) -> bool {
    given.job.notification().is_some_and(|notification| given.job.notified != Some(notification.fingerprint))
}

#[test]
fn until_it_has_a_machine_each_kind_is_notified_once() {
    let mut given = notify(running().warned("i-1").next());
    let mut fingerprints = Vec::new();
    let held = |by: HoldReason| held(by).job.phase;
    for _ in 0..20 {
        let phases = [waiting().job.phase, held(HoldReason::Budget), Phase::Submitted, held(HoldReason::Unplaceable)];
        for phase in phases {
            given = given.job(|job| (job.phase, job.passes) = (phase, 5));
            if is_new(&given) {
                fingerprints.push(given.job.notification().unwrap().fingerprint);
            }
            given = notify(given);
        }
    }
    let first = "unplaced 1: lost, waits";
    let third = "unplaced 1: lost, waits, held budget, held unplaceable";
    assert_eq!(fingerprints, [first, "unplaced 1: lost, waits, held budget", third]);
    // With the next machine all that is new again.
    let again = given.job(|job| (job.machines, job.phase) = (2, waiting().job.phase));
    assert!(is_new(&again));
    assert_eq!(again.job.notification().unwrap().fingerprint, "unplaced 2: waits");
}

#[test]
fn an_unanswered_launch_is_notified_once_after_a_while() {
    let unknown = |seconds| {
        launching()
            .at_time(seconds)
            .answered(EffectResult::Launched(LaunchResult::Unknown("timeout".to_owned())))
            .next()
    };
    assert_eq!(unknown(15 * MINUTE - 1).job.notification(), None);
    check(
        unknown(15 * MINUTE),
        "unplaced 0: unanswered",
        Severity::Warning,
        "EC2 has not answered the launch request of 2026-09-01T12:00:00Z. Curfew repeats the same request \
         each minute, so nothing is launched twice; a machine that it may have launched shuts itself down at 2026-09-01T20:00:00Z.",
    );
    assert!(!is_new(&notify(unknown(15 * MINUTE)).at_time(2 * HOUR).next()));
    assert_eq!(unknown(15 * MINUTE).job.awaited(), launching().job.awaited(), "by the same token");
    // The next candidate is another launch.
    assert_eq!(unknown(15 * MINUTE).no_capacity().next().job.notification(), None);
}

#[test]
fn the_end_of_a_job_names_a_machine_that_keeps_running_in_observe_mode() {
    let given = running().cancelled().next();
    let observed = given.job.notification_in(false).unwrap();
    assert!(
        observed.notification.text.contains("i-1 keeps running: Curfew only observes"),
        "{}",
        observed.notification.text
    );
    assert_eq!(observed.notification.loses, None);
    let enforced = given.job.notification_in(true).unwrap();
    assert!(enforced.notification.text.contains("i-1 is terminated now") && enforced.notification.loses.is_some());
    assert_ne!(observed.fingerprint, enforced.fingerprint);
}

fn trouble(given: &JobInput, attempt: u32, kind: AgentWarningKind, words: &str) -> Option<Notification> {
    given.job.notify_agent_warning(attempt, &AgentWarning::new(kind, words), None, &Region::new("us-east-1"))
}

#[test]
fn an_agents_finding_is_a_warning_of_its_attempt() {
    let notification = trouble(&running(), 1, AgentWarningKind::Disk, "the disk is nearly full.").unwrap();
    assert_eq!(
        (notification.team.as_str(), notification.severity, notification.resource),
        ("vision", Severity::Warning, None)
    );
    assert_eq!(
        &*notification.text,
        "vision/llama-1a2b3c4d (owner \"ada\"): attempt 1 says: the disk is nearly full.\nIts log: curfew logs \
         vision/llama-1a2b3c4d --attempt 1"
    );
}

#[test]
fn a_message_does_not_repeat_the_end_of_the_job() {
    let torn = "the checkpoint of step 7 is not kept: it carries no marker, and may be cut off";
    let over = ended(JobResult::Failed).job(|job| {
        let Phase::Ended(ended) = &mut job.phase else { unreachable!() };
        ended.why = format!("the command has failed with exit code 1; {torn}");
    });
    assert_eq!(trouble(&over, 1, AgentWarningKind::NotKept, torn), None);
    assert!(trouble(&over, 1, AgentWarningKind::NotKept, "the checkpoint of step 8 is not kept").is_some());
    assert!(trouble(&running(), 1, AgentWarningKind::NotKept, torn).is_some());
    let long = torn.repeat(20);
    let over = over.job(|job| {
        let Phase::Ended(ended) = &mut job.phase else { unreachable!() };
        ended.why.clone_from(&long);
    });
    assert_eq!(trouble(&over, 1, AgentWarningKind::NotKept, &long), None, "nor what is cut off to fit");
}

/// Whether the second is sent so many seconds after the first.
#[track_caller]
fn check_delay(first: &Notification, second: &Notification, seconds: i64, expect: bool) {
    let NotificationKind::State { topic, what, .. } = &first.kind else { panic!("{first:?}") };
    let gaps = [(topic.clone(), NotificationEntry { at: noon_plus(0), what: what.clone() })].into();
    let memory =
        NotificationLogs::from([(first.region.clone(), NotificationLog { gaps, ..NotificationLog::default() })]);
    assert_eq!(!without_known(vec![second.clone()], &memory, noon_plus(seconds)).is_empty(), expect, "{second:?}");
}

#[test]
fn a_warning_is_sent_once_a_day_with_any_figures_and_damage_once_an_attempt() {
    let warning = |attempt, kind, words| trouble(&running(), attempt, kind, words).unwrap();
    let (some, less) =
        (warning(1, AgentWarningKind::Disk, "90 MiB are left"), warning(2, AgentWarningKind::Disk, "80 MiB are left"));
    check_delay(&some, &some, 60, false);
    check_delay(&some, &less, 60, false);
    check_delay(&some, &less, 24 * HOUR, true);
    check_delay(&some, &warning(1, AgentWarningKind::TooLarge, "90 MiB are left"), 60, true);
    let (first, next) =
        (warning(1, AgentWarningKind::Damaged, "step 15"), warning(2, AgentWarningKind::Damaged, "step 10"));
    check_delay(&first, &first, 60, false);
    check_delay(&first, &next, 60, true);
    let other = running().job(|job| job.job = JobId::read("vision/bert-5e6f7a8b").unwrap());
    check_delay(&some, &trouble(&other, 1, AgentWarningKind::Disk, "90 MiB are left").unwrap(), 60, true);
}
