//! `SageMaker`: what runs, whether it is used, and the calls that end it. Without the SDK, which is as large as that of EC2: the answers are
//! JSON, and of each a few fields matter.

mod act;
mod activity;
mod bill;
mod calls;
mod describe;
mod observe;
#[cfg(feature = "owner")]
mod owner;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use act::write;
pub(crate) use bill::bills;
pub(crate) use describe::describe;
pub use observe::observe;
#[cfg(feature = "owner")]
pub use owner::start_notebook;
#[cfg(feature = "operator")]
pub use owner::{create_endpoint, set_copies};
#[cfg(feature = "owner")]
pub(crate) use owner::{find, is_id};
