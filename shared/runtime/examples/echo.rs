//! The smallest function: answers with its settings, or panics or fails if its bucket is named so. To try `serve` by hand under
//! `integration/runtime_api.py`.

use std::process::ExitCode;

use runtime::{EventKind, Failure, FunctionSettings, Invocation, InvocationResponse, serve};

fn main() -> ExitCode {
    serve(&[EventKind::Scheduled], async |settings| settings, echo)
}

#[expect(clippy::panic, reason = "to see what becomes of a panic")]
async fn echo(settings: &FunctionSettings, invocation: Invocation) -> Result<InvocationResponse, Failure> {
    match settings.bucket.as_str() {
        "panics" => panic!("as asked for"),
        "fails" => Err(Failure::because("Asked", "as asked for")),
        bucket => Ok(InvocationResponse::from_value(&serde_json::json!({
            "bucket": bucket,
            "run": invocation.run,
            "now": invocation.now,
            "deadline": invocation.deadline,
        }))?),
    }
}
