//! `send-report`: writes the report of the month each day, and sends its digest.
//!
//! In the account of an organization's hub it can report on all accounts as well. It reads the state bucket, asks EC2 and CloudWatch how hard the dearest instances worked, and changes no resource.

use std::process::ExitCode;

use execution::month_report;
use runtime::{Clients, EventKind, Failure, FunctionSettings, HubStore, Invocation, InvocationResponse};

const FUNCTION: &str = "send-report";

fn main() -> ExitCode {
    runtime::serve(
        &[EventKind::Scheduled],
        async |settings| {
            let FunctionSettings { hub_bucket, reports_organization, .. } = settings.clone();
            let (clients, hub) = Clients::connect(FUNCTION, settings).await.publishing_to(hub_bucket);
            (clients, hub.filter(|_| reports_organization))
        },
        send,
    )
}

async fn send(
    (clients, hub): &(Clients, Option<HubStore>),
    invocation: Invocation,
) -> Result<InvocationResponse, Failure> {
    let Invocation { run: id, now, deadline, clock, .. } = invocation;
    let run = clients.run(FUNCTION, id, (now, deadline), &clock);
    let report = Box::pin(month_report::send(&run, hub.as_ref())).await?;
    InvocationResponse::from_report(&report)
}
