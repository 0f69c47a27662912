//! What must never happen to jobs, and what must have happened in the end, in other words than the policy's.

use std::collections::BTreeMap;

use billing::budget::BudgetHolder;
use billing::ledger::CalendarMonth;
use jiff::SignedDuration;
use jobs::{EXPIRES_AFTER, FIRST_HEARTBEAT_AFTER, JobId, JobResult, Phase};
use model::id::TeamName;
use model::money::Amount;

use crate::world::{JobsWorld, SimulatedMachine, TEAMS, TICK};

/// Time for which two machines of one job may run: the first one must have had no heartbeat for 10 minutes, or be given up; a run sees that a
/// tick later, and may be lost or cut off.
const OVERLAP_MAX: SignedDuration = SignedDuration::from_mins(60);

/// Ticks until a run must have done what it can: some runs in a row are lost, cut off or without an answer.
const LATE_MAX: i32 = 8;

/// Checks a moment.
pub(crate) fn check(world: &JobsWorld) {
    let now = world.now;
    let mut alive: BTreeMap<&JobId, Vec<&SimulatedMachine>> = BTreeMap::new();
    for machine in world.machines.iter().filter(|machine| machine.lives_at(now)) {
        alive.entry(&machine.job).or_default().push(machine);
        let gone_by = machine.ends_at + EXPIRES_AFTER + TICK * LATE_MAX;
        let lost = world.launched_by(&machine.token).iter().filter_map(|peer| peer.ended).map(|(at, _)| at).min();
        let is_left = lost.is_some_and(|at| now.duration_since(at) > TICK * LATE_MAX);
        assert!(!is_left, "{} of {} outlives a machine of its gang, which ended at {lost:?}", machine.id, machine.job);
        assert!(now < gone_by, "{} of {} outlives its deadline {}", machine.id, machine.job, machine.ends_at);
    }
    for (job, machines) in alive {
        let is_late = |since| now.duration_since(since) > FIRST_HEARTBEAT_AFTER + TICK * LATE_MAX;
        let hung = machines.iter().find(|machine| machine.hung_since.is_some_and(is_late));
        assert!(hung.is_none(), "{job} keeps a machine that hangs at {now}: {hung:?}");
        let second = machines.iter().filter(|machine| machine.node == 0).map(|machine| machine.launched_at).nth(1);
        if let Some(since) = second {
            assert!(now.duration_since(since) < OVERLAP_MAX, "{job} runs twice since {since}, at {now}");
        }
        assert!(world.states.contains_key(job), "{job} runs without a state");
    }
    for (key, (_, _, at)) in &world.inbox {
        let is_late = now.duration_since(*at) > TICK * LATE_MAX;
        let is_answered = world.answers.keys().any(|answer| answer.starts_with(key.trim_end_matches("toml")));
        assert!(is_answered || !is_late, "{key} has no answer since {at}");
    }
    let month = CalendarMonth::containing(now, &world.config.account.zone());
    for holder in TEAMS.map(|team| BudgetHolder::Team(team.into())).into_iter().chain([BudgetHolder::Account]) {
        let spent = true_spend(world, &holder, &month);
        let budget = Amount::from_usd(budget_usd(&holder));
        assert!(spent <= budget, "{holder:?} has spent {spent} of {budget} in {month}");
    }
}

const fn budget_usd(holder: &BudgetHolder) -> f64 {
    match holder {
        BudgetHolder::Account => crate::ACCOUNT_USD,
        BudgetHolder::Team(_) => crate::TEAM_USD,
    }
}

fn true_spend(world: &JobsWorld, holder: &BudgetHolder, month: &CalendarMonth) -> Amount {
    let is_of = |team: &TeamName| match holder {
        BudgetHolder::Account => true,
        BudgetHolder::Team(of) => of == team,
    };
    let span = month.span();
    let machines = world.machines.iter().filter(|machine| is_of(&machine.job.team));
    machines.map(|machine| machine.spent(span.from, span.to.min(world.now))).sum()
}

/// Checks that everything is over, and counts how.
pub(crate) fn check_end(world: &mut JobsWorld) {
    assert!(world.index.is_empty(), "unfinished: {:?}", world.index);
    let now = world.now;
    assert!(world.machines.iter().all(|machine| !machine.lives_at(now)));
    assert!(world.groups.is_empty(), "left: {:?}", world.groups);
    for (job, (_, state)) in &world.states {
        let Phase::Ended(ended) = &state.phase else { panic!("{job} has not ended: {:?}", state.phase) };
        assert!(ended.closed && ended.released, "{job}: {ended:?}");
        let head = world.heads.get(job).and_then(|head| head.result.as_ref());
        let has_succeeded = head.is_some_and(|result| result.succeeded);
        match ended.result {
            JobResult::Succeeded => {
                world.tally.succeeded += 1;
                assert!(has_succeeded, "{job} did not succeed");
            }
            JobResult::Failed | JobResult::Expired => assert!(!has_succeeded, "{job} has succeeded: {}", ended.why),
            JobResult::Cancelled => {
                world.tally.cancelled += 1;
                assert!(world.cancels.contains_key(job), "nobody cancelled {job}");
            }
        }
    }
    for ((holder, month), (_, budget)) in &world.budgets {
        for (job, reservation) in &budget.reservations {
            let is_over = reservation.ended.is_some() || reservation.until < now;
            assert!(is_over, "{holder:?} still reserves for {job} in {month}: {reservation:?}");
        }
    }
}
