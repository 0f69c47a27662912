//! What only people ask for: review, undo, keep, and what a doctor finds.
//!
//! Pure: no I/O, no async, no clock, no environment. Time is an argument, and the same arguments give the same answer.

pub mod doctor;
pub mod keep;
pub mod review;
pub mod undo;
