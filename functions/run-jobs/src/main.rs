//! `run-jobs`: launches the jobs of teams, terminates their machines, and launches them again when AWS reclaims one.
//!
//! Runs on objects of the inbox, on EC2's events, and every minute: each only names jobs to reconcile now. An interruption warning comes
//! directly; other events come by a queue, several at once.

use std::process::ExitCode;

use execution::Clients;
use execution::jobs::{self, AgentBinaries, EventHint, MachineSetup};
use runtime::{Event, EventKind, Failure, FunctionSettings, Invocation, InvocationResponse};

const FUNCTION: &str = "run-jobs";

const WOKEN_BY: &[EventKind] = &[
    EventKind::Scheduled,
    EventKind::ObjectCreated,
    EventKind::InterruptionWarning,
    EventKind::RebalanceRecommendation,
    EventKind::StateChange,
    EventKind::Batch,
];

fn main() -> ExitCode {
    runtime::serve(
        WOKEN_BY,
        async |FunctionSettings { bucket, channels, mode, job_profile }| {
            let machines = MachineSetup { agents: AgentBinaries::new(runtime::agents()), profile: job_profile };
            (Clients::connect(bucket, channels, mode).await, machines)
        },
        reconcile,
    )
}

async fn reconcile(
    (clients, machines): &(Clients, MachineSetup),
    invocation: Invocation,
) -> Result<InvocationResponse, Failure> {
    let Invocation { event, run: id, now, deadline, clock } = invocation;
    let run = clients.run(FUNCTION, id, (now, deadline), &clock);
    let report = jobs::reconcile(&run, machines, hint(event)).await?;
    Ok(InvocationResponse::from_value(&report.response())?)
}

fn hint(event: Event) -> EventHint {
    match event {
        // Several events name several jobs. Reconciling all jobs once costs less than once for each event.
        Event::Scheduled | Event::BudgetNotification | Event::Batch => EventHint::All,
        Event::ObjectCreated(object) => {
            EventHint::Object { decoded: object.decoded_key(), bucket: object.bucket, key: object.key }
        }
        Event::InterruptionWarning(of) => {
            EventHint::Instance { region: of.region, instance: of.instance, warned: true }
        }
        Event::RebalanceRecommendation(of) | Event::StateChange(of) => {
            EventHint::Instance { region: of.region, instance: of.instance, warned: false }
        }
    }
}
