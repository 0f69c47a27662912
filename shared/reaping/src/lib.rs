//! The rules, and what they decide about instances, volumes, `SageMaker`'s resources and budgets.
//!
//! Pure: no I/O, no async, no clock, no environment. Time is an argument, and the same arguments give the same answer.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod budgets;
mod engine;
pub mod explain;
pub mod file_systems;
pub mod instances;
pub mod job_ownership;
mod long_window;
pub mod policy;
pub mod reservations;
pub mod rules;
pub mod sagemaker;
pub mod scan;
pub mod subject;
pub mod volumes;

#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
