//! The smallest function: answers who it is, or panics or fails where its bucket is named so. For trying `serve` by hand
//! under `integration/runtime_api.py`.

use std::process::ExitCode;

use runtime::{Answer, EventKind, Failure, Invocation, Settings, serve};

fn main() -> ExitCode {
    serve(&[EventKind::Scheduled], async |settings| settings, echo)
}

#[expect(clippy::panic, reason = "to see what becomes of a panic")]
async fn echo(settings: &Settings, invocation: Invocation) -> Result<Answer, Failure> {
    match settings.bucket.as_str() {
        "panics" => panic!("as asked for"),
        "fails" => Err(Failure::because("Asked", "as asked for")),
        bucket => Ok(Answer::of(&serde_json::json!({
            "bucket": bucket,
            "run": invocation.run,
            "now": invocation.now,
            "deadline": invocation.deadline,
        }))?),
    }
}
