//! `enforce-budgets`: keeps the ledger of what GPUs cost, and holds teams to their budgets.
//!
//! Woken every quarter of an hour, and by AWS Budgets: observe every region, take down what runs, decide, tell, report. It ends nothing.

use std::process::ExitCode;

use cloud::Aws;
use domain::budget::{close, decide};
use domain::plan::Plan;
use domain::report::Response;
use execution::{Run, budgets};
use runtime::{Answer, Event, Failure, Invocation, Settings};
use store::Store;

const FUNCTION: &str = "enforce-budgets";

struct Bookkeeper {
    settings: Settings,
    aws: Aws,
    store: Store,
}

fn main() -> ExitCode {
    runtime::serve(
        &[Event::Scheduled, Event::BudgetNotification],
        async |settings| {
            let aws = Aws::connect().await;
            let store = Store::new(aws.sdk_config(), settings.bucket.clone());
            Bookkeeper { settings, aws, store }
        },
        enforce,
    )
}

async fn enforce(Bookkeeper { settings, aws, store }: &Bookkeeper, invocation: Invocation) -> Result<Answer, Failure> {
    let Invocation { run: id, now, deadline, clock, .. } = invocation;
    let (topic_arn, mode) = (&settings.topic_arn, settings.mode);
    let (chosen, progress, halted) = (None, &execution::log, None);
    let run =
        Run { aws, store, topic_arn, function: FUNCTION, id, mode, now, deadline, clock, chosen, progress, halted };
    let (policy, audience) = run.prepare_without_prices().await?;
    let seen = budgets::account(&run, &policy).await;
    let (memory, terms) = (&seen.recalled.memory, (&policy.config, policy.ceiling));
    let plan = decide(&seen.budgets, &policy.config, policy.ceiling, memory, aws.home());
    let plan = close(plan, &seen.closed, terms, memory, aws.home());
    let report = run.carry_out(Plan { gaps: seen.gaps, ..plan }, seen.regions, audience, seen.recalled).await;
    match report.saw_nothing() {
        Some(why) => Err(Failure::because("NothingSeen", why)),
        None => Ok(Answer::of(&Response::of(&report))?),
    }
}
