//! Resources over several runs: a log of what each run did, notified and remembered (`instances`, `volumes`); a quarter of beats for budgets
//! (`quarter`); and what Curfew's stops saved (`savings`).
//!
//! A test of resources states what the account holds and how it is used. The plan and the run are the product's: it acts, notifies, marks and
//! remembers on an account in memory.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test panics where something is not as it must be")]

mod aws;
mod instances;
mod quarter;
mod savings;
mod volumes;
