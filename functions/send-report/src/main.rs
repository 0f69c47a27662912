//! `send-report`: writes the report of the month each day, and sends its digest.
//!
//! Reads the state bucket, asks EC2 and CloudWatch how hard the dearest instances worked, and changes no resource. Where an organization has a hub,
//! one can have it report on all accounts as well.

use std::process::ExitCode;

use execution::month_report;
use runtime::{Clients, EventKind, Failure, Invocation, InvocationResponse};

const FUNCTION: &str = "send-report";

fn main() -> ExitCode {
    runtime::serve(&[EventKind::Scheduled], async |settings| Clients::connect(FUNCTION, settings).await, send)
}

async fn send(clients: &Clients, invocation: Invocation) -> Result<InvocationResponse, Failure> {
    clients
        .run(FUNCTION, invocation, async |run, _| {
            let report = Box::pin(month_report::send(run, clients.reported_hub())).await?;
            InvocationResponse::from_report(&report)
        })
        .await
}
