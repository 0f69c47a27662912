//! AWS except the state bucket: observing, acting, notifying. The SDK's types do not leave this crate. A run calls it through the traits of
//! `ports`, and decides the order.
//!
//! Observing hardly ever fails: what it cannot see is a [`Gap`](model::observation::Gap) beside what it can. Acting reads each resource
//! again before it writes. Both fail with one error type, [`CallError`]: its text has the call, AWS's message, and what to do.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod act;
mod aws;
mod convert;
pub mod cost_explorer;
mod describe;
mod error;
mod events;
mod http_call;
pub mod jobs;
mod message_pace;
mod meter;
mod month_report;
mod observe;
#[cfg(feature = "operator")]
pub mod operator;
#[cfg(feature = "owner")]
pub mod owner;
mod prices;
mod sagemaker;
mod ses;
pub mod sns;

#[cfg(test)]
mod replay;

pub use aws::Aws;
pub use error::{CallError, CallErrorKind};
pub use observe::{
    file_system_samples, file_systems, gpu_offers, instances, regions, storage, unused_reservations, usage_history,
    volume_uses,
};
pub use prices::prices;
pub use sagemaker::observe as sagemaker;
