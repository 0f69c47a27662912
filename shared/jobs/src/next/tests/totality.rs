//! Any state, whatever is known, at any time: there is always an answer, and it is the same one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::instance::InstanceState;
use model::money::{Amount, Rate};
use model::rule::Rule;
use proptest::prelude::*;
use proptest::sample::select;

use super::fixture::*;
use super::retry::{alone, retrying};
use crate::node_gang::GangReport;
use crate::takeover::{FoundMachine, NewerMachines, Takeover};
use crate::*;

fn any_state() -> impl Strategy<Value = Job> {
    let states = vec![
        submitted().job,
        reserving().job,
        launching().job,
        running().job,
        interrupted().job,
        waiting().job,
        retrying().job,
        alone(retrying()).job,
        held(HoldReason::Observing).job,
        held(HoldReason::Quota).job,
        ended(JobResult::Failed).job,
        running().after(MachineSight::Unknown).job,
    ];
    let seconds = || select(vec![i64::MIN, -1, 0, 899, 900, 8 * HOUR, i64::MAX]);
    let usd = || select(vec![0, 1, 1_000_000, u64::MAX]);
    let counts = || select(vec![0, 1, u32::MAX]);
    (select(states), (seconds(), seconds(), usd(), usd()), (counts(), counts(), counts()), any::<[bool; 4]>()).prop_map(
        |(mut job, (max, used, max_usd, rate_max), (attempt, passes, without), [ranked, reserved, dear, is_box])| {
            job.terms.max_runtime_seconds = max;
            job.terms.max_usd = Some(Amount::from_usd_micros(max_usd));
            job.used.seconds = used;
            (job.attempt, job.machines, job.passes) = (attempt, attempt, passes);
            job.progress.attempts_without = without;
            job.ranking = job.ranking.filter(|_| ranked);
            job.reserved = job.reserved.filter(|_| reserved);
            for candidate in job.ranking.iter_mut().flat_map(|ranking| &mut ranking.candidates).filter(|_| dear) {
                candidate.rate_max = Rate::from_usd_micros_per_hour(rate_max);
            }
            if is_box { super::boxes::of(job) } else { job }
        },
    )
}

fn any_sight() -> impl Strategy<Value = MachineSight> {
    let states = [
        InstanceState::Pending,
        InstanceState::Running,
        InstanceState::Stopping,
        InstanceState::Stopped,
        InstanceState::ShuttingDown,
        InstanceState::Terminated,
    ];
    let reasons = [
        None,
        Some("Server.SpotInstanceTermination"),
        Some("Client.UserInitiatedShutdown"),
        Some("Client.InstanceInitiatedShutdown"),
        Some(""),
    ];
    let seen = (select(states.to_vec()), select(reasons.to_vec()));
    let seen = seen.prop_map(|(state, reason)| MachineSight::Seen { state, reason: reason.map(str::to_owned) });
    prop_oneof![Just(MachineSight::Unknown), Just(MachineSight::Absent), seen]
}

fn any_moment() -> impl Strategy<Value = Timestamp> {
    select(vec![
        Timestamp::MIN,
        noon_plus(-HOUR),
        noon_plus(0),
        noon_plus(HOUR),
        noon_plus(8 * HOUR),
        noon_plus(9 * HOUR),
        noon_plus(31 * 24 * HOUR),
        Timestamp::MAX,
    ])
}

fn any_answer() -> impl Strategy<Value = Option<EffectResult>> {
    let launched = |seconds| LaunchResult::Launched {
        instance: "i-1".into(),
        members: Vec::new(),
        launched_at: noon_plus(seconds),
    };
    let quota = || LaunchResult::Quota("so".to_owned(), Some(QuotaCode("L-SPOT".to_owned())));
    select(vec![
        None,
        Some(EffectResult::Ranked(Ok(ranking(noon_plus(0))))),
        Some(EffectResult::Ranked(Err(LaunchObstacle::new("so")))),
        Some(EffectResult::Reserved(ReserveResult::Granted)),
        Some(EffectResult::Reserved(ReserveResult::Refused("so".to_owned()))),
        Some(EffectResult::Reserved(ReserveResult::Overtaken)),
        Some(EffectResult::Launched(launched(0))),
        Some(EffectResult::Launched(launched(9 * HOUR))),
        Some(EffectResult::Launched(LaunchResult::NoCapacity("so".to_owned()))),
        Some(EffectResult::Launched(quota())),
        Some(EffectResult::Launched(LaunchResult::Refused("so".to_owned()))),
        Some(EffectResult::Launched(LaunchResult::RefusedRequest("so".to_owned()))),
        Some(EffectResult::Launched(LaunchResult::NoProfile("so".to_owned()))),
        Some(EffectResult::NoRole("so".to_owned())),
        Some(EffectResult::NotAllowed("so".to_owned())),
        Some(EffectResult::Launched(LaunchResult::NotAllowed("so".to_owned()))),
        Some(EffectResult::Launched(LaunchResult::Denied("so".to_owned()))),
        Some(EffectResult::Launched(LaunchResult::Mismatch("so".to_owned()))),
        Some(EffectResult::Terminated),
        Some(EffectResult::Released(true)),
    ])
}

/// The state judges what is found, so a machine is of the attempt that follows.
fn any_takeover() -> impl Strategy<Value = (Option<Takeover>, NewerMachines)> {
    let takeover = any_moment().prop_map(|since| Takeover { term: 2, since, region_before: None });
    let newer = |moment| {
        let found =
            FoundMachine { launched_at: moment, expires_at: Some(moment), ..super::takeover::found("i-7", u32::MAX) };
        let strange = FoundMachine { instance_type: "p5.48xlarge".into(), ..found.clone() };
        let unproven = NewerMachines::Unproven(vec!["i-7".into()]);
        let all = [NewerMachines::Launched(Box::new(found)), NewerMachines::Launched(Box::new(strange)), unproven];
        select([vec![NewerMachines::Unknown, NewerMachines::None], all.to_vec()].concat())
    };
    (proptest::option::of(takeover), any_moment().prop_flat_map(newer))
}

fn any_facts() -> impl Strategy<Value = JobFacts> {
    let head = running().checkpoint(1, 300).facts.head;
    let result = |succeeded| running().result(1, succeeded).facts.head;
    let heads = select(vec![None, Some(None), head, result(true), result(false)]);
    let beat = proptest::option::of(proptest::option::of(any_moment()));
    let exits = [None, Some(ExitReason::Succeeded), Some(ExitReason::Interrupted), Some(ExitReason::Expired)];
    let exits = select(exits.map(|reason| running().exit(reason).facts.exit).to_vec());
    let cancel = select(vec![None, Some(None), running().cancelled().facts.cancel]);
    let warned = proptest::option::of(select(vec!["i-1", "i-9"]));
    let reaped = select(vec![None, Some(Rule::Expired), Some(Rule::Untagged)]);
    let hold = select(vec![None, Some(MachineHold::Protected), Some(MachineHold::Observing)]);
    let seen = (any_sight(), any_sight(), reaped, hold);
    let holder = || boxes::BoxHolder { job: submitted().job.job, since: noon_plus(0) };
    let gpu_box = select(vec![
        None,
        Some(boxes::BoxFacts::Held { home: None, wait: None }),
        Some(boxes::BoxFacts::HeldBy(holder())),
        Some(boxes::BoxFacts::Elsewhere("eu-west-1".into())),
        Some(super::boxes::too_many()),
        Some(boxes::BoxFacts::Free),
    ]);
    let extend = proptest::option::of(proptest::option::of(any_moment()));
    ((any::<bool>(), warned, gpu_box, extend, any_takeover()), seen, heads, beat, exits, cancel, any_answer()).prop_map(
        |(
            (may_act, warned, gpu_box, extend, (takeover, newer)),
            (machine, previous_attempt, reaped, machine_hold),
            head,
            heartbeat,
            exit,
            cancel,
            answer,
        )| {
            JobFacts {
                may_act,
                no_progress_attempts_max: 3,
                warned: warned.map(Into::into),
                gang: None,
                gang_report: heartbeat.flatten().map(|at| GangReport {
                    saves_until: Some(at),
                    lost: Some((3, at)),
                    ..GangReport::default()
                }),
                machine,
                machine_hold,
                reaped,
                previous_attempt,
                head,
                heartbeat,
                command_runs: heartbeat.flatten().is_some(),
                exit,
                cancel,
                dependencies: BTreeMap::new(),
                earlier_members: None,
                gpu_box,
                box_in_use_at: heartbeat.flatten(),
                box_synced_at: heartbeat.flatten(),
                extend: extend
                    .map(|until| until.map(|until| boxes::ExtendRequest { at: noon_plus(HOUR), until, by: None })),
                takeover,
                newer,
                answer,
            }
        },
    )
}

fn answered(effect: &Effect) -> bool {
    !matches!(effect, Effect::Settle(_) | Effect::Forget | Effect::Record(_))
}

proptest! {
    #[test]
    fn there_is_always_an_answer(job in any_state(), facts in any_facts(), now in any_moment()) {
        let (after, effects) = next(&job, &facts, now);
        prop_assert_eq!(next(&job, &facts, now), (after.clone(), effects.clone()));
        prop_assert!(effects.iter().filter(|effect| answered(effect)).count() <= 1, "{:?}", effects);
        prop_assert!(after.attempt >= job.attempt && after.machines >= job.machines);
        prop_assert!(after.used.usd >= job.used.usd && after.used.seconds >= job.used.seconds);
        let acts = |effect: &Effect| answered(effect) && !matches!(effect, Effect::Release(_));
        prop_assert!(facts.may_act || !effects.iter().any(acts), "{:?}", effects);
        let _ = (needed_facts(&after, false, now), needed_facts(&after, true, now), after.notification());
    }

    /// What an ended job was, it stays.
    #[test]
    fn no_end_is_taken_back(facts in any_facts(), now in any_moment()) {
        for result in [JobResult::Succeeded, JobResult::Failed, JobResult::Expired, JobResult::Cancelled] {
            let (after, _) = next(&ended(result).job, &facts, now);
            let Phase::Ended(ended) = after.phase else { panic!("{:?}", after.phase) };
            prop_assert_eq!(ended.result, result);
        }
    }

    /// Of a launch that is open, nothing but its own answer says what came of it.
    #[test]
    fn an_open_launch_is_only_resolved_by_its_answer(facts in any_facts(), now in any_moment()) {
        let facts = JobFacts { takeover: None, ..facts };
        let given = launching();
        let (after, effects) = next(&given.job, &facts, now);
        if !matches!(facts.answer, Some(EffectResult::Launched(_))) {
            prop_assert_eq!(&after.phase, &given.job.phase);
            prop_assert!(effects.iter().all(|effect| matches!(effect, Effect::Launch(_))), "{:?}", effects);
        }
    }
}
