//! What Curfew knows and decides: nouns, policies and plans.
//!
//! Pure: no I/O, no async, no clock, no environment. Time is an argument, and the same arguments give the same answer.

pub mod budget;
pub mod config;
pub mod doctor;
mod document;
pub mod duration;
pub mod fault;
pub mod foreign;
pub mod hours;
pub mod id;
pub mod instance;
pub mod job;
pub mod keep;
pub mod ledger;
pub mod limits;
pub mod mark;
pub mod mode;
pub mod moment;
pub mod money;
pub mod news;
pub mod notices;
pub mod observed;
pub mod plan;
pub mod policy;
pub mod price;
pub mod report;
pub mod restoration;
pub mod review;
pub mod rule;
pub mod scan;
pub mod undo;
pub mod usage;
pub mod vocabulary;
pub mod volume;

#[cfg(test)]
mod fixture;
