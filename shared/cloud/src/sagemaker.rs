//! `SageMaker`: what runs, whether it is used, and the calls that end it. Without the SDK, which is as large as that of EC2: the answers are
//! JSON, and of each a few fields matter.

mod act;
mod activity;
mod bill;
mod calls;
mod describe;
mod observe;
#[cfg(feature = "operator")]
mod operator;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use act::write;
pub(crate) use bill::bills;
pub(crate) use describe::describe;
pub use observe::observe;
#[cfg(feature = "operator")]
pub use operator::{create_endpoint, set_copies, start_notebook};
#[cfg(feature = "operator")]
pub(crate) use operator::{find, is_id};
