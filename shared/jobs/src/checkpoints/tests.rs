use std::collections::BTreeSet;

use jiff::Timestamp;
use model::fixture::time;

use super::super::{Checkpoint, Head};
use super::*;

#[test]
fn steps_are_compared_as_numbers() {
    let mut watch = DirectoryWatch::default();
    watch.observe(vec![entry("step-9000"), entry("step-10000")], time("2026-09-01T12:00:00Z"));
    let steps = watch.steps(WriterState::Ended, time("2026-09-01T12:00:00Z"));
    assert_eq!(to_upload(&steps, None, None).next().map(|step| step.number.named().unwrap_or_default()), Some(10_000));
}

#[test]
fn the_files_that_a_checkpoint_is_split_into_are_one_checkpoint() {
    let mut watch = DirectoryWatch::default();
    let names = ["ckpt-500.data-00000-of-00002", "ckpt-500.data-00001-of-00002", "ckpt-500.index"];
    watch.observe(names.map(entry).to_vec(), time("2026-09-01T12:00:00Z"));
    let steps = watch.steps(WriterState::Ended, time("2026-09-01T12:00:00Z"));
    let found: Vec<(u64, usize)> =
        steps.iter().map(|step| (step.number.named().unwrap_or_default(), step.entries.len())).collect();
    assert_eq!(found, [(500, 3)]);
}

fn entry(name: &str) -> DirectoryEntry {
    let changed_at = time("2026-09-01T11:00:00Z");
    let unfit = is_temporary(name).then(|| "it is still being written, by its name".to_owned());
    DirectoryEntry {
        name: name.to_owned(),
        folder: true,
        bytes: 10,
        files: 1,
        changed_at,
        marked_at: None,
        marked_step: None,
        is_included: false,
        unfit,
    }
}

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

/// The first that is uploaded, and those that are only tried after it or doubtful, each with whether it is.
#[track_caller]
fn check_all(entries: &[DirectoryEntry], writer: WriterState, seconds_later: i64, expect: &[(u64, bool)]) {
    let steps = seen(entries, writer, seconds_later);
    let uploaded = to_upload(&steps, None, None)
        .map(|step| (step.number.named().unwrap_or_default(), step.unverified))
        .take(expect.len().max(1));
    assert_eq!(uploaded.collect::<Vec<_>>(), expect, "{entries:?}");
}

#[test]
fn what_does_not_change_for_a_while_is_complete() {
    check(&[entry("step-1")], WriterState::Running, 59, None);
    check(&[entry("step-1")], WriterState::Running, 60, Some(1));
}

#[test]
fn what_carries_a_marker_is_complete_at_once() {
    check(&[DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("step-1") }], WriterState::Running, 0, Some(1));
    check(
        &[DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("step-1") }, entry("step-2")],
        WriterState::Running,
        0,
        Some(1),
    );
}

#[test]
fn what_a_command_wrote_that_ended_by_itself_is_complete() {
    check(&[entry("step-1")], WriterState::Ended, 0, Some(1));
    check(&[DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("step-1") }], WriterState::Killed, 0, Some(1));
}

#[test]
fn what_a_killed_command_wrote_last_is_complete_and_doubtful() {
    let marked = |name| DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry(name) };
    check_all(&[entry("step-1")], WriterState::Killed, 59, &[(1, true)]);
    check_all(&[entry("step-1")], WriterState::Killed, 60, &[(1, false)]);
    check_all(&[marked("model-1.pt"), entry("optimizer-1.pt")], WriterState::Killed, 0, &[(1, true)]);
    for name in ["tmp-step-1", "step-1.partial"] {
        check(&[entry(name)], WriterState::Killed, 900, None);
    }
    check(&[DirectoryEntry { bytes: 0, ..entry("step-1") }], WriterState::Killed, 0, None);
    // Who marks has not come to the end.
    check_all(&[marked("step-1"), entry("step-2")], WriterState::Killed, 0, &[(1, false)]);
    assert!(!seen(&[marked("step-1"), entry("step-2")], WriterState::Killed, 0)[0].unverified);
}

#[test]
fn what_is_certain_is_uploaded_before_what_is_doubtful() {
    let files =
        |names: &[&str]| names.iter().map(|name| DirectoryEntry { folder: false, ..entry(name) }).collect::<Vec<_>>();
    let mut entries = files(&["a-1", "a-2", "a-3", "a-4"]);
    (entries[0].marked_at, entries[1].marked_at) = (Some(Timestamp::MAX), Some(Timestamp::MAX));
    check_all(&entries, WriterState::Killed, 0, &[(2, false), (1, false), (4, true), (3, true)]);
    check_all(&entries, WriterState::Ended, 0, &[(4, false), (3, false), (2, false), (1, false)]);
}

#[test]
fn what_is_temporary_or_empty_is_never_complete() {
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
fn why_a_step_is_not_complete_is_said_once_it_is_quiet_or_nobody_writes() {
    let temporary = Some("`step-1.tmp`: it is still being written, by its name");
    check_problem(&[entry("step-1.tmp")], WriterState::Running, 59, None);
    check_problem(&[entry("step-1.tmp")], WriterState::Running, 60, temporary);
    check_problem(&[entry("step-1.tmp")], WriterState::Killed, 0, temporary);
    let empty = [entry("a-1"), DirectoryEntry { bytes: 0, ..entry("b-1") }];
    check_problem(&empty, WriterState::Running, 60, Some("`b-1`: it is empty"));
    check_problem(&[entry("step-1")], WriterState::Running, 60, None);
    check_problem(&[entry("step-1")], WriterState::Killed, 0, None);
    let marked = DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("step-1") };
    let unmarked = Some("`step-2`: it carries no marker, as another step does");
    check_problem(&[marked, entry("step-2")], WriterState::Killed, 0, unmarked);
}

#[test]
fn a_lower_step_that_comes_later_is_noticed() {
    let mut watch = DirectoryWatch::default();
    watch.observe(vec![entry("step-3"), entry("step-4"), entry("step-9")], time("2026-09-01T12:00:00Z"));
    let steps = watch.steps(WriterState::Ended, time("2026-09-01T12:00:00Z"));
    let late = |known: &[u64]| {
        overtaken(&steps, 9, &known.iter().copied().collect()).map(|step| step.number.named().unwrap_or_default())
    };
    assert_eq!([late(&[3, 4, 9]), late(&[3, 9])], [None, Some(4)]);
}

#[test]
fn a_change_begins_the_wait_anew() {
    let (first, mut watch) = (time("2026-09-01T12:00:00Z"), DirectoryWatch::default());
    let at = |seconds| first + SignedDuration::from_secs(seconds);
    watch.observe(vec![entry("step-1")], at(0));
    watch.observe(vec![DirectoryEntry { bytes: 11, ..entry("step-1") }], at(50));
    assert_eq!(to_upload(&watch.steps(WriterState::Running, at(109)), None, None).next(), None);
    assert!(to_upload(&watch.steps(WriterState::Running, at(110)), None, None).next().is_some());
}

#[test]
fn where_others_carry_a_marker_being_quiet_is_not_enough() {
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

fn step(entry: DirectoryEntry) -> Vec<CheckpointStep> {
    let now = time("2026-09-01T12:00:00Z");
    let mut watch = DirectoryWatch::default();
    watch.observe(vec![entry], now);
    watch.steps(WriterState::Ended, now)
}

#[test]
fn what_is_written_to_after_it_was_kept_is_noticed_and_what_is_deleted_is_not() {
    let kept = step(entry("step-1")).remove(0);
    let (later, sooner) =
        (kept.changed_at + SignedDuration::from_nanos(1), kept.changed_at - SignedDuration::from_nanos(1));
    let noticed = |now: DirectoryEntry| rewritten(&step(now), &kept).is_some();
    assert!(!noticed(entry("step-1")) && !noticed(entry("step-2")));
    assert!(noticed(DirectoryEntry { changed_at: later, bytes: 1, ..entry("step-1") }));
    assert!(
        noticed(DirectoryEntry { bytes: 11, ..entry("step-1") })
            && noticed(DirectoryEntry { files: 2, ..entry("step-1") })
    );
    assert!(
        noticed(DirectoryEntry { bytes: 9, ..entry("step-1") })
            && noticed(DirectoryEntry { changed_at: sooner, ..entry("step-1") })
    );
    assert!(!noticed(DirectoryEntry { bytes: 5, files: 0, changed_at: Timestamp::MIN, ..entry("step-1") }));
}

#[test]
fn what_is_written_over_has_come_to_an_end_by_a_marker_that_is_as_new_as_the_rest() {
    let (now, changed_at) = (time("2026-09-01T12:00:00Z"), entry("step-1").changed_at);
    let is_settled = |marked_at: [Option<Timestamp>; 2], writer, after: i64| {
        let names = ["model-1", "optimizer-1"].into_iter().zip(marked_at);
        let mut watch = DirectoryWatch::default();
        watch.observe(names.map(|(name, marked_at)| DirectoryEntry { marked_at, ..entry(name) }).collect(), now);
        watch.steps(writer, now + SignedDuration::from_secs(after))[0].settled
    };
    let (before, anew) = (Some(changed_at - SignedDuration::from_nanos(1)), Some(changed_at));
    for writer in [WriterState::Running, WriterState::Killed] {
        assert!(is_settled([anew, anew], writer, 0), "{writer:?}");
        assert!(!is_settled([anew, before], writer, 59) && !is_settled([anew, None], writer, 59), "{writer:?}");
        assert!(is_settled([before, None], writer, 60), "{writer:?}");
    }
    assert!(is_settled([before, None], WriterState::Ended, 0));
}

#[test]
fn what_is_marked_is_still_once_it_is_quiet_or_nobody_writes() {
    let (now, mut watch) = (time("2026-09-01T12:00:00Z"), DirectoryWatch::default());
    watch.observe(vec![DirectoryEntry { marked_at: Some(Timestamp::MAX), ..entry("step-1") }], now);
    let still = |writer, after| watch.steps(writer, now + after)[0].still;
    assert!(!still(WriterState::Running, SignedDuration::ZERO) && still(WriterState::Running, QUIET));
    assert!(still(WriterState::Ended, SignedDuration::ZERO) && still(WriterState::Killed, SignedDuration::ZERO));
}

#[test]
fn nothing_is_uploaded_that_is_not_newer() {
    let mut watch = DirectoryWatch::default();
    watch.observe(vec![entry("step-5")], time("2026-09-01T12:00:00Z"));
    let steps = watch.steps(WriterState::Ended, time("2026-09-01T12:00:00Z"));
    assert_eq!(to_upload(&steps, Some(5), None).next(), None);
    assert!(to_upload(&steps, Some(4), None).next().is_some());
}

fn at(attempt: u32, step: u64) -> Checkpoint {
    Checkpoint { attempt, step, rewrite: 0 }
}

/// What an attempt kept of a step that it had kept before.
fn again(attempt: u32, step: u64, rewrite: u32) -> Checkpoint {
    Checkpoint { rewrite, ..at(attempt, step) }
}

#[test]
fn what_head_does_not_name_is_not_restored() {
    assert_eq!(to_restore(&Head::default()), []);
    let named = |checkpoint, kept: &[Checkpoint]| Head { checkpoint, kept: kept.to_vec(), ..Head::default() };
    assert_eq!(to_restore(&named(None, &[at(1, 5)])), []);
    assert_eq!(to_restore(&named(Some(at(2, 10)), &[])), [at(2, 10)]);
    let kept = [at(1, 8_000), at(1, 9_000), at(2, 10_500)];
    assert_eq!(to_restore(&named(Some(at(2, 10_000)), &kept)), [at(2, 10_000), at(1, 9_000), at(1, 8_000)]);
}

#[test]
fn of_one_step_that_of_the_latest_attempt_is_the_newest() {
    let head = Head { checkpoint: Some(at(3, 1)), kept: vec![at(1, 1), at(2, 1), at(4, 1)], ..Head::default() };
    assert_eq!(to_restore(&head), [at(3, 1), at(2, 1), at(1, 1)]);
    assert_eq!(to_keep(&[at(1, 1), at(2, 1)], at(3, 1), Some(2), &[], &[]), [at(2, 1)]);
    let listed = [at(1, 1), at(2, 1), at(3, 1)].map(|checkpoint| StoredCheckpoint { checkpoint, whole: true });
    assert_eq!(to_prune(&listed, at(3, 1), &[at(2, 1)], 3), [at(1, 1)]);
}

#[test]
fn head_names_the_newest_and_no_more() {
    let counting = [at(1, 10), at(1, 20), at(2, 30)];
    assert_eq!(to_keep(&counting, at(2, 40), Some(3), &[], &[]), [at(2, 30), at(1, 20)]);
    assert_eq!(to_keep(&counting, at(2, 30), Some(3), &[], &[]), [at(1, 20), at(1, 10)]);
    assert_eq!(to_keep(&counting, at(2, 40), Some(1), &[], &[]), []);
    assert_eq!(to_keep(&counting, at(2, 40), Some(0), &[], &[]), []);
    assert_eq!(to_keep(&counting, at(2, 40), None, &[], &[]).len(), 3);
}

#[test]
fn beside_a_doubtful_one_head_names_a_certain_one() {
    let counting = [at(1, 10), at(1, 20), at(2, 30)];
    let check = |newest: u64, keep, unverified: &[u64], expect: &[u64]| {
        let unverified: Vec<Checkpoint> =
            [at(1, 20), at(2, 30), at(2, 40)].into_iter().filter(|one| unverified.contains(&one.step)).collect();
        let kept = to_keep(&counting, at(2, newest), Some(keep), &unverified, &[]);
        assert_eq!(kept.iter().map(|one| one.step).collect::<Vec<_>>(), expect, "{keep} {unverified:?}");
    };
    check(40, 1, &[40], &[30]);
    check(40, 1, &[40, 30], &[20]);
    check(40, 2, &[40, 30], &[30, 20]);
    check(40, 2, &[40, 30, 20], &[30, 10]);
    check(40, 3, &[40, 30], &[30, 20]);
    check(40, 2, &[40], &[30]);
    check(40, 1, &[30, 20], &[]);
    assert_eq!(to_keep(&[at(1, 20)], at(2, 40), Some(1), &[at(1, 20), at(2, 40)], &[]), [], "there is none");
}

/// Head as earlier versions wrote it, and as all do where nothing is doubtful.
#[test]
fn what_is_doubtful_is_in_head_only_where_something_is() {
    let text = serde_json::to_string(&Head { checkpoint: Some(at(1, 7)), ..Head::default() }).unwrap();
    assert!(!text.contains("unverified"));
    assert_eq!(serde_json::from_str::<Head>(&text).unwrap().unverified, []);
}

#[test]
fn what_an_attempt_keeps_of_a_step_again_has_a_place_of_its_own_and_is_newer() {
    assert_eq!(place_of(&[], 1, 1), at(1, 1));
    assert_eq!(place_of(&[at(1, 1), at(2, 1)], 2, 1), again(2, 1, 1));
    assert_eq!(place_of(&[again(2, 1, 1), at(2, 1), again(1, 1, 7), again(2, 2, 5)], 2, 1), again(2, 1, 2));
    let counting = [at(1, 1), at(2, 1), again(2, 1, 1)];
    assert_eq!(to_keep(&counting, again(2, 1, 2), Some(3), &[], &[]), [again(2, 1, 1), at(2, 1)]);
    let head = Head { checkpoint: Some(again(2, 1, 2)), kept: counting.to_vec(), ..Head::default() };
    assert_eq!(to_restore(&head), [again(2, 1, 2), again(2, 1, 1), at(2, 1), at(1, 1)]);
    let listed = [again(2, 1, 1), again(2, 1, 3)].map(|checkpoint| StoredCheckpoint { checkpoint, whole: false });
    assert_eq!(to_prune(&listed, again(2, 1, 2), &[], 2), [again(2, 1, 1)], "the next one may be on its way");
    assert!(manifest("step-7/a.pt", 9, 3).check(again(2, 7, 1)).is_err());
    assert_eq!(Manifest { rewrite: 1, ..manifest("step-7/a.pt", 9, 3) }.check(again(2, 7, 1)), Ok(()));
}

/// Head as earlier versions wrote it.
#[test]
fn a_checkpoint_that_was_never_written_over_is_written_as_before_there_were_rewrites() {
    let text = r#"{"attempt":2,"step":7}"#;
    assert_eq!(serde_json::from_str::<Checkpoint>(text).unwrap(), at(2, 7));
    assert_eq!(serde_json::to_string(&at(2, 7)).unwrap(), text);
    assert_eq!(serde_json::to_string(&again(2, 7, 3)).unwrap(), r#"{"attempt":2,"step":7,"rewrite":3}"#);
}

fn check_pruned(listed: &[(Checkpoint, bool)], kept: &[Checkpoint], expect: &[Checkpoint]) {
    let listed: Vec<StoredCheckpoint> =
        listed.iter().map(|(checkpoint, whole)| StoredCheckpoint { checkpoint: *checkpoint, whole: *whole }).collect();
    assert_eq!(to_prune(&listed, at(2, 40), kept, 2), expect);
}

#[test]
fn what_head_names_is_kept_and_what_never_counted_is_not() {
    let listed = [(at(1, 20), true), (at(1, 35), true), (at(2, 30), true), (at(2, 40), true), (at(3, 41), true)];
    check_pruned(&listed, &[at(1, 20), at(2, 30)], &[at(1, 35)]);
    check_pruned(&listed, &[], &[at(1, 20), at(1, 35), at(2, 30)]);
    check_pruned(&[(at(2, 41), true)], &[], &[at(2, 41)]);
}

#[test]
fn half_a_checkpoint_goes_unless_it_may_be_on_its_way() {
    check_pruned(&[(at(1, 15), false), (at(1, 99), false)], &[], &[at(1, 15), at(1, 99)]);
    check_pruned(&[(at(2, 39), false)], &[], &[at(2, 39)]);
    check_pruned(&[(at(2, 41), false), (at(3, 5), false)], &[], &[]);
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

#[test]
fn nothing_is_written_through_a_link_of_a_manifest() {
    let with = |path: &str, to: &str| Manifest {
        links: vec![ManifestLink { path: path.to_owned(), to: to.to_owned() }],
        folders: vec!["step-7/empty".to_owned()],
        ..manifest("step-7/deep/a.pt", 9, 3)
    };
    assert_eq!(with("step-7/latest", "deep").check(at(2, 7)), Ok(()));
    assert_eq!(with("step-7/elsewhere", "/mnt/data").check(at(2, 7)), Ok(()));
    for path in ["step-7/deep", "step-7", "step-7/deep/a.pt", "step-7/empty", "../a", "step-7/empty/b/.."] {
        assert!(with(path, "/etc").check(at(2, 7)).is_err(), "{path}");
    }
    for to in ["", "a\0b"] {
        assert!(with("step-7/latest", to).check(at(2, 7)).is_err(), "{to}");
    }
}

#[test]
fn a_manifest_is_that_of_its_place_and_stays_in_it() {
    assert_eq!(manifest("step-7/a.pt", 9, 3).check(at(2, 7)), Ok(()));
    assert!(manifest("step-7/a.pt", 9, 3).check(at(1, 7)).is_err());
    assert!(manifest("step-7/a.pt", 9, 2).check(at(2, 7)).is_err());
    assert!(manifest("../a.pt", 9, 3).check(at(2, 7)).is_err());
    assert!(Manifest { bytes: 8, ..manifest("a", 9, 3) }.check(at(2, 7)).is_err());
    assert!(Manifest { bytes: 0, files: Vec::new(), ..manifest("a", 9, 3) }.check(at(2, 7)).is_err());
    for path in ["/etc/passwd", "a//b", "a/./b", "a/..", "", "a\nb"] {
        assert!(check_path(path).is_err(), "{path}");
    }
}

#[test]
fn a_file_of_a_manifest_has_a_place_of_its_own() {
    let with = |path: &str| {
        let mut manifest = manifest("step-7/a", 9, 3);
        manifest
            .files
            .extend(manifest.clone().files.into_iter().map(|file| ManifestFile { path: path.to_owned(), ..file }));
        Manifest { bytes: 18, ..manifest }
    };
    assert_eq!(with("step-7/b").check(at(2, 7)), Ok(()));
    for path in ["step-7/a", "step-7/a/b", "step-7/a/b/c", "step-7"] {
        assert!(with(path).check(at(2, 7)).is_err(), "{path}");
    }
    for folder in ["step-7/a", "step-7/a/b"] {
        let with = Manifest { folders: vec![folder.to_owned()], ..manifest("step-7/a", 9, 3) };
        assert!(with.check(at(2, 7)).is_err(), "{folder}");
    }
    let below = vec![ManifestLink { path: "step-7/a/b".to_owned(), to: "c".to_owned() }];
    assert!(Manifest { links: below, ..manifest("step-7/a", 9, 3) }.check(at(2, 7)).is_err());
}

#[test]
fn sizes_that_no_number_holds_do_not_add_up() {
    let mut manifest = manifest("step-7/a", 1, 1);
    let huge = ManifestFile {
        path: "step-7/b".to_owned(),
        bytes: u64::MAX,
        part_bytes: u64::MAX,
        sha256: vec![String::new()],
    };
    (manifest.bytes, manifest.files) = (0, [manifest.files, vec![huge]].concat());
    assert!(manifest.check(at(2, 7)).is_err_and(|wrong| wrong.to_string().contains("do not add up")));
}

#[test]
fn a_file_has_no_more_parts_than_s3_takes() {
    const TERABYTES_5: u64 = 5 * 1024 * 1024 * 1024 * 1024;
    for bytes in [0, 1, 16 * 1024 * 1024, 16 * 1024 * 1024 + 1, TERABYTES_5] {
        let part_bytes = ManifestFile::part_bytes_of(bytes);
        let parts = ManifestFile::parts(bytes, part_bytes);
        assert!(parts.len() <= 10_000, "{bytes}");
        assert_eq!(parts.iter().map(|(_, length)| length).sum::<u64>(), bytes);
    }
}

/// As it was written before there were links and empty directories in it: it is restored for as long as a job may live.
#[test]
fn a_manifest_of_an_earlier_version_is_read() {
    let text = r#"{
        "schema": 1, "attempt": 2, "step": 7, "at": "2026-09-01T12:00:00Z", "bytes": 9,
        "files": [{"path": "step-7/a.pt", "bytes": 9, "part_bytes": 16777216, "sha256": ["ba7816bf"]}]
    }"#;
    let read: Manifest = serde_json::from_str(text).unwrap();
    let file = ManifestFile {
        path: "step-7/a.pt".to_owned(),
        bytes: 9,
        part_bytes: 16_777_216,
        sha256: vec!["ba7816bf".to_owned()],
    };
    assert_eq!(read, Manifest { files: vec![file], ..manifest("", 9, 0) });
    assert_eq!(read.check(at(2, 7)), Ok(()));
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

fn file(name: &str, bytes: u64) -> DirectoryEntry {
    DirectoryEntry { folder: false, bytes, ..entry(name) }
}

/// Number, entries, companions, and whether it is complete and unverified, of each checkpoint.
type Shown = (StepNumber, Vec<String>, Vec<String>, bool, bool);

fn shown(steps: Vec<CheckpointStep>) -> Vec<Shown> {
    let show = |step: CheckpointStep| (step.number, step.entries, step.companions, step.complete, step.unverified);
    steps.into_iter().map(show).collect()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

const LARGE: u64 = COMPANION_BYTES_MAX + 1;

#[test]
fn what_has_no_number_is_one_checkpoint_that_is_written_over() {
    let all = || vec![file("best.pt", 7), file("last.pt", 9), file("args.yaml", 3), entry("train"), file("a.tmp", 9)];
    let expect = |complete| {
        vec![(StepNumber::Snapshot, names(&["best.pt", "last.pt", "train"]), names(&["args.yaml"]), complete, false)]
    };
    assert_eq!(shown(watched(&[(0, all()), (59, all())], WriterState::Running)), expect(false));
    assert_eq!(shown(watched(&[(0, all()), (60, all())], WriterState::Running)), expect(true));
    // Text that is written each second says nothing of the weights.
    let table = |bytes| [all(), vec![file("results.csv", bytes)]].concat();
    let steps = watched(&[(0, table(1)), (59, table(2)), (60, table(3))], WriterState::Running);
    assert!(steps[0].complete && steps[0].companions.contains(&"results.csv".to_owned()));
}

#[test]
fn beside_numbers_only_what_is_large_and_later_is_a_checkpoint_by_itself() {
    let all = |last: u64| {
        vec![file("epoch=1.ckpt", 9), file("last.ckpt", last), file("latest", 9), file("model.json", LARGE)]
    };
    let small = (StepNumber::Named(1), names(&["epoch=1.ckpt"]), names(&["last.ckpt", "latest"]), true, false);
    assert_eq!(shown(watched(&[(0, all(9)), (900, all(9))], WriterState::Running)), [small]);
    let named = (StepNumber::Named(1), names(&["epoch=1.ckpt"]), names(&["latest"]), true, false);
    let at_once = [(0, all(LARGE)), (30, all(LARGE + 1)), (900, all(LARGE + 1))];
    assert_eq!(
        shown(watched(&at_once, WriterState::Running)),
        std::slice::from_ref(&named),
        "a copy of the newest step"
    );
    let later = [(0, all(LARGE)), (61, all(LARGE + 1)), (900, all(LARGE + 1))];
    let snapshot = (StepNumber::Snapshot, names(&["last.ckpt"]), names(&["latest"]), true, false);
    assert_eq!(shown(watched(&later, WriterState::Running)), [named, snapshot]);
    let included = DirectoryEntry { is_included: true, ..file("step-9.bin", LARGE) };
    let steps = watched(&[(0, vec![file("step-1", 9), included])], WriterState::Ended);
    assert_eq!(shown(steps)[0].2, names(&["step-9.bin"]), "it goes with each, whatever number it has");
}

#[test]
fn text_is_a_checkpoint_where_nothing_else_is_there_from_the_second_one_on() {
    let check = |looks: &[(i64, Vec<DirectoryEntry>)], expect: &[StepNumber]| {
        let steps = watched(looks, WriterState::Ended);
        assert_eq!(steps.iter().map(|step| step.number).collect::<Vec<_>>(), expect, "{looks:?}");
    };
    let (model, other) = (file("model_1.json", 9), file("model_2.json", 9));
    check(&[(0, vec![model.clone()])], &[]);
    check(&[(0, vec![model.clone(), other.clone()])], &[StepNumber::Named(2), StepNumber::Named(1)]);
    check(&[(0, vec![model.clone(), other.clone(), file("step-7.pt", 9)])], &[StepNumber::Named(7)]);
    check(&[(0, vec![file("metrics-1.csv", 9), file("metrics-2.csv", 9)])], &[]);
    let config = file("config.json", 3);
    check(&[(0, vec![file("model.txt", 9), config.clone()])], &[]);
    check(
        &[(0, vec![file("model.txt", 9), config.clone()]), (9, vec![file("model.txt", 12), config])],
        &[StepNumber::Snapshot],
    );
    let marked = DirectoryEntry { marked_at: Some(Timestamp::MAX), ..file("model.txt", 9) };
    check(&[(0, vec![marked])], &[StepNumber::Snapshot]);
}

#[test]
fn what_is_never_quiet_is_kept_at_a_pause_and_is_unverified() {
    let looks = |until: i64, pause: i64| -> Vec<(i64, Vec<DirectoryEntry>)> {
        let changes =
            (0..=until).step_by(10).map(|second| (second, vec![file("last.pt", 100 + u64::try_from(second).unwrap())]));
        let last = vec![file("last.pt", 100 + u64::try_from(until).unwrap())];
        changes.chain([(until + pause, last)]).collect()
    };
    let complete = |until, pause| {
        let step = watched(&looks(until, pause), WriterState::Running).remove(0);
        (step.complete, step.unverified)
    };
    assert_eq!(complete(160, 10), (false, false), "three minutes have to be over");
    assert_eq!(complete(180, 9), (false, false), "and a look");
    assert_eq!(complete(180, 10), (true, true));
    assert_eq!(complete(180, 60), (true, false), "a minute is a minute");
    // After a quiet minute, or once it was kept, the three minutes begin anew.
    let start = time("2026-09-01T12:00:00Z");
    let mut watch = DirectoryWatch::default();
    let mut look = |second: i64, bytes: u64, is_kept: bool| {
        let now = start + SignedDuration::from_secs(second);
        watch.observe(vec![file("last.pt", bytes)], now);
        if is_kept {
            watch.snapshot_was_kept(now);
        }
        watch.steps(WriterState::Running, now)[0].complete
    };
    assert!(!look(0, 1, false) && look(60, 1, false) && !look(185, 2, false) && !look(195, 2, false));
    for second in (200..380).step_by(10) {
        assert!(!look(second, u64::try_from(second).unwrap(), second == 370), "{second}");
    }
    assert!(!look(380, 370, false));
}

#[test]
fn of_ambiguous_names_the_last_to_be_written_is_the_newest() {
    let later = Timestamp::MAX;
    let all =
        vec![file("run3_90.pt", 9), DirectoryEntry { changed_at: later, ..file("run3_7.pt", 9) }, file("run3_5.pt", 9)];
    let steps = watched(&[(0, all)], WriterState::Ended);
    let upload = |kept, kept_at| to_upload(&steps, kept, kept_at).map(|step| step.number).collect::<Vec<_>>();
    assert_eq!(upload(None, None)[0], StepNumber::Ambiguous(7));
    assert_eq!(upload(Some(90), Some(later)), []);
    assert_eq!(upload(Some(90), Some(Timestamp::MIN))[0], StepNumber::Ambiguous(7));
    assert_eq!([StepNumber::Ambiguous(7).place(Some(90)), StepNumber::Ambiguous(7).place(None)], [90, 7]);
    assert_eq!(
        [StepNumber::Snapshot.place(Some(90)), StepNumber::Snapshot.place(None), StepNumber::Named(5).place(Some(90))],
        [90, 0, 5]
    );
    assert_eq!(overtaken(&steps, 90, &BTreeSet::new()), None);
}

#[test]
fn a_marker_may_say_the_step_of_what_has_no_number() {
    let marked = DirectoryEntry { marked_at: Some(Timestamp::MAX), marked_step: Some(500), ..file("last.pt", 9) };
    let steps = watched(&[(0, vec![marked])], WriterState::Running);
    assert_eq!((steps[0].number, steps[0].complete), (StepNumber::Named(500), true));
}

#[test]
fn a_command_goes_on_from_the_newest_that_is_not_called_best() {
    let path = |path: &str, bytes, second| PathOfStep {
        path: path.to_owned(),
        bytes,
        changed_at: Timestamp::from_second(second).unwrap(),
    };
    let check = |paths: &[PathOfStep], expect: Option<&str>| assert_eq!(resume_path(paths), expect, "{paths:?}");
    check(&[], None);
    check(
        &[path("w/best.pt", 9, 5), path("w/last.pt", 9, 4), path("w/a.csv", 9, 6), path("train.log", 9, 9)],
        Some("w/last.pt"),
    );
    check(&[path("best.pt", 9, 5), path("config.json", 9, 6)], Some("best.pt"));
    check(&[path("model.txt", 9, 5), path("a.json", 9, 6)], Some("a.json"));
    check(&[path("step-5", 9, 4), path("step-5.done", 0, 5)], Some("step-5"));
    check(&[path("model-5.pt", 9, 4), path("optimizer-5.pt", 9, 4)], Some("model-5.pt"));
}

#[test]
fn a_pointer_comes_back_with_the_step_that_it_points_to() {
    let check = |text: &str, expect| {
        let (entries, others) =
            (names(&["global_step500", "ckpt-50.index", "iter_0000050"]), names(&["global_step400", "iter_0000040"]));
        assert_eq!(points_to(text, &entries, &others), expect, "{text}");
    };
    check("global_step500", PointerTarget::This);
    check("global_step400\n", PointerTarget::Other);
    check("50", PointerTarget::This);
    check("40", PointerTarget::Other);
    check("41", PointerTarget::None);
    check("model_checkpoint_path: \"ckpt-50\"\nall_model_checkpoint_paths: \"ckpt-40\"", PointerTarget::This);
    check("global_step4000 my-ckpt-50 ckpt-500", PointerTarget::None);
    check("{\"hidden_size\": 7}", PointerTarget::None);
}

#[test]
fn what_a_framework_keeps_on_purpose_is_known_by_what_it_deletes_or_names() {
    let set = |steps: &[u64]| steps.iter().copied().collect::<BTreeSet<u64>>();
    assert_eq!(kept_by_framework(&set(&[1, 2, 3]), false, None), set(&[]));
    assert_eq!(kept_by_framework(&set(&[1, 2, 3]), false, Some(1)), set(&[1]));
    assert_eq!(kept_by_framework(&set(&[3, 5]), true, Some(4)), set(&[3, 5]));
    let state = "{\n  \"best_global_step\": 100,\n  \"best_model_checkpoint\": \"/data/out/checkpoint-100\",\n";
    assert_eq!(best_named(state), Some("checkpoint-100"));
    assert_eq!([best_named("{\"best_model_checkpoint\": null}"), best_named("{}")], [None, None]);
    let counting = [at(1, 10), at(1, 20), again(1, 20, 1), at(2, 30), at(2, 40)];
    assert_eq!(to_put_beside(&counting, at(2, 40), &set(&[20, 40, 99])), [again(1, 20, 1)]);
    let many: Vec<Checkpoint> = (0..9).map(|step| at(1, step)).collect();
    let found = to_put_beside(&many, at(2, 40), &(0..9).collect());
    assert_eq!(found.iter().map(|one| one.step).collect::<Vec<_>>(), [8, 3, 2, 1, 0]);
    assert_eq!(to_keep(&counting, at(2, 50), Some(1), &[], &[at(1, 10)]), [at(1, 10)]);
    assert_eq!(to_keep(&counting, at(2, 50), Some(2), &[], &[at(1, 10)]), [at(2, 40), at(1, 10)]);
}

#[test]
fn a_file_that_is_written_over_is_not_marked_by_what_marked_the_one_before() {
    let before = entry("step-1").changed_at - SignedDuration::from_nanos(1);
    let stale = DirectoryEntry { marked_at: Some(before), ..file("step-1", 9) };
    check(std::slice::from_ref(&stale), WriterState::Running, 0, None);
    check(&[DirectoryEntry { marked_at: Some(stale.changed_at), ..stale }], WriterState::Running, 0, Some(1));
}
