//! Jobs, as EC2 and Systems Manager know them: where one can be launched, from which image, and its machine.
//!
//! Nothing here decides: which pool comes first, what a refusal means for a job and when its machine is ended is `domain::job`.

mod asked;
mod image;
mod launch;
mod machine;
mod pools;
mod refusal;

pub use asked::Asked;
pub use launch::{Order, launch};
pub use machine::{Looked, look, terminate};
