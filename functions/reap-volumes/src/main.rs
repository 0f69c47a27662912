//! `reap-volumes`: clears orphaned EBS volumes away, in a way that can be undone.
//!
//! Woken every hour: observe every region, decide, act, report.

use std::process::ExitCode;

use cloud::Aws;
use domain::policy::volumes::decide;
use domain::report::Response;
use execution::{Run, volumes};
use runtime::{Answer, Event, Failure, Invocation, Settings};
use store::Store;

const FUNCTION: &str = "reap-volumes";

struct Reaper {
    settings: Settings,
    aws: Aws,
    store: Store,
}

fn main() -> ExitCode {
    runtime::serve(
        &[Event::Scheduled],
        async |settings| {
            let aws = Aws::connect().await;
            let store = Store::new(aws.sdk_config(), settings.bucket.clone());
            Reaper { settings, aws, store }
        },
        reap,
    )
}

async fn reap(Reaper { settings, aws, store }: &Reaper, invocation: Invocation) -> Result<Answer, Failure> {
    let Invocation { run: id, now, deadline, clock, .. } = invocation;
    let (topic_arn, mode) = (&settings.topic_arn, settings.mode);
    let (chosen, progress, halted) = (None, &execution::log, None);
    let run =
        Run { aws, store, topic_arn, function: FUNCTION, id, mode, now, deadline, clock, chosen, progress, halted };
    let (policy, audience) = run.prepare().await?;
    let seen = volumes::account(&run, &policy).await;
    let plan = decide(&seen.storage, &seen.uses, &seen.live_jobs, &seen.recalled.memory, &policy, now);
    let report = run.carry_out(plan, seen.regions, audience, seen.recalled).await;
    match report.saw_nothing() {
        Some(why) => Err(Failure::because("NothingSeen", why)),
        None => Ok(Answer::of(&Response::of(&report))?),
    }
}
