//! What head names, in which order it is restored, and what is deleted.

use std::collections::BTreeSet;

use super::*;

#[test]
fn only_checkpoints_in_head_are_restored() {
    assert_eq!(to_restore(&Head::default()), []);
    let named = |checkpoint, kept: &[Checkpoint]| Head { checkpoint, kept: kept.to_vec(), ..Head::default() };
    assert_eq!(to_restore(&named(None, &[checkpoint_at(1, 5)])), []);
    assert_eq!(to_restore(&named(Some(checkpoint_at(2, 10)), &[])), [checkpoint_at(2, 10)]);
    let kept = [checkpoint_at(1, 8_000), checkpoint_at(1, 9_000), checkpoint_at(2, 10_500)];
    assert_eq!(
        to_restore(&named(Some(checkpoint_at(2, 10_000)), &kept)),
        [checkpoint_at(2, 10_000), checkpoint_at(1, 9_000), checkpoint_at(1, 8_000)]
    );
}

#[test]
fn the_latest_attempt_has_the_newest_checkpoint_of_a_step() {
    let head = Head {
        checkpoint: Some(checkpoint_at(3, 1)),
        kept: vec![checkpoint_at(1, 1), checkpoint_at(2, 1), checkpoint_at(4, 1)],
        ..Head::default()
    };
    assert_eq!(to_restore(&head), [checkpoint_at(3, 1), checkpoint_at(2, 1), checkpoint_at(1, 1)]);
    assert_eq!(
        to_keep(&[checkpoint_at(1, 1), checkpoint_at(2, 1)], checkpoint_at(3, 1), Some(2), &[], &[]),
        [checkpoint_at(2, 1)]
    );
    let listed = [checkpoint_at(1, 1), checkpoint_at(2, 1), checkpoint_at(3, 1)]
        .map(|checkpoint| StoredCheckpoint { checkpoint, whole: true });
    assert_eq!(to_prune(&listed, checkpoint_at(3, 1), &[checkpoint_at(2, 1)], 3), [checkpoint_at(1, 1)]);
}

#[test]
fn head_names_the_newest_and_no_more() {
    let counting = [checkpoint_at(1, 10), checkpoint_at(1, 20), checkpoint_at(2, 30)];
    assert_eq!(
        to_keep(&counting, checkpoint_at(2, 40), Some(3), &[], &[]),
        [checkpoint_at(2, 30), checkpoint_at(1, 20)]
    );
    assert_eq!(
        to_keep(&counting, checkpoint_at(2, 30), Some(3), &[], &[]),
        [checkpoint_at(1, 20), checkpoint_at(1, 10)]
    );
    assert_eq!(to_keep(&counting, checkpoint_at(2, 40), Some(1), &[], &[]), []);
    assert_eq!(to_keep(&counting, checkpoint_at(2, 40), Some(0), &[], &[]), []);
    assert_eq!(to_keep(&counting, checkpoint_at(2, 40), None, &[], &[]).len(), 3);
}

#[test]
fn head_names_a_verified_checkpoint_beside_an_unverified_one() {
    let counting = [checkpoint_at(1, 10), checkpoint_at(1, 20), checkpoint_at(2, 30)];
    let check = |newest: u64, keep, unverified: &[u64], expect: &[u64]| {
        let unverified: Vec<Checkpoint> = [checkpoint_at(1, 20), checkpoint_at(2, 30), checkpoint_at(2, 40)]
            .into_iter()
            .filter(|one| unverified.contains(&one.step))
            .collect();
        let kept = to_keep(&counting, checkpoint_at(2, newest), Some(keep), &unverified, &[]);
        assert_eq!(kept.iter().map(|one| one.step).collect::<Vec<_>>(), expect, "{keep} {unverified:?}");
    };
    check(40, 1, &[40], &[30]);
    check(40, 1, &[40, 30], &[20]);
    check(40, 2, &[40, 30], &[30, 20]);
    check(40, 2, &[40, 30, 20], &[30, 10]);
    check(40, 3, &[40, 30], &[30, 20]);
    check(40, 2, &[40], &[30]);
    check(40, 1, &[30, 20], &[]);
    assert_eq!(
        to_keep(
            &[checkpoint_at(1, 20)],
            checkpoint_at(2, 40),
            Some(1),
            &[checkpoint_at(1, 20), checkpoint_at(2, 40)],
            &[]
        ),
        [],
        "there is none"
    );
}

/// Head of earlier versions, and of all versions without unverified checkpoints.
#[test]
fn head_has_the_key_unverified_only_where_it_needs_it() {
    let text = serde_json::to_string(&Head { checkpoint: Some(checkpoint_at(1, 7)), ..Head::default() }).unwrap();
    assert!(!text.contains("unverified"));
    assert_eq!(serde_json::from_str::<Head>(&text).unwrap().unverified, []);
}

#[test]
fn a_rewritten_step_has_its_own_place_and_is_newer() {
    assert_eq!(place_of(&[], 1, 1), checkpoint_at(1, 1));
    assert_eq!(place_of(&[checkpoint_at(1, 1), checkpoint_at(2, 1)], 2, 1), again(2, 1, 1));
    assert_eq!(place_of(&[again(2, 1, 1), checkpoint_at(2, 1), again(1, 1, 7), again(2, 2, 5)], 2, 1), again(2, 1, 2));
    let counting = [checkpoint_at(1, 1), checkpoint_at(2, 1), again(2, 1, 1)];
    assert_eq!(to_keep(&counting, again(2, 1, 2), Some(3), &[], &[]), [again(2, 1, 1), checkpoint_at(2, 1)]);
    let head = Head { checkpoint: Some(again(2, 1, 2)), kept: counting.to_vec(), ..Head::default() };
    assert_eq!(to_restore(&head), [again(2, 1, 2), again(2, 1, 1), checkpoint_at(2, 1), checkpoint_at(1, 1)]);
    let listed = [again(2, 1, 1), again(2, 1, 3)].map(|checkpoint| StoredCheckpoint { checkpoint, whole: false });
    assert_eq!(to_prune(&listed, again(2, 1, 2), &[], 2), [again(2, 1, 1)], "the next one may be on its way");
    assert!(manifest("step-7/a.pt", 9, 3).check(again(2, 7, 1)).is_err());
    assert_eq!(Manifest { rewrite: 1, ..manifest("step-7/a.pt", 9, 3) }.check(again(2, 7, 1)), Ok(()));
}

/// Head as earlier versions wrote it.
#[test]
fn a_checkpoint_that_was_never_written_over_is_written_as_before_there_were_rewrites() {
    let text = r#"{"attempt":2,"step":7}"#;
    assert_eq!(serde_json::from_str::<Checkpoint>(text).unwrap(), checkpoint_at(2, 7));
    assert_eq!(serde_json::to_string(&checkpoint_at(2, 7)).unwrap(), text);
    assert_eq!(serde_json::to_string(&again(2, 7, 3)).unwrap(), r#"{"attempt":2,"step":7,"rewrite":3}"#);
}

fn check_pruned(listed: &[(Checkpoint, bool)], kept: &[Checkpoint], expect: &[Checkpoint]) {
    let listed: Vec<StoredCheckpoint> =
        listed.iter().map(|(checkpoint, whole)| StoredCheckpoint { checkpoint: *checkpoint, whole: *whole }).collect();
    assert_eq!(to_prune(&listed, checkpoint_at(2, 40), kept, 2), expect);
}

#[test]
fn checkpoints_in_head_stay_and_others_are_deleted() {
    let listed = [
        (checkpoint_at(1, 20), true),
        (checkpoint_at(1, 35), true),
        (checkpoint_at(2, 30), true),
        (checkpoint_at(2, 40), true),
        (checkpoint_at(3, 41), true),
    ];
    check_pruned(&listed, &[checkpoint_at(1, 20), checkpoint_at(2, 30)], &[checkpoint_at(1, 35)]);
    check_pruned(&listed, &[], &[checkpoint_at(1, 20), checkpoint_at(1, 35), checkpoint_at(2, 30)]);
    check_pruned(&[(checkpoint_at(2, 41), true)], &[], &[checkpoint_at(2, 41)]);
}

#[test]
fn a_partial_checkpoint_is_deleted_unless_it_may_be_uploading() {
    check_pruned(
        &[(checkpoint_at(1, 15), false), (checkpoint_at(1, 99), false)],
        &[],
        &[checkpoint_at(1, 15), checkpoint_at(1, 99)],
    );
    check_pruned(&[(checkpoint_at(2, 39), false)], &[], &[checkpoint_at(2, 39)]);
    check_pruned(&[(checkpoint_at(2, 41), false), (checkpoint_at(3, 5), false)], &[], &[]);
}

#[test]
fn retained_checkpoints_are_known_by_deletions_or_names() {
    let set = |steps: &[u64]| steps.iter().copied().collect::<BTreeSet<u64>>();
    assert_eq!(kept_by_framework(&set(&[1, 2, 3]), false, None), set(&[]));
    assert_eq!(kept_by_framework(&set(&[1, 2, 3]), false, Some(1)), set(&[1]));
    assert_eq!(kept_by_framework(&set(&[3, 5]), true, Some(4)), set(&[3, 5]));
    let state = "{\n  \"best_global_step\": 100,\n  \"best_model_checkpoint\": \"/data/out/checkpoint-100\",\n";
    assert_eq!(best_named(state), Some("checkpoint-100"));
    assert_eq!([best_named("{\"best_model_checkpoint\": null}"), best_named("{}")], [None, None]);
    let counting =
        [checkpoint_at(1, 10), checkpoint_at(1, 20), again(1, 20, 1), checkpoint_at(2, 30), checkpoint_at(2, 40)];
    assert_eq!(to_put_beside(&counting, checkpoint_at(2, 40), &set(&[20, 40, 99])), [again(1, 20, 1)]);
    let many: Vec<Checkpoint> = (0..9).map(|step| checkpoint_at(1, step)).collect();
    let found = to_put_beside(&many, checkpoint_at(2, 40), &(0..9).collect());
    assert_eq!(found.iter().map(|one| one.step).collect::<Vec<_>>(), [8, 3, 2, 1, 0]);
    assert_eq!(to_keep(&counting, checkpoint_at(2, 50), Some(1), &[], &[checkpoint_at(1, 10)]), [checkpoint_at(1, 10)]);
    assert_eq!(
        to_keep(&counting, checkpoint_at(2, 50), Some(2), &[], &[checkpoint_at(1, 10)]),
        [checkpoint_at(2, 40), checkpoint_at(1, 10)]
    );
}
