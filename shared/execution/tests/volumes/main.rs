//! Many simulated accounts: volumes, their owners and the instances that they are attached to over months of hourly runs, with every kind of fault,
//! under the real policy in the order of the product. An oracle, which is independent of the policy, checks what must never happen and what must
//! happen in the end.
//!
//! `cargo test -p execution --test simulation-volumes -- --help` lists the arguments; `make simulate` runs the usual amount.
#![expect(clippy::print_stdout, reason = "the result of a simulation is what it prints")]

mod account;
mod adversary;
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
mod outcomes;
mod owners;
mod random_actions;
#[path = "../simulation/schedule.rs"]
mod schedule;
#[path = "../simulation/session.rs"]
mod session;
mod settings;
mod tags;
mod tally;
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
