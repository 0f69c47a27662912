//! Curfew's vocabulary: ids, money, time, tags, configuration, instances, volumes, `SageMaker`'s resources and usage.
//!
//! Pure: no I/O, no async, no clock, no environment. Time is an argument, and the same arguments give the same answer.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod account;
pub mod bytes;
pub mod capacity_reservation;
pub mod ceiling;
pub mod channels;
pub mod config;
pub mod curfew_tags;
pub mod digest;
pub mod document;
pub mod duration;
pub mod fault;
pub mod file_system;
pub mod foreign;
pub mod foreign_text;
pub mod gang;
pub mod home;
pub mod hours;
pub mod id;
pub mod image_source;
pub mod input_source;
pub mod instance;
pub mod instance_family;
pub mod known_sum;
pub mod listing;
pub mod mark;
pub mod mode;
pub mod moment;
pub mod money;
pub mod near_keys;
pub mod notification_log;
pub mod observation;
pub mod ownership;
pub mod partition;
pub mod quota;
pub mod refusal;
pub mod region;
pub mod reply_link;
pub mod rule;
pub mod sagemaker;
pub mod subscriptions;
pub mod table;
pub mod team_folder;
pub mod team_role;
pub mod time_zone;
pub mod usage;
pub mod volume;

#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
