//! Checkpoints of any framework, as a directory shows them, and as the bucket keeps them. Three ideas carry all of it.
//!
//! - **A step by key.** An entry of the checkpoint directory belongs to the step that its marker or its name says ([`step_of`]). Entries of one step,
//!   such as `model-500.pt` and `optimizer-500.pt`, are one checkpoint. Where a name has several numbers and no key, the time says which is newer.
//! - **A snapshot by time.** What has no number is written over: all of it together is one checkpoint, with the number of the newest step that is
//!   kept, and counts as newer than that. Small files without a number go with each step ([`COMPANION_BYTES_MAX`]).
//! - **A marker ends the wait.** A checkpoint is **complete** if and only if each of its entries is fit ([`DirectoryEntry::unfit`]), is not empty
//!   or only the flag of another one, and has a marker ([`is_marker`]), or has not changed for [`QUIET`], or the command has ended. If a directory of
//!   another step had a marker, an unchanged directory is not enough, nor is an end without success: its writer only paused.
//!
//! A complete one is **unverified** where the command has ended in another way than with success, and some of it neither carries a marker
//! nor was quiet; and where files that are written over are never quiet, and only paused. It may be incomplete, and most often is not. It
//! is kept beside the newest certain one ([`to_keep`]).
//!
//! In the bucket a checkpoint is complete if its manifest is there, which is written last, and it counts if `head.json` named it.

mod entry_kind;
mod manifest;
mod markers;
mod name;
mod order;
mod pattern;
mod progress;
mod retention;
mod selection;
mod tracker;
mod unfinished;
mod watch;

use jiff::SignedDuration;

pub use entry_kind::{is_record, is_text};
pub use manifest::{MANIFEST_FILE, Manifest, ManifestFile, ManifestLink, PartDigest, check_path};
pub use markers::{COMPLETE, index_of, is_marker, is_whole_index, marked_step, marker_names};
pub use name::{NamedStep, step_of};
pub use order::{Precedence, UploadOrder};
pub use pattern::{check_pattern, matches_pattern};
pub use progress::{CheckpointProgress, UnsavedWork};
pub use retention::{BESIDE_MAX, StoredCheckpoint, place_of, to_keep, to_prune, to_put_beside, to_restore};
pub use selection::{PathOfStep, best_named, kept_by_framework, put_best_first, resume_path, rewritten};
pub use tracker::{PointerTarget, TRACKER_BYTES_MAX, Tracker, points_to};
pub use unfinished::{is_temporary, marked_as_unfinished};
pub use watch::{
    COMPANION_BYTES_MAX, CheckpointStep, DirectoryEntry, DirectorySummary, DirectoryWatch, QUIET, StepNumber,
    WriterState,
};

/// A command that fails this soon after it resumed from a checkpoint, before any upload, may have failed because of that checkpoint: it runs again
/// from the previous one. Reading a checkpoint takes minutes, and a later failure has another cause.
pub const DOUBTED_FOR: SignedDuration = SignedDuration::from_mins(30);

#[cfg(test)]
mod tests;
