//! What is written of a plan, and what makes it stale.

mod audit_record;
mod still_holds;
