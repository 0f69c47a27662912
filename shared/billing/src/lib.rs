//! Prices and their sources, runs and their cost, and the status of budgets.
//!
//! Pure: no I/O, no async, no clock, no environment. Time is an argument, and the same arguments give the same answer.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod budget;
pub mod energy;
pub mod ledger;
pub mod price;
pub mod restoration;
pub mod savings;
