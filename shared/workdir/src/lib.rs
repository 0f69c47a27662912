//! The directory of code that a job brings along, as one archive: [`pack()`] where the job is submitted, [`unpack()`] on its machine.
//!
//! An archive is a GNU tar, compressed by Zstandard (RFC 8878). Of a file it has the path, the content and whether it is executable: no time, no
//! owner, no order of a disk. So equal directories have equal archives, and an archive is uploaded once.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod pack;
mod unpack;

pub use pack::{LeftOut, LeftOutReason, PackError, PackedWorkdir, StrayLink, pack};
pub use unpack::{InTheWay, MovedEntry, UnpackError, UnpackedWorkdir, unpack};

#[cfg(test)]
mod tests;
