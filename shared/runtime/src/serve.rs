//! The loop: an event from Lambda, its answer to Lambda, until Lambda stops the process.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures::FutureExt;
use lambda_runtime::tower::util::MapRequestLayer;
use lambda_runtime::{Diagnostic, LambdaEvent, LambdaInvocation, Runtime, service_fn};
use lambda_runtime_api_client::body::Body;
use lambda_runtime_api_client::build_request;
use model::fault::{Bug, error_sentence};

use crate::environment::variable;
use crate::{Event, EventKind, Failure, FunctionSettings, Invocation, InvocationResponse, UnexpectedEvent, logs};

/// Variables that Lambda sets for every function (Lambda developer guide, "Using the Lambda runtime API for custom runtimes" and "Defined
/// runtime environment variables"), and `lambda_runtime` panics without.
const OF_LAMBDA: [&str; 4] = [
    "AWS_LAMBDA_RUNTIME_API",
    "AWS_LAMBDA_FUNCTION_NAME",
    "AWS_LAMBDA_FUNCTION_VERSION",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
];

/// The timeout for sending an init error; the log has it anyway.
const INIT_ERROR_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves the events that the function handles until Lambda stops the process: `start` makes what all of them share, once, before the first
/// poll; `handle` answers one. The process exits by itself only if the environment is wrong, or Lambda is gone.
#[must_use]
pub fn serve<C>(
    known: &'static [EventKind],
    start: impl AsyncFnOnce(FunctionSettings) -> C,
    handle: impl AsyncFn(&C, Invocation) -> Result<InvocationResponse, Failure>,
) -> ExitCode {
    logs::start(variable);
    // One thread: at 128 MB Lambda gives a fraction of one core (Lambda developer guide, "Configure Lambda function memory").
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("the function cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(live(known, start, handle)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tracing::error!(kind = failure.kind, "{}", failure.message);
            ExitCode::FAILURE
        }
    }
}

async fn live<C>(
    known: &'static [EventKind],
    start: impl AsyncFnOnce(FunctionSettings) -> C,
    handle: impl AsyncFn(&C, Invocation) -> Result<InvocationResponse, Failure>,
) -> Result<(), Failure> {
    if let Some(missing) = OF_LAMBDA.iter().find(|name| variable(name).is_none()) {
        return Err(Failure::because(
            "NotLambda",
            format!("{missing} is not set: AWS Lambda, or a stand-in, starts this program"),
        ));
    }
    let settings = match FunctionSettings::read(variable) {
        Ok(settings) => settings,
        Err(error) => {
            let failure = Failure::from(error);
            report_init_error(&failure).await;
            return Err(failure);
        }
    };
    let shared = start(settings).await;
    let service = service_fn(|event| handle_event(&shared, &handle, event));
    let read = move |invocation| read_event(invocation, known);
    let served = Runtime::new(service).layer(MapRequestLayer::new(read)).run().await;
    served.map_err(|error| {
        Failure::because(
            "RuntimeApi",
            format!("Lambda's runtime API does not answer: {}", error_sentence(error.as_ref())),
        )
    })
}

/// The event of a payload.
type ReadEvent = Result<Event, UnexpectedEvent>;

/// Reads the event before `lambda_runtime` does, and passes it on: `lambda_runtime` has its own error for a payload that is not JSON, and
/// dies while it traces one that is not UTF-8.
fn read_event(mut invocation: LambdaInvocation, known: &[EventKind]) -> LambdaInvocation {
    let woken: ReadEvent = Event::read(&invocation.body, known);
    invocation.body = serde_json::to_vec(&woken).unwrap_or_default().into();
    invocation
}

/// Answers one event. Whatever fails is logged here, once.
async fn handle_event<C>(
    shared: &C,
    handle: &impl AsyncFn(&C, Invocation) -> Result<InvocationResponse, Failure>,
    woken: LambdaEvent<ReadEvent>,
) -> Result<InvocationResponse, Diagnostic> {
    let began = Instant::now();
    let request = woken.context.request_id.clone();
    let answered = match woken.payload {
        Ok(event) => unwound(handle(shared, Invocation::beginning_now(event, &woken.context))).await,
        Err(unexpected) => Err(unexpected.into()),
    };
    let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    match answered {
        Ok(answer) => {
            tracing::info!(request, milliseconds, bytes = answer.len(), "answered");
            Ok(answer)
        }
        Err(failure) => {
            tracing::error!(request, milliseconds, kind = failure.kind, "{}", failure.message);
            Err(failure.into())
        }
    }
}

/// Makes a panic a failure of this one invocation: the process survives it.
async fn unwound(
    run: impl Future<Output = Result<InvocationResponse, Failure>>,
) -> Result<InvocationResponse, Failure> {
    AssertUnwindSafe(run).catch_unwind().await.unwrap_or_else(|panic| {
        let bug = Bug::from_panic(panic.as_ref());
        Err(Failure::because("Panic", format!("the function panicked: {bug}; the log has the place")))
    })
}

/// Reports to Lambda why the function cannot start (Lambda developer guide, "Using the Lambda runtime API for custom runtimes",
/// "Initialization error"). `lambda_runtime` does so only for its own reasons.
async fn report_init_error(failure: &Failure) {
    let report = async {
        let body = serde_json::to_string(&Diagnostic::from(failure.clone()))?;
        let request = build_request()
            .method("POST")
            .uri("/2018-06-01/runtime/init/error")
            .header("Lambda-Runtime-Function-Error-Type", format!("Runtime.{}", failure.kind))
            .body(Body::from(body))?;
        let client = lambda_runtime_api_client::Client::builder().build()?;
        client.call(request).await
    };
    match tokio::time::timeout(INIT_ERROR_TIMEOUT, report).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::error!("Lambda was not notified: {}", error_sentence(error.as_ref())),
        Err(_) => tracing::error!("Lambda was not notified: it does not answer"),
    }
}
