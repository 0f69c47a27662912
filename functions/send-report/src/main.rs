//! `send-report`: writes the report of the month each day, and sends its digest.
//!
//! It reads the state bucket, asks EC2 and CloudWatch how hard the dearest instances worked, and changes no resource. With the hub of an
//! organization it can report on all accounts as well.

use std::process::ExitCode;

use execution::month_report;
use runtime::{Clients, EventKind, Failure, Invocation, InvocationResponse};

const FUNCTION: &str = "send-report";

fn main() -> ExitCode {
    runtime::serve(&[EventKind::Scheduled], async |settings| Clients::connect(FUNCTION, settings).await, send)
}

async fn send(clients: &Clients, invocation: Invocation) -> Result<InvocationResponse, Failure> {
    let Invocation { run: id, now, deadline, clock, .. } = invocation;
    let run = match clients.begin(FUNCTION, id, (now, deadline), &clock).await {
        Ok(run) => run,
        Err(answer) => return answer,
    };
    let report = Box::pin(month_report::send(&run, clients.reported_hub())).await?;
    InvocationResponse::from_report(&report)
}
