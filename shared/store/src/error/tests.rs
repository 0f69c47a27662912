use super::*;

const ADDRESS: &str = "s3://curfew/activity/eu-central-1.json";

fn check(action: &'static str, code: Option<&str>, said: &str, sentence: &str) {
    assert_eq!(StoreError::call(action, ADDRESS.to_owned(), code, said).to_string(), sentence);
}

#[test]
fn a_failed_call_says_what_to_do() {
    check(
        "s3:GetObject",
        Some("AccessDenied"),
        "AccessDenied: Access Denied.",
        "s3:GetObject on s3://curfew/activity/eu-central-1.json failed: AccessDenied: Access Denied; grant the function's role \
         s3:GetObject on it, and s3:ListBucket on the bucket, without which an absent object looks forbidden",
    );
    check(
        "s3:PutObject",
        Some("AccessDenied"),
        "AccessDenied",
        "s3:PutObject on s3://curfew/activity/eu-central-1.json failed: AccessDenied; grant the function's role s3:PutObject on it, \
         and the use of the bucket's KMS key where it has one",
    );
    check(
        "s3:GetObject",
        Some("NoSuchBucket"),
        "NoSuchBucket: The specified bucket does not exist",
        "s3:GetObject on s3://curfew/activity/eu-central-1.json failed: NoSuchBucket: The specified bucket does not exist; set \
         CURFEW_BUCKET to the name of the state bucket",
    );
    check(
        "s3:PutObject",
        None,
        "dispatch failure: timed out",
        "s3:PutObject on s3://curfew/activity/eu-central-1.json failed: dispatch failure: timed out; the next run tries again",
    );
}

#[test]
fn what_aws_says_is_bounded() {
    let error = StoreError::call("s3:GetObject", ADDRESS.to_owned(), None, &"ä".repeat(100_000));
    assert!(error.to_string().chars().count() < 2 * SAID_CHARACTERS_MAX);
}

#[test]
fn a_source_is_said_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("dispatch failure")]
    struct Dispatch(#[source] Io);
    #[derive(Debug, thiserror::Error)]
    #[error("io error: refused")]
    struct Io(#[source] Refused);
    #[derive(Debug, thiserror::Error)]
    #[error("refused")]
    struct Refused;

    assert_eq!(sentence(&Dispatch(Io(Refused))), "dispatch failure: io error: refused");
}

#[test]
fn a_gap_names_the_call() {
    let lost = StoreError::Lost { address: ADDRESS.to_owned() };
    let gap = lost.gap(&Region::from("eu-central-1"));
    assert_eq!(gap.call, "s3:PutObject");
    assert_eq!(gap.kind, GapKind::Part);
    assert_eq!(
        gap.error,
        "s3://curfew/activity/eu-central-1.json was written by another run in the meantime, and not overwritten; the next run reads \
         it again"
    );
    let large = StoreError::TooLarge { address: ADDRESS.to_owned(), bytes: 2, bytes_max: 1 };
    assert_eq!(large.gap(&Region::from("eu-central-1")).call, "s3:GetObject");
}
