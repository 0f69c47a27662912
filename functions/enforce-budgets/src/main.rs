//! `enforce-budgets`: keeps the ledger of what GPUs cost, and holds teams to their budgets.
//!
//! Woken every quarter of an hour, and by AWS Budgets: observe every region, take down what runs, decide, tell, report. It ends nothing.

use std::process::ExitCode;

use domain::budget::{close, decide};
use domain::plan::Plan;
use execution::{Clients, budgets};
use runtime::{Answer, EventKind, Failure, Invocation, Settings};

const FUNCTION: &str = "enforce-budgets";

fn main() -> ExitCode {
    runtime::serve(
        &[EventKind::Scheduled, EventKind::BudgetNotification],
        async |Settings { bucket, topic_arn, mode, .. }| Clients::connect(bucket, topic_arn, mode).await,
        enforce,
    )
}

async fn enforce(clients: &Clients, invocation: Invocation) -> Result<Answer, Failure> {
    let Invocation { run: id, now, deadline, clock, .. } = invocation;
    let run = clients.run(FUNCTION, id, (now, deadline), clock);
    let (policy, audience) = run.prepare_without_prices().await?;
    let seen = budgets::account(&run, &policy).await;
    let (memory, terms) = (&seen.recalled.memory, (&policy.config, policy.ceiling));
    let plan = decide(&seen.budgets, &policy.config, policy.ceiling, memory, run.aws.home());
    let plan = close(plan, &seen.closed, terms, memory, run.aws.home());
    let report = run.carry_out(Plan { gaps: seen.gaps, ..plan }, seen.regions, audience, seen.recalled).await;
    Answer::to(&report)
}
