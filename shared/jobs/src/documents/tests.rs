use super::*;

fn checkpoint(attempt: u32) -> Checkpoint {
    Checkpoint { attempt, step: 10, rewrite: 0 }
}

fn head(attempt: u32, checkpoint: Option<Checkpoint>, kept: Vec<Checkpoint>) -> Head {
    Head { attempt, checkpoint, kept, ..Head::default() }
}

fn check(head: &Head, expect: Option<&str>) {
    assert_eq!(head.check().err(), expect.map(InvalidValue::new));
}

#[test]
fn a_head_names_nothing_that_cannot_be() {
    check(&Head::default(), None);
    check(&head(3, Some(checkpoint(3)), vec![checkpoint(2), checkpoint(1)]), None);
    let later = "it is of attempt 3, and names a checkpoint of attempt 4";
    check(&head(3, Some(checkpoint(4)), Vec::new()), Some(later));
    check(&head(3, None, vec![checkpoint(4)]), Some(later));
    check(&head(3, Some(checkpoint(0)), Vec::new()), Some("it is of attempt 3, and names a checkpoint of attempt 0"));
    check(&head(3, None, vec![checkpoint(1); 5_000]), Some("it names more than 500 checkpoints"));
    let unverified = Head { unverified: vec![checkpoint(1); 5_000], ..head(3, None, Vec::new()) };
    check(&unverified, Some("it names more than 500 checkpoints"));
    let result =
        HeadResult { succeeded: true, code: None, why: String::new(), at: Timestamp::UNIX_EPOCH, is_final: false };
    let nobodys = Head { result: Some(result), ..Head::default() };
    check(&nobodys, Some("it names a result, and no attempt that came to it"));
}

fn check_admits(result: Option<bool>, head_attempt: u32, attempt: u32, retry_of: u32, expect: bool) {
    let at = Timestamp::UNIX_EPOCH;
    let result = result.map(|succeeded| HeadResult { succeeded, code: None, why: String::new(), at, is_final: false });
    let mut head = Head { launch: "0a".to_owned(), result, ..head(head_attempt, None, Vec::new()) };
    assert_eq!(head.admits(attempt, "0b", retry_of), expect, "{head:?} {attempt} {retry_of}");
    if expect {
        head.claim(attempt, "0b");
        assert_eq!((head.attempt, head.launch.as_str(), &head.result), (attempt, "0b", &None));
    }
}

#[test]
fn only_a_retry_takes_the_fence_from_a_failure_and_nothing_from_a_success() {
    check_admits(None, 1, 2, 0, true);
    check_admits(Some(false), 1, 2, 0, false);
    check_admits(Some(false), 1, 2, 1, true);
    check_admits(Some(false), 1, 4, 3, true);
    check_admits(Some(false), 2, 3, 1, false);
    check_admits(Some(false), 3, 3, 2, false);
    check_admits(Some(true), 1, 2, 1, false);
}

#[test]
fn the_holder_of_the_fence_keeps_its_result() {
    let result =
        HeadResult { succeeded: false, code: Some(1), why: String::new(), at: Timestamp::UNIX_EPOCH, is_final: false };
    let mut head = Head { launch: "0a".to_owned(), result: Some(result), ..head(2, None, Vec::new()) };
    assert!(!head.admits(2, "0a", 1));
    head.claim(2, "0a");
    assert!(head.result.is_some());
}

#[test]
fn the_largest_head_of_an_agent_is_read() {
    let all: Vec<Checkpoint> = (0..=CHECKPOINTS_KEPT_MAX)
        .map(|index| Checkpoint { step: u64::from(index) + 10_000_000, ..checkpoint(1_000) })
        .collect();
    let largest = Head { unverified: all.clone(), ..head(1_000, Some(checkpoint(1_000)), all) };
    check(&largest, None);
    assert!(serde_json::to_vec(&largest).unwrap().len() < MACHINE_DOCUMENT_BYTES_MAX);
}

#[test]
fn a_heartbeat_and_an_exit_record_are_of_their_attempt() {
    let beat = |attempt, pace| Heartbeat {
        at: Timestamp::UNIX_EPOCH,
        attempt,
        step: None,
        steps_per_hour: pace,
        gpu_percent: None,
        doing: String::new(),
        warnings: Vec::new(),
        unsaved_seconds: None,
        gpus: None,
        trend: crate::telemetry::GpuTrend::default(),
        work: WorkSigns::default(),
        gpu_box: None,
    };
    assert_eq!(beat(2, Some(3.5)).check(2), Ok(()));
    assert_eq!(Heartbeat { gpu_percent: Some(100.0), ..beat(2, None) }.check(2), Ok(()));
    assert_eq!(
        beat(1, None).check(2),
        Err(InvalidValue::new("it says that it is of attempt 1, and lies at that of attempt 2"))
    );
    for impossible in [-1.0, 1e300, f64::NAN, f64::INFINITY] {
        assert!(beat(2, Some(impossible)).check(2).is_err(), "{impossible}");
        assert!(Heartbeat { gpu_percent: Some(impossible), ..beat(2, None) }.check(2).is_err(), "{impossible}");
    }
    let exit = ExitRecord {
        attempt: 2,
        at: Timestamp::UNIX_EPOCH,
        reason: ExitReason::Broken,
        code: None,
        why: String::new(),
        is_final: false,
    };
    assert_eq!((exit.check(2), exit.check(3).is_err()), (Ok(()), true));
}

#[test]
fn words_of_a_machine_are_one_short_line() {
    let line = clean_machine_text(&format!("full\n\u{1b}[2J{}", "x".repeat(16 * 1024 * 1024)));
    assert!(line.starts_with("full  [2Jxxx") && line.chars().count() == SAID_CHARACTERS_MAX + 1);
}
