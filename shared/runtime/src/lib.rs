//! Shared base of every Lambda function: settings, clients, logs, the clock, and the loop that answers events.
//!
//! The only crate that names `lambda_runtime`, and the only one that reads the environment and the clock. A function's `main` is
//! `runtime::serve(known, start, handle)`: `known` are the events that it handles, `start` makes the clients, once; `handle` answers one
//! event.
//!
//! Three kinds of errors have a message, and never just a dead process:
//! - a wrong environment, as Lambda's init error and in the log;
//! - an event that is not for this function, garbled ones included, as the error of its invocation;
//! - a failure or a panic of the handler, as the error of its invocation. The process continues.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod clients;
mod environment;
mod event;
mod failure;
mod invocation;
mod logs;
mod serve;
mod settings;

pub use clients::Clients;
pub use environment::agents;
pub use event::{Event, EventKind, InstanceEvent, ObjectCreated, ReplyRequest, UnexpectedEvent};
pub use failure::Failure;
pub use invocation::{Invocation, InvocationResponse};
pub use serve::serve;
pub use settings::{FunctionSettings, SettingsError};
