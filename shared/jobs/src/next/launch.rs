//! Launches a machine: one candidate after the other, each with its own token, and none before the previous one is resolved.

mod placed;

use jiff::{SignedDuration, Timestamp};

use super::limits::{TimeLeft, after};
use super::no_capacity::{pause, wait};
use super::place::{HELD_FOR, RANKING_IS_OLD_AFTER, TEAM_ROLE_HELD_FOR, again, ask_for_money, covers, hold};
use super::{ABSENT_AFTER, JobDecision, deadline, groups, note, over, run, spot_return};
use crate::{
    ATTEMPT_MIN, Candidate, Capacity, Effect, EffectResult, HoldReason, Job, JobFacts, JobMachine, JobResult,
    LaunchInProgress, LaunchRequest, LaunchResult, Lifecycle, LossReason, Phase, RefusedCandidates, TransitionKind,
    UsedUpQuota, launch_token, placement_group_name,
};

/// Longest time for which the previous machine may hold the quota's vCPUs.
pub(super) const PREVIOUS_MACHINE_GONE_IN: SignedDuration = SignedDuration::from_mins(1);

/// Time after which a quota is looked at again: a person has to raise it.
pub(super) const QUOTA_HELD_FOR: SignedDuration = SignedDuration::from_mins(15);

/// Time after which a missing permission is looked at again: it may be on its way, or be taken away for a while on purpose.
const PERMISSION_HELD_FOR: SignedDuration = SignedDuration::from_mins(15);

/// Time after which a missing service-linked role or instance profile is looked for again: a person has to create it.
const ROLE_HELD_FOR: SignedDuration = SignedDuration::from_mins(15);

/// Longest time for which EC2 may not know a new instance profile: mostly seconds, minutes at worst (IAM user guide, "Changes that I make
/// are not always immediately visible").
const PROFILE_APPEARS_IN: SignedDuration = SignedDuration::from_mins(5);

/// Time after which an image is read again if one of its snapshots is gone: a person, or its publisher, has to name another one.
const SNAPSHOT_HELD_FOR: SignedDuration = SignedDuration::from_mins(15);

/// Age from which on the owner of a job is notified of a launch without an answer.
const NOTIFY_UNANSWERED_LAUNCH_AFTER: SignedDuration = SignedDuration::from_mins(15);

/// EC2 forgets a token a day after its instance has ended (EC2 API reference, "Ensuring idempotency"), and would launch by it once more.
/// Half of that is left for clocks that differ, and for an instance that ended as soon as it was launched.
const TOKEN_IS_OLD_AFTER: SignedDuration = SignedDuration::from_hours(12);

/// The first try of a pass.
pub(super) fn first(mut job: Job, candidate: u8, ends_at: Timestamp, avoid: Option<u8>, now: Timestamp) -> JobDecision {
    if job.passes == 0 {
        job.attempt = job.attempt.saturating_add(1);
    }
    job.passes = job.passes.saturating_add(1);
    let (pass, refused) = (job.passes, RefusedCandidates::default());
    let (quotas, replaces) = (Vec::new(), None);
    let launching =
        LaunchInProgress { candidate, pass, at: now, ends_at, quotas, avoid, unanswered: false, refused, replaces };
    ask(job, launching)
}

/// If two reconcilers request one candidate, EC2 may refuse the one for capacity and accept the other a moment later: a machine of this attempt
/// that no state names. The fence tells launches of one attempt apart, [`Head::admits`](crate::Head::admits).
pub(super) fn ask(mut job: Job, launching: LaunchInProgress) -> JobDecision {
    groups::name_placement_group(&mut job, launching.candidate);
    let launch = launch(&job, &launching, launching.at).map(Effect::Launch);
    job.phase = Phase::Launching(launching);
    (job, launch.into_iter().collect())
}

/// Builds the request from the state alone: the same state asks for the same, by the same token. By an old token, or with too little time
/// left for an attempt, it asks only for what was launched by it.
fn launch(job: &Job, launching: &LaunchInProgress, now: Timestamp) -> Option<LaunchRequest> {
    let ranking = job.ranking.as_ref()?;
    let candidate = ranking.candidates.get(usize::from(launching.candidate))?.clone();
    let image = ranking.images.get(usize::from(candidate.image))?.clone();
    let is_old = now.duration_since(launching.at) >= TOKEN_IS_OLD_AFTER;
    let only_find = is_old || now != launching.at && launching.ends_at.duration_since(now) < ATTEMPT_MIN;
    let is_clustered = candidate.network.as_ref().is_some_and(|network| network.is_clustered);
    Some(LaunchRequest {
        placement_group: is_clustered.then(|| placement_group_name(&job.job, job.attempt)),
        attempt: job.attempt,
        retry_of: job.retries.attempt,
        token: launch_token(&job.job, job.attempt, launching.pass, launching.candidate),
        candidate,
        image,
        ends_at: launching.ends_at,
        only_find,
    })
}

/// A launch was decided. Whatever has happened meanwhile, and however long ago that was, it is resolved first: while EC2 surely knows the
/// token, by asking again; later by looking for what was launched by it. What is launched past its end powers off as it boots.
pub(super) fn go_on(job: Job, launching: LaunchInProgress, facts: &JobFacts, now: Timestamp) -> JobDecision {
    let Some(launch) = launch(&job, &launching, now) else { return again(job, facts, now) };
    let Some(EffectResult::Launched(answer)) = &facts.answer else {
        // What EC2 showed of an incomplete gang is terminated; the next run asks for the rest.
        if facts.answer == Some(EffectResult::Terminated) {
            return (job, Vec::new());
        }
        return (job, facts.may_act.then_some(Effect::Launch(launch)).into_iter().collect());
    };
    let is_young = now.duration_since(launching.at) < ABSENT_AFTER;
    match answer {
        LaunchResult::Unknown(_) => (await_answer(job, launching, now), Vec::new()),
        LaunchResult::Incomplete(left) => placed::incomplete(job, launching, launch.candidate, left, facts, now),
        // EC2 may not show yet what was launched a moment ago.
        LaunchResult::Mismatch(_) if is_young => (job, Vec::new()),
        LaunchResult::NoCapacity(_) if is_young && launch.only_find => (job, Vec::new()),
        LaunchResult::Launched { instance, members, launched_at } => {
            let instances = (instance.clone(), members.clone());
            let efa = launch.candidate.network.as_ref().and_then(|network| network.efa.clone());
            let placed = placed::place_machine(&job, &launching, launch.candidate, instances, *launched_at);
            let left = launching.replaces.map(|machine| *machine);
            launched(job, placed, efa, left, facts, now)
        }
        refusal if let Some(machine) = launching.replaces.clone() => {
            spot_return::try_next(job, launching, refusal, *machine, facts, now)
        }
        LaunchResult::Refused(message) => refused(job, launching, message, facts, now),
        LaunchResult::RefusedRequest(message) => {
            let refused = |job| over::end(job, JobResult::Failed, message.clone(), facts, now);
            over::conclude(&job, facts, now).unwrap_or_else(|| refused(job))
        }
        // It may be made any moment, or EC2 not know of it yet.
        LaunchResult::NoProfile(message) => {
            hold_unless_over(job, HoldReason::Role, TEAM_ROLE_HELD_FOR, message, facts, now)
        }
        LaunchResult::NotAllowed(message) => {
            hold_unless_over(job, HoldReason::NotAllowed, HELD_FOR, message, facts, now)
        }
        LaunchResult::Denied(message) => denied(job, &launching, message, facts, now),
        LaunchResult::SpotRoleMissing(message) => {
            hold_unless_over(job, HoldReason::SpotRole, ROLE_HELD_FOR, message, facts, now)
        }
        LaunchResult::ProfileUnknown(message) => profile_unknown(job, &launching, message, facts, now),
        LaunchResult::NoCapacity(message) | LaunchResult::Mismatch(message) => {
            next_candidate(job, launching, message, facts, now)
        }
        LaunchResult::Quota(message, quota) => {
            let (mut job, mut launching, candidate) = (job, launching, launch.candidate);
            if let (Some(ranking), Some(quota)) = (&mut job.ranking, quota) {
                ranking.correct_quota(&candidate, quota);
            }
            let used_up = quota.clone().or(candidate.quota).map(|code| UsedUpQuota { region: candidate.region, code });
            launching.quotas.extend(used_up.filter(|quota| !launching.quotas.contains(quota)));
            next_candidate(job, launching, message, facts, now)
        }
    }
}

/// EC2 refuses this candidate for good: the next one is asked for. An old ranking may name what is not there any more, an image or a
/// subnet; a new one is believed.
fn refused(job: Job, mut launching: LaunchInProgress, message: &str, facts: &JobFacts, now: Timestamp) -> JobDecision {
    if let Some(concluded) = over::conclude(&job, facts, now) {
        return concluded;
    }
    let is_old = job.ranking.as_ref().is_none_or(|ranking| now.duration_since(ranking.at) >= RANKING_IS_OLD_AFTER);
    if is_old {
        return again(job, facts, now);
    }
    launching.refused.add(launching.candidate, message);
    next_candidate(job, launching, message, facts, now)
}

/// Returns the reason for the job's end, if EC2 has refused for good every candidate for which there is time and money.
fn all_refused(job: &Job, refused: &RefusedCandidates, now: Timestamp) -> Option<String> {
    let candidates = job.ranking.iter().flat_map(|ranking| &ranking.candidates);
    let is_out = |(number, one): (u8, &Candidate)| {
        refused.candidates.contains(&number) || TimeLeft::on_machine(job, one.cost_max(), now).is_over()
    };
    let reasons = refused.reasons.iter().map(|reason| reason.trim_end_matches('.')).collect::<Vec<_>>().join("; ");
    let all = !refused.candidates.is_empty() && (0_u8..=u8::MAX).zip(candidates).all(is_out);
    all.then(|| match refused.candidates.len() {
        1 => reasons,
        many => format!("EC2 refuses each of the {many} candidates: {reasons}"),
    })
}

/// The instance profile may have been created a moment ago: for a while each run asks again by the same token.
fn profile_unknown(
    job: Job,
    launching: &LaunchInProgress,
    message: &str,
    facts: &JobFacts,
    now: Timestamp,
) -> JobDecision {
    let may_appear = now.duration_since(launching.at) < PROFILE_APPEARS_IN;
    if may_appear && over::conclude(&job, facts, now).is_none() {
        return (job, Vec::new());
    }
    hold_unless_over(job, HoldReason::InstanceProfile, ROLE_HELD_FOR, message, facts, now)
}

/// No other pool would be launched either: a person has to create what is missing, or to allow it, and then the job is launched.
fn hold_unless_over(
    job: Job,
    by: HoldReason,
    held_for: SignedDuration,
    message: &str,
    facts: &JobFacts,
    now: Timestamp,
) -> JobDecision {
    if let Some(concluded) = over::conclude(&job, facts, now) {
        return concluded;
    }
    hold(job, by, message.to_owned(), after(now, held_for))
}

/// A permission is missing. If it was there before, a person removed it, for good or to stop everything; after a change of the mode it may arrive
/// later than the mode. Neither may fail all jobs. A job that never had a machine fails at once.
fn denied(job: Job, launching: &LaunchInProgress, message: &str, facts: &JobFacts, now: Timestamp) -> JobDecision {
    if let Some(concluded) = over::conclude(&job, facts, now) {
        return concluded;
    }
    // Another candidate was asked for before, and was not refused by permission.
    let was_answered = launching.pass > 1 || launching.candidate > 0;
    if job.machines > 0 || job.was_observed || was_answered {
        return hold(job, HoldReason::Permission, message.to_owned(), after(now, PERMISSION_HELD_FOR));
    }
    over::end(job, JobResult::Failed, message.to_owned(), facts, now)
}

/// EC2 accepted the launch, and ended the machine before its first heartbeat: that counts like a refused launch in
/// these words (EC2 API reference, "`StateReason`"; EC2 user guide, "Troubleshoot Amazon EC2 instance launch issues").
pub(super) fn ended(job: Job, machine: &JobMachine, lost: LossReason, is_at_hand: bool, now: Timestamp) -> JobDecision {
    let why = format!("{} {}", machine.instance, lost.describe());
    match lost {
        // The volumes of the previous machine may still count.
        LossReason::StorageUsedUp if job.previous_attempt.is_some() && job.launches_without_heartbeat == 1 => {
            pause(job, PREVIOUS_MACHINE_GONE_IN, why, now)
        }
        LossReason::StorageUsedUp => hold(job, HoldReason::Quota, why, after(now, QUOTA_HELD_FOR)),
        LossReason::KeyRefused => hold(job, HoldReason::Permission, why, after(now, PERMISSION_HELD_FOR)),
        LossReason::NoSnapshot => hold(job, HoldReason::Unplaceable, why, after(now, SNAPSHOT_HELD_FOR)),
        _ => {
            let job = deadline::decide(job, true, now);
            match choose(&job, Some(machine.candidate), &[], None, now) {
                Ok((candidate, ends_at)) if is_at_hand => first(job, candidate, ends_at, None, now),
                _ => {
                    let why = describe_launches_without_heartbeat(&job).unwrap_or(why);
                    wait(job, &[], &why, now)
                }
            }
        }
    }
}

/// Describes the last machines of the job that EC2 ended before their first heartbeat.
pub(super) fn describe_launches_without_heartbeat(job: &Job) -> Option<String> {
    let how = job.lost.filter(|_| job.launches_without_heartbeat > 0)?.describe();
    Some(match job.launches_without_heartbeat {
        1 => format!("its last machine sent no heartbeat: it {how}"),
        many => format!("its last {many} machines sent no heartbeat: the last one {how}"),
    })
}

/// Leaves the launch to the next run, which asks for it again. If it has no answer for long, its owner is notified.
fn await_answer(mut job: Job, launching: LaunchInProgress, now: Timestamp) -> Job {
    let unanswered = launching.unanswered || now.duration_since(launching.at) >= NOTIFY_UNANSWERED_LAUNCH_AFTER;
    job.phase = Phase::Launching(LaunchInProgress { unanswered, ..launching });
    job
}

/// There it is; it ends with the job, and may have been warned already. `more`: what else people should know of it.
pub(super) fn launched(
    mut job: Job,
    placed: JobMachine,
    more: Option<String>,
    left: Option<JobMachine>,
    facts: &JobFacts,
    now: Timestamp,
) -> JobDecision {
    let left = left.map(|machine| JobMachine { ends_at: machine.ends_at.min(now), ..machine });
    if let Some(machine) = &left {
        job = spot_return::leave(&job, machine, now);
    }
    let why = format!(
        "{} {} in {}, at most {} until {}{}",
        if job.machines > 0 { "launched again:" } else { "launched:" },
        placed.name_type(),
        placed.zone,
        placed.show_cost_max(),
        placed.ends_at,
        more.map(|more| format!("; {more}")).unwrap_or_default()
    );
    let noted = note(&job, TransitionKind::Launched(placed.instance.clone()), why);
    let settle = Effect::Settle(placed.instances().cloned().collect());
    // After machines without a heartbeat another launch is no success yet.
    job.unplaced_since = job.unplaced_since.filter(|_| job.launches_without_heartbeat > 0);
    job.machines = job.machines.saturating_add(1);
    job.last_machine = Some(placed.clone());
    job.passes = 0;
    if let Some(deadline) = &mut job.deadline {
        match placed.lifecycle {
            Lifecycle::Spot => deadline.spot.observe(true, now),
            Lifecycle::OnDemand => deadline.on_demand_refused = false,
        }
    }
    job.phase = Phase::Running(placed.clone());
    let (job, effects) = if let Some(concluded) = over::conclude(&job, facts, now) {
        concluded
    } else if let Some(machine) = left {
        let lost = TransitionKind::Lost(machine.instance.clone(), LossReason::ReturnedToSpot);
        let lost = note(&job, lost, format!("{} {}", machine.instance, LossReason::ReturnedToSpot.describe()));
        (job, vec![lost, Effect::Terminate(machine)])
    } else if facts.warned.as_ref().is_some_and(|warned| placed.has(warned)) {
        run::warned(job, &placed, facts, now)
    } else {
        (job, Vec::new())
    };
    (job, std::iter::once(noted).chain(effects).chain(std::iter::once(settle)).collect())
}

/// Tries the next candidate of the pass after a refused launch, or ends the pass if none is left.
fn next_candidate(
    mut job: Job,
    launching: LaunchInProgress,
    message: &str,
    facts: &JobFacts,
    now: Timestamp,
) -> JobDecision {
    let candidate = job.ranking.iter().flat_map(|ranking| &ranking.candidates).nth(usize::from(launching.candidate));
    let is_on_demand = candidate.is_some_and(|candidate| candidate.lifecycle == Lifecycle::OnDemand);
    if let Some(deadline) = job.deadline.as_mut().filter(|_| is_on_demand) {
        deadline.on_demand_refused = true;
    }
    if let Some(concluded) = over::conclude(&job, facts, now) {
        return concluded;
    }
    match choose(&job, Some(launching.candidate), &launching.quotas, launching.avoid, now) {
        Ok(_) if !facts.may_act => again(job, facts, now),
        Ok((candidate, ends_at)) if covers(&job, now) => {
            ask(job, LaunchInProgress { candidate, at: now, ends_at, unanswered: false, ..launching })
        }
        Ok(_) => ask_for_money(job, now),
        Err(_) => match all_refused(&job, &launching.refused, now) {
            Some(why) => over::end(job, JobResult::Failed, why, facts, now),
            None if deadline::decided(&job) == Some(Capacity::Spot) => {
                without_spot(job, launching, message, facts, now)
            }
            None => wait(job, &launching.quotas, message, now),
        },
    }
}

/// EC2 refused every Spot candidate: the deadline decides whether the job waits or tries on-demand.
fn without_spot(
    mut job: Job,
    launching: LaunchInProgress,
    message: &str,
    facts: &JobFacts,
    now: Timestamp,
) -> JobDecision {
    if let Some(deadline) = &mut job.deadline {
        deadline.spot.observe(false, now);
    }
    let job = deadline::decide(job, false, now);
    if deadline::decided(&job) != Some(Capacity::OnDemand) {
        return wait(job, &launching.quotas, message, now);
    }
    match choose(&job, None, &launching.quotas, None, now) {
        Ok(_) if !facts.may_act => again(job, facts, now),
        Ok((candidate, ends_at)) if covers(&job, now) => {
            let (job, _) = first(job, candidate, ends_at, None, now);
            let Phase::Launching(begun) = &job.phase else { return again(job, facts, now) };
            let begun = LaunchInProgress { quotas: launching.quotas, refused: launching.refused, ..begun.clone() };
            ask(job, begun)
        }
        Ok(_) => ask_for_money(job, now),
        Err(_) => wait(job, &launching.quotas, message, now),
    }
}

/// The candidate that is tried after that one, and the end that an attempt there has: best first, the one to avoid last, none that a
/// quota has refused, none for which there is not enough time or money. Where there is none, the limit by which, if it was by one.
pub(super) fn choose(
    job: &Job,
    tried: Option<u8>,
    quotas: &[UsedUpQuota],
    avoid: Option<u8>,
    now: Timestamp,
) -> Result<(u8, Timestamp), Option<TimeLeft>> {
    let candidates = job.ranking.iter().flat_map(|ranking| &ranking.candidates);
    let numbered = (0_u8..=u8::MAX).zip(candidates);
    let (last, others): (Vec<_>, Vec<_>) = numbered.partition(|(number, _)| Some(*number) == avoid);
    let mut order: Vec<_> = others.into_iter().chain(last).collect();
    match deadline::decided(job) {
        Some(Capacity::Spot) => order.retain(|(_, candidate)| candidate.lifecycle == Lifecycle::Spot),
        // Spot after that is better than nothing.
        Some(Capacity::OnDemand) => order.sort_by_key(|(_, candidate)| candidate.lifecycle == Lifecycle::Spot),
        Some(Capacity::None) | None => {}
    }
    let tried = tried.and_then(|tried| order.iter().position(|(number, _)| *number == tried));
    let mut over: Option<TimeLeft> = None;
    for (number, candidate) in order.into_iter().skip(tried.map_or(0, |place| place + 1)) {
        if quotas.iter().any(|quota| quota.counts(candidate)) {
            continue;
        }
        let left = TimeLeft::on_machine(job, candidate.cost_max(), now);
        if !left.is_over() {
            return Ok((number, left.end(now)));
        }
        over = over.filter(|most| most.seconds >= left.seconds).or(Some(left));
    }
    Err(over)
}
