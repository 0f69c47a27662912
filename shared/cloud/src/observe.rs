//! Looking: regions, instances, and what instances have been doing.

mod batch;
mod instances;
mod metric_data;
mod regions;
mod usages;

pub use instances::instances;
pub use regions::regions;
pub use usages::{Lines, usages};
