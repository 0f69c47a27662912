//! `curfew`, the command: see before you deploy, review before it acts, undo after.
//!
//! It makes no decision of its own: what it says and does comes from the crates that the functions are built on. Results go to
//! stdout; progress, questions and errors to stderr.

mod arguments;
mod commands;
mod context;
mod ending;
mod failure;
mod meant;
mod named;
mod screen;
mod world;

use std::process::ExitCode;

use crate::ending::Ending;

fn main() -> ExitCode {
    let arguments = arguments::read();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            anstream::eprintln!("error: {error}");
            return Ending::Trouble.into();
        }
    };
    match runtime.block_on(commands::run(arguments)) {
        Ok(ending) => ending.into(),
        Err(failure) => {
            screen::complain(&failure);
            Ending::Trouble.into()
        }
    }
}
