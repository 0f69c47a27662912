//! Whose turn it is, where one sweep cannot see to all jobs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::id::TeamName;

use super::backlog::{interleave, minute};
use super::{HoldReason, Job, Phase};

/// How urgent a job is: what may cost money, or lose work, comes first; then what may be launched; last what only waits.
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
        Phase::Submitted | Phase::Reserving => due(job.waits_for.is_empty()),
        Phase::Retrying(waiting) if waiting.machine.is_some() => Urgency::HasMachine,
        Phase::Retrying(waiting) => due(waiting.until <= now),
        Phase::Waiting(waiting) => due(waiting.until <= now),
        Phase::Held(held) => due(held.by == HoldReason::Observing || held.until <= now),
    }
}

/// In the order in which a sweep sees to them. Among the equally urgent it is the turn of each team after the other, so that a team with
/// thousands of jobs costs the others nothing. Of each team, and of more teams than a sweep sees to, others are first each minute, so that
/// a sweep that sees to `at_once` of them comes round to each. One without a state comes last.
pub fn by_priority<T>(all: Vec<T>, job: impl Fn(&T) -> Option<&Job>, at_once: usize, now: Timestamp) -> Vec<T> {
    let mut groups: BTreeMap<Urgency, BTreeMap<Option<TeamName>, Vec<T>>> = BTreeMap::new();
    for one in all {
        let state = job(&one);
        let urgency = state.map_or(Urgency::Waits, |job| urgency(job, now));
        let team = state.map(|job| job.job.team.clone());
        groups.entry(urgency).or_default().entry(team).or_default().push(one);
    }
    groups.into_values().flat_map(|teams| interleave(rotate(teams.into_values().collect(), at_once, now))).collect()
}

/// The lists of some teams, each further on by as many as a sweep sees to of it.
fn rotate<T>(mut teams: Vec<Vec<T>>, at_once: usize, now: Timestamp) -> Vec<Vec<T>> {
    let minute = minute(now);
    let count = teams.len().max(1);
    let first = minute.wrapping_mul(at_once) % count;
    teams.rotate_left(first);
    let sweeps = minute / count.div_ceil(at_once.max(1));
    for team in &mut teams {
        let first = sweeps.wrapping_mul((at_once / count).max(1)) % team.len().max(1);
        team.rotate_left(first);
    }
    teams
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
