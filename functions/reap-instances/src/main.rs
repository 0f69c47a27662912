//! `reap-instances`: sends untagged, idle, expired and out-of-hours GPU instances home.
//!
//! Woken every 5 minutes: observe every region, decide, act, report.

use std::process::ExitCode;

use cloud::Aws;
use domain::policy::instances::decide;
use domain::report::Response;
use execution::{Run, instances};
use runtime::{Answer, Event, Failure, Invocation, Settings};
use store::Store;

const FUNCTION: &str = "reap-instances";

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
    let seen = instances::account(&run, &policy).await;
    let plan = decide(&seen.instances, &seen.usages, &seen.recalled.memory, &seen.policy, now);
    let report = run.carry_out(plan, seen.regions, audience, seen.recalled).await;
    match report.saw_nothing() {
        Some(why) => Err(Failure::because("NothingSeen", why)),
        None => Ok(Answer::of(&Response::of(&report))?),
    }
}
