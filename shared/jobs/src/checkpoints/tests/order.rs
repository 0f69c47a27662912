//! Which step is newer, by its number and by when it was written.

use model::fixture::time;

use super::*;

/// A checkpoint that was written at that minute.
fn written(name: &str, minute: i64) -> CheckpointStep {
    let at = time("2026-09-01T11:00:00Z") + SignedDuration::from_mins(minute);
    let mut watch = DirectoryWatch::default();
    watch.observe(vec![DirectoryEntry { begun_at: at, changed_at: at, bytes: 100, ..entry(name) }], at);
    watch.steps(WriterState::Ended, at).remove(0)
}

/// After that was kept beside `listed`.
fn kept(newest: &CheckpointStep, listed: &[CheckpointStep]) -> UploadOrder {
    let mut order = UploadOrder::default();
    order.keep(newest, listed);
    order
}

#[test]
fn a_higher_step_is_newer_and_an_older_one_is_passed() {
    let (passed, newest) = (written("step-10", 1), written("step-20", 2));
    let order = kept(&newest, &[newest.clone(), passed.clone()]);
    for (step, expect) in [
        (&newest, Precedence::Passed),
        (&passed, Precedence::Passed),
        (&written("step-30", 3), Precedence::Newer),
        // The result of an evaluation is written into it.
        (
            &CheckpointStep { changed_at: written("step-10", 9).changed_at, files: 2, ..passed.clone() },
            Precedence::Passed,
        ),
        (&written("step-10", 9), Precedence::CountsAgain),
    ] {
        assert_eq!(order.precedence(step), expect, "{step:?}");
    }
    assert_eq!(UploadOrder::default().precedence(&passed), Precedence::Newer);
}

#[test]
fn a_second_training_of_the_command_counts_again() {
    let first = written("pretrain-step-1000", 1);
    let mut order = kept(&first, std::slice::from_ref(&first));
    let second = [written("finetune-step-10", 2), written("finetune-step-20", 3)];
    assert_eq!(order.precedence(&second[0]), Precedence::CountsAgain);
    order.keep(&second[0], &[first.clone(), second[0].clone()]);
    assert_eq!([order.precedence(&first), order.precedence(&second[1])], [Precedence::Passed, Precedence::Newer]);
    assert_eq!(order.to_upload(&second).map(|step| step.number).collect::<Vec<_>>(), [StepNumber::Named(20)]);
    // What was being written beside the first is not passed with it.
    let torn = CheckpointStep { complete: false, ..written("finetune-step-10", 2) };
    assert_eq!(kept(&first, &[first.clone(), torn]).precedence(&second[0]), Precedence::CountsAgain);
}

#[test]
fn what_looks_otherwise_is_no_checkpoint_of_the_command() {
    let first = written("step-1000", 1);
    let order = kept(&first, std::slice::from_ref(&first));
    let small = CheckpointStep { bytes: 9, ..written("eval-step-10", 2) };
    for other in [
        written("predictions-10.npy", 2),
        CheckpointStep { bytes: 20, ..written("eval_epoch_1", 2) },
        written("best-step-500", 2),
        small,
    ] {
        assert_eq!(order.precedence(&other), Precedence::Foreign, "{:?}", other.entries);
    }
}

#[test]
fn a_lower_step_of_the_same_name_says_that_the_command_did_not_resume() {
    let resumed = || UploadOrder::resumed(written("step-30", 1), &[written("step-20", 0)], false);
    let mut order = resumed();
    assert_eq!(order.precedence(&written("step-10", 5)), Precedence::NotResumed);
    assert_eq!(order.precedence(&written("step-20", 0)), Precedence::Passed, "it was restored beside");
    assert_eq!(order.precedence(&written("step-20", 5)), Precedence::NotResumed, "it was written over");
    let slimmed = CheckpointStep { bytes: 40, ..written("step-20", 5) };
    assert_eq!(order.precedence(&slimmed), Precedence::Passed, "it was made smaller");
    let by_time = UploadOrder::resumed(written("CKPT+2026-10-25+02-30-00", 1), &[], false);
    assert_eq!(
        by_time.precedence(&written("CKPT+2026-10-25+02-05-00", 5)),
        Precedence::CountsAgain,
        "a clock may go back"
    );
    let again = UploadOrder::resumed(written("slot-2", 1), &[], true);
    assert_eq!(again.precedence(&written("slot-1", 5)), Precedence::CountsAgain);
    assert_eq!(order.precedence(&written("finetune-step-10", 5)), Precedence::CountsAgain);
    order.accept_new_count();
    assert_eq!(order.precedence(&written("step-10", 5)), Precedence::CountsAgain);
    let mut order = resumed();
    let next = written("step-40", 4);
    order.keep(&next, std::slice::from_ref(&next));
    assert_eq!(order.precedence(&written("step-10", 5)), Precedence::CountsAgain, "it has resumed, and counts again");
}

#[test]
fn a_step_that_counts_within_its_epoch_is_compared_by_that_first() {
    let last = written("epoch-1_step-200", 1);
    let order = UploadOrder::resumed(last, &[], false);
    assert_eq!(order.precedence(&written("epoch-2_step-100", 2)), Precedence::Newer);
    assert_eq!(order.precedence(&written("epoch-0_step-300", 2)), Precedence::NotResumed);
    let order = kept(&written("checkpoint-4000", 1), &[]);
    assert_eq!(
        order.precedence(&written("epoch-3", 2)),
        Precedence::CountsAgain,
        "icefall writes one at each end of an epoch"
    );
}

#[test]
fn a_dot_in_the_name_of_a_model_is_no_extension() {
    let order = kept(&written("llama-3.1-8b-pretrain-step-1000", 1), &[]);
    assert_eq!(order.precedence(&written("llama-3.1-8b-sft-step-10", 2)), Precedence::CountsAgain);
    assert_eq!(kept(&written("restart.2", 1), &[]).precedence(&written("restart.1", 2)), Precedence::CountsAgain);
}

#[test]
fn the_newest_is_uploaded_once_more_after_its_bucket_is_left() {
    let (passed, newest) = (written("step-10", 1), written("step-20", 2));
    let all = [newest.clone(), passed];
    let mut order = kept(&newest, &all);
    order.repeat_newest();
    let next = |order: &UploadOrder| order.to_upload(&all).map(|step| step.number).collect::<Vec<_>>();
    assert_eq!(next(&order), [StepNumber::Named(20)]);
    assert!(!order.counts_again_with(&newest));
    order.keep(&newest, &all);
    assert_eq!(next(&order), []);
    // A newer one takes its place.
    let later = written("step-30", 3);
    order.repeat_newest();
    order.keep(&later, &[later.clone(), newest.clone()]);
    assert_eq!(order.precedence(&newest), Precedence::Passed);
}
