//! `reap-instances`: stops untagged, idle, expired and out-of-hours GPU instances.
//!
//! Runs every 5 minutes: observe every region, decide, act, report.

use std::process::ExitCode;

use execution::instances;
use runtime::{Clients, EventKind, Failure, Invocation, InvocationResponse};

const FUNCTION: &str = "reap-instances";

fn main() -> ExitCode {
    runtime::serve(&[EventKind::Scheduled], async |settings| Clients::connect(FUNCTION, settings).await, reap)
}

async fn reap(clients: &Clients, invocation: Invocation) -> Result<InvocationResponse, Failure> {
    clients
        .run(FUNCTION, invocation, async |run, _| {
            let report = instances::plan(run).await?.carry_out(run).await;
            InvocationResponse::from_report(&report)
        })
        .await
}
