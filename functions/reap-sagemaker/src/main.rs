//! `reap-sagemaker`: ends what idles under `SageMaker`, in a way that can be undone.
//!
//! Runs every hour: observe every region, decide, act, report.

use std::process::ExitCode;

use execution::sagemaker;
use runtime::{Clients, EventKind, Failure, Invocation, InvocationResponse};

const FUNCTION: &str = "reap-sagemaker";

fn main() -> ExitCode {
    runtime::serve(&[EventKind::Scheduled], async |settings| Clients::connect(FUNCTION, settings).await, reap)
}

async fn reap(clients: &Clients, invocation: Invocation) -> Result<InvocationResponse, Failure> {
    clients
        .run(FUNCTION, invocation, async |run, _| {
            let report = sagemaker::plan(run).await?.carry_out(run).await;
            InvocationResponse::from_report(&report)
        })
        .await
}
