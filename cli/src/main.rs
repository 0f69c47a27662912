//! `curfew`, the command: see before you deploy, review before it acts, undo after.
//!
//! It makes no decision of its own: its results come from the crates that the functions are built on. Results go to stdout; progress, questions and
//! errors to stderr.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod command_error;
mod command_status;
mod commands;
mod context;
mod global_options;
mod list_prices;
mod named_resource;
mod node_heartbeats;
mod resolve_job;
mod screen;
mod stack_wait;
mod world;

use std::process::ExitCode;

use crate::command_error::CommandError;
use crate::command_status::CommandStatus;

fn main() -> ExitCode {
    let arguments = match arguments::read() {
        Ok(arguments) => arguments,
        Err(error) => {
            screen::complain_of_usage(&error);
            return CommandStatus::Error.into();
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            screen::complain(&CommandError::new(error));
            return CommandStatus::Error.into();
        }
    };
    let done = runtime.block_on(commands::run(arguments));
    // It does not wait for a question that a person has left unanswered.
    runtime.shutdown_background();
    match done {
        Ok(ending) => ending.into(),
        Err(failure) => {
            screen::complain(&failure);
            CommandStatus::Error.into()
        }
    }
}
