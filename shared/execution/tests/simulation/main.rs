//! Many simulated accounts: instances and owners over months of 5-minute ticks, with every kind of fault, under the real policy in the order of the
//! product. An oracle, which is independent of the policy, checks what must never happen and what must happen in the end.
//!
//! `cargo test -p execution --test simulation -- --help` lists the arguments; `make simulate` runs the usual amount.
#![expect(clippy::print_stdout, reason = "the result of a simulation is what it prints")]

mod account;
mod adversary;
mod bill;
mod budgets;
mod chance;
mod driver;
mod ec2;
mod explained;
mod fault;
mod faults;
mod forged_labels;
mod jobs;
mod listing;
mod look;
mod metrics;
mod named;
mod oracle;
mod owners;
mod schedule;
mod session;
mod settings;
mod tags;
mod tally;
mod world;

use std::process::ExitCode;

use driver::Simulation;
use tally::SimulationTally;

fn main() -> ExitCode {
    let is_bill_only = std::env::args().skip(1).eq(["--bill"]);
    // `cargo test` without arguments checks both.
    if (is_bill_only || std::env::args().len() == 1) && !bill::check() {
        return ExitCode::FAILURE;
    }
    if is_bill_only {
        return ExitCode::SUCCESS;
    }
    driver::run(&Simulation {
        name: "simulation",
        days_of: account::days_of,
        live: account::live,
        add: SimulationTally::add,
        print: SimulationTally::print,
    })
}
