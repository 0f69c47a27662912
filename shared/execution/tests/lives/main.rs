//! Whole lives of resources over several runs: what each run did, told and remembered, as a log (`instances`, `volumes`); and of budgets,
//! what a quarter of beats leaves (`quarter`); and of what Curfew stopped, what it saved (`savings`).
//!
//! A test of resources says what the account holds, and what is known of its use. From the plan on the run is the product's: it acts,
//! tells, marks and remembers on an account in memory.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test panics where something is not as it must be")]

mod aws;
mod instances;
mod quarter;
mod savings;
mod volumes;
