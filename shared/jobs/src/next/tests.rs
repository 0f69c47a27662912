//! One `check`: what is given, and in a line where the job stands then, and what is done.

mod boxes;
mod deadline;
mod denials;
mod dependencies;
pub(crate) mod fixture;
mod gangs;
mod groups;
mod launching;
mod limits;
mod lives;
mod lost;
mod machine_hold;
mod over;
mod placing;
mod progress;
mod refusals;
pub(crate) mod retry;
mod running;
mod takeover;
mod totality;
mod wanting;
mod without_heartbeat;
mod world;
