//! `reap-instances`: sends untagged, idle, expired and out-of-hours GPU instances home.
//!
//! Woken every 5 minutes: observe every region, decide, act, report.

use std::process::ExitCode;

use domain::policy::instances::decide;
use execution::{Clients, instances};
use runtime::{Answer, EventKind, Failure, Invocation, Settings};

const FUNCTION: &str = "reap-instances";

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
    let seen = instances::account(&run, &policy).await;
    let plan = decide(&seen.instances, &seen.usages, &seen.recalled.memory, &seen.policy, now);
    let report = run.carry_out(plan, seen.regions, audience, seen.recalled).await;
    Answer::to(&report)
}
