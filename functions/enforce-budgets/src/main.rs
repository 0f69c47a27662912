//! `enforce-budgets`: keeps the ledger of what GPUs cost, and holds teams to their budgets.
//!
//! Runs every quarter of an hour, and on notifications of AWS Budgets: observe every region, record what runs, decide, notify, report. It
//! stops nothing. In the account of an organization's hub it also sums the budgets that accounts share.

use std::process::ExitCode;

use execution::budgets;
use runtime::{Clients, EventKind, Failure, Invocation, InvocationResponse};

const FUNCTION: &str = "enforce-budgets";

fn main() -> ExitCode {
    runtime::serve(
        &[EventKind::Scheduled, EventKind::BudgetNotification],
        async |settings| Clients::connect(FUNCTION, settings).await,
        enforce,
    )
}

async fn enforce(clients: &Clients, invocation: Invocation) -> Result<InvocationResponse, Failure> {
    clients
        .run(FUNCTION, invocation, async |run, _| {
            let report = Box::pin(budgets::enforce(run, clients.reported_hub())).await?;
            InvocationResponse::from_report(&report)
        })
        .await
}
