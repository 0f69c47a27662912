//! When a checkpoint is complete, and when it may be incomplete all the same.

use jiff::Timestamp;
use model::fixture::time;

use super::*;

fn seen(entries: &[DirectoryEntry], writer: WriterState, seconds_later: i64) -> Vec<CheckpointStep> {
    let (first, mut watch) = (time("2026-09-01T12:00:00Z"), DirectoryWatch::default());
    watch.observe(entries.to_vec(), first);
    let later = first + SignedDuration::from_secs(seconds_later);
    watch.observe(entries.to_vec(), later);
    watch.steps(writer, later)
}

/// The first that is uploaded, which is certain.
#[track_caller]
fn check(entries: &[DirectoryEntry], writer: WriterState, seconds_later: i64, expect: Option<u64>) {
    check_all(entries, writer, seconds_later, &expect.map(|step| (step, false)).into_iter().collect::<Vec<_>>());
}

/// The first candidate for an upload, and the later or unverified ones, each with whether it is unverified.
#[track_caller]
fn check_all(entries: &[DirectoryEntry], writer: WriterState, seconds_later: i64, expect: &[(u64, bool)]) {
    let steps = seen(entries, writer, seconds_later);
    let order = UploadOrder::default();
    let uploaded = order
        .to_upload(&steps)
        .map(|step| (step.number.named().unwrap_or_default(), step.unverified))
        .take(expect.len().max(1));
    assert_eq!(uploaded.collect::<Vec<_>>(), expect, "{entries:?}");
}

#[test]
fn an_unchanged_checkpoint_is_complete() {
    check(&[entry("step-1")], WriterState::Running, 59, None);
    check(&[entry("step-1")], WriterState::Running, 60, Some(1));
}

#[test]
fn a_marked_checkpoint_is_complete_at_once() {
    check(&[DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("step-1") }], WriterState::Running, 0, Some(1));
    check(
        &[DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("step-1") }, entry("step-2")],
        WriterState::Running,
        0,
        Some(1),
    );
}

#[test]
fn the_files_of_a_successful_command_are_complete() {
    check(&[entry("step-1")], WriterState::Ended, 0, Some(1));
    check(&[DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("step-1") }], WriterState::Killed, 0, Some(1));
}

#[test]
fn the_last_files_of_a_killed_command_are_unverified() {
    let marked = |name| DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry(name) };
    check_all(&[entry("step-1")], WriterState::Killed, 59, &[(1, true)]);
    check_all(&[entry("step-1")], WriterState::Killed, 60, &[(1, false)]);
    check_all(&[marked("model-1.pt"), entry("optimizer-1.pt")], WriterState::Killed, 0, &[(1, true)]);
    for name in ["tmp-step-1", "step-1.partial"] {
        check(&[entry(name)], WriterState::Killed, 900, None);
    }
    check(&[DirectoryEntry { bytes: 0, ..entry("step-1") }], WriterState::Killed, 0, None);
    // A writer of markers has not finished yet.
    check_all(&[marked("step-1"), entry("step-2")], WriterState::Killed, 0, &[(1, false)]);
    assert!(!seen(&[marked("step-1"), entry("step-2")], WriterState::Killed, 0)[0].unverified);
}

#[test]
fn a_verified_checkpoint_is_uploaded_before_an_unverified_one() {
    let files =
        |names: &[&str]| names.iter().map(|name| DirectoryEntry { folder: false, ..entry(name) }).collect::<Vec<_>>();
    let mut entries = files(&["a-1", "a-2", "a-3", "a-4"]);
    (entries[0].marked_at, entries[1].marked_at) = (Some(Timestamp::MAX), Some(Timestamp::MAX));
    check_all(&entries, WriterState::Killed, 0, &[(2, false), (1, false), (4, true), (3, true)]);
    check_all(&entries, WriterState::Ended, 0, &[(4, false), (3, false), (2, false), (1, false)]);
}

#[test]
fn temporary_or_empty_files_are_never_complete() {
    check(&[entry("tmp-step-1")], WriterState::Ended, 900, None);
    check(
        &[DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("step-1.tmp") }],
        WriterState::Running,
        900,
        None,
    );
    check(&[DirectoryEntry { bytes: 0, ..entry("step-1") }], WriterState::Ended, 900, None);
}

#[test]
fn a_step_of_several_entries_is_complete_when_all_are() {
    check(
        &[entry("model-1.pt"), DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("optimizer-1.pt") }],
        WriterState::Running,
        0,
        None,
    );
    check(&[entry("model-1.pt"), entry("optimizer-1.pt")], WriterState::Running, 60, Some(1));
}

#[test]
fn an_empty_entry_is_a_flag_or_keeps_its_step_from_being_complete() {
    let flag = |name| DirectoryEntry { bytes: 0, ..entry(name) };
    check(&[entry("step-1"), flag("step-1.done")], WriterState::Running, 60, Some(1));
    check(&[entry("model-1.pt"), flag("optimizer-1.pt")], WriterState::Running, 900, None);
    check(&[flag("step-1"), flag("step-1.done")], WriterState::Ended, 900, None);
}

#[track_caller]
fn check_problem(entries: &[DirectoryEntry], writer: WriterState, seconds_later: i64, expect: Option<&str>) {
    assert_eq!(seen(entries, writer, seconds_later)[0].problem.as_deref(), expect);
}

#[test]
fn an_incomplete_step_has_a_reason_once_unchanged_or_without_writers() {
    let temporary = Some("`step-1.tmp`: it is still being written, by its name");
    check_problem(&[entry("step-1.tmp")], WriterState::Running, 59, None);
    check_problem(&[entry("step-1.tmp")], WriterState::Running, 60, temporary);
    check_problem(&[entry("step-1.tmp")], WriterState::Killed, 0, temporary);
    let empty = [entry("a-1"), DirectoryEntry { bytes: 0, ..entry("b-1") }];
    check_problem(&empty, WriterState::Running, 60, Some("`b-1`: it is empty"));
    check_problem(&[entry("step-1")], WriterState::Running, 60, None);
    check_problem(&[entry("step-1")], WriterState::Killed, 0, None);
    let marked = DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("step-1") };
    let problem = Some("`step-2`: it carries no marker, as another step does");
    check_problem(&[marked, entry("step-2")], WriterState::Killed, 0, problem);
}

#[test]
fn a_change_begins_the_wait_anew() {
    let (first, mut watch) = (time("2026-09-01T12:00:00Z"), DirectoryWatch::default());
    let at = |seconds| first + SignedDuration::from_secs(seconds);
    watch.observe(vec![entry("step-1")], at(0));
    watch.observe(vec![DirectoryEntry { bytes: 11, ..entry("step-1") }], at(50));
    let is_next =
        |second| UploadOrder::default().to_upload(&watch.steps(WriterState::Running, at(second))).next().is_some();
    assert!(!is_next(109) && is_next(110));
}

#[test]
fn beside_marked_directories_an_unchanged_one_is_not_complete() {
    let marked = DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("step-1") };
    check(&[marked.clone(), entry("step-2")], WriterState::Running, 600, Some(1));
    check(&[marked.clone(), entry("step-2")], WriterState::Killed, 600, Some(1));
    check(&[marked.clone(), entry("step-2")], WriterState::Ended, 0, Some(2));
    check(&[marked.clone(), DirectoryEntry { folder: false, ..entry("step-2") }], WriterState::Running, 600, Some(2));
    check(&[DirectoryEntry { folder: false, ..marked.clone() }, entry("step-2")], WriterState::Running, 600, Some(2));
    check(&[marked, entry("other-1")], WriterState::Running, 600, Some(1));
    // One that is gone has carried it.
    let (now, mut watch) = (time("2026-09-01T12:00:00Z"), DirectoryWatch::default());
    watch.observe(vec![DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("step-1") }], now);
    watch.observe(vec![entry("step-2")], now);
    let steps = watch.steps(WriterState::Running, now + QUIET);
    assert_eq!(steps[0].problem.as_deref(), Some("`step-2`: it carries no marker, as another step does"));
}

#[test]
fn a_marked_entry_is_stable_once_unchanged_or_without_writers() {
    let (now, mut watch) = (time("2026-09-01T12:00:00Z"), DirectoryWatch::default());
    watch.observe(vec![DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("step-1") }], now);
    let still = |writer, after| watch.steps(writer, now + after)[0].still;
    assert!(!still(WriterState::Running, SignedDuration::ZERO) && still(WriterState::Running, QUIET));
    assert!(still(WriterState::Ended, SignedDuration::ZERO) && still(WriterState::Killed, SignedDuration::ZERO));
}

#[test]
fn an_old_marker_does_not_mark_an_overwritten_file() {
    let before = entry("step-1").changed_at - SignedDuration::from_nanos(1);
    let stale = DirectoryEntry { marked_at: Some(before), ..file("step-1", 9) };
    check(std::slice::from_ref(&stale), WriterState::Running, 0, None);
    check(&[DirectoryEntry { marked_at: Some(stale.changed_at), ..stale }], WriterState::Running, 0, Some(1));
}
