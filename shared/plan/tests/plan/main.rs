//! The audit record of a plan, and the changes that make a step stale.

mod audit_record;
mod still_holds;
