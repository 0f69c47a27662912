//! A simulated account, and many of them: volumes, their owners and the instances that they hang on over months of hourly
//! looks, with everything that goes wrong, under the real policy in the order of the product; and an oracle, which knows
//! nothing of the policy, that says what must never happen and what must happen in the end.
//!
//! `cargo test -p execution --test simulation-volumes -- --help` lists the arguments; `make simulate` runs the usual amount.
#![expect(clippy::print_stdout, reason = "the result of a simulation is what it prints")]

mod account;
#[path = "../simulation/chance.rs"]
mod chance;
#[path = "../simulation/driver.rs"]
mod driver;
mod ec2;
mod fault;
#[path = "../simulation/faults.rs"]
mod faults;
mod look;
#[path = "../simulation/named.rs"]
mod named;
mod oracle;
mod owners;
#[path = "../simulation/schedule.rs"]
mod schedule;
#[path = "../simulation/session.rs"]
mod session;
mod settings;
mod tags;
mod tally;
mod whims;
mod world;

use std::process::ExitCode;

use driver::Simulation;
use tally::SimulationTally;

fn main() -> ExitCode {
    driver::run(&Simulation {
        name: "simulation-volumes",
        days_of: account::days_of,
        live: account::live,
        add: SimulationTally::add,
        print: SimulationTally::print,
    })
}
