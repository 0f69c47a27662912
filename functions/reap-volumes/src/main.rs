//! `reap-volumes`: clears orphaned EBS volumes away, in a way that can be undone.
//!
//! Woken every hour: observe every region, decide, act, report.

use std::process::ExitCode;

use domain::policy::volumes::decide;
use execution::{Clients, volumes};
use runtime::{Answer, EventKind, Failure, Invocation, Settings};

const FUNCTION: &str = "reap-volumes";

fn main() -> ExitCode {
    runtime::serve(
        &[EventKind::Scheduled],
        async |Settings { bucket, topic_arn, mode, .. }| Clients::connect(bucket, topic_arn, mode).await,
        reap,
    )
}

async fn reap(clients: &Clients, invocation: Invocation) -> Result<Answer, Failure> {
    let Invocation { run: id, now, deadline, clock, .. } = invocation;
    let run = clients.run(FUNCTION, id, (now, deadline), clock);
    let (policy, audience) = run.prepare().await?;
    let seen = volumes::account(&run, &policy).await;
    let plan = decide(&seen.storage, &seen.uses, &seen.live_jobs, &seen.recalled.memory, &policy, now);
    let report = run.carry_out(plan, seen.regions, audience, seen.recalled).await;
    Answer::to(&report)
}
