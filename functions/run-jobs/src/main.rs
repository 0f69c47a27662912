//! `run-jobs`: launches the jobs of teams, terminates their machines, and launches them again when AWS reclaims one.
//!
//! Runs on objects of the inbox, on EC2's events, and every minute: each only names jobs to reconcile now. An interruption warning comes
//! directly; other events come by a queue, several at once.

use std::process::ExitCode;

use execution::jobs::{self, AgentBinaries, Arrival, DeploymentSetup, EventHint};
use runtime::{Clients, Event, EventKind, Failure, FunctionSettings, Invocation, InvocationResponse, ObjectCreated};

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
        async |settings| {
            let FunctionSettings { job_profile, trigger_buckets, runs_schedules, home, .. } = settings.clone();
            let agents = AgentBinaries::new(runtime::agents());
            let is_restored = home.as_ref().is_some_and(|home| home.is_restored);
            let replica = home.and_then(|home| home.replica);
            let profile = job_profile;
            let setup = DeploymentSetup { agents, profile, trigger_buckets, runs_schedules, replica, is_restored };
            (Clients::connect(FUNCTION, settings).await, setup)
        },
        reconcile,
    )
}

async fn reconcile(
    (clients, setup): &(Clients, DeploymentSetup),
    invocation: Invocation,
) -> Result<InvocationResponse, Failure> {
    clients
        .run(FUNCTION, invocation, async |run, event| {
            let arrivals = arrivals(&event);
            let report = jobs::reconcile(run, setup, hint(event), arrivals).await?;
            Ok(InvocationResponse::from_value(&report.response())?)
        })
        .await
}

/// The objects that were written, of whichever bucket.
fn arrivals(event: &Event) -> Vec<Arrival> {
    let objects = match event {
        Event::ObjectCreated(object) => std::slice::from_ref(object),
        Event::Batch(objects) => objects,
        _ => &[],
    };
    let arrival = |object: ObjectCreated| {
        let ObjectCreated { bucket, key, etag, version, bytes, at } = object;
        Arrival { bucket, key, version, etag, bytes, at }
    };
    objects.iter().cloned().map(arrival).collect()
}

fn hint(event: Event) -> EventHint {
    match event {
        // Several events name several jobs. Reconciling all jobs once costs less than once for each event.
        Event::Scheduled | Event::BudgetNotification | Event::Batch(_) | Event::Reply(_) => EventHint::All,
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
