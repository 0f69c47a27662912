//! Whose turn it is, where one sweep cannot see to all jobs.

use jiff::Timestamp;

use super::{HeldBy, Job, Phase};

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
        Phase::Submitted | Phase::Reserving => Urgency::IsDue,
        Phase::Waiting(waiting) => due(waiting.until <= now),
        Phase::Held(held) => due(held.by == HeldBy::Observing || held.until <= now),
    }
}

/// In the order in which a sweep sees to them. Among the equally urgent another one is first each minute, `at_once` further on, so that a
/// sweep that sees to so many of them comes round to each. One without a state comes last.
pub fn in_turn<T>(all: Vec<T>, job: impl Fn(&T) -> Option<&Job>, at_once: usize, now: Timestamp) -> Vec<T> {
    let of = |one: &T| job(one).map_or(Urgency::Waits, |job| urgency(job, now));
    let mut groups = [Urgency::HasMachine, Urgency::IsDue, Urgency::Waits].map(|urgency| (urgency, Vec::new()));
    for one in all {
        let its = of(&one);
        if let Some((_, group)) = groups.iter_mut().find(|(urgency, _)| *urgency == its) {
            group.push(one);
        }
    }
    let minute = usize::try_from(now.as_second().div_euclid(60)).unwrap_or(0);
    groups
        .into_iter()
        .flat_map(|(_, mut group)| {
            let first = minute.wrapping_mul(at_once) % group.len().max(1);
            group.rotate_left(first);
            group
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::next::tests::fixture::*;
    use crate::job::{Ending, Job};

    fn order(jobs: &[Job], seconds: i64) -> Vec<&Job> {
        in_turn(jobs.iter().collect(), |job| Some(*job), 2, at(seconds))
    }

    #[test]
    fn what_has_a_machine_comes_first_and_what_only_waits_last() {
        let first = [running(), interrupted(), ended(Ending::Failed), launching()].map(|given| given.job);
        let due = [submitted(), reserving(), held(HeldBy::Observing)].map(|given| given.job);
        let last = [waiting(), held(HeldBy::Budget)].map(|given| given.job);
        let all: Vec<Job> = last.iter().chain(&due).chain(&first).cloned().collect();
        let order = order(&all, MINUTE);
        assert!(order[..4].iter().all(|job| first.contains(job)));
        assert!(order[4..7].iter().all(|job| due.contains(job)));
        assert!(order[7..].iter().all(|job| last.contains(job)) && order.len() == all.len());
    }

    #[test]
    fn what_has_waited_its_time_is_as_urgent_as_what_was_just_submitted() {
        assert_eq!(urgency(&waiting().job, at(10 * MINUTE - 1)), Urgency::Waits);
        assert_eq!(urgency(&waiting().job, at(10 * MINUTE)), Urgency::IsDue);
        assert_eq!(urgency(&held(HeldBy::Budget).job, at(5 * MINUTE)), Urgency::IsDue);
    }

    #[test]
    fn a_sweep_that_sees_to_two_comes_round_to_all() {
        let jobs: Vec<Job> = (0..7).map(|machines| submitted().job(|job| job.machines = machines).job).collect();
        let met: std::collections::BTreeSet<u32> = (0..4)
            .flat_map(|minute| order(&jobs, minute * MINUTE)[..2].iter().map(|job| job.machines).collect::<Vec<_>>())
            .collect();
        assert_eq!(met.len(), 7, "{met:?}");
        assert_eq!(order(&jobs, 0).len(), 7);
        assert!(order(&[], 0).is_empty());
    }
}
