//! The decisions behind commands of people: review, undo, keep, doctor and watch.
//!
//! Pure: no I/O, no async, no clock, no environment. Time is an argument, and the same arguments give the same answer.

pub mod doctor;
pub mod input_access;
pub mod keep;
pub mod review;
pub mod undo;
pub mod watch;
