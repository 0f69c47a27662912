//! Jobs, as EC2 and Systems Manager know them: where one can be launched, from which image, and its machine.
//!
//! Nothing here decides: `jobs` ranks pools, interprets refusals and terminates machines.

mod answer_cache;
mod image;
mod launch;
mod machine;
pub(crate) mod pools;
pub(crate) mod quotas;
mod refusal;

pub use answer_cache::AnswerCache;
pub use launch::{LaunchOrder, launch};
pub use machine::{MachineObservation, observe_machines, terminate};
