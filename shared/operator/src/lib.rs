//! The decisions behind commands of people: review, undo, keep, doctor and watch.
//!
//! Pure: no I/O, no async, no clock, no environment. Time is an argument, and the same arguments give the same answer.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod box_ssh;
pub mod config_effects;
pub mod doctor;
pub mod gpu_metrics;
pub mod input_access;
pub mod instance_name;
pub mod keep;
pub mod leftovers;
pub mod mode_change;
pub mod observed_actions;
pub mod organization;
pub mod reply;
pub mod review;
pub mod run_summary;
pub mod stack_state;
pub mod team_role_rules;
pub mod undo;
pub mod watch;
