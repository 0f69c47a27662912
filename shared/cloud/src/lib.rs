//! Everything of AWS but the state bucket: observing, acting, telling. The SDK's types do not leave this crate. A run reaches it
//! by the traits of `ports`, and says in which order.
//!
//! Observing hardly ever fails: what could not be seen is a [`Gap`](model::observed::Gap) beside what could. Acting
//! reads each resource again before it writes. Both speak of failure with one error type, [`CallError`], whose text says
//! what was called, what AWS said, and what to do.

mod act;
mod aws;
mod convert;
pub mod cost_explorer;
mod describe;
mod error;
pub mod jobs;
mod observe;
#[cfg(feature = "operator")]
pub mod operator;
mod ports_impl;
mod prices;
pub mod sns;

#[cfg(test)]
mod replay;

pub use aws::Aws;
pub use error::{CallError, CallErrorKind};
pub use observe::{beats, instances, regions, storage, volume_uses};
pub use prices::prices;
