//! What a framework says of the completeness of a checkpoint, beside it: trackers and flags; and data that goes with it.

use jiff::Timestamp;
use model::fixture::time;

use super::*;

fn at(second: i64) -> Timestamp {
    time("2026-09-01T12:00:00Z") + SignedDuration::from_secs(second)
}

fn written(name: &str, second: i64) -> DirectoryEntry {
    DirectoryEntry { begun_at: at(second), changed_at: at(second), ..entry(name) }
}

fn tracker(name: &str, step: u64) -> Tracker {
    Tracker::from_text(name, &format!("step-{step}"), &names(&["step-10", "step-20", "step-30"])).unwrap()
}

/// Number, completeness and uncertainty of each step, half an hour after the last look.
fn judged(looks: &[(Vec<DirectoryEntry>, Vec<Tracker>)], writer: WriterState) -> Vec<(u64, bool, bool)> {
    let mut watch = DirectoryWatch::default();
    for (second, (entries, trackers)) in (0..).zip(looks) {
        watch.observe(entries.clone(), at(second));
        watch.observe_trackers(trackers.clone());
    }
    let steps = watch.steps(writer, at(1800));
    steps.iter().filter_map(|step| Some((step.number.named()?, step.complete, step.unverified))).collect()
}

#[test]
fn what_the_tracker_does_not_name_yet_is_not_whole() {
    let both = || vec![written("step-20", 1), written("step-30", 2)];
    let look = |step| vec![(both(), vec![tracker("latest", step)])];
    let torn = [(30, false, false), (20, true, false)];
    assert_eq!(judged(&look(20), WriterState::Running), torn);
    assert_eq!(judged(&look(20), WriterState::Killed), torn);
    assert_eq!(judged(&look(20), WriterState::Ended), [(30, true, true), (20, true, false)]);
    assert_eq!(judged(&look(30), WriterState::Killed), [(30, true, false), (20, true, false)]);
    assert_eq!(judged(&look(10), WriterState::Running), [(30, true, false), (20, true, false)], "it never was there");
    let marked = DirectoryEntry { marked_at: Some(at(2)), ..written("step-30", 2) };
    let look = vec![(vec![written("step-20", 1), marked], vec![tracker("latest", 20)])];
    assert_eq!(
        judged(&look, WriterState::Running)[0],
        (30, false, false),
        "the framework does not take it, marked or not"
    );
}

#[test]
fn a_tracker_that_stays_behind_makes_steps_uncertain() {
    let all = vec![written("step-10", 1), written("step-20", 2), written("step-30", 3)];
    assert_eq!(
        judged(&[(all, vec![tracker("latest", 10)])], WriterState::Running),
        [(30, true, true), (20, true, true), (10, true, false)]
    );
}

#[test]
fn a_file_of_another_name_has_to_follow_the_checkpoints_first() {
    let (first, second) = (vec![written("step-10", 1)], vec![written("step-10", 1), written("step-20", 2)]);
    let third = vec![written("step-10", 1), written("step-20", 2), written("step-30", 3)];
    let looks = vec![
        (first, vec![tracker("where", 10)]),
        (second, vec![tracker("where", 20)]),
        (third.clone(), vec![tracker("where", 20)]),
    ];
    assert_eq!(judged(&looks, WriterState::Running)[0], (30, true, true), "it may be the result of an evaluation");
    assert_eq!(judged(&[(third, vec![tracker("where", 20)])], WriterState::Running)[0], (30, true, false));
}

#[test]
fn a_step_without_the_flag_of_the_others_is_not_whole() {
    let flag = DirectoryEntry { bytes: 0, ..file("step-20.done", 0) };
    let looks = vec![(vec![written("step-20", 1), flag, written("step-30", 2)], Vec::new())];
    assert_eq!(judged(&looks, WriterState::Running), [(30, false, false), (20, true, false)]);
    assert_eq!(judged(&looks, WriterState::Killed)[0], (30, false, false));
    assert_eq!(judged(&looks, WriterState::Ended)[0], (30, true, false));
    let held = [looks, vec![(vec![written("step-20", 1)], Vec::new())]].concat();
    assert_eq!(judged(&held, WriterState::Running), [(20, true, false)], "its flag was deleted with it");
}

#[test]
fn saves_of_one_epoch_are_checkpoints_of_their_own() {
    let save = |name: &str, second| DirectoryEntry { folder: false, ..written(name, second) };
    let entries = |all: Vec<DirectoryEntry>| -> Vec<Vec<String>> {
        watched(&[(0, all)], WriterState::Ended).into_iter().map(|step| step.entries).collect()
    };
    let all = vec![
        save("epoch=3-loss=0.52.ckpt", 0),
        save("epoch=3-loss=0.48.ckpt", 600),
        save("1epoch.pth", 0),
        save("2epoch.pth", 600),
    ];
    let expect: Vec<Vec<String>> = ["epoch=3-loss=0.48.ckpt", "epoch=3-loss=0.52.ckpt", "2epoch.pth", "1epoch.pth"]
        .iter()
        .map(|name| names(&[name]))
        .collect();
    assert_eq!(entries(all), expect);
    let torn_apart = vec![save("model_epoch_2.pt", 0), save("optimizer_epoch_2.pt", 600)];
    assert_eq!(entries(torn_apart).len(), 1, "a slow write");
    let parts = vec![save("epoch3-rank0.pt", 0), save("epoch3-rank1.pt", 5), save("opt_epoch3.bin", 600)];
    assert_eq!(entries(parts).len(), 1, "files of one save, and another kind of file");
    let again = vec![written("pretrain-step-10", 0), written("pretrain-step-20", 100), written("tune-step-10", 200)];
    assert_eq!(entries(again).len(), 3, "it counts again");
}

/// The state of each step after these looks, half an hour later.
fn states(looks: &[(i64, Vec<DirectoryEntry>)]) -> Vec<(Vec<String>, Vec<String>)> {
    let mut watch = DirectoryWatch::default();
    for (second, entries) in looks {
        watch.observe(entries.clone(), at(*second));
    }
    watch.steps(WriterState::Running, at(7200)).into_iter().map(|step| (step.entries, step.state)).collect()
}

#[test]
fn state_without_a_number_goes_with_the_step_that_it_was_written_with() {
    let state = |second| DirectoryEntry { bytes: 3 << 20, ..written("recipe_state", second) };
    let looks = vec![
        (1, vec![written("step-10", 0), state(1)]),
        (600, vec![written("step-10", 0), written("step-20", 600), state(601)]),
    ];
    let none: Vec<String> = Vec::new();
    assert_eq!(states(&looks), [(names(&["step-20"]), names(&["recipe_state"])), (names(&["step-10"]), none.clone())]);
    let copied = |name: &str, second| DirectoryEntry { begun_at: at(-9_000), ..written(name, second) };
    let looks_copied = vec![
        (1, vec![copied("step-10", 0), state(1)]),
        (600, vec![copied("step-10", 0), copied("step-20", 600), state(601)]),
    ];
    assert_eq!(states(&looks_copied)[0].1, names(&["recipe_state"]), "a copied file keeps its old time");
    let next =
        [looks.clone(), vec![(1200, vec![written("step-20", 600), written("step-30", 1200), state(601)])]].concat();
    assert_eq!(states(&next)[1], (names(&["step-20"]), names(&["recipe_state"])), "30 is being written");
    assert_eq!(states(&looks[..1]), [(names(&["step-10"]), names(&["recipe_state"]))]);
    let once = vec![(1, vec![written("step-10", 0), written("step-20", 600), state(1)])];
    assert_eq!(
        states(&once).iter().filter(|(_, state)| !state.is_empty()).count(),
        2,
        "what is written once goes with each"
    );
    for name in ["wandb", "last", "best_model"] {
        let copy = DirectoryEntry { bytes: 10, ..written(name, 1) };
        assert_eq!(states(&[(1, vec![written("step-10", 0), copy])])[0].1, none, "{name}");
    }
}

#[test]
fn a_step_waits_for_its_state_and_not_for_what_always_changes() {
    let state = |second| DirectoryEntry { bytes: 3 << 20, ..written("state", second) };
    let marked = |step: &str| DirectoryEntry { marked_at: Some(at(0)), ..written(step, 0) };
    let mut watch = DirectoryWatch::default();
    watch.observe(vec![marked("step-10"), state(0)], at(0));
    assert!(!watch.steps(WriterState::Running, at(59))[0].complete);
    assert!(watch.steps(WriterState::Running, at(60))[0].complete);
    for second in (10..=190).step_by(10) {
        watch.observe(vec![marked("step-10"), state(second)], at(second));
    }
    assert!(watch.steps(WriterState::Running, at(190))[0].complete);
    let left_out = |second| watch.summarize(WriterState::Running, at(second)).left_out;
    assert_eq!([left_out(190).as_deref(), left_out(250).as_deref()], [Some("state"), None]);
}

#[test]
fn what_lay_there_before_the_command_is_no_checkpoint_of_it() {
    let before = vec![written("pretrained-5000", 0), DirectoryEntry { bytes: 3 << 20, ..written("base", 0) }];
    let mut watch = DirectoryWatch::new(QUIET, before.clone());
    let look = |watch: &mut DirectoryWatch, entries: Vec<DirectoryEntry>| {
        watch.observe(entries, at(1));
        watch.steps(WriterState::Ended, at(1)).iter().map(|step| step.entries.clone()).collect::<Vec<_>>()
    };
    assert_eq!(look(&mut watch, before.clone()), Vec::<Vec<String>>::new());
    assert_eq!(look(&mut watch, [before.clone(), vec![written("step-10", 1)]].concat()), [names(&["step-10"])]);
    assert_eq!(
        look(&mut watch, vec![written("pretrained-5000", 9)]),
        [names(&["pretrained-5000"])],
        "it was written over"
    );
}
