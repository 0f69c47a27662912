//! Which checkpoint is uploaded next, what was rewritten, and what a command resumes from.

use jiff::Timestamp;
use model::fixture::time;

use super::*;

#[test]
fn steps_are_compared_as_numbers() {
    let mut watch = DirectoryWatch::default();
    watch.observe(vec![entry("step-9000"), entry("step-10000")], time("2026-09-01T12:00:00Z"));
    let steps = watch.steps(WriterState::Ended, time("2026-09-01T12:00:00Z"));
    assert_eq!(
        UploadOrder::default().to_upload(&steps).next().map(|step| step.number.named().unwrap_or_default()),
        Some(10_000)
    );
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

/// After the step of that number was kept.
fn order_after(steps: &[CheckpointStep], kept: Option<u64>) -> UploadOrder {
    let mut order = UploadOrder::default();
    for step in steps.iter().filter(|step| kept.is_some() && step.number.named() == kept) {
        order.keep(step, std::slice::from_ref(step));
    }
    order
}

#[test]
fn the_best_is_uploaded_before_the_newest_while_it_is_newer_than_what_is_kept() {
    let mut watch = DirectoryWatch::default();
    let names = ["checkpoint-5", "checkpoint-10", "checkpoint-15"];
    watch.observe(names.map(entry).to_vec(), time("2026-09-01T12:00:00Z"));
    let steps = watch.steps(WriterState::Ended, time("2026-09-01T12:00:00Z"));
    let in_order = |kept, best| {
        let order = order_after(&steps, kept);
        let mut chosen: Vec<&CheckpointStep> = order.to_upload(&steps).collect();
        put_best_first(&mut chosen, best);
        chosen.iter().filter_map(|step| step.number.named()).collect::<Vec<_>>()
    };
    assert_eq!(in_order(None, None), [15, 10, 5]);
    assert_eq!(in_order(None, Some(15)), [15, 10, 5]);
    assert_eq!(in_order(None, Some(5)), [5, 15, 10]);
    assert_eq!(in_order(Some(5), Some(5)), [15, 10], "it is kept");
}

fn step(entry: DirectoryEntry) -> Vec<CheckpointStep> {
    let now = time("2026-09-01T12:00:00Z");
    let mut watch = DirectoryWatch::default();
    watch.observe(vec![entry], now);
    watch.steps(WriterState::Ended, now)
}

#[test]
fn a_rewrite_after_an_upload_is_noticed_and_a_deletion_is_not() {
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
fn an_overwritten_checkpoint_is_complete_by_a_marker_as_new_as_the_rest() {
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
fn the_last_written_of_ambiguous_names_is_the_newest() {
    let later = Timestamp::MAX;
    let all =
        vec![file("run3_90.pt", 9), DirectoryEntry { changed_at: later, ..file("run3_7.pt", 9) }, file("run3_5.pt", 9)];
    let steps = watched(&[(0, all)], WriterState::Ended);
    let upload = |order: UploadOrder| order.to_upload(&steps).map(|step| step.number).collect::<Vec<_>>();
    assert_eq!(upload(UploadOrder::default())[0], StepNumber::Ambiguous(7));
    assert_eq!(upload(order_after(&steps, Some(7))), []);
    assert_eq!(upload(order_after(&steps, Some(90)))[0], StepNumber::Ambiguous(7));
    assert_eq!([StepNumber::Ambiguous(7).place(Some(90)), StepNumber::Ambiguous(7).place(None)], [90, 7]);
    assert_eq!(
        [StepNumber::Snapshot.place(Some(90)), StepNumber::Snapshot.place(None), StepNumber::Named(5).place(Some(90))],
        [90, 0, 90]
    );
}

#[test]
fn a_command_resumes_from_the_newest_that_is_not_called_best() {
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
