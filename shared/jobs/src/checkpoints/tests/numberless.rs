//! What has no number: a snapshot, a companion, or text.

use jiff::Timestamp;
use model::fixture::time;

use super::*;

/// Number, entries, companions, and whether it is complete and unverified, of each checkpoint.
type Shown = (StepNumber, Vec<String>, Vec<String>, bool, bool);

fn shown(steps: Vec<CheckpointStep>) -> Vec<Shown> {
    let show = |step: CheckpointStep| (step.number, step.entries, step.companions, step.complete, step.unverified);
    steps.into_iter().map(show).collect()
}

const LARGE: u64 = COMPANION_BYTES_MAX + 1;

#[test]
fn files_without_a_number_are_one_overwritten_checkpoint() {
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
fn beside_steps_only_a_large_later_file_is_its_own_checkpoint() {
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
fn constantly_written_files_are_kept_at_a_pause_as_unverified() {
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
fn a_marker_may_say_the_step_of_what_has_no_number() {
    let marked = DirectoryEntry { marked_at: Some(Timestamp::MAX), marked_step: Some(500), ..file("last.pt", 9) };
    let steps = watched(&[(0, vec![marked])], WriterState::Running);
    assert_eq!((steps[0].number, steps[0].complete), (StepNumber::Named(500), true));
}
