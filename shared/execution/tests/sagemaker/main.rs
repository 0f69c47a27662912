//! Many simulated accounts: notebook instances, Studio apps, endpoints, training jobs and their owners over months of hourly runs, with every kind
//! of fault, under the real policy in the order of the product. An oracle, which is independent of the policy, checks what must never happen and
//! what must happen in the end.
//!
//! `cargo test -p execution --test simulation-sagemaker -- --help` lists the arguments; `make simulate` runs the usual amount.
#![expect(clippy::print_stdout, reason = "the result of a simulation is what it prints")]

mod account;
mod adversary;
#[path = "../simulation/budgets.rs"]
mod budgets;
mod calls;
#[path = "../simulation/chance.rs"]
mod chance;
#[path = "../simulation/driver.rs"]
mod driver;
mod fault;
#[path = "../simulation/faults.rs"]
mod faults;
#[path = "../simulation/forged_labels.rs"]
mod forged_labels;
mod look;
#[path = "../simulation/named.rs"]
mod named;
mod oracle;
mod outcomes;
mod owners;
#[path = "../simulation/schedule.rs"]
mod schedule;
#[path = "../simulation/session.rs"]
mod session;
mod settings;
#[path = "../simulation/tags.rs"]
mod tags;
#[path = "../volumes/tally.rs"]
mod tally;
mod world;

use std::process::ExitCode;

use driver::Simulation;
use tally::SimulationTally;

fn main() -> ExitCode {
    driver::run(&Simulation {
        name: "simulation-sagemaker",
        days_of: account::days_of,
        live: account::live,
        add: SimulationTally::add,
        print: SimulationTally::print,
    })
}
