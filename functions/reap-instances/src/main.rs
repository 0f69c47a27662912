//! `reap-instances`: sends untagged, idle, expired and out-of-hours GPU instances home.
//!
//! Woken every 5 minutes: observe every region, decide, act, report.

mod observe;

use std::process::ExitCode;

use cloud::Aws;
use domain::mode::Mode;
use domain::policy::Policy;
use domain::policy::instances::decide;
use domain::price::PriceBook;
use domain::report::Response;
use execution::{Audience, Run};
use runtime::{Answer, Failure, Invocation, Settings};
use store::Store;

const FUNCTION: &str = "reap-instances";

struct Reaper {
    settings: Settings,
    aws: Aws,
    store: Store,
}

fn main() -> ExitCode {
    runtime::serve(
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
    let run = Run {
        aws,
        store,
        topic_arn: &settings.topic_arn,
        function: FUNCTION,
        id,
        mode: settings.mode,
        now,
        deadline,
        clock,
    };
    let config = match store.read_config().await {
        Ok(config) => config,
        Err(fault) => {
            run.refuse(&fault.to_string()).await;
            return Err(fault.into());
        }
    };
    let audience = run.audience().await;
    let ceiling = if matches!(audience, Audience::Nobody(_)) { Mode::Observe } else { settings.mode };
    let policy = Policy { config, ceiling, prices: PriceBook::dated() };
    let seen = observe::account(&run, &policy).await;
    let plan = decide(&seen.instances, &seen.usages, &seen.recalled.memory, &policy, now);
    let report = run.carry_out(plan, seen.regions, audience, seen.recalled).await;
    if report.saw_nothing() {
        let gaps: Vec<String> = report.gaps.iter().map(|gap| format!("{}: {}", gap.region, gap.error)).collect();
        return Err(Failure::because("NothingSeen", format!("no region could be read: {}", gaps.join("; "))));
    }
    Ok(Answer::of(&Response::of(&report))?)
}
