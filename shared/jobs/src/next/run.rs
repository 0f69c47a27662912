//! While a job has a machine, and when that is lost.

use jiff::{SignedDuration, Timestamp};
use model::curfew_tags::EXPIRES_AT;
use model::instance::InstanceState;
use model::moment::before;
use model::rule::Rule;

use super::limits::{TimeLeft, after, latest_end, use_up};
use super::loss::{describe_loss, describe_lost_node, name_gone};
use super::place::{self, RANKING_IS_OLD_AFTER};
use super::{ABSENT_AFTER, JobDecision, boxes, deadline, is_going, launch, note, over, spot_return, stay};
use crate::facts::BY_HAND;
use crate::transfer::CostMax;
use crate::{
    AGENT_ENDS_BEFORE, Candidate, EXPIRES_AFTER, Effect, ExitReason, FIRST_HEARTBEAT_AFTER, HEARTBEAT_TIMEOUT, Job,
    JobFacts, JobMachine, JobResult, Lifecycle, LossReason, MachineHold, MachineReplacement, MachineSight, Phase,
    TransitionKind, WARNING,
};

/// A machine that runs this long after its absolute end has survived two of its three timers.
const OVERDUE_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// Explanation for a machine that Curfew ends by its tag, earlier than it had written there.
const MOVED: &str = "that is earlier than at its launch, so a person has changed the tag";

/// Longest time from the loss of one machine of a gang to the termination of the others: they are told in seconds, save for 150 seconds, and close for
/// 10. Where they have said that nothing is saved, it is shorter.
const GANG_SAVES_IN: SignedDuration = SignedDuration::from_mins(3);

/// Clocks differ: what ends so shortly before its time, ends because of it.
const END_IS_NEAR: SignedDuration = SignedDuration::from_mins(1);

/// Reads the progress of the job from the fence. An attempt has head name only checkpoints ahead of the one that it resumed from, by step or, for
/// the same step, by bytes. So an attempt with a checkpoint in head has made progress, even if a damaged one of a higher step was skipped. An
/// unverified checkpoint counts only if its step is higher than all before, or if it overwrote one that still counts; one of a command that did not
/// resume only if its step is higher.
pub(super) fn read(mut job: Job, facts: &JobFacts) -> Job {
    let Some(Some(head)) = &facts.head else { return job };
    let Some(checkpoint) = head.checkpoint.filter(|one| one.attempt <= job.attempt) else { return job };
    let progress = &mut job.progress;
    let is_higher = progress.step.is_none_or(|step| step < checkpoint.step);
    // One that each attempt cuts off, and goes back from, lies at about the same step for ever. One of the same step that still counts
    // was not gone back from, but written over.
    let is_over = progress.step == Some(checkpoint.step) && head.kept.iter().any(|one| one.step == checkpoint.step);
    let is_certain = !head.unverified.contains(&checkpoint);
    let has_resumed = head.began_again != Some(checkpoint.attempt);
    if is_higher || (checkpoint.attempt > progress.attempt && has_resumed && (is_certain || is_over)) {
        progress.step = progress.step.max(Some(checkpoint.step));
        progress.attempt = checkpoint.attempt;
        progress.attempts_without = 0;
    }
    job
}

/// Resets the count of earlier launches after the first heartbeat of the machine: this launch succeeded.
pub(super) fn confirm_launch(mut job: Job, facts: &JobFacts) -> Job {
    let (Phase::Running(machine) | Phase::Interrupted(MachineReplacement { machine, .. })) = &job.phase else {
        return job;
    };
    if has_heartbeat(machine, facts) {
        (job.launches_without_heartbeat, job.unplaced_since) = (0, None);
    }
    job
}

/// Returns `true` if the machine sent a heartbeat, wrote head or left an exit record, as far as that was read.
fn has_heartbeat(machine: &JobMachine, facts: &JobFacts) -> bool {
    let has_beat = facts.heartbeat.flatten().is_some();
    let is_in_head = facts.head.iter().flatten().any(|head| head.attempt == machine.attempt);
    has_beat || is_in_head || facts.exit.iter().flatten().any(|exit| exit.attempt == machine.attempt)
}

pub(super) fn running(job: Job, placed: &JobMachine, facts: &JobFacts, now: Timestamp) -> JobDecision {
    if facts.warned.as_ref().is_some_and(|warned| placed.has(warned)) {
        return warned(job, placed, facts, now);
    }
    match &facts.machine {
        MachineSight::Seen { state: InstanceState::Pending | InstanceState::Running, .. } => {
            alive(job, placed, facts, now)
        }
        MachineSight::Seen { state: InstanceState::Unknown, .. } | MachineSight::Unknown => stay(job, facts, now),
        MachineSight::Seen { state, reason } => going(job, placed, *state, reason.as_deref(), facts, now),
        MachineSight::Absent => {
            let is_old = now.duration_since(placed.launched_at) >= ABSENT_AFTER;
            if is_old && facts.head.is_some() && heartbeat_loss(placed, facts, now).is_some() {
                return lose_seen(job, placed, LossReason::Gone, true, facts, now);
            }
            stay(job, facts, now)
        }
    }
}

/// A tag on the machine says that it is neither terminated nor replaced: the job waits, and its owner is notified.
fn keep(mut job: Job, machine: &JobMachine, hold: &MachineHold) -> JobDecision {
    if job.machine_hold.as_ref() == Some(hold) {
        return (job, Vec::new());
    }
    let why = format!("{} {}: it is neither terminated nor replaced", machine.instance, hold.describe());
    job.machine_hold = Some(hold.clone());
    let noted = note(&job, TransitionKind::Held, why);
    (job, vec![noted])
}

/// EC2 takes the machine back in two minutes, which it may use; the next one is launched at once.
pub(super) fn warned(job: Job, placed: &JobMachine, facts: &JobFacts, now: Timestamp) -> JobDecision {
    if let Some(hold) = &facts.machine_hold {
        return keep(job, placed, hold);
    }
    let loss = MachineLoss { how: LossReason::Reclaimed, until: after(now, WARNING), is_gone: false, in_time: true };
    lose(job, placed, &loss, facts, now)
}

/// Returns the loss that its heartbeats show; `None` if they arrive, or are unknown.
fn heartbeat_loss(placed: &JobMachine, facts: &JobFacts, now: Timestamp) -> Option<LossReason> {
    if facts.takeover.as_ref().is_some_and(|takeover| takeover.excuses_silence(now)) {
        return None;
    }
    // After a takeover an earlier machine may have had the same number of an attempt.
    let is_its = |beat: &Timestamp| facts.takeover.is_none() || *beat >= placed.launched_at;
    match facts.heartbeat?.filter(is_its) {
        None => (now.duration_since(placed.launched_at) >= FIRST_HEARTBEAT_AFTER).then_some(LossReason::NoHeartbeat),
        Some(beat) => (now.duration_since(beat) >= HEARTBEAT_TIMEOUT).then_some(LossReason::HeartbeatStopped),
    }
}

/// EC2 says that it runs.
fn alive(mut job: Job, placed: &JobMachine, facts: &JobFacts, now: Timestamp) -> JobDecision {
    let is_overdue = now.duration_since(placed.ends_at) >= OVERDUE_AFTER;
    // An unreadable result may be the reason for the missing heartbeats.
    let without_heartbeat = heartbeat_loss(placed, facts, now).filter(|_| facts.head.is_some());
    // With a person inside, that its agent is silent ends no box.
    let is_begun = job.gpu_box.as_ref().is_some_and(|gpu_box| gpu_box.heard_attempt == placed.attempt);
    let without_heartbeat = without_heartbeat.filter(|_| !is_begun);
    let lost = is_overdue.then_some(LossReason::Overdue).or(without_heartbeat);
    let may_leave = facts.head.is_some() && facts.machine_hold.is_none();
    let lost = lost.or((may_leave && deadline::leaves_spot(&job, placed, now)).then_some(LossReason::Deadline));
    if let Some(hold) = facts.machine_hold.as_ref().filter(|_| lost.is_some() && facts.may_act) {
        return keep(job, placed, hold);
    }
    // Without a readable heartbeat it is unknown whether the machine has recovered.
    if facts.machine_hold.is_none() || (facts.heartbeat.is_some() && facts.head.is_some() && lost.is_none()) {
        job.machine_hold = None;
    }
    let Some(lost) = lost.filter(|_| facts.may_act) else {
        let request = if may_leave && facts.may_act { spot_return::request(&job, placed, now) } else { None };
        return request.unwrap_or_else(|| stay(job, facts, now));
    };
    if let Some(why) = nothing_left(&job, placed, facts, now) {
        return over::end(job, JobResult::Expired, why, facts, now);
    }
    let lost_node = describe_lost_node(placed, lost, facts);
    let why = lost_node.unwrap_or_else(|| format!("{} {}", placed.name_instances(), lost.describe()));
    let why = format!("{why}; it is terminated before it is replaced");
    let noted = note(&job, TransitionKind::Ended(placed.instance.clone()), why);
    job.phase = Phase::Interrupted(MachineReplacement { machine: placed.clone(), lost, since: now });
    (job, vec![noted, Effect::Terminate(placed.clone())])
}

/// Explains why there would be no other attempt, if this machine were gone now; `None` too, if unknown whether it came to a result.
fn nothing_left(job: &Job, placed: &JobMachine, facts: &JobFacts, now: Timestamp) -> Option<String> {
    facts.head.as_ref()?;
    let job = use_up(job.clone(), placed, now);
    let left = TimeLeft::on_any_machine(&job, now);
    let left = if left.is_over() { left } else { TimeLeft::on_machine(&job, lowest_cost(&job), now) };
    left.is_over().then(|| left.describe(&job))
}

/// Returns the least price by the hour and the least other cost of all candidates: no candidate costs less.
pub(super) fn lowest_cost(job: &Job) -> CostMax {
    let costs = || job.ranking.iter().flat_map(|ranking| &ranking.candidates).map(Candidate::cost_max);
    CostMax {
        rate: costs().map(|cost| cost.rate).min().unwrap_or_default(),
        once: costs().map(|cost| cost.once).min().unwrap_or_default(),
    }
}

/// EC2 says that it ends, has ended, or was stopped: why decides (EC2 user guide, "State reason codes").
fn going(
    job: Job,
    placed: &JobMachine,
    state: InstanceState,
    reason: Option<&str>,
    facts: &JobFacts,
    now: Timestamp,
) -> JobDecision {
    let is_gone = state == InstanceState::Terminated;
    let is_stopped = matches!(state, InstanceState::Stopping | InstanceState::Stopped);
    if let Some(hold) = facts.machine_hold.as_ref().filter(|_| is_stopped && reason != Some(BY_HAND)) {
        return keep(job, placed, hold);
    }
    match reason {
        Some("Client.InstanceInitiatedShutdown") => match (&facts.head, &facts.exit) {
            (Some(_), exit) if exit.is_some() || now >= after(placed.ends_at, over::UNREAD_FOR) => {
                let is_reclaimed =
                    exit.iter().flatten().next().is_some_and(|exit| exit.reason == ExitReason::Interrupted);
                let is_at_end = now >= before(before(placed.ends_at, AGENT_ENDS_BEFORE), END_IS_NEAR);
                let how = match (is_reclaimed, is_at_end) {
                    (true, _) => LossReason::Reclaimed,
                    (false, true) => LossReason::Overdue,
                    (false, false) => LossReason::ShutDown,
                };
                lose_seen(job, placed, how, is_gone, facts, now)
            }
            _ => stay(job, facts, now),
        },
        Some(BY_HAND) => {
            if now >= before(after(placed.ends_at, EXPIRES_AFTER), END_IS_NEAR) {
                return lose_seen(job, placed, LossReason::Overdue, is_gone, facts, now);
            }
            by_hand(job, placed, state, facts, now)
        }
        Some(reason) => lose_seen(job, placed, LossReason::from_state_reason(reason), is_gone, facts, now),
        None => stay(job, facts, now),
    }
}

/// Ends a job whose machine was stopped or terminated by a person or for a rule of Curfew's: neither is contradicted, and the machine is
/// left as it is.
fn by_hand(mut job: Job, placed: &JobMachine, state: InstanceState, facts: &JobFacts, now: Timestamp) -> JobDecision {
    // Whether it had succeeded before is not known.
    if facts.head.is_none() {
        return stay(job, facts, now);
    }
    let id = name_gone(placed, facts);
    let (result, by) = match facts.reaped {
        None => (JobResult::Cancelled, "a person".to_owned()),
        Some(Rule::Expired) => {
            (JobResult::Expired, format!("Curfew, at the time that its tag {EXPIRES_AT} says; {MOVED}"))
        }
        Some(rule) => (JobResult::Failed, format!("Curfew, for the rule {rule}, as was announced")),
    };
    let why = match state {
        InstanceState::Stopping | InstanceState::Stopped => {
            format!("{id} was stopped by {by}; it stays stopped, and its volumes still cost money")
        }
        _ => format!("{id} was terminated by {by}"),
    };
    let others = placed.without(facts.gang.iter().flat_map(|gang| &gang.ended_by_hand));
    if let Some(others) = others.filter(|_| !placed.members.is_empty()) {
        // They end with the job.
        job.phase = Phase::Running(others);
    } else {
        job = use_up(job, placed, now);
        job.phase = Phase::Submitted;
    }
    over::end(job, result, why, facts, now)
}

/// Waits for the end of a machine that was lost without a warning: it has to be gone before there is another one.
pub(super) fn interrupted(
    mut job: Job,
    replacing: &MachineReplacement,
    facts: &JobFacts,
    now: Timestamp,
) -> JobDecision {
    let machine = &replacing.machine;
    let is_any_left = facts.gang.as_ref().is_some_and(|gang| gang.is_any_left);
    let (is_over, is_gone) = match &facts.machine {
        _ if is_any_left => (false, false),
        MachineSight::Seen { state, .. } => (is_going(*state), *state == InstanceState::Terminated),
        MachineSight::Absent => {
            let is_gone = now.duration_since(replacing.since) >= ABSENT_AFTER;
            (is_gone, is_gone)
        }
        MachineSight::Unknown => (false, false),
    };
    if is_over {
        return lose(
            job,
            machine,
            &MachineLoss { how: replacing.lost, until: now, is_gone, in_time: false },
            facts,
            now,
        );
    }
    if let Some(hold) = &facts.machine_hold {
        return keep(job, machine, hold);
    }
    if facts.machine != MachineSight::Unknown {
        job.machine_hold = None;
    }
    if let Some(why) = nothing_left(&job, machine, facts, now) {
        return over::end(job, JobResult::Expired, why, facts, now);
    }
    // Those that are left save what they have, as their agents tell each other, and say since when they cannot.
    let saves_until = facts.gang_report.as_ref().and_then(|report| report.saves_until);
    let has_time = now.duration_since(replacing.since) < GANG_SAVES_IN && saves_until.is_none_or(|until| now < until);
    let is_saving = is_any_left && replacing.lost.may_save() && has_time;
    if !facts.may_act || facts.answer.is_some() || is_saving {
        return (job, Vec::new());
    }
    (job, vec![Effect::Terminate(machine.clone())])
}

/// A machine that EC2 shows on its way to its end, or gone. The others of a gang have to be gone as well before there is another attempt.
fn lose_seen(
    mut job: Job,
    placed: &JobMachine,
    how: LossReason,
    is_gone: bool,
    facts: &JobFacts,
    now: Timestamp,
) -> JobDecision {
    if facts.gang.as_ref().is_none_or(|gang| !gang.is_any_left) {
        return lose(job, placed, &MachineLoss { how, until: now, is_gone, in_time: false }, facts, now);
    }
    let why = format!("{}; the other machines end before all are replaced", describe_loss(placed, how, facts));
    let noted = note(&job, TransitionKind::Ended(placed.instance.clone()), why);
    job.phase = Phase::Interrupted(MachineReplacement { machine: placed.clone(), lost: how, since: now });
    let terminate = (facts.may_act && !how.may_save()).then(|| Effect::Terminate(placed.clone()));
    (job, std::iter::once(noted).chain(terminate).collect())
}

struct MachineLoss {
    how: LossReason,
    /// Latest time until which it runs.
    until: Timestamp,
    /// `true` if it was seen gone.
    is_gone: bool,
    /// `true` if every second counts: then the next launch uses the present ranking, however old.
    in_time: bool,
}

/// The next attempt, or none.
fn lose(job: Job, machine: &JobMachine, loss: &MachineLoss, facts: &JobFacts, now: Timestamp) -> JobDecision {
    let until = latest_end(machine, loss.until);
    let is_without_heartbeat = loss.how.is_of_the_launch() && !has_heartbeat(machine, facts);
    // What EC2 never brought up has transferred no checkpoint.
    let transfer = machine.transfer.filter(|_| !is_without_heartbeat);
    let mut job = use_up(job, &JobMachine { transfer, ..machine.clone() }, until);
    job.lost = Some(loss.how);
    job.machine_hold = None;
    job.passes = 0;
    if is_without_heartbeat {
        job.launches_without_heartbeat = job.launches_without_heartbeat.saturating_add(1);
        job.unplaced_since = job.unplaced_since.or(Some(now));
    } else {
        (job.launches_without_heartbeat, job.unplaced_since) = (0, None);
    }
    if let Some(deadline) = &mut job.deadline {
        deadline.end_attempt();
        if machine.lifecycle == Lifecycle::Spot && matches!(loss.how, LossReason::Reclaimed | LossReason::NoCapacity) {
            deadline.spot.observe(false, now);
        }
    }
    if !is_without_heartbeat && loss.how != LossReason::Deadline && job.progress.attempt != machine.attempt {
        job.progress.attempts_without = job.progress.attempts_without.saturating_add(1);
    }
    let previous_attempt = JobMachine { ends_at: machine.ends_at.min(until), ..machine.clone() };
    // After the newer one is gone, an older one may still exist.
    let (newer, older) = ((!loss.is_gone).then_some(previous_attempt), job.previous_attempt.take());
    // One on demand that was left for Spot is not taken back by EC2, so it is seen to first.
    let is_older = match (&newer, &older) {
        (Some(_), Some(older)) => job.deadline.is_some() && older.lifecycle == Lifecycle::OnDemand,
        (newer, _) => newer.is_none(),
    };
    let seen = if is_older { &facts.previous_attempt } else { &facts.machine };
    job.previous_attempt = if is_older { older } else { newer };
    job.phase = Phase::Submitted;
    let stays_down = boxes::stays_down(&job, loss.how, facts, now);
    let why = describe_loss(machine, loss.how, facts);
    let noted = note(&job, TransitionKind::Lost(machine.instance.clone(), loss.how), why);
    let is_fresh = job.ranking.as_ref().is_some_and(|one| now.duration_since(one.at) < RANKING_IS_OLD_AFTER);
    let is_at_hand = (loss.in_time || is_fresh) && place::covers(&job, now);
    let may_go_on =
        facts.may_act && !place::is_without_progress(&job, facts) && !TimeLeft::on_any_machine(&job, now).is_over();
    // What was known of its machine, is known of its previous machine.
    let facts = JobFacts {
        may_act: facts.may_act,
        no_progress_attempts_max: facts.no_progress_attempts_max,
        previous_attempt: seen.clone(),
        head: facts.head.clone(),
        exit: facts.exit.clone(),
        cancel: facts.cancel.clone(),
        ..JobFacts::default()
    };
    if let Some((result, why)) = stays_down {
        let (job, effects) = over::end(job, result, why, &facts, now);
        return (job, std::iter::once(noted).chain(effects).collect());
    }
    let (job, effects) = match (may_go_on, is_without_heartbeat, is_at_hand) {
        (true, true, _) => launch::ended(job, machine, loss.how, is_at_hand, now),
        (true, false, true) => place::begin(job, Some(machine.candidate), &facts, now),
        _ => place::again(job, &facts, now),
    };
    (job, std::iter::once(noted).chain(effects).collect())
}
