//! One `check`: what is given, and in a line where the job stands then, and what is done.

pub(in crate::job) mod fixture;
mod launching;
mod limits;
mod lives;
mod over;
mod placing;
mod running;
mod totality;
mod unheard;
mod wanting;
mod world;
