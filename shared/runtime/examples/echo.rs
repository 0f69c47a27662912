//! The smallest function: answers who it is, or panics or fails where its bucket is named so. For trying `serve` by hand
//! under `integration/runtime_api.py`.

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
