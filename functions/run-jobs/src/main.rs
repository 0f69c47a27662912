//! `run-jobs`: launches what teams ask for as jobs, sees to it that it ends, and launches it again when AWS takes its machine back.
//!
//! Woken by the inbox, by what EC2 tells of instances, and every minute: each only names jobs to look at now.

use std::process::ExitCode;

use execution::Clients;
use execution::jobs::{self, Agents, Hint, Machines};
use runtime::{Answer, Event, EventKind, Failure, Invocation, Settings};

const FUNCTION: &str = "run-jobs";

const WOKEN_BY: &[EventKind] = &[
    EventKind::Scheduled,
    EventKind::ObjectCreated,
    EventKind::InterruptionWarning,
    EventKind::RebalanceRecommendation,
    EventKind::StateChange,
];

fn main() -> ExitCode {
    runtime::serve(
        WOKEN_BY,
        async |Settings { bucket, topic_arn, mode, job_profile }| {
            let machines = Machines { agents: Agents::of(runtime::agents()), profile: job_profile };
            (Clients::connect(bucket, topic_arn, mode).await, machines)
        },
        reconcile,
    )
}

async fn reconcile((clients, machines): &(Clients, Machines), invocation: Invocation) -> Result<Answer, Failure> {
    let Invocation { event, run: id, now, deadline, clock } = invocation;
    let run = clients.run(FUNCTION, id, (now, deadline), clock);
    let report = jobs::reconcile(&run, machines, hint(event)).await?;
    Ok(Answer::of(&report.response())?)
}

fn hint(event: Event) -> Hint {
    match event {
        Event::Scheduled | Event::BudgetNotification => Hint::All,
        Event::ObjectCreated(object) => {
            Hint::Object { decoded: object.decoded_key(), bucket: object.bucket, key: object.key }
        }
        Event::InterruptionWarning(of) => Hint::Instance { region: of.region, instance: of.instance, warned: true },
        Event::RebalanceRecommendation(of) | Event::StateChange(of) => {
            Hint::Instance { region: of.region, instance: of.instance, warned: false }
        }
    }
}
