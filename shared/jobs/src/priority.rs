//! The order of jobs, where one sweep cannot see to all of them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::TeamName;

use super::backlog::{interleave, minute};
use super::{HoldReason, Job, JobId, Phase};

/// The urgency of a job: one that may cost money, or lose work, comes first; then one that may be launched; last one that only waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    HasMachine,
    IsDue,
    Waits,
}

fn urgency(job: &Job, now: Timestamp) -> Urgency {
    let due = |is_due: bool| if is_due { Urgency::IsDue } else { Urgency::Waits };
    match &job.phase {
        Phase::Running(_) | Phase::Interrupted(_) | Phase::Ended(_) | Phase::Launching(_) => Urgency::HasMachine,
        Phase::Submitted | Phase::Reserving => due(!job.waits_for_others()),
        Phase::Retrying(waiting) if waiting.machine.is_some() => Urgency::HasMachine,
        Phase::Retrying(waiting) => due(waiting.until <= now),
        Phase::Waiting(waiting) => due(waiting.until <= now),
        Phase::Held(held) => due(held.by == HoldReason::Observing || held.until <= now),
    }
}

/// Sorts jobs in the order in which a sweep sees to them. Among the equally urgent it is the turn of each team after the other, so that a
/// team with thousands of jobs costs the others nothing. Of each team, and of more teams than a sweep sees to, others are first each
/// minute, so that a sweep that sees to `at_once` of them comes round to each. One without a state comes last.
pub fn by_priority<T>(all: Vec<T>, job: impl Fn(&T) -> Option<&Job>, at_once: usize, now: Timestamp) -> Vec<T> {
    let mut groups: BTreeMap<Urgency, BTreeMap<Option<TeamName>, Vec<T>>> = BTreeMap::new();
    for one in all {
        let state = job(&one);
        let urgency = state.map_or(Urgency::Waits, |job| urgency(job, now));
        let team = state.map(|job| job.job.team.clone());
        groups.entry(urgency).or_default().entry(team).or_default().push(one);
    }
    let orders = |teams: BTreeMap<_, Vec<T>>| rotate(teams.into_values().collect(), &job, at_once, now);
    groups.into_values().flat_map(|teams| interleave(orders(teams))).collect()
}

/// The lists of some teams, each further on by as many as a sweep sees to of it.
fn rotate<T>(mut teams: Vec<Vec<T>>, job: &impl Fn(&T) -> Option<&Job>, at_once: usize, now: Timestamp) -> Vec<Vec<T>> {
    let minute = minute(now);
    let count = teams.len().max(1);
    let first = minute.wrapping_mul(at_once) % count;
    teams.rotate_left(first);
    let sweeps = minute / count.div_ceil(at_once.max(1));
    let seen = sweeps.wrapping_mul((at_once / count).max(1));
    teams.into_iter().map(|team| take_turns(team, job, seen)).collect()
}

/// The jobs of one team: each of its parameter sweeps is in turn with all its other jobs, so that none of them delays the rest. The others are
/// further on by as many as were seen to; members are in the order of their numbers, in which they begin.
fn take_turns<T>(team: Vec<T>, job: &impl Fn(&T) -> Option<&Job>, seen: usize) -> Vec<T> {
    let mut groups: BTreeMap<Option<JobId>, Vec<T>> = BTreeMap::new();
    for one in team {
        groups.entry(job(&one).and_then(Job::sweep_id)).or_default().push(one);
    }
    let number = |one: &T| job(one).and_then(|job| Some(job.sweep.as_ref()?.number));
    for (sweep, jobs) in &mut groups {
        if sweep.is_some() {
            jobs.sort_by_key(number);
        } else {
            let first = seen % jobs.len().max(1);
            jobs.rotate_left(first);
        }
    }
    interleave(groups.into_values().collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::next::tests::fixture::*;
    use crate::next::tests::retry::{alone, retrying};
    use crate::{Job, JobResult};

    fn order(jobs: &[Job], seconds: i64) -> Vec<&Job> {
        by_priority(jobs.iter().collect(), |job| Some(*job), 2, noon_plus(seconds))
    }

    #[test]
    fn jobs_with_a_machine_come_first_and_waiting_ones_last() {
        let first = [running(), interrupted(), ended(JobResult::Failed), launching()].map(|given| given.job);
        let due = [submitted(), reserving(), held(HoldReason::Observing)].map(|given| given.job);
        let last = [waiting(), held(HoldReason::Budget)].map(|given| given.job);
        let all: Vec<Job> = last.iter().chain(&due).chain(&first).cloned().collect();
        let order = order(&all, MINUTE);
        assert!(order[..4].iter().all(|job| first.contains(job)));
        assert!(order[4..7].iter().all(|job| due.contains(job)));
        assert!(order[7..].iter().all(|job| last.contains(job)) && order.len() == all.len());
    }

    #[test]
    fn a_due_job_is_as_urgent_as_a_new_one() {
        assert_eq!(urgency(&waiting().job, noon_plus(10 * MINUTE - 1)), Urgency::Waits);
        assert_eq!(urgency(&waiting().job, noon_plus(10 * MINUTE)), Urgency::IsDue);
        assert_eq!(urgency(&held(HoldReason::Budget).job, noon_plus(5 * MINUTE)), Urgency::IsDue);
        assert_eq!(urgency(&retrying().job, noon_plus(HOUR)), Urgency::HasMachine);
        assert_eq!(urgency(&alone(retrying()).job, noon_plus(HOUR)), Urgency::Waits);
        assert_eq!(urgency(&alone(retrying()).job, noon_plus(HOUR + MINUTE)), Urgency::IsDue);
    }

    #[test]
    fn a_sweep_that_sees_to_two_comes_round_to_all() {
        let jobs: Vec<Job> = (0..7).map(|machines| submitted().job(|job| job.machines = machines).job).collect();
        let met: BTreeSet<u32> = (0..4)
            .flat_map(|minute| order(&jobs, minute * MINUTE)[..2].iter().map(|job| job.machines).collect::<Vec<_>>())
            .collect();
        assert_eq!(met.len(), 7, "{met:?}");
        assert_eq!(order(&jobs, 0).len(), 7);
        assert!(order(&[], 0).is_empty());
    }

    #[test]
    fn a_team_with_thousands_of_jobs_does_not_delay_another() {
        let job = |team: &str, machines| {
            submitted().job(|job| (job.job.team, job.machines) = (TeamName::from(team), machines)).job
        };
        let mut jobs: Vec<Job> = (0..5_000).map(|machines| job("flood", machines)).collect();
        jobs.extend((0..3).map(|machines| job("vision", machines)));
        for minute in 0..9 {
            let order = order(&jobs, minute * MINUTE);
            let at = |index: usize| order[index].job.team.as_str();
            assert_eq!(order.len(), jobs.len());
            assert_eq!((0..6).filter(|index| at(*index) == "vision").count(), 3, "one of each in turn");
        }
        let mut met = BTreeSet::new();
        for minute in 0..4 {
            let first = order(&jobs, minute * MINUTE)[..2].to_vec();
            met.extend(first.iter().filter(|job| job.job.team.as_str() == "vision").map(|job| job.machines));
        }
        assert_eq!(met.len(), 3, "another one of its jobs is first each minute");
    }

    #[test]
    fn a_sweep_begins_in_order_and_in_turn_with_the_other_jobs_of_its_team() {
        let member = |number: u32| {
            let sweep = crate::SweepMember { number, parameters: Vec::new(), max_parallel: None };
            let id = JobId::read("vision/tune-1a2b3c4d").unwrap().member(number);
            submitted().job(|job| (job.job, job.sweep) = (id, Some(sweep))).job
        };
        let mut jobs: Vec<Job> = (1..=1_000).rev().map(member).collect();
        jobs.extend((0..2).map(|machines| submitted().job(|job| job.machines = machines).job));
        for minute in 0..3 {
            let order = order(&jobs, minute * MINUTE);
            let is_member = |job: &&&Job| job.sweep.is_some();
            assert_eq!(
                (order.len(), order[..4].iter().filter(is_member).count()),
                (jobs.len(), 2),
                "one of each in turn"
            );
            let numbers: Vec<u32> = order.iter().filter_map(|job| Some(job.sweep.as_ref()?.number)).collect();
            assert!(numbers.is_sorted());
        }
    }

    #[test]
    fn more_teams_than_a_sweep_sees_to_have_their_turn() {
        let jobs: Vec<Job> = (0..35)
            .map(|number| {
                let team = TeamName::from(format!("team{}", number % 5).as_str());
                submitted().job(|job| (job.job.team, job.machines) = (team, number)).job
            })
            .collect();
        let met: BTreeSet<u32> = (0..60)
            .flat_map(|minute| order(&jobs, minute * MINUTE)[..2].iter().map(|job| job.machines).collect::<Vec<_>>())
            .collect();
        assert_eq!(met.len(), 35, "{met:?}");
    }
}
