//! The rules, one file each. Each begins with what the rule means.

pub mod expired;
pub mod hours;
pub mod idle;
pub mod lifetime;
pub mod orphaned;
pub mod over_budget;
pub mod untagged;
