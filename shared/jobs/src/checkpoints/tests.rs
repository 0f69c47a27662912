mod complete;
mod manifest;
mod numberless;
mod order;
mod retention;
mod selection;
mod wholeness;

use model::fixture::time;

use super::super::{Checkpoint, Head};
use super::*;

fn entry(name: &str) -> DirectoryEntry {
    let changed_at = time("2026-09-01T11:00:00Z");
    let unfit = is_temporary(name).then(|| "it is still being written, by its name".to_owned());
    DirectoryEntry {
        name: name.to_owned(),
        folder: true,
        bytes: 10,
        files: 1,
        begun_at: changed_at,
        changed_at,
        marked_at: None,
        marked_step: None,
        is_included: false,
        unfit,
    }
}

fn file(name: &str, bytes: u64) -> DirectoryEntry {
    DirectoryEntry { folder: false, bytes, ..entry(name) }
}

/// The looks at a directory, `(second, entries)`, and what the last of them shows.
fn watched(looks: &[(i64, Vec<DirectoryEntry>)], writer: WriterState) -> Vec<CheckpointStep> {
    let (start, mut watch) = (time("2026-09-01T12:00:00Z"), DirectoryWatch::default());
    let mut now = start;
    for (second, entries) in looks {
        now = start + SignedDuration::from_secs(*second);
        watch.observe(entries.clone(), now);
    }
    watch.steps(writer, now)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn checkpoint_at(attempt: u32, step: u64) -> Checkpoint {
    Checkpoint { attempt, step, rewrite: 0 }
}

/// What an attempt kept of a step that it had kept before.
fn again(attempt: u32, step: u64, rewrite: u32) -> Checkpoint {
    Checkpoint { rewrite, ..checkpoint_at(attempt, step) }
}

fn manifest(path: &str, bytes: u64, sums: usize) -> Manifest {
    let file = ManifestFile { path: path.to_owned(), bytes, part_bytes: 4, sha256: vec![String::new(); sums] };
    let at = time("2026-09-01T12:00:00Z");
    Manifest {
        schema: 1,
        attempt: 2,
        step: 7,
        rewrite: 0,
        at,
        bytes,
        files: vec![file],
        links: Vec::new(),
        folders: Vec::new(),
        ..Manifest::default()
    }
}
